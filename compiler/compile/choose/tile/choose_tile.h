/* Tiles that only cut a grid (choose_tile.c), for the choice of their sizes (choose_sizes.c). */
#ifndef TEGULA_CHOOSE_TILE_H
#define TEGULA_CHOOSE_TILE_H

#include "compile/choose/choose.h"

/* No part; a part along any axis; what a trip of a loop takes. */
enum { AXIS_NONE = -1, AXIS_ANY = -2, AXIS_STEP = MAX_AXES };
enum { STEP_MOST = 128, SIDE_MOST = 256, SIDE_WIDE = 512 };     /* of the steps and the sides that the compiler tries */
enum { DIVIDES_MOST = 4096 };                           /* of sizes that divide what is summed over (tune_lookup.c) */
enum { TILE_SCALE = 256 };                              /* of a part as large as the size: scales of 256 are one of it */

/* Of a value. */
typedef struct Part {
	int8_t axis[MAX_RANK];                          /* of each dimension */
	int64_t scale[MAX_RANK];                        /* of its extent by the size, times TILE_SCALE */
	bool mirrored[MAX_RANK];                        /* its elements stand in the opposite order */
	bool differs;                                   /* a number that the modules disagree about */
	bool is_local;                                  /* indices within a part, … */
	int64_t per;                                    /* … over that: heads that share a row; 0: over 1 */
	int64_t period;                                 /* of sizes, where indices within a part come over a number; or 0 */
	bool is_bound;                                  /* a scalar that only the end of a loop may be */
	int8_t sums;                                    /* the axis + 1 over whose part it is a sum; 0: none … */
	const char *joins;                              /* … of which an atomic's fn makes that of several parts */
	int8_t start;                                   /* AXIS_NONE; else the value is index * times[…] + from */
	int64_t times[2], number[2];
	int64_t from;                                   /* less than 0: not known */
	bool ends;                                      /* the value is (index + 1) * times[…], where a part ends … */
	const Value *of;                                /* … of which that is subtracted; NULL: of nothing */
} Part;

typedef struct Pair {
	const Kernel *k;
	const Bound *b;                                 /* sizes, by the launch */
	const char *name;                               /* of the parameter */
	int64_t given, size;                            /* by the header; in the first module, half the second's */
	int64_t least, most;                            /* that are tried: less than the header's for what ends before */
	int64_t divides;                                /* sizes up to it divide what is summed over; 0: nothing is */
	int64_t period;                                 /* of which sizes have to be multiples, by those of values */
	const Func *f;
	Arena *mem;
	const Expr *count[MAX_AXES];                    /* D of the axes cdiv(D, name); NULL: another axis */
	uint64_t by[MAX_AXES];                          /* c of those that are cdiv(D, c * name); else 1 */
	Part *part;                                     /* by the value's id in the first module */
	bool is_step;                                   /* no axis is cut: a loop steps by it */
	int stepped;                                    /* loops that do */
	bool is_stepping;                               /* the op that is looked at is in one */
	const Value *row, *rows;                        /* rows row + i at or behind `rows` are written nowhere; or NULL */
	const Value *leaves;                            /* programs leave by this, and where it is `leaves_if`; or NULL */
	bool leaves_if;
	bool by_number;                                 /* rows that are written have numbers (choose_tile_rows.c) */
	bool multiplies;                                /* the kernel has products */
	bool is_alone;                                  /* the op is done by the first program of the axis alone */
	int loops;                                      /* around the op that is looked at */
	int written;                                    /* writes seen */
	int last_axis;                                  /* of the last dimension that is written, or read; AXIS_NONE */
	bool is_row, is_fast;                           /* of a tile with more dimensions: not its last one; its last one */
} Pair;

/* choose_tile_header.c: is it that name alone? */
bool tile_is_name(const Expr *e, const char *name);
/* What a size may be: cuts the grid; is the step of loops. */
enum { SIZE_CUTS = 1, SIZE_STEPS = 2, SIZE_SHRINKS = 4 };   /* the last one: it may be less than the header's, too */
/* Is parameter i such a size, by the header? */
bool tile_opens(Pair *x, const Kernel *k, const Bound *b, const ChooseBinding *how, int i, unsigned which);

/* choose_tile.c: are the modules of that size and of twice that alike, and the elements of each part apart? */
bool tile_cuts_freely(Pair *x, Func *a, Func *b, Arena *mem);

/* The kernel of that size as it comes from the source, before all passes; NULL: the source refuses it. */
typedef Func *TileSource(void *user, int64_t size);
/* choose_tile_numbers.c: does the size only place parts, by those sizes and the header's?  Those that are refused are not
 * looked at. */
bool tile_only_places(const Pair *x, TileSource *source, void *user, const int64_t *sizes, int n, Arena *mem);

/* What is known of a value. */
Part *tile_part(const Pair *x, const Value *v);
/* A value like any other: no number of the modules' own, no start, no index within a part. */
bool tile_is_plain(const Pair *x, const Value *v);
bool tile_is_part(const Pair *x, const Value *v, int d);
/* Dimension d of `to` is a part as dimension e of `from`. */
bool tile_take_axis(const Pair *x, Value *to, int d, const Value *from, int e);
/* choose_tile.c: are operands values like any others?  Do parts of results follow from those of operands?  A result is a
 * start, or indices within a part, as the operand is. */
bool tile_all_plain(const Pair *x, const Op *a);
bool tile_parts_agree(const Pair *x, const Op *a);
void tile_keep_kind(const Pair *x, const Op *a, const Part *from);
bool tile_has_parts(const Pair *x, const Value *v);
/* choose_tile_top.c: are i's of the greatest few, or their places, that a loop carries?  The place of one of those along
 * what the step cuts that v is, from the row's start: its number within the trip's part; or NULL. */
bool tile_keeps_top(const Pair *x, const Op *loop, int i, const bool *late);
const Value *tile_top_place(const Pair *x, const Value *v);
/* choose_tile_start.c: the reduction whose place along what the step cuts v is, counted from the loop's start; or NULL.
 * Of elementwise ops. */
const Value *tile_place(const Pair *x, const Value *v);
bool tile_visit_elementwise(const Pair *x, const Op *a);
int64_t tile_joint_period(int64_t a, int64_t b);       /* the least number that both divide */
/* choose_tile_sums.c: is it a product, or a reduction, that sums over a part alone?  Such a sum, scaled by what programs
 * have in common? */
bool tile_sums_part(Pair *x, const Op *a);
bool tile_sums_along(Pair *x, const Op *a);
bool tile_scales_sum(const Pair *x, const Op *a);
/* choose_tile_shape.c; `drops`: the axis. */
bool tile_visit_reshape(const Pair *x, const Op *a);
bool tile_visit_permute(const Pair *x, const Op *a);
bool tile_visit_along(const Pair *x, const Op *a, bool drops);
bool tile_visit_gather(const Pair *x, const Op *a);
bool tile_visit_flip(const Pair *x, const Op *a);
bool tile_visit_pairs(const Pair *x, const Op *a);
/* choose_tile_end.c: is the end of the loop the same, or are trips that the larger tile adds idle? */
bool tile_end_covers(const Pair *x, const Op *one, const Op *two);
/* choose_tile_end.c: the same of its start. */
bool tile_start_covers(const Pair *x, const Op *loop, const Op *other);
/* Has a loop of longer steps nothing but idle trips before its start? */
bool tile_step_starts(const Pair *x, const Op *loop, const Op *other);
/* Is a trip behind the loop's end idle, in the first module? */
bool tile_end_idles(const Pair *x, const Op *loop);
/* Or, without products: the longest step by which there is none, of those that the launch's dimension allows; 0: none. */
int64_t tile_end_divides(const Pair *p, const Op *loop);
/* choose_tile_join.c: is the length of the trips of a loop only a matter of rounding? */
bool tile_trips_join(Pair *x, const Op *loop);
/* choose_tile_access.c; of indices: does an access of the tile begin where its parts do, and anywhere else as it did? */
bool tile_visit_indices(const Pair *x, const Op *a, const Value *tile);
bool tile_visit_read(Pair *x, const Op *a);
bool tile_visit_write(Pair *x, const Op *a);
/* The same in a loop. */
bool tile_visit_loop_write(Pair *x, const Op *a);
bool tile_visit_extract(const Pair *x, const Op *a);
bool expr_same(const Expr *a, const Expr *b);           /* written alike */

enum { FACTORS_MOST = 16 };

/* What a product that the header writes is of. */
typedef struct Factors {
	const Expr *at[FACTORS_MOST];
	int n;                                          /* more than FACTORS_MOST: too many */
	uint64_t number;
} Factors;

void expr_factors(Factors *f, const Expr *e);
/* What the header says of dimension d of a parameter's tensor, which may stand elsewhere there (compile/arg_strides.c). */
const Expr *tile_dim(const Pair *x, const Value *tensor, int d);
/* Have dimensions `first` to `last` of a parameter's tensor the elements that an axis cuts into parts of that scale? */
bool tile_is_cut_by(const Pair *x, const Value *tensor, int first, int last, int axis, int64_t scale);
/* choose_tile_rows.c: is each row of a part along the axis written where its number says, dimension i of the tensor, and
 * none at or behind the end of what the axis cuts? */
bool tile_numbers_rows(const Pair *x, const Op *write, int i, int axis);
/* Of tiles of indices of several dimensions: does one of them number dimension d of theirs alone, so that the tensor's is
 * covered, as i * B + arange(0, B)[:, new]? */
bool tile_numbers_alone(const Pair *x, const Op *write, int d, int axis);
/* The same where the rows that are written are digits of one number, v / (H * W), v / W % H and v % W. */
bool tile_writes_digits(const Pair *x, const Op *write, int axis);
/* Does a histogram count nothing behind the end of what an axis cuts?  It is a sum over the part. */
bool tile_counts(const Pair *x, const Op *histogram);
/* Of a program that leaves, are all rows of a write numbered below 0? */
bool tile_leaves_rows(const Pair *x, const Op *write);
/* choose_tile_mirror.c: of programs that leave on one side of a square's diagonal, is what a larger tile on it writes there
 * what programs of the other side write as transposes? */
bool tile_mirrors_write(const Pair *x, const Op *write);
/* Do all that stay, but for those on the diagonal, enter the branch if its condition is so? */
bool tile_mirrors_branch(const Pair *x, const Op *branch, bool enters_if);
/* Extents and numbers of programs follow from the size; constants are looked at by value. */
bool tile_attrs_alike(const Op *a, const Op *b);

/* choose_sizes.c: such sizes of a kernel's header. */
typedef struct Sizes {
	int n;
	Pair at[TILE_SIZES];
	int64_t programs, bytes;                        /* as the header says; of the largest tile that moves */
	int element;                                    /* bytes */
} Sizes;

void tile_find_sizes(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, unsigned which, Arena *mem,
    Sizes *s);

#endif
