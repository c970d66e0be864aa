/* Left operands that a loop's products read from the same slot in each iteration go into registers before the loop, where a
 * thread of the role has room:
 *
 *     for … {                                             %s = dot_start (slot %n), %k, %0
 *         %s = dot_start (slot %n), %k, %0                %q = get (slot %n) : bf16[128, 128]
 *         …                                      =>       …                                    the rest of part 1
 *     }                                                   for … {
 *                                                             %s = dot_start %q, %k, %0
 *                                                             …
 *                                                         }
 *
 * The instruction then reads a third less of shared memory (64 x 16 beside 128 x 16).  The first iteration's product reads
 * the slot, and runs meanwhile. */
#include "ir/derive.h"
#include "pass/async/skew/skew.h"
#include "target/target.h"

enum { BYTES = 2 };                                     /* of elements that the instruction takes from registers here */
enum { COLUMNS_LEAST = 128 };                           /* of 64: heads of 160 took 542 us on an H200, 525 from slots */

static bool
may_hold(const Skew *s, const Op *start)
{
	const Value *slot = start->in[0];
	const IntList *flipped = attr_transposed(start);
	const WgmmaInfo *info = wgmma_named(attr_mma(start));
	const Op *owner = slot->type->kind == TYPE_BUFFER ? buffer_owner(slot) : NULL;
	if (!owner || owner->kind != OP_ALLOC || attr_slot_bytes(owner))
		return false;                           /* threads take a whole slot, of which that one has a part */
	return info && info->n >= COLUMNS_LEAST && !value_inside(slot, s->body) && slot->def->kind == OP_SLOT &&
	    !(flipped && flipped->at[0]) && dtype_tile_size(slot->type->elem) == BYTES && !s->late[start->out[0].id];
}

/* Has part 1 tiles besides what the products give, as a bias, distances or a mask by row and column?  They take registers,
 * and ptxas spills (scores with slopes and a cap: 204 bytes; a causal mask: 16). */
static bool
has_other_tiles(const Skew *s)
{
	bool *follows = NEW_ARRAY(s->tmp, bool, s->f->nvalues);
	for (const Op *op = s->body->first; op; op = op->next) {
		const Type *t = op->nout == 1 ? op->out[0].type : NULL;
		bool behind =
		    op->kind == OP_DOT_START ||
		    ANY_OF(i, op->nin, value_inside(op->in[i], s->body) && follows[op->in[i]->id]);
		op_extend_slice(op, follows, behind);
		bool is_tile = t && t->kind == TYPE_TILE && t->rank == 2 && op_has(op, ELEM) &&
		    MIN(t->extent[0], t->extent[1]) > 1;
		if (op->kind == OP_GET || op->kind == OP_PUT || (is_tile && !behind && !skew_is_made_late(s, op)))
			return true;
	}
	return false;
}

/* Of a thread, without what was added along K to make it a power of two. */
static int
words_of_left(const Op *start, const Layout *l)
{
	int64_t k = start->in[0]->type->extent[1], depth = attr_depth(start) ? attr_depth(start) : k;
	return (int)(((int64_t)BYTES << l->in[IN_REGISTER]) / 4 * depth / k);
}

void
skew_hold(Skew *s, int room)
{
	for (int i = 0; i < s->starts.n && !has_other_tiles(s); i++) {
		Op *start = s->starts.at[i];
		if (!may_hold(s, start))
			continue;
		room -= words_of_left(start, dot_operand(start, start->out[0].layout, 0));
		if (room < 0)
			return;
		vec_push(s->tmp, &s->held, start);
	}
}

void
skew_take_held(Skew *s, Block *before, Value **map)
{
	Op *wait = FIND_OP_HERE(o, before, o->kind == OP_DOT_WAIT);
	for (int i = 0; i < s->held.n; i++) {
		Op *start = s->held.at[i];
		Value *slot = start->in[0];
		Builder b = build_before(wait);
		const Type *t = type_tile(s->m, slot->type->elem, slot->type->rank, slot->type->extent);
		Value *v = &op_make(&b, OP_GET, &slot, 1, NULL, 0, &t, 1)->out[0];
		v->layout = dot_operand(start, start->out[0].layout, 0);
		map[slot->id] = v;
	}
}
