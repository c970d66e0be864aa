/* Tokens for bison, and what happens after a syntax error.
 *
 * Brackets are kept on a stack as they are read.  It bounds nesting (a million of them cost no stack), says
 * where a block that is never closed began, and lets recovery skip in a balanced way.  Where a word that only
 * begins items stands inside a block, or the file ends there, the missing '}' are handed out first, so that
 * what was read of the block is kept and the next item is not part of it.
 *
 * Recovery always leaves a token that the grammar takes next, or the end of the file: bison never has to
 * throw one away.  Where a body should follow and none does, an empty one is handed out. */
#include "ast/parser.h"
#include "tegula.tab.h"

void
parser_too_deep(Parser *p, Place place)
{
	if (p->gave_up)
		return;
	p->gave_up = true;
	diag_error(p->cx, place, DIAG_TOO_DEEP, AST_DEPTH);
}

static void
unread(Parser *p, int token, TokenValue value, Place place)
{
	Unread u = {token, value, place};
	vec_push(p->cx->mem, &p->unread, u);
}

static int
top(const Parser *p)
{
	return p->open.n ? p->open.at[p->open.n - 1].token : 0;
}

/* Nothing that stands in a block is ever inside of parentheses: what is still open there was lost. */
static void
keep_braces(Parser *p)
{
	int n = 0;
	for (int i = 0; i < p->open.n; i++)
		if (p->open.at[i].token == '{')
			p->open.at[n++] = p->open.at[i];
	p->open.n = n;
}

/* A closing bracket closes the nearest of its kind and what was left open within. */
static void
close_bracket(Parser *p, int opener)
{
	for (int i = p->open.n; i > 0; i--)
		if (p->open.at[i - 1].token == opener) {
			p->closed = p->open.at[i - 1];
			p->open.n = i - 1;
			return;
		}
}

static void
track(Parser *p, int token, Place place)
{
	Bracket b = {token, place};
	if (token == '(' || token == '[' || token == '{')
		vec_push(p->cx->mem, &p->open, b);
	else if (token == ')' || token == ']' || token == '}')
		close_bracket(p, token == ')' ? '(' : token == ']' ? '[' : '{');
}

static bool
begins_item(int token)
{
	return token == KERNEL || token == REFERENCE || token == EXAMPLE || token == IMPORT;
}

static bool
begins_item_or_argument(int token)
{
	return token == FN || token == CONST;
}

/* Hands out the '}' that are missing before a token which cannot stand in a block.  A `const` or `fn` that is indented was
 * meant to stand in the block: there it is the mistake. */
static bool
close_blocks(Parser *p, int token, TokenValue value, Place place)
{
	int nbraces = 0;
	bool ends = token == 0 || begins_item(token) || (begins_item_or_argument(token) && top(p) == '{' &&
	                                                place.line > p->last.end_line && place.col == 1);
	nbraces += COUNT_OF(i, p->open.n, p->open.at[i].token == '{');
	if (!ends || nbraces == 0 || p->gave_up)
		return false;
	if (top(p) == '{') {
		diag_error(p->cx, p->open.at[p->open.n - 1].place, DIAG_UNCLOSED_BRACE);
		diag_note(p->cx, place, token ? "a '}' is missing before this" : "the file ends here");
	}
	unread(p, token, value, place);
	for (int i = 0; i < nbraces; i++)
		unread(p, '}', value, place_after(p->last));
	p->open.n = 0;
	return true;
}

int
parser_next(Parser *p, TokenValue *value, Place *place)
{
	if (p->start) {
		int start = p->start;
		*place = (Place){p->file, 1, 1, 1, 1, NULL};
		p->start = 0;
		return start;
	}
	p->last = p->now;
	if (p->unread.n == 0) {
		int token = p->gave_up ? 0 : parser_scan(p, value, place);
		if (!close_blocks(p, token, *value, *place)) {
			p->now = *place;
			track(p, token, *place);
			if (p->open.n <= AST_DEPTH)
				return token;
			parser_too_deep(p, *place);
			return 0;
		}
	}
	Unread u = vec_pop(&p->unread);
	*value = u.value;
	*place = p->now = u.place;
	return u.token;
}

/* recovery */

static bool
begins_stmt(int token)
{
	switch (token) {
	case LET: case VAR: case FOR: case WHILE: case IF: case RETURN: case STATIC: case BREAK: case CONTINUE: return true;
	default: return false;
	}
}

/* Is a report of what follows new to the user? */
static bool
can_begin(int token)
{
	switch (token) {
	case NAME: case '}': case '{': case IN: case OUT: case INOUT: case SCRATCH: case FIXED: case STRIDED: case MUT:
	case WHERE: case GRID: case TUNE: case BENCH: case EXPECT: case FN: case CONST:
		return true;
	default: return begins_stmt(token) || begins_item(token);
	}
}

/* To the end of a statement: past its ';' or its last block, or to the '}' of the block around it, or to a line that
 * begins another statement. */
static int
skip_stmt(Parser *p, int token, TokenValue *value, Place *place)
{
	for (int depth = 0; token != 0; token = parser_next(p, value, place)) {
		bool new_line = place->line > p->last.end_line;
		if (depth == 0 && (token == '}' || begins_item(token) || (new_line && begins_stmt(token))))
			return token;
		if (depth == 0 && token == ';')
			return PARSER_NO_TOKEN;
		depth += token == '{' ? 1 : token == '}' ? -1 : 0;
		if (depth == 0 && token == '}') {
			token = parser_next(p, value, place);
			if (token != ELSE)
				return token;
		}
	}
	return token;
}

/* To a body's '{', or in a kernel's header to the next clause; if neither comes, an empty body is made up. */
static int
skip_head(Parser *p, Recover how, int token, TokenValue *value, Place *place)
{
	for (int before = 0; token != 0; before = token, token = parser_next(p, value, place)) {
		bool is_set = token == '{' && before == '=';
		bool outside = p->open.n == 0;
		if (how == RECOVER_LIST && outside && token == ')')
			return PARSER_NO_TOKEN;
		if (token == '{' && !is_set)
			return token;
		if (how == RECOVER_CLAUSE && outside && (token == GRID || token == TUNE || token == WHERE))
			return token;
		if (token == ';' || begins_item(token) || begins_item_or_argument(token) ||
		    (token == '}' && before != 0 && top(p) != '('))
			break;
		if (begins_stmt(token) && place->line > p->last.end_line)
			break;
	}
	if (token != ';')
		unread(p, token, *value, *place);
	unread(p, '}', *value, *place);
	return '{';
}

static int
skip_item(Parser *p, int token, TokenValue *value, Place *place)
{
	for (int depth = 0; token != 0; token = parser_next(p, value, place)) {
		if (depth == 0 && (begins_item(token) || begins_item_or_argument(token) || token == EXPECT))
			return token;
		depth += token == '{' ? 1 : token == '}' ? -1 : 0;
		if (depth <= 0 && (token == ';' || token == '}'))
			return PARSER_NO_TOKEN;
	}
	return token;
}

/* Every rule for recovery leaves a token that is taken next, so that this is never needed; a parser that would
 * loop for ever were it not so is too high a price. */
static bool
is_stuck(Parser *p, Place at)
{
	bool same = at.line == p->stuck_at.line && at.col == p->stuck_at.col;
	p->stuck = same ? p->stuck + 1 : 0;
	p->stuck_at = at;
	return p->stuck > 8;
}

bool
parser_recover(Parser *p, Recover how, int token, TokenValue *value, Place *place)
{
	bool report = true;
	if (token < 0)
		token = parser_next(p, value, place);
	if (is_stuck(p, *place)) {
		p->resume = token ? parser_next(p, value, place) : 0;
		return false;
	}
	bool line_ends = place->line > p->last.end_line || token == '}' || token == 0 || begins_item(token);
	if (how == RECOVER_END && line_ends)
		report = can_begin(token);
	else if (how == RECOVER_END || how == RECOVER_STMT)
		token = skip_stmt(p, token, value, place);
	else if (how == RECOVER_ITEM)
		token = skip_item(p, token, value, place);
	else
		token = skip_head(p, how, token, value, place);
	keep_braces(p);
	p->resume = token;
	return report && token != 0;
}
