/* Attributes: finding them on an op, comparing them, and checking them against attrs.def; words of schedules and facts.
 *
 * An op has a handful at most: a linear search is all there is to it. */
#include "ir/ir.h"

#include <assert.h>
#include <string.h>

#define NEED_REQ true
#define NEED_OPT false

const AttrInfo attr_info[NATTRS] = {
#define ATTR(id, name, kind, absent, on, meaning) [ATTR_##id] = {#name, KIND_##kind, ON_##on, meaning},
#include "ir/attrs.def"
};

const AttrUse attr_use[] = {
#define TAKES(op, id, need, choices) {OP_##op, ATTR_##id, NEED_##need, choices},
#include "ir/attrs.def"
};
const int nattr_use = LEN(attr_use);

bool
attr_named(const char *text, AttrName *out)
{
	for (int i = 0; i < NATTRS; i++) {
		if (strcmp(attr_info[i].text, text) != 0)
			continue;
		*out = (AttrName)i;
		return true;
	}
	return false;
}

static const Attr *
find(const Attr *attr, int nattr, AttrName name)
{
	return VALUE_OF(i, nattr, attr[i].name == name, &attr[i], NULL);
}

const Attr *
op_attr(const Op *op, AttrName name)
{
	return find(op->attr, op->nattr, name);
}

void
op_set_attr(Module *m, Op *op, Attr a)
{
	for (int i = 0; i < op->nattr; i++) {
		if (op->attr[i].name != a.name)
			continue;
		op->attr[i] = a;
		return;
	}
	Attr *grown = NEW_ARRAY(m->cx->mem, Attr, op->nattr + 1);
	if (op->nattr)
		memcpy(grown, op->attr, sizeof *grown * (size_t)op->nattr);
	grown[op->nattr++] = a;
	op->attr = grown;
}

bool
ints_same(const IntList *a, const IntList *b)
{
	if (!a || !b)
		return !a && !b;
	return a->n == b->n && memcmp(a->at, b->at, sizeof *a->at * (size_t)a->n) == 0;
}

bool
attr_same(const Attr *a, const Attr *b)
{
	if (a->name != b->name || a->kind != b->kind)
		return false;
	switch (a->kind) {
	case KIND_INT: case KIND_BOOL: return a->i == b->i;
	case KIND_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
	case KIND_TEXT: return a->text == b->text;
	case KIND_INTS: return ints_same(&a->ints, &b->ints);
	case KIND_ANY: break;
	}
	unreachable();
}

bool
attrs_same(const Op *a, const Op *b)
{
	for (int i = 0; i < a->nattr; i++) {
		const Attr *other = op_attr(b, a->attr[i].name);
		if (!other || !attr_same(&a->attr[i], other))
			return false;
	}
	return a->nattr == b->nattr;
}

IntList
ints_copy(Module *m, const int64_t *v, int n)
{
	int64_t *at = MAP_OF(m->cx->mem, int64_t, i, n, v[i]);
	return (IntList){at, n};
}

const Attr *
value_const(const Value *v)
{
	return v->def && v->def->kind == OP_CONST ? attr_value(v->def) : NULL;
}

int64_t
const_int(const Op *op)
{
	return attr_value(op)->i;
}

/* ---- checks ---- */

#define fail(m, why, ...) (*(why) = arena_printf((m)->cx->tmp, __VA_ARGS__), false)

/* The ops of attr_use alone, a byte each: every op that is made asks for its own. */
static const uint8_t use_op[] = {
#define TAKES(op, id, need, choices) OP_##op,
#include "ir/attrs.def"
};
static_assert(OP_COUNT <= UINT8_MAX, "a byte holds an op");

/* The next of an op's uses, `from` or later; NULL: there is none. */
static const AttrUse *
next_use(OpKind kind, const AttrUse *from)
{
	size_t at = (size_t)(from - attr_use);
	const uint8_t *next = memchr(use_op + at, kind, sizeof use_op - at);
	return next ? &attr_use[next - use_op] : NULL;
}

static const AttrUse *
use_of(OpKind kind, AttrName name)
{
	return FIND_NEXT(u, next_use(kind, attr_use), next_use(kind, u + 1), u->name == name);
}

static bool
takes(OpKind kind, AttrName name)
{
	unsigned traits = op_info[kind].traits;

	switch (attr_info[name].on) {
	case ON_ANY_OP: return true;
	case ON_FLOATS: return (traits & ELEM) && !(traits & ANYI);
	case ON_ROWS: return use_of(kind, name) != NULL;
	}
	unreachable();
}

static const char *const kind_text[] = {
    [KIND_INT] = "an integer", [KIND_FLOAT] = "a float", [KIND_BOOL] = "true or false",
    [KIND_INTS] = "a list of integers", [KIND_TEXT] = "a text", [KIND_ANY] = "a value",
};

const char *
attr_unknown(Module *m, OpKind kind, const char *text)
{
	Arena *tmp = m->cx->tmp;
	const char *names = "";

	for (const AttrUse *use = attr_use; (use = next_use(kind, use)); use++)
		names = arena_printf(tmp, "%s%s%s", names, *names ? ", " : "", attr_info[use->name].text);
	if (!*names)
		return arena_printf(tmp, "attribute '%s' is unknown: this op takes none", text);
	return arena_printf(tmp, "attribute '%s' is unknown; expected %s", text, names);
}

static bool
check_one(Module *m, OpKind kind, const Attr *a, const char **why)
{
	const AttrInfo *info = &attr_info[a->name];
	const AttrUse *use = use_of(kind, a->name);

	if (!takes(kind, a->name)) {
		*why = attr_unknown(m, kind, info->text);
		return false;
	}
	if (info->kind != KIND_ANY && info->kind != a->kind)
		return fail(m, why, "attribute '%s' is %s; expected %s", info->text, kind_text[a->kind],
		    kind_text[info->kind]);
	if (use && use->choices && !words_have(use->choices, a->text))
		return fail(m, why, "attribute '%s' is \"%s\"; expected one of%.*s", info->text, a->text,
		    (int)strlen(use->choices) - 1, use->choices);
	return true;
}

bool
attrs_check(Module *m, const Op *op, const char **why)
{
	for (int i = 0; i < op->nattr; i++) {
		if (!check_one(m, op->kind, &op->attr[i], why))
			return false;
		if (find(op->attr, i, op->attr[i].name))
			return fail(m, why, "attribute '%s' stands twice", attr_info[op->attr[i].name].text);
	}
	for (const AttrUse *use = attr_use; (use = next_use(op->kind, use)); use++) {
		if (use->required && !op_attr(op, use->name))
			return fail(m, why, "attribute '%s' is missing; expected %s", attr_info[use->name].text,
			    kind_text[attr_info[use->name].kind]);
	}
	return true;
}

/* ---- schedules and facts ---- */

const ScheduleInfo schedule_info[SCHEDULE_COUNT] = {
#define SCHEDULE(id, name, kind, most, range, meaning) [SCHEDULE_##id] = {#name, SCHEDULE_##kind, most, range, meaning},
#include "ir/schedule.def"
#undef SCHEDULE
};

int
schedule_named(const char *name)
{
	return FIRST_OF(i, SCHEDULE_COUNT, strcmp(schedule_info[i].text, name) == 0);
}

const FactInfo fact_info[FACT_COUNT] = {
#define FACT(name, meaning) [FACT_##name] = {#name, meaning},
#include "ir/facts.def"
#undef FACT
};

void
facts_print(unsigned facts, const char *between, Text *out)
{
	for (int i = 0, n = 0; i < FACT_COUNT; i++)
		if (facts >> i & 1)
			text_printf(out, "%s%s", n++ ? between : "", fact_info[i].text);
}
