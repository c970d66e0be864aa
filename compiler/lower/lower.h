/* From tile ops with layouts to what one thread does: each tile becomes as many registers as its layout says that a
 * thread holds elements, in the order of the layout's register bits.
 *
 *     %v = read %x, %row, %0 {index = "ip", extents = [1024], vector = 4} : f32[1024] #0
 *  =>
 *     r10 = load.global.f32x4 [r3 + r9] mask r8        once for every four registers
 *
 * One walk over the structured ops records thread IR; a file a family of ops.  What is decided here is only how; where
 * tiles live, how wide accesses are, which instruction multiplies and where barriers stand was decided by the passes
 * and is read off layouts and attributes. */
#ifndef TEGULA_LOWER_H
#define TEGULA_LOWER_H

#include "lower/artefact.h"
#include "model/model.h"
#include "thread/thread.h"

/* What the sine, the cosine and the tangent of an angle have in common: quarter turns, and functions of the rest. */
enum { ANGLE_TURNS, ANGLE_SINE, ANGLE_COSINE, ANGLE_PARTS };

typedef struct LowerAngle {
	Reg of, part[ANGLE_PARTS];
} LowerAngle;

typedef struct Lower {
	ThreadBuilder *b;                               /* what it records into */
	const Target *t;
	Compile *cx;
	Func *f;
	Arena *mem;
	Reg **regs;                                     /* by Value.id; see lower_regs */
	struct LowerPair **pairs;                       /* the same: of fields of words */
	VEC(struct LowerTwin) twins;                    /* see lower_packed_get */
	VEC(int) twin_of;                               /* by a twin's first register its number, from 1 on; 0: none */
	Reg *param;                                     /* in order of the kernel's parameters, artefact.h's */
	AbiParam *abi;
	TensorMap *map;                                 /* ABI_TENSOR_MAP */
	int nabi, nmaps;
	Reg thread, lane, warp;                         /* REG_I32: within the block; the warp's number is uniform */
	Reg block;                                      /* REG_I32: this block's linear index */
	Reg shared;                                     /* REG_SHARED: start of the block's shared memory */
	int warps;
	Reg program[MAX_AXES], programs[MAX_AXES];      /* REG_I64: program_id and num_programs */
	VEC(LowerAngle) angles;                         /* whose parts were computed, behind a branch */
	int role;                                       /* within roles: its number from 1, its barrier's … */
	Reg role_copy;                                  /* … plus this (REG_I32) where several groups run it; 0: one does */
	bool is_lone;                                   /* one thread runs the role: its thread 0 */
	VEC(const Op *) together;                       /* products that one before them has computed (matrix/dot_fma.c) */
	VEC(Reg) held;                                  /* by products under way, until the next dot_wait */
	int nscratch;                                   /* uses of its scratch that the current op has made */
	bool stores_through_pointers;                   /* so that any tensor may be written */
	bool reduces_angles, calls_angles;
	bool has_halos;                                 /* accesses start apart by a few elements (lower_has_halos) */
} Lower;

/* lower.c */

/* The type of a register that holds an element: bool REG_PRED; i8, u8, fp8 and 4-bit values REG_I8 (4-bit sign- or
 * zero-extended), f16 REG_F16, pointers REG_GLOBAL. */
RegType lower_type(const Type *t);
/* How many registers hold a value: 2^register bits of its layout, 1 for a scalar. */
int lower_count(const Value *v);
Reg *lower_regs(Lower *l, const Value *v);              /* lower_count(v) of them, made before */
Reg *lower_new(Lower *l, Value *v);                     /* room for a result's registers */
void lower_block(Lower *l, const Block *b);             /* every op of it but the yield */
void lower_op(Lower *l, Op *op);
int lower_number(const Op *op, const Func *f);          /* among the function's ops of its kind, in text order, from 1 */

/* The parameter of that kind; 0 if the kernel has none. */
Reg lower_param(const Lower *l, AbiKind kind, int param, int dim);
/* program.c: l->program becomes the position on the grid of program number `at`; `grid` is of at's type, and not the
 * launch's along axes `others`, bits. */
void lower_find_program(Lower *l, Reg at, const Reg grid[MAX_AXES], int group, int others);
/* What ops program_at and program_exists give. */
Reg lower_program_at(Lower *l, const Op *op, int axis);
Reg lower_program_exists(Lower *l, const Op *op);
void lower_program_of(Lower *l, const Op *op);          /* finds l->program, where no op of the loop over programs has */
/* Extent of a tensor's dimension and elements between neighbours (REG_I64). */
Reg lower_dim(Lower *l, const Value *tensor, int dim);
Reg lower_extent(Lower *l, const Op *access, int dim);          /* with what the access merges with it */
Reg lower_stride(Lower *l, const Value *tensor, int dim);
/* Elements between neighbours where it is known when compiling, else -1. */
int64_t lower_constant_stride(Lower *l, const Value *tensor, int dim);
Reg lower_zero(Lower *l, RegType t);
void lower_zeros(Lower *l, Value *v);                   /* for all of a result */
/* Reports at the op what the target cannot do; the op's results become zeros. */
void lower_refuse(Lower *l, const Op *op, const char *what);
/* Threads that run the op: of the block or of its role. */
static inline int lower_threads(const Lower *l) { return l->is_lone ? 1 : l->warps * l->t->lanes; }
/* A block's barrier (a role's, within it), or a warp's. */
void lower_barrier(Lower *l);
void lower_warp_barrier(Lower *l);
/* share.c: shared memory of a block; each of its warps becomes a block of one program; what follows, up to lower_end_when,
 * only if there is such a program: the last block may have fewer than the others */
int64_t lower_block_bytes(const Func *f, const Target *t);
void lower_share_block(Lower *l);
void lower_when_program(Lower *l, const Reg grid[MAX_AXES]);
/* Where op's scratch begins (REG_SHARED), free to be written: the second use by an op waits at a barrier for the first. */
Reg lower_scratch(Lower *l, const Op *op);
/* Operand i in layout `want` (equal shapes), through the op's scratch where the plan says so; NULL: as it is. */
const Reg *lower_operand(Lower *l, const Op *op, int i, const Layout *want);

/* Short forms of calls to the builder. */
static inline Reg lower_i32(Lower *l, int64_t v) { return thread_int_const(l->b, REG_I32, v); }
static inline Reg lower_i64(Lower *l, int64_t v) { return thread_int_const(l->b, REG_I64, v); }
static inline Reg lower_op1(Lower *l, ThreadOp op, Reg a) { return thread_op(l->b, op, a, 0, 0); }
static inline Reg lower_op2(Lower *l, ThreadOp op, Reg a, Reg b) { return thread_op(l->b, op, a, b, 0); }
static inline Reg lower_op3(Lower *l, ThreadOp op, Reg a, Reg b, Reg c) { return thread_op(l->b, op, a, b, c); }
static inline Reg lower_as(Lower *l, ThreadCast c, RegType to, Reg a) { return thread_cast(l->b, c, to, a); }
/* Both, where 0 stands for true. */
static inline Reg lower_both(Lower *l, Reg a, Reg b) { return a && b ? lower_op2(l, THREAD_AND, a, b) : a ? a : b; }

/* True where bit `i` of a number (a thread's, lane's or warp's) is set. */
static inline Reg
lower_bit(Lower *l, Reg number, int i)
{
	return lower_op2(l, THREAD_NE, lower_op2(l, THREAD_AND, number, lower_i32(l, INT64_C(1) << i)), lower_i32(l, 0));
}

/* The type that stands in memory: bool a byte, pointers i64. */
static inline RegType
lower_memory_type(RegType t)
{
	return t == REG_PRED ? REG_I8 : t == REG_GLOBAL ? REG_I64 : t;
}

/* An access to one element in shared memory; its offset and mask are to be set. */
static inline ThreadAccess
lower_shared_access(Reg base, RegType t)
{
	return (ThreadAccess){.space = SPACE_SHARED, .type = lower_memory_type(t), .n = 1, .base = base,
		.align = thread_type_bytes(t)};
}

/* Register bits whose registers repeat others' elements. */
static inline uint64_t lower_repeats(const Layout *l) { return l ? layout_free_bits(l, IN_REGISTER) : 0; }
/* A branch without results. */
static inline void lower_when(Lower *l, Reg pred) { thread_if(l->b, pred); }

static inline void
lower_end_when(Lower *l)
{
	thread_else(l->b, NULL, 0);
	thread_if_end(l->b, NULL, NULL, 0);
}

/* memory/coordinates.c: which elements a thread holds */

/* The thread's part of coordinate `dim` (REG_I32): what lane and warp bits give. */
Reg lower_thread_coordinate(Lower *l, const Layout *layout, int dim);
/* Register r's part of it, a constant.  Coordinate = thread part ^ register part, and where the two share no bits
 * (every layout that passes make) also their sum. */
uint32_t lower_register_coordinate(const Layout *layout, int r, int dim);
/* Coordinate `dim` of register r: a register (REG_I32) of the thread, to which a constant is to be added. */
Reg lower_coordinate(Lower *l, const Layout *layout, int r, int dim, int64_t *constant);
/* True in one of the threads that hold the same element (lane and warp bits that repeat are 0), of a scalar (NULL) in
 * thread 0; 0 if all are different. */
Reg lower_is_first_holder(Lower *l, const Layout *layout);
/* The value (REG_I32) of a linear map of lane and warp bits: image[i] is bit i's, lanes first. */
Reg lower_thread_map(Lower *l, const uint64_t *image, int n);

/* Such a map, of which registers add images of their own. */
typedef struct LowerMap {
	Reg thread;                                     /* REG_I32 */
	uint64_t moves;                                 /* bits that some thread sets */
} LowerMap;

LowerMap lower_map(Lower *l, const uint64_t *image, int n);
/* The thread's part exclusive-ored with `at`; bits of `at` that no thread sets are left to be added: *constant. */
Reg lower_map_at(Lower *l, const LowerMap *m, uint64_t at, int64_t *constant);
LowerMap lower_coordinate_map(Lower *l, const Layout *layout, int dim);

/* Byte offsets in shared memory of the elements of a tile in a layout. */
typedef struct LowerShared {
	LowerMap map;
	F2 to;                                          /* elements */
	int bytes;                                      /* of one */
} LowerShared;

LowerShared lower_shared(Lower *l, const Layout *layout, const Layout *shared, int bytes);
/* Of register r's: a register (REG_I32) and a constant that can go into the access. */
Reg lower_shared_offset(Lower *l, const LowerShared *s, int r, int64_t *constant);

/* memory/access.c: where the elements of a tile stand in a tensor, or where a tile of pointers points to */

enum { VOTES_MOST = 4 };

typedef struct LowerAccess {
	const Op *op;
	const Value *tensor;
	const Type *tile;
	const Layout *layout;                           /* of the tile that moves; NULL: a scalar */
	const Reg *pointer, *mask;                      /* through pointers, by register; mask NULL: always */
	int unit;                                       /* bytes of an element; packed types: 1: offsets count elements */
	int nd;
	struct {
		char letter;                            /* of {index} */
		int at;                                 /* p: which dimension of the tile; g: the first one */
		const Value *index;
		const Value *root;                      /* p: the index is this and `shift` more */
		int64_t shift;
		bool is_rooted;                         /* lo and hi are the root's */
		int64_t valid;                          /* then: elements of the tile from which on none is wanted */
		bool holds_root;                        /* a tile of this extent from the root on is inside */
		LowerMap map;                           /* p: of the coordinate */
		const Reg *gather;                      /* g: in the order of the layout's registers … */
		const Reg *held;                        /* … and within the dimension (REG_I64), for addresses; or NULL */
		const Reg *still;                       /* g: what of them no trip of the loop changes (REG_I64), or NULL */
		Reg moved;                              /* g: and what of all of them each trip does, with `still` */
		int64_t known_stride;                   /* units; -1: not known */
		Reg stride;                             /* REG_I64, units; made if it is not known */
		Reg lo, hi;                             /* p: coordinates inside (REG_I32), 0: all are; g: hi, the limit */
	} dim[KERNEL_RANK];
	bool is_kept;                                   /* a register's offset is one value for all trips (PRIM_KEEP) */
	Reg voted;                                      /* rows inside, by lanes (REG_I32); 0: threads test their own */
	int nvote, vote_register[VOTES_MOST];           /* bits that say which row, */
	int vote_lane[VOTES_MOST];                      /* and which lane tests it */
	Reg base;                                       /* the tensor moved on to the starts; packed: REG_I64, elements */
	Reg uniform;                                    /* whether the scalar indices are inside; 0: they are */
	int vector;
	int window;                                     /* words of WINDOW neighbours (access_window); 0: apart */
	int halo;                                       /* elements of vectors that hold a thread's (access_halo) */
	int records;                                    /* that a thread moves at once, whole (access_records); 0: apart */
} LowerAccess;

/* `tile` and `layout`: of what moves; indices of a tensor are operands 1 and on, pointers operand 0. */
void lower_access_make(Lower *l, LowerAccess *a, const Op *op, const Type *tile, const Layout *layout);
/* Register r's element: base, constant and mask (0: always) of `out`; the rest is the caller's. */
void lower_access_at(Lower *l, const LowerAccess *a, int r, ThreadAccess *out);
/* Packed types: the element's number (REG_I64). */
Reg lower_access_element(Lower *l, const LowerAccess *a, int r);
Reg lower_access_mask(Lower *l, const LowerAccess *a, int r);
bool lower_has_own_masks(Lower *l, const LowerAccess *a, int d);       /* predicates.c: of a write, along d */
/* By the tile of indices along dimension d; 0: it is inside. */
Reg lower_index_mask(Lower *l, const LowerAccess *a, int d, int r);
/* memory/vote.c: of counted copies by all tiles of indices, which lanes test for each other behind lower_vote */
Reg lower_gathered_mask(Lower *l, const LowerAccess *a, int r);
void lower_vote(Lower *l, LowerAccess *a);
CacheHint lower_cache(const Op *op, CacheHint otherwise);

/* memory/halo.c: do accesses start a few elements apart? */
bool lower_has_halos(const Func *f);
/* All registers of such a read, which begins between vectors; `fill` as for others. */
void lower_read_halo(Lower *l, const LowerAccess *a, RegType t, CacheHint cache, const Reg *fill, Reg *out);

/* memory/packed.c: n elements of 4 bits from register r on, of the tensor; `at` has the mask. */
void lower_packed_read(Lower *l, const LowerAccess *a, int r, int n, ThreadAccess *at, Reg *out);
void lower_packed_write(Lower *l, const LowerAccess *a, int r, int n, ThreadAccess *at, const Reg *v);
/* Of a copy to a slot, as layouts of bytes, of which a thread moves *vector at once; false: it moves none. */
bool lower_packed_bytes(Lower *l, const LowerAccess *a, Layout *layout, Layout *shared, int *vector);
/* Base and mask of register r's byte. */
void lower_packed_at(Lower *l, const LowerAccess *a, int r, ThreadAccess *out);
bool lower_packed_put(Lower *l, Reg base, const Reg *from, const Layout *layout, const Layout *shared);
bool lower_packed_get(Lower *l, const Value *v, Reg base, const Layout *shared, Reg *out);

/* Two elements of a tile that a get gave: of one byte of a word, or four apart in it. */
typedef struct LowerPair {
	Reg word, byte;                                 /* REG_I32; which byte, from 0, or no register */
	int nibble;                                     /* where the first is, of those that are four apart */
	bool is_signed;
} LowerPair;

/* A register whose element makes a pair with another one's. */
typedef struct LowerTwin {
	Reg second;
	LowerPair pair;
} LowerTwin;

/* fields.c: the pairs of registers that hold fields of up to four bits of bytes and words; NULL: one does not. */
LowerPair *lower_field_pairs(Lower *l, DType t, const Reg *in, int n);
/* The four bits of a word that a register's lowest so many bits are, or three and one more; false: it is made otherwise. */
bool lower_field(Lower *l, Reg r, int bits, Reg *word, int *field);
/* Four fields of as many bits, at the bottom of a word's bytes, with others above; 0: they are made otherwise. */
Reg lower_field_quad(Lower *l, const Reg *in, int *bits, bool *is_signed);
/* bytes.c: elements of 4 bits that become bytes, and sums, differences and products of bytes, four in a word. */
bool lower_bytes_cast(Lower *l, const Op *op, const Reg *in, Reg *out, int n);
bool lower_bytes(Lower *l, const Op *op, const Reg *const in[3], Reg *out, int n);
/* Two registers whose bits are those of halves, made of fields; false: of something else. */
bool lower_halves_of_bits(Lower *l, const Reg *in, RegType to, Reg *out);
/* packed.c: what lower_packed_get kept of two registers, or of what they were before they were extended; false: nothing. */
bool lower_pair(const Lower *l, Reg first, Reg second, LowerPair *pair);

/* A cast of such a tile to f16 or bf16, two elements at a time; false: there is no such way. */
bool lower_packed_cast(Lower *l, const Value *v, DType to, Reg *out);
/* Of such a cast less integers, its zero points: both at once. */
bool lower_packed_sub(Lower *l, const Op *op, const Reg *zero, Reg *out);

/* one file a family */
void lower_print(Lower *l, Op *op);                     /* print.c */
void lower_lookup(Lower *l, Op *op);                    /* lookup.c */
/* lookup_bytes.c: of a table of up to 16 elements, by so many indices modulo n; false: they are not fields of four bits. */
bool lower_lookup_bytes(Lower *l, RegType t, const int64_t *bits, int n, const Reg *in, int count, Reg *out);
/* The same of a gather from rows that threads have, in layout `rows`. */
void lower_gather_rows(Lower *l, Op *op, const Layout *rows);
void lower_elementwise(Lower *l, Op *op);               /* elementwise.c: ELEM ops but math */
/* One of them on plain elements: operands of t, no constants known. */
/* gaps.c: of many indices, whose sums have few different terms, in 32 bits; false: otherwise. */
bool lower_compare_gaps(Lower *l, const Op *op, const Reg *a, const Reg *b, Reg *out, int n);
Reg lower_arithmetic(Lower *l, OpKind kind, DType t, Reg a, Reg b);
/* math/divide.c: n f32 elements by one that all have in common; false: they have none, or are not worth it. */
bool lower_divide(Lower *l, const Reg *a, const Reg *s, int n, Reg *out);
void lower_cast(Lower *l, Op *op);                      /* math/cast.c: cast, bitcast */
/* A float below f32 (f16 … f4e2m1) as REG_F32, and an f32 rounded to one; other types stay as they are. */
Reg lower_widen(Lower *l, DType t, Reg r);
Reg lower_narrow(Lower *l, DType t, Reg f32);
Reg lower_narrow_exact(Lower *l, DType t, Reg f32);     /* a value of t: nothing rounds, and infinity stays */
/* An integer wrapped into its type: 4-bit ones to their low half, extended; others stay as they are. */
Reg lower_wrap(Lower *l, DType t, Reg r);
/* math/cast_round.c: f32 to the nearest integers of 8 or 16 bits */
void lower_round(Lower *l, DType t, const Reg *x, int n, Reg *out);
Reg lower_cast_one(Lower *l, DType from, DType to, Reg r);
/* Four bytes of a and b, by the digits of `which` (prmt). */
Reg lower_byte_permute(Lower *l, Reg a, Reg b, Reg which);
/* math/nibble.c: the word (REG_I32) that a byte was loaded in, and its number there; that an element of 4 bits was loaded
 * in, and its first bit there; 0: none.  Such an element as REG_F32. */
Reg lower_loaded_word(Lower *l, Reg r, int *byte);
Reg lower_loaded_nibble(Lower *l, Reg r, int *bit);
Reg lower_nibble_to_f32(Lower *l, DType t, Reg word, int bit);
void lower_math(Lower *l, Op *op);                      /* math/math.c: functions made of arithmetic */
void lower_memory(Lower *l, Op *op);                    /* memory/memory.c: read write load store prefetch */
void lower_atomic(Lower *l, Op *op);                    /* memory/atomic.c */
void lower_tally(Lower *l, Op *op);
void lower_show(Lower *l, Op *op);                      /* show.c: print with {trace} or {watch} */
void lower_control(Lower *l, Op *op);                   /* control.c: for while if assert print inline_ptx */
void lower_index(Lower *l, Op *op);                     /* memory/tensor.c: program_id num_programs dim stride */
void lower_shape(Lower *l, Op *op);                     /* shape.c: const iota reshape permute broadcast */
void lower_move(Lower *l, Op *op);                      /* memory/move.c: cat join split flip extract gather */
/* slice.c: an extract that begins where the compiler knows, at a multiple of its extents; false: another one */
bool lower_slice(Lower *l, Op *op);

void lower_convert(Lower *l, Op *op);                   /* across/convert.c */
/* The same for any registers of a tile: out[] in layout `dst`, through op's scratch in shared memory if they must. */
void lower_to_layout(Lower *l, const Op *op, const Reg *from, const Layout *src, const Layout *dst, RegType type,
    Reg *out);
/* The parts of it: a tile to and from shared memory laid out as `shared` at `base` (barriers are the caller's) … */
void lower_to_shared(Lower *l, Reg base, const Reg *from, const Layout *layout, const Layout *shared, RegType type);
void lower_from_shared(Lower *l, Reg base, Reg *out, const Layout *layout, const Layout *shared, RegType type);
/* … v[r] becomes v[r ^ sum of the images of the bits set in the thread's number] … */
void lower_exchange(Lower *l, Reg *v, int n, const uint64_t *image, int nimage);
/* … and one element as in memory and back: bool a byte, pointers i64. */
Reg lower_to_memory(Lower *l, RegType t, Reg r);
Reg lower_from_memory(Lower *l, RegType t, Reg r);
void lower_shuffle(Lower *l, const ShufflePlan *p, const Layout *src, const Layout *dst, const Reg *from, RegType type,
    Reg *out);
void lower_reduce(Lower *l, Op *op);                    /* across/reduce.c: reduce reduce_fn */
void lower_scan(Lower *l, Op *op);                      /* across/scan.c: scan scan_fn */
void lower_dot(Lower *l, Op *op);                       /* matrix/dot.c: dot dot_scaled */
void lower_dot_fma(Lower *l, const Op *op);             /* matrix/dot_fma.c */
void lower_order(Lower *l, Op *op);                     /* across/order.c: sort topk histogram */
void lower_scatter(Lower *l, Op *op);                   /* across/scatter.c */
/* matrix/matrix.c: a tile from shared memory by ldmatrix, if its layout is made of fragments that it loads; else false */
bool lower_matrix_load(Lower *l, Reg base, Reg *out, const Layout *layout, const Layout *shared, RegType type);
/* matrix/simdgroup.c: the same by simdgroup_load, a matrix of 8 x 8 for every two registers … */
bool lower_simdgroup_load(Lower *l, Reg base, Reg *out, const Layout *layout, const Layout *shared, RegType type);
/* … and one of them, from register r on: a word of two elements, or two words. */
typedef struct LowerSimdgroup {
	const SimdgroupSide *plan;
	Reg base, moved;                                /* REG_I32, bytes beyond it; 0: none */
	LowerMap map;
	RegType type;
} LowerSimdgroup;
LowerSimdgroup lower_simdgroup(Lower *l, Reg base, const SimdgroupSide *plan, const Layout *layout, RegType type);
void lower_simdgroup_matrix(Lower *l, const LowerSimdgroup *s, uint64_t r, Reg *out);
/* The same to shared memory, by stmatrix. */
bool lower_matrix_store(Lower *l, Reg base, const Reg *from, const Layout *layout, const Layout *shared, RegType type);

/* grid.c: between this grid and those before and behind it */
typedef enum LowerSignal { BEFORE_WAIT, BEFORE_LOOP, BEHIND_LOOP } LowerSignal;
const Op *lower_stream_loop(const Func *f);             /* of few rows, with copies under way */
bool lower_signals_late(const Func *f);                 /* to the next grid, at its end */
void lower_start_next_grid(Lower *l);                   /* once all blocks came here */
void lower_signal_by_places(Lower *l, LowerSignal at);
int lower_half_of_places(const Lower *l);               /* blocks of a grid beside which another one fits */
void lower_wait_for_grids(Lower *l);
void lower_roles(Lower *l, Op *op);                     /* roles.c: roles, and dots that a warpgroup begins and waits for */
void lower_dot_start(Lower *l, Op *op);
void lower_dot_wait(Lower *l, Op *op);
void lower_split_put(Lower *l, Op *op);
void lower_split_get(Lower *l, Op *op);
void lower_split_meet(Lower *l, Op *op);
void lower_split_sum(Lower *l, Op *op);
void lower_split_done(Lower *l, Op *op);
void lower_stream_give(Lower *l, Op *op);               /* across/stream.c */
void lower_stream_join(Lower *l, Op *op);
void lower_fetch(Lower *l, Op *op);                     /* across/fetch.c */
void lower_fetch_end(Lower *l, Op *op);
void lower_from_first(Lower *l, Op *op);
void lower_get_one(Lower *l, Op *op);
void lower_put_one(Lower *l, Op *op);
Reg lower_split_rank(Lower *l);                         /* of this block, i64 */
void lower_buffer(Lower *l, Op *op);                    /* memory/buffer.c: buffers, asynchronous copies, mbarriers */
/* Of a ring of mbarriers; the number is taken modulo theirs unless it is seen to be below. */
Reg lower_mbarrier_at(Lower *l, const Value *ring, const Value *number);
void lower_copy_bulk(Lower *l, Op *op);                 /* memory/bulk.c: copies by tensor maps */
void lower_send(Lower *l, Op *op);
void lower_sent(Lower *l, Op *op);
void lower_philox(Lower *l, Op *op);                    /* math/philox.c */

/* across/lanes.c: one element from another lane */
Reg lower_lane_xor(Lower *l, RegType type, Reg v, int mask);
Reg lower_lane_from(Lower *l, RegType type, Reg v, Reg lane);

/* across/reduce_axis.c: a tile's coordinate along each dimension moves an offset by 1 << shift[d] elements; -1: not. */
typedef struct LowerStrides {
	int shift[LAYOUT_RANK];
	int bytes;                                      /* of an element */
} LowerStrides;

/* The offset in bytes of register r's element: a register (REG_I32; 0: a scalar's) and a constant to add. */
Reg lower_element_offset(Lower *l, const LowerStrides *s, const Layout *layout, int r, int64_t *constant);

/* memory/move.c: a tile in scratch row by row: the layout of the elements there, how coordinates move an offset, and one
 * element read, `offset` and `constant` in bytes. */
Layout lower_row_major(const Layout *l);
LowerStrides lower_row_strides(const Type *t);
Reg lower_read_element(Lower *l, Reg base, RegType type, Reg offset, int64_t constant);
/* An integer tile's element as a REG_I32 index, and whether it is one of 0 .. n - 1 (n below 2^31). */
Reg lower_bounded_index(Lower *l, DType t, Reg index, int64_t n, Reg *inside);

/* One scalar block (a reduce_fn's or scan_fn's region) on registers. */
void lower_region(Lower *l, const Block *region, const Reg *in, Reg *out);

/* The whole function.  NULL after errors in its context. */
ThreadModule *lower_func(Func *f, const Target *t, Arena *mem);

#endif
