// Made by tegula for apple7; Metal 3.1, to be compiled with safe math (-fno-fast-math).
#include <metal_stdlib>
using namespace metal;

struct dequantize_int4_values {
    long scale_dim1;
    long zero_dim1;
    long C;
    uint grid0;
};

[[max_total_threads_per_threadgroup(32)]]
kernel void dequantize_int4(device const uchar *q [[buffer(0)]],
                            device const half *scale [[buffer(1)]],
                            device const uchar *zero [[buffer(2)]],
                            device half *w [[buffer(3)]],
                            constant dequantize_int4_values &values [[buffer(4)]],
                            uint tg [[threadgroup_position_in_grid]],
                            uint lid [[thread_index_in_threadgroup]])
{
    const long scale_dim1 = values.scale_dim1;
    const long zero_dim1 = values.zero_dim1;
    const long C = values.C;
    const uint grid0 = values.grid0;

    long b = long(tg % grid0);
    long row = long(tg / grid0);

    // 10: let g = b * (BLOCK / GROUP);
    long g = b * 2;

    // 11: let s = scale[row, g +: BLOCK / GROUP] as f32;
    int i = lid / 16;
    long n = long(i);
    half scale_v = i < int(min(max(scale_dim1 - g, 0L), 2L)) ? scale[(row * scale_dim1 + g) + n] : 0.0h;
    float s = float(scale_v);

    // 12: let z = zero[row, g +: BLOCK / GROUP] as i32;
    uchar zero_v = i < int(min(max(zero_dim1 - g, 0L), 2L)) ? zero[(row * zero_dim1 + g) + n] : uchar(0);
    int z = uint(zero_v);

    // 13: let v = reshape(q[row, b * BLOCK +: BLOCK] as i32, [BLOCK / GROUP, GROUP]);
    long n1 = b * 256;
    long n2 = long(lid * 8);
    uchar4 q_v = *(device const uchar4 *)(q + ((row * ((C + 1) & -2L) + n1 + n2) >> 1L));

    // 14: w[row, b * BLOCK +: BLOCK] = reshape((v - z[:, new]) * s[:, new], [BLOCK]);
    half4 t = half4(float4(as_type<short4>(ushort4(uint4(q_v & uchar(15)) - uint(z)))) * s);
    half4 t1 = half4(float4(as_type<short4>(ushort4(uint4(q_v >> uchar(4)) - uint(z)))) * s);
    *(device uint4 *)(w + (row * C + n1) + n2) = uint4(as_type<uint2>(half4(t.x, t1.x, t.y, t1.y)), as_type<uint2>(half4(t.z, t1.z, t.w, t1.w)));
}
