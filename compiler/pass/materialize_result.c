/* Results across rows of a tensor, which a kernel launched behind writes (pass materialize).
 *
 *     write %y, %m, %n, %i, %v {index = "ppi", extents = [128, 256]}         y: out f16[M, N, B], programs along i
 *
 * Each element of %v lies in another sector, of which this program has 2 bytes: with the batch as the last dimension and 64
 * products of 1024 x 1024 x 1024 the sectors of y leave the L2 cache before others have filled them, 2970 us on an H200 for
 * 212 of contiguous matrices.  So the kernel writes its tile into memory as it is, and the kernel behind copies:
 *
 *     write %made, (mul %program, 128), 0, %v {index = "pp", extents = [128, 256]}
 *
 *     for 0, 256, 16 do (%k) {                                                as many programs as have a sector, as one
 *         %t = read %made, (mul %program, 128), %k {index = "pp", extents = [128, 16]} : f16[128, 16]
 *         write %y, %m, (add %n, %k), %i, %t {index = "ppi", extents = [128, 16]}
 *     }
 *
 * Such writes are of the kernel's body, of tensors that it accesses nowhere else, at indices that follow from the program
 * alone. */
#include "ir/derive.h"
#include "pass/batch/batch.h"
#include "pass/materialize.h"

#include <string.h>

enum { SECTOR = 32, ROOM = 1 << 16, MADE_WARPS = 8 };   /* bytes, of 64 registers in 8 warps */

int
made_neighbours(const Func *f, const Op *access, const Type *tile, int *axis)
{
	const char *index = attr_index(access);
	size_t rank = strlen(index);
	const Op *last = index[rank - 1] == 'i' ? access->in[rank]->def : NULL;
	int n = SECTOR / dtype_tile_size(tile->elem);
	if (!last || last->kind != OP_PROGRAM_ID || strchr(index, 'g'))
		return 0;
	while (n > 1 && !batch_divides(f, last, n))
		n /= 2;
	*axis = (int)attr_axis(last);
	return n > 1 ? n : 0;
}

Value *
made_number(Builder *b, const Func *f, unsigned axes, int fast, Value **programs)
{
	Value *at = NULL, *count = NULL;
	for (int i = 0; i <= f->naxis; i++) {
		int a = i < f->naxis ? i : fast;
		if (a < 0 || !(axes >> a & 1) || (a == fast && i < f->naxis))
			continue;
		const Attr axis = attr_new_axis(b->m, a);
		const Op *like = FIND_OP(op, f->body, op->kind == OP_PROGRAM_ID && attr_axis(op) == a);
		const Attr *attr = like ? like->attr : &axis;
		Value *id = op_make(b, OP_PROGRAM_ID, NULL, 0, attr, like ? like->nattr : 1, NULL, 0)->out;
		Value *n = op_make(b, OP_NUM_PROGRAMS, NULL, 0, &axis, 1, NULL, 0)->out;
		at = at ? build2(b, OP_ADD, build2(b, OP_MUL, at, n), id) : id;
		count = count ? build2(b, OP_MUL, count, n) : n;
	}
	if (programs)
		*programs = count ? count : build_index(b, 1);
	return at ? at : build_index(b, 0);
}

int64_t
made_part(const MadeTensor *m, int depth)
{
	int64_t all = m->tile[depth], n = MIN(all, SECTOR / dtype_tile_size(m->elem));
	while (n > 1 && (all % n || n * m->tile[1 - depth] * SECTOR > ROOM))
		n /= 2;
	return n;
}

Op *
made_parts(Builder *b, int64_t all, int64_t n, Builder *inside)
{
	Value *const bounds[] = {build_index(b, 0), build_index(b, all), build_index(b, n)};
	Op *parts = build_for(b, bounds, NULL, 0, NULL);
	*inside = build_inside(parts, 0);
	inside->place = b->place;
	return parts;
}

int
made_dim(const Op *access, int d)
{
	int at = 0;
	while (attr_index(access)[at] != 'p' || d-- > 0)
		at++;
	return at;
}

/* ---- which ---- */

static bool
is_result(const Func *f, const Op *op, MadeResult *r)
{
	if (op->kind != OP_WRITE || !access_is_tensor(op) || op->in[0]->def || op->in[0]->block->parent || attr_valid(op))
		return false;
	const Type *t = op->in[access_data(op)]->type;
	bool is_only = !ANY_OP(other, f->body, other != op && op_is_access(other) && other->in[0] == op->in[0]);
	if (t->rank != 2 || t->ptr != PTR_NONE || t->elem == TY_BOOL || dtype_is_packed(t->elem) || !is_only ||
	    f->param[op->in[0]->index].access != ACCESS_OUT)
		return false;
	*r = (MadeResult){.write = (Op *)op, .slice = NEW_ARRAY(f->module->cx->tmp, bool, f->nvalues)};
	r->made = (MadeTensor){.elem = t->elem, .axes = (1u << f->naxis) - 1, .along = 0, .divisor = 1, .step = 1,
	    .tile = {t->extent[0], t->extent[1]}, .end = {.number = 1}, .is_copy = true, .is_result = true};
	r->made.neighbours = made_neighbours(f, op, t, &r->fast);
	for (int i = 0; i < (int)strlen(attr_index(op)); i++)
		if (op->in[1 + i]->def)
			op_backward_slice(op->in[1 + i]->def, f->body, r->slice);
	for (const Op *from = f->body->first; from; from = from->next)
		if (ANY_OF(k, from->nout, r->slice[from->out[k].id]) && (!op_has(from, PURE) || from->nregion > 0))
			return false;
	return r->made.neighbours > 0;
}

int
made_results_find(const Func *f, MadeResult *out, int most)
{
	int n = 0;
	for (const Op *op = f->body->first; op && n < most; op = op->next)
		n += is_result(f, op, &out[n]);
	return n;
}

/* ---- what the kernels have ---- */

static const Attr *
whole(const MadeResult *r, const Builder *b, int64_t columns, Attr attr[2])
{
	attr[0] = attr_new_index(b->m, "pp");
	attr[1] = attr_new_extents(b->m, (int64_t[]){r->made.tile[0], columns}, 2);
	return attr;
}

static Value *
row_of(const MadeResult *r, Builder *b, const Func *f)
{
	return build2(b, OP_MUL, made_number(b, f, r->made.axes, r->fast, NULL), build_index(b, r->made.tile[0]));
}

void
made_result_keep(const MadeResult *r, const Func *f, Value *tensor)
{
	Attr attr[2];
	Builder b = build_before(r->write);
	Value *in[] = {tensor, row_of(r, &b, f), build_index(&b, 0), r->write->in[access_data(r->write)]};
	op_make(&b, OP_WRITE, in, LEN(in), whole(r, &b, r->made.tile[1], attr), 2, NULL, 0);
	op_erase(r->write);
}

static void
write_result(const MadeResult *r, const Func *f, Value *tensor)
{
	Attr attr[2];
	Builder b = build_before(r->write), inside;
	int64_t n = made_part(&r->made, 1);
	int at = made_dim(r->write, 1), data = access_data(r->write);
	Value *row = row_of(r, &b, f), **in = NEW_COPY(b.m->cx->tmp, r->write->in, r->write->nin);
	Op *parts = made_parts(&b, r->made.tile[1], n, &inside);
	Value *k = &parts->region[0]->arg[0];
	const Type *want = type_with_extent(b.m, in[data]->type, 1, n);
	in[data] = op_make(&inside, OP_READ, (Value *[]){tensor, row, k}, 3, whole(r, &b, n, attr), 2, &want, 1)->out;
	in[1 + at] = build2(&inside, OP_ADD, in[1 + at], k);
	access_along(&inside, r->write, in, at, n);
	build_yield(&inside, NULL, 0);
}

/* Of the ops that were there, indices of the writes stay. */
void
made_results_last(Func *f, const MadeResult *r, int n, Value *tensor)
{
	VEC(Op *) was = {0};
	for (Op *op = f->body->first; op; op = op->next)
		vec_push(f->module->cx->tmp, &was, op);
	f->schedule = (Schedule){.materialize = MATERIALIZE_LAST, .warps = MADE_WARPS};
	for (int i = 0; i < n; i++) {
		write_result(&r[i], f, &tensor[i]);
		f->schedule.batch = MAX(f->schedule.batch, r[i].made.neighbours);
	}
	for (int at = was.n; at-- > 0;) {
		Op *op = was.at[at];
		bool is_kept = ANY_OF(i, n, ANY_OF(k, op->nout, r[i].slice[op->out[k].id]));
		if (!op_has(op, TERM) && !is_kept)
			op_erase(op);
	}
	f->name = intern(f->module->cx->names, arena_printf(f->module->cx->tmp, "%s_results", f->name));
}
