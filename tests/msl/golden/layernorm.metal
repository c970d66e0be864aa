// Made by tegula for apple7; Metal 3.1, to be compiled with safe math (-fno-fast-math).
#include <metal_stdlib>
using namespace metal;

struct layernorm_values {
    float eps;
};

[[max_total_threads_per_threadgroup(32)]]
kernel void layernorm(device const float *x [[buffer(0)]],
                      device const float *w [[buffer(1)]],
                      device const float *b [[buffer(2)]],
                      device float *y [[buffer(3)]],
                      constant layernorm_values &values [[buffer(4)]],
                      uint tg [[threadgroup_position_in_grid]],
                      uint lid [[thread_index_in_threadgroup]])
{
    const float eps = values.eps;

    // 7: let v = x[row, 0 +: BLOCK] as f32;
    long n = long(tg) * 256;
    long n1 = long(lid * 4);
    device const float *x_at = x + n + n1;
    float4 v = *(device const float4 *)x_at;
    float4 v1 = *(device const float4 *)(x_at + 128);

    // 8: let mean = sum(v) / C;
    float mean = simd_sum(v.x + v.y + (v.z + v.w) + (v1.x + v1.y + (v1.z + v1.w))) * 0.00390625f;

    // 9: let d = where(arange(0, BLOCK) < C, v - mean, 0);
    float4 t = v - mean;
    float4 t1 = v1 - mean;

    // 10: let scale = rsqrt(sum(d * d) / C + eps);
    float4 t2 = t * t;
    float4 t3 = t1 * t1;
    float t4 = simd_sum(t2.x + t2.y + (t2.z + t2.w) + (t3.x + t3.y + (t3.z + t3.w))) * 0.00390625f;
    float scale = rsqrt(t4 + eps);

    // 11: y[row, 0 +: BLOCK] = d * scale * w[0 +: BLOCK] + b[0 +: BLOCK];
    device const float *w_at = w + n1;
    float4 w_v = *(device const float4 *)w_at;
    float4 w_v1 = *(device const float4 *)(w_at + 128);
    device const float *b_at = b + n1;
    float4 b_v = *(device const float4 *)b_at;
    float4 b_v1 = *(device const float4 *)(b_at + 128);
    device float *y_at = y + n + n1;
    *(device float4 *)y_at = t * scale * w_v + b_v;
    *(device float4 *)(y_at + 128) = t1 * scale * w_v1 + b_v1;
}
