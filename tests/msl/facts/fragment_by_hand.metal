// Fragments filled through thread_elements() as MLX does, by the layout that Apple's GPUs have had so far, and rows reduced
// as flash attention does: the lane's two elements, then the lanes across 1 and 8.
// layout: apple
// check: rows groups 1 threads 32
// buffer 0 f32 64 = i % 8
// buffer 1 f32 64 unset
// buffer 2 f32 8 unset
// expect 1 = 3 * (i % 8)
// expect 2 = 84
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(32)]]
kernel void rows(device const float *x [[buffer(0)]],
                 device float *y [[buffer(1)]],
                 device float *sums [[buffer(2)]],
                 ushort lane [[thread_index_in_simdgroup]])
{
	ushort row = (lane / 4 & 4) + lane / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2;
	simdgroup_matrix<float, 8, 8> m, three(3.0f);
	m.thread_elements()[0] = x[row * 8 + column];
	m.thread_elements()[1] = x[row * 8 + column + 1];
	simdgroup_multiply(m, m, three);
	simdgroup_store(m, y, 8);
	float sum = m.thread_elements()[0] + m.thread_elements()[1];
	sum += simd_shuffle_xor(sum, 1);
	sum += simd_shuffle_xor(sum, 8);
	if (column == 0)
		sums[row] = sum;
}
