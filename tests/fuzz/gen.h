/* Random but valid modules of tile IR, decoded from bytes: the same bytes give the same module, and when they
 * run out every choice is the first one, so a fuzzer may shorten them.  The kernel made has the parameters that
 * gen_params lists; it touches no memory outside their buffers. */
#ifndef TEGULA_FUZZ_GEN_H
#define TEGULA_FUZZ_GEN_H

#include "ir/ir.h"

typedef struct Bytes {
	const uint8_t *at, *end;
} Bytes;

/* 0 .. n-1 */
static inline int
bytes_pick(Bytes *b, int n)
{
	unsigned v = 0;

	if (b->at < b->end)
		v = *b->at++;
	if (n > 200 && b->at < b->end)
		v = v << 8 | *b->at++;
	return (int)(v % (unsigned)n);
}

enum {
	GEN_TENSORS = 6,                                /* %t0 … of types and shapes that gen_params gives */
	GEN_POINTERS = 2,                               /* %p0: *mut i32, %p1: *mut f32, of GEN_POINTED elements each */
	GEN_POINTED = 64,
	GEN_ROWS = 5,                                   /* value of the dim parameter %R */
	GEN_COLS = 7,                                   /* of %C */
	GEN_GRID = 3,
};

/* Element type and access of tensor i; its shape is [R, C]. */
DType gen_tensor_type(int i);
Access gen_tensor_access(int i);

Module *gen_module(Compile *cx, Bytes bytes);

/* mutate.c: changes a module a little; returns the number of changes.  It may not verify any more. */
int gen_mutate(Module *m, uint64_t seed);

#endif
