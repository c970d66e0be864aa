/* The region of a reduce_fn or scan_fn, which combines single elements, computed for whole rows: each scalar
 * op becomes one elementwise op over a row, and a branch both of its sides and a select.
 *
 *     (%a, %b) { %c = lt %a, %b; %r = if %c { yield %b } else { yield %a }; yield %r }
 * =>  row c = lt a, b;  row r = select c, b, a
 *
 * Rows are cut into slices that stay in the nearest cache.  Results are copied out at the end of each slice,
 * so that they may lie where the arguments do. */
#include "ir/interp/fast/fast.h"

#include <string.h>

enum { SLICE = 512 };

typedef enum RowKind { ROW_ARG, ROW_ONE, ROW_TEMP } RowKind;

typedef struct RowCell {
	const Value *value;                             /* NULL: a select made for a branch */
	RowKind kind;
	int at, size;                                   /* argument, slot or row of the temporary */
} RowCell;

typedef struct RowOp {
	Elementwise elementwise;
	int in[3], out;
	unsigned scalar;
} RowOp;

typedef struct Flat {
	VEC(RowCell) cell;
	VEC(RowOp) op;
	int *result, nresults;                          /* cells that the region yields */
	int *hold;                                      /* of a result that is an argument: a row to keep it in */
	int ntemps;
} Flat;

static int
cell_add(Plan *p, Flat *f, const Value *v, RowKind kind, int at, int size)
{
	RowCell c = {v, kind, at, size};

	vec_push(p->mem, &f->cell, c);
	return f->cell.n - 1;
}

static int
cell_of(Plan *p, Flat *f, const Value *v)
{
	for (int i = f->cell.n - 1; i >= 0; i--)
		if (f->cell.at[i].value == v)
			return i;
	return cell_add(p, f, v, ROW_ONE, storage_of(p, v).slot, type_elem_size(v->type));
}

static void
push_op(Plan *p, Flat *f, RowOp *r)
{
	for (int i = 0; i < r->elementwise.nin; i++)
		if (f->cell.at[r->in[i]].kind == ROW_ONE)
			r->scalar |= 1u << i;
	vec_push(p->mem, &f->op, *r);
}

static int add_block(Plan *p, Flat *f, const Block *b, int *yielded);

static void
add_branch(Plan *p, Flat *f, const Op *op)
{
	int *then = NEW_ARRAY(p->mem, int, op->nout), *or = NEW_ARRAY(p->mem, int, op->nout);
	int test = cell_of(p, f, op->in[0]);

	add_block(p, f, op->region[0], then);
	add_block(p, f, op->region[1], or);
	for (int i = 0; i < op->nout; i++) {
		const Type *t = op->out[i].type;
		DType e = t->ptr != PTR_NONE ? TY_I64 : t->elem;
		RowOp r = {.elementwise = {.nin = 3}, .in = {test, then[i], or[i]}};
		elem_make(&r.elementwise.elem, p->cpu, OP_SELECT, (DType[]){TY_BOOL, e, e}, 3, e, 0);
		r.out = cell_add(p, f, &op->out[i], ROW_TEMP, f->ntemps++, type_elem_size(t));
		push_op(p, f, &r);
	}
}

/* Adds the ops of a block; the cells that it yields go to yielded[]. */
static int
add_block(Plan *p, Flat *f, const Block *b, int *yielded)
{
	for (const Op *op = b->first; op; op = op->next) {
		if (op->kind == OP_CONST)
			continue;
		if (op->kind == OP_IF) {
			add_branch(p, f, op);
			continue;
		}
		if (op->kind == OP_YIELD) {
			for (int i = 0; i < op->nin; i++)
				yielded[i] = cell_of(p, f, op->in[i]);
			return op->nin;
		}
		RowOp r = {0};
		elementwise_make(p, &r.elementwise, op);
		for (int i = 0; i < op->nin; i++)
			r.in[i] = cell_of(p, f, op->in[i]);
		r.out = cell_add(p, f, &op->out[0], ROW_TEMP, f->ntemps++, type_elem_size(op->out[0].type));
		push_op(p, f, &r);
	}
	return 0;
}

const void *
flat_make(Plan *p, const Block *b)
{
	Flat *f = NEW(p->mem, Flat);

	for (int i = 0; i < b->narg; i++)
		cell_add(p, f, &b->arg[i], ROW_ARG, i, type_elem_size(b->arg[i].type));
	f->result = NEW_ARRAY(p->mem, int, b->narg);
	f->nresults = add_block(p, f, b, f->result);
	f->hold = NEW_ARRAY(p->mem, int, f->nresults);
	for (int i = 0; i < f->nresults; i++)
		if (f->cell.at[f->result[i]].kind == ROW_ARG)
			f->hold[i] = f->ntemps++;
	strip_want(p, (int64_t)f->ntemps * SLICE * 8 + (int64_t)f->cell.n * 8 + 64);
	return f;
}

/* A result that is an argument would be lost if another result were put over it first. */
static void
copy_results(const Flat *f, char *rows, char **row, char *const *out, int64_t at, int64_t n)
{
	for (int i = 0; i < f->nresults; i++) {
		const RowCell *c = &f->cell.at[f->result[i]];
		if (c->kind == ROW_ARG)
			memcpy(rows + f->hold[i] * SLICE * 8, row[f->result[i]], (size_t)(n * c->size));
	}
	for (int i = 0; i < f->nresults; i++) {
		const RowCell *c = &f->cell.at[f->result[i]];
		char *to = out[i] + at * c->size;
		if (c->kind == ROW_ONE)
			tile_fill(c->size, to, row[f->result[i]], n);
		else
			memcpy(to, c->kind == ROW_ARG ? rows + f->hold[i] * SLICE * 8 : row[f->result[i]],
			    (size_t)(n * c->size));
	}
}

static void
run_slice(Worker *w, const Flat *f, const char *const *arg, char *const *out, int64_t at, int64_t n)
{
	char *rows = w->strip, **row = (char **)(rows + (size_t)f->ntemps * SLICE * 8);

	for (int i = 0; i < f->cell.n; i++) {
		const RowCell *c = &f->cell.at[i];
		if (c->kind == ROW_ARG)
			row[i] = (char *)(uintptr_t)arg[c->at] + at * c->size;
		else
			row[i] = c->kind == ROW_ONE ? w->at[c->at] : rows + c->at * SLICE * 8;
	}
	for (int i = 0; i < f->op.n; i++) {
		const RowOp *r = &f->op.at[i];
		const void *in[3] = {row[r->in[0]], row[r->in[1]], row[r->in[2]]};
		elementwise_run(w, &r->elementwise, row[r->out], in, r->scalar, n);
	}
	copy_results(f, rows, row, out, at, n);
}

bool
flat_combine(Worker *w, const Fold *f, const Rows *a, const Rows *b, const Rows *out, int64_t n)
{
	const char *arg[2 * MAX_FOLD];

	for (int k = 0; k < f->count; k++) {
		arg[k] = a->at[k];
		arg[f->count + k] = b->at[k];
	}
	for (int64_t at = 0; at < n; at += SLICE)
		run_slice(w, f->flat, arg, out->at, at, MIN(SLICE, n - at));
	return true;
}
