// Made by tegula for apple7; Metal 3.1, to be compiled with safe math (-fno-fast-math).
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(128)]]
kernel void vector_add(device const float *x [[buffer(0)]],
                       device const float *y [[buffer(1)]],
                       device float *z [[buffer(2)]],
                       constant long &N [[buffer(3)]],
                       uint tg [[threadgroup_position_in_grid]],
                       uint lid [[thread_index_in_threadgroup]])
{
    // 6: let i = b * BLOCK;
    long i = long(tg) * 1024;

    // 7: z[i +: BLOCK] = x[i +: BLOCK] + y[i +: BLOCK];
    int x_left = int(min(max(N - i, 0L), 1024L));
    int i1 = lid * 4;
    long n = long(i1);
    device const float *x_at = x + i + n;
    bool in_x = i1 < x_left;
    float4 x_v = in_x ? *(device const float4 *)x_at : float4(0.0f);
    bool in_x1 = i1 < x_left - 512;
    float4 x_v1 = in_x1 ? *(device const float4 *)(x_at + 512) : float4(0.0f);
    device const float *y_at = y + i + n;
    float4 y_v = in_x ? *(device const float4 *)y_at : float4(0.0f);
    float4 y_v1 = in_x1 ? *(device const float4 *)(y_at + 512) : float4(0.0f);
    device float *z_at = z + i + n;
    if (in_x)
        *(device float4 *)z_at = x_v + y_v;
    if (in_x1)
        *(device float4 *)(z_at + 512) = x_v1 + y_v1;
}
