// check: vector_add groups 4 threads 128
// buffer 0 f32 500 = i % 7
// buffer 1 f32 500 = i / 2
// buffer 2 f32 500 unset
// value 3 u32 = 500
// expect 2 = i % 7 + i / 2
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(128)]]
kernel void vector_add(device const float *x [[buffer(0)]],
                       device const float *y [[buffer(1)]],
                       device float *z [[buffer(2)]],
                       constant uint &n [[buffer(3)]],
                       uint i [[thread_position_in_grid]])
{
	if (i < n)
		z[i] = x[i] + y[i];
}
