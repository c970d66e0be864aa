/* How long a launch takes, roughly: for choosing between schedules before anything is compiled. */
#ifndef TEGULA_ESTIMATE_H
#define TEGULA_ESTIMATE_H

#include "compile/inspect.h"
#include "ir/derive.h"
#include "sema/sema.h"

/* Of the kernel as elaborated for `b` and simplified, with the warps and stages of its schedule, on a target that has
 * rates (target.h).  Cycles of one multiprocessor; less than 0: it does not fit, or nothing in it multiplies.  The bill
 * may be NULL. */
double estimate_cycles(Func *f, const Bound *b, const Target *t, Bill *bill);

/* estimate_trips.c: how often a loop runs; a guess where that is not known. */
double estimate_trips(const Func *f, const Bound *b, const Op *loop);
bool estimate_is_guess(const Func *f, const Bound *b, const Op *loop);
/* The share of elements that lie before the end, of an access in a loop from where data says to where data says. */
double estimate_inside(const Func *f, const Bound *b, const Op *access);
/* What a scalar is in the last program of such clusters; INT64_MIN: not known. */
int64_t estimate_last(const Func *f, const Bound *b, const Value *v, Cluster c);
/* In programs at that part of the grid, 0 to 1, in trips at that part of loops. */
int64_t estimate_at(const Func *f, const Bound *b, const Value *v, double program, double trip);
/* estimate_launch.c */
bool estimate_is_data(const Value *v, int depth);       /* is it made of what is read? */
/* A line of text for each loop of which data says how often it runs, and each tensor of which it says where: what was
 * counted. */
void estimate_guessed(const Func *f, const Bound *b, const Target *t, Arena *mem, Text *out);
/* estimate_leave.c: what programs of an example did there; NULL: they were not followed, or did not come there. */
const FollowedAt *estimate_followed(const Bound *b, const Op *op);
double estimate_followed_trips(const Bound *b, const Op *loop); /* of a loop that data ends; below 0: not known */
bool estimate_asks_data(const Func *f, const Bound *b, const Op *op);   /* a loop or a branch that does as data says */
void estimate_data_text(const Func *f, const Bound *b, Text *out);      /* a line for each of these */
/* Of the programs the share that multiply, where others leave early; 1. */
double estimate_acting(const Func *f, const Bound *b, double *planes);
/* That share, if it is known: programs leave by an order of two axes, and one side of a square's diagonal stays, with it or
 * without; 0. */
double estimate_half(const Func *f, const Bound *b);
/* Of the times that a branch is reached those that take its first region, of programs all over the grid and trips all over
 * its loops; where data says, of those that were followed, or below 0. */
double estimate_taken(const Func *f, const Bound *b, const Op *branch);
/* Bytes of tensors that the others would write, as of a product's triangle. */
double estimate_unwritten(const Func *f, const Bound *b, double acting);
/* Clusters of so many blocks by which loops copy fewest bytes, as pass persist takes them; of one: they share nothing. */
Cluster estimate_cluster(Func *f, const Bound *b, int ranks);
/* Of the programs that such clusters run the share that there are; 0 if they share nothing. */
double estimate_pairs(Func *f, const Bound *b, int ranks);
/* Is K padded, of operands that no tensor maps bring with zeros behind their rows?  The estimate knows no such products. */
bool estimate_pads_depth(const Op *dot);
/* Blocks of that cluster that share copies of what is read. */
int estimate_sharers(const Op *read, Cluster c);
/* Lines of the L2 cache that a block asks for, for each that rows would take if all began at its start; in such a
 * cluster. */
double estimate_lines(const Bound *b, const Op *read, Cluster c);
/* estimate_rounds.c: cycles until one block has what `split` blocks that share a loop leave, of so many bytes each; joins:
 * through memory, and otherwise than by sums. */
double estimate_join(const Target *t, int split, double bytes, bool joins);
/* Bytes of the tensors, each as often as it is read or written whole. */
double estimate_bytes(const Bound *b);
/* estimate_scattered.c: of `sectors` that an access touches at random in its tensor, how many are different. */
double estimate_at_random(const Bound *b, const Op *op, double sectors);
/* Bytes of device memory, at the rate of rows in order, of accesses of which data says where, and of
 * the tensors that they go to; `each`, or NULL, gets those of each parameter added. */
double estimate_scattered(const Func *f, const Bound *b, const InspectArg *arg, const Target *t, double programs,
    double *tables, double *each);
bool estimate_in_order(const Op *access); /* does a running sum count its places? */
double estimate_in_sectors(const BoundParam *p);
/* Bytes that the L2 cache gives beside those of pieces that data places, which a read takes of sectors. */
double estimate_beside_pieces(const Bound *b, const Target *t, const Op *op);
/* Bytes of the tensors that the function itself uses, from that parameter on. */
double estimate_used(const Func *f, const InspectArg *arg, int from);
/* Has a parameter rows, or elements, that data names? */
bool estimate_is_table(const Func *f, const Bound *b, const InspectArg *arg, int param);
/* A line of text for each tensor that they read or write again and again. */
void estimate_scattered_text(const Func *f, const Bound *b, const InspectArg *arg, const Target *t, double programs,
    Arena *mem, Text *out);
/* The share of an access's sectors that the first cache does not have, where data says which elements; 1. */
double estimate_missed(const Func *f, const Bound *b, const InspectArg *arg, const Target *t, const Op *op);
/* Is what is read an operand of a product of its block, as it is or transposed? */
bool estimate_multiplies(const Value *read);

/* estimate_product.c: a launch of products of warpgroups, whose operands come by tensor maps. */
typedef struct ProductLaunch {
	double products, shared, lines, outside, arithmetic;    /* cycles of a program; outside: of rows at the edge */
	double after, issued;                           /* cycles of arithmetic behind the products; its instructions */
	double late;                                    /* those while slots hold what is read behind them */
	bool is_8bit;                                   /* the operands' elements */
	double written;                                 /* bytes of results */
	double moved, bytes;                            /* by a program through the L2 cache; through device memory */
	double trips, programs, edges;                  /* edges: the share of programs that have rows outside */
	double elements, sums;                          /* of the tile; bytes of what a part leaves */
	double behind;                                  /* bytes of tiles that are read behind the loop … */
	double loose, stored;                           /* … by threads; cycles of the L2 cache for what they write */
	double together, multiprocessors;               /* blocks that are resident at once */
	int warpgroups, groups, stages, split, stream, ranks;
	bool parted, in_cluster, transposes;            /* in_cluster: what splits a loop */
	bool idles;                                     /* blocks of clusters that have no program */
	bool leaves;                                    /* programs that have no rows return early, by data */
	bool in_turn;                                   /* in roles a trip multiplies, then computes with that */
	bool runs_on;                                   /* a lone warpgroup: of 64 rows or columns, or in single rounds */
} ProductLaunch;

double estimate_product(const ProductLaunch *p);
/* Lines that a row of a box asks for; parts of the last one where other programs have its rest, not the next trip: of
 * weights [K, N] in 64 x 32 x 128, 64 x 4096 x 4096 takes 11.3 us, 12.7 in 64 x 64 x 128; not with rows outside: 37 x 4096
 * x 11008 36 and 26. */
double estimate_row_lines(const Op *read, double bytes);
/* Of a program's lines, in cycles, and bytes through the L2 cache what takes longer, where all multiprocessors ask. */
double estimate_sectors(double lines, double moved, double multiprocessors);
/* Of a program's cycles of arithmetic behind its products, what it takes longer, of the launch. */
double estimate_behind(double after);
/* Multiprocessors whose blocks run at once in clusters of `ranks`. */
double estimate_placed(const Target *t, int ranks);
/* Programs of a multiprocessor, the last ones in so many parts. */
double estimate_stream_programs(double programs, double multiprocessors, int parts);
/* Rows of what is read that lie outside of the tensor in the last program, which a cluster's ranks may have added; *share:
 * at least that of the programs which have such rows. */
double estimate_outside(Func *f, const Bound *b, const Op *read, Cluster c, double *share);
/* Lines of the L2 cache that boxes of what is read touch, by those that they would fill: up to 2 where the tensor's rows
 * begin within lines. */
double estimate_astride(const Bound *b, const Op *read);
/* Do rows of that tensor begin within sectors of 32 bytes? */
int64_t estimate_dim(const Bound *b, const Value *tensor, int d);       /* the function's dimension d of a parameter */
bool estimate_splits_sectors(const Bound *b, const Op *read);

/* estimate_trips.c: counts what a program issues, and each line's accesses, by the thread IR. */
void estimate_issued(Func *f, const Target *t, const CostFacts *facts, bool is_built, Arena *mem, ProgramCost *c);

/* Of any kernel that went through the whole pipeline.  `lines`, unless NULL, gets what each line of the source costs.
 * False: it does not fit. */
bool estimate_bill(Func *f, const Bound *b, const Target *t, Arena *mem, LineCosts *lines, Bill *out);
/* Of what was built: by its registers and the blocks that a multiprocessor holds with them, where `x` knows these. */
bool estimate_built(Func *f, const Bound *b, const Inspection *x, Arena *mem, LineCosts *lines, Bill *out);
/* What a clock over the ops of the same goes by: on the scale of the launch, whose bill is given, with the lines and the
 * resident blocks that estimate_bill gave. */
typedef struct LaunchPace {
	CostFacts facts;
	double blocks, memory;                          /* of a multiprocessor at once; its cycles for a byte of copies */
	double cycles;                                  /* of a program */
} LaunchPace;

LaunchPace estimate_pace(const Func *f, const Bound *b, const Target *t, Arena *mem, const LineCosts *lines, int resident,
    const Bill *launch);

#endif
