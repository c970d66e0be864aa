// Threads and threadgroups with two axes; the linear index decides on lanes. C[y, x] = 100 y + x.
// check: axes groups 3 2 threads 8 4
// buffer 0 f32 192 unset
// expect 0 = 100 * floor(i / 24) + i % 24
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void axes(device float *c [[buffer(0)]],
                 uint2 at [[thread_position_in_grid]],
                 uint2 group [[threadgroup_position_in_grid]],
                 uint2 within [[thread_position_in_threadgroup]],
                 uint2 size [[threads_per_threadgroup]],
                 uint2 all [[threads_per_grid]],
                 ushort lane [[thread_index_in_simdgroup]])
{
	threadgroup float s[4][8];
	uint2 same = group * size + within;
	s[within.y][within.x] = float(100 * same.y + same.x) + (lane == within.y * 8 + within.x ? 0.0f : 1.0f);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	c[at.y * all.x + at.x] = s[within.y][within.x];
}
