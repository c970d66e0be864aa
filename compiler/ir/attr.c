/* Attributes: making them, finding them on an op, and checking them against attrs.def.
 *
 * An op has a handful at most, so a linear search over interned names is all there is to it. */
#include "ir/ir.h"

#include <string.h>

#define KIND_INT ATTR_INT
#define KIND_FLOAT ATTR_FLOAT
#define KIND_BOOL ATTR_BOOL
#define KIND_INTS ATTR_INTS
#define KIND_TEXT ATTR_TEXT
#define KIND_ANY ((AttrKind)ATTR_KIND_ANY)
#define NEED_REQ true
#define NEED_OPT false

const AttrInfo attr_info[] = {
#define ATTR(op, name, kind, need, choices) {OP_##op, #name, KIND_##kind, NEED_##need, choices},
#include "ir/attrs.def"
#undef ATTR
};
const int nattr_info = LEN(attr_info);

/* What the passes for a GPU note on any op: where its scratch stands in the block's shared memory, and whether
 * a barrier of the block, or one of each warp, goes before it. */
static const AttrInfo any_op[] = {
    {.op = OP_COUNT, .name = "smem", .kind = ATTR_INT},
    {.op = OP_COUNT, .name = "sync", .kind = ATTR_BOOL},
    {.op = OP_COUNT, .name = "sync_warp", .kind = ATTR_BOOL},
    {.op = OP_COUNT, .name = "equal", .kind = ATTR_INT},
};
static const AttrInfo fast = {.op = OP_COUNT, .name = "fast", .kind = ATTR_BOOL};

static Attr
make(Module *m, const char *name, AttrKind kind)
{
	return (Attr){.name = intern(m->cx->names, name), .kind = kind};
}

Attr
attr_int(Module *m, const char *name, int64_t v)
{
	Attr a = make(m, name, ATTR_INT);

	a.i = v;
	return a;
}

Attr
attr_bool(Module *m, const char *name, bool v)
{
	Attr a = make(m, name, ATTR_BOOL);

	a.i = v;
	return a;
}

Attr
attr_float(Module *m, const char *name, double v)
{
	Attr a = make(m, name, ATTR_FLOAT);

	a.f = v;
	return a;
}

Attr
attr_text(Module *m, const char *name, const char *v)
{
	Attr a = make(m, name, ATTR_TEXT);

	a.text = intern(m->cx->names, v);
	return a;
}

Attr
attr_ints(Module *m, const char *name, const int64_t *v, int n)
{
	Attr a = make(m, name, ATTR_INTS);
	int64_t *ints = NEW_ARRAY(m->cx->mem, int64_t, n);

	for (int i = 0; i < n; i++)
		ints[i] = v[i];
	a.ints = ints;
	a.nints = n;
	return a;
}

static const Attr *
find(const Attr *attr, int nattr, const char *name)
{
	for (int i = 0; i < nattr; i++)
		if (strcmp(attr[i].name, name) == 0)
			return &attr[i];
	return NULL;
}

const Attr *
op_attr(const Op *op, const char *name)
{
	return find(op->attr, op->nattr, name);
}

int64_t
op_int(const Op *op, const char *name, int64_t absent)
{
	const Attr *a = op_attr(op, name);

	return a && (a->kind == ATTR_INT || a->kind == ATTR_BOOL) ? a->i : absent;
}

bool
op_bool(const Op *op, const char *name)
{
	const Attr *a = op_attr(op, name);

	return a && a->kind == ATTR_BOOL && a->i;
}

const char *
op_text(const Op *op, const char *name)
{
	const Attr *a = op_attr(op, name);

	return a && a->kind == ATTR_TEXT ? a->text : "";
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

const AttrInfo *
attr_find(OpKind kind, const char *name)
{
	unsigned traits = op_info[kind].traits;

	if ((traits & ELEM) && !(traits & ANYI) && strcmp(name, fast.name) == 0)
		return &fast;
	for (int i = 0; i < LEN(any_op); i++)
		if (strcmp(name, any_op[i].name) == 0)
			return &any_op[i];
	for (int i = 0; i < nattr_info; i++)
		if (attr_info[i].op == kind && strcmp(attr_info[i].name, name) == 0)
			return &attr_info[i];
	return NULL;
}

static bool PRINTF(3, 4)
fail(Module *m, const char **why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	*why = arena_vprintf(m->cx->tmp, fmt, ap);
	va_end(ap);
	return false;
}

static const char *
kind_text(AttrKind kind)
{
	switch (kind) {
	case ATTR_INT:
		return "an integer";
	case ATTR_FLOAT:
		return "a float";
	case ATTR_BOOL:
		return "true or false";
	case ATTR_INTS:
		return "a list of integers";
	case ATTR_TEXT:
		return "a text";
	}
	return "a value";
}

/* The names that an op takes, for a message: "axis, reverse". */
static const char *
names_text(Module *m, OpKind kind)
{
	char *all = "";

	for (int i = 0; i < nattr_info; i++)
		if (attr_info[i].op == kind)
			all = arena_printf(m->cx->tmp, "%s%s%s", all, *all ? ", " : "",
			    attr_info[i].name);
	return all;
}

static bool
is_choice(const char *choices, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = choices; n && (at = strstr(at, word)); at++)
		if (at[-1] == ' ' && at[n] == ' ')
			return true;
	return false;
}

static bool
check_one(Module *m, OpKind kind, const Attr *a, const char **why)
{
	const AttrInfo *info = attr_find(kind, a->name);

	if (!info) {
		const char *names = names_text(m, kind);
		if (!*names)
			return fail(m, why, "attribute '%s' is unknown: this op takes none", a->name);
		return fail(m, why, "attribute '%s' is unknown; expected %s", a->name, names);
	}
	if (info->kind != KIND_ANY && info->kind != a->kind)
		return fail(m, why, "attribute '%s' is %s; expected %s", a->name,
		    kind_text(a->kind), kind_text(info->kind));
	if (info->choices && !is_choice(info->choices, a->text))
		return fail(m, why, "attribute '%s' is \"%s\"; expected one of%.*s", a->name, a->text,
		    (int)strlen(info->choices) - 1, info->choices);
	return true;
}

bool
attrs_check(Module *m, OpKind kind, const Attr *attr, int nattr, const char **why)
{
	for (int i = 0; i < nattr; i++) {
		if (!check_one(m, kind, &attr[i], why))
			return false;
		if (find(attr, i, attr[i].name))
			return fail(m, why, "attribute '%s' stands twice", attr[i].name);
	}
	for (int i = 0; i < nattr_info; i++)
		if (attr_info[i].op == kind && attr_info[i].required &&
		    !find(attr, nattr, attr_info[i].name))
			return fail(m, why, "attribute '%s' is missing; expected %s",
			    attr_info[i].name, kind_text(attr_info[i].kind));
	return true;
}
