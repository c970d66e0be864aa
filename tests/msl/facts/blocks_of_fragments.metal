// A product as llama.cpp stages it: fragments of 8 x 8 lie one after the other in threadgroup memory of the host's size and
// are loaded with a stride of 8; half operands, float accumulators; two simdgroups, a barrier on both sides of each step.
// C = A B with A[i, k] = i % 4, B[k, j] = j % 3: 32 * (i % 4) * (j % 3).
// check: product groups 1 threads 64 shared 2048
// buffer 0 f16 1024 = floor(i / 32) % 4
// buffer 1 f16 1024 = i % 32 % 3
// buffer 2 f32 1024 unset
// expect 2 = 32 * (floor(i / 32) % 4) * (i % 32 % 3)
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void product(device const half *a [[buffer(0)]],
                    device const half *b [[buffer(1)]],
                    device float *c [[buffer(2)]],
                    threadgroup char *shared [[threadgroup(0)]],
                    ushort lid [[thread_index_in_threadgroup]],
                    ushort group [[simdgroup_index_in_threadgroup]])
{
	threadgroup half *as = (threadgroup half *)shared;
	threadgroup half *bs = (threadgroup half *)(shared + 1024);
	simdgroup_float8x8 acc[2][4];
	for (ushort i = 0; i < 2; i++)
		for (ushort j = 0; j < 4; j++)
			acc[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
	for (ushort k = 0; k < 32; k += 16) {
		threadgroup_barrier(mem_flags::mem_threadgroup);
		for (ushort e = lid * 4; e < 512; e += 256) {
			ushort row = e / 16, column = e % 16, block = row / 8 * 2 + column / 8;
			*(threadgroup half4 *)(as + 64 * block + 8 * (row % 8) + column % 8) = *(device const half4 *)(a + row * 32 + k + column);
			row = e / 32, column = e % 32, block = row / 8 * 4 + column / 8;
			*(threadgroup half4 *)(bs + 64 * block + 8 * (row % 8) + column % 8) = *(device const half4 *)(b + (k + row) * 32 + column);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
		for (ushort step = 0; step < 2; step++) {
			simdgroup_half8x8 fa[2], fb[4];
			simdgroup_barrier(mem_flags::mem_none);
			for (ushort i = 0; i < 2; i++)
				simdgroup_load(fa[i], as + 64 * ((group * 2 + i) * 2 + step), 8);
			simdgroup_barrier(mem_flags::mem_none);
			for (ushort j = 0; j < 4; j++)
				simdgroup_load(fb[j], bs + 64 * (step * 4 + j), 8);
			for (ushort i = 0; i < 2; i++)
				for (ushort j = 0; j < 4; j++)
					simdgroup_multiply_accumulate(acc[i][j], fa[i], fb[j], acc[i][j]);
		}
	}
	for (ushort i = 0; i < 2; i++)
		for (ushort j = 0; j < 4; j++)
			simdgroup_store(acc[i][j], c + (group * 16 + i * 8) * 32 + j * 8, 32);
}
