/* What the files of pass pipeline share; private to them.
 *
 *     pipeline.c    which loops, how many slots; then one of three:
 *                       its own loop           cp.async in groups, or bulk copies and mbarriers (bulk.c), iterations ahead
 *                       rings.c                a slot an iteration, nothing ahead, for pass roles: its copies run ahead
 *                       double_buffer.c        the next tile in registers
 *     candidate.c   which reads of the loop, ring.c their slots, loop.c the loop with more carried values
 *     warpgroup.c   products that read those slots themselves
 *     exit.c        branches around a loop, which leave it in the loop over programs
 *
 * pipeline.c checks the outcome (fact STAGED), protocol.c the rings of mbarriers in it and behind pass roles (PARTED), by
 * what trace.c says that the code does. */
#ifndef TEGULA_PIPELINE_H
#define TEGULA_PIPELINE_H

#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/pass.h"
#include "target/target.h"

/* A read that is made for a later iteration. */
typedef struct Staged {
	Op *read;
	const Layout *required;                         /* by the dots, or NULL */
	Value *ring;                                    /* its buffer */
	bool is_boxed;                                  /* warpgroups read the ring itself */
	bool is_turned;                                 /* of these, by way of threads that put them along K */
	bool is_beside;                                 /* threads read it, beside products of warpgroups (rings.c) */
	bool is_bulk;                                   /* a tensor map serves it, else cp_async */
	bool is_counted;                                /* whose threads arrive at an mbarrier when it has come */
	int64_t shared;                                 /* blocks of rank 0's cluster that copy a part each to all; 0 */
	int64_t pitch;                                  /* rows of records: bytes from one to the next in a slot, or 0 */
	int of;                                         /* 1 + the number of the rows of which this is a part, or 0 */
	int64_t step[1 + MAX_RANK];                     /* of a part: {steps} of the get */
} Staged;

/* Reads of tensors that are `in fixed`, the others, or both. */
typedef enum CopyPart { COPY_ALL, COPY_FIXED, COPY_OTHERS } CopyPart;

typedef struct Pipeline {
	Module *m;
	Arena *tmp;
	const Target *t;
	Func *f;
	Op *loop;
	Block *body;
	bool is_async;                                  /* asynchronous copies, else double buffering */
	int columns;                                    /* that the loop carried at first */
	bool *counts;                                   /* of these the integers that follow from each other; NULL: none */
	Value **ahead;                                  /* these in the iteration to copy for; NULL: in this one */
	VEC(Op *) slice;                                /* of the body: what its dots' operands are computed from */
	VEC(Staged) reads;
	int64_t bulk_bytes;                             /* of an iteration's bulk copies; 0: there are none */
	int nasync;                                     /* reads that cp_async serves in groups */
	int ranks;                                      /* of a cluster that shares copies, or 0 */
	CopyPart part;                                  /* of the reads that pipeline_copies copies */
	Value *full, *empty;                            /* mbarriers of bulk copies: a slot is filled; free (rings.c) */
} Pipeline;

/* collapse.c: nests of loops around products of warpgroups become one loop each */
void pipeline_collapse(Func *f);
/* Has the loop's own body a product of warpgroups? */
bool loop_multiplies(const Op *loop);
/* around.c: tiles before the loop over programs that it alone uses go into it, scalars that roles alone use into each */
void roles_sink_tiles(Op *programs);
void roles_sink_scalars(Func *f, Op *roles);
/* around.c: small tiles that ops behind such loops read are read before them */
void pipeline_early(Func *f);
/* around.c: what only their results' uses need is computed behind such loops */
void pipeline_sink(Func *f);
/* around.c: a get, with casts and the like behind it, stands where its tile first meets another that the body makes */
void pipeline_sink_get(Op *get);
/* around.c: a tile of weights (a decay, a bias by distance) that stands before the product and is used behind it would be
 * in registers beside that: it is computed where it is used */
void pipeline_sink_weights(Block *body, const Op *start);

/* epilogue_load.c: tiles that are read behind the loop come through slots of its ring.  now[0] and now[1] are the slot's
 * number and phase there, and become those behind the last of them */
void pipeline_epilogue_loads(Pipeline *p, const Pipeline *ring, Value **now);
/* epilogue_load.c: does the write put what follows from the elements that were read in their place? */
bool pipeline_replaces(const Op *write, const Op *read);

enum { COPY_LEAST = 4 };                                /* bytes that cp.async copies */

/* candidate.c: fills counts, slice and reads */
void pipeline_find_reads(Pipeline *p);
/* Is it a loop of scalars that looks for something in what nothing writes, from values that are there before block b? */
bool pipeline_is_search(const Func *f, const Op *loop, const Block *b);
/* Of these, and others of fewer bytes, those of parts of the same records become parts of their rows. */
void pipeline_find_records(Pipeline *p);
/* Rows of records stay with what reads their parts. */
void pipeline_drop_records(Pipeline *p);
/* Of one access of a thread. */
int pipeline_access_bytes(const Op *read);
/* Do all of the loop's products have few rows, or few columns, as far as it has some?  Then it waits for memory. */
bool pipeline_is_stream(const Pipeline *p);

/* Is the tensor `in fixed`? */
bool pipeline_is_fixed(const Pipeline *p, const Staged *s);
/* May copies of some reads start before the grids before are over? */
bool pipeline_starts_early(const Pipeline *p);

/* ring.c */

/* The dimension along which the layout's vectors lie, or `otherwise`: it has none. */
int pipeline_fast_dim(const Layout *l, int otherwise);
/* How a tile of that layout lies in a slot: rows of chunks of 16 bytes that eight rows have in different banks. */
Layout pipeline_swizzle(const Layout *l, DType t, int apart);
/* The layout of the first convert behind the read, as the read would have it; NULL: none. */
const Layout *pipeline_required_layout(Pipeline *p, const Staged *s);
/* Has each warp copy what it alone takes from the slot, where the copies' accesses stay the same. */
void pipeline_align(Pipeline *p, Staged *s);
/* Does v come from the read through casts, unary arithmetic, permutes and reshapes alone? */
bool pipeline_comes_from(const Pipeline *p, const Staged *s, const Value *v);
/* Bytes of a slot of each ring; `converted`: only of reads with a wanted layout. */
int64_t pipeline_stage_bytes(const Pipeline *p, bool converted);
/* Of these a slot of each tile that threads read beside products. */
int64_t pipeline_beside_bytes(const Pipeline *p);
void pipeline_rings(Pipeline *p, Builder *b, int slots);
/* Does it copy rows of records, shorter than the tile's by what is behind {valid}, or get parts of them? */
bool ring_moves_records(const Op *op, const Op *owner);
Value *pipeline_slot(Pipeline *p, Builder *b, const Staged *s, Value *number);
/* Every use of the read is a get of the slot; the read goes. */
void pipeline_gets(Pipeline *p, const Staged *s, Value *slot);

/* warpgroup.c */

/* Is v an operand of a product of warpgroups, as it is or transposed, in block b or one inside? */
bool warpgroup_reads(const Block *b, const Value *v);
/* Has the read uses other than by products of warpgroups in the block? */
bool warpgroup_shares(const Block *b, const Value *read);
/* Do products of the block read v from where threads put it, as elements of other than 16 bits do not lie along K? */
bool warpgroup_turns(const Block *b, const Value *v);
/* Does an op of the block, a dot or one that holds some, read v, or another dot of a sum of products to which it belongs?
 * v NULL: is there any dot? */
bool warpgroup_multiplies(const Block *b, const Op *op, const Value *v);
/* How a tile lies in shared memory so that warpgroups can read it, whose elements are neighbours along dimension `fast`
 * in memory. */
const Layout *warpgroup_layout(Module *m, const Type *tile, int fast);
/* Each product of warpgroups reads its operands from shared memory, and runs by itself until its result is used. */
void warpgroup_products(Module *m, Func *f, const Target *t);
/* The products that each wait of the block leaves running: those that start behind its own. */
void warpgroup_leave(Module *m, Block *b);

/* skew/skew.c.  By Value.id: how many products one behind the other a value of the body comes from, of a buffer what is put
 * there; the most that a product is. */
int *warpgroup_levels(const Func *f, const Block *body, int *most);

/* run_on.c: the product of the loop, a flat block's or a parted kernel's consumers', runs on into the next iteration */
void pipeline_run_on(Func *f, Op *loop);
void pipeline_run_all_on(Func *f);                      /* of flat blocks */
/* Where there was an iteration before, whose slot's number is not -1, that slot is given back. */
void pipeline_give_back(Builder *b, Op *arrive, Value *before);
/* run_past.c: products whose operands threads put run on into the next iteration */
void pipeline_run_past(Func *f, const Target *t, Op *loop);
/* Those of a kernel that is not to be parted. */
void pipeline_run_all_past(Func *f, const Target *t);

/* fixed.c: operands of products by multiplications that loops do not change go to shared memory before these */
void pipeline_fixed(Func *f, const Target *t);

/* decode.c: operands that threads decode, an iteration ahead */
enum { DECODED_AHEAD = 3 };                         /* slots of rings that it needs */
void pipeline_decode_ahead(Module *m, Func *f);

/* bulk.c */

/* The loop over programs that the loop stands in, within other loops of the program at most; NULL: it is in none. */
Op *pipeline_programs(const Op *loop);
/* In that, the op of the program's own block that is the loop, or holds it. */
Op *pipeline_in_program(const Op *loop);
/* Are slots of such tiles rows, each of which begins where a tensor map may write? */
bool pipeline_has_row_slots(const Type *tile);
/* Of the boxes that bring what is read, or copied. */
int64_t pipeline_bulk_bytes(const Op *read);
/* Which of the reads go by tensor maps. */
void pipeline_find_bulk(Pipeline *p);
/* None of them: threads put what they read, into slots of whole tiles. */
void pipeline_drop_bulk(Pipeline *p);
/* Does the op's tile begin at no place before its tensor?  Of a send of boxes that do an H200
 * says that the instruction is illegal.  An index that is not of a tile is lower/memory/bulk.c's. */
bool bulk_begins_within(const Op *op);
/* The mbarriers before the loop. */
void pipeline_mbarriers(Pipeline *p, Builder *b, int slots);
/* Copies of the reads for the iteration of that index into slot `number` of each ring. */
void pipeline_copies(Pipeline *p, Builder *b, Value *index, Value *number);
/* Until the phase of that parity of slot `number` is over; `phase` for the next iteration. */
void pipeline_await(Builder *b, Value *ring, Value *number, Value *phase);
Value *pipeline_next_phase(Builder *b, Value *phase, Value *next_number);
Value *pipeline_mbarrier(Pipeline *p, Builder *b, int slots, int64_t count, const char *name);
/* At the mbarrier of one slot of what is read: one for all bytes, and one for each thread of each counted copy. */
int pipeline_arrivals(const Pipeline *p);

/* roles.c: could threads of a role of their own make the copies?  Whatever says where the elements are, they compute. */
bool roles_can_copy(Func *f, const Target *t, Op *loop, const Op *read);

/* pingpong.c: groups of consumers that take programs in turn, by the schedule; warpgroups of all consumers */
int pingpong_groups(const Func *f);
int pingpong_warpgroups(const Func *f);
/* Why the consumers of a kernel with roles cannot be groups with programs of their own; NULL: they can. */
const char *pingpong_reason(const Func *f, const Target *t, const Op *programs, const Op *loop);
void pingpong_take_turns(Op *roles, Op *programs, Op *loop);

/* exit.c: what is behind an early return and multiplies goes before its condition. */
void exit_flatten(Block *b);
/* Does it do something to memory, or read what the kernel writes? */
bool exit_needs_guard(const Func *f, const Op *op);
/* The op goes under the condition: into region 0 of a branch, where it holds, or 1, where it does not.  Elsewhere a read
 * gives 0. */
void exit_guard(Op *op, Value *condition, int taken);

/* order.c: programs whose loops are longer come first, where the loop over programs has such.  Is there a program in this
 * turn of the loop?  NULL: the order is the grid's, and there always is. */
Value *order_programs(Module *m, Op *programs);
/* Which programs have the longer loops: those whose position on the first axis is greater (1), or less (-1); 0: neither. */
int order_of_loops(const Block *body);
/* Of a scalar in the body of the loop over programs: may it differ along an axis of the grid, is it never less along the
 * first? */
bool program_depends(const Value *v, const Block *body, int axis);
bool program_grows(const Value *v, const Block *body);

/* coarsen.c: why a block cannot run several programs at once, or NULL; if it does, are the writes of a program that runs
 * once more left out? */
const char *coarsen_reason(const Func *f);
const char *batch_reason(const Func *f);        /* why it cannot compute for several as for one, as far as ops say */
bool coarsen_stays(const Func *f);              /* it may run one after another, though not several at once */
bool coarsen_guards(const Func *f);

/* defer_reduce.c: what each lane has of the reduction along an axis: a tile of the axis's lanes in place of the axis, which
 * is still to be reduced.  NULL: lanes hold no run of it. */
Value *defer_part(Builder *b, Op *reduce);

/* privatize.c: does a persistent block add up for all its programs what the atomic adds, and add that once? */
bool privatize_takes(const Func *f, const Op *atomic);
/* … of places that data says, in a loop of the kernel or over its programs, in a copy of them in shared memory? */
bool privatize_tallies(const Func *f, const Op *atomic);
/* Do programs that are neighbours along the first axis go to one place?  Blocks that run several together add it up. */
bool privatize_merges(const Func *f, const Op *atomic);
/* It adds nothing where the condition does not hold. */
void privatize_guard(Op *atomic, Value *condition);

/* rings.c */

/* Fills, reads and frees one slot an iteration, with nothing ahead: what pass roles parts. */
void pipeline_symmetric(Pipeline *p, int slots);
/* The consumers' warps give the slot of that number back. */
void pipeline_release(const Pipeline *p, Builder *b, Value *now);

/* drain.c: can a write go by a tensor map, whatever its tile's layout is? */
bool drain_serves(const Func *f, const Target *t, const Op *write);
bool drain_releases(const Op *op);                      /* an atomic behind which others see what was written before */
/* Bytes of the buffers through which a write is to go, in pieces if that takes less; 0: it stays a write */
int64_t drain_bytes(Func *f, const Target *t, const Op *write);
/* Bytes for buffers that live with those of a write: all, or outside of loops those that are not over by then. */
int64_t drain_room(const Func *f, const Target *t, Op *write);
/* Are the bits of coordinate `dim` from `low` on bits of registers alone? */
bool drain_in_registers(const Layout *l, int dim, int low);
/* Has each warp as many rows of the tile, one behind the other, in whole periods of the swizzle? */
bool drain_has_warps(const Layout *l, int warps);
/* Some columns or rows of a tile, which are some of each thread's registers; a buffer for such
 * that `of` uses, of several groups' one each. */
Value *drain_piece(Builder *b, Value *v, const Type *tile, int dim, int64_t from);
Value *drain_buffer(Builder *b, const Op *of, const Type *tile);

/* cluster.c */

/* How programs of a cluster's blocks are neighbours; NULL, or why there are no clusters. */
const char *cluster_choose(const Func *f, const Target *t, Cluster *out);
/* Of so many blocks by which fewest bytes are copied, which `saved` says, of axes that have programs for them
 * (Func.short_axes); no blocks: by none. */
typedef double (*ClusterSaved)(const void *data, Cluster c);
Cluster cluster_best(const Func *f, int ranks, int short_axes, ClusterSaved saved, const void *data);
/* Its blocks that read the same tile and can copy a part of it each; 1.  *apart: by how much their ranks differ. */
int cluster_sharers(Func *f, Cluster c, const Op *read, int *apart);
bool has_warpgroup_product(const Block *b);
/* Of the programs that a launch in clusters runs, how many are there; 0: no clusters. */
double cluster_share(const Func *f, const int64_t *grid);
/* Can the tile be copied in as many parts? */
bool cluster_divides(const Op *read, int ranks);
/* Do programs that are neighbours along the axis read other tiles? */
bool cluster_varies(Func *f, int axis, const Op *read);
/* Does the loop run as often in all of a cluster's programs? */
bool cluster_steps_alike(Func *f, Cluster c, const Op *loop);
/* Which copies go to several blocks of the cluster: those of reads that are the same for their programs. */
void cluster_find_shared(Pipeline *p);
/* Around the loop over programs: mbarriers are set up before peers use them, and stay until peers do no more. */
void cluster_barriers(Module *m, Op *programs);

/* protocol.c: why a ring of mbarriers, shared by roles or not, is not handed on as it must be; NULL: each is */
const char *check_rings(Func *f, const Op **at);

/* loop.c */

/* The read again, or a copy into `slot`, for the iteration of that index. */
Op *pipeline_access(Pipeline *p, Builder *b, const Staged *s, OpKind kind, Value *slot, Value *index);
/* Counters, in p->ahead: as the loop begins; as they are after the iteration of that index; each as a column of its own. */
void pipeline_ahead(Pipeline *p);
void pipeline_count(Pipeline *p, Builder *b, Value *index);
int pipeline_counters(const Pipeline *p, Value **out);
/* The loop carries n values more, from `init`: gives their arguments.  pipeline_yield then says what they become. */
Value *pipeline_carry(Pipeline *p, Value *const *init, int n);
void pipeline_yield(Pipeline *p, Value *const *more, int n);
/* (v + 1) modulo n, of a v below n. */
Value *pipeline_next(Builder *b, Value *v, int n);

/* double_buffer.c: two slots where they take no more than `room` bytes */
void pipeline_double_buffer(Pipeline *p, int64_t room);

/* double_buffer.c: the pipelined loop's other reads, if a thread holds little of them, are made an iteration ahead */
void pipeline_read_ahead(Pipeline *p);

#endif
