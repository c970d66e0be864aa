/* Loops along rows, of which each thread has one, take several elements of them at a time.
 *
 *     for 0, %C, 1, %h do (%c, %a) {                       for 0, %C, 16, %h do (%c, %a) {
 *         %x = read %t, %r, %c {"pi"} : u8[64]                 %w = read %t, %r, %c {"pp"} : u8[64, 16]
 *         %b = mul (xor %a, %x), %k                 =>         %x0 = extract %w, 0, 0      the first column
 *         yield %b                                             %b0 = mul (xor %a, %x0), %k
 *     }                                                        %x1 = extract %w, 0, 1
 *                                                              …
 *
 * One element of each of 64 rows is 64 accesses of a byte, each in a sector of its own, which has to come again for
 * the next trip, or stay in the first cache for sixteen.  So are writes `y[rows, c]`, which are done together behind
 * the trips: of a tensor that nothing else in the loop touches.  What is read is only read by the kernel.  Rows hold
 * a whole number of such runs, so that vectors are aligned; trips that are left over follow in the loop as it was.
 *
 * FNV-1a of 2^20 rows of 64 bytes, recurrences of rows and the like; loops whose trips read neighbouring rows, or
 * whose bodies have loops or branches, stay as they are. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/mask.h"
#include "pass/pass.h"

enum { RUN_BYTES = 32, TRIPS_LEAST = 4, TRIPS_MOST = 16, OPS_MOST = 512 };

typedef struct Columns {
	Func *f;
	Op *loop;
	Block *body;
	int n;                                          /* trips at a time */
	Value **map[TRIPS_MOST];
} Columns;

static bool
is_outside(const Columns *x, const Value *v)
{
	return !value_inside(v, x->body);
}

/* Is it of one element of each of several rows, along which the loop goes? */
static bool
is_column(const Columns *x, const Op *op)
{
	if ((op->kind != OP_READ && op->kind != OP_WRITE) || !access_is_tensor(op) || attr_merged(op))
		return false;
	const Value *tensor = op->in[0], *tile = access_tile(op);
	const FuncParam *p = &x->f->param[tensor->index];
	int last = tensor->type->rank - 1;
	if (last < 1 || !param_has_rows(p) || dtype_is_packed(tensor->type->elem) || attr_index(op)[last] != 'i' ||
	    op->in[1 + last] != &x->body->arg[0] || tile->type->rank == 0 || tile->type->rank + 1 > KERNEL_RANK)
		return false;
	bool is_read = op->kind == OP_READ;
	if (is_read && (p->access != ACCESS_IN || tensor_may_be_written(x->f, tensor, x->f->body)))
		return false;
	const Value *fill = is_read && op->nin > 2 + last ? op->in[2 + last] : NULL;
	if (fill && (fill->type->rank > 0 || !is_outside(x, fill)))
		return false;                           /* trips with values of their own for what is outside */
	return ALL_OF(d, last, is_outside(x, op->in[1 + d]));
}

/* Does anything else in the loop touch the tensor that the op writes? */
static bool
is_alone(const Columns *x, const Op *write)
{
	return !ANY_OP_HERE(op, x->body, op != write && ANY_OF(i, op->nin, op->in[i] == write->in[0]));
}

static bool
joins(const Columns *x, const Op *op)
{
	return is_column(x, op) && (op->kind == OP_READ || is_alone(x, op));
}

/* How many trips at a time; 0: none, since nothing goes along rows, or the loop does what keeps its trips apart. */
static int
trips_of(const Columns *x)
{
	int ops = 0, n = 0, least = 0;
	for (const Op *op = x->body->first; op; op = op->next, ops++) {
		OpFamily family = op_family(op);
		if (op->nregion > 0 || family == FAMILY_DOT || family == FAMILY_DOT_ASYNC || family == FAMILY_BUFFER ||
		    family == FAMILY_PTX || family == FAMILY_ORDER || op->kind == OP_STORE || op->kind == OP_LOAD)
			return 0;
		if (!joins(x, op))
			continue;
		int bytes = MAX(dtype_info[op->in[0]->type->elem].bits / 8, 1);
		n = MAX(n, MIN(MAX(RUN_BYTES / bytes, TRIPS_LEAST), TRIPS_MOST));
	}
	for (const Op *op = x->body->first; op; op = op->next)
		if (joins(x, op)) {
			int k = dim_div(op->in[0], op->in[0]->type->rank - 1);
			least = least ? MIN(least, k + 1) : k + 1;
		}
	if (n == 0 || least <= log2_ceil(n))
		return 0;
	return ops * n <= OPS_MOST ? n : 0;
}

/* The access of `n` columns from the loop's index on, with `data` or the fill behind the indices. */
static Op *
together(Columns *x, Builder *b, const Op *op, Value *at, Value *data)
{
	int rank = op->in[0]->type->rank;
	Value **in = NEW_COPY(b->m->cx->tmp, op->in, op->nin);
	in[rank] = at;
	if (data)
		in[access_data(op)] = data;
	return access_along(b, op, in, rank - 1, x->n);
}

/* Columns side by side. */
static Value *
beside(Columns *x, Builder *b, const Op *write)
{
	int data = access_data(write);
	const Type *t = write->in[data]->type;
	const Type *numbers = type_with_elem(b->m, type_with_dim(b->m, t, t->rank, x->n), TY_I32);
	Value *number = build_iota(b, numbers, t->rank), *v = NULL;
	for (int i = x->n - 1; i >= 0; i--) {
		Value *part = build_stack(b, value_mapped(x->map[i], write->in[data]), t->rank, x->n);
		v = v ? build3(b, OP_SELECT, build2(b, OP_LT, number, build_int(b, numbers, i + 1)), part, v) : part;
	}
	return v;
}

static void
fill(Columns *x, Op *made)
{
	Block *to = made->region[0];
	Builder b = build_inside(made, 0);
	int carried = x->body->narg - 1;
	Arena *tmp = b.m->cx->tmp;
	for (int i = 0; i < x->n; i++) {
		x->map[i] = NEW_ARRAY(tmp, Value *, x->f->nvalues);
		if (i > 0)
			x->map[i][x->body->arg[0].id] = build2(&b, OP_ADD, &to->arg[0], build_index(&b, i));
	}
	block_map_args(x->body, to, x->map[0]);
	for (const Op *op = x->body->first; op; op = op->next)
		if (op->kind == OP_READ && joins(x, op)) {
			b.place = op->place;
			Value *all = &together(x, &b, op, &to->arg[0], NULL)->out[0];
			for (int i = 0; i < x->n; i++)
				x->map[i][op->out[0].id] = build_element(&b, all, i);
		}
	for (int i = 0; i < x->n; i++) {
		for (int k = 0; k < carried && i > 0; k++)
			x->map[i][x->body->arg[1 + k].id] = value_mapped(x->map[i - 1], x->body->last->in[k]);
		for (const Op *op = x->body->first; op != x->body->last; op = op->next)
			if (!joins(x, op))
				op_clone(&b, op, x->map[i]);
	}
	for (const Op *op = x->body->first; op; op = op->next)
		if (op->kind == OP_WRITE && joins(x, op)) {
			b.place = op->place;
			together(x, &b, op, &to->arg[0], beside(x, &b, op));
		}
	b.place = x->loop->place;
	Value **yielded = MAP_OF(tmp, Value *, k, carried, value_mapped(x->map[x->n - 1], x->body->last->in[k]));
	build_yield(&b, yielded, carried);
}

static bool
take(Columns *x)
{
	int64_t step;
	x->body = x->loop->region[0];
	if (op_is_over_programs(x->loop) || attr_unrolled(x->loop) || !value_int(x->loop->in[2], &step) || step != 1)
		return false;
	axis_keep(x->f);
	x->n = trips_of(x);
	if (x->n == 0 || axis_of(x->loop->in[0])->div[0] < log2_ceil(x->n))
		return false;
	bool is_whole = axis_of(x->loop->in[1])->div[0] >= log2_ceil(x->n);
	Builder b = build_before(x->loop);
	Value *by = build_index(&b, x->n), *end = is_whole ? x->loop->in[1] : mask_end(&b, x->loop, OP_DIV, x->n, by);
	Op *made = build_for(&b, (Value *[]){x->loop->in[0], end, by}, x->loop->in + 3, x->loop->nout, x->loop);
	fill(x, made);
	if (is_whole) {
		op_replace(x->loop, made);
	} else {
		op_set_in(x->loop, 0, end);
		for (int i = 0; i < made->nout; i++)
			op_set_in(x->loop, 3 + i, &made->out[i]);
	}
	x->f->has_axes = false;
	func_number(x->f);
	return true;
}

static void
walk(Columns *x, Block *b)
{
	for (Op *op = b->first, *next; op; op = next) {
		next = op->next;                        /* what is made stands before it */
		x->loop = op;
		if (op->kind == OP_FOR && take(x))
			continue;
		for (int r = 0; r < op->nregion; r++)
			walk(x, op->region[r]);
	}
}

void
pass_columns(Func *f, const Target *t)
{
	(void)t;
	Columns x = {.f = f};
	func_number(f);
	walk(&x, f->body);
}
