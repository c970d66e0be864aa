/* What the parts of pass dot share. */
#ifndef TEGULA_DOT_H
#define TEGULA_DOT_H

#include "pass/layout/anchor.h"

/* dot.c: the instruction for a dot's types, also after its operands become f16; NULL: none. */
const MmaInfo *dot_mma(const Op *dot, const Target *t);
/* f32 is multiplied exactly unless the source allows less. */
bool dot_is_exact(const Op *dot);

/* dot_chain.c */
/* The dot whose operand 0 the value becomes through elementwise ops, or NULL. */
Op *dot_next(const Func *f, const Value *v);
/* Does the product feed another, or is it fed by one? */
bool dot_is_chained(const Func *f, const Op *dot);
/* Does a product of the block feed another beside it? */
bool dots_are_chained(const Func *f, const Block *b);
/* Do all dots stand in one loop, where those that end a chain read other right operands than the rest?  Then an iteration's
 * rest runs beside the ends of the one before (pass skew).  How many end a chain; 0: no. */
int dots_part(const Func *f);
/* Rows of programs to walk together so that operands are found in the cache: where one side of the products depends on the
 * first axis of the grid and the other on the second. */
int dot_group(const Func *f, const Target *t);

/* An instruction of warpgroups, 2^along[d] of them along dimension d; its left operand stays in registers. */
typedef struct DotWgmma {
	const WgmmaInfo *info;
	int along[LAYOUT_RANK];
	bool register_a;
	bool decodes;                                   /* threads put its right operand into shared memory */
	bool turns[2];                                  /* or turn this one on its way from there to there */
} DotWgmma;

/* dot_wgmma.c */
/* What an operand is, seen through permutations of its two dimensions; *flipped: an odd number of them exchanges these. */
Value *dot_operand_root(Value *v, bool *flipped);
/* Is it a dot one of whose operands is v, seen so? */
bool dot_takes(const Op *op, const Value *v);
/* Do threads compute the right operand, element by element, from what they read? */
bool dot_decodes(const Op *dot);
/* How 2^warps warps do the dot as warpgroups; NULL, or why they cannot. */
const char *dot_wgmma_reason(const Op *dot, const Target *t, int warps, bool chained, DotWgmma *out);
/* Do the decoded operand's columns, as rows, make whole warpgroups, each with rows of its own? */
bool dot_decodes_rows(const Op *dot, const Target *t, int warps);
/* Can they do the dot of so many rows, no power of two, only or better with its sides exchanged? */
bool dot_transposes(const Op *dot, int64_t rows, const Target *t, int warps);
/* Chooses an instruction of warpgroups and the accumulator's layout for 2^warps warps, if there is one;
 * chained: the product feeds another dot, or is fed by one, so that all warps are along M. */
bool dot_wgmma(Op *dot, const Target *t, int warps, bool chained);

/* dot_transpose.c: the product as one of the transposed operands, where only that has its rows as columns; else itself. */
Op *dot_transpose(Op *dot, const Target *t, int warps);
/* The same where the right operand is decoded and may be in registers as the left one. */
Op *dot_turn_decoded(Op *dot, const Target *t, int warps, bool chained);
/* The same where a warp's instruction has more rows than columns and the product fewer than these. */
Op *dot_turn_flat(Op *dot, const MmaInfo *mma);

/* dot_fit.c: repeats operands that are smaller than the instruction to its size; the result's part is taken out again.  The
 * dot that there is then, or NULL: it has too many dimensions. */
Op *dot_fit(Op *dot, const MmaInfo *mma);
/* Three products of rounded parts in place of one of f32. */
void dot_split_tf32(Op *dot);

/* dot_operand.c */
/* Is the right operand unpacked from elements of 8 bits and less, of an instruction that has wider ones? */
bool dot_unpacks(const Op *dot, const MmaInfo *mma);
/* The order in which the instruction goes along K, or along rows or columns, where another than its own makes unpacking
 * cheaper; of a product that feeds another one along K alone. */
void dot_order(Op *dot, const MmaInfo *mma, const int *along, bool chained);

/* expand.c: dot_scaled as multiplications by its scales and a dot. */
void expand_dot_scaled(Op *op);

#endif
