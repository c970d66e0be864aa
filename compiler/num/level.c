/* Which variants of the loops this build has, and which of them this machine runs. */
#include "num/loops.h"

#define DECLARE(name, result, arguments)                                                           \
	result loop_##name##_base arguments;                                                       \
	result loop_##name##_avx2 arguments;                                                       \
	result loop_##name##_avx512 arguments;
LOOP_LIST(DECLARE)

#define BASE(name, result, arguments) .name = loop_##name##_base,
#define AVX2(name, result, arguments) .name = loop_##name##_avx2,
#define AVX512(name, result, arguments) .name = loop_##name##_avx512,

const Loops loops_at[CPU_LEVELS] = {
	[CPU_BASE] = {LOOP_LIST(BASE)},
#if defined(NUM_X86)
	[CPU_AVX2] = {LOOP_LIST(AVX2)},
	[CPU_AVX512] = {LOOP_LIST(AVX512)},
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
