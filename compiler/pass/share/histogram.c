/* One that many elements add at places of few becomes a histogram, which is added once.
 *
 *     atomic %y, %n, %v, (const 1) {index = "ig"}         %h = histogram %v {bins = 256} : i32[256]
 *                                                   =>    atomic %y, %n, 0, %h {index = "ip", extents = [256]}
 *
 * What is no one is scattered, if fewer bins than elements are in a row that goes with the program:
 *
 *     atomic %y, %n, %v, %x {fn = "max"}                    %h = scatter (const nan : f32[256]), %v, %x {fn = "max"}
 *                                                   =>    atomic %y, %n, 0, %h {index = "ip", extents = [256], fn = "max"}
 *
 * %y is i32[N, 256], %v i32[1024].  Atomics of one place come one after another, while a block counts in shared memory:
 * 64 images of 2^20 bytes took an H200 4956 us by 1024 atomics a program.  What the bins of all programs are added to, pass
 * privatize adds up by blocks.  Both drop indices outside; any integer is added so, as sums of integers have no order. */
#include "ir/derive.h"
#include "model/model.h"
#include "pass/async/pipeline.h"

#include <string.h>

/* Places at random of four times as many bins lie in nearly all of their sectors, so that an atomic of all bins asks for
 * few more.  Two of 64 experts for each of 16 rows a program, 262,144 rows, take an H200 158 us by 32 atomics each, 44
 * where blocks that stay count 32 rows at a time. */
enum { BINS_MOST = 4096, BINS_EACH = 4 };

/* The dimension whose index is a tile, all others being numbers; -1. */
static int
gathered(const Op *op)
{
	const char *index = attr_index(op), *g = strchr(index, 'g');
	return g && strspn(index, "i") + 1 + strspn(g + 1, "i") == strlen(index) ? (int)(g - index) : -1;
}

/* Added or compared at places that data says, with no use for what was there; of fewer bins than `each` for an element. */
static bool
is_of_bins(const Op *op, int64_t each)
{
	if (op->kind != OP_ATOMIC || op->out[0].nuses > 0 || strcmp(attr_scope(op), "sys") == 0 || gathered(op) < 0)
		return false;
	int d = gathered(op);
	const Value *v = op->in[1 + d];
	int64_t bins = op->in[0]->type->extent[d];
	return v->type->rank > 0 && bins > 1 && bins <= BINS_MOST && bins <= each * type_count(v->type);
}

static bool
counts(const Op *op, int64_t *each)
{
	if (!is_of_bins(op, BINS_EACH) || strcmp(attr_fn(op), "add") != 0)
		return false;
	const Value *data = op->in[access_data(op)];
	return dtype_is_int(data->type->elem) && value_constant(data, each);
}

/* Others join in a tile of the bins, in rows that go with the program; what all programs share pass privatize sees to. */
static bool
joins(const Func *f, const Op *op)
{
	return op->home == f->body && is_of_bins(op, 1) && strstr(" add min max ", attr_fn(op)) &&
	    dtype_info[op->out[0].type->elem].bits == 32 && !privatize_takes(f, op);
}

/* All bins join what is there, at once. */
static void
replace(Op *op, Value *all)
{
	Builder b = build_before(op);
	int d = gathered(op);
	Value **in = NEW_COPY(b.m->cx->tmp, op->in, op->nin);
	in[1 + d] = build_index(&b, 0);
	in[access_data(op)] = all;
	access_along(&b, op, in, d, all->type->extent[0]);
	op_erase(op);
}

static void
count(Op *op, int64_t each)
{
	Builder b = build_before(op);
	Module *m = b.m;
	int d = gathered(op);
	DType elem = op->out[0].type->elem;
	Attr of = attr_new_bins(m, op->in[0]->type->extent[d]);
	Value *h = op_make(&b, OP_HISTOGRAM, &op->in[1 + d], 1, &of, 1, NULL, 0)->out;
	if (elem != TY_I32)
		h = build1(&b, OP_CAST, h, type_with_elem(m, h->type, elem));
	replace(op, each != 1 ? build2(&b, OP_MUL, h, build_int(&b, h->type, each)) : h);
}

static void
join(Op *op)
{
	Builder b = build_before(op);
	int d = gathered(op);
	const Type *t = op->out[0].type;
	int64_t n = type_count(t);
	const Type *bins = type_tile(b.m, t->elem, 1, &op->in[0]->type->extent[d]);
	Value *in[] = {build_identity(&b, bins, fn_kind(attr_fn(op)), false), op->in[1 + d], op->in[access_data(op)]};
	for (int i = 1; i < LEN(in) && t->rank > 1; i++)
		in[i] = build_reshape(&b, in[i], 1, &n);
	Attr attr[] = {attr_new_fn(b.m, attr_fn(op)), attr_new_axis(b.m, 0)};
	replace(op, op_make(&b, OP_SCATTER, in, LEN(in), attr, LEN(attr), NULL, 0)->out);
}

void
pass_histogram(Func *f, const Target *t)
{
	int64_t each;
	for (EACH_OP(op, f->body)) {
		if (counts(op, &each) && !privatize_tallies(f, op))
			count(op, each);
		else if (joins(f, op))
			join(op);
	}
}
