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
        device const half *b_at = b + (ulong(k * N) + n5) + (row1 * N + n7 * 8);
        uint4 words2 = *(device const uint4 *)b_at;
        uint4 words3 = *(device const uint4 *)(b_at + N * 16);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n8 = (n6 * 64) | (row % 8 * 8) | (sg * 256);
        *(threadgroup uint4 *)(scratch + n8) = words;
        *(threadgroup uint4 *)(scratch + n8 + 1024) = words1;
        threadgroup half *scratch_at = scratch + 2048;
        int n9 = lid / 64;
        int n10 = (n7 * 64) | (row1 % 8 * 8) | (n9 * 512);
        *(threadgroup uint4 *)(scratch_at + n10) = words2;
        *(threadgroup uint4 *)(scratch_at + n10 + 1024) = words3;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n11 = sg % 2;
        for (int i = 0; i < 4; i++) {
            simdgroup_barrier(mem_flags::mem_none);
            int n12 = n11 * 256 + i * 64;
            simdgroup_half8x8 a1;
            simdgroup_load(a1, scratch + n12, 8);
            int n13 = n9 * 64 + i * 512;
            simdgroup_half8x8 b1;
            simdgroup_load(b1, scratch_at + n13, 8);
            simdgroup_multiply_accumulate(acc[0], a1, b1, acc[0]);
            simdgroup_half8x8 a2;
            simdgroup_load(a2, scratch + (n12 + 512), 8);
            simdgroup_multiply_accumulate(acc[4], a2, b1, acc[4]);
            simdgroup_half8x8 a3;
            simdgroup_load(a3, scratch + (n12 + 1024), 8);
            simdgroup_multiply_accumulate(acc[8], a3, b1, acc[8]);
            simdgroup_half8x8 a4;
            simdgroup_load(a4, scratch + (n12 + 1536), 8);
            simdgroup_multiply_accumulate(acc[12], a4, b1, acc[12]);
            simdgroup_half8x8 b2;
            simdgroup_load(b2, scratch_at + (n13 + 128), 8);
            simdgroup_multiply_accumulate(acc[1], a1, b2, acc[1]);
            simdgroup_multiply_accumulate(acc[5], a2, b2, acc[5]);
            simdgroup_multiply_accumulate(acc[9], a3, b2, acc[9]);
            simdgroup_multiply_accumulate(acc[13], a4, b2, acc[13]);
            simdgroup_half8x8 b3;
            simdgroup_load(b3, scratch_at + (n13 + 256), 8);
            simdgroup_multiply_accumulate(acc[2], a1, b3, acc[2]);
            simdgroup_multiply_accumulate(acc[6], a2, b3, acc[6]);
            simdgroup_multiply_accumulate(acc[10], a3, b3, acc[10]);
            simdgroup_multiply_accumulate(acc[14], a4, b3, acc[14]);
            simdgroup_half8x8 b4;
            simdgroup_load(b4, scratch_at + (n13 + 384), 8);
            simdgroup_multiply_accumulate(acc[3], a1, b4, acc[3]);
            simdgroup_multiply_accumulate(acc[7], a2, b4, acc[7]);
            simdgroup_multiply_accumulate(acc[11], a3, b4, acc[11]);
            simdgroup_multiply_accumulate(acc[15], a4, b4, acc[15]);
        }
    }

    // 13: c[pm * BM +: BM, pn * BN +: BN] = acc as T;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int n14 = lid / 2 % 4;
    int row2 = lid / 8;
    int n15 = lid / 16 % 2;
    int n16 = lid / 64;
    int n17 = (((lid % 2 * 2) ^ (n14 * 8) ^ (n14 * 64)) | (row2 % 2 * 4)) ^ (n15 * 32) ^ (n15 * 256);
    int n18 = (n17 | (sg % 2 * 512)) ^ (n16 * 8);
    *(threadgroup half2 *)(scratch + n18) = half2(half(acc[0].thread_elements()[0]), half(acc[0].thread_elements()[1]));
    int n19 = n18 ^ 16;
    *(threadgroup half2 *)(scratch + n19) = half2(half(acc[1].thread_elements()[0]), half(acc[1].thread_elements()[1]));
    int n20 = n18 ^ 32;
    *(threadgroup half2 *)(scratch + n20) = half2(half(acc[2].thread_elements()[0]), half(acc[2].thread_elements()[1]));
    int n21 = n18 ^ 48;
    *(threadgroup half2 *)(scratch + n21) = half2(half(acc[3].thread_elements()[0]), half(acc[3].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n18 + 1024) = half2(half(acc[4].thread_elements()[0]), half(acc[4].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n19 + 1024) = half2(half(acc[5].thread_elements()[0]), half(acc[5].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n20 + 1024) = half2(half(acc[6].thread_elements()[0]), half(acc[6].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n21 + 1024) = half2(half(acc[7].thread_elements()[0]), half(acc[7].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n18 + 2048) = half2(half(acc[8].thread_elements()[0]), half(acc[8].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n19 + 2048) = half2(half(acc[9].thread_elements()[0]), half(acc[9].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n20 + 2048) = half2(half(acc[10].thread_elements()[0]), half(acc[10].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n21 + 2048) = half2(half(acc[11].thread_elements()[0]), half(acc[11].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n18 + 3072) = half2(half(acc[12].thread_elements()[0]), half(acc[12].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n19 + 3072) = half2(half(acc[13].thread_elements()[0]), half(acc[13].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n20 + 3072) = half2(half(acc[14].thread_elements()[0]), half(acc[14].thread_elements()[1]));
    *(threadgroup half2 *)(scratch + n21 + 3072) = half2(half(acc[15].thread_elements()[0]), half(acc[15].thread_elements()[1]));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    int n22 = row2 % 8;
    int col = lid % 8 * 8;
    int n23 = (col ^ (n22 * 8) ^ (n22 * 64)) | (n16 * 512);
    uint4 words4 = *(threadgroup uint4 *)(scratch + n23);
    uint4 words5 = *(threadgroup uint4 *)(scratch + n23 + 1024);
    uint4 words6 = *(threadgroup uint4 *)(scratch + n23 + 2048);
    uint4 words7 = *(threadgroup uint4 *)(scratch + n23 + 3072);
    device half *c_at = c + (ulong(pm * 32) * N * 2 + n5) + (row2 * N + col);
    *(device uint4 *)c_at = words4;
    *(device uint4 *)(c_at + N * 16) = words5;
    *(device uint4 *)(c_at + N * 32) = words6;
    *(device uint4 *)(c_at + N * 48) = words7;
}
