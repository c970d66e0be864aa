// check: k groups 1 threads 32
// buffer 0 f32 64 = i
#include <metal_stdlib>
using namespace metal;

static inline float fragment(float x) { return x + 1.0f; } // ! error

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device float *x [[buffer(0)]])
{
	x[0] = x[1];
}
