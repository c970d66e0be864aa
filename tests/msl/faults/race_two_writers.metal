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
	threadgroup float s[32];
	s[i / 2] = x[i]; // ! race
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[i] = s[i / 2];
}
