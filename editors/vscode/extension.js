// Starts `tegula lsp` and gives code lenses a terminal: tegula.check of (path, kernel) runs `tegula check path kernel`.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function inTerminal(command, path, kernel, example) {
	const words = [command, path, kernel, ...(example === undefined ? [] : ["--example", example])];
	const terminal = vscode.window.terminals.find((t) => t.name === "tegula") || vscode.window.createTerminal("tegula");
	const tegula = vscode.workspace.getConfiguration("tegula").get("command");
	terminal.show(true);
	terminal.sendText([tegula, ...words].map((w) => "'" + w.replaceAll("'", "'\\''") + "'").join(" "));
}

function activate(context) {
	const settings = vscode.workspace.getConfiguration("tegula");
	for (const command of ["run", "check", "inspect", "bench"])
		context.subscriptions.push(vscode.commands.registerCommand("tegula." + command,
			(...of) => inTerminal(command, ...of)));
	client = new LanguageClient("tegula", "Tegula", { command: settings.get("command"), args: ["lsp"] }, {
		documentSelector: [{ language: "tegula" }],
		initializationOptions: { target: settings.get("target") },
	});
	return client.start();
}

function deactivate() {
	return client && client.stop();
}

module.exports = { activate, deactivate };
