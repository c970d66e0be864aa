// Vector add, SiLU and both GELUs: one 16-byte vector a thread and a tail of single elements.
//   grid cdiv(N, 16 / bytes * 256), block 256
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(512)
vector_add_f32(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, dim_t N)
{
	dim_t i = ((dim_t)blockIdx.x * blockDim.x + threadIdx.x) * 4;
	if (i + 4 <= N) {
		Vec<float> a = load16(x + i), b = load16(y + i);
		for (int j = 0; j < 4; j++)
			a.v[j] += b.v[j];
		store16(z + i, a);
	} else {
		for (; i < N; i++)
			z[i] = x[i] + y[i];
	}
}

struct Silu {
	static __device__ __forceinline__ float f(float v) { return __fdividef(v, 1.0f + __expf(-v)); }
};

struct GeluTanh {
	static __device__ __forceinline__ float f(float v)
	{
		float t = 0.7978845608028654f * (v + 0.044715f * v * v * v), r;
		asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(t));
		return 0.5f * v * (1.0f + r);
	}
};

struct GeluErf {
	static __device__ __forceinline__ float f(float v) { return 0.5f * v * (1.0f + erff(v * 0.7071067811865476f)); }
};

template <typename T, typename F> __device__ __forceinline__ void
apply(const T *__restrict__ x, T *__restrict__ y, dim_t N)
{
	constexpr int n = Vec<T>::n;
	dim_t i = ((dim_t)blockIdx.x * blockDim.x + threadIdx.x) * n;
	if (i + n <= N) {
		Vec<T> a = load16(x + i);
		for (int j = 0; j < n; j++)
			a.v[j] = from_float<T>(F::f(to_float(a.v[j])));
		store16(y + i, a);
	} else {
		for (; i < N; i++)
			y[i] = from_float<T>(F::f(to_float(x[i])));
	}
}

#define ELEMENTWISE(name, T, F)                                                                    \
	extern "C" __global__ void __launch_bounds__(256)                                          \
	name(const T *__restrict__ x, T *__restrict__ y, dim_t N) { apply<T, F>(x, y, N); }

ELEMENTWISE(silu_f32, float, Silu)
ELEMENTWISE(silu_f16, __half, Silu)
ELEMENTWISE(silu_bf16, __nv_bfloat16, Silu)
ELEMENTWISE(gelu_tanh_f32, float, GeluTanh)
ELEMENTWISE(gelu_tanh_bf16, __nv_bfloat16, GeluTanh)
ELEMENTWISE(gelu_erf_f32, float, GeluErf)
ELEMENTWISE(gelu_erf_bf16, __nv_bfloat16, GeluErf)
