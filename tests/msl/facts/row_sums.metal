// A sum over a threadgroup: lanes by shuffles, simdgroups by threadgroup memory and a barrier.
// check: row_sums groups 3 threads 96
// buffer 0 f32 300 = i % 100
// buffer 1 f32 3 unset
// value 2 u32 = 100
// expect 1 = 4950
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(96)]]
kernel void row_sums(device const float *x [[buffer(0)]],
                     device float *y [[buffer(1)]],
                     constant uint &n [[buffer(2)]],
                     uint row [[threadgroup_position_in_grid]],
                     ushort thread_index [[thread_index_in_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]],
                     ushort simdgroup [[simdgroup_index_in_threadgroup]],
                     ushort nsimd [[simdgroups_per_threadgroup]])
{
	threadgroup float part[32];
	float sum = 0.0f;
	for (uint i = thread_index; i < n; i += 96)
		sum += x[row * n + i];
	for (ushort step = 16; step > 0; step /= 2)
		sum += simd_shuffle_xor(sum, step);
	if (lane == 0)
		part[simdgroup] = sum;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (simdgroup == 0) {
		sum = simd_sum(lane < nsimd ? part[lane] : 0.0f);
		if (lane == 0)
			y[row] = sum;
	}
}
