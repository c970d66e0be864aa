// Made by tegula for apple7; Metal 3.1, to be compiled with safe math (-fno-fast-math).
#include <metal_stdlib>
using namespace metal;

struct matmul_values {
    long K;
    long N;
    uint grid0;
    uint grid1;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void matmul(device const half *a [[buffer(0)]],
                   device const half *b [[buffer(1)]],
                   device half *c [[buffer(2)]],
                   constant matmul_values &values [[buffer(3)]],
                   uint tg [[threadgroup_position_in_grid]],
                   uint lid [[thread_index_in_threadgroup]],
                   uint sg [[simdgroup_index_in_threadgroup]])
{
    alignas(16) threadgroup half scratch[4096];

    const long K = values.K;
    const long N = values.N;
    const uint grid0 = values.grid0;
    const uint grid1 = values.grid1;

    int n = min(8u, grid0);
    uint n1 = n * grid1;
    uint n2 = tg / n1 * n;
    int n3 = min(grid0 - n2, uint(n));
    uint n4 = tg % n1;
    long pm = long(n2 + n4 % uint(n3));

    // 11: acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN];
    long n5 = long(n4 / uint(n3)) * 64;

    // 10: for k in range(0, K, BK) {
    simdgroup_float8x8 acc[16];
    for (int i = 0; i < 16; i++)
        acc[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (long k = 0; k < K; k += 32) {
        // 11: acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN];
        int row = lid / 4;
        int n6 = lid % 4;
        device const half *a_at = a + (ulong(pm * 32) * K * 2 + k) + (row * K + n6 * 8);
        uint4 words = *(device const uint4 *)a_at;
        uint4 words1 = *(device const uint4 *)(a_at + K * 32);
        int row1 = lid / 8;
        int n7 = lid % 8;
        device const half *b_at = b + (k * N + n5) + (row1 * N + n7 * 8);
        uint4 words2 = *(device const uint4 *)b_at;
        uint4 words3 = *(device const uint4 *)(b_at + N * 16);
        int n8 = (n6 * 64) | (row % 8 * 8) | (sg * 256);
        *(threadgroup uint4 *)(scratch + n8) = words;
        *(threadgroup uint4 *)(scratch + n8 + 1024) = words1;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n9 = sg % 2 * 256;
        simdgroup_half8x8 a1;
        simdgroup_load(a1, scratch + n9, 8);
        simdgroup_half8x8 a2;
        simdgroup_load(a2, scratch + (n9 + 64), 8);
        simdgroup_half8x8 a3;
        simdgroup_load(a3, scratch + (n9 + 128), 8);
        simdgroup_half8x8 a4;
        simdgroup_load(a4, scratch + (n9 + 192), 8);
        simdgroup_half8x8 a5;
        simdgroup_load(a5, scratch + (n9 + 512), 8);
        simdgroup_half8x8 a6;
        simdgroup_load(a6, scratch + (n9 + 576), 8);
        simdgroup_half8x8 a7;
        simdgroup_load(a7, scratch + (n9 + 640), 8);
        simdgroup_half8x8 a8;
        simdgroup_load(a8, scratch + (n9 + 704), 8);
        simdgroup_half8x8 a9;
        simdgroup_load(a9, scratch + (n9 + 1024), 8);
        simdgroup_half8x8 a10;
        simdgroup_load(a10, scratch + (n9 + 1088), 8);
        simdgroup_half8x8 a11;
        simdgroup_load(a11, scratch + (n9 + 1152), 8);
        simdgroup_half8x8 a12;
        simdgroup_load(a12, scratch + (n9 + 1216), 8);
        simdgroup_half8x8 a13;
        simdgroup_load(a13, scratch + (n9 + 1536), 8);
        simdgroup_half8x8 a14;
        simdgroup_load(a14, scratch + (n9 + 1600), 8);
        simdgroup_half8x8 a15;
        simdgroup_load(a15, scratch + (n9 + 1664), 8);
        simdgroup_half8x8 a16;
        simdgroup_load(a16, scratch + (n9 + 1728), 8);
        threadgroup half *scratch_at = scratch + 2048;
        int n10 = lid / 64;
        int n11 = (n7 * 64) | (row1 % 8 * 8) | (n10 * 512);
        *(threadgroup uint4 *)(scratch_at + n11) = words2;
        *(threadgroup uint4 *)(scratch_at + n11 + 1024) = words3;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n12 = n10 * 64;
        simdgroup_half8x8 b1;
        simdgroup_load(b1, scratch_at + n12, 8);
        simdgroup_half8x8 b2;
        simdgroup_load(b2, scratch_at + (n12 + 512), 8);
        simdgroup_half8x8 b3;
        simdgroup_load(b3, scratch_at + (n12 + 1024), 8);
        simdgroup_half8x8 b4;
        simdgroup_load(b4, scratch_at + (n12 + 1536), 8);
        simdgroup_half8x8 b5;
        simdgroup_load(b5, scratch_at + (n12 + 128), 8);
        simdgroup_half8x8 b6;
        simdgroup_load(b6, scratch_at + (n12 + 640), 8);
        simdgroup_half8x8 b7;
        simdgroup_load(b7, scratch_at + (n12 + 1152), 8);
        simdgroup_half8x8 b8;
        simdgroup_load(b8, scratch_at + (n12 + 1664), 8);
        simdgroup_half8x8 b9;
        simdgroup_load(b9, scratch_at + (n12 + 256), 8);
        simdgroup_half8x8 b10;
        simdgroup_load(b10, scratch_at + (n12 + 768), 8);
        simdgroup_half8x8 b11;
        simdgroup_load(b11, scratch_at + (n12 + 1280), 8);
        simdgroup_half8x8 b12;
        simdgroup_load(b12, scratch_at + (n12 + 1792), 8);
        simdgroup_half8x8 b13;
        simdgroup_load(b13, scratch_at + (n12 + 384), 8);
        simdgroup_half8x8 b14;
        simdgroup_load(b14, scratch_at + (n12 + 896), 8);
        simdgroup_half8x8 b15;
        simdgroup_load(b15, scratch_at + (n12 + 1408), 8);
        simdgroup_half8x8 b16;
        simdgroup_load(b16, scratch_at + (n12 + 1920), 8);
        simdgroup_multiply_accumulate(acc[0], a1, b1, acc[0]);
        simdgroup_multiply_accumulate(acc[1], a1, b5, acc[1]);
        simdgroup_multiply_accumulate(acc[2], a1, b9, acc[2]);
        simdgroup_multiply_accumulate(acc[3], a1, b13, acc[3]);
        simdgroup_multiply_accumulate(acc[4], a5, b1, acc[4]);
        simdgroup_multiply_accumulate(acc[5], a5, b5, acc[5]);
        simdgroup_multiply_accumulate(acc[6], a5, b9, acc[6]);
        simdgroup_multiply_accumulate(acc[7], a5, b13, acc[7]);
        simdgroup_multiply_accumulate(acc[8], a9, b1, acc[8]);
        simdgroup_multiply_accumulate(acc[9], a9, b5, acc[9]);
        simdgroup_multiply_accumulate(acc[10], a9, b9, acc[10]);
        simdgroup_multiply_accumulate(acc[11], a9, b13, acc[11]);
        simdgroup_multiply_accumulate(acc[12], a13, b1, acc[12]);
        simdgroup_multiply_accumulate(acc[13], a13, b5, acc[13]);
        simdgroup_multiply_accumulate(acc[14], a13, b9, acc[14]);
        simdgroup_multiply_accumulate(acc[15], a13, b13, acc[15]);
        simdgroup_multiply_accumulate(acc[0], a2, b2, acc[0]);
        simdgroup_multiply_accumulate(acc[1], a2, b6, acc[1]);
        simdgroup_multiply_accumulate(acc[2], a2, b10, acc[2]);
        simdgroup_multiply_accumulate(acc[3], a2, b14, acc[3]);
        simdgroup_multiply_accumulate(acc[4], a6, b2, acc[4]);
        simdgroup_multiply_accumulate(acc[5], a6, b6, acc[5]);
        simdgroup_multiply_accumulate(acc[6], a6, b10, acc[6]);
        simdgroup_multiply_accumulate(acc[7], a6, b14, acc[7]);
        simdgroup_multiply_accumulate(acc[8], a10, b2, acc[8]);
        simdgroup_multiply_accumulate(acc[9], a10, b6, acc[9]);
        simdgroup_multiply_accumulate(acc[10], a10, b10, acc[10]);
        simdgroup_multiply_accumulate(acc[11], a10, b14, acc[11]);
        simdgroup_multiply_accumulate(acc[12], a14, b2, acc[12]);
        simdgroup_multiply_accumulate(acc[13], a14, b6, acc[13]);
        simdgroup_multiply_accumulate(acc[14], a14, b10, acc[14]);
        simdgroup_multiply_accumulate(acc[15], a14, b14, acc[15]);
        simdgroup_multiply_accumulate(acc[0], a3, b3, acc[0]);
        simdgroup_multiply_accumulate(acc[1], a3, b7, acc[1]);
        simdgroup_multiply_accumulate(acc[2], a3, b11, acc[2]);
        simdgroup_multiply_accumulate(acc[3], a3, b15, acc[3]);
        simdgroup_multiply_accumulate(acc[4], a7, b3, acc[4]);
        simdgroup_multiply_accumulate(acc[5], a7, b7, acc[5]);
        simdgroup_multiply_accumulate(acc[6], a7, b11, acc[6]);
        simdgroup_multiply_accumulate(acc[7], a7, b15, acc[7]);
        simdgroup_multiply_accumulate(acc[8], a11, b3, acc[8]);
        simdgroup_multiply_accumulate(acc[9], a11, b7, acc[9]);
        simdgroup_multiply_accumulate(acc[10], a11, b11, acc[10]);
        simdgroup_multiply_accumulate(acc[11], a11, b15, acc[11]);
        simdgroup_multiply_accumulate(acc[12], a15, b3, acc[12]);
        simdgroup_multiply_accumulate(acc[13], a15, b7, acc[13]);
        simdgroup_multiply_accumulate(acc[14], a15, b11, acc[14]);
        simdgroup_multiply_accumulate(acc[15], a15, b15, acc[15]);
        simdgroup_multiply_accumulate(acc[0], a4, b4, acc[0]);
        simdgroup_multiply_accumulate(acc[1], a4, b8, acc[1]);
        simdgroup_multiply_accumulate(acc[2], a4, b12, acc[2]);
        simdgroup_multiply_accumulate(acc[3], a4, b16, acc[3]);
        simdgroup_multiply_accumulate(acc[4], a8, b4, acc[4]);
        simdgroup_multiply_accumulate(acc[5], a8, b8, acc[5]);
        simdgroup_multiply_accumulate(acc[6], a8, b12, acc[6]);
        simdgroup_multiply_accumulate(acc[7], a8, b16, acc[7]);
        simdgroup_multiply_accumulate(acc[8], a12, b4, acc[8]);
        simdgroup_multiply_accumulate(acc[9], a12, b8, acc[9]);
        simdgroup_multiply_accumulate(acc[10], a12, b12, acc[10]);
        simdgroup_multiply_accumulate(acc[11], a12, b16, acc[11]);
        simdgroup_multiply_accumulate(acc[12], a16, b4, acc[12]);
        simdgroup_multiply_accumulate(acc[13], a16, b8, acc[13]);
        simdgroup_multiply_accumulate(acc[14], a16, b12, acc[14]);
        simdgroup_multiply_accumulate(acc[15], a16, b16, acc[15]);
    }

    // 13: c[pm * BM +: BM, pn * BN +: BN] = acc as T;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int n13 = lid / 2 % 4;
    int row2 = lid / 8;
    int n14 = lid / 16 % 2;
    int n15 = lid / 64;
    int n16 = (((lid % 2 * 2) ^ (n13 * 8) ^ (n13 * 64)) | (row2 % 2 * 4)) ^ (n14 * 32) ^ (n14 * 256);
    int n17 = (n16 | (sg % 2 * 512)) ^ (n15 * 8);
    *(threadgroup half2 *)(scratch + n17) = half2(half(acc[0].thread_elements()[0]), half(acc[0].thread_elements()[1]));
    int n18 = n17 ^ 16;
    *(threadgroup half2 *)(scratch + n18) = half2(half(acc[1].thread_elements()[0]), half(acc[1].thread_elements()[1]));
    int n19 = n17 ^ 32;
    *(threadgroup half2 *)(scratch + n19) = half2(half(acc[2].thread_elements()[0]), half(acc[2].thread_elements()[1]));
    int n20 = n17 ^ 48;
    *(threadgroup half2 *)(scratch + n20) = half2(half(acc[3].thread_elements()[0]), half(acc[3].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n17 + 1024) = half2(half(acc[4].thread_elements()[0]), half(acc[4].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n18 + 1024) = half2(half(acc[5].thread_elements()[0]), half(acc[5].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n19 + 1024) = half2(half(acc[6].thread_elements()[0]), half(acc[6].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n20 + 1024) = half2(half(acc[7].thread_elements()[0]), half(acc[7].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n17 + 2048) = half2(half(acc[8].thread_elements()[0]), half(acc[8].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n18 + 2048) = half2(half(acc[9].thread_elements()[0]), half(acc[9].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n19 + 2048) = half2(half(acc[10].thread_elements()[0]), half(acc[10].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n20 + 2048) = half2(half(acc[11].thread_elements()[0]), half(acc[11].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n17 + 3072) = half2(half(acc[12].thread_elements()[0]), half(acc[12].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n18 + 3072) = half2(half(acc[13].thread_elements()[0]), half(acc[13].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n19 + 3072) = half2(half(acc[14].thread_elements()[0]), half(acc[14].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n20 + 3072) = half2(half(acc[15].thread_elements()[0]), half(acc[15].thread_elements()[1]));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int n21 = row2 % 8;
    int col = lid % 8 * 8;
    int n22 = (col ^ (n21 * 8) ^ (n21 * 64)) | (n15 * 512);
    uint4 words4 = *(threadgroup uint4 *)(scratch + n22);
    uint4 words5 = *(threadgroup uint4 *)(scratch + n22 + 1024);
    uint4 words6 = *(threadgroup uint4 *)(scratch + n22 + 2048);
    uint4 words7 = *(threadgroup uint4 *)(scratch + n22 + 3072);
    device half *c_at = c + (ulong(pm * 32) * N * 2 + n5) + (row2 * N + col);
    *(device uint4 *)c_at = words4;
    *(device uint4 *)(c_at + N * 16) = words5;
    *(device uint4 *)(c_at + N * 32) = words6;
    *(device uint4 *)(c_at + N * 48) = words7;
}
