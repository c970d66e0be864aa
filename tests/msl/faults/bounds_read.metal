// The guard is missing.
// check: k groups 2 threads 64
// buffer 0 f32 100 = i
// buffer 1 f32 128 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              uint i [[thread_position_in_grid]])
{
	y[i] = x[i]; // ! bounds
}
