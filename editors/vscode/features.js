// What `tegula lsp` answers, as VS Code's classes: a provider for each request that the server says it can answer.
const vscode = require("vscode");

const selector = { language: "tegula" };

const position = (p) => new vscode.Position(p.line, p.character);
const range = (r) => new vscode.Range(position(r.start), position(r.end));
const location = (l) => new vscode.Location(vscode.Uri.parse(l.uri), range(l.range));
const list = (of, make) => (of || []).map(make);
const fromPosition = (p) => ({ line: p.line, character: p.character });
const fromRange = (r) => ({ start: fromPosition(r.start), end: fromPosition(r.end) });

// Kinds and severities count from 1 in the protocol, from 0 here; a completion's kind "text" is the first in the protocol.
function diagnostic(d) {
	const made = new vscode.Diagnostic(range(d.range), d.message, d.severity - 1);
	made.code = d.code;
	made.source = d.source;
	made.relatedInformation = list(d.relatedInformation,
		(r) => new vscode.DiagnosticRelatedInformation(location(r.location), r.message));
	return made;
}

function workspaceEdit(e) {
	const made = new vscode.WorkspaceEdit();
	for (const [uri, edits] of Object.entries(e.changes))
		made.set(vscode.Uri.parse(uri), edits.map((x) => new vscode.TextEdit(range(x.range), x.newText)));
	return made;
}

function completion(c) {
	const made = new vscode.CompletionItem(c.label, c.kind - 1);
	made.detail = c.detail;
	made.documentation = c.documentation;
	return made;
}

function signatureHelp(h) {
	const made = new vscode.SignatureHelp();
	made.activeSignature = h.activeSignature;
	made.activeParameter = h.activeParameter;
	made.signatures = h.signatures.map((s) => {
		const one = new vscode.SignatureInformation(s.label, s.documentation);
		one.parameters = s.parameters.map((p) => new vscode.ParameterInformation(p.label));
		return one;
	});
	return made;
}

function action(a) {
	const made = new vscode.CodeAction(a.title, vscode.CodeActionKind.QuickFix);
	made.diagnostics = list(a.diagnostics, diagnostic);
	made.isPreferred = a.isPreferred;
	made.edit = workspaceEdit(a.edit);
	return made;
}

function symbol(s) {
	return new vscode.DocumentSymbol(s.name, s.detail, s.kind - 1, range(s.range), range(s.selectionRange));
}

function hint(h) {
	const made = new vscode.InlayHint(position(h.position), h.label);
	made.paddingLeft = h.paddingLeft;
	made.tooltip = h.tooltip;
	return made;
}

// Where a command leads: code lenses carry path, kernel and, of an example, its label.
const lens = (l) => new vscode.CodeLens(range(l.range), l.command);

// Registers everything; ask(method, params) is the server's answer, `can` what it said of itself.
function register(ask, can) {
	const of = (document, more) => ({ textDocument: { uri: document.uri.toString() }, ...more });
	const at = (document, p, more) => of(document, { position: fromPosition(p), ...more });
	const get = (method, params, make) => ask("textDocument/" + method, params).then((r) => r === null ? null : make(r));
	const L = vscode.languages;
	const { legend } = can.semanticTokensProvider;
	return [
		L.registerHoverProvider(selector, { provideHover: (d, p) => get("hover", at(d, p),
			(h) => new vscode.Hover(new vscode.MarkdownString(h.contents.value), h.range && range(h.range))) }),
		L.registerCompletionItemProvider(selector, { provideCompletionItems: (d, p) => get("completion", at(d, p),
			(c) => c.map(completion)) }, ...can.completionProvider.triggerCharacters || []),
		L.registerSignatureHelpProvider(selector, { provideSignatureHelp: (d, p) => get("signatureHelp", at(d, p), signatureHelp) },
			...can.signatureHelpProvider.triggerCharacters),
		L.registerDefinitionProvider(selector, { provideDefinition: (d, p) => get("definition", at(d, p),
			(l) => [].concat(l).map(location)) }),
		L.registerReferenceProvider(selector, { provideReferences: (d, p, context) => get("references",
			at(d, p, { context: { includeDeclaration: context.includeDeclaration } }), (l) => l.map(location)) }),
		L.registerDocumentHighlightProvider(selector, { provideDocumentHighlights: (d, p) => get("documentHighlight", at(d, p),
			(h) => h.map((one) => new vscode.DocumentHighlight(range(one.range), one.kind - 1))) }),
		L.registerRenameProvider(selector, {
			provideRenameEdits: (d, p, newName) => get("rename", at(d, p, { newName }), workspaceEdit),
			prepareRename: (d, p) => get("prepareRename", at(d, p), (r) => range(r.range || r)).then((r) => {
				if (!r) throw new Error("this cannot be renamed");
				return r;
			}),
		}),
		L.registerDocumentSymbolProvider(selector, { provideDocumentSymbols: (d) => get("documentSymbol", of(d), (s) => s.map(symbol)) }),
		L.registerFoldingRangeProvider(selector, { provideFoldingRanges: (d) => get("foldingRange", of(d),
			(f) => f.map((one) => new vscode.FoldingRange(one.startLine, one.endLine,
				one.kind === "comment" ? vscode.FoldingRangeKind.Comment : undefined))) }),
		L.registerDocumentSemanticTokensProvider(selector, { provideDocumentSemanticTokens: (d) => get("semanticTokens/full", of(d),
			(t) => new vscode.SemanticTokens(new Uint32Array(t.data))) },
			new vscode.SemanticTokensLegend(legend.tokenTypes, legend.tokenModifiers)),
		L.registerDocumentFormattingEditProvider(selector, { provideDocumentFormattingEdits: (d, options) => get("formatting",
			of(d, { options }), (e) => e.map((x) => new vscode.TextEdit(d.validateRange(range(x.range)), x.newText))) }),
		L.registerInlayHintsProvider(selector, { provideInlayHints: (d, r) => get("inlayHint", of(d, { range: fromRange(r) }),
			(h) => h.map(hint)) }),
		L.registerCodeLensProvider(selector, { provideCodeLenses: (d) => get("codeLens", of(d), (l) => l.map(lens)) }),
		L.registerCodeActionsProvider(selector, { provideCodeActions: (d, r) => get("codeAction",
			of(d, { range: fromRange(r), context: { diagnostics: [] } }), (a) => a.map(action)) },
			{ providedCodeActionKinds: [vscode.CodeActionKind.QuickFix] }),
	];
}

module.exports = { register, diagnostic, fromRange };
