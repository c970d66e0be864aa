// Lanes leave the loop in different turns.
// check: k groups 1 threads 64
// buffer 0 f32 64 = i
// buffer 1 f32 64 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]])
{
	float sum = x[i];
	for (int n = 0; n < i % 3 + 1; n++)
		sum += simd_shuffle_xor(sum, 1); // ! divergence
	y[i] = sum;
}
