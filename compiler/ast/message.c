/* Syntax errors in the user's terms.
 *
 * Bison lists the tokens that it would take, often thirty.  What begins an expression is reported as one
 * thing, operators are mentioned only when nothing else could follow, and a ';' that is missing at the end
 * of a line is reported there and not at the next line.  Where the mistake is a habit from another language,
 * the help says how it is written here. */
#include "ast/parser.h"

#include <string.h>

enum {
	SHOWN = 5,                                  /* expected tokens listed at most */
	HELPED = 1000,                              /* errors of a file that come with help */
};

static bool
among(const char *const *names, int n, const char *name)
{
	return ANY_OF(i, n, strcmp(names[i], name) == 0);
}

/* Operators go on after an operand nearly everywhere. */
static bool
is_operator(const char *name)
{
	static const char *const operators[] = {
		"'+'", "'-'", "'*'", "'/'", "'%'", "'@'", "'&'", "'|'", "'^'", "'<'", "'>'", "'?'", "'.'", "'['", "'('",
		"||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "as", "+:", "::", "an assignment", "'!'", "'~'",
	};
	return among(operators, LEN(operators), name);
}

/* What begins an expression is reported as one thing; words that are names elsewhere are not listed apart. */
static bool
is_part_of(const char *name, bool expr, bool word)
{
	static const char *const starts[] = {"an integer", "a number", "a string", "a name"};
	static const char *const words[] = {
		"in", "out", "inout", "scratch", "fixed", "strided", "mut", "where", "grid", "tune", "bench", "expect",
		"merge",
	};
	return (expr && among(starts, LEN(starts), name)) || (word && among(words, LEN(words), name));
}

static const char *
quoted(Parser *p, const char *name)
{
	bool plain = name[0] == '\'' || strncmp(name, "a ", 2) == 0 || strncmp(name, "an ", 3) == 0 ||
	             strncmp(name, "the ", 4) == 0;
	return plain ? name : arena_printf(p->cx->mem, "'%s'", name);
}

static const char *
join(Parser *p, const char *const *shown, int n)
{
	Text t = {0};
	for (int i = 0; i < n; i++)
		text_printf(&t, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", shown[i]);
	return text_take(&t, p->cx->mem);
}

static const char *
describe_expected(Parser *p, const char *const *names, int n)
{
	const char *shown[SHOWN];
	int count = 0;
	bool expr = among(names, n, "an integer"), word = among(names, n, "a name");
	if (among(names, n, "kernel"))
		return "kernel, fn, const, import, reference, example or expect";
	if (among(names, n, "let"))
		return among(names, n, "'}'") ? "a statement or '}'" : "a statement";
	if (among(names, n, "'*'") && among(names, n, "inout"))
		return "a type such as f32, in f32[N] or *f32";
	if (expr)
		shown[count++] = "an expression";
	for (int i = 0; i < n; i++) {
		if (is_operator(names[i]) || is_part_of(names[i], expr, word))
			continue;
		if (count == SHOWN)
			return "something else";
		shown[count++] = quoted(p, names[i]);
	}
	for (int i = 0; i < n && count < SHOWN && !expr; i++)
		if (is_operator(names[i]) && count == 0 && n <= SHOWN)
			shown[count++] = quoted(p, names[i]);
	if (!expr && count < SHOWN && among(shown, count, "';'"))
		shown[count++] = "an operator";
	return count ? join(p, shown, count) : "something else";
}

typedef struct Described {
	const char *names[PARSER_EXPECTED];
	const char *text;
	int n;
} Described;

/* The same, remembered: a file of a million mistakes makes few kinds of them. */
static const char *
described_expected(Parser *p, const char *const *names, int n)
{
	int slot = (n + (n ? names[n - 1][0] : 0)) % LEN(p->described);
	Described *d = p->described[slot];

	if (!d)
		d = p->described[slot] = NEW(p->cx->mem, Described);
	if (!d->text || d->n != n || memcmp(d->names, names, sizeof *names * (size_t)n) != 0) {
		*d = (Described){.text = describe_expected(p, names, n), .n = n};
		memcpy(d->names, names, sizeof *names * (size_t)n);
	}
	return d->text;
}

/* The token's own text, "" if it is long or stands on another line than the one being read (a line is found by its
 * number only from the start of the file, and there may be an error on each). */
static const char *
token_text(Parser *p, Place at)
{
	const SourceFile *f = &p->cx->files.at[p->file];
	size_t start = p->line_at + (size_t)at.col - 1, size = (size_t)(at.end_col - at.col);
	if (at.line != p->line || at.line != at.end_line || size > 30 || start + size > f->size)
		return "";
	return arena_strndup(p->cx->mem, f->text + start, size);
}

static bool
is_keyword(const char *word)
{
	static const char *const keywords[] = {
		"kernel", "fn", "reference", "example", "import", "const", "let", "var", "for", "while", "if", "else",
		"return", "static", "as", "break", "continue",
	};
	return among(keywords, LEN(keywords), word);
}

/* Words of other languages in the position of a statement or an operator. */
static const char *
foreign(const char *word)
{
	static const char *const table[][2] = {
		{"and", "'and' is written &&"},
		{"or", "'or' is written ||"},
		{"not", "'not' is written !"},
		{"elif", "'elif' is written else if"},
		{"def", "a helper is written fn name(a, b) { ... }"},
		{"func", "a helper is written fn name(a, b) { ... }"},
	};
	return VALUE_OF(i, LEN(table), strcmp(table[i][0], word) == 0, table[i][1], NULL);
}

/* `i++`: the second sign is the token before this one, and the first stands right before it. */
static bool
is_step(Parser *p, const char *before)
{
	Place one = p->last;
	if (one.col < 2 || (strcmp(before, "+") != 0 && strcmp(before, "-") != 0))
		return false;
	one.col--;
	one.end_col--;
	return strcmp(token_text(p, one), before) == 0;
}

static bool
is_name(const char *word)
{
	return word[0] == '_' || (word[0] >= 'a' && word[0] <= 'z') || (word[0] >= 'A' && word[0] <= 'Z');
}

static bool
is_mode(const char *word)
{
	static const char *const modes[] = {"in", "out", "inout", "scratch"};
	return among(modes, LEN(modes), word);
}

/* Does the token `found`, which may itself be a bracket, stand in the one of `word (`? */
static bool
is_within(const Parser *p, const char *word, const char *found)
{
	const SourceFile *f = &p->cx->files.at[p->file];
	int level = p->open.n - 1 - (strcmp(found, "(") == 0);
	const Bracket *b = strcmp(found, ")") == 0 ? &p->closed : level >= 0 ? &p->open.at[level] : NULL;
	size_t n = strlen(word), at = b && b->place.line == p->line ? p->line_at + (size_t)b->place.col - 1 : 0;
	while (at > 0 && at <= f->size && f->text[at - 1] == ' ')
		at--;
	return at >= n && at <= f->size && memcmp(f->text + at - n, word, n) == 0;
}

/* The count of an axis that has no name. */
static const char *
help_axis(Parser *p, const char *word, const char *before, bool is_named)
{
	const char *count = is_named ? before : strcmp(word, ")") == 0 ? "1" : strcmp(word, "(") == 0 ? "..." : word;
	return arena_printf(p->cx->mem, "each axis of the grid has a name before its count: grid(i: %s%s)", count,
	    is_named && strcmp(word, ")") != 0 ? " ..." : "");
}

/* Do these bytes of the line being read begin it, behind its indentation? */
static bool
line_begins(const Parser *p, const char *word)
{
	const SourceFile *f = &p->cx->files.at[p->file];
	size_t at = p->line_at, n = strlen(word);
	while (at < f->size && (f->text[at] == ' ' || f->text[at] == '\t'))
		at++;
	return at + n <= f->size && memcmp(f->text + at, word, n) == 0;
}

/* An item in a block. */
static const char *
help_item(const char *word)
{
	if (strcmp(word, "const") == 0)
		return "'const' stands outside of kernels; 'let' names a value here, compile-time if what it is made of is";
	return "a helper stands outside of kernels; in place, as an argument of a call, it is fn(a, b) => e";
}

/* What helps against a common mistake; NULL: it is none. */
static const char *
common_mistake(Parser *p, const char *word, const char *const *expected, int n)
{
	bool expr = among(expected, n, "an integer");
	const char *before = token_text(p, p->last);
	if (foreign(word))
		return foreign(word);
	if (foreign(before))
		return foreign(before);
	bool is_named = n == 1 && among(expected, n, "':'") && !is_name(word);
	if (!expr && (is_named || among(expected, n, "a name")) && is_within(p, "grid", word))
		return help_axis(p, word, before, is_named);
	if (is_keyword(word) && among(expected, n, "a name") && !expr)
		return arena_printf(p->cx->mem, "'%s' is a word of the language and cannot be a name", word);
	if (among(expected, n, "let") && (strcmp(word, "const") == 0 || strcmp(word, "fn") == 0))
		return help_item(word);
	if (strcmp(word, "fn") == 0 && expr)
		return "fn(a, b) => e stands only as an argument of a call";
	if (strcmp(word, "::") == 0 && p->open.n && p->open.at[p->open.n - 1].token == '[')
		return "every second element has its own index: x[start + 2 * arange(0, N)]";
	if (strcmp(word, ":") == 0 && p->open.n && p->open.at[p->open.n - 1].token == '[')
		return "a part of a tensor is written start +: extent, and ':' alone is the whole dimension";
	if (strcmp(word, "=") == 0 && among(expected, n, "'{'"))
		return "equality is written ==";
	if (n == 1 && among(expected, n, "'('") && strcmp(before, ">") == 0)
		return "a default in <...> that compares needs parentheses: <A = (x > y)>";
	if (strcmp(word, ",") == 0 && among(expected, n, "';'"))
		return "statements, and lines of examples, end in ';'";
	if (strcmp(word, "if") == 0 && among(expected, n, "';'"))
		return "a choice is written c ? a : b";
	if (strcmp(word, "else") == 0 && among(expected, n, "';'"))
		return "'else' stands right behind the index: (x[i] else 0) as f32";
	if (strcmp(word, ":") == 0 && among(expected, n, "'{'"))
		return "a block stands in braces: { ... }";
	if (is_mode(before) && among(expected, n, "':'"))
		return arena_printf(p->cx->mem, "the mode stands behind the colon: %s: %s f32[N]", word, before);
	if (is_mode(before) && strcmp(word, "*") == 0)
		return "a pointer has no mode: p: *f32, or p: *mut f32 to write through it";
	if (n == 1 && among(expected, n, "'['") && (strcmp(word, ")") == 0 || strcmp(word, ",") == 0))
		return "a tensor has dimensions: f32[N], or f32[] of one element; a scalar has no mode";
	if (strcmp(word, ",") == 0 && among(expected, n, "'='") && (line_begins(p, "let ") || line_begins(p, "var ")))
		return arena_printf(p->cx->mem, "a tuple is taken apart in parentheses: let (%s, ...) = ...", before);
	if (strcmp(word, ":") == 0 && among(expected, n, "'=>'"))
		return "the type of a function's result is written fn f(a) -> f32";
	bool loop = strcmp(before, "for") == 0 ? strcmp(word, "(") == 0 : strcmp(before, "in") == 0 && !expr;
	bool counts = n == 1 && among(expected, n, "'('") && line_begins(p, "for ");
	if (counts || (loop && among(expected, n, "a name")))
		return "a loop is written for i in range(0, n) { ... }";
	if (strcmp(word, ":") == 0 && among(expected, n, "'='"))
		return "the type follows from the value; to convert it write = e as f32";
	if (strcmp(word, ";") == 0 && n == 1 && among(expected, n, "'='") && line_begins(p, "var "))
		return arena_printf(p->cx->mem, "a variable begins with a value: var %s = 0.0, or zeros([BLOCK], f32)",
		    before);
	if (is_name(word) && is_name(before) && !is_keyword(before) && among(expected, n, "'='"))
		return arena_printf(p->cx->mem, "declare it as 'let %s = ...', or 'var %s = ...' if it changes", word,
		    word);
	if (expr && is_step(p, before))
		return arena_printf(p->cx->mem, "to step a variable write i %s= 1", before);
	if (strcmp(before, "*") == 0 && strcmp(word, "*") == 0)
		return "a power is written pow(x, y)";
	return NULL;
}

/* Where a list or an index that should be closed began, if that is on another line. */
static void
note_opener(Parser *p, Place at, const char *const *expected, int n)
{
	const Bracket *b = p->open.n ? &p->open.at[p->open.n - 1] : NULL;
	if (!b || b->token == '{' || b->place.line == at.line)
		return;
	if (among(expected, n, b->token == '(' ? "')'" : "']'"))
		diag_note(p->cx, b->place, "this '%c' is open", b->token);
}

/* Does a comment that ends in ';' follow, as in `n // 2;` of Python?  The token stands few lines before the one being
 * read. */
static bool
is_comment(const Parser *p, Place last)
{
	const SourceFile *f = &p->cx->files.at[p->file];
	size_t at = p->line_at, end;
	for (int line = p->line; line > last.end_line && at > 0; line--)
		for (at--; at > 0 && f->text[at - 1] != '\n';)
			at--;
	for (at += (size_t)last.end_col - 1; at < f->size && f->text[at] == ' ';)
		at++;
	if (at + 2 > f->size || memcmp(f->text + at, "//", 2) != 0)
		return false;
	for (end = at + 2; end < f->size && f->text[end] != '\n';)
		end++;
	while (char_is_space(f->text[end - 1]))
		end--;
	return f->text[end - 1] == ';';
}

static bool
same_start(Place a, Place b)
{
	return a.line == b.line && a.col == b.col;
}

void
parser_syntax_error(Parser *p, Place place, const char *found, const char *const *expected, int n)
{
	if (p->gave_up || same_start(p->bad, place) || same_start(p->bad, p->last))
		return;
	const char *text = token_text(p, place);
	bool literal = found[0] == '\'' || strcmp(found, "the end of the file") == 0 || !text[0];
	const char *got = literal ? quoted(p, found) : arena_printf(p->cx->mem, "'%s'", text);
	bool ends = p->last.end_line < place.line || strcmp(found, "'}'") == 0;
	if (among(expected, n, "';'") && !among(expected, n, "an integer") && ends) {
		diag_error(p->cx, place_after(p->last), DIAG_SYNTAX, "';'", got);
		diag_label(p->cx, "the statement ends here");
		if (is_comment(p, p->last))
			diag_help(p->cx, "// begins a comment; integers are divided by /, and floordiv(x, y) rounds down");
		return;
	}
	diag_error(p->cx, place, DIAG_SYNTAX, described_expected(p, expected, n), got);
	if (++p->nsyntax > HELPED)
		return;
	const char *help = common_mistake(p, text, expected, n);
	if (help)
		diag_help(p->cx, "%s", help);
	note_opener(p, place, expected, n);
}
