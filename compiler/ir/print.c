/* Prints a module as text that parse.c reads back.
 *
 * Every value gets a name: its hint if no earlier value of the function took it, else hint.1,
 * hint.2 …, else the next number.  Names depend only on hints and on the order of definitions, and
 * the reader keeps hints, so printing what was read gives the same text.  Files of places are
 * numbered in the order in which they occur, so that the header is short and stable. */
#include "ir/ir.h"

#include <math.h>
#include <string.h>

/* Of a value or a hint. */
typedef struct Entry {
	const void *key;
	const char *name;                               /* of a value */
	int count;                                      /* of a hint: how often taken; of a file: its number */
} Entry;

typedef struct Printer {
	Arena *tmp;
	Compile *cx;
	Text *out;
	HashTable values, hints;                        /* entries */
	int next;                                       /* number of the next value without a hint */
	VEC(int) files;                                 /* Compile.files indices in printed order */
	VEC(const Layout *) layouts;                    /* in printed order */
} Printer;

static Entry *
lookup(Arena *a, HashTable *t, const void *key)
{
	uint64_t h = hash_pointer(key);
	const HashEntry *is = TABLE_FIND(e, t, h, ((Entry *)e->of)->key == key);
	if (is)
		return is->of;
	Entry *new = NEW(a, Entry);
	new->key = key;
	table_add(a, t, h, new, 0);
	return new;
}

bool
name_is_valid(const char *s)
{
	if (!s || !*s || char_is_digit(*s))
		return false;
	while (char_is_letter(*s) || char_is_digit(*s) || *s == '_')
		s++;
	return *s == '\0';
}

static void
name_value(Printer *p, const Value *v)
{
	const char *name;

	if (name_is_valid(v->name)) {
		const char *hint = intern(p->cx->names, v->name);
		Entry *taken = lookup(p->tmp, &p->hints, hint);
		name = taken->count ? arena_printf(p->tmp, "%s.%d", hint, taken->count) : hint;
		taken->count++;
	} else {
		name = arena_printf(p->tmp, "%d", p->next++);
	}
	lookup(p->tmp, &p->values, v)->name = name;
}

static void
name_func(Printer *p, const Func *f)
{
	ValueList all = func_values(f, p->tmp);

	p->values = p->hints = (HashTable){0};
	p->next = 0;
	for (int i = 0; i < all.n; i++)
		name_value(p, all.at[i]);
}

static void
put_value(Printer *p, const Value *v)
{
	const char *name = v ? lookup(p->tmp, &p->values, v)->name : NULL;

	text_printf(p->out, "%%%s", name ? name : "<unknown>");
}

static void
put_float(Text *out, double v)
{
	uint64_t bits;
	char text[40];

	memcpy(&bits, &v, sizeof bits);
	if (isnan(v)) {
		if (bits == UINT64_C(0x7ff8000000000000))
			text_put(out, "nan");
		else
			text_printf(out, "nan(0x%llx)", (unsigned long long)bits);
		return;
	}
	if (isinf(v)) {
		text_put(out, v < 0 ? "-inf" : "inf");
		return;
	}
	for (int digits = 6; digits <= 17; digits++) {
		number_format(text, sizeof text, "%.*g", digits, v);
		if (number_read(text, NULL) == v)
			break;
	}
	text_put(out, text);
	if (!strpbrk(text, ".e"))
		text_put(out, ".0");
}

static void
put_attr(Text *out, const Attr *a)
{
	text_printf(out, "%s = ", attr_info[a->name].text);
	switch (a->kind) {
	case KIND_INT:
		text_printf(out, "%lld", (long long)a->i);
		break;
	case KIND_FLOAT:
		put_float(out, a->f);
		break;
	case KIND_BOOL:
		text_put(out, a->i ? "true" : "false");
		break;
	case KIND_TEXT:
		text_quoted(out, a->text, "nt", "\\x%02x");
		break;
	case KIND_INTS:
		text_put(out, "[");
		for (int i = 0; i < a->ints.n; i++)
			text_printf(out, "%s%lld", i ? ", " : "", (long long)a->ints.at[i]);
		text_put(out, "]");
		break;
	case KIND_ANY:
		unreachable();
	}
}

static void
put_place(Printer *p, Place at)
{
	if (at.file < 0 || at.line <= 0)
		return;
	for (int i = 0; i < p->files.n; i++) {
		if (p->files.at[i] != at.file)
			continue;
		if (i == 0)
			text_printf(p->out, " @%d:%d", at.line, at.col);
		else
			text_printf(p->out, " @%d:%d:%d", i, at.line, at.col);
		return;
	}
}

/* f32[64, 32] #0 */
static void
put_type(Printer *p, const Value *v)
{
	type_print(v->type, p->out);
	for (int i = 0; v->layout && i < p->layouts.n; i++)
		if (p->layouts.at[i] == v->layout)
			text_printf(p->out, " #%d", i);
}

static void
put_op(Printer *p, const Op *op)
{
	for (int i = 0; i < op->nout; i++) {
		put_value(p, &op->out[i]);
		text_put(p->out, i + 1 < op->nout ? ", " : " = ");
	}
	text_put(p->out, op_info[op->kind].text);
	for (int i = 0; i < op->nin; i++) {
		text_put(p->out, i ? ", " : " ");
		put_value(p, op->in[i]);
	}
	for (int i = 0; i < op->nattr; i++) {
		text_put(p->out, i ? ", " : " {");
		put_attr(p->out, &op->attr[i]);
	}
	if (op->nattr)
		text_put(p->out, "}");
	for (int i = 0; i < op->nout; i++) {
		text_put(p->out, i ? ", " : " : ");
		put_type(p, &op->out[i]);
	}
	put_place(p, op->place);
}

static void
indent(Printer *p, int depth)
{
	for (int i = 0; i < depth; i++)
		text_put(p->out, "\t");
}

static void
put_block(Printer *p, const Block *b, int depth)
{
	for (const Op *op = b->first; op; op = op->next) {
		indent(p, depth);
		put_op(p, op);
		for (int r = 0; r < op->nregion; r++) {
			const Block *in = op->region[r];
			const char *word = region_word(op->kind, r);
			text_printf(p->out, " %s", word ? word : "region");
			for (int i = 0; in && i < in->narg; i++) {
				text_put(p->out, i ? ", " : " (");
				put_value(p, &in->arg[i]);
				text_put(p->out, ": ");
				put_type(p, &in->arg[i]);
			}
			text_put(p->out, in && in->narg ? ") {\n" : " {\n");
			if (in)
				put_block(p, in, depth + 1);
			indent(p, depth);
			text_put(p->out, "}");
		}
		text_put(p->out, "\n");
	}
}

/* f32[R, C = 1000, cdiv(R, 16), ?]: the name that a dimension binds, its extent if known, its parts, or nothing. */
static void
put_tensor(Printer *p, const Func *f, const FuncParam *param, const Type *t)
{
	text_put(p->out, dtype_info[t->elem].text);
	for (int d = 0; d < t->rank; d++) {
		text_put(p->out, d ? ", " : "[");
		bool named = param->dim[d] >= 0 && param->dim[d] < f->nparam;
		if (named)
			text_put(p->out, f->param[param->dim[d]].name);
		if (t->extent[d] >= 0)
			text_printf(p->out, "%s%lld", named ? " = " : "", (long long)t->extent[d]);
		else if (!named && param->part[d] > 0)
			text_printf(p->out, "cdiv(%s, %lld)", f->param[param->part_of[d]].name, (long long)param->part[d]);
		else if (!named)
			text_put(p->out, "?");
	}
	if (t->rank)
		text_put(p->out, "]");
}

const char *const access_text[] = {"in", "out", "inout", "scratch"};

/* multiple(16): the address; multiple(16, 1, 32): then each dimension; least(897, 1024): of a dimension,
 * and the most. */
static void
put_multiple(Printer *p, const FuncParam *param, int rank)
{
	int n = 0;

	for (int d = 0; param->kind == PARAM_TENSOR && d < rank; d++)
		if (param->dim_multiple[d] > 1)
			n = rank;
	if (n > 0 || param->multiple > 1) {
		text_printf(p->out, " multiple(%lld", (long long)MAX(param->multiple, 1));
		for (int d = 0; d < n; d++)
			text_printf(p->out, ", %lld", (long long)MAX(param->dim_multiple[d], 1));
		text_put(p->out, ")");
	}
	if (param->least > 0)
		text_printf(p->out, " least(%lld", (long long)param->least);
	if (param->least > 0 && param->most > 0)
		text_printf(p->out, ", %lld", (long long)param->most);
	text_put(p->out, param->least > 0 ? ")" : "");
}

static void
put_param(Printer *p, const Func *f, int i)
{
		const FuncParam *param = &f->param[i];

	put_value(p, &f->body->arg[i]);
	text_put(p->out, ": ");
	if (param->kind == PARAM_TENSOR) {
		text_printf(p->out, "%s %s%s", access_text[param->access], param->is_constant ? "fixed " : "",
		    param->strided ? "strided " : "");
		if (param->strided && param->unit)
			text_printf(p->out, "rows(%lld) ", (long long)MAX(param->apart, 1));
		if (param->last > 0)
			text_printf(p->out, "last(%d) ", param->last - 1);
		put_tensor(p, f, param, f->body->arg[i].type);
	} else if (param->kind == PARAM_DIM) {
		text_put(p->out, "dim");
	} else {
		type_print(f->body->arg[i].type, p->out);
	}
	put_multiple(p, param, f->body->arg[i].type->rank);
}

static void
put_schedule(Printer *p, const Schedule *s)
{
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (s->at[i])
			text_printf(p->out, " %s(%d)", schedule_info[i].text, s->at[i]);
}

static void
put_func(Printer *p, const Func *f)
{
	name_func(p, f);
	text_printf(p->out, "%s @%s(", f->is_reference ? "reference" : "kernel", f->name);
	for (int i = 0; i < f->nparam; i++) {
		text_put(p->out, i ? ", " : "");
		put_param(p, f, i);
	}
	text_put(p->out, ")");
	for (int i = 0; i < f->naxis; i++)
		text_printf(p->out, "%s%s", i ? ", " : " grid(", f->axis[i]);
	text_put(p->out, f->naxis ? ")" : "");
	put_schedule(p, &f->schedule);
	if (f->shared_bytes)
		text_printf(p->out, " shared(%lld)", (long long)f->shared_bytes);
	put_place(p, f->place);
	text_put(p->out, " {\n");
	put_block(p, f->body, 1);
	text_put(p->out, "}\n");
}

static void
note_file(Printer *p, Place at)
{
	if (at.file < 0 || at.file >= p->cx->files.n || at.line <= 0)
		return;
	for (int i = 0; i < p->files.n; i++)
		if (p->files.at[i] == at.file)
			return;
	vec_push(p->tmp, &p->files, at.file);
}

static void
note_files(Printer *p, const Func *f)
{
	note_file(p, f->place);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		note_file(p, op->place);
}

static void
note_layout(Printer *p, const Layout *l)
{
	for (int i = 0; i < p->layouts.n; i++)
		if (p->layouts.at[i] == l)
			return;
	if (l)
		vec_push(p->tmp, &p->layouts, l);
}

/* In text order, so that they are numbered as they occur. */
static void
note_layouts(Printer *p, const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		for (int i = 0; i < op->nout; i++)
			note_layout(p, op->out[i].layout);
		for (int r = 0; r < op->nregion; r++)
			for (int i = 0; op->region[r] && i < op->region[r]->narg; i++)
				note_layout(p, op->region[r]->arg[i].layout);
	}
}

static void
put_layouts(Printer *p)
{
	for (int i = 0; i < p->layouts.n; i++) {
		text_printf(p->out, "layout #%d = ", i);
		layout_print(p->layouts.at[i], p->out);
		text_put(p->out, "\n");
	}
}

static void
put_facts(Printer *p, unsigned facts)
{
	text_put(p->out, "facts(");
	facts_print(facts, ", ", p->out);
	text_put(p->out, ")\n");
}

void
module_print(const Module *m, Text *out)
{
	Printer p = {.tmp = m->cx->tmp, .cx = m->cx, .out = out};

	for (int i = 0; i < m->funcs.n; i++) {
		note_files(&p, m->funcs.at[i]);
		note_layouts(&p, m->funcs.at[i]);
	}
	for (int i = 0; i < p.files.n; i++) {
		text_printf(out, "file %d ", i);
		text_quoted(out, m->cx->files.at[p.files.at[i]].path, "nt", "\\x%02x");
		text_put(out, "\n");
	}
	if (m->facts != TYPED)
		put_facts(&p, m->facts);
	put_layouts(&p);
	for (int i = 0; i < m->funcs.n; i++) {
		if (i || p.files.n || m->facts != TYPED || p.layouts.n)
			text_put(out, "\n");
		put_func(&p, m->funcs.at[i]);
	}
}

void
op_print(const Op *op, Text *out)
{
	const Func *f = op->home->func;
	Printer p = {.tmp = f->module->cx->tmp, .cx = f->module->cx, .out = out};

	note_files(&p, f);
	note_layouts(&p, f);
	name_func(&p, f);
	put_op(&p, op);
}
