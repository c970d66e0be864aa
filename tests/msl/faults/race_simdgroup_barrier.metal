// A barrier of the simdgroup does not wait for the other simdgroup.
// check: k groups 1 threads 64
// buffer 0 f32 64 = i
// buffer 1 f32 64 unset
// check: fine groups 1 threads 64
// buffer 0 f32 64 = i
// buffer 1 f32 64 unset
// expect 1 = floor(i / 32) * 32 + 31 - i % 32
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]])
{
	threadgroup float s[64];
	s[i] = x[i]; // ! race
	simdgroup_barrier(mem_flags::mem_threadgroup);
	y[i] = s[63 - i]; // ! uninitialised race
}

[[max_total_threads_per_threadgroup(64)]]
kernel void fine(device const float *x [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 ushort i [[thread_index_in_threadgroup]])
{
	threadgroup float s[64];
	s[i] = x[i];
	simdgroup_barrier(mem_flags::mem_threadgroup);
	y[i] = s[i ^ 31];
}
