// What simd functions do at the edges: shuffles up and down do not wrap, rotations do, scans count lanes below.
// check: lanes groups 1 threads 64
// buffer 0 u32 64 unset
// buffer 1 u32 64 unset
// buffer 2 u32 64 unset
// buffer 3 u32 64 unset
// buffer 4 u32 64 unset
// buffer 5 u32 64 unset
// expect 0 = i % 32 - min(1, i % 32)
// expect 1 = min(31, i % 32 + 1)
// expect 2 = (i % 32 + 30) % 32
// expect 3 = i % 32 * (i % 32 + 1) / 2
// expect 4 = i % 32 * (i % 32 - 1) / 2
// expect 5 = 16
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void lanes(device uint *up [[buffer(0)]],
                  device uint *down [[buffer(1)]],
                  device uint *around [[buffer(2)]],
                  device uint *inclusive [[buffer(3)]],
                  device uint *exclusive [[buffer(4)]],
                  device uint *votes [[buffer(5)]],
                  ushort i [[thread_index_in_threadgroup]],
                  ushort lane [[thread_index_in_simdgroup]])
{
	uint v = lane;
	up[i] = simd_shuffle_up(v, 1);
	down[i] = simd_shuffle_down(v, 1);
	around[i] = simd_shuffle_rotate_up(v, 2);
	inclusive[i] = simd_prefix_inclusive_sum(v);
	exclusive[i] = simd_prefix_exclusive_sum(v);
	ulong odd = (ulong)simd_ballot(lane % 2 == 1);
	votes[i] = popcount(uint(odd)) * uint(simd_all(lane < 32) && simd_any(lane == 5) && !simd_all(lane < 31));
}
