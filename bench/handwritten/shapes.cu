// Transpose, column sums, RoPE, running sums and int4 dequantisation.
#include "common.cuh"

// Tiles of 64 x 64 words (f32) or 128 x 128 halves (bf16) through swizzled shared memory, 16-byte accesses on both sides.
// M and N are whole tiles.   grid (N / TILE) * (M / TILE), block 512
template <typename T, int TILE, int THREADS> __device__ __forceinline__ void
transpose(const T *__restrict__ x, T *__restrict__ y, dim_t M, dim_t N)
{
	constexpr int n = Vec<T>::n, VECTORS = TILE / n;
	__shared__ alignas(16) T tile[TILE][TILE];      // element (r, c) stands at column c ^ swizzle(r)
	dim_t across = N / TILE, m0 = blockIdx.x / across * TILE, n0 = blockIdx.x % across * TILE;
	for (int i = threadIdx.x; i < TILE * VECTORS; i += THREADS) {
		int r = i / VECTORS, c = i % VECTORS;
		Vec<T> a = load16(x + (m0 + r) * N + n0 + c * n);
		*reinterpret_cast<Vec<T> *>(&tile[r][(c ^ (r / n % VECTORS)) * n]) = a;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < TILE * VECTORS; i += THREADS) {
		int r = i % VECTORS, c = i / VECTORS;   // column c of rows r * n ...
		Vec<T> a;
		for (int j = 0; j < n; j++)
			a.v[j] = tile[r * n + j][((c / n) ^ (r % VECTORS)) * n + c % n];
		store16(y + (n0 + c) * M + m0 + r * n, a);
	}
}

extern "C" __global__ void __launch_bounds__(512)
transpose_f32(const float *__restrict__ x, float *__restrict__ y, dim_t M, dim_t N) { transpose<float, 64, 512>(x, y, M, N); }
extern "C" __global__ void __launch_bounds__(512)
transpose_bf16(const __nv_bfloat16 *__restrict__ x, __nv_bfloat16 *__restrict__ y, dim_t M, dim_t N)
{
	transpose<__nv_bfloat16, 128, 512>(x, y, M, N);
}

// Columns in strips of 32 vectors, rows in 8 parts; 16 warps share the rows of a strip, and parts meet in y, which was
// zeroed.   grid 8 * C / (32 * elements a vector), block 512
template <typename T> __device__ __forceinline__ void
column_sum(const T *__restrict__ x, float *__restrict__ y, dim_t R, dim_t C)
{
	constexpr int n = Vec<T>::n;
	__shared__ float part[16][32 * n];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	dim_t strip = blockIdx.x / 8, rows = (R + 7) / 8, first = blockIdx.x % 8 * rows;
	dim_t c = (strip * 32 + lane) * n, last = first + rows < R ? first + rows : R;
	float s[n] = {};
	if (c < C) {
#pragma unroll 8
		for (dim_t r = first + warp; r < last; r += 16) {
			Vec<T> a = load16(x + r * C + c);
			for (int j = 0; j < n; j++)
				s[j] += to_float(a.v[j]);
		}
	}
	for (int j = 0; j < n; j++)
		part[warp][lane * n + j] = s[j];
	__syncthreads();
	for (int i = threadIdx.x; i < 32 * n; i += 512) {
		float total = 0;
		for (int w = 0; w < 16; w++)
			total += part[w][i];
		if (strip * 32 * n + i < C)
			atomicAdd(&y[strip * 32 * n + i], total);
	}
}

extern "C" __global__ void __launch_bounds__(512)
column_sums_f32(const float *__restrict__ x, float *__restrict__ y, dim_t R, dim_t C) { column_sum(x, y, R, C); }
extern "C" __global__ void __launch_bounds__(512)
column_sums_bf16(const __nv_bfloat16 *__restrict__ x, float *__restrict__ y, dim_t R, dim_t C) { column_sum(x, y, R, C); }

// A token for each block: the angles once, then every head.   grid S, block 256; D is 128
template <typename T> __device__ __forceinline__ void
rotate(const T *__restrict__ x, const int *__restrict__ position, T *__restrict__ y, float base, dim_t H, dim_t D)
{
	__shared__ float cosine[128], sine[128];
	int half = (int)D / 2;
	dim_t s = blockIdx.x;
	if ((int)threadIdx.x < half)
		sincosf(position[s] * exp2f(-log2f(base) * threadIdx.x / half), &sine[threadIdx.x], &cosine[threadIdx.x]);
	__syncthreads();
	constexpr int n = Vec<T>::n;
	int vectors = half / n;
	for (int i = threadIdx.x; i < H * vectors; i += blockDim.x) {
		dim_t at = (s * H + i / vectors) * D + i % vectors * n;
		Vec<T> a = load16(x + at), b = load16(x + at + half), c, d;
		for (int j = 0; j < n; j++) {
			float u = to_float(a.v[j]), v = to_float(b.v[j]);
			float co = cosine[i % vectors * n + j], si = sine[i % vectors * n + j];
			c.v[j] = from_float<T>(u * co - v * si);
			d.v[j] = from_float<T>(v * co + u * si);
		}
		store16(y + at, c);
		store16(y + at + half, d);
	}
}

extern "C" __global__ void __launch_bounds__(256)
rope_f16(const __half *__restrict__ x, const int *__restrict__ position, __half *__restrict__ y, float base, dim_t S, dim_t H,
    dim_t D) { rotate(x, position, y, base, H, D); }
extern "C" __global__ void __launch_bounds__(256)
rope_bf16(const __nv_bfloat16 *__restrict__ x, const int *__restrict__ position, __nv_bfloat16 *__restrict__ y, float base,
    dim_t S, dim_t H, dim_t D) { rotate(x, position, y, base, H, D); }

// A row for each block of 1024 threads, which hold 4 neighbours twice; rows up to 8192.   grid R, block 1024
extern "C" __global__ void __launch_bounds__(1024)
running_sums_8192(const float *__restrict__ x, float *__restrict__ y, dim_t R, dim_t C)
{
	__shared__ float slot[2][32];
	const float *p = x + blockIdx.x * C;
	float v[2][4], total[2];
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (int k = 0; k < 2; k++) {
		dim_t c = ((dim_t)k * 1024 + threadIdx.x) * 4;
		Vec<float> a = {};
		if (c < C)
			a = load16(p + c);
		float s = 0;
		for (int j = 0; j < 4; j++)
			v[k][j] = s += a.v[j];
		total[k] = s;
	}
	for (int k = 0; k < 2; k++) {
		float s = total[k];
		for (int d = 1; d < 32; d <<= 1) {
			float up = __shfl_up_sync(~0u, s, d);
			s += lane >= d ? up : 0;
		}
		if (lane == 31)
			slot[k][warp] = s;
		total[k] = s - total[k];        // what stands before this thread in its warp
	}
	__syncthreads();
	if (warp < 2) {
		float s = slot[warp][lane], own = s;
		for (int d = 1; d < 32; d <<= 1) {
			float up = __shfl_up_sync(~0u, s, d);
			s += lane >= d ? up : 0;
		}
		slot[warp][lane] = s - own;
		if (warp == 0 && lane == 31)
			slot[0][lane] = s - own;
	}
	__syncthreads();
	float before = 0;
	for (int k = 0; k < 2; k++) {
		dim_t c = ((dim_t)k * 1024 + threadIdx.x) * 4;
		Vec<float> a;
		float base = before + slot[k][warp] + total[k];
		for (int j = 0; j < 4; j++)
			a.v[j] = base + v[k][j];
		if (c < C)
			store16(y + blockIdx.x * C + c, a);
		__shared__ float half;
		if (k == 0) {
			if (threadIdx.x == 1023)
				half = base + v[0][3];
			__syncthreads();
			before = half;
		}
	}
}

// 8 weights of a row for each thread; groups of 128 share a scale and a zero.   grid R * C / 2048, block 256
template <typename T> __device__ __forceinline__ void
dequantize(const unsigned char *__restrict__ q, const T *__restrict__ scale, const unsigned char *__restrict__ zero,
    T *__restrict__ w, dim_t R, dim_t C)
{
	dim_t i = ((dim_t)blockIdx.x * 256 + threadIdx.x) * 8;
	if (i >= R * C)
		return;
	unsigned bits = __ldcs(reinterpret_cast<const unsigned *>(q + i / 2));
	float s = to_float(scale[i / 128]), z = zero[i / 128];
	Vec<T> a;
	for (int j = 0; j < 8; j++)
		a.v[j] = from_float<T>(((float)(bits >> 4 * j & 15) - z) * s);
	store16(w + i, a);
}

extern "C" __global__ void __launch_bounds__(256)
dequantize_int4_f16(const unsigned char *__restrict__ q, const __half *__restrict__ scale, const unsigned char *__restrict__ zero,
    __half *__restrict__ w, dim_t R, dim_t C) { dequantize(q, scale, zero, w, R, C); }
extern "C" __global__ void __launch_bounds__(256)
dequantize_int4_bf16(const unsigned char *__restrict__ q, const __nv_bfloat16 *__restrict__ scale,
    const unsigned char *__restrict__ zero, __nv_bfloat16 *__restrict__ w, dim_t R, dim_t C)
{
	dequantize(q, scale, zero, w, R, C);
}
