/* What compiled code may call, by name. */
#include "runtime/simt/number.h"
#include "runtime/simt/simt.h"

/* Rows that are not in the emulator yet. */
#pragma weak simt_bulk_commit
#pragma weak simt_bulk_copy
#pragma weak simt_bulk_copy_multi
#pragma weak simt_bulk_send
#pragma weak simt_bulk_store
#pragma weak simt_bulk_wait
#pragma weak simt_bulk_wait_read
#pragma weak simt_byte_permute
#pragma weak simt_cluster_address
#pragma weak simt_cluster_load
#pragma weak simt_cluster_signal
#pragma weak simt_cluster_store
#pragma weak simt_cp_arrive
#pragma weak simt_cp_async
#pragma weak simt_cp_async_16
#pragma weak simt_cp_commit
#pragma weak simt_cp_wait
#pragma weak simt_elect
#pragma weak simt_fence_async
#pragma weak simt_fence_gpu
#pragma weak simt_fence_mbar
#pragma weak simt_ldmatrix
#pragma weak simt_ldmatrix_1
#pragma weak simt_ldmatrix_2
#pragma weak simt_ldmatrix_t
#pragma weak simt_ldmatrix_t_1
#pragma weak simt_ldmatrix_t_2
#pragma weak simt_mbar_arrive
#pragma weak simt_mbar_expect
#pragma weak simt_mbar_init
#pragma weak simt_mbar_inval
#pragma weak simt_mbar_poll
#pragma weak simt_mbar_wait
#pragma weak simt_mma
#pragma weak simt_ncluster
#pragma weak simt_pack_e4m3
#pragma weak simt_pack_e5m2
#pragma weak simt_prefetch
#pragma weak simt_redux_add
#pragma weak simt_redux_and
#pragma weak simt_redux_max
#pragma weak simt_redux_min
#pragma weak simt_redux_or
#pragma weak simt_redux_umax
#pragma weak simt_redux_umin
#pragma weak simt_redux_xor
#pragma weak simt_registers
#pragma weak simt_settle
#pragma weak simt_shuffle
#pragma weak simt_shuffle_down
#pragma weak simt_shuffle_up
#pragma weak simt_shuffle_xor
#pragma weak simt_stmatrix
#pragma weak simt_stmatrix_2
#pragma weak simt_stmatrix_t
#pragma weak simt_tensor_load_1
#pragma weak simt_tensor_load_2
#pragma weak simt_tensor_load_3
#pragma weak simt_tensor_load_4
#pragma weak simt_tensor_load_5
#pragma weak simt_tensor_map_fetch
#pragma weak simt_tensor_multi_1
#pragma weak simt_tensor_multi_2
#pragma weak simt_tensor_multi_3
#pragma weak simt_tensor_multi_4
#pragma weak simt_tensor_multi_5
#pragma weak simt_tensor_store_1
#pragma weak simt_tensor_store_2
#pragma weak simt_tensor_store_3
#pragma weak simt_tensor_store_4
#pragma weak simt_tensor_store_5
#pragma weak simt_to_tf32
#pragma weak simt_unpack_e4m3
#pragma weak simt_unpack_e5m2
#pragma weak simt_vote_all
#pragma weak simt_vote_any
#pragma weak simt_vote_ballot
#pragma weak simt_wgmma
#pragma weak simt_wgmma_commit
#pragma weak simt_wgmma_fence
#pragma weak simt_wgmma_wait

#define SYMBOL(name) {#name, (void (*)(void))name},

static const EmitSymbol table[] = {
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt) SYMBOL(simt)
#include "lower/prims.def"
#undef PRIM
	SYMBOL(simt_mma) SYMBOL(simt_wgmma) SYMBOL(simt_settle) SYMBOL(simt_shared_at) SYMBOL(simt_global_at) SYMBOL(simt_steps)
	SYMBOL(simt_spin) SYMBOL(simt_trap) SYMBOL(simt_print) SYMBOL(simt_from_f16) SYMBOL(simt_to_f16)
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
