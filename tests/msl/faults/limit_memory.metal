// check: k groups 1 threads 32
// buffer 0 f32 32 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device float *y [[buffer(0)]], ushort i [[thread_index_in_threadgroup]]) // ! limit
{
	threadgroup float s[8193];
	s[i] = 1.0f;
	simdgroup_barrier(mem_flags::mem_threadgroup);
	y[i] = s[31 - i];
}
