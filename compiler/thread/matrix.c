/* Nodes of matrix instructions and how their operands follow each other: of a warp's A, B and C; of a warpgroup's A (its
 * descriptor, or four words), the descriptor of B, the accumulator, and where there is one the predicate without which the
 * accumulator counts as zeros. */
#include "thread/builder.h"

#include <string.h>

MmaWords
mma_words(const MmaInfo *i)
{
	int threads = 32 * i->warps, word = 32 * threads;
	return (MmaWords){i->m * i->k * dtype_info[i->a].bits / word,
	    i->k * i->n * dtype_info[i->b].bits / word, i->m * i->n / threads};
}

void
thread_mma(ThreadBuilder *b, const MmaInfo *i, const Reg *x, const Reg *y, const Reg *c, Reg *out)
{
	MmaWords w = mma_words(i);
	RegType t = i->acc == TY_F32 ? REG_F32 : REG_I32;
	Reg *in = NEW_ARRAY(b->m->mem, Reg, w.a + w.b + w.c);
	memcpy(in, x, sizeof *in * (size_t)w.a);
	memcpy(in + w.a, y, sizeof *in * (size_t)w.b);
	memcpy(in + w.a + w.b, c, sizeof *in * (size_t)w.c);
	ThreadNode *n = thread_node(b, NODE_MMA, 0, t, NULL, 0);
	n->in = in;
	n->nin = w.a + w.b + w.c;
	n->mma = i;
	thread_results(b, n, t, out, w.c);
}

/* A predicate that is known is none: the accumulator counts, or is zeros. */
static Wgmma
plain(ThreadBuilder *b, const Wgmma *w)
{
	Wgmma out = *w;
	int64_t counts;
	if (!w->scale || !b->simplifies || !thread_const(b->m, w->scale, &counts))
		return out;
	out.scale = 0;
	if (!counts) {
		Reg zero = w->info->acc == TY_F32 ? thread_float_const(b, REG_F32, 0) : thread_int_const(b, REG_I32, 0);
		Reg *c = NEW_ARRAY(b->m->mem, Reg, w->info->n / 2);
		for (int i = 0; i < w->info->n / 2; i++)
			c[i] = zero;
		out.c = c;
	}
	return out;
}

void
thread_wgmma(ThreadBuilder *b, const Wgmma *given, Reg *out)
{
	Wgmma w = plain(b, given);
	int words = wgmma_words(w.flags), count = w.info->n / 2;
	RegType t = w.info->acc == TY_F32 ? REG_F32 : REG_I32;
	Reg *in = NEW_ARRAY(b->m->mem, Reg, words + 1 + count + 1);
	memcpy(in, w.a, sizeof *in * (size_t)words);
	in[words] = w.b;
	memcpy(in + words + 1, w.c, sizeof *in * (size_t)count);
	in[words + 1 + count] = w.scale;
	ThreadNode *n = thread_node(b, NODE_WGMMA, (int)w.flags, t, NULL, 0);
	n->in = in;
	n->nin = words + 1 + count + (w.scale != 0);
	n->wgmma = w.info;
	thread_results(b, n, t, out, count);
}

Wgmma
thread_wgmma_of(const ThreadNode *n, const Reg *in)
{
	int words = wgmma_words((unsigned)n->op), end = words + 1 + n->wgmma->n / 2;
	return (Wgmma){.info = n->wgmma, .flags = (unsigned)n->op, .a = in, .b = in[words], .c = in + words + 1,
		.scale = n->nin > end ? in[end] : 0};
}

void
thread_settle(ThreadBuilder *b, const Reg *v, Reg *out, int n)
{
	RegType t = thread_type_of(b, v[0]);
	thread_results(b, thread_node(b, NODE_SETTLE, 0, t, v, n), t, out, n);
}
