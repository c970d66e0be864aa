// 16 x 16 by four fragments; C[i, j] = sum over k of A[i, k] B[k, j], A[i, k] = i, B[k, j] = j, and C starts as A[0, 0].
// check: matmul groups 1 threads 32
// buffer 0 f16 256 = floor(i / 16)
// buffer 1 f16 256 = i % 16
// buffer 2 f32 256 unset
// expect 2 = 16 * floor(i / 16) * (i % 16)
// check: turned groups 1 threads 32
// buffer 0 bf16 256 = i % 16
// buffer 1 bf16 256 = i % 16
// buffer 2 f32 256 unset
// expect 2 = 16 * floor(i / 16) * (i % 16)
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void matmul(device const half *a [[buffer(0)]],
                   device const half *b [[buffer(1)]],
                   device float *c [[buffer(2)]],
                   ushort lane [[thread_index_in_simdgroup]])
{
	threadgroup half as[16 * 24];
	for (ushort i = lane; i < 64; i += 32)
		*(threadgroup half4 *)(as + i / 4 * 24 + i % 4 * 4) = *(device const half4 *)(a + i * 4);
	simdgroup_barrier(mem_flags::mem_threadgroup);
	simdgroup_float8x8 acc[2][2];
	for (ushort i = 0; i < 2; i++)
		for (ushort j = 0; j < 2; j++)
			acc[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
	for (ushort k = 0; k < 16; k += 8) {
		simdgroup_half8x8 fa[2], fb[2];
		for (ushort i = 0; i < 2; i++)
			simdgroup_load(fa[i], as + i * 8 * 24 + k, 24);
		for (ushort j = 0; j < 2; j++)
			simdgroup_load(fb[j], b + k * 16 + j * 8, 16);
		for (ushort i = 0; i < 2; i++)
			for (ushort j = 0; j < 2; j++)
				simdgroup_multiply_accumulate(acc[i][j], fa[i], fb[j], acc[i][j]);
	}
	for (ushort i = 0; i < 2; i++)
		for (ushort j = 0; j < 2; j++)
			simdgroup_store(acc[i][j], c, 16, ulong2(j * 8, i * 8));
}

// The same with A transposed in memory.
[[max_total_threads_per_threadgroup(32)]]
kernel void turned(device const bfloat *a [[buffer(0)]],
                   device const bfloat *b [[buffer(1)]],
                   device float *c [[buffer(2)]])
{
	for (ushort i = 0; i < 16; i += 8)
		for (ushort j = 0; j < 16; j += 8) {
			simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
			for (ushort k = 0; k < 16; k += 8) {
				simdgroup_bfloat8x8 fa, fb;
				simdgroup_load(fa, a + k * 16 + i, 16, ulong2(0, 0), true);
				simdgroup_load(fb, b + k * 16 + j, 16);
				simdgroup_multiply_accumulate(acc, fa, fb, acc);
			}
			simdgroup_store(acc, c + i * 16 + j, 16);
		}
}
