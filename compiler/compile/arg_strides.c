/* What code assumes of a `strided` tensor's strides, and tensors whose elements follow one another along another dimension
 * than the last.
 *
 *     a: in strided bf16[M, K]     of a launch with strides [K, 1]       row-major: as if it were not strided
 *                                  [K + 64, 1], a part of wider rows     rows: each is contiguous, at multiples of 16 bytes
 *                                  [1, M], a transposed view             rows of the same tensor as bf16[K, M]
 *                                  [2 * K, 2], every other column        none
 *
 * Code for rows knows how far apart they are as a power of two of elements, up to 16 bytes: so much do wide accesses and
 * tensor maps ask for, and no more forms are compiled than that many for each dimension that may be contiguous.
 *
 * A tensor that is contiguous along dimension d gets that as its last one before any pass runs, and all passes find it so:
 *
 *     kernel @k(%a: in strided f32[M, K], …)             kernel @k(%a: in strided rows(4) last(0) f32[K, M], …)
 *     %t = read %a, %m, %k {"pp"} : f32[64, 32]     =>   %r = read %a, %k, %m {"pp"} : f32[32, 64]
 *                                                        %t = permute %r {dims = [1, 0]} : f32[64, 32]
 *
 * so that its layouts, copies and products are those of a kernel written for the tensor as it lies in memory.  What is
 * said of the compiled code counts the argument's dimensions (artefact_by_argument).  Strides of dimensions of one element
 * are not used, and 0 at the launch (tensor_arg). */
#include "compile/compile.h"

#include "ir/derive.h"

#include <string.h>

enum { WIDE_BITS = 128 };                               /* 16 bytes: what strides are divided by, at most */

ArgStrides
arg_strides_of(DType elem, int rank, const int64_t *dim, const int64_t *stride)
{
	ArgStrides s = {0};
	int unit = rank - 1;
	if (rank == 0)
		return s;
	while (unit >= 0 && (stride[unit] != 1 || (dim[unit] <= 1 && unit < rank - 1)))
		unit--;
	if (unit < 0 || (dtype_is_packed(elem) && unit != rank - 1))
		return s;
	uint64_t all = (uint64_t)WIDE_BITS / (uint64_t)MAX(dtype_info[elem].bits, 1);
	for (int d = 0; d < rank; d++)
		all |= d != unit && dim[d] > 1 ? (uint64_t)stride[d] : 0;
	s.unit = (unsigned char)(unit + 1);
	s.apart = (unsigned char)MAX(all & (~all + 1), 1);
	return s;
}

/* ---- another dimension last ---- */

typedef struct Turned {
	const FuncParam *p;
	int rank;
} Turned;

/* Which dimension of the function's tensor the argument's dimension d is. */
static int
turned_dim(const Turned *x, int d)
{
	return FIRST_OF(i, x->rank, param_dim(x->p, x->rank, i) == d);
}

/* The access with its indices in the new order; dims[i]: the dimension of the old tile that is i of the new one. */
static int
turn_indices(const Turned *x, const Op *op, Value **in, char *index, int64_t *extent, int *nextent, int64_t *dims)
{
	const char *old = attr_index(op);
	const IntList *had = attr_extents(op);
	int at[KERNEL_RANK], n = 0;
	bool gathered = false;
	access_dims(op, at);
	*nextent = 0;
	for (int i = 0; i < x->rank; i++) {
		int d = param_dim(x->p, x->rank, i);
		in[1 + i] = op->in[1 + d];
		index[i] = old[d];
		if (old[d] == 'p') {
			int e = COUNT_OF(k, d, old[k] == 'p');
			extent[(*nextent)++] = had->at[e];
			dims[n++] = at[d];
		}
		for (int k = 0; old[d] == 'g' && !gathered && k < op->in[1 + d]->type->rank; k++)
			dims[n++] = at[d] + k;
		gathered |= old[d] == 'g';
	}
	index[x->rank] = 0;
	return n;
}

static Value *
turn_tile(Builder *b, Value *v, const int64_t *dims, int n)
{
	return v->type->rank == n && ANY_OF(i, n, dims[i] != i) ? build_permute(b, v, dims) : v;
}

static void
turn_access(const Turned *x, Op *op)
{
	Builder b = build_before(op);
	Value **in = NEW_COPY(b.m->cx->tmp, op->in, op->nin);
	char *index = arena_strdup(b.m->cx->mem, attr_index(op));
	int64_t extent[KERNEL_RANK], dims[MAX_RANK], back[MAX_RANK];
	int nextent, n = turn_indices(x, op, in, index, extent, &nextent, dims);
	for (int i = 1 + x->rank; i < op->nin; i++)
		in[i] = turn_tile(&b, op->in[i], dims, n);
	Op *made = access_like(&b, op, in, op->nin, intern(b.m->cx->names, index), extent, nextent);
	for (int i = 0; i < n; i++)
		back[dims[i]] = i;
	if (op->nout > 0)
		op_become(op, turn_tile(&b, &made->out[0], back, n));
	else
		op_erase(op);
}

static void
turn_tensor(Func *f, int i, int last)
{
	FuncParam *p = &f->param[i];
	Value *tensor = &f->body->arg[i];
	const Type *t = tensor->type;
	Turned x = {p, t->rank};
	int64_t extent[KERNEL_RANK];
	int dim[KERNEL_RANK];
	p->last = last;
	for (int d = 0; d < t->rank; d++) {
		extent[d] = t->extent[param_dim(p, t->rank, d)];
		dim[d] = p->dim[param_dim(p, t->rank, d)];
	}
	memcpy(p->dim, dim, sizeof *dim * (size_t)t->rank);
	VEC(Op *) uses = {0};
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->nin > 0 && op->in[0] == tensor)
			vec_push(f->module->cx->tmp, &uses, op);
	tensor->type = type_tensor(f->module, t->elem, t->rank, extent);
	for (int k = 0; k < uses.n; k++) {
		Op *op = uses.at[k];
		if (op->kind == OP_DIM || op->kind == OP_STRIDE)
			attr_set_axis(f->module, op, turned_dim(&x, (int)attr_axis(op)));
		else
			turn_access(&x, op);
	}
}

void
arg_strides_note(Func *f, int i, const ArgStrides *s)
{
	FuncParam *p = &f->param[i];
	if (!p->strided || !s)
		return;
	p->strided = !s->is_dense;
	if (s->is_dense || s->unit == 0)
		return;
	p->unit = true;
	p->apart = s->apart;
	if (s->unit < f->body->arg[i].type->rank)
		turn_tensor(f, i, s->unit);
}
