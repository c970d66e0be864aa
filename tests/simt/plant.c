/* What a planted fault does to the emitter's calls.  They go through these functions; the N-th that could have the fault
 * has it. */
#include "plant.h"

#include <string.h>

typedef struct Planted {
	Plant *plant;
	Emitter was;
} Planted;

static Planted at;                                      /* an emitter has no room for it */

static bool
hits(const char *kind)
{
	return strcmp(at.plant->kind, kind) == 0 && ++at.plant->seen == at.plant->number;
}

/* shuffle: only the first half of the lanes reaches it */
static void
half_shuffle(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out)
{
	Reg lane;
	at.was.prim(e, PRIM_LANE, NULL, 0, NULL, 0, &lane, 1);
	Reg half = e->int_const(e, REG_I32, 16);
	e->if_begin(e, e->op(e, EMIT_ULT, lane, half, 0));
	at.was.prim(e, k, in, nin, imm, nimm, out, 1);
	e->if_else(e, out, 1);
	e->if_end(e, in, out, 1);
}

/* barrier, fence: left out; wait: one group more may be under way; parity: the other one; expect: 16 bytes more */
static void
prim(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	Reg word[10];
	int64_t more[2] = {0};
	for (int i = 0; i < nin; i++)
		word[i] = in[i];
	for (int i = 0; i < nimm; i++)
		more[i] = imm[i];
	bool meets = k == PRIM_BARRIER || k == PRIM_BARRIER_PART || k == PRIM_BARRIER_AT || k == PRIM_WARP_BARRIER;
	bool shuffles = k == PRIM_SHUFFLE || k == PRIM_SHUFFLE_XOR || k == PRIM_SHUFFLE_DOWN || k == PRIM_SHUFFLE_UP;
	if ((meets && hits("barrier")) || (k == PRIM_FENCE_ASYNC && hits("fence")))
		return;
	if ((k == PRIM_CP_WAIT || k == PRIM_WGMMA_WAIT) && hits("wait"))
		more[0]++;
	if (k == PRIM_MBAR_WAIT && hits("parity"))
		word[1] = e->op(e, EMIT_XOR, in[1], e->int_const(e, REG_I32, 1), 0);
	if (k == PRIM_MBAR_EXPECT && hits("expect"))
		word[1] = e->op(e, EMIT_ADD, in[1], e->int_const(e, REG_I32, 16), 0);
	if (shuffles && hits("shuffle"))
		half_shuffle(e, k, word, nin, more, nimm, out);
	else
		at.was.prim(e, k, word, nin, more, nimm, out, nout);
}

/* fragment: the first two words of A change places */
static void
mma(Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out)
{
	Reg word[8];
	for (int k = 0; k < mma_words(i).a; k++)
		word[k] = a[k];
	if (hits("fragment")) {
		word[0] = a[1];
		word[1] = a[0];
	}
	at.was.mma(e, i, word, b, c, out);
}

/* bound: < becomes <=; swizzle: an exclusive or gives its first operand */
static Reg
op(Emitter *e, EmitOp o, Reg a, Reg b, Reg c)
{
	if (o == EMIT_SLT && hits("bound"))
		o = EMIT_SLE;
	if (o == EMIT_XOR && e->type(e, a) == REG_I32 && hits("swizzle"))
		return a;
	return at.was.op(e, o, a, b, c);
}

/* mask: always true */
static void
load(Emitter *e, const EmitAccess *access, Reg *out)
{
	EmitAccess bare = *access;
	if (access->mask && hits("mask"))
		bare.mask = 0;
	at.was.load(e, &bare, out);
}

static void
store(Emitter *e, const EmitAccess *access, const Reg *v)
{
	EmitAccess bare = *access;
	if (access->mask && hits("mask"))
		bare.mask = 0;
	at.was.store(e, &bare, v);
}

void
plant_into(Plant *plant, Emitter *e)
{
	plant->seen = 0;
	if (e->prim == prim)
		return;
	at = (Planted){plant, *e};
	e->prim = prim;
	e->mma = mma;
	e->op = op;
	e->load = load;
	e->store = store;
}
