/* What compiled code may call, by name. */
#include "runtime/simt/arithmetic.h"
#include "runtime/simt/simt.h"

#define SYMBOL(name) {#name, (void (*)(void))name},

static const EmitSymbol table[] = {
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt) SYMBOL(simt)
#include "thread/prims.def"
#undef PRIM
	SYMBOL(simt_mma) SYMBOL(simt_wgmma) SYMBOL(simt_settle) SYMBOL(simt_shared_at) SYMBOL(simt_global_at)
	SYMBOL(simt_acquired)
	SYMBOL(simt_steps) SYMBOL(simt_spin) SYMBOL(simt_print) SYMBOL(simt_trace)
	SYMBOL(simt_from_f16) SYMBOL(simt_to_f16)
	SYMBOL(simt_to_f16_of_f64) SYMBOL(simt_to_bf16_of_f64) SYMBOL(simt_exp2) SYMBOL(simt_log2) SYMBOL(simt_sin)
	SYMBOL(simt_cos) SYMBOL(simt_tanh) SYMBOL(simt_add_f16) SYMBOL(simt_add_bf16) SYMBOL(simt_add_f16x2)
	SYMBOL(simt_add_bf16x2)
};

const EmitSymbol *
simt_symbols(int *n)
{
	*n = LEN(table);
	return table;
}
