/* The values of tune(...) that the caller left open, chosen by an estimate. */
#ifndef TEGULA_CHOOSE_H
#define TEGULA_CHOOSE_H

#include "model/model.h"
#include "pass/pass.h"
#include "sema/sema.h"

/* A combination of values that was compared. */
typedef struct Tried {
	const NamedConst *value;
	int n;                                                  /* 0: what the header says */
	double cycles;                                          /* that it was compared by; below 0: it was refused … */
	const char *refused;                                    /* … for this */
	Bill bill;
	bool is_chosen;
	const char *own;                                        /* the values that the header has; or NULL */
} Tried;

/* What was chosen, and why (choose_candidate.c). */
typedef struct ChooseWhy {
	Text chosen;                                            /* lines: what was chosen, and what else would take */
	Arena *mem;                                             /* of `tried`; NULL: only the lines are wanted */
	VEC(Tried) tried;
	int warps;                                              /* that the header's own has; 0: not known */
	const char *none;                                       /* why nothing was compared; or NULL */
	const char *because;                                    /* why the least was not chosen; or NULL */
} ChooseWhy;

/* Refusals for lack of registers or shared memory, which another model would not lift. */
#define CHOOSE_NO_SHARED "it needs more shared memory than a block has"
#define CHOOSE_NO_REGISTERS "it needs more registers than a thread has"
#define CHOOSE_NO_BLOCK "a multiprocessor has no room for a block"
#define CHOOSE_SPILLS "registers spill"
bool choose_no_room(const char *refused);       /* choose_candidate.c: is it one of these? */

/* How a kernel is bound: with `given`, beside what the caller has, and no report of a refusal. */
typedef struct ChooseBinding {
	bool (*is_fixed)(void *user, const char *name);         /* the caller said its value */
	bool (*bind)(void *user, const NamedConst *given, int n, Bound *out);
	void *user;
	ChooseWhy *why;                                         /* gets what was chosen and what else would take; or NULL */
	bool launches_both;                                     /* a kernel that computes operands, too */
	bool any_size;                                          /* the choice has to be right for other divisors, too */
	bool *relies;                                           /* gets true where it may not be; or NULL */
} ChooseBinding;

/* Of a kernel with products and tune(...): enumerates the values for compile-time parameters, warps and stages that are not
 * fixed, and parting into roles, and takes the combination with the least estimate (estimate.h) for the sizes of `b`; at
 * equal estimates the header's defaults.  Of others: warps, and whether blocks stay.  False: the defaults stay, as the
 * target is not modelled, or nothing else is better.  *values is in mem. */
bool choose_values(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    NamedConst **values, int *n);

/* blocks/choose_materialize.c: the same again, if operands that are computed before, by a kernel of their own, take less
 * by the estimates than `values`, as `choose` chose them, or parts of its loop that are added up so (choose_parts.c).
 * Cycles of that kernel for a schedule that has it, or below 0; of both, by those of each; how it is bound. */
typedef bool ChooseFor(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    NamedConst **values, int *n);
typedef bool ChooseBefore(Kernel *k, const Target *t, const ChooseBinding *how, ChooseFor *choose, Arena *mem,
    NamedConst **values, int *n);
ChooseBefore choose_before, choose_parts;

/* What pairs of blocks that add up parts may take by the estimates, of what blocks alone take. */
double choose_parts_paired(void);
double choose_first_cycles(const Bound *b, const Target *t, Arena *mem);
double choose_both_cycles(const Bound *b, double first, double second);
void choose_first(Bound *b);

/* choose_parameters.c: the same for the cpu device of so many threads (0: the row's): compile-time parameters. */
bool choose_cpu(Kernel *k, const Bound *b, int threads, const ChooseBinding *how, Arena *mem, NamedConst **values,
    int *n);
/* Nanoseconds of a launch there, of the kernel after its passes. */
double choose_cpu_cost(const Func *f, const Bound *b, int threads);
/* The same for products on targets with figures for those alone. */
bool choose_simdgroups(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    NamedConst **values, int *n);

/* The passes before an estimate, by their names. */
#define CHOOSE_PASSES \
	"simplify,licm,simplify,concat,filter,simplify,flatten,contract,accumulate,parts,materialize,diagonal,axis"

/* choose_candidate.c: candidates are compiled in memory of their own, in which the program's `called` grows, too; `next`
 * frees what the one before left there, and has the kernel compiled there until `close`. */
typedef struct Candidates {
	Kernel *k;
	Arena *mem, *keep;
	Program before;
} Candidates;
Candidates candidates_open(Kernel *k);
void candidates_next(Candidates *c);
void candidates_close(Candidates *c);
/* By all passes, by those of opt, or by those before an estimate; NULL: it does not compile. */
Func *choose_compile(Kernel *k, const Bound *b, const Target *t, const PassOptions *opt);
Func *choose_simplified(Kernel *k, const Bound *b, const Target *t);
/* The same with values beside what the caller has, which are bound in *b; NULL, too: the header refuses them. */
Func *choose_with(Kernel *k, const Target *t, const ChooseBinding *how, const NamedConst *values, int n,
    bool simplified, Bound *b);
/* A value of the name, or of a schedule's word; does the caller say that word's, or the header speak of it? */
NamedConst choose_number(const char *name, int64_t v), choose_word(ScheduleName which, int64_t v);
bool choose_is_said(const Kernel *k, const ChooseBinding *how, ScheduleName which);
double choose_programs(const Bound *b), choose_programs_along(const Bound *b, unsigned axes);        /* of the grid */
/* choose_roles.c */

/* As choose_roles, of so many warps or more. */
int choose_roles_of(const Func *f, const Schedule *s, const Target *t, int least_warps);
/* Products of one loop, or of loops one behind the other, none of which takes the result of another, stream their operands
 * as one product does: the parts of a complex one, gates of two inputs. */
bool choose_are_streams(const Func *f);
/* Do loops read tiles whose rows indices say?  Threads copy those, and clusters are 1 % slower (conv2d, estimate.c). */
bool choose_gathers(const Func *f);
/* Does a loop carry the sum of a product whose operands are as they were read? */
bool choose_sums(const Func *f);
int choose_count_dots(const Func *f);
/* Is there one product, summed up in a loop within another?  What a step of that cuts is its rows or columns. */
bool choose_is_nest(const Func *f);
/* Are there several products, and none in a loop? */
bool choose_written_out(const Func *f);
/* estimate_leave.c: do programs return early, before their products? */
bool choose_leaves(const Func *f);
/* Would the block's warps divide the loop of its first product, if the schedule does not say (pass slice_k), though it has
 * too few iterations for them? */
bool choose_slices_badly(const Func *f, const Bound *b, const Target *t);
/* A switch that is off, or a loop left whole, where the header does not list it. */
bool choose_says_nothing(const Kernel *k, const NamedConst *v);
/* How many of the ascending numbers of warps a kernel may have, if warpgroups can do all of its products; else 0.  One
 * product has two groups at most; where one feeds another, each group has rows of its own. */
int choose_warps(Func *f, const Target *t, const int *warps, int n);
/* What a launch of products takes, after those passes, with the schedule of `b`; below 0: it does not fit.  The bill may
 * be NULL. */
double choose_cycles(Func *f, const Bound *b, const Target *t, Bill *bill);

/* choose_rows.c: tiles of products with few rows.  Puts the one size in place of those listed, in `all`, and joins smaller
 * ones to those of columns, of a lone product (choose_few) down to 32, else where they are too few; false: it has no such
 * rows. */
bool choose_few_rows(const Kernel *k, const Func *f, const Bound *b, const ChooseBinding *how, const Target *t, Arena *mem,
    TuneName *all, int n, bool is_lone);

/* Is there an axis of the grid that a parameter cuts a dimension of up to 32 by? */
bool choose_has_few(const Kernel *k, const Bound *b);

/* What the kernel is with one value beside the header's, simplified; NULL: it has none. */
typedef const Func *ChooseProduct(void *user, const NamedConst *value);
/* choose_rows.c: joins that size to those listed. */
/* choose_sizes.c: does the size only place parts of tiles, so that one which no header lists may take its place? */
bool choose_only_places(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, const char *name);
void choose_join_rows(const Kernel *k, const Bound *b, const ChooseBinding *how, Arena *mem, TuneName *all, int n);
/* choose_rows.c: of grid(…: cdiv(D, name)) the value of dimension D; -1: there is no such axis */
int64_t choose_divided(const Kernel *k, const Bound *b, const char *name);
/* choose_rows.c: adds, of a lone product of warpgroups, multiples of 32 between powers of two listed for its columns, of 8
 * that divide its rows well, and 6 and 8 slots beside those listed.  False: the kernel is none with a tile to choose. */
bool choose_between(const Kernel *k, const Bound *b, const ChooseBinding *how, const Target *t, ChooseProduct *product,
    void *user, Arena *mem, TuneName *all, int n);

/* choose_blocks.c: the warps, and whether blocks stay, by the model; as choose_values, which calls it for kernels without
 * products and for those without tune(...). */
bool choose_blocks(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    NamedConst **values, int *n);

/* choose_facts.c: what choose_blocks asks of a function.
 *
 * Of a thread, reads that are under way in a loop that reads trips ahead, each with its address and bounds. */
double blocks_reads_ahead(const Func *f);
int choose_count_in_loops(const Func *f);         /* dots */
int blocks_elements(const Func *f);             /* of the largest tile, that a thread holds */
int blocks_longest_loop(const Func *f);         /* its ops */
/* Not products of warpgroups, which are estimate.c's, nor what costs little known cycles; nor many ops, which take long. */
bool blocks_modelled(const Func *f);
/* Does it multiply by instructions of warps, and nothing in it is modelled only crudely but that loops do? */
bool blocks_multiply(const Func *f);
bool blocks_privatize(const Func *f);               /* do programs add to the same places? (pass privatize) */
bool blocks_merge(const Func *f);                   /* do neighbours? */
bool blocks_loop(const Func *f);                /* has it one? */
/* The most trips of two loops that run alike: the second may read what the first has read.  0: there are none. */
int blocks_repeated_trips(const Func *f, const Bound *b);

/* choose_whole.c: the values of tune(...) for a kernel of many products, or of few rows and decoded weights, by what all
 * passes make of it; as choose_values, which calls it for such a kernel as elaborated and simplified.  By warps:
 * `values` are the estimate's, which it may keep. */
bool choose_is_whole(const Kernel *k, Func *f, const Bound *b, const Target *t);
bool choose_whole(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, bool is_by_warps, Arena *mem,
    NamedConst **values, int *n);

/* choose_facts.c: what the bill of a function does not know, as a factor; of few rows, of a loop with merge, and of
 * products that read their operands as they are. */
double choose_beyond(const Func *f, const Target *t, bool is_few, bool is_merged, bool is_plain);
/* Is the one product's K padded in a way that the estimate does not know? */
bool choose_pads_depth(const Func *f);
/* Twice as many slots as passes take, where each multiprocessor has a program at most, but the block leaves room for
 * another: it asks for less than it could, and the next grid's blocks come to stand beside those that run while other
 * multiprocessors have none.  16 x 5120 x 5120 in bf16 takes 20.6 us with four slots of 16 KB on an H200 and 16.7 with
 * eight, in a stream 23.4 and 18.6; 16 x 8192 x 8192 34.6 and 34.1, in a stream 49 and 45.  Of fewer
 * trips as many as leave no room (3 x 2560 x 5120 8.9 us with three, 7.9 with four).  0: as they are, as for loops of
 * few trips (16 x 1552 x 1136 takes 2.71 us so, 2.97 with twice as many). */
int choose_deeper(const Func *f, const Bound *b, const Target *t);
/* Does nothing that it computes see columns beside each other? */
bool choose_keeps_columns(const Op *op);
/* One product, or several side by side, with decoded weights? */
bool choose_decodes(const Func *f);
/* … with a right operand that threads compute in any way, as nibbles of bytes that are joined */
bool choose_computes(const Func *f);
/* Products without a loop whose rows have numbers: what such blocks take is reading and writing, which the estimate is too
 * rough for (16 adapters of rank 16 to 4096 columns: 38.7 us in 64 x 128, 46.0 in 32 x 256 that it takes for better). */
bool choose_writes_by_number(const Func *f);

/* choose_trim.c: of weights that warpgroups decode, takes rows that lie outside from tiles that have many, and has two
 * blocks share a program where they are alone; *values has room for one more. */
void choose_trim(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, NamedConst *values, int *n);
/* Adds a value behind n others, of fewer slots than the passes take, where few rows of decoded weights are better for it;
 * how many were added. */
int choose_slots(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, NamedConst *values, int n);
/* choose_whole.c: of a lone product of few rows, or of a loop of such with a merge, the names of `all` in all their values,
 * by four and eight warps (of a merge two, too) where the header says nothing of them.  *header: the bill of the header's
 * own, where a reason is wanted.  False: none is modelled. */
bool choose_few(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, const TuneName *all, int n,
    bool is_merged, NamedConst *values, int *nvalues, Bill *header);

/* choose_sizes.c: sizes for tiles that the header says as numbers and that only cut its grid. */
enum { TILES_GROWN = 4, TILES_MOST = TILES_GROWN + 2, TILE_SIZES = 3 };
typedef struct ChooseTile {
	NamedConst value[TILE_SIZES];
	int n;
	bool is_small;                                  /* what the header says are few bytes, or no power of two */
	bool is_twice;                                  /* of twice the header's bytes */
	bool is_half;                                   /* of half the header's rows, all else as there; the last one */
} ChooseTile;
int choose_tiles(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    ChooseTile out[TILES_MOST]);
/* The same, of a half to a 64th of the header's elements, for blocks that compute several programs as one tile. */
enum { SMALLER_MOST = 6 };
int choose_smaller(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    ChooseTile out[SMALLER_MOST]);
/* The same of a size by which its loops step, where it has no products. */
enum { STEPS_MOST = 4 };
int choose_steps(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    ChooseTile out[STEPS_MOST]);
/* Adds names of compile-time parameters that the header gives as numbers, lists nowhere and only cuts a grid by, if they
 * are rows or columns of the products of `f`, with other sizes for them; not where the header gives a schedule. */
void choose_add_sides(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, const Func *f, Arena *mem,
    TuneName **all, int *n);

/* choose_split.c: may blocks share a program's loop as the schedule says?  by_itself: it is no word of the header's; joins:
 * its states are no sums, so that blocks in roles share it, too. */
bool choose_may_split(const Bound *b, const Target *t, bool by_itself, bool joins);
bool choose_places_all(const Bound *b, const Target *t);        /* do clusters of so many blocks run at once? */
bool choose_takes_turns(const Bound *b, const Target *t, int64_t split);        /* … of those that would share its loops? */
bool choose_shares_last(const Schedule *s);     /* as persistent blocks do, the last programs (pass stream) */
/* Two blocks share the last programs of what is chosen, a kernel in roles, where that is clearly better: its `split` is 2
 * then. */
void choose_stream(Kernel *k, const Target *t, const ChooseBinding *how, NamedConst *chosen, int n);
/* choose_split.c: does a program read tiles outside of its loop, as residuals?  Each block that shares it would. */
bool choose_reads_beside(const Func *f);
/* choose_split.c: has the function a loop with merge? */
bool choose_merges(const Func *f);
/* Has it products by warps in a loop whose updates say how its states join? */
bool choose_joins_by_warps(const Func *f);
bool choose_merges_few(const Func *f);                   /* products of few rows, in a loop of either kind? */
/* choose_split.c: blocks that share a program of the function, elaborated and simplified; 1. */
int choose_split_of(const Func *f, const Bound *b, const Target *t);

/* What a kernel bound as `b` takes, which became `f`.  False: that is not modelled. */
bool choose_bill(const Bound *b, Func *f, const Target *t, Arena *mem, Bill *out);
/* "  chosen: warps = 1, persistent = true; the default takes 158 us: starting blocks 157, …" */
void choose_explain(const NamedConst *chosen, int n, const Bound *header, const Bill *without, const Target *t, Text *out);

/* choose_candidate.c.  Each does nothing unless all that was tried is wanted.  `refused` NULL: the bill says why, or
 * nothing does; `values` NULL: the header's. */
void why_tried(ChooseWhy *why, const NamedConst *values, int n, double cycles, const Bill *bill, const char *refused);
/* Drops estimates that what follows is not compared with; what was refused stays. */
void why_anew(ChooseWhy *why);
void why_none(ChooseWhy *why, const char *reason);
void why_because(ChooseWhy *why, const char *reason);
/* Is that value among these? */
bool choose_has(const NamedConst *all, int n, const NamedConst *v);

#endif
