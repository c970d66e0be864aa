/* Names of variables: none that Metal or its headers have, and none twice. */
#include "emit/msl/msl.h"

#include <string.h>

/* What a variable must not be called: Metal's words, and its functions that the text may call. */
static const char reserved[] =
    " alignas alignof and and_eq array as_type asm assert atomic auto bfloat bitand bitor bool break case "
    "catch char char16_t char32_t class compl complex const const_cast constant constexpr continue decltype "
    "default delete device do double dynamic_cast else enum explicit export extern false fast float for "
    "fragment friend goto half if imageblock inline int kernel lane lid long mem_flags memory_order_relaxed "
    "metal mutable namespace new noexcept not not_eq nullptr object_data operator or or_eq precise private "
    "protected public ray_data register reinterpret_cast return sampler sg shared short signed simdgroup "
    "sizeof static static_assert static_cast struct switch template texture tg tgs this thread thread_local "
    "threadgroup threadgroup_barrier threadgroup_imageblock throw true try typedef typeid typename typeof "
    "uchar uint ulong union unsigned ushort using vec vertex virtual void volatile wchar_t while xor xor_eq "
    "abs acos asin atan atan2 ceil clamp clz cos cosh exp exp2 fabs floor fma fmax fmin isnan isunordered "
    "log log2 max min mix mulhi popcount pow rint rsqrt saturate select sign sin sinh sqrt step tan tanh "
    "trunc make_filled_simdgroup_matrix "
    "NULL offsetof char8_t co_await co_return co_yield concept consteval constinit requires "
    "erf expm1 log1p rem sigmoid event generic global local pipe add_atomically ballot compare_and_swap "
    "matrix_of to_int to_uint to_long to_ulong main NAN INFINITY MAXFLOAT MAXHALF HUGE_VALF HUGE_VALH "
    "VARIABLE_TRACEPOINT STATIC_DATA_TRACEPOINT ";

/* Metal's headers have macros of these families; words that begin with _ and a capital are C's own. */
static const char *const reserved_start[] = {"simd", "atomic", "__", "METAL_", "M_", "FLT_", "DBL_", "HALF_", "BFLOAT_",
	"CHAR_", "SCHAR_", "UCHAR_", "SHRT_", "USHRT_", "INT_", "UINT_", "LONG_", "ULONG_", "FP_"};

static bool
starts_reserved(const char *s)
{
	if (s[0] == '_' && s[1] >= 'A' && s[1] <= 'Z')
		return true;
	return ANY_OF(i, LEN(reserved_start), strncmp(s, reserved_start[i], strlen(reserved_start[i])) == 0);
}

static int
find_name(const Msl *m, const char *s)
{
	return FIRST_OF(i, m->names.n, strcmp(m->names.at[i], s) == 0);
}

static bool
is_vector_word(const char *s)
{
	static const char *const base[] = {"float", "half", "bfloat", "int", "uint", "long", "ulong", "char", "uchar",
	    "short",
		"ushort", "bool"};
	size_t n = strlen(s);
	return ANY_OF(i, LEN(base),
	    strncmp(s, base[i], strlen(base[i])) == 0 && n == strlen(base[i]) + 1 &&
		char_is_digit(s[n - 1]));
}

static void
take_name(Msl *m, const char *s)
{
	vec_push(m->mem, &m->names, s);
	vec_push(m->mem, &m->numbered, 0);
}

const char *
msl_fresh(Msl *m, const char *hint)
{
	if (starts_reserved(hint))
		hint = arena_printf(m->mem, "v_%s", hint);
	int at = find_name(m, hint);
	bool taken = words_have(reserved, hint) || is_vector_word(hint);
	if (at < 0 && !taken) {
		take_name(m, arena_strdup(m->mem, hint));
		return vec_last(&m->names);
	}
	if (at < 0) {
		take_name(m, arena_strdup(m->mem, hint));
		at = m->names.n - 1;
	}
	bool ends_in_digit = char_is_digit(hint[strlen(hint) - 1]);
	for (;;) {
		char *s = arena_printf(m->mem, ends_in_digit ? "%s_%d" : "%s%d", hint, ++m->numbered.at[at]);
		if (find_name(m, s) < 0 && !is_vector_word(s) && !words_have(reserved, s)) {
			take_name(m, s);
			return s;
		}
	}
}
