/* lsp: the language server's loop.  One message after another; reports of a text are sent when no further message waits,
 * so that fast typing does not pile up compilations.  What takes long is done by children (lsp/background.c). */
#include "tool/lsp/lsp.h"

#include <string.h>

enum { ERROR_PARSE = -32700, ERROR_REQUEST = -32600, ERROR_METHOD = -32601, ERROR_NOT_READY = -32002 };

static const struct {
	const char *name;
	LspMethod *run;
} methods[] = {
	{"textDocument/hover", lsp_hover}, {"textDocument/completion", lsp_completion},
	{"textDocument/signatureHelp", lsp_signature}, {"textDocument/definition", lsp_definition},
	{"textDocument/references", lsp_references}, {"textDocument/documentHighlight", lsp_highlight},
	{"textDocument/prepareRename", lsp_prepare_rename}, {"textDocument/rename", lsp_rename},
	{"textDocument/documentSymbol", lsp_symbols}, {"textDocument/foldingRange", lsp_folding},
	{"textDocument/semanticTokens/full", lsp_tokens}, {"textDocument/formatting", lsp_format},
	{"textDocument/inlayHint", lsp_hints}, {"textDocument/codeLens", lsp_lenses},
	{"textDocument/codeAction", lsp_actions},
};

/* ---- initialize ---- */

static json_t *
names_json(const char *const *names)
{
	json_t *all = json_array();
	for (; *names; names++)
		json_array_append_new(all, json_string(*names));
	return all;
}

static bool
offers_utf8(const json_t *params)
{
	const json_t *general = json_object_get(json_object_get(params, "capabilities"), "general"), *e;
	size_t i;
	json_array_foreach(json_object_get(general, "positionEncodings"), i, e)
		if (json_is_string(e) && strcmp(json_string_value(e), "utf-8") == 0)
			return true;
	return false;
}

/* initializationOptions {"target": "sm_80"}: whose code inlay hints describe. */
static void
choose_target(Server *s, const json_t *params)
{
	const json_t *options = json_object_get(params, "initializationOptions");
	const char *name = json_string_value(json_object_get(options, "target"));
	const Target *t = name ? target_named(name) : NULL;
	s->target = t ? t : s->target;
}

static json_t *
initialize(Server *s, const json_t *params)
{
	s->utf8 = offers_utf8(params);
	s->ready = true;
	choose_target(s, params);
	json_t *can = json_pack("{s:s, s:{s:b, s:i, s:b}}", "positionEncoding", s->utf8 ? "utf-8" : "utf-16",
	    "textDocumentSync", "openClose", 1, "change", 2, "save", 0);
	static const char *const plain[] = {"hoverProvider", "definitionProvider", "referencesProvider",
		"documentHighlightProvider", "documentSymbolProvider", "foldingRangeProvider",
		"documentFormattingProvider", "inlayHintProvider"};
	for (int i = 0; i < LEN(plain); i++)
		json_object_set_new(can, plain[i], json_true());
	json_object_set_new(can, "renameProvider", json_pack("{s:b}", "prepareProvider", 1));
	json_object_set_new(can, "completionProvider", json_pack("{s:[]}", "triggerCharacters"));
	json_object_set_new(can, "signatureHelpProvider", json_pack("{s:[s, s]}", "triggerCharacters", "(", ","));
	json_object_set_new(can, "codeLensProvider", json_object());
	json_object_set_new(can, "codeActionProvider", json_pack("{s:[s]}", "codeActionKinds", "quickfix"));
	json_object_set_new(can, "semanticTokensProvider", json_pack("{s:{s:o, s:o}, s:b}", "legend", "tokenTypes",
	    names_json(lsp_token_types), "tokenModifiers", names_json(lsp_token_modifiers), "full", 1));
	return json_pack("{s:o, s:{s:s, s:s}}", "capabilities", can, "serverInfo", "name", "tegula", "version",
	    tgl_version());
}

/* ---- notifications ---- */

static Document *
document_of(const Server *s, const json_t *params)
{
	const char *uri = json_string_value(json_object_get(json_object_get(params, "textDocument"), "uri"));
	return uri ? document_named(s, uri) : NULL;
}

static void
opened(Server *s, const json_t *params)
{
	const json_t *doc = json_object_get(params, "textDocument");
	const char *uri = json_string_value(json_object_get(doc, "uri"));
	const json_t *text = json_object_get(doc, "text");
	if (uri && json_is_string(text))
		document_open(s, uri, text, json_integer_value(json_object_get(doc, "version")));
}

static void
edited(Server *s, const json_t *params)
{
	Document *d = document_of(s, params);
	const json_t *change;
	size_t i;
	if (!d)
		return;
	json_array_foreach(json_object_get(params, "contentChanges"), i, change)
		document_edit(s, d, change);
	d->version = json_integer_value(json_object_get(json_object_get(params, "textDocument"), "version"));
}

static void
closed(Server *s, const json_t *params)
{
	Document *d = document_of(s, params);
	if (!d)
		return;
	connection_send(json_pack("{s:s, s:s, s:{s:s, s:[]}}", "jsonrpc", "2.0", "method",
	    "textDocument/publishDiagnostics", "params", "uri", d->uri, "diagnostics"));
	document_close(s, d);
}

/* Whatever imports a file that was saved may mean something else now. */
static void
saved(Server *s)
{
	for (Document *d = s->docs; d; d = d->next) {
		background_stop(d, NULL);
		analysis_close(d->analysis);
		d->analysis = NULL;
		d->stale = true;
	}
}

static void
cancelled(Server *s, const json_t *id)
{
	for (Document *d = s->docs; d && id; d = d->next)
		background_stop(d, id);
}

static void
notified(Server *s, const char *method, const json_t *params)
{
	if (strcmp(method, "textDocument/didOpen") == 0)
		opened(s, params);
	else if (strcmp(method, "textDocument/didChange") == 0)
		edited(s, params);
	else if (strcmp(method, "textDocument/didClose") == 0)
		closed(s, params);
	else if (strcmp(method, "textDocument/didSave") == 0)
		saved(s);
	else if (strcmp(method, "$/cancelRequest") == 0)
		cancelled(s, json_object_get(params, "id"));
}

/* ---- requests ---- */

static void
answer(Server *s, const json_t *id, const char *method, const json_t *params)
{
	if (strcmp(method, "initialize") == 0) {
		connection_reply(id, initialize(s, params));
		return;
	}
	if (!s->ready || s->stopped) {
		connection_refuse(id, s->stopped ? ERROR_REQUEST : ERROR_NOT_READY,
		    "the server was not initialized, or was shut down");
		return;
	}
	if (strcmp(method, "shutdown") == 0) {
		s->stopped = true;
		connection_reply(id, json_null());
		return;
	}
	for (int i = 0; i < LEN(methods); i++) {
		if (strcmp(method, methods[i].name) != 0)
			continue;
		Document *d = document_of(s, params);
		if (!d || methods[i].run != lsp_hints || !background_inspect(s, d, id, params))
			connection_reply(id, d ? methods[i].run(s, d, params) : json_null());
		return;
	}
	connection_refuse(id, ERROR_METHOD, method);
}

static void
publish_stale(Server *s)
{
	for (Document *d = s->docs; d; d = d->next)
		if (d->stale)
			lsp_publish(s, d);
}

/* False: `exit`. */
static bool
handle(Server *s, const json_t *message)
{
	const json_t *id = json_object_get(message, "id"), *params = json_object_get(message, "params");
	const char *method = json_string_value(json_object_get(message, "method"));
	if (!method) {
		if (!json_object_get(message, "result") && !json_object_get(message, "error"))
			connection_refuse(id, ERROR_REQUEST, "a message has a method");
		return true;
	}
	if (strcmp(method, "exit") == 0)
		return false;
	if (id)
		answer(s, id, method, params);
	else
		notified(s, method, params);
	return true;
}

int
cmd_lsp(const Cli *cli)
{
	Server s = {.cli = cli, .target = target_named("sm_90a")};
	bool broken, runs = true, talks = false;
	if (!cli_operands(cli, 0, 0))
		return EXIT_MISUSE;
	setvbuf(stdin, NULL, _IONBF, 0);
	while (runs) {
		json_t *message = connection_read(&broken);
		if (!message && !broken)
			break;
		talks |= message != NULL;
		if (message)
			runs = handle(&s, message);
		else
			connection_refuse(NULL, ERROR_PARSE,
			    "a message is a header with Content-Length and as many bytes of JSON");
		json_decref(message);
		if (!connection_waiting())
			publish_stale(&s);
		background_wait(&s);
	}
	while (s.docs)
		document_close(&s, s.docs);
	if (!talks)
		return cli_wrong("standard input has no message of the Language Server Protocol, a header with "
				 "Content-Length and as many bytes of JSON: editors start this command "
				 "(docs/editors.md)");
	if (runs && !s.stopped)
		return cli_wrong("standard input ended before the client had said exit");
	return s.stopped && !runs ? EXIT_GOOD : EXIT_WRONG;
}
