/* Divides a program's loop of sums over several blocks of a kernel that is launched before, as the schedule word `parts`
 * asks: for products of few programs, whose loop is long.  CUTLASS calls it parallel split-K.
 *
 *     %s = for %lo, %hi, %step, %0 do (%k: i64, %acc: f32[128, 256]) { … %d = dot %a, %b, %acc … yield %d }
 *     write %y, %m, %n, (cast %s) {index = "pp", extents = [128, 256]} : bf16[128, 256]
 *
 * The kernel before (MATERIALIZE_FIRST) has the loop, a block for each program and part: the part's number is the
 * program's along an axis behind the others (Func.added).  It has the schedule that the header says.
 *
 *     %r = program_id {axis = 2, count = 7}
 *     %s = for %from, %to, %step, %0 do …                              the part's iterations
 *     write %parts, (mul (add (mul %program, 7), %r), 128), 0, %s {index = "pp", extents = [128, 256]}
 *
 * The kernel itself adds the parts, in the order of their numbers, so that results are the same on every run, and does what
 * follows the loop.  To keep all multiprocessors busy, too, a program is several blocks, of some rows of the sums each
 * (parts_rows.c), again by an axis behind the others.
 *
 *     %c = program_id {axis = 2, count = 16}
 *     %x = read %parts, (add (mul (mul %program, 7), 128), (mul %c, 8)), 0 {index = "pp", extents = [8, 256]}
 *     …
 *     write %y, (add %m, (mul %c, 8)), %n, (cast %sum) {index = "pp", extents = [8, 256]}
 *
 * %parts is a parameter behind the others, f32[programs * 7 * 128, 256], which the runtime allocates (Func.made).  Blocks
 * of one launch could divide the work of joining only if they waited for one another, which blocks that are not a cluster
 * must not (docs/passes.md, materialize), and clusters of four and more leave multiprocessors idle.
 *
 * The loop is one that pass split_k could share, of sums that are matrices of 32-bit elements, with nothing written before
 * it ends.  Where a kernel has none it stays as it is, and Func.parts_reason says why. */
#include "ir/derive.h"
#include "model/digits/digits.h"
#include "pass/parts/parts.h"
#include "pass/share/split_k.h"

enum { BLOCK_BYTES = 32 * 1024, WARPS = 8, LANE_WORDS = 4 };    /* of parts that a block of the join reads, about */

typedef struct Divided {
	Func *f;
	Op *loop;
	int n;                                          /* parts */
	unsigned axes;                                  /* of the grid as it was */
	Value *tensor[MADE_MOST];
	MadeTensor made[MADE_MOST];
	int64_t rows;                                   /* of the sums, in a program */
} Divided;

/* ---- which ---- */

static const char *
sums_reason(const Divided *d)
{
	const Op *loop = d->loop;
	if (loop->nout > MADE_MOST)
		return "its loop carries more tiles than a kernel before makes";
	for (int i = 0; i < loop->nout; i++) {
		const Type *t = loop->out[i].type;
		if (split_fold(loop, i) != OP_ADD || t->rank != 2 || dtype_info[t->elem].bits != 32)
			return "its loop does more than add into matrices of 32 bits";
		if (t->extent[0] != loop->out[0].type->extent[0])
			return "its sums have different rows";
	}
	return NULL;
}

static const char *
find(Divided *d, const Target *t, PartRows *rows)
{
	Func *f = d->f;
	Found found;
	if (t->kind != TARGET_PTX)
		return "only NVIDIA's GPUs launch a kernel before";
	if (f->naxis == MAX_AXES)
		return "the grid has no axis left";
	const char *why = split_find(f, t, &found);
	d->loop = found.loop;
	if (why || found.merge || found.derives)
		return why ? why : "its loop does more than add into what it carries";
	if (!block_find(d->loop->region[0], OP_DOT))
		return "its loop has no product";
	why = sums_reason(d);
	if (why)
		return why;
	d->rows = d->loop->out[0].type->extent[0];
	*rows = (PartRows){.f = f, .loop = d->loop, .whole = d->rows};
	return part_rows_find(rows);
}

/* ---- what both kernels have ---- */

static Value *
index_on(Builder *b, OpKind kind, int axis, int count)
{
	const Attr attr[] = {attr_new_axis(b->m, axis), attr_new_count(b->m, count)};
	return op_make(b, kind, NULL, 0, attr, kind == OP_PROGRAM_ID && count ? 2 : 1, NULL, 0)->out;
}

/* This program's number among those of the grid as it was. */
static Value *
program_number(Builder *b, const Divided *d)
{
	Value *at = build_index(b, 0);
	for (int a = 0; d->axes >> a; a++) {
		const Op *like = FIND_OP(op, d->f->body, op->kind == OP_PROGRAM_ID && attr_axis(op) == a);
		Value *id = like ? build_like(b, like, NULL, like->out->type) : index_on(b, OP_PROGRAM_ID, a, 0);
		at = a ? build2(b, OP_ADD, build2(b, OP_MUL, at, index_on(b, OP_NUM_PROGRAMS, a, 0)), id) : id;
	}
	return at;
}

/* An axis of so many programs, behind the others. */
static Value *
add_axis(Builder *b, Divided *d, int count)
{
	Func *f = d->f;
	f->axis[f->naxis] = intern(b->m->cx->names, "part");
	f->added = count;
	return index_on(b, OP_PROGRAM_ID, f->naxis++, count);
}

static void
add_tensors(Divided *d, Access access)
{
	Func *f = d->f;
	const int64_t extent[2] = {-1, -1};
	for (int i = 0; i < d->loop->nout; i++) {
		const Type *t = d->loop->out[i].type;
		MadeTensor *m = &d->made[i];
		*m = (MadeTensor){.elem = t->elem, .axes = d->axes, .along = 0, .divisor = 1, .step = 1,
		    .tile = {d->n * d->rows, t->extent[1]}, .end = {.number = 1}};
		FuncParam p = {.name = arena_printf(f->module->cx->mem, "parts%d", i), .kind = PARAM_TENSOR,
		    .access = access, .multiple = 16};
		for (int k = 0; k < KERNEL_RANK; k++) {
			p.dim[k] = -1;
			p.dim_multiple[k] = k < 2 ? m->tile[k] & -m->tile[k] : 0;
		}
		func_add_param(f, &p, type_tensor(f->module, t->elem, 2, extent));
	}
	for (int i = 0; i < d->loop->nout; i++)
		d->tensor[i] = &f->body->arg[f->nparam - d->loop->nout + i];
}

/* The row of the sums of part k. */
static Value *
row_of(Builder *b, const Divided *d, Value *program, Value *k)
{
	Value *at = build2(b, OP_ADD, build2(b, OP_MUL, program, build_index(b, d->n)), k);
	return build2(b, OP_MUL, at, build_index(b, d->rows));
}

static Op **
ops_of(const Block *block, int *n)
{
	VEC(Op *) all = {0};
	for (Op *op = block->first; op; op = op->next)
		vec_push(block->func->module->cx->tmp, &all, op);
	*n = all.n;
	return all.at;
}

/* ---- the kernel before ---- */

static void
make_first(Divided *d)
{
	Op *loop = d->loop, *rest = loop->next;
	int n;
	Op **was = ops_of(d->f->body, &n);
	add_tensors(d, ACCESS_OUT);
	Builder b = build_before(loop);
	Value *rank = add_axis(&b, d, d->n), *program = program_number(&b, d), *from, *to;
	Parts parts = split_parts(&b, loop, build_index(&b, d->n));
	split_part(&b, &parts, rank, &from, &to);
	op_set_in(loop, 0, from);
	op_set_in(loop, 1, to);
	Value *row = row_of(&b, d, program, rank);
	for (int i = 0; i < loop->nout; i++) {
		const Type *t = loop->out[i].type;
		Value *begin = split_begin(&b, loop->in[3 + i], t);
		if (begin)
			op_set_in(loop, 3 + i, begin);
	}
	b.before = rest;
	for (int i = 0; i < loop->nout; i++) {
		const Attr attr[] = {attr_new_index(b.m, "pp"), attr_new_extents(b.m, loop->out[i].type->extent, 2)};
		Value *in[] = {d->tensor[i], row, build_index(&b, 0), &loop->out[i]};
		op_make(&b, OP_WRITE, in, LEN(in), attr, LEN(attr), NULL, 0);
	}
	for (; was[n - 1] != loop; n--)
		if (!op_has(was[n - 1], TERM))
			op_erase(was[n - 1]);
	d->f->name = intern(d->f->module->cx->names, arena_printf(d->f->module->cx->tmp, "%s_parts", d->f->name));
}

/* ---- the kernel itself ---- */

/* Rows of a block, a power of two that divides the program's: such that it reads some of all parts. */
static int64_t
rows_of_block(const Divided *d)
{
	int64_t bytes = SUM_OF(int64_t, i, d->loop->nout, d->n * tile_bytes(d->loop->out[i].type) / d->rows);
	int64_t rows = d->rows & -d->rows;
	while (rows > 1 && rows * bytes > BLOCK_BYTES)
		rows /= 2;
	return rows;
}

static Value *
add_parts(Builder *b, const Divided *d, int i, Value *program, Value *first, int64_t rows)
{
	const Type *t = d->loop->out[i].type;
	const int64_t extent[2] = {rows, t->extent[1]};
	const Type *want = type_with_extent(b->m, t, 0, rows);
	const Attr attr[] = {attr_new_index(b->m, "pp"), attr_new_extents(b->m, extent, 2)};
	Value *sum = NULL;
	for (int k = 0; k < d->n; k++) {
		Value *row = build2(b, OP_ADD, row_of(b, d, program, build_index(b, k)), first);
		Value *in[] = {d->tensor[i], row, build_index(b, 0)};
		Value *part = op_make(b, OP_READ, in, LEN(in), attr, LEN(attr), &want, 1)->out;
		sum = sum ? build2(b, OP_ADD, sum, part) : part;
	}
	return sum;
}

static void
make_main(Divided *d, PartRows *rows)
{
	Func *f = d->f;
	int n;
	Op **was = ops_of(f->body, &n);
	Value *sums[MADE_MOST];
	add_tensors(d, ACCESS_IN);
	rows->some = rows_of_block(d);
	Builder top = build_before(f->body->first), b = build_before(d->loop);
	Value *block = add_axis(&top, d, (int)(d->rows / rows->some));
	Value *first = build2(&top, OP_MUL, block, build_index(&top, rows->some)), *program = program_number(&b, d);
	for (int i = 0; i < d->loop->nout; i++)
		sums[i] = add_parts(&b, d, i, program, first, rows->some);
	int64_t words = rows->some * d->loop->out[0].type->extent[1];
	part_rows_build(rows, was, n, first, sums);
	f->schedule = (Schedule){.parts = d->n, .warps = 1};
	while (f->schedule.warps < WARPS && 2 * f->schedule.warps * 32 * LANE_WORDS <= words)
		f->schedule.warps *= 2;
}

void
pass_parts(Func *f, const Target *t)
{
	Divided d = {.f = f, .n = f->schedule.parts, .axes = (1u << f->naxis) - 1};
	PartRows rows;
	if (d.n <= 1)
		return;
	func_number(f);
	bool is_first = f->schedule.materialize == MATERIALIZE_FIRST;
	f->parts_reason = find(&d, t, &rows);
	if (f->parts_reason) {
		f->schedule.parts = 0;
		return;
	}
	f->materialize_reason = f->schedule.materialize == 1 ? "a kernel before adds up its sums" : NULL;
	f->schedule.split = 0;
	int nmade = d.loop->nout;
	if (is_first)
		make_first(&d);
	else
		make_main(&d, &rows);
	f->nmade = nmade;
	f->made = MAP_OF(f->module->cx->mem, MadeTensor, i, nmade, d.made[i]);
	sweep(f);
}
