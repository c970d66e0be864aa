// check: k groups 1 threads 64
// buffer 0 f32 64 unset
// check: large groups 1 threads 1056
// buffer 0 f32 1056 unset
#include <metal_stdlib>
using namespace metal;

// A launch with more threads than this does nothing, without a word.
[[max_total_threads_per_threadgroup(32)]]
kernel void k(device float *y [[buffer(0)]], ushort i [[thread_index_in_threadgroup]]) // ! limit
{
	y[i] = 1.0f;
}

kernel void large(device float *y [[buffer(0)]], ushort i [[thread_index_in_threadgroup]]) // ! limit
{
	y[i] = 1.0f;
}
