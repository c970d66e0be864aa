/* Nodes of matrix instructions and how their operands follow each other: of a warp's A, B and C; of a warpgroup's A (its
 * descriptor, or four words), the descriptor of B, the accumulator, and where there is one the predicate without which the
 * accumulator counts as zeros. */
#include "thread/builder.h"

#include <string.h>

MmaWords
mma_words(const MmaInfo *i)
{
	bool is_double = i->a == TY_F64;
	int threads = 32 * i->warps, word = (is_double ? 64 : 32) * threads;
	return (MmaWords){i->m * i->k * dtype_info[i->a].bits / word,
	    i->k * i->n * dtype_info[i->b].bits / word, i->m * i->n / threads, is_double ? REG_F64 : REG_I32,
	    is_double ? REG_F64 : i->acc == TY_F32 ? REG_F32 : REG_I32};
}

void
thread_mma(ThreadBuilder *b, const MmaInfo *i, const Reg *x, const Reg *y, const Reg *c, Reg *out)
{
	MmaWords w = mma_words(i);
	Reg *in = NEW_ARRAY(b->m->mem, Reg, w.a + w.b + w.c);
	memcpy(in, x, sizeof *in * (size_t)w.a);
	memcpy(in + w.a, y, sizeof *in * (size_t)w.b);
	memcpy(in + w.a + w.b, c, sizeof *in * (size_t)w.c);
	int nin = w.a + w.b + w.c;
	thread_record(b, &(ThreadNode){.kind = NODE_MMA, .type = w.acc, .in = in, .nin = nin, .mma = i}, w.c, out);
}

void
thread_wgmma(ThreadBuilder *b, const Wgmma *w, Reg *out)
{
	int words = wgmma_words(w->flags), count = w->info->n / 2, nin = words + 1 + count + (w->scale != 0);
	RegType t = w->info->acc == TY_F32 ? REG_F32 : REG_I32;
	Reg *in = NEW_ARRAY(b->m->mem, Reg, words + 1 + count + 1);
	memcpy(in, w->a, sizeof *in * (size_t)words);
	in[words] = w->b;
	memcpy(in + words + 1, w->c, sizeof *in * (size_t)count);
	in[words + 1 + count] = w->scale;
	thread_record(b, &(ThreadNode){.kind = NODE_WGMMA, .op = (int)w->flags, .type = t, .in = in, .nin = nin,
		.wgmma = w->info}, count, out);
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
	thread_record(b, &(ThreadNode){.kind = NODE_SETTLE, .type = thread_type_of(b, v[0]), .in = (Reg *)v, .nin = n}, n,
	    out);
}
