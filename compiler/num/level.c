/* Which variants of the loops this build has, and which of them this machine runs. */
#include "num/loops.h"

#define DECLARE(level)                                                                             \
	LoopFn loop_integer_##level(OpKind kind, DType t);                                         \
	LoopFn loop_real_##level(OpKind kind, DType t, bool nan);                                  \
	LoopFn loop_math_##level(OpKind kind, DType t);                                            \
	LoopFn loop_select_##level(int size);                                                      \
	LoopFn loop_cast_##level(DType from, DType to);                                            \
	LoopFn loop_sticky_##level(DType from);                                                    \
	LoopFn loop_round_to_##level(DType to);                                                    \
	ToF32Fn loop_widen_##level(DType t);                                                       \
	FromF32Fn loop_narrow_##level(DType t, bool keeps_inf);                                    \
	RowsFn loop_rows_##level(ReduceFn fn, DType t, bool nan);                                  \
	ColumnsFn loop_columns_##level(ReduceFn fn, DType t, bool nan);                            \
	const DotKernels *loop_dot_##level(DType t);                                               \
	void loop_philox_##level(uint64_t seed, const uint64_t *offset, int64_t n,                 \
	    uint32_t *const out[4]);                                                               \
	void loop_tf32_##level(float *x, int64_t n);                                               \
	void loop_fill_##level(int size, void *out, uint64_t word, int64_t n);                     \
	void loop_stream_##level(void *to, const void *from, size_t bytes);                        \
	LoopFn loop_streaming_##level(OpKind kind, DType t);                                       \
	void loop_point_##level(uint64_t *out, const uint64_t *at, const void *index, DType t,     \
	    unsigned scalar, uint64_t size, int64_t n);                                            \
	bool loop_neighbours_##level(const uint64_t *at, uint64_t step, int64_t n);                \
	void loop_range_##level(const uint64_t *at, const uint8_t *mask, int64_t n, uint64_t *least, uint64_t *most);
#define LOOPS(level)                                                                               \
	{                                                                                          \
		loop_integer_##level, loop_real_##level, loop_math_##level, loop_select_##level,   \
		loop_cast_##level, loop_sticky_##level, loop_round_to_##level,                     \
		loop_widen_##level, loop_narrow_##level, loop_rows_##level,                        \
		loop_columns_##level, loop_dot_##level, loop_philox_##level, loop_tf32_##level,    \
		loop_fill_##level, loop_stream_##level, loop_streaming_##level, loop_point_##level, \
		loop_neighbours_##level, loop_range_##level                                        \
	}

DECLARE(base)
#if defined(NUM_X86)
DECLARE(avx2)
DECLARE(avx512)
#endif

const Loops loops_at[CPU_LEVELS] = {
	[CPU_BASE] = LOOPS(base),
#if defined(NUM_X86)
	[CPU_AVX2] = LOOPS(avx2),
	[CPU_AVX512] = LOOPS(avx512),
#endif
};

CpuLevel
cpu_level(void)
{
#if defined(NUM_X86)
	__builtin_cpu_init();
	bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
	    __builtin_cpu_supports("popcnt");
	bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512cd");
	return avx512 ? CPU_AVX512 : avx2 ? CPU_AVX2 : CPU_BASE;
#else
	return CPU_BASE;
#endif
}
