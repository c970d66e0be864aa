// Rows of an odd length are not aligned for vectors.
// check: k groups 2 threads 16
// buffer 0 f32 130 = i
// buffer 1 f32 128 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(16)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              uint row [[threadgroup_position_in_grid]],
              ushort i [[thread_index_in_threadgroup]])
{
	float4 v = *(device const float4 *)(x + row * 65 + i * 4); // ! alignment
	*(device float4 *)(y + row * 64 + i * 4) = v;
}
