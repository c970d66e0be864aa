/* The names that a launch may set, each with its value and its source: when two disagree the message can
 * name both.  Values are brought to the kind that the name has: a dtype may come as text from a command line, a
 * bool as 0 or 1, a float as an integer. */
#include "sema/bind.h"

#include <string.h>

static void
add(Binder *b, SlotKind kind, const char *name, int index)
{
	b->slot[b->nslot++] = (Slot){.name = intern(b->cx->names, name), .kind = kind, .index = index,
	    .place = NOWHERE};
}

void
slots_make(Binder *b)
{
	const Kernel *k = b->k;
	int nct = k->item->ctparams.n;

	b->slot = NEW_ARRAY(b->cx->mem, Slot, nct + k->symbols.n + k->params.n + SCHEDULE_COUNT);
	for (int i = 0; i < nct; i++)
		add(b, SLOT_CT, k->item->ctparams.at[i].name, i);
	for (int i = 0; i < k->symbols.n; i++)
		add(b, SLOT_SYMBOL, k->symbols.at[i], i);
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR)
			add(b, SLOT_SCALAR, k->params.at[i].name, i);
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (ctparam_named(k, schedule_info[i].text) < 0 && !schedule_hidden(k, schedule_info[i].text))
			add(b, SLOT_SCHEDULE, schedule_info[i].text, i);
}

Slot *
slot_find(Binder *b, const char *name)
{
	return VALUE_OF(i, b->nslot, strcmp(b->slot[i].name, name) == 0, &b->slot[i], NULL);
}

/* The type that a slot's value must have, in words; NULL: anything. */
static const char *
wanted_kind(Binder *b, const Slot *s, DType *t)
{
	*t = TY_I64;
	switch (s->kind) {
	case SLOT_SYMBOL: return "an integer";
	case SLOT_SCHEDULE:
		if (schedule_info[s->index].kind != SCHEDULE_SWITCH)
			return "an integer";
		*t = TY_BOOL;
		return "true or false";
	case SLOT_SCALAR: {
		const KernelParam *p = &b->k->params.at[s->index];
		if (!p->dtype_known)
			return NULL;
		*t = p->dtype;
		break;
	}
	case SLOT_CT: {
		const CtParam *c = &b->k->item->ctparams.at[s->index];
		if (!c->type.name)
			return NULL;
		if (!dtype_named(c->type.name, t))
			return "a type such as f32";
		break;
	}
	}
	return dtype_is_float(*t) ? "a number" : *t == TY_BOOL ? "true or false" : "an integer";
}

static bool
coerce(Binder *b, const Slot *s, Const *c)
{
	DType t, named;
	const char *want = wanted_kind(b, s, &t);

	if (c->kind == CONST_TEXT && dtype_named(c->text, &named))
		*c = (Const){.kind = CONST_DTYPE, .dtype = named};
	if (!want)
		return c->kind != CONST_TEXT && c->kind != CONST_NONE;
	if (want[0] == 'a' && want[2] == 't')
		return c->kind == CONST_DTYPE;
	if (dtype_is_float(t)) {
		const_to_float(c);
		return c->kind == CONST_FLOAT;
	}
	if (t == TY_BOOL) {
		if (c->kind == CONST_INT && (c->i == 0 || c->i == 1))
			c->kind = CONST_BOOL;
		return c->kind == CONST_BOOL;
	}
	if (c->kind == CONST_BIG)
		return t == TY_U64;
	return c->kind == CONST_INT && int_fits(t, c->i) && (c->i >= 0 || !dtype_is_unsigned(t));
}

/* Reported: nothing more is said of it. */
static bool
slot_poison(Binder *b, Slot *s, Place place)
{
	if (!s->set)
		scope_add(b->e, s->name, place, val_poison(place), false);
	s->set = true;
	return false;
}

bool
slot_set(Binder *b, Slot *s, const Const *value, Place place, const char *from)
{
	Const c = *value;
	DType t;

	if (place.file < 0)
		place = b->k->item->name_place;
	if (!coerce(b, s, &c)) {
		const char *want = wanted_kind(b, s, &t);
		if ((c.kind == CONST_INT || c.kind == CONST_BIG) && want && strcmp(want, "an integer") == 0)
			want = arena_printf(b->cx->mem, "an integer that %s can hold", dtype_info[t].text);
		diag_error(b->cx, place, DIAG_SLOT_KIND, s->name, want ? want : "a value", const_describe(b->cx, &c));
		return slot_poison(b, s, place);
	}
	if (s->set && s->value.kind == CONST_NONE)      /* reported */
		return false;
	if (s->set && !const_equal(&s->value, &c)) {
		if (b->lenient)
			return true;
		return diag_error(b->cx, place, DIAG_SLOT_TWICE, s->name, const_describe(b->cx, &s->value),
		    s->from ? s->from : "the command line", const_describe(b->cx, &c), from ? from : "the command line");
	}
	if (s->kind == SLOT_SYMBOL && c.i < 0) {
		diag_error(b->cx, place, DIAG_DIM_NEGATIVE, s->name, (long long)c.i);
		return slot_poison(b, s, place);
	}
	if (s->set)
		return true;
	s->set = true;
	s->value = c;
	s->place = place;
	s->from = from;
	scope_add(b->e, s->name, place, val_of_const(place, &c), false);
	return true;
}
