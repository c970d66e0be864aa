/* Calls of builtins: finds the row of builtins.def, matches positional and named arguments against its parameter
 * text, evaluates them and runs the row's function.  The text of the signature is read here and nowhere else, so
 * that messages, defaults and matching cannot drift apart. */
#include "sema/builtin/builtin.h"

#include <string.h>

static const Builtin table[] = {
#define BUILTIN(name, family, params, run, op, traits, meaning) {name, family, params, run, op, traits, meaning},
#include "sema/builtin/builtins.def"
#undef BUILTIN
};

static const char *const names[] = {
#define BUILTIN(name, family, params, run, op, traits, meaning) name,
#include "sema/builtin/builtins.def"
#undef BUILTIN
};

const Builtin *
builtin_table(int *n)
{
	*n = LEN(table);
	return table;
}

const char *const *
builtin_names(int *n)
{
	*n = LEN(names);
	return names;
}

static const Builtin *
find(const char *name)
{
	return VALUE_OF(i, LEN(table), strcmp(table[i].name, name) == 0, &table[i], NULL);
}

bool
builtin_exists(const char *name, const char *scope)
{
	const Builtin *b = find(name);
	return b && (!scope || (strcmp(scope, "fast") == 0 && (b->traits & FAST)));
}

/* One parameter of a row's text. */
typedef struct ParamText {
	const char *name;
	const char *absent;                             /* the default's text, or NULL */
	const char **word;                              /* the words allowed, or NULL */
	int nword;
	bool raw, rest;
} ParamText;

enum { MAX_PARAM_TEXT = MAX_CALL_PARAMS + 1 };

typedef struct Signature {
	ParamText param[MAX_PARAM_TEXT];
	int n;
} Signature;

static void
read_words(Elab *e, ParamText *p, char *text)
{
	p->word = NEW_ARRAY(e->cx->mem, const char *, 8);
	while (text) {
		char *bar = strchr(text, '|');
		if (bar)
			*bar++ = 0;
		p->word[p->nword++] = text_trim(text);
		text = bar;
	}
	p->absent = p->word[0];
}

static Signature *
read_params(Elab *e, const Builtin *b)
{
	Signature *s = NEW(e->cx->mem, Signature);
	char *text = arena_strdup(e->cx->mem, b->params);
	while (text && *text) {
		char *comma = strchr(text, ',');
		if (comma)
			*comma++ = 0;
		char *equals = strchr(text, '=');
		if (equals)
			*equals++ = 0;
		ParamText *q = &s->param[s->n++];
		*q = (ParamText){.name = text_trim(text)};
		q->rest = strcmp(q->name, "...") == 0;
		q->raw = q->name[0] == '&';
		q->name += q->raw;
		if (equals && strchr(equals, '|'))
			read_words(e, q, equals);
		else if (equals)
			q->absent = text_trim(equals);
		text = comma;
	}
	return s;
}

/* Read once in a walk. */
static const Signature *
signature_of(Elab *e, const Builtin *b)
{
	if (!e->signature)
		e->signature = NEW_ARRAY(e->cx->mem, Signature *, LEN(table));
	Signature **s = &e->signature[b - table];
	if (!*s)
		*s = read_params(e, b);
	return *s;
}

/* The signature as messages show it. */
static void
help_signature(const Call *c)
{
	Text t = {0};
	for (const char *s = c->def->params; *s; s++)
		if (*s != '&')
			text_putn(&t, s, 1);
	diag_help(c->e->cx, "the arguments are %s%s(%s)", c->fast ? "fast::" : "", c->def->name, t.at ? t.at : "");
	text_close(&t);
}

static const char *
words_text(Elab *e, const ParamText *p)
{
	const char *s = p->word[0];
	for (int i = 1; i < p->nword; i++)
		s = arena_printf(e->cx->mem, "%s%s%s", s, i + 1 < p->nword ? ", " : " or ", p->word[i]);
	return s;
}

/* `order = relaxed`: a word stands for itself; text and names of text are taken too, with or without Triton's dot. */
static Val
eval_word(Call *c, const ParamText *p, const Expr *x)
{
	Elab *e = c->e;
	const char *said = x->kind == EX_NAME || x->kind == EX_STRING ? x->name : NULL;
	for (int round = 0; round < 2 && said; round++) {
		for (int i = 0; i < p->nword; i++)
			if (strcmp(said, p->word[i]) == 0 || (said[0] == '.' && strcmp(said + 1, p->word[i]) == 0))
				return (Val){.kind = VAL_TEXT, .place = x->place, .text = p->word[i]};
		Binding *bound = round == 0 && x->kind == EX_NAME ? scope_find(e, x->name) : NULL;
		if (!bound || bound->val.kind != VAL_TEXT)
			break;
		said = bound->val.text;
	}
	diag_error(e->cx, x->place, DIAG_ARG_WORD, c->def->name, p->name, words_text(e, p));
	const char *near = said ? nearest_name(said, p->word, p->nword) : NULL;
	if (near)
		diag_help(e->cx, "did you mean '%s'?", near);
	return val_poison(x->place);
}

static Val
absent_value(Call *c, const ParamText *p)
{
	Val v = {.kind = VAL_VOID, .place = c->place};
	DType t;
	if (!p->absent)
		return v;
	if (p->word)
		return (Val){.kind = VAL_TEXT, .place = c->place, .text = p->absent};
	if (strcmp(p->absent, "none") == 0)
		return v;
	if (strcmp(p->absent, "true") == 0 || strcmp(p->absent, "false") == 0)
		return val_bool(c->place, p->absent[0] == 't');
	if (dtype_named(p->absent, &t))
		return (Val){.kind = VAL_DTYPE, .place = c->place, .dtype = t};
	int64_t i = 0, sign = 1;
	for (const char *s = p->absent; *s; s++)
		if (*s == '-')
			sign = -1;
		else
			i = i * 10 + (*s - '0');
	return val_int(c->place, sign * i);
}

/* What other libraries call the same thing. */
static const char *
synonym(const char *name)
{
	static const char *const pair[][2] = {
		{"dim", "axis"}, {"dims", "axis"}, {"keepdim", "keep_dims"}, {"keepdims", "keep_dims"}, {"sem", "order"},
		{"size", "shape"}, {"fill_value", "value"}, {"input_precision", "precision"}, {"combine_fn", "fn"},
		{"propagate_nans", "propagate_nan"}, {"bins", "num_bins"}, {"largest", "descending"}, {"input", "x"},
	};
	return VALUE_OF(i, LEN(pair), strcmp(pair[i][0], name) == 0, pair[i][1], name);
}

/* Where a named argument goes; -1 after an error. */
static int
find_named(Call *c, const ParamText *p, int n, const Arg *a)
{
	const char *known[MAX_PARAM_TEXT];
	int nknown = 0;
	for (int i = 0; i < n; i++) {
		if (p[i].rest)
			continue;
		if (strcmp(p[i].name, a->name) == 0)
			return i;
		known[nknown++] = p[i].name;
	}
	diag_error(c->e->cx, a->name_place, DIAG_ARG_UNKNOWN, c->def->name, a->name);
	const char *meant = synonym(a->name), *near = nearest_name(meant, known, nknown);
	for (int i = 0; i < nknown; i++)
		if (strcmp(known[i], meant) == 0)
			near = meant;
	if (near)
		diag_help(c->e->cx, "did you mean '%s'?  the arguments are %s(%s)", near, c->def->name, c->def->params);
	else
		help_signature(c);
	return -1;
}

/* Fills `to` with the argument written for each parameter (NULL: absent) and `rest`; false after an error. */
static bool
match(Call *c, const ParamText *p, int n, const ArgList *args, const Arg **to, const Arg **rest)
{
	Elab *e = c->e;
	int next = 0, plain = 0;
	bool ok = true, named = false;
	plain += COUNT_OF(i, n, !p[i].rest);
	for (int i = 0; i < args->n; i++) {
		const Arg *a = &args->at[i];
		int at = next;
		if (a->name) {
			named = true;
			at = find_named(c, p, n, a);
		} else if (named) {
			diag_error(e->cx, a->e->place, DIAG_ARG_ORDER, c->def->name);
			help_signature(c);
			at = -1;
		} else if (next < n && p[next].rest) {
			rest[c->nrest++] = a;
			continue;
		} else if (next >= n) {
			diag_error(e->cx, a->e->place, DIAG_ARG_TOO_MANY, c->def->name, plain, args->n);
			if (n > 0 && strcmp(p[n - 1].name, "shape") == 0 && a->e->kind == EX_INT)
				diag_help(e->cx, "several extents stand in brackets, as in [64, 32]");
			else
				help_signature(c);
			return false;
		} else {
			next++;
		}
		if (at < 0) {
			ok = false;
			continue;
		}
		if (to[at]) {
			diag_error(e->cx, a->name ? a->name_place : a->e->place, DIAG_ARG_TWICE, c->def->name, p[at].name);
			ok = false;
		}
		to[at] = a;
	}
	for (int i = 0; ok && i < n; i++) {
		if (to[i] || p[i].absent || p[i].rest)
			continue;
		diag_error(e->cx, c->place, DIAG_ARG_MISSING, c->def->name, p[i].name);
		help_signature(c);
		ok = false;
	}
	return ok;
}

/* Evaluates one argument as its parameter requires. */
static CallArg
eval_arg(Call *c, const ParamText *p, const Arg *a)
{
	CallArg out = {.name = p ? p->name : NULL, .place = c->place};
	if (!a) {
		out.val = absent_value(c, p);
		return out;
	}
	out.place = a->e->place;
	out.name_place = a->name_place;
	out.e = a->e;
	if (p && p->raw)
		out.val = (Val){.kind = VAL_VOID, .place = a->e->place};
	else if (p && p->word)
		out.val = eval_word(c, p, a->e);
	else
		out.val = elab_expr(c->e, a->e);
	return out;
}

static bool
allowed_here(Call *c)
{
	Elab *e = c->e;
	if ((c->def->traits & KERNEL) && e->whole)
		return diag_error(e->cx, c->place, DIAG_NOT_IN_WHOLE, c->def->name);
	if ((c->def->traits & EXAMPLE) && !e->example)
		return diag_error(e->cx, c->place, DIAG_EXAMPLE_ONLY, c->def->name);
	return true;
}

/* Outside of a body only constants can be computed. */
static bool
computable_here(Call *c)
{
	if (c->e->func || ((c->def->traits & FOLDS) && call_is_const(c)))
		return true;
	return diag_error(c->e->cx, c->place, DIAG_NOT_CONST_HERE, c->def->name);
}

static Val
run(Call *c, const ArgList *args)
{
	Elab *e = c->e;
	const Signature *sig = signature_of(e, c->def);
	const ParamText *p = sig->param;
	const Arg *to[MAX_PARAM_TEXT] = {0};
	const Arg **rest = NEW_ARRAY(e->cx->mem, const Arg *, args->n);
	int n = sig->n;
	bool ok = match(c, p, n, args, to, rest);
	if (!ok || !allowed_here(c)) {
		int before = e->cx->nerrors;
		for (int i = 0; i < args->n && e->cx->nerrors == before; i++)
			if (args->at[i].e->kind != EX_NAME && args->at[i].e->kind != EX_STRING)
				elab_expr(e, args->at[i].e);
		return val_poison(c->place);
	}
	bool poison = false;
	for (int i = 0; i < n; i++) {
		if (p[i].rest)
			continue;
		CallArg *a = &c->arg[c->nparam++];
		*a = eval_arg(c, &p[i], to[i]);
		poison |= val_is_poison(&a->val);
	}
	c->rest = NEW_ARRAY(e->cx->mem, CallArg, c->nrest);
	for (int i = 0; i < c->nrest; i++) {
		c->rest[i] = eval_arg(c, NULL, rest[i]);
		poison |= val_is_poison(&c->rest[i].val);
	}
	if (poison || !computable_here(c))
		return val_poison(c->place);
	e->b.place = c->place;
	Val v = c->def->run(c);
	v.place = c->place;
	return v;
}

static Call *
take_call(Elab *e)
{
	Call *c = e->spare_calls;
	if (!c)
		return NEW(e->cx->mem, Call);
	e->spare_calls = c->next;
	return c;
}

Val
elab_builtin(Elab *e, const Expr *x)
{
	if (x->a->kind == EX_MEMBER)
		return elab_method(e, x);
	Call *c = take_call(e);
	*c = (Call){.e = e, .place = x->place, .def = find(x->a->name), .fast = x->a->scope != NULL};
	if (!c->def)
		die("'%s' is no builtin", x->a->name);
	Val v = run(c, &x->args);
	c->next = e->spare_calls;
	e->spare_calls = c;
	return v;
}
