// Matrices of 8 x 8 that a simdgroup holds, two elements a lane.  Metal does not define which two: the program that runs the
// kernel decides (msl_fragment_at), and may decide otherwise each time.
namespace metal {

template <class T> struct msl_matrix_type { enum { ok = 0 }; };
template <> struct msl_matrix_type<half> { enum { ok = 1 }; };
template <> struct msl_matrix_type<float> { enum { ok = 1 }; };
template <> struct msl_matrix_type<bfloat> { enum { ok = 1 }; };

template <class T> struct msl_pair { T v[2]; };

template <class T, int R, int C> struct simdgroup_matrix {
	static_assert(msl_matrix_type<T>::ok, "simdgroup_matrix is of half, bfloat or float");
	static_assert(R == 8 && C == 8, "simdgroup_matrix has 8 rows and 8 columns");
	typedef vec<T, 2> storage_type;
	storage_type msl_held;

	simdgroup_matrix() = default;
	// the diagonal
	explicit simdgroup_matrix(T x)
	{
		for (uint e = 0; e < 2; e++) {
			uint at = msl_fragment_at(msl_lane(), e);
			msl_set(e, at / 8 == at % 8 ? x : T(0.0f));
		}
	}
	MSL_INLINE thread storage_type &thread_elements() { return *(thread storage_type *)&msl_held; }
	MSL_INLINE T msl_get(uint e) const { return e ? msl_held.y : msl_held.x; }
	MSL_INLINE void msl_set(uint e, T v) { if (e) msl_held.y = v; else msl_held.x = v; }
};

typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int R, int C>
MSL_INLINE simdgroup_matrix<T, R, C>
make_filled_simdgroup_matrix(T x)
{
	simdgroup_matrix<T, R, C> m;
	m.msl_set(0, x);
	m.msl_set(1, x);
	return m;
}

MSL_INLINE long
msl_matrix_at(uint e, ulong per_row, ulong2 origin, bool transpose)
{
	uint at = msl_fragment_at(msl_lane(), e), row = at / 8, column = at % 8;
	return transpose ? long((origin.y + column) * per_row + origin.x + row)
	                 : long((origin.y + row) * per_row + origin.x + column);
}

template <class T, class P>
MSL_CALL void
msl_matrix_load(thread simdgroup_matrix<T, 8, 8> &m, P from, ulong per_row, ulong2 origin, bool transpose, int line)
{
	uint lanes;
	char none = 0;
	msl_converge("simdgroup_load", &none, 1, &lanes, line);
	for (uint e = 0; e < 2; e++) {
		T v;
		msl_read(&v, from + msl_matrix_at(e, per_row, origin, transpose), sizeof(T), line);
		m.msl_set(e, v);
	}
}

template <class T, class P>
MSL_CALL void
msl_matrix_store(const thread simdgroup_matrix<T, 8, 8> &m, P to, ulong per_row, ulong2 origin, bool transpose, int line)
{
	uint lanes;
	char none = 0;
	msl_converge("simdgroup_store", &none, 1, &lanes, line);
	for (uint e = 0; e < 2; e++) {
		T v = m.msl_get(e);
		msl_write(to + msl_matrix_at(e, per_row, origin, transpose), &v, sizeof(T), line);
	}
}

#define MSL_MATRIX_MEMORY(SPACE)                                                                                       \
	template <class T> MSL_INLINE void                                                                              \
	simdgroup_load(thread simdgroup_matrix<T, 8, 8> &m, const SPACE T *from, ulong per_row = 8,                     \
	    ulong2 origin = ulong2(0ul), bool transpose = false, MSL_AT)                                                \
	{ msl_matrix_load(m, from, per_row, origin, transpose, msl_line); }                                             \
	template <class T> MSL_INLINE void                                                                              \
	simdgroup_store(thread simdgroup_matrix<T, 8, 8> m, SPACE T *to, ulong per_row = 8,                             \
	    ulong2 origin = ulong2(0ul), bool transpose = false, MSL_AT)                                                \
	{ msl_matrix_store(m, to, per_row, origin, transpose, msl_line); }
MSL_MATRIX_MEMORY(device)
MSL_MATRIX_MEMORY(threadgroup)

// D = A B + C; the four types are independent of each other
template <class D, class A, class B, class C>
MSL_CALL void
msl_matrix_multiply(thread simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b,
    simdgroup_matrix<C, 8, 8> c, constant const char *what, int line)
{
	const float mine[6] = {float(a.msl_get(0)), float(a.msl_get(1)), float(b.msl_get(0)), float(b.msl_get(1)),
		float(c.msl_get(0)), float(c.msl_get(1))};
	float made[2];
	msl_multiply(what, mine, made, line);
	d.msl_set(0, D(made[0]));
	d.msl_set(1, D(made[1]));
}

template <class D, class A, class B, class C>
MSL_INLINE void
simdgroup_multiply_accumulate(thread simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b,
    simdgroup_matrix<C, 8, 8> c, MSL_AT)
{
	msl_matrix_multiply(d, a, b, c, "simdgroup_multiply_accumulate", msl_line);
}

template <class D, class A, class B>
MSL_INLINE void
simdgroup_multiply(thread simdgroup_matrix<D, 8, 8> &d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, MSL_AT)
{
	msl_matrix_multiply(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0.0f)), "simdgroup_multiply", msl_line);
}

} // namespace metal
