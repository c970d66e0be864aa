// Which lane holds which element is nobody's promise: this takes Apple's present layout for granted.
// check: k groups 1 threads 32
// buffer 0 f32 64 = i
// buffer 1 f32 64 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort lane [[thread_index_in_simdgroup]])
{
	simdgroup_float8x8 m;
	simdgroup_load(m, x, 8);
	ushort row = (lane / 4 & 4) + lane / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2;
	y[row * 8 + column] = m.thread_elements()[0]; // ! fragment
	y[row * 8 + column + 1] = m.thread_elements()[1];
}
