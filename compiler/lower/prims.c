/* The names and rows behind emitter.h: primitives, operations and types of registers as tables. */
#include "lower/emitter.h"

#include <string.h>

const PrimInfo prim_info[PRIM_COUNT] = {
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt)                                    \
	[PRIM_##id] = {text, nin, nout, needs, flags, ptx, msl, #simt},
#include "lower/prims.def"
#undef PRIM
};

const int emit_op_operands[EMIT_OPS_COUNT] = {
#define X(name, n) [EMIT_##name] = n,
    EMIT_OPS(X)
#undef X
};

const char *const emit_op_text[EMIT_OPS_COUNT] = {
#define X(name, n) [EMIT_##name] = #name,
    EMIT_OPS(X)
#undef X
};

const char *const reg_type_text[REG_TYPES] = {
    [REG_PRED] = "pred",
    [REG_I8] = "i8",
    [REG_I16] = "i16",
    [REG_I32] = "i32",
    [REG_I64] = "i64",
    [REG_F16] = "f16",
    [REG_BF16] = "bf16",
    [REG_F32] = "f32",
    [REG_F64] = "f64",
    [REG_GLOBAL] = "global",
    [REG_SHARED] = "shared",
};

RegType
prim_result(PrimKind k)
{
	const char *ptx = prim_info[k].ptx;
	if (k == PRIM_VOTE_ANY || k == PRIM_VOTE_ALL || (ptx && strstr(ptx, "%q")))
		return REG_PRED;
	bool is_float = (k >= PRIM_REDUX_FADD && k <= PRIM_REDUX_FMAX) || k == PRIM_FRAGMENT_LOAD_F32;
	return is_float ? REG_F32 : REG_I32;
}

MmaWords
mma_words(const MmaInfo *i)
{
	int threads = 32 * i->warps, word = 32 * threads;
	return (MmaWords){i->m * i->k * dtype_info[i->a].bits / word,
	    i->k * i->n * dtype_info[i->b].bits / word, i->m * i->n / threads};
}
