/* What the report says in sentences: beside a line of the source, of a line that is chosen, and of
 * the whole kernel.
 *
 *     said.c          figures as they are read, lists; all of it as JSON, which the page shows
 *     said_code.c     what stages' text says of a line: barriers, divisions, 64-bit indices
 *     said_access.c   coalescing, widths, bank conflicts, padding
 *     said_barrier.c  where barriers come from
 *     said_mend.c     without what they would not be there
 *     said_product.c  matrix instructions, and what a better one is worth
 *     said_bound.c    why it is not faster: the time, the least, what takes it
 *     said_memory.c   the bytes that device memory moves, and what can be changed of accesses
 *     said_remedy.c   and what can be changed, by what that is worth
 *     said_line.c     all that stands beside a line */
#ifndef TEGULA_SAID_H
#define TEGULA_SAID_H

#include "tool/report/report.h"

typedef VEC(const char *) SaidList;

/* The text of a stage by lines, with the line of the source that each came from; no lines where
 * there is no such stage. */
typedef struct SaidStage {
	const char **line;
	const int *source; /* 0: none */
	int n;
} SaidStage;

typedef VEC(const LineBill *) SpentLines;

/* A line of inspect; of barriers for the same reason one that has all their runs. */
typedef struct SaidLine {
	const InspectLine *x;
	const char *what, *details, *tile; /* tile: "" of a barrier */
	int line, col;
	double runs, most; /* times a program; -1: not known */
	SaidList conflicts;
} SaidLine;

typedef VEC(SaidLine) SaidLines;

typedef struct Said {
	Arena *mem;
	const Inspection *x;
	const ChooseWhy *why;
	const Bound *b;
	const json_t *limits, *variants, *profile, *warnings, *timeline, *counted; /* of the report */
	const char *summary; /* what inspect --explain prints */
	SaidList source;     /* lines of the text */
	double us;           /* of the launch by the model; 0: not known */
	double compared;     /* the same as schedules are compared */
	double wgmma_us;     /* that products would take by wgmma; 0: they do, or cannot */
	double bytes_us;     /* of device memory */
	SaidStage tir, thread, code,
	    sass; /* the last tile IR; thread IR; PTX or Metal; machine code */
	bool is_ptx;
	SaidLines lines;       /* all, each by itself */
	int *barriers, *holds; /* of the code, by lines of the source */
	int nsource;
} Said;

/* said.c */

void said_add(const Said *s, SaidList *l, const char *text); /* unless it is there, or empty */
const char *said_join(const Said *s, const SaidList *l, const char *between);
const char *said_round(const Said *s, double v);  /* three digits */
const char *said_micro(const Said *s, double us); /* "51.7 µs" */
const char *said_mega(const Said *s, double us); /* bytes of device memory in that time, "204 MB" */
bool said_begins(const char *text, const char *const *with, int n);
double said_part(const Said *s, BillPart p);         /* µs of the launch */
const LineBill *said_spent(const Said *s, int line); /* NULL: the model has nothing of it */
double said_spent_us(const Said *s, const LineBill *l, BillPart p); /* NULL: 0 */
bool said_matters(const Said *s, double us);   /* a hundredth of the launch or more */
bool said_is_rare(const SaidLine *l);          /* in few of the programs, as an if says */
bool said_weighs(const Said *s, int line);     /* has any part of a line that? */
BillPart said_longest(const Said *s, int but); /* the longest part but one; -1: of all */
void said_ranked(const double part[BILL_PARTS], BillPart out[BILL_PARTS]); /* the longest first */
SpentLines said_lines_by(const Said *s, BillPart p); /* lines with some of a part, the most first */
/* The launch, were part p shorter by so many µs: the longest part decides, and what comes on top of
 * it stays. */
double said_with(const Said *s, BillPart p, double less);
/* Of products, what the estimate has beside its longest part, where that is much, as a block does it in turn; 0: little. */
double said_alone(const Said *s);
int said_resident(const Said *s);  /* blocks at once on a multiprocessor, no more than the launch has for each */
void said_merge(const Said *s, SaidLines *all, const SaidLine *l); /* with that of the same reason, if there is one */
SaidLines said_merged(const Said *s, int line);
/* µs of the launch that other tiles or schedules take, which are compared before there is code, on the scale of this one as
 * it is built; but where that takes all registers, which they are taken not to. */
bool said_is_full(const Said *s);             /* has a thread of it all registers that it can? */
bool said_spills(const Said *s);              /* has the code much that registers do not hold? */
double said_scaled(const Said *s, double us);
const char *said_behind(const Said *s, const char *head); /* what the summary says behind that, to its line's end; "" */

/* said_code.c */

void said_read_code(Said *s, const json_t *stages);
const char *said_specials(const Said *s, int line); /* conversions and functions; "": none */
double said_wide(const Said *s, int line); /* the part of its PTX that computes in 64 bits */
bool said_casts(const Said *s, int line); /* has it a tile of indices of 64 bits, that can be cast? */
const char *said_doubles(const Said *s, int line); /* what it computes in f64; "": nothing */
/* What a line's instructions are for, the most first: "by PTX about 48 % divisions and remainders
 * of integers"; "": not known. */
const char *said_mix(const Said *s, int line);
/* The share of them that are routines of integer divisions by what is no constant, and how many
 * there are. */
double said_quotients(const Said *s, int line, int *n);
bool said_divides(const Said *s, int line);
const char *said_keys(const Said *s, int line); /* "argmax", that compares keys of 64 bits; "" */
const char *said_late_reads(
    const Said *s); /* reads behind a write, of which no load is moved up; "" */
const char *said_unrolled(const Said *s); /* why the code has a loop's barriers several times; "" */

/* said_access.c */

const char *said_coalesced(const Said *s);
/* Is an access of few bytes, where its rows would permit more, and has it much of what the kernel moves? */
bool said_is_narrow(const Said *s, const SaidLine *l);
bool said_has_tile(const Said *s); /* a parameter for the size of its tiles */
bool said_is_spread(const SaidLine *l); /* elements a few apart, whose sectors have others between them */
const char *said_widen(
    const Said *s, const SaidLine *l); /* what would make it wider; "": not known */
/* Elements outside of tensors, "": few; the largest share, of what other tiles have fewer of and of what none has. */
const char *said_padding(const Said *s, double *share, double *whole);
double said_cost(
    const Said *s, const SaidLine *l); /* µs at most of sectors and passes beyond the fewest */
/* "costs at most 4.6 µs of the launch", of sectors and passes beyond the fewest; "": there are none, or it is not known.
 * *weighs: may it be worth a change? */
const char *said_waste(const Said *s, const SaidLine *l, bool *weighs);
const char *said_mean(const Said *s, const SaidLine *l);
const char *said_not_ahead(const Said *s, const SaidLine *l);
/* As counted, or by the layout; -1: not known. */
double said_sectors(const SaidLine *l, double *least);
const BankPlan *said_banks(const SaidLine *l); /* that take more passes than the fewest; NULL */

/* said_barrier.c */

const char *said_barriers(const Said *s);
const char *said_barrier(
    const Said *s, const SaidLine *l); /* "": it is none, and has none inside */
const char *said_often(const Said *s, const SaidLine *l);
const char *said_inside(const Said *s, const SaidLine *l); /* details, with as many barriers as the code has inside */
const char *said_barrier_mend(const Said *s, const SaidLine *l);
int said_blocks_with(
    const Said *s, double more); /* blocks of a multiprocessor, were shared memory larger */

/* said_product.c */

const char *said_products(const Said *s);
const char *said_gain(const Said *s);   /* what wgmma is worth; "" */
bool said_is_weaker(const SaidLine *l); /* by an instruction of a warp */
const json_t *said_wgmma_variant(
    const Said *s); /* other tiles with which products are by wgmma; NULL */

/* said_bound.c: paragraphs, the most important first */

void said_bound(const Said *s, SaidList *out);
const char *said_guessed(
    const Said *s); /* "line 9's loop runs 16 trips of a program", where that is a guess; "" */
/* µs that any schedule takes: of bytes that are different (*memory), or of products but for the
 * share outside of tensors. */
double said_least(const Said *s, bool *memory, double *outside);
double said_behind_us(const Said *s); /* µs of arithmetic behind products, that overlap with nothing */
double said_least_memory(const Said *s); /* µs of the bytes that are different */
/* The role whose threads wait for what they read themselves, and no copy brings, for a fourth of a
 * trip or more; NULL. */
const json_t *said_own_reads(const Said *s);
const char *said_rounds(const Said *s); /* blocks that take turns */

/* said_remedy.c: what was compared */

const char *said_compared(const Said *s);
int said_fit(const Said *s); /* schedules that were compared and have a time */
/* Are tiles of less, of a name or several, all slower by the model?  *compared: are there any? */
bool said_smaller_are_slower(const Said *s, bool *compared);
bool said_is_smaller(const Said *s, const json_t *variant); /* has a variant smaller tiles alone? */

/* said_remedy.c: what can be changed, the largest gain first */

#define SAID_WORTH 0.97 /* of the launch: a change that is worth a sentence */

typedef struct Remedy {
	double us; /* of the launch with it; 0: not known */
	const char *text;
	bool tiles; /* other values of the header's tiles */
} Remedy;

typedef VEC(Remedy) Remedies;

void said_remedies(const Said *s, SaidList *out);
void said_remedy(const Said *s, Remedies *all, double us, const char *text); /* in its place, if it is worth it */

/* said_memory.c */

const char *said_moved(const Said *s); /* bytes of device memory by lines; "" */
const char *said_least_mega(const Said *s);
void said_access_remedies(const Said *s, Remedies *all);
void said_wider_remedies(const Said *s, Remedies *all);

/* said_line.c */

const char *said_stall(const Said *s, int line); /* "": less than a hundredth of the launch */

/* {"text", "bad"} of what stands below a line, and the texts shown when it is chosen. */
json_t *said_below(const Said *s, int line);
json_t *said_chosen(const Said *s, int line);

#endif
