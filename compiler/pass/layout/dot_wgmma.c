/* Which dots are products of warpgroups, and how their accumulators lie.
 *
 *     %a = read %x … : bf16[128, 64]
 *     %b = read %y … : bf16[256, 64]
 *     %t = permute %b {dims = [1, 0]}
 *     %p = dot %a, %t, %acc {mma = "wgmma.n256k16.bf16"} : f32[128, 256] #0      8 warps: two warpgroups along M
 *
 * The right operand comes from memory as it is, so that copies can bring it into shared memory, where the instruction reads
 * it, and so does the left one, or it is computed and stays in registers; there are whole warpgroups; each has 64 rows at
 * least, or the columns are divided as well: then each needs what the others computed of a left operand that another
 * product made, which goes through shared memory.  Elements of other than
 * 16 bits must lie along K in memory.  A right operand may also be decoded from what was read (`decodes`): threads put it
 * into shared memory.  What is read from shared memory has no layout in registers.
 *
 * Products of 8-bit floats are summed apart and then added (model/plan_wgmma.c), for which a thread holds one more
 * instruction's sums: the instruction has half of the columns at most. */
#include "pass/layout/axis.h"
#include "model/model.h"
#include "pass/layout/dot.h"

enum { WARPGROUP_BITS = 2, ROW_BITS = 6, COLUMN_BITS = 3, ROW_BYTES_LEAST = 32, COLUMNS_APART = 128 };
enum { DECODE_ROWS = 128, DECODE_DEPTH_LEAST = 32, DECODE_OPS = 16 };     /* the last one: that make an element */

Value *
dot_operand_root(Value *v, bool *flipped)
{
	for (*flipped = false; v->def && v->def->kind == OP_PERMUTE; v = v->def->in[0])
		*flipped = *flipped != (attr_dims(v->def)->at[0] == 1);
	return v;
}

/* Is the tile made of what was read, element by element, as weights of 8 or 4 bits with their scales? */
static bool
is_decoded(const Value *v, int depth)
{
	const Op *op = v->def;
	if (v->type->kind != TYPE_TILE || v->type->rank == 0)
		return true;
	if (!op || depth == 0)
		return false;
	switch (op->kind) {
	case OP_READ: case OP_CONST: case OP_IOTA:
		return true;
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return is_decoded(op->in[0], depth - 1);
	default:
		break;
	}
	bool all = op_info[op->kind].traits & ELEM;
	for (int i = 0; i < op->nin && all; i++)
		all = is_decoded(op->in[i], depth - 1);
	return all;
}

/* Threads put a decoded operand into shared memory each trip, behind a fence and a barrier: the product must be large
 * beside that.  Of fewer rows warps multiply what they decode in registers. */
static bool
pays_for_decoding(const Op *dot)
{
	return dot->out[0].type->extent[0] >= DECODE_ROWS && dot->in[0]->type->extent[1] >= DECODE_DEPTH_LEAST &&
	    is_decoded(dot->in[1], DECODE_OPS);
}

/* NULL: the operand can lie in shared memory as the instruction reads it. */
static const char *
operand_reason(const Op *dot, int which, const Target *t, bool *computed)
{
	bool flipped;
	int fast, size = dtype_tile_size(dot->in[which]->type->elem);
	Op *read = dot_operand_root(dot->in[which], &flipped)->def;
	*computed = !read || read->kind != OP_READ;
	if (*computed && which == 1 && size == 2 && pays_for_decoding(dot))
		return NULL;
	if (*computed)
		return which == 1 ? "the right operand is computed" : size > 2 ? "the left operand is computed" : NULL;
	access_contiguity(read, t, &fast);
	int k_dim = (which == 0) != flipped ? 1 : 0;
	if (fast != k_dim && size != 2)
		return "elements of other than 16 bits do not lie along K";
	if (read->out[0].type->extent[fast] * size < ROW_BYTES_LEAST)
		return "an operand has rows of fewer than 32 bytes";
	return NULL;
}

const char *
dot_wgmma_reason(const Op *dot, const Target *t, int warps, bool chained, DotWgmma *out)
{
	bool computed;
	const Type *acc = dot->out[0].type;
	int groups = warps - WARPGROUP_BITS, rows = log2_ceil(acc->extent[acc->rank - 2]) - ROW_BITS;
	int columns = log2_ceil(acc->extent[acc->rank - 1]) - COLUMN_BITS;
	*out = (DotWgmma){.info = NULL};
	if (!(t->has & HAS_WGMMA))
		return "the target has none";
	if (acc->rank != 2)
		return "a dot of matrices in batches";
	if (rows < 0)
		return "fewer than 64 rows";
	if (groups < 0)
		return "fewer than 4 warps";
	out->along[0] = MIN(groups, rows);
	out->along[1] = groups - out->along[0];
	if (out->along[1] > columns)
		return "more warps than the tile divides into";
	if (dot_is_exact(dot))
		return "the products of f32 are exact";
	DType a = dot->in[0]->type->elem, b = dot->in[1]->type->elem;
	int64_t width = acc->extent[1] >> out->along[1];
	out->info = target_wgmma(t, a, b, acc->elem, wgmma_adds_apart(dot) ? MIN(width, COLUMNS_APART) : width);
	if (!out->info)
		return "no instruction for these types and columns";
	if (dot->in[0]->type->extent[1] < out->info->k)
		return "fewer than 32 bytes along K";
	const char *left = operand_reason(dot, 0, t, &out->register_a);
	out->register_a = out->register_a && !(chained && out->along[1]);
	const char *right = operand_reason(dot, 1, t, &computed);
	out->decodes = computed && !right;
	return left ? left : right;
}

bool
dot_wgmma(Op *dot, const Target *t, int warps, bool chained)
{
	const Type *acc = dot->out[0].type;
	Module *m = dot->home->func->module;
	int shape[LAYOUT_RANK] = {0};
	DotWgmma w;
	const char *why = dot_wgmma_reason(dot, t, warps, chained, &w);
	if (why && t->has & HAS_WGMMA)
		attr_set_wgmma_reason(m, dot, why);
	if (why)
		return false;
	for (int d = 0; d < 2; d++)
		shape[d] = log2_ceil(acc->extent[d]);
	Layout c = wgmma_layout_c(w.info);
	c = layout_tile(&c, shape, w.along);
	dot->out[0].layout = layout_intern(m, &c);
	attr_set_mma(m, dot, w.info->name);
	if (w.register_a)
		attr_set_register_a(m, dot, true);
	return true;
}
