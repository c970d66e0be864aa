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
 * product made, which goes through shared memory.  Elements of other than 16 bits must lie along K where the instruction
 * reads them: those that lie along M or N in memory are copied so into a loop's ring, and threads turn them (layout_turns).
 * A right operand may also be decoded from what was read (`decodes`): threads put it into shared memory, or the product is
 * turned and it stays in registers (dot_turn_decoded), as bytes of integers always do.  What is read from shared memory has
 * no layout in registers.
 *
 * A left operand of a loop's product that is computed before the loop goes through shared memory too: ptxas 13.0 takes
 * registers that such instructions read for free behind them, and the next iteration multiplies what was written there.
 *
 * Of 160 columns, which the tile has 256 for, {columns = 160}, the instruction has 160: "wgmma.n160k16.bf16".
 *
 * Products of 8-bit floats are summed apart and then added (model/plan_wgmma.c), for which a thread holds one more
 * instruction's sums: the instruction has half of the columns at most. */
#include "pass/layout/axis.h"
#include "model/model.h"
#include "model/turn.h"
#include "pass/layout/dot.h"

#include <string.h>

enum { WARPGROUP_BITS = 2, ROW_BITS = 6, COLUMN_BITS = 3, ROW_BYTES_LEAST = 32 };
enum { COLUMNS_APART = 128, PART_APART = 192 };        /* of an instruction summed apart: of a whole tile's columns */
enum { DECODE_ROWS = 128, DECODE_DEPTH_LEAST = 32, DECODE_OPS = 128 };     /* the last one: that make an element */

Value *
dot_operand_root(Value *v, bool *flipped)
{
	for (*flipped = false; v->def && v->def->kind == OP_PERMUTE; v = v->def->in[0])
		*flipped = *flipped != (attr_dims(v->def)->at[0] == 1);
	return v;
}

bool
dot_takes(const Op *op, const Value *v)
{
	bool flipped;
	return op->kind == OP_DOT && ANY_OF(i, 2, dot_operand_root(op->in[i], &flipped) == v);
}

/* Is the tile made of what was read, element by element, as weights of 8 or 4 bits with their scales? */
static bool
is_decoded(const Value *v, int *ops)
{
	const Op *op = v->def;
	if (v->type->kind != TYPE_TILE || v->type->rank == 0)
		return true;
	if (!op || --*ops < 0)
		return false;
	switch (op->kind) {
	case OP_READ: case OP_CONST: case OP_IOTA:
		return true;
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return is_decoded(op->in[0], ops);
	case OP_JOIN:
		return is_decoded(op->in[0], ops) && is_decoded(op->in[1], ops);
	case OP_GATHER:
		return gather_looks_up(op) && is_decoded(op->in[1], ops);
	default:
		break;
	}
	return op_info[op->kind].traits & ELEM && ALL_OF(i, op->nin, is_decoded(op->in[i], ops));
}

bool
dot_decodes(const Op *dot)
{
	bool flipped;
	const Op *root = dot_operand_root(dot->in[1], &flipped)->def;
	int64_t n;
	return root && (root->kind != OP_READ || read_looks_up(root, &n)) && is_decoded(dot->in[1], &(int){DECODE_OPS});
}

/* Threads put a decoded operand into shared memory each trip, behind a fence and a barrier: the product must be large
 * beside that, half as large where warpgroups may have it in registers (dot_turn_decoded).  Of fewer rows warps multiply
 * what they decode in registers. */
static bool
pays_for_decoding(const Op *dot)
{
	const Type *acc = dot->out[0].type;
	bool flipped;
	dot_operand_root(dot->in[1], &flipped);
	int64_t least = flipped && acc->extent[1] >= 1 << ROW_BITS ? DECODE_ROWS / 2 : DECODE_ROWS;
	return acc->extent[0] >= least && dot->in[0]->type->extent[1] >= DECODE_DEPTH_LEAST &&
	    is_decoded(dot->in[1], &(int){DECODE_OPS});
}

/* An operand that is made in the loop, as a chunk's state: threads put it into shared memory, as it lies in a matrix
 * instruction's fragments.  Beside products by warps (few rows, more exact ones) it has fragments of theirs. */
static bool
pays_for_putting(const Op *dot)
{
	const Func *f = dot->home->func;
	if (is_decoded(dot->in[1], &(int){DECODE_OPS}))
		return pays_for_decoding(dot);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Type *acc = op->kind == OP_DOT ? op->out[0].type : NULL;
		if (acc && (acc->rank != 2 || log2_ceil(acc->extent[0]) < ROW_BITS || dot_is_exact(op) ||
		    *attr_precision(op)))
			return false;
	}
	return dot->in[0]->type->extent[1] >= DECODE_DEPTH_LEAST;
}

/* Can threads turn the tile between a loop's copies and its product (layout_turns)?  All of them take part. */
static bool
can_turn(const Op *dot, const Type *tile, int fast)
{
	int shape[LAYOUT_RANK] = {log2_ceil(tile->extent[0]), log2_ceil(tile->extent[1])};
	int warps = log2_ceil(MAX(dot->home->func->schedule.warps, 1));
	Layout got, put;
	return dot->home->parent && dot->home->parent->kind == OP_FOR &&
	    layout_turns(shape, dtype_tile_size(tile->elem), fast, warps, &got, &put);
}

/* NULL: the operand can lie in shared memory as the instruction reads it. */
static const char *
operand_reason(const Op *dot, int which, const Target *t, bool *computed, bool *turns)
{
	bool flipped;
	int fast, size = dtype_tile_size(dot->in[which]->type->elem);
	Op *read = dot_operand_root(dot->in[which], &flipped)->def;
	*computed = !read || read->kind != OP_READ;
	*turns = false;
	if (*computed && which == 1 && size == 2 && pays_for_putting(dot))
		return NULL;
	if (*computed)
		return which == 1 ? "the right operand is computed" : size > 2 ? "the left operand is computed" : NULL;
	access_contiguity(read, t, &fast);
	int k_dim = (which == 0) != flipped ? 1 : 0;
	*turns = fast != k_dim && size != 2 && can_turn(dot, read->out[0].type, fast);
	if (*turns)
		return NULL;
	if (fast != k_dim && size != 2 && which == 1)
		return "elements of other than 16 bits do not lie along K: the right operand should be [N, K], with .T";
	if (fast != k_dim && size != 2)
		return "elements of other than 16 bits do not lie along K: the left operand should be [M, K]";
	if (read->out[0].type->extent[fast] * size < ROW_BYTES_LEAST)
		return "an operand has rows of fewer than 32 bytes";
	return NULL;
}

/* The instruction with the most columns.  Of a tile that was padded it has the columns that were there, where one warpgroup
 * has them all and there is such an instruction. */
static const WgmmaInfo *
instruction(const Op *dot, const Target *t, int along)
{
	DType a = dot->in[0]->type->elem, b = dot->in[1]->type->elem, acc = dot->out[0].type->elem;
	int64_t extent = dot->out[0].type->extent[1], columns = attr_columns(dot) ? attr_columns(dot) : extent;
	int64_t all = INT64_C(1) << (log2_ceil(extent) - along);
	bool is_apart = wgmma_adds_apart(dot);
	bool is_next = log2_ceil(columns) == log2_ceil(extent) && !(is_apart && columns > PART_APART);
	const WgmmaInfo *fits = is_next && !along ? target_wgmma(t, a, b, acc, columns) : NULL;
	all = is_apart ? MIN(all, COLUMNS_APART) : all;
	return fits && fits->n == columns ? fits : target_wgmma(t, a, b, acc, all);
}

/* Does no iteration change it, whether it is computed in the loop or before? */
static bool
stays_in_loop(const Value *v, const Block *body)
{
	if (!v->def || v->def->home != body || !body->parent)
		return v->def && v->def->home != body;
	return op_has(v->def, PURE) && ALL_OF(i, v->def->nin, !value_inside(v->def->in[i], body));
}

/* Is it read from a box, so that threads of all roles find it in a slot?  Gathered rows, they would read themselves. */
static bool
is_read_in_boxes(const Op *root)
{
	return root && root->kind == OP_READ && !strchr(attr_index(root), 'g');
}

const char *
dot_wgmma_reason(const Op *dot, const Target *t, int warps, bool chained, DotWgmma *out)
{
	bool computed, flipped;
	const Type *acc = dot->out[0].type;
	int groups = warps - WARPGROUP_BITS, rows = log2_ceil(acc->extent[acc->rank - 2]) - ROW_BITS;
	int columns = log2_ceil(acc->extent[acc->rank - 1]) - COLUMN_BITS;
	*out = (DotWgmma){.info = NULL};
	if (!(t->has & HAS_WGMMA))
		return "the target has none";
	if (acc->rank == 3 && dot->home->func->schedule.slices > 1)
		return "few rows: the block's warps divide the loop between them";
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
	if (strcmp(attr_precision(dot), "tf32x3") == 0)
		return "threads split its operands (tf32x3)";
	out->info = instruction(dot, t, out->along[1]);
	if (!out->info)
		return "no instruction for these types and columns";
	if (dot->in[0]->type->extent[1] < out->info->k)
		return "fewer than 32 bytes along K";
	const char *left = operand_reason(dot, 0, t, &out->register_a, &out->turns[0]);
	Value *root = dot_operand_root(dot->in[0], &flipped);
	bool stays = stays_in_loop(root, dot->home), is_word = dtype_tile_size(dot->in[0]->type->elem) == 4;
	bool across = out->turns[0] && (is_word || !chained) && is_read_in_boxes(root->def);
	out->register_a = ((out->register_a && !flipped) || across) && !stays && !(chained && out->along[1]);
	out->turns[0] &= !out->register_a;
	const char *right = operand_reason(dot, 1, t, &computed, &out->turns[1]);
	bool is_byte = dtype_tile_size(dot->in[1]->type->elem) == 1;    /* as bytes lie along K, it can only be turned */
	if (computed && is_byte && pays_for_putting(dot) && dot_decodes_rows(dot, t, warps))
		right = NULL;
	out->decodes = computed && !right;
	if (wgmma_registers(out->info->n, out->register_a) > target_registers(t, 1 << warps))
		return "one instruction's sums take all registers that a thread has of so many";
	return left ? left : right;
}

/* Both operands lie in shared memory as they are: the conditions are the same for either side. */
bool
dot_transposes(const Op *dot, int64_t rows, const Target *t, int warps)
{
	const Type *acc = dot->out[0].type, *a = dot->in[0]->type, *b = dot->in[1]->type;
	bool computed[2], turns;
	int groups = warps - WARPGROUP_BITS;
	if (!(t->has & HAS_WGMMA) || acc->rank != 2 || rows % (1 << COLUMN_BITS) || is_power_of_two(rows) ||
	    attr_columns(dot) || !is_power_of_two(acc->extent[1]) || groups < 0 ||
	    log2_ceil(acc->extent[1]) - ROW_BITS < groups || dot_is_exact(dot) ||
	    strcmp(attr_precision(dot), "tf32x3") == 0 || (rows > PART_APART && wgmma_adds_apart(dot)))
		return false;
	const WgmmaInfo *info = target_wgmma(t, b->elem, a->elem, acc->elem, rows);
	return info && info->n == rows && log2_ceil(rows) == log2_ceil(acc->extent[0]) && a->extent[1] >= info->k &&
	    wgmma_registers(info->n, false) <= target_registers(t, 1 << warps) &&
	    !operand_reason(dot, 0, t, &computed[0], &turns) && !operand_reason(dot, 1, t, &computed[1], &turns) &&
	    !computed[0] && !computed[1];
}

/* Sums of 8-bit floats take registers of their own. */
static bool
is_turnable(DType elem)
{
	return dtype_info[elem].bits == 16 || (dtype_info[elem].bits == 8 && !dtype_is_float(elem));
}

bool
dot_decodes_rows(const Op *dot, const Target *t, int warps)
{
	const Type *acc = dot->out[0].type, *a = dot->in[0]->type, *b = dot->in[1]->type;
	int groups = warps - WARPGROUP_BITS, rows = log2_ceil(acc->extent[1]) - ROW_BITS;
	int64_t columns = INT64_C(1) << log2_ceil(acc->extent[0]);
	bool computed, flipped, turns;

	bool across = is_read_in_boxes(dot_operand_root(dot->in[1], &flipped)->def);
	/* decoded and not transposed, words have neighbours along N, not along K */
	return (across || (flipped && is_turnable(b->elem))) && rows >= 0 && groups >= 0 && groups <= rows &&
	    !operand_reason(dot, 0, t, &computed, &turns) && !computed && !(across && turns) &&
	    target_wgmma(t, b->elem, a->elem, acc->elem, columns) != NULL;
}

/* ---- outside of tensors ---- */

/* Rows and columns of a product's operands that lie outside of their tensors, and only make elements of the result that a
 * write drops: copies may bring anything for them, as rows that are there.
 *
 *     %a = read %x, %m, %k … : bf16[128, 64]              rows from 257 on are outside of x: [257, K]
 *     %p = dot %a, %b, %acc                               and make rows of %p from there on
 *     …
 *     write %y, %m, %n, %p                                which are outside of y: [257, N], at the same start
 *
 * A box of a tensor map takes longer for a row outside than for one inside.  What happens to the
 * result on its way must leave rows and columns apart: elementwise ops, other products' sums, loops that carry it. */
enum { VALUES_MOST = 64 };

typedef struct Flow {
	const Func *f;
	const Value *tensor, *start;                    /* the operand's, along a dimension */
	int dim, along;                                 /* of the tensor; of the result */
	const Value *seen[VALUES_MOST];
	int n;
} Flow;

static bool is_dropped(Flow *x, const Value *v);

static bool
is_same_extent(const Flow *x, const Value *tensor, int dim)
{
	const FuncParam *a = &x->f->param[x->tensor->index], *b = &x->f->param[tensor->index];
	int64_t extent = x->tensor->type->extent[x->dim];
	if (a->dim[x->dim] >= 0)
		return a->dim[x->dim] == b->dim[dim];
	return extent >= 0 && extent == tensor->type->extent[dim];
}

/* The write's tile begins where the operand's does, in a dimension that is as long. */
static bool
drops(const Flow *x, const Op *write)
{
	const Value *tensor = write->in[0];
	int at[KERNEL_RANK];
	access_dims(write, at);
	return VALUE_OF(d, tensor->type->rank, attr_index(write)[d] == 'p' && at[d] == x->along,
	    write->in[1 + d] == x->start && is_same_extent(x, tensor, d), false);
}

static bool
is_carried(Flow *x, const Op *loop, int i)
{
	return loop->kind == OP_FOR && is_dropped(x, &loop->region[0]->arg[1 + i]) && is_dropped(x, &loop->out[i]);
}

static bool
is_dropped_transposed(Flow *x, const Value *v)
{
	x->along = 1 - x->along;
	bool is = is_dropped(x, v);
	x->along = 1 - x->along;
	return is;
}

static bool
use_drops(Flow *x, const Op *op, int i)
{
	if (op->kind == OP_YIELD)
		return op->home->parent && is_carried(x, op->home->parent, i);
	if (op->kind == OP_FOR)
		return i >= 3 && is_carried(x, op, i - 3);
	if (op->kind == OP_WRITE)
		return i == access_data(op) && !op->in[0]->def && !op->in[0]->block->parent &&
		    !strchr(attr_index(op), 'g') && drops(x, op);
	if (op->kind == OP_PERMUTE && op->out[0].type->rank == 2 && attr_dims(op)->at[0] == 1)
		return is_dropped_transposed(x, &op->out[0]);
	bool apart = op_has(op, ELEM) || op->kind == OP_CONVERT || (op->kind == OP_DOT && i == 2);
	return apart && op->nout == 1 && type_same_shape(op->in[i]->type, op->out[0].type) && is_dropped(x, &op->out[0]);
}

static bool
is_dropped(Flow *x, const Value *v)
{
	if (ANY_OF(i, x->n, x->seen[i] == v))
		return true;
	if (x->n == VALUES_MOST)
		return false;
	x->seen[x->n++] = v;
	return !ANY_OP(op, x->f->body, ANY_OF(i, op->nin, op->in[i] == v && !use_drops(x, op, i)));
}

/* The read that operand `which` is, if nothing else uses it, and its dimension that is not K. */
static Op *
read_of(const Op *dot, int which, int *free_dim)
{
	const Value *v = dot->in[which];
	int k = which == 0 ? 1 : 0;
	for (; v->nuses == 1 && v->def && v->def->kind == OP_PERMUTE; v = v->def->in[0])
		k = attr_dims(v->def)->at[k];
	Op *read = v->nuses == 1 && v->def && v->def->kind == OP_READ ? v->def : NULL;
	*free_dim = 1 - k;
	return read && v->type->rank == 2 && !strchr(attr_index(read), 'g') && !read->in[0]->def &&
	    !read->in[0]->block->parent ? read : NULL;
}

static void
note_outside(Op *dot)
{
	const Func *f = dot->home->func;
	for (int which = 0; which < 2; which++) {
		int at[KERNEL_RANK], free_dim;
		Op *read = read_of(dot, which, &free_dim);
		if (!read)
			continue;
		access_dims(read, at);
		for (int d = 0; d < read->in[0]->type->rank; d++) {
			Flow x = {.f = f, .tensor = read->in[0], .start = read->in[1 + d], .dim = d, .along = which};
			if (attr_index(read)[d] != 'p' || at[d] != free_dim || !is_dropped(&x, &dot->out[0]))
				continue;
			attr_set_outside_undef(f->module, read, (int64_t[]){free_dim == 0, free_dim == 1}, 2);
		}
	}
}

/* ---- the choice ---- */

/* Of windows whose rows pass pad added to, those rows lie at image -1, where nothing is: the same without that, which a
 * tensor map takes, may bring anything there. */
static bool
open_windows(Op *read, const Target *t)
{
	Value *padded = read->in[1], *images = padded->def && padded->def->kind == OP_SELECT ? padded->def->in[1] : NULL;
	if (!images || !attr_reach(read))
		return false;
	attr_set_undef(read->home->func->module, read, true);
	op_set_in(read, 1, images);
	if (!map_reason(read, t))
		return true;
	op_set_in(read, 1, padded);
	attr_set_undef(read->home->func->module, read, false);
	return false;
}

/* Columns of the right operand that the instruction does not read need not be brought, if nothing else uses the read. */
static void
note_undef(Module *m, const Op *dot, const Target *t)
{
	Value *v = dot->in[1];
	int k = 0;
	for (; v->nuses == 1 && v->def && v->def->kind == OP_PERMUTE; v = v->def->in[0])
		k = attr_dims(v->def)->at[k];
	const IntList *valid = v->def && v->def->kind == OP_READ ? attr_valid(v->def) : NULL;
	if (v->nuses != 1 || !valid || valid->at[k] != v->type->extent[k])
		return;
	if (!strchr(attr_index(v->def), 'g') || open_windows(v->def, t))
		attr_set_undef(m, v->def, true);
}

/* Nor need boxes behind what is summed over, of a tile that ends with its tensor: what a box has there is 0.  The last step
 * along K reads both operands up to its end: of a depth of 24, 32. */
static void
note_depth(Module *m, const Op *dot)
{
	enum { STEP_BITS = 256 };
	for (int which = 0; which < 2 && attr_depth(dot); which++) {
		int free_dim;
		int64_t valid[2];
		Op *read = read_of(dot, which, &free_dim);
		if (!read || attr_valid(read) || read->nin > access_data(read))
			continue;
		valid[free_dim] = read->out[0].type->extent[free_dim];
		int64_t step = STEP_BITS / dtype_info[read->out[0].type->elem].bits;
		valid[1 - free_dim] = (attr_depth(dot) + step - 1) / step * step;
		if (valid[1 - free_dim] >= read->out[0].type->extent[1 - free_dim])
			continue;
		attr_set_valid(m, read, valid, 2);
		attr_set_undef(m, read, true);
	}
}

/* Are tiles read where the product is not, as residuals? */
static bool
reads_beside(const Op *dot)
{
	return ANY_OP(op, dot->home->func->body,
	    op->kind == OP_READ && op->home != dot->home && op->out[0].type->rank > 1);
}

/* Rows of a left operand that lies along M, as threads read it.  Bytes come in pairs of rows, which are those that the
 * instruction has eight rows apart: rows 1 2 4 8 of it are rows 2 4 8 1.  Words of four rows along K, eight rows of M each,
 * lie in as many banks where these are four and the four 16 behind them: rows 1 2 4 8 16 are rows 1 2 16 8 4.  Not where
 * tiles are read beside the result, as residuals, for which it would be converted (442 us, 627 so). */
static void
order_rows(Op *dot, const DotWgmma *w, bool chained)
{
	static const int64_t byte[] = {1, 2, 3, 0, 4}, word[] = {0, 1, 4, 3, 2};
	int64_t to[F2_MAX];
	int n = log2_ceil(dot->out[0].type->extent[0]), size = dtype_tile_size(dot->in[0]->type->elem);
	bool flipped;
	const Op *root = dot_operand_root(dot->in[0], &flipped)->def;
	for (int i = 0; i < n; i++)
		to[i] = i >= LEN(byte) ? i : size == 1 ? byte[i] : word[i];
	bool may_move = size == 1 || (size == 4 && !chained && !reads_beside(dot));
	if (w->register_a && root && root->kind == OP_READ && may_move)
		attr_set_m_bits(dot->home->func->module, dot, to, n);
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
	layout_shape(2, acc->extent, shape);
	Layout c = wgmma_layout_c(w.info);
	order_rows(dot, &w, chained);
	c = layout_tile(&c, shape, w.along);
	c = dot_in_order(dot, &c, 2, false);
	dot->out[0].layout = layout_intern(m, &c);
	attr_set_mma(m, dot, w.info->name);
	if (w.info->n == attr_columns(dot))
		note_undef(m, dot, t);
	note_depth(m, dot);
	note_outside(dot);
	if (w.register_a)
		attr_set_register_a(m, dot, true);
	return true;
}
