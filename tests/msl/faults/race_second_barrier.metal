// part is used again while slow simdgroups still read it: a loop needs a second barrier.
// check: k groups 1 threads 64
// buffer 0 f32 128 = i
// buffer 1 f32 128 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]],
              ushort lane [[thread_index_in_simdgroup]],
              ushort group [[simdgroup_index_in_threadgroup]])
{
	threadgroup float part[2];
	for (int step = 0; step < 2; step++) {
		float sum = simd_sum(x[step * 64 + i]);
		if (lane == 0)
			part[group] = sum; // ! race
		threadgroup_barrier(mem_flags::mem_threadgroup);
		y[step * 64 + i] = part[0] + part[1]; // ! race
	}
}
