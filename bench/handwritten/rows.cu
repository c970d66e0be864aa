// A row for each block, kept in registers between the passes: softmax, layernorm, rmsnorm with residual, row sums and
// quantisation to fp8.  The name's last part is the row's greatest length, THREADS * VECTORS * elements a vector; rows
// are whole vectors.
//   grid R, block THREADS
#include "common.cuh"

template <typename T, int THREADS, int VECTORS> struct Row {
	static constexpr int n = Vec<T>::n;
	float v[VECTORS][n];

	__device__ __forceinline__ void read(const T *p, dim_t C, float outside)
	{
		for (int k = 0; k < VECTORS; k++) {
			dim_t c = ((dim_t)k * THREADS + threadIdx.x) * n;
			if (c < C) {
				Vec<T> a = load16(p + c);
				for (int j = 0; j < n; j++)
					v[k][j] = to_float(a.v[j]);
			} else {
				for (int j = 0; j < n; j++)
					v[k][j] = outside;
			}
		}
	}
	__device__ __forceinline__ void write(T *p, dim_t C) const
	{
		for (int k = 0; k < VECTORS; k++) {
			dim_t c = ((dim_t)k * THREADS + threadIdx.x) * n;
			if (c >= C)
				continue;
			Vec<T> a;
			for (int j = 0; j < n; j++)
				a.v[j] = from_float<T>(v[k][j]);
			store16(p + c, a);
		}
	}
};

template <typename T, int THREADS, int VECTORS> __device__ __forceinline__ void
softmax(const T *x, T *y, dim_t C)
{
	__shared__ float a[32], b[32];
	Row<T, THREADS, VECTORS> r;
	r.read(x + blockIdx.x * C, C, LEAST);
	float m = LEAST, s = 0;
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++)
			m = fmaxf(m, r.v[k][j]);
	m = block_max<THREADS>(m, a);
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++)
			s += r.v[k][j] = exp2f((r.v[k][j] - m) * 1.4426950408889634f);
	float scale = 1.0f / block_sum<THREADS>(s, b);
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++)
			r.v[k][j] *= scale;
	r.write(y + blockIdx.x * C, C);
}

#define SOFTMAX(name, T, THREADS, VECTORS)                                                         \
	extern "C" __global__ void __launch_bounds__(THREADS)                                      \
	name(const T *__restrict__ x, T *__restrict__ y, dim_t R, dim_t C) { softmax<T, THREADS, VECTORS>(x, y, C); }

SOFTMAX(softmax_f32_1024, float, 64, 4)
SOFTMAX(softmax_f32_4096, float, 512, 2)
SOFTMAX(softmax_f32_8192, float, 1024, 2)
SOFTMAX(softmax_bf16_1024, __nv_bfloat16, 64, 2)
SOFTMAX(softmax_bf16_4096, __nv_bfloat16, 64, 8)
SOFTMAX(softmax_bf16_8192, __nv_bfloat16, 512, 2)

template <typename T, int THREADS, int VECTORS> __device__ __forceinline__ void
layernorm(const T *x, const T *w, const T *b, T *y, float eps, dim_t C)
{
	__shared__ float slot[32], slot2[32];
	Row<T, THREADS, VECTORS> r;
	r.read(x + blockIdx.x * C, C, 0);
	float s = 0, q = 0;
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++)
			s += r.v[k][j];
	float mean = block_sum<THREADS>(s, slot) / C;
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++) {
			float d = ((dim_t)k * THREADS + threadIdx.x) * r.n < C ? r.v[k][j] - mean : 0;
			q += d * d;
		}
	float scale = rsqrtf(block_sum<THREADS>(q, slot2) / C + eps);
	for (int k = 0; k < VECTORS; k++) {
		dim_t c = ((dim_t)k * THREADS + threadIdx.x) * r.n;
		if (c >= C)
			continue;
		Vec<T> g = *reinterpret_cast<const Vec<T> *>(w + c), h = *reinterpret_cast<const Vec<T> *>(b + c);
		for (int j = 0; j < r.n; j++)
			r.v[k][j] = (r.v[k][j] - mean) * scale * to_float(g.v[j]) + to_float(h.v[j]);
	}
	r.write(y + blockIdx.x * C, C);
}

#define LAYERNORM(name, T, THREADS, VECTORS)                                                       \
	extern "C" __global__ void __launch_bounds__(THREADS)                                      \
	name(const T *__restrict__ x, const T *__restrict__ w, const T *__restrict__ b, T *__restrict__ y, float eps, \
	    dim_t R, dim_t C) { layernorm<T, THREADS, VECTORS>(x, w, b, y, eps, C); }

LAYERNORM(layernorm_f32_4096, float, 256, 4)
LAYERNORM(layernorm_bf16_4096, __nv_bfloat16, 256, 2)
LAYERNORM(layernorm_bf16_8192, __nv_bfloat16, 256, 4)

template <typename T, int THREADS, int VECTORS> __device__ __forceinline__ void
rmsnorm(const T *x, T *residual, const T *w, T *y, float eps, dim_t C)
{
	__shared__ float slot[32];
	Row<T, THREADS, VECTORS> r, s;
	r.read(x + blockIdx.x * C, C, 0);
	if (residual) {
		s.read(residual + blockIdx.x * C, C, 0);
		for (int k = 0; k < VECTORS; k++)
			for (int j = 0; j < r.n; j++)
				r.v[k][j] += s.v[k][j];
		r.write(residual + blockIdx.x * C, C);
	}
	float q = 0;
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++)
			q += r.v[k][j] * r.v[k][j];
	float scale = rsqrtf(block_sum<THREADS>(q, slot) / C + eps);
	for (int k = 0; k < VECTORS; k++) {
		dim_t c = ((dim_t)k * THREADS + threadIdx.x) * r.n;
		if (c >= C)
			continue;
		Vec<T> g = *reinterpret_cast<const Vec<T> *>(w + c);
		for (int j = 0; j < r.n; j++)
			r.v[k][j] *= scale * to_float(g.v[j]);
	}
	r.write(y + blockIdx.x * C, C);
}

#define RMSNORM(name, T, THREADS, VECTORS)                                                         \
	extern "C" __global__ void __launch_bounds__(THREADS)                                      \
	name(const T *__restrict__ x, const T *__restrict__ w, T *__restrict__ y, float eps, dim_t R, dim_t C) \
	{ rmsnorm<T, THREADS, VECTORS>(x, nullptr, w, y, eps, C); }                                 \
	extern "C" __global__ void __launch_bounds__(THREADS)                                      \
	name##_residual(const T *__restrict__ x, T *__restrict__ residual, const T *__restrict__ w, T *__restrict__ y, \
	    float eps, dim_t R, dim_t C) { rmsnorm<T, THREADS, VECTORS>(x, residual, w, y, eps, C); }

RMSNORM(rmsnorm_bf16_4096, __nv_bfloat16, 256, 2)
RMSNORM(rmsnorm_bf16_8192, __nv_bfloat16, 512, 2)

template <typename T, int THREADS, int VECTORS> __device__ __forceinline__ void
row_sum(const T *x, float *y, dim_t C)
{
	__shared__ float slot[32];
	Row<T, THREADS, VECTORS> r;
	r.read(x + blockIdx.x * C, C, 0);
	float s = 0;
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++)
			s += r.v[k][j];
	s = block_sum<THREADS>(s, slot);
	if (threadIdx.x == 0)
		y[blockIdx.x] = s;
}

#define ROW_SUM(name, T, THREADS, VECTORS)                                                         \
	extern "C" __global__ void __launch_bounds__(THREADS)                                      \
	name(const T *__restrict__ x, float *__restrict__ y, dim_t R, dim_t C) { row_sum<T, THREADS, VECTORS>(x, y, C); }

ROW_SUM(row_sums_f32_8192, float, 256, 8)
ROW_SUM(row_sums_bf16_8192, __nv_bfloat16, 256, 4)
ROW_SUM(row_sums_f16_8192, __half, 256, 4)

template <int THREADS, int VECTORS> __device__ __forceinline__ void
quantize(const __nv_bfloat16 *x, __nv_fp8_e4m3 *q, float *scale, dim_t C)
{
	__shared__ float slot[32];
	Row<__nv_bfloat16, THREADS, VECTORS> r;
	r.read(x + blockIdx.x * C, C, 0);
	float m = 0;
	for (int k = 0; k < VECTORS; k++)
		for (int j = 0; j < r.n; j++)
			m = fmaxf(m, fabsf(r.v[k][j]));
	float s = block_max<THREADS>(m, slot) / 448.0f;
	for (int k = 0; k < VECTORS; k++) {
		dim_t c = ((dim_t)k * THREADS + threadIdx.x) * 8;
		if (c >= C)
			continue;
		union { __nv_fp8x2_storage_t h[4]; uint2 u; } out;
		for (int j = 0; j < 8; j += 2)
			out.h[j / 2] = __nv_cvt_float2_to_fp8x2(make_float2(r.v[k][j] / s, r.v[k][j + 1] / s),
			    __NV_SATFINITE, __NV_E4M3);
		__stcs(reinterpret_cast<uint2 *>(q + blockIdx.x * C + c), out.u);
	}
	if (threadIdx.x == 0)
		scale[blockIdx.x] = s;
}

#define QUANTIZE(name, THREADS, VECTORS)                                                           \
	extern "C" __global__ void __launch_bounds__(THREADS)                                      \
	name(const __nv_bfloat16 *__restrict__ x, __nv_fp8_e4m3 *__restrict__ q, float *__restrict__ scale, dim_t R, dim_t C) \
	{ quantize<THREADS, VECTORS>(x, q, scale, C); }

QUANTIZE(quantize_fp8_4096, 256, 2)
QUANTIZE(quantize_fp8_8192, 256, 4)
