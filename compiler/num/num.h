/* Arithmetic on elements of every dtype, one at a time or in whole tiles: for folding, the interpreter, the emulator and
 * the runtime.  Tiles are contiguous and row-major, in the tile formats of dtypes.def.
 *
 * The loops are compiled once for each level of CPU; a caller takes cpu_level() once and passes it along.  Elementwise
 * results, casts, reductions, scans and Philox are the same bits on every level: they use no fused multiply-add except
 * in the op fma.  Dots of floats may differ in the last bits between levels.
 *
 *     Elem e;
 *     elem_make(&e, cpu_level(), OP_ADD, in, 2, TY_F16, 0);
 *     elem_run(&e, out, (const void *[]){x, y}, 1u << 1, n);       y is one element, used for all n
 */
#ifndef TEGULA_NUM_H
#define TEGULA_NUM_H

#include "ir/ir.h"

/* RUN with the unsigned integer of so many bytes. */
#define BY_SIZE(size, RUN)                                                                         \
	switch (size) {                                                                            \
	case 1: RUN(uint8_t); break;                                                               \
	case 2: RUN(uint16_t); break;                                                              \
	case 4: RUN(uint32_t); break;                                                              \
	default: RUN(uint64_t);                                                                    \
	}

typedef enum CpuLevel { CPU_BASE, CPU_AVX2, CPU_AVX512, CPU_LEVELS } CpuLevel;

CpuLevel cpu_level(void);                               /* the best that this machine runs */

/* elem.c: every ELEM op but ptr_add and ptr_diff */

enum {
	ELEM_NAN = 1 << 0,                              /* {propagate_nan} of min and max */
	ELEM_EXACT = 1 << 1,                            /* a cast to the type that the elements came from: infinity stays */
};

/* n elements.  Bit i of `scalar`: operand i is one element that stands for all n.  out may be the same
 * address as an operand whose elements have its size; else they do not overlap. */
typedef void (*LoopFn)(void *out, const void *const *in, int64_t n);
typedef void (*ToF32Fn)(const void *in, float *out, int64_t n);
typedef void (*FromF32Fn)(const float *in, void *out, int64_t n);

typedef struct Elem Elem;
struct Elem {
	void (*run)(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n);
	LoopFn loop;                                    /* the work itself, on wide types */
	LoopFn pre;                                     /* cast: a step before; 4-bit integers: the wrap after */
	LoopFn streaming;                               /* the same, writing past the caches, or NULL */
	ToF32Fn widen[3];                               /* narrow floats: how operands become f32 … */
	FromF32Fn narrow;                               /* … and the result is rounded */
	int nin, in_size[3], out_size;
	CpuLevel level;
	DType index;                                    /* lookup: of the operand */
	const int64_t *table;
	int ntable;
};

static inline bool dtype_is_narrow(DType t) { return dtype_is_float(t) && t != TY_F32 && t != TY_F64; }

/* Prepares an op for operand types in[0..nin) and result type out.  False only for what is not an ELEM op
 * on plain elements (select of pointers: give TY_I64 for them; bool tiles are TY_BOOL). */
bool elem_make(Elem *e, CpuLevel level, OpKind kind, const DType *in, int nin, DType out, unsigned flags);
/* lookup takes its table besides, which stays the caller's. */
void elem_make_lookup(Elem *e, DType index, DType out, const int64_t *bits, int n);

void elem_run(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n);

/* The same for results that go to memory and are not looked at soon (tensors larger than the caches): whole
 * cache lines are written past them.  stream_fence() before another thread may look. */
void elem_stream(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n);
void stream_fence(void);

/* fold.c: the {value} that an ELEM op gives for those of its operands; of a constant, as its type holds it.  False: not of
 * plain elements. */
bool elem_fold(const Op *op, const Attr *in, Attr *out);
bool elem_fold_const(const Op *op, Attr *out);

void tile_fill(int size, void *out, const void *one, int64_t n);        /* n copies of one element of `size` bytes */
void tile_iota(DType t, void *out, int64_t start, int64_t n);           /* start, start + 1, …; integers wrap */

/* reduce.c: tiles seen as [outer, n, inner], reduced or scanned along the middle */

typedef enum ReduceFn {
	RED_SUM, RED_PROD, RED_MAX, RED_MIN, RED_ARGMAX, RED_ARGMIN, RED_ANY, RED_ALL, RED_XOR_SUM, RED_COUNT
} ReduceFn;

bool reduce_named(const char *text, ReduceFn *out);     /* "sum" … */

typedef struct Reduce {
	ReduceFn fn;
	DType in, out;                                  /* sums and products are accumulated in out */
	bool propagate_nan, reverse;                    /* reverse: of scans */
	CpuLevel level;
} Reduce;

/* out[outer, inner].  Empty (n == 0): sum 0, prod 1, max the least value, arg 0, any false, all true, xor 0.
 * argmax, argmin: the first of equals; NaN loses, unless propagate_nan: then the first NaN wins. */
void reduce_run(const Reduce *r, const void *a, int64_t outer, int64_t n, int64_t inner, void *out);
/* out[outer, n, inner]; fn sum, prod, max, min; strictly in order.  out may be a if the types are one. */
void scan_run(const Reduce *r, const void *a, int64_t outer, int64_t n, int64_t inner, void *out);

/* dot.c */

typedef struct Dot {
	DType a, b, out;                                /* out is also the type of acc */
	int64_t batch, m, n, k;
	int64_t a_batch, a_row, a_col;                  /* strides of a[batch, m, k], in elements, any */
	int64_t b_batch, b_row, b_col;                  /* of b[batch, k, n] */
	bool tf32;                                      /* f32 operands are rounded to tf32 first */
	CpuLevel level;
} Dot;

/* Strides of contiguous operands. */
void dot_dense(Dot *d);
size_t dot_scratch(const Dot *d);                       /* bytes of scratch for dot_run; 0 is possible */
/* out = a @ b + acc, out and acc contiguous [batch, m, n]; acc may be out, or NULL for zeros.  scratch is
 * aligned to 64.  Floats multiply and add in f32 (f64 if out is), integers wrap in out. */
void dot_run(const Dot *d, const void *a, const void *b, const void *acc, void *out, void *scratch);

/* philox.c: Philox 4x32-10.  Counter: low and high word of the offset, sign-extended if its type has a sign, 0, 0.
 * Key: the words of the seed. */
void philox_run(CpuLevel level, uint64_t seed, DType offset_type, const void *offset, int64_t n,
    uint32_t *const out[4]);

/* convert.c: one element to and from f64 or i64, in the memory format of a dtype (packed: index counts elements) */
double dtype_load_f64(DType t, const void *base, int64_t index);
/* floats: to nearest even, fp8 saturates but for an infinity that it has; integers truncate and saturate */
void dtype_store_f64(DType t, void *base, int64_t index, double v);
void dtype_convert_f64(DType t, void *base, int64_t index, double v);   /* as `as` does: infinity saturates too */
int64_t dtype_load_i64(DType t, const void *base, int64_t index);
void dtype_store_i64(DType t, void *base, int64_t index, int64_t v);    /* wraps */

/* Appends the shortest decimal that reads back as the same element of that type. */
void float_format(DType t, double x, Text *out);


/* … and blocks between formats */

/* Packed 4-bit memory to and from tile elements; `at` counts elements from base. */
void tile_unpack(DType t, const void *base, int64_t at, void *out, int64_t n);
void tile_pack(const void *in, void *base, int64_t at, int64_t n);

/* Monte Carlo arithmetic: each x becomes x * (1 + u * r), r uniform in (-1, 1). */
void perturb_f64(CpuLevel level, double *x, int64_t n, double u, uint64_t *rng);

#endif
