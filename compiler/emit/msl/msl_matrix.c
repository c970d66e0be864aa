/* simdgroup matrices: 8 x 8, two elements in each lane.
 *
 * The thread IR has the elements that a lane holds.  A pair of them that a product reads becomes a fragment; an accumulator
 * of a loop that only products update is one matrix throughout:
 *
 *     simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
 *     for (…) {
 *         simdgroup_half8x8 a = matrix_of(half2(…));
 *         simdgroup_multiply_accumulate(acc, a, b, acc);
 *     }
 *     … acc.thread_elements()[0] …
 */
#include "emit/msl/msl.h"

#include <string.h>

static const char *
matrix_type(DType t)
{
	return t == TY_F16 ? "simdgroup_half8x8" : t == TY_BF16 ? "simdgroup_bfloat8x8" : "simdgroup_float8x8";
}

static MslHelper
fragment_helper(DType t)
{
	return t == TY_F16 ? HELPER_FRAGMENT_HALF : t == TY_BF16 ? HELPER_FRAGMENT_BFLOAT : HELPER_FRAGMENT_FLOAT;
}

static const Reg *
accumulator(const MslNode *n)
{
	MmaWords w = mma_words(n->t->mma);
	return n->in + w.a + w.b;
}

/* The product whose results two registers are, in order; NULL: there is none. */
static MslNode *
product_of(const Msl *m, const Reg *r)
{
	MslNode *n = msl_def(m, r[0]);
	bool whole = n->kind == NODE_MMA && msl_def(m, r[1]) == n && msl_at(m, r[0]) == 0 && msl_at(m, r[1]) == 1;
	return whole ? n : NULL;
}

static bool carries_matrix(const Msl *m, const MslNode *loop, int i);

/* Whether the only use of r and the next one is a product's accumulator, or a loop that carries them as a matrix. */
static bool
only_accumulates(const Msl *m, const ThreadRegion *b, const Reg *r)
{
	if (msl_def(m, r[0])->uses > 1 + (b->owner != msl_def(m, r[0])->owner->t))
		return false;
	for (int i = 0; i < b->body.n; i++) {
		const MslNode *n = msl_beside(m, b->body.at[i]);
		if (n->kind == NODE_MMA && accumulator(n)[0] == r[0] && accumulator(n)[1] == r[1])
			return true;
		for (int k = 0; n->kind == NODE_LOOP && k + 1 < msl_carried(n); k++)
			if (msl_init(n)[k] == r[0] && msl_init(n)[k + 1] == r[1])
				return carries_matrix(m, n, k);
	}
	return false;
}

static bool
carries_matrix(const Msl *m, const MslNode *loop, int i)
{
	const MslNode *inside = msl_def(m, msl_inside(loop)[i]), *next;
	if (i + 1 >= msl_carried(loop) || inside->type != REG_F32 || inside->width > 1 || i % 2 ||
	    !only_accumulates(m, loop->t->region[0], &msl_inside(loop)[i]))
		return false;
	next = msl_def(m, loop->t->region[0]->yield[i]);
	if (product_of(m, &loop->t->region[0]->yield[i]))
		return true;
	if (next->kind != NODE_CARRIED || !next->owner || next->owner->kind != NODE_LOOP || next->owner == loop)
		return false;
	const Reg *yield = &loop->t->region[0]->yield[i], *out = next->owner->t->out;
	for (int k = 0; k + 1 < msl_carried(next->owner); k++)
		if (out[k] == yield[0] && out[k + 1] == yield[1])
			return carries_matrix(m, next->owner, k);
	return false;
}

static void
plan_mma(Msl *m, MslNode *n)
{
	MmaWords w = mma_words(n->t->mma);
	const Reg *c = accumulator(n);
	const MslNode *before = product_of(m, c), *given = msl_def(m, c[0]);
	n->matrix = (before && before->uses == 2) || (given->kind == NODE_CARRIED && given->matrix);
	for (int i = 0; i < w.a + w.b; i++) {
		MslNode *word = msl_def(m, n->in[i]);
		if (word->kind == NODE_PRIM)
			word->hint = i < w.a ? "a" : "b";
		if (word->kind == NODE_PACK) {
			word->owner = n;
			word->hint = i < w.a ? "a" : "b";
		}
	}
}

void
msl_matrix_plan(Msl *m, ThreadRegion *b)
{
	for (int i = 0; i < b->body.n; i++) {
		MslNode *n = msl_beside(m, b->body.at[i]);
		for (int k = 0; n->kind == NODE_LOOP && k < msl_carried(n); k++)
			if (!msl_def(m, msl_inside(n)[k])->matrix && carries_matrix(m, n, k))
				for (int j = k; j < k + 2; j++) {
					msl_def(m, msl_inside(n)[j])->matrix = true;
					msl_def(m, n->t->out[j])->matrix = true;
				}
		if (n->kind == NODE_MMA)
			plan_mma(m, n);
		for (int k = 0; k < 2; k++)
			if (n->t->region[k])
				msl_matrix_plan(m, n->t->region[k]);
	}
}

/* ---- text ---- */

/* The matrix that two registers are the elements of, if they are. */
static const char *
tile_of(const Msl *m, const Reg *r)
{
	const MslNode *a = msl_def(m, r[0]), *b = msl_def(m, r[1]);
	bool elements = a->tile && a->tile == b->tile && a->kind != NODE_PACK;
	return elements ? a->tile : NULL;
}

static const char *
pair_text(Msl *m, const Reg *r, CType c)
{
	Expr x = msl_as(m, msl_expr(m, r, 2), c, 2);
	return x.text;
}

/* What an accumulator begins as. */
static const char *
begins_as(Msl *m, const Reg *r)
{
	const char *tile = tile_of(m, r);
	if (tile)
		return tile;
	if (r[0] == r[1] && msl_def(m, r[0])->kind == NODE_CONST)
		return arena_printf(m->mem, "make_filled_simdgroup_matrix<float, 8, 8>(%s)", msl_expr(m, r, 1).text);
	return arena_printf(m->mem, "%s(%s)", msl_helper(m, HELPER_FRAGMENT_FLOAT), pair_text(m, r, C_FLOAT));
}

/* How many accumulators from the i'th carried register on begin alike and are called alike. */
static int
alike(const Msl *m, const MslNode *loop, int i)
{
	const MslNode *first = msl_def(m, msl_inside(loop)[i]);
	Reg init = msl_init(loop)[i];
	int n = 0;
	for (int k = i; k + 1 < msl_carried(loop); k += 2, n++) {
		const MslNode *inside = msl_def(m, msl_inside(loop)[k]);
		if (!inside->matrix || inside->tile || msl_init(loop)[k] != init || msl_init(loop)[k + 1] != init ||
		    inside->hint != first->hint || msl_def(m, init)->kind != NODE_CONST)
			break;
	}
	return n;
}

static void
keep_in(Msl *m, MslNode *loop, int i, const char *tile)
{
	for (int j = i; j < i + 2; j++)
		msl_def(m, msl_inside(loop)[j])->tile = msl_def(m, loop->t->out[j])->tile = tile;
}

/* Of a loop that alone uses what the loop around it carries: the same matrix throughout. */
static const char *
carried_around(const Msl *m, const MslNode *loop, const Reg *init)
{
	const MslNode *given = msl_def(m, init[0]);
	bool is_around = given->kind == NODE_CARRIED && given->matrix && given->owner &&
	    loop->t->home->owner == given->owner->t;
	return is_around ? tile_of(m, init) : NULL;
}

enum { FEW_ALIKE = 2 };                                 /* more are an array */

void
msl_matrix_begin(Msl *m, MslNode *loop)
{
	for (int i = 0; i + 1 < msl_carried(loop); i++) {
		MslNode *inside = msl_def(m, msl_inside(loop)[i]), *after = msl_def(m, loop->t->out[i]);
		if (!inside->matrix || inside->tile)
			continue;
		const char *around = carried_around(m, loop, &msl_init(loop)[i]);
		if (around) {
			keep_in(m, loop, i, around);
			continue;
		}
		const char *hint = inside->hint ? inside->hint : after->hint ? after->hint : "acc";
		const char *first = begins_as(m, &msl_init(loop)[i]), *name = msl_fresh(m, hint);
		int n = alike(m, loop, i);
		if (n <= FEW_ALIKE) {
			msl_say(m, "simdgroup_float8x8 %s = %s;", name, first);
			keep_in(m, loop, i, name);
			continue;
		}
		msl_say(m, "simdgroup_float8x8 %s[%d];", name, n);
		const char *at = strcmp(name, "i") == 0 ? "j" : "i";    /* not what the array is called */
		msl_say(m, "for (int %s = 0; %s < %d; %s++)", at, at, n, at);
		msl_say(m, "    %s[%s] = %s;", name, at, first);
		for (int k = 0; k < n; k++)
			keep_in(m, loop, i + 2 * k, arena_printf(m->mem, "%s[%d]", name, k));
	}
}

void
msl_matrix_next(Msl *m, const MslNode *loop)
{
	for (int i = 0; i + 1 < msl_carried(loop); i++) {
		const MslNode *inside = msl_def(m, msl_inside(loop)[i]);
		const char *next = inside->matrix ? tile_of(m, &loop->t->region[0]->yield[i]) : NULL;
		if (!inside->matrix)
			continue;
		if (next && strcmp(next, inside->tile) != 0)
			msl_say(m, "%s = %s;", inside->tile, next);
		i++;
	}
}

void
msl_fragment_text(Msl *m, MslNode *n)
{
	DType t = n->owner->t->mma->a;
	const char *v = pair_text(m, n->in, t == TY_F16 ? C_HALF : C_BFLOAT);
	msl_comment(m, n->t->place);
	n->tile = msl_fresh(m, n->hint);
	msl_say(m, "%s %s = %s(%s);", matrix_type(t), n->tile, msl_helper(m, fragment_helper(t)), v);
}

/* From the block's memory; the type is the third immediate. */
void
msl_fragment_load_text(Msl *m, MslNode *n)
{
	DType t = (DType)n->t->imm[2];
	const char *at = msl_pointer_to(m, n->in[0], t == TY_F16 ? C_HALF : t == TY_BF16 ? C_BFLOAT : C_FLOAT);
	n->tile = msl_fresh(m, n->hint ? n->hint : "f");
	msl_say(m, "%s %s;", matrix_type(t), n->tile);
	if (n->t->imm[1])
		msl_say(m, "simdgroup_load(%s, %s, %lld, ulong2(0), true);", n->tile, at, (long long)n->t->imm[0]);
	else
		msl_say(m, "simdgroup_load(%s, %s, %lld);", n->tile, at, (long long)n->t->imm[0]);
}

/* An operand: its words are one of 16-bit elements, or two floats. */
static const char *
operand(Msl *m, const MslNode *n, const Reg *words, DType t, const char *hint)
{
	MslNode *word = msl_def(m, words[0]);
	if (word->tile && (t != TY_F32 || word->kind == NODE_PRIM))
		return word->tile;
	const char *v;
	if (t == TY_F32)
		v = pair_text(m, words, C_FLOAT);
	else
		v = arena_printf(m->mem, "as_type<%s2>(%s)", t == TY_F16 ? "half" : "bfloat", msl_expr(m, words, 1).text);
	for (int i = 0; i < m->fragments.n; i++) {
		const MslFragment *f = &m->fragments.at[i];
		if (f->word == words[0] && f->region == n->t->home)
			return f->name;
	}
	MslFragment f = {words[0], n->t->home, msl_fresh(m, hint)};
	vec_push(m->mem, &m->fragments, f);
	msl_say(m, "%s %s = %s(%s);", matrix_type(t), f.name, msl_helper(m, fragment_helper(t)), v);
	return f.name;
}

void
msl_mma_text(Msl *m, MslNode *n)
{
	MmaWords w = mma_words(n->t->mma);
	const Reg *c = accumulator(n);
	const char *a = operand(m, n, n->in, n->t->mma->a, "a"), *b = operand(m, n, n->in + w.a, n->t->mma->b, "b");
	const char *from = tile_of(m, c);
	n->tile = n->matrix && from ? from : msl_fresh(m, n->hint ? n->hint : "c");
	if (n->tile != from) {
		if (from) {
			msl_say(m, "simdgroup_float8x8 %s;", n->tile);
		} else {
			msl_say(m, "simdgroup_float8x8 %s = %s;", n->tile, begins_as(m, c));
			from = n->tile;
		}
	}
	msl_say(m, "simdgroup_multiply_accumulate(%s, %s, %s, %s);", n->tile, a, b, from);
}
