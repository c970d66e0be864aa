/* The reader's view of the next token, and the table of a function's values by name. */
#include "ir/parse.h"

#include <string.h>

bool
read_is_punct(const Reader *r, char c)
{
	return r->l.token == TOK_PUNCT && r->l.punct == c;
}

bool
read_is_word(const Reader *r, const char *word)
{
	return r->l.token == TOK_WORD && strcmp(r->l.text, word) == 0;
}

bool
read_expected(Reader *r, const char *what)
{
	if (r->l.token != TOK_BAD)
		diag_error(r->cx, r->l.place, DIAG_TIR_SYNTAX, what, lex_describe(&r->l));
	return false;
}

bool
read_take(Reader *r, char c)
{
	if (!read_is_punct(r, c))
		return false;
	lex_next(&r->l);
	return true;
}

bool
read_take_word(Reader *r, const char *word)
{
	if (!read_is_word(r, word))
		return false;
	lex_next(&r->l);
	return true;
}

bool
read_need(Reader *r, char c)
{
	return read_take(r, c) || read_expected(r, arena_printf(r->cx->tmp, "'%c'", c));
}

bool
read_need_name(Reader *r, const char **name, const char *what)
{
	if (r->l.token != TOK_WORD)
		return read_expected(r, what);
	*name = r->l.text;
	lex_next(&r->l);
	return true;
}

/* An integer from `low` to `high`. */
bool
read_need_int(Reader *r, int64_t low, int64_t high, int64_t *v, const char *what)
{
	if (r->l.token != TOK_INT || r->l.i < low || r->l.i > high)
		return read_expected(r, what);
	*v = r->l.i;
	lex_next(&r->l);
	return true;
}

Binding *
read_binding(Reader *r, const char *name)
{
	const HashEntry *is = TABLE_FIND(e, &r->names, hash_pointer(name), ((Binding *)e->of)->name == name);
	return is ? is->of : NULL;
}

/* v.1 hints v; 12 hints nothing; anything else is no name. */
static bool
hint_of(Reader *r, const char *name, const char **hint)
{
	size_t n = strcspn(name, ".");

	*hint = NULL;
	if (name[n] && strspn(name + n, ".0123456789") != strlen(name + n))
		return false;
	if (!name[n] && strspn(name, "0123456789") == n)
		return true;
	*hint = intern_n(r->cx->names, name, n);
	return name_is_valid(*hint);
}

bool
read_bind(Reader *r, const char *name, Place at, Value *v)
{
	Binding *b = read_binding(r, name);
	if (b && b->visible) {
		diag_error(r->cx, at, DIAG_TIR_REDEFINED, name);
		return diag_note(r->cx, b->place, "the first is here");
	}
	if (!b)
		table_add(r->cx->tmp, &r->names, hash_pointer(name), b = NEW(r->cx->tmp, Binding), 0);
	*b = (Binding){name, v, at, true};
	return hint_of(r, name, &v->name) || diag_error(r->cx, at, DIAG_TIR_NAME, name);
}

Value *
read_resolve(Reader *r, const char *name, Place at)
{
	Binding *b = read_binding(r, name);

	if (b && b->visible)
		return b->value;
	if (b) {
		diag_error(r->cx, at, DIAG_TIR_SCOPE, name);
		diag_note(r->cx, b->place, "it is defined inside this region");
		return NULL;
	}
	VEC(const char *) near = {0};
	for (int i = 0; i < r->names.all.n; i++) {
		b = r->names.all.at[i].of;
		if (b->visible)
			vec_push(r->cx->tmp, &near, b->name);
	}
	const char *best = nearest_name(name, near.at, near.n);
	diag_error(r->cx, at, DIAG_TIR_VALUE, name);
	if (best)
		diag_help(r->cx, "did you mean '%%%s'?", best);
	return NULL;
}
