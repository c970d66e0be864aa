// Nothing orders threadgroups.
// check: k groups 3 threads 32
// buffer 0 f32 96 = i
// buffer 1 f32 32 unset
// check: sum groups 3 threads 32
// buffer 0 f32 96 = i
// buffer 1 u32 1 = 0
// expect 1 = 96
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              uint i [[thread_position_in_grid]],
              ushort lane [[thread_index_in_simdgroup]])
{
	y[lane] = x[i]; // ! race
}

// Atomics do not race with each other.
[[max_total_threads_per_threadgroup(32)]]
kernel void sum(device const float *x [[buffer(0)]],
                device atomic_uint *y [[buffer(1)]],
                uint i [[thread_position_in_grid]])
{
	if (x[i] >= 0.0f)
		atomic_fetch_add_explicit(y, 1u, memory_order_relaxed);
}
