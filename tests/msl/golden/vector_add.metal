// Made by tegula for apple7; Metal 3.1, to be compiled with safe math (-fno-fast-math).
#include <metal_stdlib>
using namespace metal;

struct vector_add_values {
    long N;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void vector_add(device const float *x [[buffer(0)]],
                       device const float *y [[buffer(1)]],
                       device float *z [[buffer(2)]],
                       constant vector_add_values &values [[buffer(3)]],
                       uint tg [[threadgroup_position_in_grid]],
                       uint lid [[thread_index_in_threadgroup]])
{
    const long N = values.N;

    // 6: let i = b * BLOCK;
    long i = long(tg) * 1024;

    // 7: z[i +: BLOCK] = x[i +: BLOCK] + y[i +: BLOCK];
    int i1 = lid * 4;
    long n = long(i1);
    bool in_x = i1 < int(min(max(N - i, 0L), 1024L));
    float4 x_v = in_x ? *(device const float4 *)(x + i + n) : float4(0.0f);
    float4 y_v = in_x ? *(device const float4 *)(y + i + n) : float4(0.0f);
    if (in_x)
        *(device float4 *)(z + i + n) = x_v + y_v;
}
