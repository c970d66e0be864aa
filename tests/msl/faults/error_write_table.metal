// check: k groups 1 threads 16
// buffer 0 f32 16 = i
#include <metal_stdlib>
using namespace metal;

constant float ramp[4] = {0.0f, 1.0f, 2.0f, 3.0f};

[[max_total_threads_per_threadgroup(16)]]
kernel void k(device float *x [[buffer(0)]])
{
	ramp[1] = x[0]; // ! error
}
