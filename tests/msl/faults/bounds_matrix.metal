// The last rows of a matrix that has 6.
// check: k groups 1 threads 32
// buffer 0 f32 48 = i
// buffer 1 f32 64 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device const float *x [[buffer(0)]], device float *y [[buffer(1)]])
{
	simdgroup_float8x8 m;
	simdgroup_load(m, x, 8); // ! bounds
	simdgroup_store(m, y, 8);
}
