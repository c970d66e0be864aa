// Rows of padding that nobody wrote; and an output that is read.
// check: k groups 1 threads 32
// buffer 0 f32 24 = i
// buffer 1 f32 32 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]])
{
	threadgroup float s[32];
	if (i < 24)
		s[i] = x[i];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	float v = s[i]; // ! uninitialised
	y[i] += v; // ! uninitialised
}
