/* The language server, `tegula lsp`: what its files share.
 *
 *     connection.c    messages over standard input and output (JSON-RPC with Content-Length)
 *     document.c      open files: text, edits, positions
 *     analysis.c      one text compiled: reports, names, the types of names
 *     names.c         which text each name of the tree stands for
 *     cmd_lsp.c       the loop and the table of methods
 *     diagnostics.c   diagnostics and quick fixes
 *     navigate.c      definition, references, rename, outline, folding, semantic tokens
 *     assist.c        hover, completion, signature help
 *     hints.c         inlay hints and code lenses
 *     background.c    the code that hints describe, compiled by a child process
 *
 * Lines and characters of the protocol count from 0, Places from 1; characters are UTF-16 units unless the client
 * takes UTF-8. */
#ifndef TEGULA_LSP_H
#define TEGULA_LSP_H

#include "tool/cli_build.h"

#include <sys/types.h>

/* ---- names ---- */

typedef enum NameKind {
	NAME_CONST, NAME_FN, NAME_KERNEL, NAME_CTPARAM, NAME_PARAM, NAME_SYMBOL, NAME_AXIS, NAME_LET, NAME_VAR,
	NAME_COUNTER, NAME_ARGUMENT,
	NAME_KINDS
} NameKind;

typedef struct NameDef {
	NameKind kind;
	const char *name;
	Place place;                                    /* of the name */
	Place until;                                    /* it is in scope up to the end of this; line 0: in the file */
	const Item *item;                               /* that it is, or stands in */
	const Param *param;                             /* PARAM, ARGUMENT of a fn; else NULL */
	const CtParam *ct;                              /* CTPARAM; else NULL */
	const TypeExpr *type;                           /* SYMBOL: the type that first mentions it */
} NameDef;

typedef struct NameUse {
	Place place;
	int def;                                        /* index into Names.defs; -1: an operation of the language */
	const char *name;
	bool is_def, writes;
} NameUse;

typedef struct Names {
	VEC(NameDef) defs;
	VEC(NameUse) uses;                              /* in the main file, by place; definitions too */
} Names;

/* The names of a file and of what it imports; all in mem. */
void names_find(const Ast *ast, Arena *mem, Names *out);

/* ---- documents ---- */

typedef struct NamedValue {
	Place at;
	const char *what;
} NamedValue;

typedef struct LineNote {
	int line;
	const char *text;
} LineNote;

/* How threads hold the tile that a name is given at a line, in words. */
typedef struct HeldNote {
	const char *name;
	int line;
	const char *text;
} HeldNote;

/* What is known of one text. */
typedef struct Analysis {
	Compile *cx;
	int file;                                       /* the document's, in cx->files; -1: not text that can be read */
	Program *program;                               /* NULL where file is -1 */
	Names names;
	VEC(NamedValue) values;                         /* what names were given, in order of elaboration */
	bool inspected;
	VEC(LineNote) notes;                            /* of the compiled code; filled when first asked for */
	VEC(HeldNote) held;
} Analysis;

/* A process that compiles a document's text for the target. */
typedef struct Child {
	pid_t pid;                                      /* 0: there is none */
	int from;                                       /* its pipe */
	Text text;                                      /* what has come */
} Child;

typedef struct Document {
	char *uri, *path;                               /* path: of a file: URI, else the URI */
	Text text;
	int64_t version;
	bool stale;                                     /* reports of this text have not been sent */
	Analysis *analysis;                             /* of the text; NULL: not made since it changed */
	Child child;
	json_t *asked;                                  /* requests that wait for it, `id` and `params`; or NULL */
	struct Document *next;
} Document;

typedef struct Server {
	const Cli *cli;
	const Target *target;                           /* whose code the hints describe */
	Document *docs;
	bool utf8;                                      /* characters are bytes */
	bool ready, stopped;                            /* initialize, shutdown were said */
} Server;

/* document.c */

Document *document_open(Server *s, const char *uri, const json_t *text, int64_t version);
void document_close(Server *s, Document *d);
Document *document_named(const Server *s, const char *uri);     /* NULL: not open */
/* One of contentChanges: a range's text, or all of it; false: the range is no range of the text. */
bool document_edit(Server *s, Document *d, const json_t *change);
/* A Place's range in a text, and a position's place in it (end_line and end_col as the start). */
json_t *range_json(const Server *s, const SourceFile *f, Place p);
Place position_place(const Server *s, const SourceFile *f, const json_t *position);
/* {uri, range} of a place of any file of a document's compilation. */
json_t *location_json(const Server *s, const Document *d, Place p);
bool place_has(Place p, Place at);                              /* at is in p or at its end */
int place_order(Place a, Place b);                              /* of their starts */

/* analysis.c */

Analysis *analysis_of(Server *s, Document *d);                  /* made if it has to be; never NULL */
void analysis_close(Analysis *a);
const SourceFile *analysis_source(const Analysis *a);           /* NULL where a->file is -1 */
const NameUse *use_at(const Analysis *a, Place at);             /* NULL: no name there */
/* What the name defined at a place was given last, in words; NULL: elaboration did not come there. */
const char *value_at(const Analysis *a, Place at);
/* Fills `notes` and `held` from the code for the server's target. */
void analysis_inspect(Server *s, Analysis *a);

/* connection.c */

/* The next message, to be released; NULL: the input ended, or (*broken) is no message. */
json_t *connection_read(bool *broken);
bool connection_waiting(void);                                  /* there is more to read */
void connection_send(json_t *take);
void connection_reply(const json_t *id, json_t *take);
void connection_refuse(const json_t *id, int code, const char *text);

/* background.c */

/* Has a child compile the text, behind which the request for hints is answered; false: it can be answered now. */
bool background_inspect(Server *s, Document *d, const json_t *id, const json_t *params);
/* Refuses what waits, as the text has changed, or the request `id`, which was cancelled, and ends what no request needs. */
void background_stop(Document *d, const json_t *id);
/* Answers requests as children end, until there is a message to read; without a child not at all. */
void background_wait(Server *s);

/* The operations of the language, from builtins.def. */
typedef struct Operation {
	const char *name, *family, *params, *meaning;
} Operation;

const Operation *operation_named(const char *name);             /* NULL: there is none */

/* Methods: each takes a document that is open and the request's params, and gives the result, json_null() if there
 * is nothing to say. */
typedef json_t *LspMethod(Server *s, Document *d, const json_t *params);
LspMethod lsp_hover, lsp_completion, lsp_signature, lsp_definition, lsp_references, lsp_highlight, lsp_prepare_rename,
    lsp_rename, lsp_symbols, lsp_folding, lsp_tokens, lsp_format, lsp_hints, lsp_lenses, lsp_actions;
extern const char *const lsp_token_types[], *const lsp_token_modifiers[];       /* NULL at the end */

void lsp_publish(Server *s, Document *d);                       /* sends the reports of a document */

#endif
