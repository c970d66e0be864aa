// Simd functions order nothing in memory.
// check: k groups 1 threads 32
// buffer 0 f32 32 = i
// buffer 1 f32 32 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]])
{
	threadgroup float s[32];
	s[i] = x[i];
	float sum = simd_sum(x[i]);
	y[i] = s[31 - i] + sum; // ! race
}
