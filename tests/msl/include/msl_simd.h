// Barriers and what the lanes of a simdgroup do together.  Values are of 8 to 32 bits and their vectors; bool, bfloat,
// long and structures are refused, as Metal has no such overloads.
namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
MSL_PURE constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }

MSL_INLINE void threadgroup_barrier(mem_flags f, MSL_AT) { msl_threadgroup_barrier(uint(f), msl_line); }
MSL_INLINE void simdgroup_barrier(mem_flags f, MSL_AT) { msl_simdgroup_barrier(uint(f), msl_line); }

template <class T> struct msl_simd_type { enum { ok = 0 }; };
#define MSL_SIMD_TYPE(T)                                                                                               \
	template <> struct msl_simd_type<T> { enum { ok = 1 }; };                                                       \
	template <> struct msl_simd_type<T##2> { enum { ok = 1 }; };                                                    \
	template <> struct msl_simd_type<T##3> { enum { ok = 1 }; };                                                    \
	template <> struct msl_simd_type<T##4> { enum { ok = 1 }; };
MSL_SIMD_TYPE(char) MSL_SIMD_TYPE(uchar) MSL_SIMD_TYPE(short) MSL_SIMD_TYPE(ushort) MSL_SIMD_TYPE(int) MSL_SIMD_TYPE(uint)
MSL_SIMD_TYPE(half) MSL_SIMD_TYPE(float)
#define MSL_SIMD_CHECK static_assert(msl_simd_type<T>::ok, "simd functions take no such type")

// ---- moving ----

template <class T>
MSL_CALL T
msl_move(constant const char *what, T v, int from, int line)
{
	MSL_SIMD_CHECK;
	T r;
	msl_shuffle(what, &v, &r, sizeof(T), from, line);
	return r;
}

template <class T> MSL_INLINE T simd_shuffle(T v, ushort lane, MSL_AT) { return msl_move("simd_shuffle", v, lane, msl_line); }
template <class T> MSL_INLINE T simd_broadcast(T v, ushort lane, MSL_AT) { return msl_move("simd_broadcast", v, lane, msl_line); }
template <class T> MSL_INLINE T simd_broadcast_first(T v, MSL_AT) { return msl_move("simd_broadcast_first", v, 0, msl_line); }
template <class T>
MSL_INLINE T
simd_shuffle_xor(T v, ushort mask, MSL_AT)
{
	return msl_move("simd_shuffle_xor", v, int(msl_lane() ^ mask), msl_line);
}
template <class T>
MSL_INLINE T
simd_shuffle_up(T v, ushort delta, MSL_AT)
{
	uint lane = msl_lane();
	return msl_move("simd_shuffle_up", v, int(lane < delta ? lane : lane - delta), msl_line);
}
template <class T>
MSL_INLINE T
simd_shuffle_down(T v, ushort delta, MSL_AT)
{
	uint lane = msl_lane();
	return msl_move("simd_shuffle_down", v, int(lane + delta > 31 ? lane : lane + delta), msl_line);
}
template <class T>
MSL_INLINE T
simd_shuffle_rotate_up(T v, ushort delta, MSL_AT)
{
	return msl_move("simd_shuffle_rotate_up", v, int((msl_lane() - delta) & 31), msl_line);
}
template <class T>
MSL_INLINE T
simd_shuffle_rotate_down(T v, ushort delta, MSL_AT)
{
	return msl_move("simd_shuffle_rotate_down", v, int((msl_lane() + delta) & 31), msl_line);
}

// ---- combining: by halves, as hardware does it ----

template <class T, class F>
MSL_CALL T
msl_reduce(constant const char *what, T v, F f, int line)
{
	MSL_SIMD_CHECK;
	uint lanes;
	T all[32];
	const char *values = (const char *)msl_converge(what, &v, sizeof(T), &lanes, line);
	for (int i = 0; i < 32; i++)
		all[i] = *(const T *)(values + 32 * i);
	for (int n = 16; n; n >>= 1)
		for (int i = 0; i < n; i++)
			if (lanes >> (i + n) & 1) {
				all[i] = lanes >> i & 1 ? f(all[i], all[i + n]) : all[i + n];
				lanes |= 1u << i;
			}
	return all[0];
}

template <class T, class F>
MSL_CALL T
msl_scan(constant const char *what, T v, T start, bool own, F f, int line)
{
	MSL_SIMD_CHECK;
	uint lanes;
	const char *values = (const char *)msl_converge(what, &v, sizeof(T), &lanes, line);
	T r = start;
	for (uint i = 0, me = msl_lane(); i < me + own; i++)
		if (lanes >> i & 1)
			r = f(r, *(const T *)(values + 32 * i));
	return r;
}

#define MSL_REDUCE(name, e)                                                                                            \
	template <class T> MSL_INLINE T simd_##name(T v, MSL_AT)                                                        \
	{ return msl_reduce("simd_" #name, v, [](T a, T b) -> T { return e; }, msl_line); }
MSL_REDUCE(sum, a + b) MSL_REDUCE(product, a *b) MSL_REDUCE(min, metal::min(a, b)) MSL_REDUCE(max, metal::max(a, b))
MSL_REDUCE(and, a &b) MSL_REDUCE(or, a | b) MSL_REDUCE(xor, a ^ b)

#define MSL_SCAN(name, start, own, e)                                                                                  \
	template <class T> MSL_INLINE T simd_prefix_##name(T v, MSL_AT)                                                 \
	{ return msl_scan("simd_prefix_" #name, v, T(start), own, [](T a, T b) -> T { return e; }, msl_line); }
MSL_SCAN(inclusive_sum, 0, true, a + b) MSL_SCAN(exclusive_sum, 0, false, a + b)
MSL_SCAN(inclusive_product, 1, true, a *b) MSL_SCAN(exclusive_product, 1, false, a *b)

class simd_vote {
	ulong msl_bits;
public:
	typedef ulong vote_t;
	explicit constexpr simd_vote(vote_t v = 0) : msl_bits(v) {}
	explicit constexpr operator vote_t() const { return msl_bits; }
	constexpr bool all() const { return msl_bits == 0xffffffff; }
	constexpr bool any() const { return msl_bits != 0; }
};

MSL_CALL uint
msl_vote(constant const char *what, bool v, thread uint *lanes, int line)
{
	const char *values = (const char *)msl_converge(what, &v, sizeof v, lanes, line);
	uint r = 0;
	for (int i = 0; i < 32; i++)
		if (*lanes >> i & 1)
			r |= uint(*(const bool *)(values + 32 * i)) << i;
	return r;
}

MSL_INLINE simd_vote simd_ballot(bool v, MSL_AT) { uint n; return simd_vote(msl_vote("simd_ballot", v, &n, msl_line)); }
MSL_INLINE bool simd_any(bool v, MSL_AT) { uint n; return msl_vote("simd_any", v, &n, msl_line) != 0; }
MSL_INLINE bool simd_all(bool v, MSL_AT) { uint n; uint r = msl_vote("simd_all", v, &n, msl_line); return r == n; }
MSL_INLINE bool simd_is_first(MSL_AT) { return msl_lane() == 0; }

// ---- quads: four neighbouring lanes ----

template <class T>
MSL_INLINE T
quad_shuffle_xor(T v, ushort mask, MSL_AT)
{
	return msl_move("quad_shuffle_xor", v, int(msl_lane() ^ (mask & 3)), msl_line);
}
template <class T>
MSL_INLINE T
quad_broadcast(T v, ushort lane, MSL_AT)
{
	return msl_move("quad_broadcast", v, int((msl_lane() & ~3u) + (lane & 3)), msl_line);
}

} // namespace metal
