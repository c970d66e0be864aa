// Starts `tegula lsp`, keeps it up to date with what is typed, and gives code lenses a terminal: tegula.check of (path,
// kernel) runs `tegula check path kernel`.  It needs no other package: all of it is in this folder.
const vscode = require("vscode");
const { tmpdir } = require("os");
const { join } = require("path");
const { Connection } = require("./connection");
const { register, diagnostic, fromRange } = require("./features");

let server, found, reports, features = [];

const setting = (name) => vscode.workspace.getConfiguration("tegula").get(name);
const quoted = (word) => "'" + word.replaceAll("'", "'\\''") + "'";

function inTerminal(command, path, kernel, example) {
	const more = command === "report" ? ["-o", join(tmpdir(), `tegula-${kernel}.html`)] : [];
	const words = [setting("command"), command, path, kernel, ...(example === undefined ? [] : ["--example", example]), ...more];
	const terminal = vscode.window.terminals.find((t) => t.name === "tegula") || vscode.window.createTerminal("tegula");
	terminal.show(true);
	terminal.sendText(words.map(quoted).join(" "));
	if (command === "report") terminal.sendText(`xdg-open ${quoted(more[1])} 2>/dev/null || open ${quoted(more[1])}`);
}

const isOurs = (document) => document.languageId === "tegula";
const name = (document) => ({ uri: document.uri.toString() });

function opened(document) {
	if (isOurs(document)) server.notify("textDocument/didOpen", { textDocument: { ...name(document), languageId: "tegula",
		version: document.version, text: document.getText() } });
}

function changed({ document, contentChanges }) {
	if (isOurs(document) && contentChanges.length) server.notify("textDocument/didChange", {
		textDocument: { ...name(document), version: document.version },
		contentChanges: contentChanges.map((c) => ({ range: fromRange(c.range), text: c.text })) });
}

function closed(document) {
	if (isOurs(document)) server.notify("textDocument/didClose", { textDocument: name(document) });
}

function saved(document) {
	if (isOurs(document)) server.notify("textDocument/didSave", { textDocument: name(document) });
}

function notified(method, params) {
	if (method === "textDocument/publishDiagnostics")
		found.set(vscode.Uri.parse(params.uri), params.diagnostics.map(diagnostic));
}

async function ended(why) {
	reports.appendLine(`tegula lsp: ${why}`);
	found.clear();
	const again = await vscode.window.showErrorMessage(
		`Tegula's language server does not run: ${why}. The setting tegula.command names the command.`, "Start again");
	if (again) await start();
}

async function start() {
	await stop();
	server = new Connection(setting("command"), ["lsp"], notified, ended);
	const mine = server;
	try {
		const { capabilities } = await mine.request("initialize", { processId: process.pid, rootUri: null,
			capabilities: {}, initializationOptions: { target: setting("target") } });
		if (mine !== server) return;
		mine.notify("initialized", {});
		features = register((method, params) => mine.request(method, params), capabilities);
		vscode.workspace.textDocuments.forEach(opened);
	} catch (e) {
		reports.appendLine(`tegula lsp: ${e.message}`); // ended() has said it
	}
}

async function stop() {
	const old = server;
	for (const f of features) f.dispose();
	features = [];
	server = undefined;
	if (old) await old.stop();
}

function activate(context) {
	found = vscode.languages.createDiagnosticCollection("tegula");
	reports = vscode.window.createOutputChannel("Tegula");
	const whileUp = (f) => (event) => features.length && f(event);
	context.subscriptions.push(found, reports,
		...["run", "check", "inspect", "bench", "report"].map((command) => vscode.commands.registerCommand("tegula." + command,
			(...of) => inTerminal(command, ...of))),
		vscode.commands.registerCommand("tegula.restart", start),
		vscode.workspace.onDidOpenTextDocument(whileUp(opened)), vscode.workspace.onDidChangeTextDocument(whileUp(changed)),
		vscode.workspace.onDidCloseTextDocument(whileUp(closed)), vscode.workspace.onDidSaveTextDocument(whileUp(saved)),
		vscode.workspace.onDidChangeConfiguration((e) => e.affectsConfiguration("tegula") && start()));
	return start();
}

module.exports = { activate, deactivate: stop };
