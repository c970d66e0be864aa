// What an earlier threadgroup left does not count.
// check: k groups 2 threads 32
// buffer 0 f32 64 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device float *y [[buffer(0)]],
              uint group [[threadgroup_position_in_grid]],
              ushort i [[thread_index_in_threadgroup]])
{
	threadgroup float s[32];
	if (group == 0)
		s[i] = 1.0f;
	simdgroup_barrier(mem_flags::mem_threadgroup);
	y[group * 32 + i] = s[31 - i]; // ! uninitialised
}
