/* The 32-byte sectors that an access of a warp touches, by the addresses themselves (address.c).
 *
 *     %i = iota : i64[128]              lane 0: 0, lane 1: 1 …        x[i, 5] of f32[512, 512]: 2048 bytes apart,
 *     %v = read %x, %i, %c5 {"gi"}                                    32 sectors where 4 hold the bytes
 *
 * Of all accesses of the tile by the first warp, in the first program with the first trip of each loop, in the second
 * with the second, and so on to the eighth, that one counts which touches most beyond its fewest: where rows begin inside
 * of a sector, the first program alone does not show it.  Elements outside of the tensor, or masked, are not accessed,
 * unless all are, as where a short loop reads ahead.  Where indices are data and each row begins on a sector, elements of
 * data count as different rows, which no data can make worse. */
#include "compile/address.h"

#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "model/digits/digits.h"

#include <stdlib.h>
#include <string.h>

enum { SECTOR = 32, LANES_MOST = 64, VECTOR_MOST = 32, VECTOR_BYTES = 16, ACCESSES_MOST = 64,
       PROGRAMS_TRIED = 8 };

/* From the argument's order of dimensions to the function's. */
static void
turn_arg(const FuncParam *p, const Type *t, InspectArg *a)
{
	const InspectArg as = *a;
	for (int d = 0; p->last && d < t->rank; d++) {
		a->dim[d] = as.dim[param_dim(p, t->rank, d)];
		a->stride[d] = as.stride[param_dim(p, t->rank, d)];
	}
}

InspectArg *
inspect_args(const Bound *b, const Func *f, Arena *mem)
{
	InspectArg *arg = NEW_ARRAY(mem, InspectArg, f->nparam);
	int n = b->kernel->params.n;
	for (int i = 0; i < f->nparam - f->nmade; i++) {
		const Const *c = i < n ? &b->param[i].scalar : &b->symbol[i - n].value;
		int64_t stride = 1;
		arg[i].known = c->kind == CONST_INT || f->param[i].kind == PARAM_TENSOR;
		arg[i].value = c->kind == CONST_INT ? c->i : 0;
		for (int d = i < n ? b->param[i].rank - 1 : -1; d >= 0; d--) {
			arg[i].dim[d] = b->param[i].dim[d];
			arg[i].stride[d] = b->param[i].is_spread ? b->param[i].stride[d] : stride;
			stride *= MAX(arg[i].dim[d], 1);
			if (d == b->param[i].rank - 1 && dtype_is_packed(b->param[i].dtype))
				stride += stride & 1;           /* a row begins on a byte */
		}
		turn_arg(&f->param[i], f->body->arg[i].type, &arg[i]);
	}
	for (int i = 0; i < f->nmade; i++) {
		InspectArg *a = &arg[f->nparam - f->nmade + i];
		int64_t end = f->made[i].end.number;
		for (int k = 0; k < f->made[i].end.n; k++) {
			int param = f->made[i].end.term[k].param, d = f->made[i].end.term[k].dim;
			end += f->made[i].end.term[k].factor *
			    (param < 0 ? b->grid[-1 - param] : d < 0 ? arg[param].value : arg[param].dim[d]);
		}
		for (int d = 0; d < 2; d++)
			a->dim[d] = made_extent(&f->made[i], d, end, b->grid);
		*a = (InspectArg){.known = true, .dim = {a->dim[0], a->dim[1]}, .stride = {a->dim[1], 1}};
	}
	return arg;
}

/* An access of a tile, as threads hold it, and what was found of it. */
typedef struct Worst {
	int touched, least, first;                      /* first: the register at which it begins */
	Walk in;                                        /* of the program and trip */
	int64_t all, fewest;                            /* touched and least of all that were looked at, together */
} Worst;

/* One access of the warp: false if an address is not known; *least 0 if no lane takes part. */
static bool
count(Walk *w, const Op *op, const Type *tile, const Layout *l, int first, int vector, int *touched, int *least)
{
	int64_t sector[LANES_MOST * VECTOR_MOST], seen[LANES_MOST * VECTOR_MOST], bits;
	int nsector = 0, nseen = 0, lanes = 1 << l->in[IN_LANE];
	int size = tile->ptr != PTR_NONE ? 64 : dtype_info[tile->elem].bits;
	for (int lane = 0; lane < lanes; lane++)
		for (int r = 0; r < vector; r++) {
			Where where = address_at(w, op, tile, l, lane, first + r, &bits);
			if (where == AT_UNKNOWN)
				return false;
			if (where == AT_OUTSIDE)
				continue;
			nseen = set_add(seen, nseen, bits);
			nsector = set_add(sector, nsector, bits >> 8);
		}
	*touched = nsector;
	*least = (nseen * size + 8 * SECTOR - 1) / (8 * SECTOR);
	return true;
}

/* Takes the accesses of one program, as vector registers each; false: addresses are not known. */
static bool
count_all(Walk w, const Op *op, const Type *tile, const Layout *l, int vector, Worst *worst)
{
	int registers = 1 << l->in[IN_REGISTER], touched, least;
	Scalar scalar[SCALARS] = {{0}};
	w.scalar = scalar;
	for (int r = 0, n = 0; r < registers && n < ACCESSES_MOST; r += vector, n++) {
		if (!count(&w, op, tile, l, r, vector, &touched, &least))
			return false;
		int more = (touched - least) - (worst->touched - worst->least);
		bool later = w.nth > worst->in.nth && r == worst->first && !w.takes_guess; /* not at an edge */
		bool wider = touched > worst->touched || (touched == worst->touched && later);
		if (more > 0 || (more == 0 && wider)) {
			*worst = (Worst){touched, least, r, w, worst->all, worst->fewest};
			worst->in.scalar = NULL;
		}
		worst->all += touched;
		worst->fewest += least;
	}
	return true;
}

/* False: addresses are not known. */
static bool
worst_access(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, Worst *worst)
{
	*worst = (Worst){.touched = 0};
	if (!arg || vector > VECTOR_MOST || 1 << l->in[IN_LANE] > LANES_MOST)
		return false;
	vector = MIN(vector, 1 << l->in[IN_REGISTER]);
	for (int bounds = 1; bounds >= 0 && worst->least == 0; bounds--)
		for (int64_t nth = 0; nth < PROGRAMS_TRIED; nth++)
			if (!count_all((Walk){.arg = arg, .nth = nth, .all_inside = !bounds}, op, tile, l, vector, worst))
				return false;
	return worst->least > 0;
}

void
inspect_sectors(const InspectArg *arg, const Op *op, int vector, InspectLine *x)
{
	Worst worst;
	x->sectors_known = worst_access(arg, op, x->tile, x->layout, vector, &worst);
	if (!x->sectors_known)
		return;
	double mean = (double)worst.all / (double)worst.fewest;
	x->touched = worst.touched;
	x->least = worst.least;
	if (!worst.in.takes_guess && !worst.in.takes_data && worst.touched > 1.001 * mean * worst.least)
		x->mean = mean;
}

/* ---- why ---- */

/* Do the thread's other accesses take all that lies between its lanes? */
static bool
fills(Worst *worst, const Op *op, const Type *tile, const Layout *l, int vector, int64_t bytes, int64_t apart)
{
	int64_t first, bits, taken = 0;
	if (address_at(&worst->in, op, tile, l, 0, worst->first, &first) != AT_KNOWN)
		return false;
	for (int r = 0; r < 1 << l->in[IN_REGISTER]; r += vector)
		if (address_at(&worst->in, op, tile, l, 0, r, &bits) == AT_KNOWN && llabs(bits - first) / 8 < apart)
			taken += bytes;
	return taken >= apart;
}

/* What lies between the lanes of the worst access, where that costs sectors. */
static void
put_spread(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, Text *out)
{
	Worst worst;
	int n = 0, run = 1, inside = 0, lanes = 1 << l->in[IN_LANE];
	int64_t at[LANES_MOST], bits, bytes = vector * (tile->ptr != PTR_NONE ? 64 : dtype_info[tile->elem].bits) / 8;
	if (!worst_access(arg, op, tile, l, vector, &worst) || worst.touched <= worst.least || bytes == 0)
		return;
	if (worst.in.takes_data) {
		text_put(out, "its indices are data, each counted as a row of its own");
		return;
	}
	for (int lane = 0; lane < lanes; lane++)
		if (address_at(&worst.in, op, tile, l, lane, worst.first, &bits) == AT_KNOWN) {
			n = set_add(at, n, bits / 8);
			inside++;
		}
	while (run < n && at[run] == at[run - 1] + bytes)
		run++;
	if (n > 0 && run == n && at[0] % SECTOR)
		text_printf(out, "a warp begins %s%lld bytes into a sector",
		    worst.in.takes_guess ? "where data says, at worst " : "",
		    (long long)((at[0] % SECTOR + SECTOR) % SECTOR));      /* at[0] may lie before the tensor */
	else if (run == 1 && n > 1 && 2 * n <= inside)
		text_printf(out, "%d lanes read the same, the next %lld bytes from it", inside / n, llabs(at[1] - at[0]));
	else if (run == 1 && n > 2 && llabs(at[1] - at[0]) != llabs(at[2] - at[1]))
		text_put(out, "its lanes' elements are not evenly apart");
	else if (run == 1 && n > 1)
		text_printf(out, "neighbouring lanes are %lld bytes apart%s", llabs(at[1] - at[0]),
		    fills(&worst, op, tile, l, vector, bytes, llabs(at[1] - at[0]))
			? ": its accesses beside it take the rest of the same sectors" : "");
	else if (run < n)
		text_printf(out, "%lld bytes of %d lanes are adjacent, the next are %lld bytes apart%s",
		    (long long)(run * bytes), run, llabs(at[run] - at[0]),
		    (at[run] - at[0]) % SECTOR ? ", no multiple of a sector's 32, so that they begin inside of one" : "");
}

/* An access is no wider than the distance of rows is aligned to. */
static void
put_narrow(const InspectArg *arg, const Op *op, int vector, Text *out)
{
	const Value *tensor = op->in[0];
	Walk w = {.arg = arg};
	const InspectArg *x = tensor->type->kind == TYPE_TENSOR ? walk_arg(&w, tensor) : NULL;
	const char *index = x ? attr_index(op) : "";
	const Value *tile = access_tile(op);
	int rank = (int)strlen(index), size = dtype_info[tensor->type->elem].bits, at[KERNEL_RANK];
	int64_t bytes = (int64_t)vector * size / 8, start = 0;
	if (rank < 2 || index[rank - 1] != 'p' || x->stride[rank - 1] != 1 || bytes == 0 || bytes >= VECTOR_BYTES)
		return;
	access_dims(op, at);
	if (tile && at[rank - 1] >= 0 && tile->type->extent[at[rank - 1]] <= vector)
		return;                                 /* it has no more */
	bool inside = op->kind == OP_READ && value_int(op->in[rank], &start) && start * size / 8 % (2 * bytes);
	for (int d = rank - 2; d >= 0; d--) {           /* rows, then what they make up: with padded rows both fit */
		int64_t apart = x->stride[d] * size / 8;
		if (x->dim[d] <= 1 || apart % (2 * bytes) == 0)
			continue;
		text_printf(out, "%sno wider, since rows are %lld bytes apart", out->n ? "; " : "", (long long)apart);
		if (inside)
			text_printf(out, ", of which it begins %lld bytes into each", (long long)start * size / 8);
		return;
	}
}

static bool
is_strided(const Value *v)
{
	return !v->def && !v->block->parent && v->block->func->param[v->index].strided;
}

/* A tensor that may have any strides: would those that the launch gives permit wider accesses than the known ones? */
static void
put_strided(const InspectArg *arg, const Op *op, int vector, Text *out)
{
	Walk w = {.arg = arg};
	int at[KERNEL_RANK];
	bool is_gather = false, is_adjacent = false;
	const Type *tensor = op->in[0]->type;
	const Value *tile = access_tile(op);
	const InspectArg *x = tensor->kind == TYPE_TENSOR ? walk_arg(&w, op->in[0]) : NULL;
	if (!x || !tile || (int64_t)vector * dtype_info[tensor->elem].bits / 8 >= VECTOR_BYTES)
		return;
	access_dims(op, at);
	for (int d = 0; d < tensor->rank; d++) {
		char index = attr_index(op)[d];
		is_gather |= index == 'g';
		is_adjacent |= index == 'p' && x->stride[d] == 1 && tile->type->extent[at[d]] > 1;
	}
	if (is_adjacent && param_has_rows(&op->in[0]->block->func->param[op->in[0]->index]))
		return;
	text_put(out, out->n ? "; " : "");
	text_put(out, is_adjacent ? "no wider, since its strides are known at launch only"
	        : is_gather       ? "no wider, since each element has an index of its own"
	                          : "no wider, since no dimension of the tile has adjacent elements");
}

const char *
inspect_cause(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, Arena *mem)
{
	Text t = {0};
	if (!arg)
		return NULL;
	put_spread(arg, op, tile, l, MIN(vector, 1 << l->in[IN_REGISTER]), &t);
	if (vector < 1 << l->in[IN_REGISTER])
		put_narrow(arg, op, vector, &t);
	if (is_strided(op->in[0]))
		put_strided(arg, op, vector, &t);
	return t.n ? text_take(&t, mem) : NULL;
}

bool
inspect_is_scattered(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l)
{
	Scalar scalar[SCALARS] = {{0}};
	Walk w = {.arg = arg, .scalar = scalar, .all_inside = true, .later = true};
	int64_t bits;
	bool is = false;
	/* in x[where(i % 2 == 1, j[i / 2], 0)] not the first lane's */
	for (int lane = 0; lane < 1 << l->in[IN_LANE] && !is; lane = 2 * lane + 1)
		is = address_at(&w, op, tile, l, lane, 0, &bits) == AT_UNKNOWN || w.takes_data;
	return is;
}

/* The L2 cache serves pairs of sectors: 4 M elements of a table of 1 MB at random take an H200 32 us, as it takes for 64
 * bytes of each. */
static double
alone(int lanes)
{
	enum { PAIR = 2 };
	return PAIR * lanes;
}

double
inspect_sectors_first(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector)
{
	Scalar scalar[SCALARS] = {{0}};
	Walk w = {.arg = arg, .scalar = scalar, .later = true};
	int64_t sector[LANES_MOST * VECTOR_MOST], bits;
	int n = 0, lanes = 1 << l->in[IN_LANE];
	int size = tile->ptr != PTR_NONE ? 64 : dtype_info[tile->elem].bits;
	double least = MAX((double)vector * size * lanes / (8 * SECTOR), 1);
	if (vector > VECTOR_MOST || lanes > LANES_MOST)
		return least;
	for (int lane = 0; lane < lanes; lane++) {
		Where where = address_at(&w, op, tile, l, lane, 0, &bits);
		if (where == AT_UNKNOWN)
			return alone(lanes);
		for (int64_t s = bits >> 8; where == AT_KNOWN && s <= (bits + vector * size - 1) >> 8; s++)
			n = set_add(sector, n, s);
	}
	return n ? n : least;
}

/* As many vectors as a record has elements. */
bool
inspect_records(InspectLine *x, const Op *op, int bits, const Target *t)
{
	int held = access_records_held(op, x->layout, t), n = (int)op->in[0]->type->extent[op->in[0]->type->rank - 1];
	if (held == 0)
		return false;
	x->bytes = (bits / 8) << held;
	x->accesses = MAX(x->accesses >> (held + x->layout->out[x->layout->rank - 1]), 1) * n;
	x->least = MAX(x->bytes << x->layout->in[IN_LANE] >> 5, 1);
	x->touched = MIN(n * x->least, 1 << x->layout->in[IN_LANE]);
	if (x->touched > x->least)
		x->cause = "of each record a part: the accesses beside it take the rest of the same sectors";
	return true;
}
