/* A kernel's tile IR as a function of C that runs a grid, program by program.
 *
 *     %v = read %x, %row, %0, %1 {index = "ip", extents = [512]} : f32[512]
 *     %2 = reduce %v {fn = "max", axis = 0} : f32
 *     %3 = broadcast %2 : f32[512]
 *     %4 = sub %v, %3 : f32[512]
 *     %e = exp %4 : f32[512]
 *
 *     ...                                              m->t1[] is %v, v2 is %2
 *     for (int i = 0; i < 512; i++) {
 *             const float v4 = ((m->t1[i]) - (v2));
 *             const float v5 = expf(v4);
 *             m->t6[i] = v5;
 *     }
 *
 * A tile is an array in the room, memory that a launch takes once; a scalar is a variable.
 * Elementwise ops of one number of elements that follow each other are one loop, in which tiles
 * that nothing else reads have no array.  What only rearranges elements has none either
 * (host_view.c). */
#include "tool/pack/host.h"

#include <stdarg.h>
#include <string.h>

/* ---- lines ---- */

static void
put_line(Host *h, const char *fmt, va_list ap, const char *end)
{
	for (int i = 0; i < h->depth; i++)
		text_put(&h->body, "\t");
	text_put(&h->body, arena_vprintf(h->mem, fmt, ap));
	text_put(&h->body, end);
}

void
host_line(Host *h, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put_line(h, fmt, ap, "\n");
	va_end(ap);
}

void
host_open(Host *h, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put_line(h, fmt, ap, " {\n");
	va_end(ap);
	h->depth++;
}

void
host_close(Host *h)
{
	h->depth--;
	host_line(h, "}");
}

void
host_lacks(Host *h, const char *what)
{
	if (!h->lacks)
		h->lacks = what;
}

/* ---- names ---- */

const char *
host_fresh(Host *h, const char *prefix)
{
	return arena_printf(h->mem, "%s%d", prefix, h->names++);
}

const char *
host_array(Host *h, const char *type, int64_t n)
{
	const char *name = host_fresh(h, "t");
	text_printf(&h->room, "\t%s %s[%d];\n", type, name, (int)n);
	return arena_printf(h->mem, "m->%s", name);
}

static void
set(Host *h, const Value *v, HostKind kind, const char *name)
{
	h->value[v->id] = (HostValue){kind, name, false};
}

void
host_declare(Host *h, const Value *v)
{
	if (v->type->rank > 0) {
		set(h, v, HOST_ARRAY, host_array(h, host_type(v->type), type_count(v->type)));
		return;
	}
	const char *name = host_fresh(h, "v");
	set(h, v, HOST_LOCAL, name);
	host_line(h, "%s %s = 0;", host_type(v->type), name);
	if (v->nuses == 0)
		host_line(h, "(void)%s;", name);
}

const char *
host_to(Host *h, const Value *v, const char *at)
{
	const HostValue *x = &h->value[v->id];
	return x->kind == HOST_LOCAL ? x->name : arena_printf(h->mem, "%s[%s]", x->name, at);
}

/* ---- fused loops ---- */

static bool
touches_loop(const Host *h, const Value *v)
{
	if (h->value[v->id].is_fused)
		return true;
	if (!v->def || h->value[v->id].kind != HOST_NONE || !host_is_view(v->def))
		return false;
	return ANY_OF(i, v->def->nin, touches_loop(h, v->def->in[i]));
}

/* Whether the loop reads no element of its own tiles but the one that it is at. */
static bool
reads_in_step(const Host *h, const Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		const Value *v = op->in[i];
		while (v->def && (v->def->kind == OP_RESHAPE || v->def->kind == OP_CONVERT) && !h->value[v->id].is_fused)
			v = v->def->in[0];
		if (!h->value[v->id].is_fused && touches_loop(h, v))
			return false;
	}
	return true;
}

static void
elementwise(Host *h, const Op *op, const char *at)
{
	const char *in[4] = {0};
	for (int i = 0; i < op->nin && i < LEN(in); i++)
		in[i] = host_at(h, op->in[i], at);
	const char *e = host_elem(h, op, in), *name = host_fresh(h, "v");
	if (!e)
		host_lacks(h, op_info[op->kind].text);
	host_line(h, "const %s %s = %s;", host_type(op->out[0].type), name, e ? e : "0");
	if (op->out[0].nuses == 0)
		host_line(h, "(void)%s;", name);
	h->value[op->out[0].id].kind = HOST_LOCAL;
	h->value[op->out[0].id].name = name;
}

/* A scalar that the loop does not wait for may be computed before it. */
static bool
goes_before(const Host *h, const Op *op)
{
	if (!op_has(op, PURE) || !op_has(op, ELEM) || op->out[0].type->rank > 0)
		return false;
	return !ANY_OF(i, op->nin, touches_loop(h, op->in[i]));
}

typedef struct Loop {
	VEC(const Op *) op;
	VEC(int) inside;                                /* of each: uses by ops of the loop */
} Loop;

static const Op *
gather_loop(Host *h, const Op *op, Loop *l)
{
	int64_t n = type_count(op->out[0].type);
	for (; op; op = op->next) {
		if (host_is_view(op))
			continue;
		if (goes_before(h, op)) {
			elementwise(h, op, "0");
			continue;
		}
		bool fits = op_has(op, ELEM) && op->out[0].type->rank > 0 && type_count(op->out[0].type) == n;
		if (!fits || !reads_in_step(h, op))
			break;
		h->value[op->out[0].id].is_fused = true;
		vec_push(h->mem, &l->op, op);
		vec_push(h->mem, &l->inside, 0);
	}
	for (int i = 0; i < l->op.n; i++)
		for (int k = 0; k < l->op.at[i]->nin; k++)
			for (int j = 0; j < i; j++)
				l->inside.at[j] += l->op.at[i]->in[k] == &l->op.at[j]->out[0];
	return op;
}

static const Op *
fused_loop(Host *h, const Op *op)
{
	Loop l = {0};
	const Op *next = gather_loop(h, op, &l);
	const char **array = NEW_ARRAY(h->mem, const char *, l.op.n);
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(op->out[0].type));
	for (int i = 0; i < l.op.n; i++) {
		const Value *v = &l.op.at[i]->out[0];
		elementwise(h, l.op.at[i], "i");
		if (l.inside.at[i] == v->nuses && v->nuses > 0)
			continue;
		array[i] = host_array(h, host_type(v->type), type_count(v->type));
		host_line(h, "%s[i] = %s;", array[i], h->value[v->id].name);
	}
	host_close(h);
	for (int i = 0; i < l.op.n; i++)
		set(h, &l.op.at[i]->out[0], array[i] ? HOST_ARRAY : HOST_NONE, array[i]);
	return next;
}

/* ---- what crosses edges of control flow ---- */

static void
copy(Host *h, const Value *from, const Value *to)
{
	if (to->type->rank == 0) {
		const char *e = host_scalar(h, from);
		host_line(h, "%s = %s;", host_to(h, to, "0"), e);
		return;
	}
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(to->type));
	const char *e = host_at(h, from, "i");
	host_line(h, "%s = %s;", host_to(h, to, "i"), e);
	host_close(h);
}

/* Values of the block's own arguments, and views, change as the copies are made: these go by a copy of theirs. */
static void
carry(Host *h, Value *const *from, const Value *to, int n)
{
	HostValue *kept = NEW_ARRAY(h->mem, HostValue, n);
	for (int k = 0; k < n; k++) {
		const HostValue *x = &h->value[from[k]->id];
		kept[k] = *x;
		bool is_same = x->kind == h->value[to[k].id].kind && x->name == h->value[to[k].id].name;
		bool is_const = x->kind == HOST_NONE && from[k]->def && from[k]->def->kind == OP_CONST;
		if (is_same || is_const || (x->kind == HOST_ARRAY && from[k]->def && from[k]->def->home == to[k].block))
			continue;
		if (from[k]->type->rank > 0) {
			kept[k] = (HostValue){HOST_ARRAY, NULL, false};
			const char *t = host_array(h, host_type(from[k]->type), type_count(from[k]->type));
			host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(from[k]->type));
			host_line(h, "%s[i] = %s;", t, host_at(h, from[k], "i"));
			host_close(h);
			kept[k].name = t;
			continue;
		}
		kept[k] = (HostValue){HOST_LOCAL, host_fresh(h, "y"), false};
		const char *e = host_scalar(h, from[k]);
		host_line(h, "const %s %s = %s;", host_type(from[k]->type), kept[k].name, e);
	}
	for (int k = 0; k < n; k++) {
		HostValue was = h->value[from[k]->id], dest = h->value[to[k].id];
		if (kept[k].name && kept[k].kind == dest.kind && kept[k].name == dest.name)
			continue;
		h->value[from[k]->id] = kept[k];
		copy(h, from[k], &to[k]);
		h->value[from[k]->id] = was;
	}
}

static void
copies(Host *h, Value *const *from, const Value *to, int n)
{
	for (int k = 0; k < n; k++)
		copy(h, from[k], &to[k]);
}

static void
declare_all(Host *h, const Value *v, int n)
{
	for (int i = 0; i < n; i++)
		host_declare(h, &v[i]);
}

/* ---- control flow ---- */

static void
for_loop(Host *h, const Op *op)
{
	const Block *body = op->region[0];
	const char *i = host_fresh(h, "i"), *hi = host_fresh(h, "hi"), *by = host_fresh(h, "by");
	declare_all(h, body->arg + 1, op->nout);
	copies(h, op->in + 3, body->arg + 1, op->nout);
	const char *lo_at = host_scalar(h, op->in[0]), *hi_at = host_scalar(h, op->in[1]),
		   *by_at = host_scalar(h, op->in[2]);
	host_line(h, "const int64_t %s = %s, %s = %s;", hi, hi_at, by, by_at);
	host_open(h, "for (int64_t %s = %s; %s > 0 ? %s < %s : %s < 0 && %s > %s;)", i, lo_at, by, i, hi, by, i, hi);
	set(h, &body->arg[0], HOST_LOCAL, i);
	host_block(h, body);
	carry(h, body->last->in, body->arg + 1, op->nout);
	host_open(h, "if (__builtin_add_overflow(%s, %s, &%s))", i, by, i);
	host_line(h, "break;");
	host_close(h);
	host_close(h);
	for (int k = 0; k < op->nout; k++)
		h->value[op->out[k].id] = h->value[body->arg[k + 1].id];
}

static void
while_loop(Host *h, const Op *op)
{
	const Block *test = op->region[0], *body = op->region[1];
	declare_all(h, test->arg, op->nout);
	declare_all(h, body->arg, op->nout);
	declare_all(h, op->out, op->nout);
	copies(h, op->in, test->arg, op->nout);
	host_open(h, "for (;;)");
	host_block(h, test);
	host_open(h, "if (!(%s))", host_scalar(h, test->last->in[0]));
	copies(h, test->last->in + 1, op->out, op->nout);
	host_line(h, "break;");
	host_close(h);
	copies(h, test->last->in + 1, body->arg, op->nout);
	host_block(h, body);
	copies(h, body->last->in, test->arg, op->nout);
	host_close(h);
}

static void
branch(Host *h, const Op *op)
{
	declare_all(h, op->out, op->nout);
	host_open(h, "if (%s)", host_scalar(h, op->in[0]));
	for (int r = 0; r < 2; r++) {
		host_block(h, op->region[r]);
		copies(h, op->region[r]->last->in, op->out, op->nout);
		host_close(h);
		if (r == 0)
			host_open(h, "else");
	}
}

static void
assertion(Host *h, const Op *op)
{
	int64_t n = type_count(op->in[0]->type);
	vec_push(h->mem, &h->asserts, attr_text(op));
	host_open(h, "for (int i = 0; i < %d; i++)", (int)n);
	const char *e = host_at(h, op->in[0], "i");
	host_open(h, "if (!(%s))", e);
	host_line(h, "return at[0] = g[0], at[1] = g[1], at[2] = g[2], %d;", h->asserts.n);
	host_close(h);
	host_close(h);
}

static void
index_op(Host *h, const Op *op)
{
	int axis = (int)attr_axis(op);
	const char *e = NULL;
	switch (op->kind) {
	case OP_PROGRAM_ID: e = arena_printf(h->mem, "g[%d]", axis); break;
	case OP_NUM_PROGRAMS: e = arena_printf(h->mem, "p->grid[%d]", axis); break;
	case OP_DIM: e = arena_printf(h->mem, "p->extent[%d][%d]", op->in[0]->index, axis); break;
	case OP_STRIDE: e = arena_printf(h->mem, "p->stride[%d][%d]", op->in[0]->index, axis); break;
	case OP_SPLIT_RANK: e = "0"; break;
	case OP_SPLIT_COUNT: e = "1"; break;
	default: host_lacks(h, op_info[op->kind].text); return;
	}
	set(h, &op->out[0], HOST_LOCAL, arena_printf(h->mem, "%s", e));
}

static void
statement(Host *h, const Op *op)
{
	switch (op_family(op)) {
	case FAMILY_CONTROL:
		if (op->kind == OP_FOR)
			for_loop(h, op);
		else if (op->kind == OP_WHILE)
			while_loop(h, op);
		else if (op->kind == OP_IF)
			branch(h, op);
		return;
	case FAMILY_INDEX: index_op(h, op); return;
	default: break;
	}
	if (op->kind == OP_ASSERT)
		assertion(h, op);
	else if (op->kind != OP_PREFETCH && !host_memory(h, op) && !host_tile(h, op))
		host_lacks(h, op_info[op->kind].text);
}

static bool
is_empty(const Op *op)
{
	bool any = false;
	for (int i = 0; i < op->nin; i++)
		any |= op->in[i]->type->kind == TYPE_TILE && type_count(op->in[i]->type) == 0;
	for (int i = 0; i < op->nout; i++)
		any |= op->out[i].type->kind == TYPE_TILE && type_count(op->out[i].type) == 0;
	return any;
}

void
host_block(Host *h, const Block *b)
{
	const Op *op = b->first;
	while (op && !h->lacks) {
		h->place = op->place;
		if (is_empty(op)) {
			host_lacks(h, "tile without elements");
			return;
		}
		if (host_is_view(op)) {
			op = op->next;
		} else if (op_has(op, ELEM) && op->out[0].type->rank > 0) {
			op = fused_loop(h, op);
		} else {
			if (op_has(op, ELEM))
				elementwise(h, op, "0");
			else
				statement(h, op);
			op = op->next;
		}
	}
}

/* ---- the function ---- */

static void
put_params(Host *h)
{
	for (int i = 0; i < h->f->nparam; i++) {
		const Value *v = &h->f->body->arg[i];
		const FuncParam *q = &h->f->param[i];
		const char *name = host_fresh(h, "p");
		if (q->kind == PARAM_TENSOR || v->nuses == 0) {
			set(h, v, HOST_TENSOR, name);
			continue;
		}
		set(h, v, HOST_LOCAL, name);
		if (q->kind == PARAM_DIM)
			host_line(h, "const int64_t %s = a->dim[%d];", name, i - h->nparams);
		else if (q->kind == PARAM_POINTER)
			host_line(h, "const uintptr_t %s = (uintptr_t)a->address[%d];", name, i);
		else
			host_line(h, "const %s %s = tgh_get_%s(&a->bits[%d], 0);", host_type(v->type), name,
			    dtype_info[v->type->elem].text, i);
	}
}

bool
host_write(Host *h, Module *m, Text *out)
{
	h->f = m->funcs.at[0];
	func_number(h->f);
	h->value = NEW_ARRAY(h->mem, HostValue, h->f->nvalues);
	h->depth = 1;
	put_params(h);
	for (int d = MAX_AXES - 1; d >= 0; d--)
		host_open(h, "for (g[%d] = 0; g[%d] < p->grid[%d]; g[%d]++)", d, d, d, d);
	host_block(h, h->f->body);
	for (int d = 0; d < MAX_AXES; d++)
		host_close(h);
	if (!h->lacks) {
		text_putn(out, h->tables.at, h->tables.n);
		text_printf(out, "struct tgp_room_%s {\n\tint none;\n", h->name);
		text_putn(out, h->room.at, h->room.n);
		text_printf(out,
		    "};\n\nstatic int\ntgp_run_%s(const struct TgpCall *a, const struct TgpPlan "
		    "*p, void *room, "
		    "int64_t *at)\n{\n\tstruct tgp_room_%s *const m = (struct tgp_room_%s "
		    "*)room;\n\tint64_t g[3];\n"
		    "\t(void)a, (void)p, (void)m, (void)at;\n",
		    h->name, h->name, h->name);
		text_putn(out, h->body.at, h->body.n);
		text_put(out, "\treturn 0;\n}\n\n");
	}
	text_close(&h->tables);
	text_close(&h->room);
	text_close(&h->body);
	return !h->lacks;
}
