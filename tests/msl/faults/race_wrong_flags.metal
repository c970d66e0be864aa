// The barrier orders device memory alone.
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
	threadgroup float s[64];
	s[i] = x[i];
	threadgroup_barrier(mem_flags::mem_device);
	y[i] = s[63 - i]; // ! race
}
