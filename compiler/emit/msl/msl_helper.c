/* What the file's head holds besides kernels: small functions that Metal lacks, only those that are used. */
#include "emit/msl/msl.h"

#include <string.h>

#define FRAGMENT(type)                                                                             \
	"// Two elements of each lane as an 8 x 8 matrix.\n"                                       \
	"static inline simdgroup_" type "8x8 matrix_of(" type "2 v) {\n"                           \
	"    simdgroup_" type "8x8 m;\n"                                                           \
	"    m.thread_elements()[0] = v.x;\n"                                                      \
	"    m.thread_elements()[1] = v.y;\n"                                                      \
	"    return m;\n"                                                                          \
	"}\n"

#define SWAP(space)                                                                                \
	"static inline uint compare_and_swap(" space " atomic_uint *p, uint compare, uint v) {\n"  \
	"    uint old = compare;\n"                                                                \
	"    while (!atomic_compare_exchange_weak_explicit(p, &old, v, memory_order_relaxed, memory_order_relaxed) &&\n" \
	"           old == compare) {\n"                                                           \
	"    }\n"                                                                                  \
	"    return old;\n"                                                                        \
	"}\n"

static const struct {
	const char *name, *text;
} helper[HELPERS] = {
	[HELPER_TO_INT] = {"to_int",
	    "// Towards zero, held to what fits; NaN is 0.\n"
	    "static inline int to_int(float x) {\n"
	    "    return x >= 2147483648.0f ? 2147483647\n"
	    "         : x <= -2147483648.0f ? (-2147483647 - 1) : isnan(x) ? 0 : int(x);\n"
	    "}\n"
	    "static inline int2 to_int(float2 x) { return int2(to_int(x.x), to_int(x.y)); }\n"
	    "static inline int4 to_int(float4 x) { return int4(to_int(x.xy), to_int(x.zw)); }\n"},
	[HELPER_TO_UINT] = {"to_uint",
	    "// Towards zero, held to what fits; NaN is 0.\n"
	    "static inline uint to_uint(float x) { return x >= 4294967296.0f ? 0xffffffffu : x > 0.0f ? uint(x) : 0u; }\n"
	    "static inline uint2 to_uint(float2 x) { return uint2(to_uint(x.x), to_uint(x.y)); }\n"
	    "static inline uint4 to_uint(float4 x) { return uint4(to_uint(x.xy), to_uint(x.zw)); }\n"},
	[HELPER_TO_LONG] = {"to_long",
	    "// Towards zero, held to what fits; NaN is 0.\n"
	    "static inline long to_long(float x) {\n"
	    "    return x >= 9223372036854775808.0f ? 9223372036854775807L\n"
	    "         : x <= -9223372036854775808.0f ? (-9223372036854775807L - 1) : isnan(x) ? 0L : long(x);\n"
	    "}\n"},
	[HELPER_TO_ULONG] = {"to_ulong",
	    "// Towards zero, held to what fits; NaN is 0.\n"
	    "static inline ulong to_ulong(float x) {\n"
	    "    return x >= 18446744073709551616.0f ? 0xfffffffffffffffful : x > 0.0f ? ulong(x) : 0ul;\n"
	    "}\n"},
	[HELPER_FRAGMENT_HALF] = {"matrix_of", FRAGMENT("half")},
	[HELPER_FRAGMENT_BFLOAT] = {"matrix_of", FRAGMENT("bfloat")},
	[HELPER_FRAGMENT_FLOAT] = {"matrix_of", FRAGMENT("float")},
	[HELPER_SWAP] = {"compare_and_swap",
	    "// What was there; v is there now if that was `compare`.\n" SWAP("device")},
	[HELPER_SWAP_SHARED] = {"compare_and_swap", SWAP("threadgroup")},
	[HELPER_ADD_SHARED] = {"add_atomically",
	    "static inline float add_atomically(threadgroup atomic_uint *p, float v) {\n"
	    "    uint old = atomic_load_explicit(p, memory_order_relaxed);\n"
	    "    while (!atomic_compare_exchange_weak_explicit(p, &old, as_type<uint>(as_type<float>(old) + v),\n"
	    "                                                  memory_order_relaxed, memory_order_relaxed)) {\n"
	    "    }\n"
	    "    return as_type<float>(old);\n"
	    "}\n"},
	[HELPER_BALLOT] = {"ballot",
	    "static inline uint ballot(bool b) { return uint(simd_vote::vote_t(simd_ballot(b))); }\n"},
};

const char *
msl_helper(Msl *m, MslHelper h)
{
	m->helpers |= 1u << h;
	return helper[h].name;
}

void
msl_helpers_text(const Msl *m, Text *out)
{
	for (int h = 0; h < HELPERS; h++)
		if (m->helpers >> h & 1 && (!out->at || !strstr(out->at, helper[h].text)))
			text_printf(out, "%s\n", helper[h].text);
}
