// The last threads read behind a constant table, of which there is another.
// check: k groups 1 threads 16
// buffer 0 f32 16 = i
// buffer 1 f32 16 unset
#include <metal_stdlib>
using namespace metal;

constant float ramp[9] = {0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 0.0f};
constant float other[16] = {0.0f};

[[max_total_threads_per_threadgroup(16)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]])
{
	y[i] = other[i];
	y[i] += ramp[min(i, ushort(8))];
	y[i] += ramp[i]; // ! bounds
}
