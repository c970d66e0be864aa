/* Where a tile's elements live, as linear maps over F2.
 *
 * A layout maps hardware coordinates (which register of which lane of which warp of which block in
 * a cluster) to coordinates in a tile.  All extents are powers of two, coordinates are numbers in
 * binary, and the map is linear: the element held by (r, l, w, b) is the exclusive or of the images
 * of the bits that are set in r, l, w and b.  So a layout is a list of images, one a bit, and
 * everything a compiler asks (vector width, coalescing, bank conflicts, broadcast, the cheapest
 * conversion) is linear algebra on that list (Zhou et al., Linear Layouts: Efficient Tensor
 * Computation Using F2, 2025).  A placement in shared memory is the same kind of object with one
 * input, the element's offset.
 *
 * Pure functions on values: no IR, no memory, no failure but `false`. */
#ifndef TEGULA_LAYOUT_H
#define TEGULA_LAYOUT_H

#include "base/base.h"

enum { F2_MAX = 40 };                               /* bits on either side of a map */

/* A linear map from `nin` bits to `nout` bits; col[i] is the image of input bit i. */
typedef struct F2 {
	int nin, nout;
	uint64_t col[F2_MAX];
} F2;

/* f2.c */

F2 f2_zero(int nin, int nout);
F2 f2_identity(int n);
uint64_t f2_apply(const F2 *m, uint64_t x);
F2 f2_compose(const F2 *outer, const F2 *inner);    /* x -> outer(inner(x)); inner's nout is outer's nin */
bool f2_equal(const F2 *a, const F2 *b);
int f2_rank(const F2 *m);
bool f2_is_surjective(const F2 *m);
bool f2_solve(const F2 *m, uint64_t y, uint64_t *x); /* some x with m(x) = y: free bits are 0 */
bool f2_invert(const F2 *m, F2 *out);               /* square and regular only */
bool f2_right_inverse(const F2 *m, F2 *out);        /* out: m(out(y)) = y; surjective m only; free bits 0 */
int f2_kernel(const F2 *m, uint64_t *basis);        /* vectors that span { x : m(x) = 0 }; returns how many */
F2 f2_columns(const F2 *m, int from, int n);        /* the map of n input bits from `from` on */

/* layout.c */

enum { LAYOUT_RANK = 5 };

typedef enum InDim { IN_REGISTER, IN_LANE, IN_WARP, IN_BLOCK, IN_DIMS } InDim;

/* `map` takes the bits of register, then lane, warp, block, low bits first, to the bits of the tile's
 * coordinates, dimension rank-1 (the fastest) lowest.  A bit whose image is 0 is a broadcast: both
 * of its values hold the same element. */
typedef struct Layout {
	int in[IN_DIMS];                            /* log2 of each input's extent */
	int rank;
	int out[LAYOUT_RANK];                       /* log2 of each dimension's extent */
	F2 map;
} Layout;

int layout_in_bits(const Layout *l);                /* of all inputs */
int layout_out_bits(const Layout *l);
int layout_bits_along(const Layout *l, InDim in, int dim);      /* bits of the input that move along it */
int layout_in_at(const Layout *l, InDim d);         /* index of the first map column of input d */
int layout_out_at(const Layout *l, int dim);        /* index of the lowest output bit of dimension dim */
bool layout_equal(const Layout *a, const Layout *b);
bool layout_valid(const Layout *l);                 /* every element is held by someone: the map is surjective */

/* The order in which rows follow one another: the last dimension first. */
static inline const int *
layout_last_first(int rank)
{
	static const int order[2 * LAYOUT_RANK] = {4, 3, 2, 1, 0};
	return order + LAYOUT_RANK - rank;
}

/* log2 of extents, rounded up; their sum. */
static inline int
layout_shape(int rank, const int64_t *extent, int shape[LAYOUT_RANK])
{
	int total = 0;
	for (int d = 0; d < rank; d++)
		total += shape[d] = log2_ceil(extent[d]);
	return total;
}

/* Blocked: each thread holds `per_thread` neighbours, lanes then warps tile the rest in `order` (order[0]
 * is the fastest dimension); what is left over wraps round in registers, what is too much is broadcast.
 * All figures are log2, of rank `rank`. */
typedef struct Blocked {
	int rank;
	int per_thread[LAYOUT_RANK], lanes[LAYOUT_RANK], warps[LAYOUT_RANK];
	int order[LAYOUT_RANK];
} Blocked;

Layout layout_blocked(const Blocked *b, const int shape[LAYOUT_RANK]);
/* The blocked layout for coalesced access: `vector` (log2) neighbours a thread along order[0], then along the next ones. */
Layout layout_coalesced(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector,
    int lanes, int warps);
/* The same, but what lanes and warps leave over is neighbours of one thread along dimension `along`; -1: of none. */
Layout layout_scanned(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector, int along,
    int lanes, int warps);
Layout layout_slice(const Layout *l, int dim);      /* dimension dim summed away: what a reduction leaves */
Layout layout_permute(const Layout *l, const int dims[LAYOUT_RANK]);
Layout layout_reshape(const Layout *l, int rank, const int shape[LAYOUT_RANK]);
/* Along dim, bit i of what the layout says is bit to[i] of the result's. */
Layout layout_move_bits(const Layout *l, int dim, const int64_t *to);
/* Registers in the order of the offsets that they move by in shared memory: register r of the result is register
 * order(r) of l, whose bit order[i] is the result's bit i. */
Layout layout_by_offset(const Layout *l, const Layout *shared, int order[F2_MAX]);
Layout layout_expand(const Layout *l, int dim);     /* a new dimension of extent 1 before dim */
Layout layout_stack(const Layout *l, int dim, int bits);     /* 2^bits along dim, each as l: registers above pick one */
Layout layout_shorten(const Layout *l, int dim, int bits);   /* the first 2^bits along dim, upper bits of images left out */
Layout layout_pair(const Layout *l);                /* a new last dimension of 2, in the lowest register bit */
Layout layout_drop_broadcast(const Layout *l);      /* registers that repeat others taken out */
Layout layout_fill_lanes(const Layout *l);          /* registers' bits in place of lanes' that repeat elements */
Layout layout_fold_warps(const Layout *l, int warps);   /* 2^warps at most: each holds what several did, behind its own */

/* A fragment of a matrix instruction, from its table of images; see target/mma.def. */
Layout layout_fragment(int rank, const int shape[LAYOUT_RANK], const int in[IN_DIMS], const uint64_t *col);
/* `l` repeated to fill `shape`: warps along dimensions as given (log2), then registers. */
Layout layout_tile(const Layout *l, const int shape[LAYOUT_RANK], const int warps[LAYOUT_RANK]);

/* Shared memory: input "register" is the element's offset; the others are empty. */
Layout layout_row_major(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK]);
/* Rows of order[0] with their vectors of 2^vector elements exclusive-ored by the row's number: row r's vector v
 * stands at v ^ ((r >> per_phase) & (2^phases - 1)). */
Layout layout_swizzled(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector, int per_phase,
    int phases);
/* Row by row, the 16-byte chunks of each 128 bytes exclusive-ored with the number of these, whatever a row's length; of
 * elements of `bits`. */
Layout layout_swizzled_lines(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int bits);

/* Boxes as bulk tensor copies and wgmma place them: `row_bytes` (128, 64, 32 or 16) of order[0], the tensor's contiguous
 * dimension, by all of the other dimensions, order[1] the fastest of them; boxes one after the other along order[0].  In
 * a box, 16-byte chunks are exclusive-ored as the hardware's swizzle of that width does: chunk c of row r stands at
 * c ^ (r & 7), at c ^ ((r >> 1) & 3), at c ^ ((r >> 2) & 1); rows of 16 bytes are not swizzled.  A tile whose rows are
 * narrower takes the width of its rows.  The slot's address is a multiple of 8 rows. */
Layout layout_boxed(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int row_bytes,
    int elem_bytes);
/* Is `l` such a layout of elements of `elem_bytes`?  Then *order and *row_bytes are what made it, the widest of several. */
bool layout_match_boxed(const Layout *l, int elem_bytes, int order[LAYOUT_RANK], int *row_bytes);

/* The last two dimensions in matrices of 8 x 8, each whole and row by row; matrices in row-major order.  Extents are 8 at
 * least. */
Layout layout_8x8(int rank, const int shape[LAYOUT_RANK]);

/* Questions. */
/* log2 of the most neighbours along dimension `dim` that one thread holds in consecutive registers, aligned. */
int layout_contiguous(const Layout *l, int dim);
/* The same in row-major order of the dimensions up to `dim`. */
int layout_contiguous_rows(const Layout *l, int dim);
/* Registers that hold distinct elements (log2), lanes and warps that repeat others' elements (bit masks). */
uint64_t layout_free_bits(const Layout *l, InDim d);
int set_add(int64_t *set, int n, int64_t x);            /* to a small set of n; its new count */
/* Of accesses of `width` bytes at the lanes' addresses: sectors of global memory that they touch, or passes over the banks
 * of shared memory, and the fewest that hold as many bytes. */
void access_sectors(const int64_t *at, int lanes, int width, int *touched, int *least);
void access_passes(const int64_t *at, int lanes, int width, int *passes, int *least);
/* 32-byte sectors that one warp's access touches, and the fewest that could hold the bytes: elements of
 * `bytes`, tile rows of dimension rank-1 contiguous in memory and each row `row_bytes` apart (aligned to 32). */
void layout_sectors(const Layout *l, int bytes, int64_t row_bytes, int vector, int *touched, int *least);
/* Passes that the worst access of a warp makes over the 32 banks, and the fewest that its bytes allow, when `l`
 * is moved to or from shared memory laid out as `shared` in accesses of 2^vector elements of `bytes`. */
void layout_bank_passes(const Layout *l, const Layout *shared, int bytes, int vector, int *passes, int *least);
/* log2 of the widest access (in elements, at most max_bytes) between `l` and `shared`. */
int layout_shared_vector(const Layout *l, const Layout *shared, int bytes, int max_bytes);
/* The placement in shared memory for a round trip from `src` to `dst` with the least bank passes. */
Layout layout_best_shared(const Layout *src, const Layout *dst, int bytes);
/* Passes of all accesses of `bytes` that bring a tile from such shared memory into layout l, or back. */
int layout_trip(const Layout *l, const Layout *shared, int bytes);

/* matrix.c: can ldmatrix bring a tile of elements of `bytes` from `shared` into `l`?  Then *to maps (register, lane,
 * warp) to offsets in elements, and *transposed says in which of its two ways. */
bool layout_fits_matrix(const Layout *l, const Layout *shared, int bytes, F2 *to, bool *transposed);
/* Passes over the banks for the eight rows of one matrix, with as many register bits before: 1, 2, 4 or 8. */
int layout_matrix_passes(const F2 *to, int registers, int bytes, bool transposed);

/* The same for stmatrix: no thread holds what another one holds, and it stores two matrices at once or four, transposed
 * four. */
bool layout_stores_matrix(const Layout *l, const Layout *shared, int bytes, F2 *to, bool *transposed);

/* What ldmatrix, transposed, brings of bytes with neighbours along dimension `fast` of shared memory, so that each thread
 * moves bytes of its own alone to have `put`.  False: that is not of four along the other dimension and two along this. */
bool layout_across(const Layout *put, int fast, Layout *got);
/* How 2^warps warps take a tile of elements of 1 or 4 bytes, with neighbours along dimension `fast`, from shared memory,
 * and put it back with neighbours along the other one: bytes by ldmatrix transposed and stmatrix, with a permutation of
 * each thread's own in between.  What an access takes at once has different numbers modulo 8 along the slow dimension,
 * which are its banks in boxes.  False: not so of such tiles. */
bool layout_turns(const int shape[LAYOUT_RANK], int bytes, int fast, int warps, Layout *got, Layout *put);

/* The same for simdgroup_load: `l` is made of 8 x 8 fragments (two neighbours along the fast dimension a lane) that stand
 * in `shared` with rows (or columns: *transposed) *stride elements apart. */
bool layout_fits_8x8(const Layout *l, const Layout *shared, F2 *to, int *stride, bool *transposed);

/* packed.c: elements of 4 bits */

/* The layout of a tile's bytes: the lowest register bit numbers the two neighbours of one.  False: it does not. */
bool layout_bytes(const Layout *l, Layout *out);

/* How a tile in layout `l` is loaded from a slot laid out as `shared`: aligned chunks of 2^log elements (4, 8 or 16 bytes),
 * of whose words each has what a register holds. */
typedef struct LayoutChunks {
	F2 to;                                      /* from (register, lane, warp) to the element's offset */
	Layout chunks, shared;                      /* the chunks' first bytes, and the slot, as layouts of bytes */
	int log;
} LayoutChunks;

bool layout_chunks(const Layout *l, const Layout *shared, LayoutChunks *c);      /* false: the slot is none of bytes */

/* convert.c */

typedef enum ConvertKind {
	CONVERT_NONE,                               /* the same map */
	CONVERT_REGISTERS,                          /* each thread has what it needs: rename */
	CONVERT_SHUFFLE,                            /* each warp has it */
	CONVERT_SHARED,                             /* through shared memory */
} ConvertKind;

/* Source of each destination element: with (register, lane, warp, block) of dst packed low to high as in map, `from`
 * gives those of a holder in src: the one in the same thread, else warp, if there is one.  Linear, so a shuffle's plan
 * can be read off its columns. */
typedef struct Convert {
	ConvertKind kind;
	F2 from;
} Convert;

bool layout_convert(const Layout *src, const Layout *dst, Convert *out);     /* false: shapes differ */

/* How many warps divide each of two dimensions, each with neighbours, `least` rows or more: numbered along the first one
 * first.  False: they do not. */
bool layout_warp_shares(const Layout *l, int warps, int least, int64_t shares[2]);

/* text.c: blocked and raw forms as text, and a picture */

void layout_print(const Layout *l, Text *out);
/* Reads what layout_print writes, or `blocked(shape = [..], per_thread = [..], lanes = [..], warps = [..], order =
 * [..])`, `swizzled(shape = [..], vector = N, per_phase = N, phases = N)`, `boxed(shape = [..], order = [..],
 * row_bytes = N, elem_bytes = N)`, extents as powers of two. NULL after success, else what is wrong (a constant string)
 * with *at, where. */
const char *layout_parse(const char *text, Layout *out, int *at);

#endif
