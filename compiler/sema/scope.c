/* Scopes: what each name stands for, innermost first.  A binding is found by its interned name; later
 * ones in a scope come first, so that a name that was reported as defined twice still means the
 * newer thing.  Names of bindings that begin with a space are hidden: nothing in the source can say them.
 *
 * The constants and functions of a file are the same for every kernel of it, and so is what is predeclared: there is one
 * table of each, and a scope takes from it what is asked for, since what a constant comes to is kept in its binding. */
#include "sema/elab.h"

struct NameTable {
	HashTable all;                                  /* bindings by their names, in the order of their definitions */
	NameTable *words;                               /* of a file's table: the predeclared names */
};

struct Scope {
	Scope *up;
	NameTable names;
	const NameTable *source;                        /* shared by the elaborations of a file; else NULL */
};

Scope *
scope_push(Elab *e)
{
	Scope *s = NEW(e->cx->mem, Scope);

	s->up = e->scope;
	e->scope = s;
	return s;
}

static Scope *
push_source(Elab *e, const NameTable *source)
{
	Scope *s = scope_push(e);

	s->source = source;
	return s;
}

Scope *
scope_push_words(Elab *e, const NameTable *items)
{
	return push_source(e, items->words);
}

Scope *
scope_push_items(Elab *e, const NameTable *items)
{
	return push_source(e, items);
}

void
scope_pop(Elab *e)
{
	e->scope = e->scope->up;
}

static void
names_add(Arena *mem, NameTable *n, Binding *b)
{
	table_add(mem, &n->all, hash_pointer(b->name), b, 0);
}

static Binding *
names_find(const NameTable *n, const char *name)
{
	const HashEntry *is = TABLE_FIND(e, &n->all, hash_pointer(name), ((Binding *)e->of)->name == name);
	return is ? is->of : NULL;
}

static Binding *
find_here(Elab *e, Scope *s, const char *name)
{
	Binding *b = names_find(&s->names, name), *of = b || !s->source ? NULL : names_find(s->source, name);

	if (!of)
		return b;
	b = NEW(e->cx->mem, Binding);
	*b = *of;
	names_add(e->cx->mem, &s->names, b);
	return b;
}

Binding *
scope_add(Elab *e, const char *name, Place at, Val val, bool is_var)
{
	Binding *b = NEW(e->cx->mem, Binding);
	Binding *old = find_here(e, e->scope, name);

	*b = (Binding){.name = name, .place = at, .val = val, .is_var = is_var};
	trace_value(e, name, at, &b->val);
	if (old && name[0] != '_' && name[0] != ' ') {
		diag_error(e->cx, at, DIAG_NAME_TWICE, name);
		if (old->place.file >= 0)
			diag_note(e->cx, old->place, "'%s' was first defined here", name);
		if (old->is_var)
			diag_help(e->cx, "to give it a new value, write '%s = ...'", name);
		else
			diag_help(e->cx, "take another name, or declare the first with 'var' and assign it");
	}
	names_add(e->cx->mem, &e->scope->names, b);
	return b;
}

static void
add_word(Arena *mem, NameTable *n, const char *name, Val v)
{
	Binding *b = NEW(mem, Binding);

	*b = (Binding){.name = name, .place = NOWHERE, .val = v};
	names_add(mem, n, b);
}

NameTable *
names_of_items(Program *p)
{
	NameTable *n = NEW(p->cx->mem, NameTable);
	const char *name;
	Val word;

	n->words = NEW(p->cx->mem, NameTable);
	for (int i = 0; (name = elab_word(p->cx, i, &word)); i++)
		add_word(p->cx->mem, n->words, name, word);
	for (int i = 0; i < p->items.n; i++) {
		const Item *it = p->items.at[i];
		if (it->kind != ITEM_CONST && it->kind != ITEM_FN)
			continue;
		Binding *b = NEW(p->cx->mem, Binding);
		Val v = {.kind = VAL_FN, .place = it->place, .fn = it};
		*b = (Binding){.name = it->name, .place = it->name_place, .val = v};
		names_add(p->cx->mem, n, b);
	}
	return n;
}

Binding *
scope_find(Elab *e, const char *name)
{
	for (Scope *s = e->scope; s; s = s->up) {
		Binding *b = find_here(e, s, name);
		if (b)
			return b;
	}
	return NULL;
}

static void
add_visible(Elab *e, const NameTable *n, NameSet *all)
{
	for (int i = 0; i < n->all.all.n; i++) {
		const Binding *b = n->all.all.at[i].of;
		if (b->name[0] != ' ')
			vec_push(e->cx->mem, all, b->name);
	}
}

const char *
scope_nearest(Elab *e, const char *name)
{
	NameSet all = {0};
	int nbuiltin;
	const char *const *builtin = builtin_names(&nbuiltin);

	for (const Scope *s = e->scope; s; s = s->up) {
		add_visible(e, &s->names, &all);
		if (s->source)
			add_visible(e, s->source, &all);
	}
	for (int i = 0; i < nbuiltin; i++)
		vec_push(e->cx->mem, &all, builtin[i]);
	return nearest_name(name, all.at, all.n);
}
