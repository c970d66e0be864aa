// The extension, unpacked from its .vsix, against the real `tegula lsp`, with a stand-in for the `vscode` module that refuses what
// VS Code refuses: node vscode.js FOLDER TEGULA.  Prints "good", or throws.
const assert = require("node:assert");
const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");

class Position {
	constructor(line, character) {
		assert(Number.isInteger(line) && line >= 0 && Number.isInteger(character) && character >= 0, "a position has two numbers");
		Object.assign(this, { line, character });
	}
	before(p) { return this.line < p.line || (this.line === p.line && this.character <= p.character); }
}
class Range {
	constructor(start, end) {
		assert(start instanceof Position && end instanceof Position && start.before(end), "a range has two positions in order");
		Object.assign(this, { start, end });
	}
	contains(r) { return this.start.before(r.start) && r.end.before(this.end); }
}
class Uri {
	static parse(text) {
		const m = /^file:\/\/(\/.*)$/.exec(text);
		assert(m, `a URI of a file, not ${text}`);
		return Object.assign(new Uri(), { fsPath: decodeURIComponent(m[1]) });
	}
	static file(fsPath) { return Object.assign(new Uri(), { fsPath }); }
	toString() { return "file://" + encodeURIComponent(this.fsPath).replaceAll("%2F", "/").replace(/[!'()*]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase()); }
}
// A class whose constructor takes these fields, each of a class, a type or anything.
const plain = (...fields) => class {
	constructor(...values) {
		fields.forEach(([name, kind], i) => {
			const ok = !kind || (typeof kind === "string" ? typeof values[i] === kind : values[i] instanceof kind);
			assert(ok, `${name} is ${values[i]}`);
			this[name] = values[i];
		});
	}
};
class DocumentSymbol extends plain(["name", "string"], ["detail", "string"], ["kind", "number"], ["range", Range], ["selectionRange", Range]) {
	constructor(...of) {
		super(...of);
		assert(this.name, "a symbol has a name");
		assert(this.range.contains(this.selectionRange), "selectionRange must be contained in fullRange");
	}
}
class WorkspaceEdit {
	constructor() { this.edits = new Map(); }
	set(uri, edits) { assert(uri instanceof Uri && edits.every((e) => e instanceof vscode.TextEdit)); this.edits.set(uri.toString(), edits); }
}
const events = {}, providers = {}, commands = {}, sent = [], messages = [], found = new Map(), documents = [];
const settings = { command: process.argv[3], target: "sm_80" };
const disposable = (undo) => ({ dispose: undo });
const event = (name) => (f) => { (events[name] ||= []).push(f); return disposable(() => {}); };
const fire = (name, what) => events[name].map((f) => f(what));
const provider = (name) => (selector, p, ...more) => {
	assert.deepEqual(selector, { language: "tegula" });
	providers[name] = { ...p, more };
	return disposable(() => delete providers[name]);
};
const vscode = {
	Position, Range, Uri, DocumentSymbol, WorkspaceEdit,
	Location: plain(["uri", Uri], ["range", Range]), TextEdit: plain(["range", Range], ["newText", "string"]),
	Diagnostic: plain(["range", Range], ["message", "string"], ["severity", "number"]),
	DiagnosticRelatedInformation: plain(["location"], ["message", "string"]),
	CompletionItem: plain(["label", "string"], ["kind", "number"]), MarkdownString: plain(["value", "string"]), Hover: plain(["contents"], ["range"]),
	SignatureHelp: class {}, SignatureInformation: plain(["label", "string"], ["documentation"]), ParameterInformation: plain(["label", "string"]),
	CodeAction: plain(["title", "string"], ["kind"]), CodeActionKind: { QuickFix: { value: "quickfix" } },
	DocumentHighlight: plain(["range", Range], ["kind", "number"]), FoldingRange: plain(["start", "number"], ["end", "number"], ["kind"]),
	FoldingRangeKind: { Comment: 1 }, SemanticTokens: plain(["data", Uint32Array]), SemanticTokensLegend: plain(["tokenTypes", Array], ["tokenModifiers", Array]),
	InlayHint: plain(["position", Position], ["label", "string"]), CodeLens: plain(["range", Range], ["command"]),
	window: {
		terminals: [], createTerminal: () => ({ show() {}, sendText: (t) => sent.push(t) }),
		createOutputChannel: () => ({ appendLine: (l) => messages.push(l), dispose() {} }),
		showErrorMessage: (text) => { messages.push(text); return Promise.resolve(vscode.answer); },
	},
	workspace: {
		getConfiguration: (s) => { assert.equal(s, "tegula"); return { get: (n) => settings[n] }; }, textDocuments: documents,
		onDidOpenTextDocument: event("open"), onDidChangeTextDocument: event("change"), onDidCloseTextDocument: event("close"),
		onDidSaveTextDocument: event("save"), onDidChangeConfiguration: event("configure"),
	},
	languages: { createDiagnosticCollection: () => ({
		set: (uri, all) => found.set(uri.toString(), all), clear: () => found.clear(), dispose() {} }) },
	commands: { registerCommand: (name, f) => { assert(!commands[name]); commands[name] = f; return disposable(() => delete commands[name]); } },
};
for (const name of ["Hover", "CompletionItem", "SignatureHelp", "Definition", "Reference", "DocumentHighlight", "Rename", "DocumentSymbol",
	"FoldingRange", "DocumentSemanticTokens", "DocumentFormattingEdit", "InlayHints", "CodeLens", "CodeActions"])
	vscode.languages[`register${name}Provider`] = provider(name);

// A text that is edited as the editor does it: the change event comes once the document has it.
class Document {
	constructor(file, text) {
		Object.assign(this, { uri: Uri.file(file), languageId: "tegula", version: 1, text });
		documents.push(this);
	}
	getText() { return this.text; }
	positionAt(i) { const before = this.text.slice(0, i).split("\n"); return new Position(before.length - 1, before.at(-1).length); }
	at(word, nth = 0) { let i = -1; do i = this.text.indexOf(word, i + 1); while (nth-- > 0); assert(i >= 0, word); return this.positionAt(i); }
	offset(p) { return this.text.split("\n").slice(0, p.line).reduce((n, l) => n + l.length + 1, 0) + p.character; }
	read(r) { return this.text.slice(this.offset(r.start), this.offset(r.end)); }
	validateRange(r) { const end = this.positionAt(this.text.length); return new Range(r.start, r.end.before(end) ? r.end : end); }
	replace(word, by) {
		const i = this.text.indexOf(word), range = new Range(this.positionAt(i), this.positionAt(i + word.length));
		this.text = this.text.slice(0, i) + by + this.text.slice(i + word.length);
		this.version++;
		fire("change", { document: this, contentChanges: [{ range, text: by, rangeOffset: i, rangeLength: word.length }] });
	}
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function until(condition, what) {
	for (let i = 0; i < 400 && !condition(); i++) await pause(25);
	assert(condition(), what);
}

async function main() {
	const folder = process.argv[2], load = Module._load;
	Module._load = (name, ...more) => name === "vscode" ? vscode : load(name, ...more);
	const manifest = JSON.parse(fs.readFileSync(path.join(folder, "package.json")));
	const extension = require(path.join(folder, manifest.main));
	const source = fs.readFileSync(path.join(__dirname, "../../dsl_examples/softmax.tgl"), "utf8");
	const d = new Document("/nowhere/é (it's)/softmax.tgl", source);
	new Document("/nowhere/readme.md", "# text").languageId = "markdown";
	const context = { subscriptions: [] };
	await extension.activate(context);
	for (const { command } of manifest.contributes.commands) assert(commands[command], command);

	// As one types: an error, its quick fix, and back.
	const problems = () => found.get(d.uri.toString());
	await until(() => problems(), "nothing is said of the file");
	assert.deepEqual(problems(), []);
	d.replace("exp(", "exq(");
	await until(() => problems().length === 1, "an error");
	assert.equal(problems()[0].code, "E0205");
	assert.equal(problems()[0].severity, 0);
	assert.equal(d.read(problems()[0].range), "exq");
	const [fix] = await providers.CodeActions.provideCodeActions(d, problems()[0].range);
	const [[uri, [edit]]] = fix.edit.edits;
	assert.deepEqual([uri, d.read(edit.range), edit.newText], [d.uri.toString(), "exq", "exp"]);
	d.replace("exq(", "exp(");
	await until(() => problems().length === 0, "the error is gone");

	const at = (word, nth) => d.at(word, nth);
	const hover = await providers.Hover.provideHover(d, at("exp("));
	assert.match(hover.contents.value, /exp/);
	const completions = await providers.CompletionItem.provideCompletionItems(d, at("exp("));
	assert(completions.some((c) => c.label === "exp" && c.kind === 2) && completions.some((c) => c.label === "kernel" && c.kind === 13));
	const signature = await providers.SignatureHelp.provideSignatureHelp(d, at("v - max"));
	assert.match(signature.signatures[signature.activeSignature].label, /^exp\(/);
	const [definition] = await providers.Definition.provideDefinition(d, at("v - max"));
	assert.deepEqual([definition.uri.toString(), d.read(definition.range)], [d.uri.toString(), "v"]);
	const references = await providers.Reference.provideReferences(d, at("v - max"), { includeDeclaration: true });
	assert(references.length === 3 && references.every((r) => d.read(r.range) === "v"), "references");
	assert((await providers.DocumentHighlight.provideDocumentHighlights(d, at("v - max"))).length === 3);
	assert.equal(d.read(await providers.Rename.prepareRename(d, at("v - max"))), "v");
	await assert.rejects(providers.Rename.prepareRename(d, at("kernel")), /cannot be renamed/);
	const renamed = await providers.Rename.provideRenameEdits(d, at("v - max"), "row_values");
	assert([...renamed.edits.values()][0].every((e) => e.newText === "row_values"));
	const symbols = await providers.DocumentSymbol.provideDocumentSymbols(d);
	const kernel = symbols.find((s) => s.name === "softmax" && s.detail === "kernel");
	assert(kernel.range.end.line > kernel.selectionRange.end.line && d.read(kernel.selectionRange) === "softmax", "symbols");
	assert((await providers.FoldingRange.provideFoldingRanges(d)).length > 1);
	const tokens = await providers.DocumentSemanticTokens.provideDocumentSemanticTokens(d);
	assert(tokens.data.length > 20 && tokens.data.length % 5 === 0);
	const [legend] = providers.DocumentSemanticTokens.more;
	assert(tokens.data.every((n, i) => i % 5 !== 3 || n < legend.tokenTypes.length));
	assert.deepEqual(await providers.DocumentFormattingEdit.provideDocumentFormattingEdits(d, {}), []);
	d.replace("let e", "let  e");
	const [formatted] = await providers.DocumentFormattingEdit.provideDocumentFormattingEdits(d, {});
	assert.equal(formatted.newText, source);
	assert.equal(d.read(formatted.range), d.text);
	const hints = await providers.InlayHints.provideInlayHints(d, new Range(new Position(0, 0), d.positionAt(d.text.length)));
	assert(hints.some((h) => /sectors/.test(h.label) && h.tooltip === "sm_80"), "hints for the target that is set");
	const lenses = await providers.CodeLens.provideCodeLenses(d);
	for (const title of ["run", "check", "inspect", "bench", "report"])
		assert(lenses.some((l) => l.command.title === title && commands[l.command.command]), title);

	// Lenses run commands in a terminal; every word is quoted.
	commands["tegula.run"]("it's.tgl", "k", "");
	assert.equal(sent.pop(), `'${settings.command}' 'run' 'it'\\''s.tgl' 'k' '--example' ''`);
	commands["tegula.report"]("a.tgl", "k");
	assert.match(sent[0], /'report' 'a.tgl' 'k' '-o' '.*tegula-k.html'$/);

	// Another target; a crash, and the start again; a command that is not there.
	settings.target = "sm_90a";
	await Promise.all(fire("configure", { affectsConfiguration: (s) => s === "tegula" }));
	const again = await providers.InlayHints.provideInlayHints(d, new Range(new Position(0, 0), d.positionAt(d.text.length)));
	assert(again.every((h) => h.tooltip === "sm_90a"));
	vscode.answer = "Start again";
	const children = () => fs.readdirSync("/proc").filter((p) => /^\d+$/.test(p)).filter((p) => {
		try {
			const stat = fs.readFileSync(`/proc/${p}/stat`, "utf8");
			return Number(stat.slice(stat.lastIndexOf(")") + 4).split(" ")[0]) === process.pid && !/\) Z/.test(stat);
		} catch { return false; }
	});
	const [child, ...others] = children();
	assert(child && others.length === 0, "one server");
	process.kill(Number(child), "SIGSEGV");
	await until(() => messages.some((m) => /ended with SIGSEGV/.test(m)), "the crash is reported");
	await until(() => providers.Hover && problems(), "it runs again");
	assert.match((await providers.Hover.provideHover(d, at("exp("))).contents.value, /exp/);
	vscode.answer = undefined;
	settings.command = "/none/tegula";
	await Promise.all(fire("configure", { affectsConfiguration: (s) => s === "tegula" }));
	await until(() => messages.some((m) => /there is no command '\/none\/tegula'/.test(m)), "a missing command is reported");
	assert(!providers.Hover && fire("close", d), "nothing answers then");
	settings.command = process.argv[3];
	await commands["tegula.restart"]();
	assert(providers.Hover, "it can be started by hand");
	fire("close", d);
	await until(() => problems()?.length === 0, "closed");
	await extension.deactivate();
	assert.equal(children().length, 0, "no server is left");
	for (const s of context.subscriptions) s.dispose();
	console.log("good");
}

main().catch((e) => { console.error(e); process.exit(1); });
