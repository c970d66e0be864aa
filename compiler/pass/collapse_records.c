/* Elementwise kernels of whole interleaved records work on rows of elements.
 *
 *     %v = read %x, %i, %j, 0 {index = "ipp", extents = [64, 3]} : u8[64, 3]          %x: u8[H, W, 3]
 *     %s = add %v, …
 *     write %y, %i, %k, 0, %s {index = "ipp", extents = [64, 3]}
 *  =>
 *     %v = read %x, %i, 0, 3 %j {index = "iip", extents = [192], merged = [0, 0, 1]} : u8[192]
 *     %s = add %v, …
 *     write %y, %i, 0, 3 %k, %s {index = "iip", extents = [192], merged = [0, 0, 1]}
 *
 * A record of three is padded to four registers, and one that begins between words is read byte by byte.  As a row records
 * are a run of memory, which threads move in vectors, and reads that begin a record apart are reads a few elements apart,
 * whose vectors threads share (lower/memory/halo.c).
 *
 * All ops that connect such reads and writes have to be elementwise: a group of values of one shape.  Constants, scalars
 * that are broadcast, and indices along a dimension are made anew.  What orders accesses compares their dimensions one by
 * one: a tensor that is written has one access. */
#include "ir/derive.h"
#include "pass/pass.h"

#include <string.h>

enum { CHANNELS_MOST = 8, WORD_BYTES = 4 };

typedef struct Dense {
	Func *f;
	int *group;                                     /* of each value, by its id: that of another of its group, … */
	bool *has_records;                              /* … by the last of those: it reads or writes records … */
	bool *is_apart;                                 /* … and something in it is not elementwise */
} Dense;

static int
group_of(Dense *d, int id)
{
	while (d->group[id] != id)
		id = d->group[id] = d->group[d->group[id]];
	return id;
}

static void
join(Dense *d, const Value *a, const Value *b)
{
	int x = group_of(d, a->id), y = group_of(d, b->id);
	d->group[x] = y;
	d->is_apart[y] |= d->is_apart[x];
	d->has_records[y] |= d->has_records[x];
}

/* ---- accesses ---- */

static int
count_accesses(const Func *f, const Value *tensor)
{
	return COUNT_OPS(op, f->body, op->nin > 0 && op->in[0] == tensor);
}

/* Is it of whole records that are no words?  Words begin wherever a record does: sharpen_rgba in bench/warps took an H200
 * 122 us by rows and 104 by records. */
static bool
takes_records(const Func *f, const Op *op)
{
	if ((op->kind != OP_READ && op->kind != OP_WRITE) || op->in[0]->def || op->in[0]->block != f->body)
		return false;
	const Value *tensor = op->in[0];
	const IntList *extents = attr_extents(op);
	const char *index = attr_index(op);
	int rank = tensor->type->rank, last = rank - 1, bits = dtype_info[tensor->type->elem].bits;
	int64_t n = last > 0 ? tensor->type->extent[last] : 0;
	bool is_short = (n & (n - 1)) || n * bits / 8 < WORD_BYTES;
	if (n < 2 || n > CHANNELS_MOST || !is_short || bits < 8 || f->param[tensor->index].strided || !extents ||
	    attr_merged(op) || strchr(index, 'g') || index[last] != 'p' || index[last - 1] != 'p' ||
	    extents->at[extents->n - 1] != n || extents->at[extents->n - 2] < 2 || !value_is_int(op->in[rank], 0))
		return false;
	if (op->kind == OP_WRITE)
		return count_accesses(f, tensor) == 1;
	return !tensor_may_be_written(f, tensor, f->body) && (op->nin == rank + 1 || op->in[rank + 1]->type->rank == 0);
}

/* ---- groups ---- */

/* Is it of one number, or does it count along a dimension?  Then the group's is made for it. */
static bool
is_made_anew(const Value *v)
{
	const Op *op = v->def;
	if (!op)
		return false;
	switch (op->kind) {
	case OP_CONST: return attr_value(op)->kind != KIND_INTS;
	case OP_BROADCAST: return op->in[0]->type->rank == 0;
	case OP_IOTA: return true;
	default: return false;
	}
}

static void
join_elements(Dense *d, const Op *op)
{
	for (int i = 0; i < op->nin; i++)
		if (value_is_tile(op->in[i]) && !is_made_anew(op->in[i]))
			join(d, op->in[i], &op->out[0]);
}

static void
keep_apart(Dense *d, const Value *v)
{
	if (value_is_tile(v) && !is_made_anew(v))
		d->is_apart[group_of(d, v->id)] = true;
}

static void
find_groups(Dense *d)
{
	for (const Op *op = d->f->body->first; op; op = op_after(op, d->f->body)) {
		if (op_has(op, ELEM) && op->nout == 1) {
			join_elements(d, op);
			continue;
		}
		if (takes_records(d->f, op)) {
			d->has_records[group_of(d, access_tile(op)->id)] = true;
			continue;
		}
		for (int i = 0; i < op->nin; i++)
			keep_apart(d, op->in[i]);
		for (int i = 0; i < op->nout; i++)
			keep_apart(d, &op->out[i]);
		for (int r = 0; r < op->nregion; r++)
			for (int i = 0; i < op->region[r]->narg; i++)
				keep_apart(d, &op->region[r]->arg[i]);
	}
}

static bool
is_dense(Dense *d, const Value *v)
{
	int of = group_of(d, v->id);
	return value_is_tile(v) && !is_made_anew(v) && d->has_records[of] && !d->is_apart[of];
}

/* ---- the other form ---- */

/* Its last two dimensions are one. */
static const Type *
row_type(Module *m, const Type *t)
{
	int64_t extent[MAX_RANK];
	memcpy(extent, t->extent, sizeof *extent * (size_t)t->rank);
	extent[t->rank - 2] *= extent[t->rank - 1];
	return type_with_shape(m, t, t->rank - 1, extent);
}

/* Of (x + constant) the constant stays outside: reads that begin so apart have one root (access_root). */
static Value *
times(Builder *b, Value *v, int64_t n)
{
	const Op *op = v->def;
	int64_t by;
	for (int i = 0; op && op->kind == OP_ADD && i < 2; i++)
		if (value_int(op->in[i], &by))
			return build2(b, OP_ADD, times(b, op->in[1 - i], n), build_index(b, by * n));
	return value_int(v, &by) ? build_index(b, by * n) : build2(b, OP_MUL, v, build_index(b, n));
}

static void
change_access(Module *m, Op *op)
{
	Builder b = build_before(op);
	int rank = op->in[0]->type->rank, last = rank - 1;
	const IntList *extents = attr_extents(op);
	int64_t n = op->in[0]->type->extent[last], extent[KERNEL_RANK], merged[KERNEL_RANK] = {[0] = 0};
	char index[KERNEL_RANK + 1];
	memcpy(extent, extents->at, sizeof *extent * (size_t)extents->n);
	extent[extents->n - 2] *= n;
	merged[last] = 1;
	strcpy(index, attr_index(op));
	index[last - 1] = 'i';
	op_set_in(op, 1 + last, times(&b, op->in[last], n));
	op_set_in(op, last, build_index(&b, 0));
	attr_set_index(m, op, intern(m->cx->names, index));
	attr_set_extents(m, op, extent, extents->n - 1);
	attr_set_merged(m, op, merged, rank);
}

/* Of a row's element the index of its record, or which of the record it is: of 8 bits there are less than of the row. */
static Value *
index_in_row(Builder *b, const Value *v, const Type *row)
{
	int rank = v->type->rank, axis = (int)attr_axis(v->def);
	const Type *wide = dtype_info[row->elem].bits < 32 ? type_with_elem(b->m, row, TY_I32) : row;
	Value *i = build_iota(b, wide, MIN(axis, rank - 2));
	if (axis >= rank - 2)
		i = build2(b, axis == rank - 1 ? OP_REM : OP_DIV, i, build_int(b, wide, v->type->extent[rank - 1]));
	return wide == row ? i : build1(b, OP_CAST, i, row);
}

static Value *
make_anew(Builder *b, Value *v)
{
	const Type *row = row_type(b->m, v->type);
	switch (v->def->kind) {
	case OP_CONST: return build_like(b, v->def, NULL, row);
	case OP_BROADCAST: return build1(b, OP_BROADCAST, v->def->in[0], row);
	default: return index_in_row(b, v, row);
	}
}

static void
change(Dense *d, Op *op)
{
	Module *m = d->f->module;
	bool is_access = op->kind == OP_READ || op->kind == OP_WRITE;
	if (is_access)
		change_access(m, op);
	for (int i = 0; i < op->nin; i++)
		if (value_is_tile(op->in[i]) && is_made_anew(op->in[i]) && (!is_access || i == access_data(op))) {
			Builder b = build_before(op);
			op_set_in(op, i, make_anew(&b, op->in[i]));
		}
	if (op->nout)
		op->out[0].type = row_type(m, op->out[0].type);
}

void
pass_collapse_records(Func *f, const Target *t)
{
	(void)t;
	func_number(f);
	Arena *mem = f->module->cx->tmp;
	Dense d = {.f = f, .group = NEW_ARRAY(mem, int, MAX(f->nvalues, 1)),
	    .has_records = NEW_ARRAY(mem, bool, MAX(f->nvalues, 1)),
	    .is_apart = NEW_ARRAY(mem, bool, MAX(f->nvalues, 1))};
	VEC(Op *) all = {0};
	for (int i = 0; i < f->nvalues; i++)
		d.group[i] = i;
	find_groups(&d);
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_write = op->kind == OP_WRITE && takes_records(f, op);
		if (is_write ? is_dense(&d, op->in[access_data(op)])
			     : op->nout == 1 && (op_has(op, ELEM) || op->kind == OP_READ) && is_dense(&d, &op->out[0]))
			vec_push(mem, &all, op);
	}
	for (int i = 0; i < all.n; i++)
		change(&d, all.at[i]);
	if (all.n)
		func_number(f);
}
