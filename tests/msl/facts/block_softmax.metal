// A softmax over a row as MLX's is built: simd_max, one slot a simdgroup, a barrier, every simdgroup combines all slots; the
// slots are used again for the sum only after a second barrier. It starts from the least float, not from infinity.
// check: softmax groups 2 threads 96
// buffer 0 f32 200 = i % 100 % 2
// buffer 1 f32 200 unset
// value 2 u32 = 100
// expect 1 = exp(i % 2) / (50 * (1 + exp(1))) within 0.000001
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(96)]]
kernel void softmax(device const float *x [[buffer(0)]],
                    device float *y [[buffer(1)]],
                    constant uint &n [[buffer(2)]],
                    uint row [[threadgroup_position_in_grid]],
                    ushort lid [[thread_index_in_threadgroup]],
                    ushort lane [[thread_index_in_simdgroup]],
                    ushort group [[simdgroup_index_in_threadgroup]],
                    ushort ngroups [[simdgroups_per_threadgroup]])
{
	threadgroup float part[32];
	float most = -FLT_MAX;
	for (uint i = lid; i < n; i += 96)
		most = max(most, x[row * n + i]);
	most = simd_max(most);
	if (lane == 0)
		part[group] = most;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	most = simd_max(lane < ngroups ? part[lane] : -FLT_MAX);
	float sum = 0.0f;
	for (uint i = lid; i < n; i += 96)
		sum += fast::exp(x[row * n + i] - most);
	sum = simd_sum(sum);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (lane == 0)
		part[group] = sum;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	sum = simd_sum(lane < ngroups ? part[lane] : 0.0f);
	for (uint i = lid; i < n; i += 96)
		y[row * n + i] = fast::exp(x[row * n + i] - most) / sum;
}
