// What the simdgroup stored as a matrix, its lanes read as rows without a barrier.
// check: k groups 1 threads 32
// buffer 0 f32 64 = i
// buffer 1 f32 64 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]])
{
	threadgroup float s[64];
	simdgroup_float8x8 m;
	simdgroup_load(m, x);
	simdgroup_store(m, s); // ! race
	y[i] = s[i]; // ! race uninitialised
	y[i + 32] = s[i + 32]; // ! race uninitialised
}
