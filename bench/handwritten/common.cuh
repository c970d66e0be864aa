// What the handwritten kernels share: 16-byte vectors of any element type, and reductions over a block.
//
// Every kernel here is called as `tegula bench --vs` calls it: the tegula kernel's parameters in order (tensors as
// pointers), then its shape symbols as long long, in order of first mention.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

typedef long long dim_t;
#define LEAST __int_as_float(0xff800000)          /* minus infinity, without <math.h> */

template <typename T> struct alignas(16) Vec {
	static constexpr int n = 16 / sizeof(T);
	T v[n];
};

template <typename T> __device__ __forceinline__ Vec<T> load16(const T *p)
{
	union { uint4 u; Vec<T> v; } b;
	b.u = __ldcs(reinterpret_cast<const uint4 *>(p));
	return b.v;
}

template <typename T> __device__ __forceinline__ void store16(T *p, const Vec<T> &v)
{
	union { uint4 u; Vec<T> v; } b;
	b.v = v;
	__stcs(reinterpret_cast<uint4 *>(p), b.u);
}

__device__ __forceinline__ float warp_sum(float v)
{
	for (int d = 16; d; d >>= 1)
		v += __shfl_xor_sync(~0u, v, d);
	return v;
}

__device__ __forceinline__ float warp_max(float v)
{
	for (int d = 16; d; d >>= 1)
		v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
	return v;
}

// The block's sum in every thread; `slot` is shared memory for 32 floats that nobody else uses meanwhile.
template <int THREADS> __device__ __forceinline__ float block_sum(float v, float *slot)
{
	v = warp_sum(v);
	if (THREADS == 32)
		return v;
	if (threadIdx.x % 32 == 0)
		slot[threadIdx.x / 32] = v;
	__syncthreads();
	v = threadIdx.x % 32 < THREADS / 32 ? slot[threadIdx.x % 32] : 0.0f;
	return warp_sum(v);
}

template <int THREADS> __device__ __forceinline__ float block_max(float v, float *slot)
{
	v = warp_max(v);
	if (THREADS == 32)
		return v;
	if (threadIdx.x % 32 == 0)
		slot[threadIdx.x / 32] = v;
	__syncthreads();
	v = threadIdx.x % 32 < THREADS / 32 ? slot[threadIdx.x % 32] : LEAST;
	return warp_max(v);
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ float from_float<float>(float x) { return x; }
template <> __device__ __forceinline__ __half from_float<__half>(float x) { return __float2half_rn(x); }
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }
