// check: k groups 1 threads 32
// buffer 0 f32 64 = i
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device float *x [[buffer(0)]])
{
	bfloat b = bfloat(1.0f);
	x[0] = simd_sum(b); // ! error
}
