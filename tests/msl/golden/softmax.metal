// Made by tegula for apple7; Metal 3.1, to be compiled with safe math (-fno-fast-math).
#include <metal_stdlib>
using namespace metal;

struct softmax_values {
    long C;
};

[[max_total_threads_per_threadgroup(64)]]
kernel void softmax(device const float *x [[buffer(0)]],
                    device float *y [[buffer(1)]],
                    constant softmax_values &values [[buffer(2)]],
                    uint tg [[threadgroup_position_in_grid]],
                    uint lid [[thread_index_in_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]],
                    uint sg [[simdgroup_index_in_threadgroup]])
{
    alignas(16) threadgroup float scratch[36];

    const long C = values.C;

    // 6: let v = (x[row, 0 +: BLOCK] else -inf) as f32;
    int x_left = int(C);
    long n = tg * C;
    long n1 = long(lid);
    device const float *x_at = x + n + n1;
    float v = x_at[0];
    float v1 = x_at[64];
    float v2 = x_at[128];
    float v3 = x_at[192];
    float v4 = x_at[256];
    float v5 = x_at[320];
    float v6 = x_at[384];
    float v7 = x_at[448];
    float v8 = x_at[512];
    float v9 = x_at[576];
    float v10 = x_at[640];
    float v11 = x_at[704];
    bool in_x = int(lid) < x_left - 768;
    float v12 = in_x ? x_at[768] : -INFINITY;
    bool in_x1 = int(lid) < x_left - 832;
    float v13 = in_x1 ? x_at[832] : -INFINITY;

    // 7: let e = exp(v - max(v));
    float t = max(max(max(v8, v9), max(v10, v11)), max(max(v12, v13), max(-INFINITY, -INFINITY)));
    float t1 = simd_max(max(max(max(max(v, v1), max(v2, v3)), max(max(v4, v5), max(v6, v7))), t));
    bool ok = lane == 0u;
    if (ok)
        scratch[sg] = t1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float2 scratch_v = *(threadgroup float2 *)scratch;
    float most = max(scratch_v.x, scratch_v.y);
    float e = exp(v - most);
    float e1 = exp(v1 - most);
    float e2 = exp(v2 - most);
    float e3 = exp(v3 - most);
    float e4 = exp(v4 - most);
    float e5 = exp(v5 - most);
    float e6 = exp(v6 - most);
    float e7 = exp(v7 - most);
    float e8 = exp(v8 - most);
    float e9 = exp(v9 - most);
    float e10 = exp(v10 - most);
    float e11 = exp(v11 - most);
    float e12 = exp(v12 - most);
    float e13 = exp(v13 - most);
    float e14 = exp(-INFINITY - most);

    // 8: y[row, 0 +: BLOCK] = e / sum(e);
    float t2 = e + e1 + (e2 + e3) + (e4 + e5 + (e6 + e7)) + (e8 + e9 + (e10 + e11) + (e12 + e13 + (e14 + e14)));
    float t3 = simd_sum(t2);
    threadgroup float *scratch_at = scratch + 32;
    if (ok)
        scratch_at[sg] = t3;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float2 scratch_v1 = *(threadgroup float2 *)scratch_at;
    float total = scratch_v1.x + scratch_v1.y;
    device float *y_at = y + n + n1;
    y_at[0] = e / total;
    y_at[64] = e1 / total;
    y_at[128] = e2 / total;
    y_at[192] = e3 / total;
    y_at[256] = e4 / total;
    y_at[320] = e5 / total;
    y_at[384] = e6 / total;
    y_at[448] = e7 / total;
    y_at[512] = e8 / total;
    y_at[576] = e9 / total;
    y_at[640] = e10 / total;
    y_at[704] = e11 / total;
    if (in_x)
        y_at[768] = e12 / total;
    if (in_x1)
        y_at[832] = e13 / total;
}
