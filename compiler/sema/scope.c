/* Scopes: what each name stands for, innermost first.  A binding is found by its interned name; later ones in a
 * scope come first, so that a name that was reported as defined twice still means the newer thing.  Names of
 * bindings that begin with a space are hidden: nothing in the source can say them. */
#include "sema/elab.h"

struct Scope {
	Scope *up;
	VEC(Binding *) names;
};

Scope *
scope_push(Elab *e)
{
	Scope *s = NEW(e->cx->mem, Scope);

	s->up = e->scope;
	e->scope = s;
	return s;
}

void
scope_pop(Elab *e)
{
	e->scope = e->scope->up;
}

static Binding *
find_here(const Scope *s, const char *name)
{
	for (int i = s->names.n - 1; i >= 0; i--)
		if (s->names.at[i]->name == name)
			return s->names.at[i];
	return NULL;
}

Binding *
scope_add(Elab *e, const char *name, Place at, Val val, bool is_var)
{
	Binding *b = NEW(e->cx->mem, Binding);
	Binding *old = find_here(e->scope, name);

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
	vec_push(e->cx->mem, &e->scope->names, b);
	return b;
}

void
scope_put(Elab *e, const char *name, Place at, Val val)
{
	Binding *b = NEW(e->cx->mem, Binding);

	*b = (Binding){.name = name, .place = at, .val = val};
	vec_push(e->cx->mem, &e->scope->names, b);
}

Binding *
scope_find(Elab *e, const char *name)
{
	for (const Scope *s = e->scope; s; s = s->up) {
		Binding *b = find_here(s, name);
		if (b) {
			b->used = true;
			return b;
		}
	}
	return NULL;
}

const char *
scope_nearest(Elab *e, const char *name)
{
	VEC(const char *) all = {0};
	int nbuiltin;
	const char *const *builtin = builtin_names(&nbuiltin);

	for (const Scope *s = e->scope; s; s = s->up)
		for (int i = 0; i < s->names.n; i++)
			if (s->names.at[i]->name[0] != ' ')
				vec_push(e->cx->mem, &all, s->names.at[i]->name);
	for (int i = 0; i < nbuiltin; i++)
		vec_push(e->cx->mem, &all, builtin[i]);
	return nearest_name(name, all.at, all.n);
}
