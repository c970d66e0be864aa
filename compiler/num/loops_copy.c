/* Filling and copying of blocks, and the arithmetic that is done while copying: where an op is bound by memory, results
 * go past the caches straight from registers. */
#include <string.h>

#include "num/loops.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define FILL(T)                                                                                    \
	for (int64_t i = 0; i < n; i++)                                                            \
		((T *)out)[i] = (T)word

void
LEVEL(loop_fill)(int size, void *out, uint64_t word, int64_t n)
{
	BY_SIZE(size, FILL)
}

/* Whole cache lines are written without being read first, which saves a third of the traffic of a sum whose
 * result is not read soon.  o is aligned to a line. */
typedef float Line __attribute__((vector_size(64), aligned(1), may_alias));

ALWAYS_INLINE void
put_line(char *o, Line v)
{
#if defined(__AVX512F__)
	__m512i part;
	memcpy(&part, &v, sizeof part);
	_mm512_stream_si512((__m512i *)o, part);
#elif defined(__AVX2__)
	__m256i part[2];
	memcpy(part, &v, sizeof part);
	_mm256_stream_si256((__m256i *)o, part[0]);
	_mm256_stream_si256((__m256i *)o + 1, part[1]);
#elif defined(__SSE2__)
	__m128i part[4];
	memcpy(part, &v, sizeof part);
	for (int i = 0; i < 4; i++)
		_mm_stream_si128((__m128i *)o + i, part[i]);
#else
	memcpy(o, &v, sizeof v);
#endif
}

static size_t
bytes_to_line(const void *o)
{
	return -(uintptr_t)o & 63;
}

void
LEVEL(loop_stream)(void *to, const void *from, size_t bytes)
{
	char *o = to;
	const char *x = from;
	size_t head = MIN(bytes_to_line(o), bytes);
	memcpy(o, x, head);
	for (o += head, x += head, bytes -= head; bytes >= 64; bytes -= 64, o += 64, x += 64)
		put_line(o, *(const Line *)x);
	memcpy(o, x, bytes);
}

#define STREAM(name, T, op)                                                                        \
	static void name(void *out, const void *const *in, int64_t n)                              \
	{                                                                                          \
		typedef T Lanes __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));   \
		enum { L = 64 / sizeof(T) };                                                       \
		T *o = out;                                                                        \
		const T *x = in[0], *y = in[1];                                                    \
		int64_t i = 0, head = MIN((int64_t)(bytes_to_line(o) / sizeof(T)), n);             \
		for (; i < head; i++)                                                              \
			o[i] = x[i] op y[i];                                                       \
		for (; i + L <= n; i += L)                                                         \
			put_line((char *)(o + i),                                                  \
			    (Line)(*(const Lanes *)(x + i) op *(const Lanes *)(y + i)));           \
		for (; i < n; i++)                                                                 \
			o[i] = x[i] op y[i];                                                       \
	}

STREAM(add_f32, float, +)
STREAM(sub_f32, float, -)
STREAM(mul_f32, float, *)
STREAM(div_f32, float, /)
STREAM(add_f64, double, +)
STREAM(sub_f64, double, -)
STREAM(mul_f64, double, *)
STREAM(div_f64, double, /)

LoopFn
LEVEL(loop_streaming)(OpKind kind, DType t)
{
	if (t != TY_F32 && t != TY_F64)
		return NULL;
	switch (kind) {
	case OP_ADD: return t == TY_F64 ? add_f64 : add_f32;
	case OP_SUB: return t == TY_F64 ? sub_f64 : sub_f32;
	case OP_MUL: return t == TY_F64 ? mul_f64 : mul_f32;
	case OP_DIV: return t == TY_F64 ? div_f64 : div_f32;
	default: return NULL;
	}
}
