/* Between flex and the rest: places, comments, literals, and the entry points with their imports. */
#include "ast/parser.h"
#include "tegula.tab.h"

#define YYSTYPE TokenValue
#define YYLTYPE Place
#include "tegula.lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* places and comments */

void
parser_advance(Parser *p, Place *place, const char *text, size_t n)
{
	*place = (Place){.file = p->file, .line = p->line, .col = p->col};
	for (size_t i = 0; i < n; i++) {
		p->col++;
		if (text[i] == '\n') {
			p->line++;
			p->col = 1;
			p->line_at = p->at + i + 1;
		}
	}
	place->end_line = p->line;
	place->end_col = p->col;
	p->at += n;
}

const char *
parser_intern(Parser *p, const char *text, size_t n)
{
	return intern_n(p->cx->names, text, n);
}

static void
add_comment(Parser *p, Place place, const char *text, size_t n)
{
	while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	Comment c = {place, arena_strndup(p->cx->mem, text, n)};
	vec_push(p->cx->mem, &p->ast->comments, c);
}

void
parser_comment(Parser *p, Place *place, const char *text, size_t n)
{
	add_comment(p, *place, text, n);
}

void
parser_comment_open(Parser *p, Place *place)
{
	p->comment = *place;
	p->comment_at = p->at - 2;
}

void
parser_comment_close(Parser *p, Place *place)
{
	add_comment(p, place_join(p->comment, *place), p->cx->files.at[p->file].text + p->comment_at,
	    p->at - p->comment_at);
}

void
parser_unclosed_comment(Parser *p)
{
	diag_error(p->cx, p->comment, DIAG_UNCLOSED_COMMENT);
	diag_help(p->cx, "close it with */");
}

/* literals */

static Expr *
literal(Parser *p, ExprKind kind, Place at, const char *text, size_t n)
{
	Expr *e = ast_expr(p, (Expr){kind, .place = at});
	e->spelling = parser_intern(p, text, n);
	return e;
}

/* Copies digits without their underscores; NULL if they don't fit. */
static char *
plain_digits(Parser *p, const char *text, size_t n)
{
	char *s = arena_alloc(p->cx->mem, n + 1);
	size_t k = 0;
	for (size_t i = 0; i < n; i++)
		if (text[i] != '_')
			s[k++] = text[i];
	return s;
}

int
parser_int(Parser *p, TokenValue *value, Place *place, const char *text, size_t n)
{
	Expr *e = literal(p, EX_INT, *place, text, n);
	const char *digits = plain_digits(p, text, n);
	int base = 10;
	if (digits[0] == '0' && digits[1] && strchr("xXbBoO", digits[1])) {
		base = strchr("xX", digits[1]) ? 16 : strchr("bB", digits[1]) ? 2 : 8;
		digits += 2;
	}
	errno = 0;
	e->u = strtoull(digits, NULL, base);
	if (errno == ERANGE) {
		diag_error(p->cx, *place, DIAG_NUMBER_TOO_LARGE, "this integer", "64 bits");
		e->kind = EX_ERROR;
	}
	value->expr = e;
	return INT;
}

int
parser_float(Parser *p, TokenValue *value, Place *place, const char *text, size_t n)
{
	Expr *e = literal(p, EX_FLOAT, *place, text, n);
	e->f = number_read(plain_digits(p, text, n), NULL);
	if (e->f > 1.7976931348623157e308) {
		diag_error(p->cx, *place, DIAG_NUMBER_TOO_LARGE, "this number", "f64");
		diag_help(p->cx, "write inf for infinity");
		e->kind = EX_ERROR;
	}
	value->expr = e;
	return FLOAT;
}

int
parser_bad_number(Parser *p, TokenValue *value, Place *place, const char *text, size_t n)
{
	diag_error(p->cx, *place, DIAG_BAD_NUMBER, parser_intern(p, text, MIN(n, (size_t)60)));
	diag_help(p->cx, "numbers are written 42, 1_000, 0x2a, 0o52, 0b101, 0.5 and 1e-5, without a suffix");
	p->bad = *place;
	value->expr = ast_error(p, *place);
	return INT;
}

static char
escape(char c)
{
	switch (c) {
	case 'n': return '\n';
	case 't': return '\t';
	case 'r': return '\r';
	case '\\': case '"': case '\'': return c;
	default: return 0;
	}
}

int
parser_string(Parser *p, TokenValue *value, Place *place, const char *text, size_t n)
{
	Expr *e = literal(p, EX_STRING, *place, text, n);
	char *s = arena_alloc(p->cx->mem, n);
	size_t k = 0;
	for (size_t i = 1; i + 1 < n; i++) {
		char c = text[i];
		if (c == '\\') {
			c = escape(text[++i]);
			if (!c) {
				diag_error(p->cx, *place, DIAG_BAD_ESCAPE, text[i]);
				diag_help(p->cx, "known are \\n \\t \\r \\\\ and \\\"");
				c = '?';
			}
		}
		s[k++] = c;
	}
	e->name = parser_intern(p, s, k);
	value->expr = e;
	return STRING;
}

int
parser_unclosed_string(Parser *p, TokenValue *value, Place *place)
{
	p->bad = *place;
	diag_error(p->cx, *place, DIAG_UNCLOSED_STRING);
	value->expr = ast_expr(p, (Expr){EX_STRING, .place = *place});
	value->expr->name = "";
	value->expr->spelling = "\"\"";
	return STRING;
}

void
parser_bad_byte(Parser *p, Place *place, const char *text, size_t n)
{
	unsigned char c = (unsigned char)text[0];
	const char *what = c >= 0x80 ? arena_printf(p->cx->mem, "'%.*s'", (int)MIN(n, (size_t)40), text)
	                 : c < 0x20 || c == 0x7f ? arena_printf(p->cx->mem, "byte 0x%02x", c)
	                                         : arena_printf(p->cx->mem, "character '%c'", c);
	diag_error(p->cx, *place, DIAG_BAD_CHARACTER, what);
	if (c >= 0x80)
		diag_help(p->cx, "other characters than ASCII stand only in comments and texts");
	if (c == '\'')
		diag_help(p->cx, "text stands in double quotes");
	if (c == '#')
		diag_help(p->cx, "a comment is written // to the end of the line, or /* ... */");
	p->skipped = true;
}

int
parser_scan(Parser *p, TokenValue *value, Place *place)
{
	p->skipped = false;
	int token = tegula_lex_lex(value, place, p->scanner);
	if (p->skipped)
		p->bad = *place;
	if (token == 0)
		*place = (Place){p->file, p->line, p->col, p->line, p->col, NULL};
	return token;
}

/* entry points */

static Parser
parse(Compile *cx, int file, int start)
{
	Parser p = {.cx = cx, .file = file, .start = start, .line = 1, .col = 1};
	const SourceFile *f = &cx->files.at[file];
	p.ast = NEW(cx->mem, Ast);
	p.ast->file = file;
	p.last = p.now = (Place){file, 1, 1, 1, 1, NULL};
	if (tegula_lex_lex_init_extra(&p, (yyscan_t *)&p.scanner) != 0)
		die("out of memory");
	tegula_lex__scan_bytes(f->text, (int)f->size, p.scanner);
	tegula_yyparse(&p);
	tegula_lex_lex_destroy(p.scanner);
	return p;
}

Ast *
ast_parse(Compile *cx, int file)
{
	return parse(cx, file, START_FILE).ast;
}

Expr *
ast_parse_expr(Compile *cx, int file)
{
	int before = cx->nerrors;
	Parser p = parse(cx, file, START_EXPR);
	return cx->nerrors == before ? p.expr : NULL;
}

/* imports: each file once; `open` are those whose imports are being loaded */

typedef struct Loaded {
	const char *path;
	Ast *ast;
	bool open;
} Loaded;

typedef VEC(Loaded) LoadedList;

static const char *
beside(Compile *cx, const char *importer, const char *path)
{
	const char *slash = strrchr(importer, '/');
	if (path[0] == '/' || !slash)
		return path;
	return arena_printf(cx->mem, "%.*s%s", (int)(slash - importer + 1), importer, path);
}

/* The same file by other names ("a/../b.tgl") is the same file. */
static const char *
canonical(Compile *cx, const char *path)
{
	char *real = realpath(path, NULL);
	const char *s = arena_strdup(cx->mem, real ? real : path);
	free(real);
	return s;
}

static void load_imports(Compile *cx, Ast *ast, LoadedList *loaded, int self);

static Ast *
load(Compile *cx, const Item *item, const char *path, LoadedList *loaded)
{
	const char *key = canonical(cx, path);
	for (int i = 0; i < loaded->n; i++) {
		if (strcmp(loaded->at[i].path, key) != 0)
			continue;
		if (loaded->at[i].open)
			diag_error(cx, item->label_place, DIAG_IMPORT_CYCLE, item->label);
		return loaded->at[i].open ? NULL : loaded->at[i].ast;
	}
	int file = source_open(cx, path, item->label_place);
	if (file < 0)
		return NULL;
	Loaded l = {key, ast_parse(cx, file), true};
	vec_push(cx->mem, loaded, l);
	load_imports(cx, l.ast, loaded, loaded->n - 1);
	return l.ast;
}

static void
load_imports(Compile *cx, Ast *ast, LoadedList *loaded, int self)
{
	const char *importer = cx->files.at[ast->file].path;
	for (int i = 0; i < ast->items.n; i++) {
		Item *item = ast->items.at[i];
		if (item->kind == ITEM_IMPORT)
			item->imported = load(cx, item, beside(cx, importer, item->label), loaded);
	}
	loaded->at[self].open = false;
}

void
ast_import(Compile *cx, Ast *ast)
{
	LoadedList loaded = {0};
	Loaded self = {canonical(cx, cx->files.at[ast->file].path), ast, true};
	vec_push(cx->mem, &loaded, self);
	load_imports(cx, ast, &loaded, 0);
}
