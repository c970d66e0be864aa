#include <metal_stdlib>
using namespace metal;

struct vector_add_values {
	long N;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void vector_add(device const float *x [[buffer(0)]],
                       device const float *y [[buffer(1)]],
                       device float *z [[buffer(2)]],
                       constant vector_add_values &values [[buffer(3)]],
                       uint p [[threadgroup_position_in_grid]],
                       ushort t [[thread_index_in_threadgroup]])
{
	const long N = values.N;
	for (long i = long(p) * 1024 + t; i < min(N, long(p + 1) * 1024); i += 128)
		z[i] = x[i] + y[i];
}
