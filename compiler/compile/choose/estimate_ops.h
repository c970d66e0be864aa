/* What a block of a kernel with products uses, by its tile IR: shared by estimate.c and estimate_ops.c. */
#ifndef TEGULA_ESTIMATE_OPS_H
#define TEGULA_ESTIMATE_OPS_H

#include "compile/choose/estimate.h"
#include "pass/layout/dot.h"

typedef struct Use {
	double products, shared, l2, arithmetic;        /* cycles */
	double asked;                                   /* what l2 were if all rows began with a line */
	double apart;                                   /* of arithmetic, what no product runs beside */
	double special, slow; /* of arithmetic, by the unit of exponentials; that unit's own */
	double after, issued;                           /* of arithmetic, what follows the products; its instructions */
	double written;                                 /* bytes of results */
	double stored;                                  /* cycles of the L2 cache for those that no tensor map takes */
	double read;                                    /* of shared: what copies put there */
	double beside;                                  /* elements of tiles that chained products are made with, not of */
	double lines, outside, moved;                   /* by tensor maps: cycles; of rows outside; bytes */
	double common;                                  /* bytes of small tensors, whose lines all blocks ask for */
	bool gathers;                                   /* rows that indices say */
	bool makes;                                     /* each of its products has such an operand that threads make */
} Use;

typedef struct Estimate {
	const Func *f;
	const Bound *b;
	const Target *t;
	int warps, stages;
	int split;                                      /* blocks that share a program's loop of sums */
	int stream;                                     /* that share one of the last programs of persistent blocks; 0 */
	Cluster cluster;                                /* whose blocks share copies */
	double acting;                                  /* the share of programs that do not leave early */
	double fetched;                                   /* programs that stay which a block fetches, in the mean; 0 */
	double planes;                                  /* of the grid, over which what stays is numbered; 0: none */
	double turns;                                   /* programs that may leave early and a block takes in turn; 0 */
	int groups;                                     /* of consumers, with programs of their own (pingpong); 1 */
	bool parted, chained;                           /* chained: and two products, one of which feeds the other */
	bool drifts;                                    /* flat blocks of such products, each at another place */
	double rows;                                    /* of products by warpgroups, the most */
	double left;                                    /* of the registers, of left operands that threads make */
	Use block;
	double serial;                                  /* cycles of a block that is alone */
	double registers, slot, drain;                  /* of a thread; bytes of a stage, and of what is written */
	double once;                                    /* bytes of tiles that a program reads before its loop */
	double tiles, vectors;                          /* read behind products; registers of a thread for these */
	double before;                                  /* instructions behind products before the last such tile is read */
	double behind;                                  /* bytes that products behind the loop read */
	double in_turn;                                 /* cycles that a lone warpgroup's trips take beyond that */
	double loose, loose_registers, loose_issued;    /* tiles that threads read behind products; cycles */
	double beside;                                  /* of a stage, what threads read: one slot will do */
	double wide;                                    /* registers for a decoded operand */
	double apart;                                   /* registers of sums of one more instruction */
	double held;                                    /* registers for functions of many steps in the loop */
	double chain, masked;                           /* cycles of two chained products' trips; of their masks */
	double filled, filled_registers, filled_trips;  /* tiles that threads put: bytes, registers a trip ahead, trips */
	double sums, elements;                          /* bytes of the loop's results; elements of a product */
	double trips, edges;                            /* of loops with products; programs with rows outside, a share */
	bool idles;                                     /* blocks of clusters that have no program */
	bool mapped;                                    /* what loops read comes by tensor maps */
	double gather_wait;                             /* cycles of a trip that a producer's threads take to gather */
	double sources;                                 /* registers of what left operands are computed of */
	double puts;                                    /* bytes of operands that threads compute and put */
	double turned;                                  /* bytes of operands that threads turn and put */
	bool is_turned;                                 /* an operand, by threads, into registers or shared memory */
	bool meets;                                     /* each trip turns what threads read for the columns */
	double look_wait;                               /* of a trip, for elements that threads look up one by one */
	double made, made_wait, made_steps;             /* left operands that threads make: cycles of a trip; 64 of K */
	bool made_moves;                                /* through shared memory */
	int made_dots;                                  /* products of these operands */
	const Value *made_of;                           /* the last one's left operand */
	bool decodes, adds_apart;                       /* an operand; sums of one more instruction, which hold none */
	bool decodes_rows, decodes_less;                /* in registers; in shared memory, what fewer warps would there */
	bool computes;                                  /* a trip computes longer than it multiplies, in turn */
	bool joins;                                     /* blocks that share a loop join its states, which are no sums */
	bool uses;                                      /* trips compute with what their products are */
	bool restarts;                                  /* sums begin anew in each iteration of a loop around theirs */
	double within;                                  /* arithmetic of loops that multiply */
	bool is_lone, transposes;                       /* one product; it is transposed (pass dot) */
	bool written_out;                               /* several products, in no loop */
	bool is_narrow;                                 /* a product of no more than 64 rows or columns */
	bool is_fma;                                    /* the lone product is by multiplications */
	int dots, warpgroup_dots, fma_dots;             /* fma: by multiplications */
	int instruction;                                /* registers of the one with the most columns */
	int own_sums;                                   /* products of warpgroups whose sums no other one adds to */
	int loops;                                      /* blocks of the function that hold such products */
	const Block *home;                              /* the last one's */
	int streams;                                    /* loops of one product each; 0: a product takes another's result */
	double scratch;                                 /* bytes of these products' operands that are in no slot */
	double trip_wait;                               /* cycles of an iteration that their loads are waited for */
} Estimate;

/* estimate_ops.c: adds what the op uses of its block, once, and notes what it holds. */
/* Are operands decoded while the product of the iteration before works? (pass pipeline) */
bool estimate_decodes_ahead(const Estimate *e);
void estimate_op(Estimate *e, Op *op, bool in_loop, Use *u);
/* Is the product's sum an addition that pass dot makes the accumulator's?  Else threads hold both. */
bool estimate_is_accumulated(const Op *dot);

/* estimate_operand.c: is a product added to the sum of one before it, in the same registers; does it join a sum that is
 * another product's, in registers of its own? */
bool estimate_continues_sum(const Op *dot);
bool estimate_joins_sum(const Op *dot);

/* estimate_product.c: what the product is.  False: tiles of rows, columns or depth that are padded, which no tensor map
 * brings. */
bool estimate_find_form(Estimate *e);

/* estimate_operand.c: adds operands that threads compute, of elements as wide, and put for a product of warpgroups whose
 * sums the loop carries.  Of others threads compute with each sum: vq_assign takes 612 us flat and 698 in roles. */
double estimate_take_turned(const Estimate *e, const Op *dot, Use *u);
void estimate_put(Estimate *e, const Op *dot, const DotWgmma *w, Use *u);
/* A result that no tensor map takes; a tile that none brings, which is read behind products. */
void estimate_stores(Estimate *e, const Op *op, bool in_loop, Use *u);
void estimate_reads_behind(Estimate *e, const Op *op, bool in_loop);
/* Instructions of a group's thread before it has read all tiles behind the products.  It holds one beside their sums if
 * there is room (epilogue_load.c). */
double estimate_late(const Estimate *e);
/* Of a sort or what finds the greatest few, by a network: cycles of a lane for an element.  A sort behind products holds
 * both what it has and what comes from other lanes; 0: of other ops. */
double estimate_order(Estimate *e, const Op *op);
/* estimate_chain.c: bytes of the buffers through which roles send what they write, beside `others`: where two have no room
 * beside a chain's slots, of which there are two at most, there is one (pass drain). */
double estimate_drain(const Estimate *e, double others);
/* estimate_rounds.c: why groups of consumers with programs of their own are not modelled; NULL: they are. */
const char *estimate_groups_reason(const Estimate *e, bool is_plain);
/* Bytes of buffers that threads fill. */
double estimate_fills(const Estimate *e);
/* What an iteration waits for that puts operands: it computes before it multiplies, or in part beside the product before
 * (pass pipeline, run_past.c); where several blocks share a multiprocessor, beside others'. */
double estimate_put_wait(const Estimate *e, const Use *u);
/* Instructions for an element of an op behind products, as passes leave it; each: of one that they leave alone. */
double estimate_epilogue_issue(const Op *op, double each);
/* Registers beside sums. */
void estimate_hold_decoded(Estimate *e, const Op *op, bool register_a);
void estimate_hold_sources(Estimate *e, const Op *dot, int copies, Use *u);
void estimate_hold_turned(Estimate *e, const Op *dot);
double estimate_made_apart(const Estimate *e, const Use *u);
/* Cycles of a trip that makes such operands, of which what it uses longest takes `busy`. */
double estimate_made_trip(const Estimate *e, const Use *u, double busy);
bool estimate_is_masked_weight(const Op *op);
/* Is the product one by multiplications?  What it uses. */
bool estimate_is_fma(const Op *dot, const Target *t);
bool estimate_is_8bit(const Func *f);                   /* what its first product multiplies */
void estimate_fma(Estimate *e, const Op *dot, Use *u);

/* estimate_chain.c: cycles of a trip of two chained products in roles; of masks of a loop's tiles by rows and columns; of
 * flat blocks, n programs of a multiprocessor, `together` at once, with what their ends take; instructions of a use. */
double estimate_chain(const Estimate *e, const Use *u);
double estimate_chain_ends(const Estimate *e), estimate_flat_fill(const Estimate *e);
double estimate_flat_groups(const Estimate *e);
double estimate_masked(const Op *loop, double trips);
double estimate_drifting(const Estimate *e, double ends, double programs, int n, int together);
double estimate_chain_issue(const Use *u);
/* A bias or mask is waited for, fetched and widened: of heads of 64, 96 and 128, f32, bf16 and bool, 0.04 to 0.064. */
static const double ESTIMATE_BESIDE = 0.052;

/* Cycles until a copy from device memory is there, where others ask for little. */
enum { MEMORY_LATENCY = 1100 };
/* estimate_rounds.c: cycles of device memory for programs of uneven length, and of the L2 cache beside them for tensors so
 * small that all programs read the same lines. */
double estimate_rounds(const Estimate *e, double programs, int together, bool is_plain, double *common);
/* The share of device memory's rate that so many programs have. */
double estimate_drawn(const Estimate *e, double programs);

/* estimate_rounds.c: of a tile with one element of each of a tensor's rows, what sectors of others' elements take: cycles
 * of a read, and of a write bytes as WRITTEN_RATE counts them; 0: it is none. */
double estimate_across(const Estimate *e, const Op *op);

/* estimate_rounds.c: of what programs take that leave early or not, dealt out evenly.  Where they are fetched, the last
 * of a block is one more than some have. */
double estimate_uneven_exits(const Estimate *e);

/* estimate_rounds.c: is it a loop around others whose sums begin anew in each of its iterations, as scores of a
 * vocabulary's parts? */
bool estimate_restarts(const Op *loop);
/* What the loops within wait for (`before`: without them), they wait for in each of its n iterations.  What stands between
 * them is computed while the block multiplies nothing; flat, its pipeline is filled anew each time. */
void estimate_repeat(Estimate *e, const Estimate *before, double n, double fill, Use *inside);

/* Of a group of warps in a role that computes longer than it multiplies: it does one after the other, each warp by itself.
 * The nearest of 1024 centres to rows of 64, 262144 of them, takes 353 us on an H200; 149 without this, 204 so. */
double estimate_in_turn(const Estimate *e, const Use *u);
/* The same of a flat block that has a multiprocessor for itself: what such trips take beyond `trip`. */
double estimate_alone_in_turn(const Estimate *e, const Use *u, double trip);
/* What products wait for that are written out: they read so many words of a thread at once (pass hoist). */
double estimate_written_out(const Estimate *e);

#endif
