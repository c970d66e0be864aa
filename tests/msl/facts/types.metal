// Types and conversions: vectors, packed ones at odd addresses, bits, bfloat, integers that saturate, nibbles of a word.
// check: types groups 1 threads 16
// buffer 0 f32 65 = i
// buffer 1 f32 16 unset
// buffer 2 bf16 16 = i + 1
// buffer 3 u32 16 = i * 17
// expect 1 = 4 * (4 * i + 1) + 6 + (i + 1) * 2 + i % 16 + min(255, 20 * i)
// expect 2 = (i + 1) * 2
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(16)]]
kernel void types(device const float *x [[buffer(0)]],
                  device float *y [[buffer(1)]],
                  device bfloat *b [[buffer(2)]],
                  device const uint *words [[buffer(3)]],
                  ushort i [[thread_index_in_threadgroup]])
{
	float4 v = float4(*(device const packed_float4 *)(x + 1 + 4 * i));
	float sum = dot(v, float4(1.0f));
	b[i] = b[i] + b[i];
	sum += float(b[i]);
	uchar2 nibble = uchar2(words[i] & 15, words[i] >> 4 & 15);
	half2 h = half2(nibble);
	if (as_type<ushort>(h.x) != as_type<ushort>(half(nibble.y)))
		sum = -1.0f;
	sum += float(h.y) + float(addsat(uchar(10 * i), uchar(10 * i)));
	y[i] = clamp(sum, -1.0f, 1e6f) + select(0.0f, 0.0f, isnan(sum));
}
