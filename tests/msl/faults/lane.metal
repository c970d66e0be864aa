// A simdgroup that is not full has no lane 31.
// check: k groups 1 threads 24
// buffer 0 f32 24 = i
// buffer 1 f32 24 unset
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(24)]]
kernel void k(device const float *x [[buffer(0)]],
              device float *y [[buffer(1)]],
              ushort i [[thread_index_in_threadgroup]])
{
	y[i] = simd_broadcast(x[i], 31); // ! lane
}
