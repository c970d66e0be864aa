// An atomic beside a plain write.
// check: k groups 1 threads 32
// buffer 0 u32 1 = 0
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device uint *y [[buffer(0)]], ushort i [[thread_index_in_threadgroup]])
{
	if (i == 5)
		*y = 7; // ! race
	atomic_fetch_add_explicit((device atomic_uint *)y, 1u, memory_order_relaxed);
}
