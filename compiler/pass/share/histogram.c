/* One that many elements add at places of few becomes a histogram, which is added once.
 *
 *     atomic %y, %n, %v, (const 1) {index = "ig"}         %h = histogram %v {bins = 256} : i32[256]
 *                                                   =>    atomic %y, %n, 0, %h {index = "ip", extents = [256]}
 *
 * %y is i32[N, 256], %v i32[1024].  Atomics of one place come one after another, while a block counts in shared memory:
 * 64 images of 2^20 bytes took an H200 4956 us by 1024 atomics a program.  What the bins of all programs are added to, pass
 * privatize adds up by blocks.  Both drop indices outside; any integer is added so, as sums of integers have no order. */
#include "model/model.h"
#include "pass/pass.h"

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

static bool
counts(const Op *op, int64_t *each)
{
	if (op->kind != OP_ATOMIC || op->out[0].nuses > 0 || strcmp(attr_fn(op), "add") != 0 ||
	    strcmp(attr_scope(op), "sys") == 0 || gathered(op) < 0)
		return false;
	int d = gathered(op);
	const Value *data = op->in[access_data(op)], *v = op->in[1 + d];
	int64_t bins = op->in[0]->type->extent[d];
	return dtype_is_int(data->type->elem) && value_constant(data, each) && v->type->rank > 0 && bins > 1 &&
	    bins <= BINS_MOST && bins <= BINS_EACH * type_count(v->type);
}

static void
count(Op *op, int64_t each)
{
	Builder b = build_before(op);
	Module *m = b.m;
	int d = gathered(op), data = access_data(op);
	int64_t bins = op->in[0]->type->extent[d];
	DType elem = op->in[data]->type->elem;
	char *index = arena_printf(m->cx->tmp, "%s", attr_index(op));
	Attr of = attr_new_bins(m, bins);
	Value *h = op_make(&b, OP_HISTOGRAM, &op->in[1 + d], 1, &of, 1, NULL, 0)->out;
	if (elem != TY_I32)
		h = build1(&b, OP_CAST, h, type_with_elem(m, h->type, elem));
	if (each != 1)
		h = build2(&b, OP_MUL, h, build_int(&b, h->type, each));
	index[d] = 'p';
	Value **in = NEW_COPY(m->cx->tmp, op->in, op->nin);
	in[1 + d] = build_index(&b, 0);
	in[data] = h;
	Attr attr[] = {attr_new_fn(m, attr_fn(op)), attr_new_order(m, attr_order(op)), attr_new_scope(m, attr_scope(op)),
	    attr_new_index(m, index), attr_new_extents(m, &bins, 1)};
	op_make(&b, OP_ATOMIC, in, op->nin, attr, LEN(attr), NULL, 0);
	op_erase(op);
}

void
pass_histogram(Func *f, const Target *t)
{
	int64_t each;
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		if (counts(op, &each))
			count(op, each);
	}
}
