// Atomics of Metal 3.1: 32 bits, relaxed; float in device memory alone; min and max of ulong as a statement.
namespace metal {

#define memory_order msl_memory_order
enum msl_memory_order { memory_order_relaxed };

// (clang knows types of these names itself)
#define atomic_int msl_atomic_int
#define atomic_uint msl_atomic_uint
#define atomic_float msl_atomic_float
#define atomic_ulong msl_atomic_ulong

template <class T> struct atomic { T msl_value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
typedef atomic<ulong> atomic_ulong;

enum { MSL_LOAD, MSL_STORE, MSL_EXCHANGE, MSL_CAS, MSL_ADD, MSL_SUB, MSL_MIN, MSL_MAX, MSL_AND, MSL_OR, MSL_XOR };
enum { MSL_I32, MSL_U32, MSL_F32, MSL_U64 };
template <class T> struct msl_atomic_type;
template <> struct msl_atomic_type<int> { enum { is = MSL_I32 }; };
template <> struct msl_atomic_type<uint> { enum { is = MSL_U32 }; };
template <> struct msl_atomic_type<float> { enum { is = MSL_F32 }; };

template <class T, class P>
MSL_INLINE T
msl_do(int op, P at, T v, T expected, int line)
{
	return as_type<T>(uint(msl_atomic(op, msl_atomic_type<T>::is, at, as_type<uint>(v), as_type<uint>(expected), line)));
}

#define MSL_ATOMIC(T, SPACE, name, op)                                                                                 \
	MSL_INLINE T atomic_##name##_explicit(volatile SPACE atomic<T> *at, T v, memory_order, MSL_AT)                  \
	{ return msl_do<T>(op, at, v, v, msl_line); }
#define MSL_ATOMIC_WORD(T, SPACE)                                                                                      \
	MSL_INLINE T atomic_load_explicit(const volatile SPACE atomic<T> *at, memory_order, MSL_AT)                     \
	{ return msl_do<T>(MSL_LOAD, (volatile SPACE atomic<T> *)at, T(0), T(0), msl_line); }                           \
	MSL_INLINE void atomic_store_explicit(volatile SPACE atomic<T> *at, T v, memory_order, MSL_AT)                  \
	{ msl_do<T>(MSL_STORE, at, v, v, msl_line); }                                                                   \
	MSL_ATOMIC(T, SPACE, exchange, MSL_EXCHANGE)                                                                    \
	MSL_INLINE bool atomic_compare_exchange_weak_explicit(volatile SPACE atomic<T> *at, thread T *expected, T v,    \
	    memory_order, memory_order, MSL_AT)                                                                         \
	{                                                                                                               \
		T want = *expected, old = msl_do<T>(MSL_CAS, at, v, want, msl_line);                                    \
		*expected = old;                                                                                        \
		return as_type<uint>(old) == as_type<uint>(want);                                                       \
	}
#define MSL_ATOMIC_INTEGER(T, SPACE)                                                                                   \
	MSL_ATOMIC_WORD(T, SPACE)                                                                                       \
	MSL_ATOMIC(T, SPACE, fetch_add, MSL_ADD) MSL_ATOMIC(T, SPACE, fetch_sub, MSL_SUB)                               \
	MSL_ATOMIC(T, SPACE, fetch_min, MSL_MIN) MSL_ATOMIC(T, SPACE, fetch_max, MSL_MAX)                               \
	MSL_ATOMIC(T, SPACE, fetch_and, MSL_AND) MSL_ATOMIC(T, SPACE, fetch_or, MSL_OR)                                 \
	MSL_ATOMIC(T, SPACE, fetch_xor, MSL_XOR)
MSL_ATOMIC_INTEGER(int, device) MSL_ATOMIC_INTEGER(uint, device)
MSL_ATOMIC_INTEGER(int, threadgroup) MSL_ATOMIC_INTEGER(uint, threadgroup)
MSL_ATOMIC_WORD(float, device)
MSL_ATOMIC(float, device, fetch_add, MSL_ADD)
MSL_ATOMIC(float, device, fetch_sub, MSL_SUB)
#define MSL_ATOMIC_LONG(name, op)                                                                                      \
	MSL_INLINE void atomic_##name##_explicit(volatile device atomic<ulong> *at, ulong v, memory_order, MSL_AT)      \
	{ msl_atomic(op, MSL_U64, at, v, v, msl_line); }
MSL_ATOMIC_LONG(min, MSL_MIN) MSL_ATOMIC_LONG(max, MSL_MAX)

} // namespace metal
