// What Metal has of atomics, and sums of half by compare and swap on the word around it, as tinygrad and others do.
// check: count groups 3 threads 64
// buffer 0 u32 1 = 0
// buffer 1 f32 1 = 0
// buffer 2 i32 1 = 1000
// buffer 3 f16 2 = i
// expect 0 = 192
// expect 1 = 96
// expect 2 = -191
// expect 3 = 192 * (1 - i) + i
#include <metal_stdlib>
using namespace metal;

static inline void add_half(device atomic_uint *word, half v)
{
	uint old = atomic_load_explicit(word, memory_order_relaxed);
	for (;;) {
		half2 pair = as_type<half2>(old);
		pair.x += v;
		if (atomic_compare_exchange_weak_explicit(word, &old, as_type<uint>(pair), memory_order_relaxed, memory_order_relaxed))
			return;
	}
}

[[max_total_threads_per_threadgroup(64)]]
kernel void count(device atomic_uint *n [[buffer(0)]],
                  device atomic_float *sum [[buffer(1)]],
                  device atomic_int *least [[buffer(2)]],
                  device atomic_uint *halves [[buffer(3)]],
                  uint i [[thread_position_in_grid]],
                  ushort lid [[thread_index_in_threadgroup]])
{
	threadgroup atomic_uint mine;
	if (lid == 0)
		atomic_store_explicit(&mine, 0u, memory_order_relaxed);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	atomic_fetch_add_explicit(&mine, 1u, memory_order_relaxed);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (lid == 0)
		atomic_fetch_add_explicit(n, atomic_load_explicit(&mine, memory_order_relaxed), memory_order_relaxed);
	atomic_fetch_add_explicit(sum, 0.5f, memory_order_relaxed);
	atomic_fetch_min_explicit(least, -int(i), memory_order_relaxed);
	add_half(halves, 1.0h);
}
