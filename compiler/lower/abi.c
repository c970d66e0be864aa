/* The kernel's parameters for a function: what the runtime passes, in order.  The function's own parameters come first,
 * a tensor's pointer with its strides behind it, if they are free, and those of its extents that neither its type nor a
 * dim parameter knows; then tensor maps, the grid, and what is derived. */
#include "lower/artefact.h"

#include "ir/derive.h"
#include "model/digits/digits.h"

typedef VEC(AbiParam) AbiList;

static void
add_tensor(AbiList *l, Arena *mem, const Func *f, int i)
{
	const FuncParam *p = &f->param[i];
	const Type *t = f->body->arg[i].type;
	int at[KERNEL_RANK];                            /* the function's dimensions in the argument's order */
	for (int d = 0; d < t->rank; d++)
		at[param_dim(p, t->rank, d)] = d;
	vec_push(mem, l, ((AbiParam){ABI_POINTER, i, 0, 8}));
	for (int k = 0; p->strided && k < t->rank; k++)
		vec_push(mem, l, ((AbiParam){ABI_STRIDE, i, at[k], 8}));
	for (int k = 0; k < t->rank; k++)
		if (t->extent[at[k]] < 0 && p->dim[at[k]] < 0)
			vec_push(mem, l, ((AbiParam){ABI_EXTENT, i, at[k], 8}));
}

typedef VEC(TensorMap) MapList;

static void
add_map(MapList *l, Arena *mem, const TensorMap *m)
{
	for (int i = 0; i < l->n; i++)
		if (map_equal(m, &l->at[i]))
			return;
	vec_push(mem, l, *m);
}

TensorMap *
artefact_maps(const Func *f, const Target *t, Arena *mem, int *n)
{
	MapList l = {0};
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		TensorMap m, last;
		if ((op->kind != OP_SEND && !op_is_bulk_copy(op)) || plan_map(op, t, &m))
			continue;
		add_map(&l, mem, &m);
		last = map_of_last(&m);
		if (m.last)
			add_map(&l, mem, &last);
	}
	*n = l.n;
	return l.at;
}

AbiParam *
artefact_abi(const Func *f, const Target *target, Arena *mem, int *n)
{
	AbiList l = {0};
	int nmaps;
	const TensorMap *map = artefact_maps(f, target, mem, &nmaps);
	for (int i = 0; i < f->nparam; i++) {
		const Type *t = f->body->arg[i].type;
		int bytes = MAX(dtype_info[t->elem].bits / 8, 1);
		switch (f->param[i].kind) {
		case PARAM_TENSOR: add_tensor(&l, mem, f, i); break;
		case PARAM_POINTER: vec_push(mem, &l, ((AbiParam){ABI_POINTER, i, 0, 8})); break;
		case PARAM_SCALAR: vec_push(mem, &l, ((AbiParam){ABI_SCALAR, i, 0, bytes})); break;
		case PARAM_DIM: vec_push(mem, &l, ((AbiParam){ABI_DIM, i, 0, 8})); break;
		}
	}
	for (int i = 0; i < nmaps; i++)
		vec_push(mem, &l, ((AbiParam){ABI_TENSOR_MAP, map[i].param, i, MAP_BYTES}));
	for (int d = 0; d < f->naxis; d++)
		vec_push(mem, &l, ((AbiParam){ABI_GRID, 0, d, 4}));
	for (int d = 0; d + 1 < f->naxis && f->schedule.group <= 1 && (f->few_programs || !artefact_is_persistent(f)); d++)
		vec_push(mem, &l, ((AbiParam){ABI_INVERSE, 0, d, 8}));
	if (block_find(f->body, OP_ASSERT))
		vec_push(mem, &l, ((AbiParam){ABI_FAULTS, 0, 0, 8}));
	if (split_part_bytes(f)) {
		vec_push(mem, &l, ((AbiParam){ABI_ARRIVALS, 0, 0, 8}));
		vec_push(mem, &l, ((AbiParam){ABI_PARTS, 0, 0, 8}));
	}
	if (func_is_dynamic(f))
		vec_push(mem, &l, ((AbiParam){ABI_ARRIVALS, 0, 0, 8}));
	*n = l.n;
	return l.at;
}

static int
argument_dim(const Func *f, int param, int d)
{
	return param_dim(&f->param[param], f->body->arg[param].type->rank, d);
}

static void
sum_by_argument(const Func *f, LaunchSum *s)
{
	for (int i = 0; i < s->n; i++)
		if (s->term[i].dim >= 0)
			s->term[i].dim = argument_dim(f, s->term[i].param, s->term[i].dim);
}

void
artefact_made_by_argument(const Func *f, MadeTensor *made, int n)
{
	for (int i = 0; i < n; i++)
		sum_by_argument(f, &made[i].end);
}

void
artefact_by_argument(const Func *f, AbiParam *abi, int nabi, TensorMap *map, int nmaps)
{
	for (int i = 0; i < nabi; i++)
		if (abi[i].kind == ABI_STRIDE || abi[i].kind == ABI_EXTENT)
			abi[i].dim = argument_dim(f, abi[i].param, abi[i].dim);
	for (int i = 0; i < nmaps; i++) {
		for (int d = 0; d < map[i].rank; d++)
			map[i].dim[d] = argument_dim(f, map[i].param, map[i].dim[d]);
		for (int w = 0; w < map[i].windows; w++) {
			sum_by_argument(f, &map[i].window[w].lower);
			sum_by_argument(f, &map[i].window[w].count);
			sum_by_argument(f, &map[i].window[w].reach);
		}
	}
}

bool
artefact_is_persistent(const Func *f)
{
	return func_stays(f) && f->module->facts & PROGRAMS;
}
