/* What the report says in sentences: beside a line of the source, of a line that is chosen, and of
 * the whole kernel.
 *
 *     explain.c          figures as they are read, lists; all of it as JSON, which the page shows
 *     explain_spill.c    whether what spills weighs
 *     explain_code.c     what stages' text says of a line: barriers, divisions, 64-bit indices
 *     explain_access.c   coalescing, widths, bank conflicts
 *     explain_padding.c  elements outside of tensors
 *     explain_estimate.c the time, its range, and the least
 *     explain_barrier.c  where barriers come from
 *     explain_fix.c      without what they would not be there
 *     explain_product.c  matrix instructions, and what a better one is worth
 *     explain_bound.c    why it is not faster: what takes the time
 *     explain_taken.c    the same by parts and lines
 *     explain_double.c   what is computed in f64, and why
 *     explain_memory.c   the bytes that device memory moves, and what can be changed of accesses
 *     explain_compared.c the schedules that were compared
 *     explain_suggest.c  what can be changed, by what that is worth
 *     explain_change.c   the same of one part of the bill
 *     explain_words.c    what the page's words mean
 *     explain_line.c     all that stands beside a line */
#ifndef TEGULA_EXPLAIN_H
#define TEGULA_EXPLAIN_H

#include "tool/report/report.h"

typedef VEC(const char *) TextList;

/* The text of a stage by lines, with the line of the source that each came from; no lines where
 * there is no such stage. */
typedef struct ExplainStage {
	const char **line;
	const int *source; /* 0: none */
	int n;
} ExplainStage;

typedef VEC(const LineBill *) SpentLines;

/* A line of inspect; of barriers for the same reason one that has all their runs. */
typedef struct ExplainLine {
	const InspectLine *x;
	const char *what, *details, *tile; /* tile: "" of a barrier */
	int line, col;
	double runs, most; /* times a program; -1: not known */
	TextList conflicts;
} ExplainLine;

typedef VEC(ExplainLine) ExplainLines;

/* One of the four questions: a line that is read at a glance, and what is behind it. */
typedef struct Answer {
	const char *brief;
	TextList says;
} Answer;

typedef struct Explain {
	Arena *mem;
	const Inspection *x;
	const ChooseWhy *why;
	const Bound *b;
	const json_t *limits, *variants, *profile, *warnings, *timeline, *counted, *time; /* of the report */
	const char *summary; /* what inspect --explain prints */
	const char *sizes_of; /* the example, where there are several; NULL */
	TextList source;     /* lines of the text */
	double us;           /* of the launch by the model; 0: not known */
	double measured;     /* the same, µs; 0: it was not */
	double compared;     /* the same as schedules are compared */
	double wgmma_us;     /* that products would take by wgmma; 0: they do, or cannot */
	double bytes_us;     /* of device memory */
	ExplainStage thread, code, sass; /* thread IR; PTX or Metal; machine code */
	bool is_ptx, is_beside;    /* beside: of a launch, a kernel that the page is not of, with no changes */
	ExplainLines lines;       /* all, each by itself */
	int *barriers, *warp_barriers, *holds; /* of the code, by lines of the source: of blocks, of warps */
	int nsource;
} Explain;

/* explain.c */

void explain_add(const Explain *s, TextList *l, const char *text); /* unless it is there, or empty */
const char *explain_join(const Explain *s, const TextList *l, const char *between);
const char *explain_round(const Explain *s, double v);  /* three digits */
const char *explain_micro(const Explain *s, double us); /* "51.7 µs" */
const char *explain_mega(const Explain *s, double us); /* bytes of device memory in that time, "204 MB" */
const char *explain_units(const Explain *s, const char *text); /* "18 us" as "18 µs" */
const char *explain_sentence(const Explain *s, const char *text); /* with a capital */
bool explain_begins(const char *text, const char *const *with, int n);
double explain_part(const Explain *s, BillPart p);         /* µs of the launch */
const LineBill *explain_spent(const Explain *s, int line); /* NULL: the model has nothing of it */
double explain_spent_us(const Explain *s, const LineBill *l, BillPart p); /* NULL: 0 */
bool explain_matters(const Explain *s, double us);   /* a hundredth of the launch or more */
bool explain_is_rare(const ExplainLine *l);          /* in few of the programs, as an if says */
bool explain_weighs(const Explain *s, int line);     /* has any part of a line that? */
BillPart explain_longest(const Explain *s, int but); /* the longest part but one; -1: of all */
void explain_ranked(const double part[BILL_PARTS], BillPart out[BILL_PARTS]); /* the longest first */
SpentLines explain_lines_by(const Explain *s, BillPart p); /* lines with some of a part, the most first */
const LineBill *explain_most(const Explain *s, BillPart p); /* the first of them; NULL: none */
/* What counts as one in the total: p and the parts that add up with it, which are named, the longest first. */
int explain_joined(const Explain *s, BillPart p, BillPart out[BILL_PARTS]);
double explain_term(const Explain *s, BillPart p); /* µs of the launch of these together */
void explain_terms(const Explain *s, double out[BILL_PARTS]); /* of each; 0 of what another one has */
BillPart explain_bounding(const Explain *s); /* the longest of these */
double explain_shorter(const Explain *s, const double less[BILL_PARTS]); /* the launch, were its parts shorter, µs */
/* The same of one part: as the bill adds up, of products by the longest part alone. */
double explain_with(const Explain *s, BillPart p, double less);
/* Of products, what the estimate has beside its longest part, where that is much, as a block does it in turn; 0: little. */
double explain_alone(const Explain *s);
double explain_tried(const Explain *s, double cycles); /* a launch with such a schedule of the kernel shown, µs */
double explain_other(const Explain *s); /* of the launch's kernels that the page is not of, µs */
int explain_resident(const Explain *s);  /* blocks at once on a multiprocessor, no more than the launch has for each */
ExplainLines explain_merged(const Explain *s, int line);
/* Has the code much that registers do not hold, in its innermost loops if it has loops? */
bool explain_spills(const Explain *s);
/* What the summary has behind that, to its line's end; "". */
const char *explain_behind(const Explain *s, const char *head);

/* explain_code.c */

void explain_read_code(Explain *s, const json_t *stages);
const char *explain_slow(const Explain *s); /* "fast::exp and fast::log in line 9": what has such a form and is not it */
const char *explain_specials(const Explain *s, int line); /* conversions and functions, by SASS or else the tile IR; "" */
const char *explain_functions(const Explain *s, int line); /* "25 exp, division", of floats; "" */
double explain_wide(const Explain *s, int line); /* the part of its PTX that computes in 64 bits */
bool explain_casts(const Explain *s, int line); /* has it a tile of integers of 64 bits, that can be cast? */
/* Instructions of a line in PTX, or those of these names and of a type: NULL, of all. */
int explain_count_code(const Explain *s, int line, const char *const *name, int n, const char *type);
/* explain_taken.c: the functions of a line's instructions, or, where these are little of its PTX, the ops that have
 * most. */
const char *explain_doing(const Explain *s, int line);
int explain_count_at(const Explain *s, int line, int col); /* of what begins there in PTX; 0: not known */
bool explain_is_function(const Op *op); /* a function or quotient of floats */
bool explain_is_slow(const Explain *s, int line); /* has it a function or division with a fast:: form? */
/* What a line's instructions are for, the most first: "by PTX about 48 % divisions and remainders
 * of integers"; "": not known. */
const char *explain_mix(const Explain *s, int line);
int explain_past_seldom(const Explain *s, int i, int line);
/* The share of them that are routines of integer divisions by what is no constant, and how many
 * there are. */
double explain_quotients(const Explain *s, int line, int *n);
bool explain_divides(const Explain *s, int line);
const char *explain_keys(const Explain *s, int line); /* "argmax", that compares keys of 64 bits; "" */
const char *explain_late_reads(
    const Explain *s); /* reads behind a write, of which no load is moved up; "" */
const char *explain_unrolled(const Explain *s); /* why the code has a loop's barriers several times; "" */

/* explain_words.c */

json_t *explain_words(void); /* a list of word and means */
const char *explain_ops_named(const Explain *s, const char *text); /* what ops in it are of which the source says nothing */

/* explain_access.c */

void explain_coalesced(const Explain *s, Answer *out);
const char *explain_line_list(const Explain *s, const TextList *l); /* "lines 3, 4 and 9" of numbers */
/* Is an access of few bytes, where its rows would permit more, and has it much of what the kernel moves? */
bool explain_is_narrow(const Explain *s, const ExplainLine *l);
bool explain_is_beside_whole(const Explain *s, const ExplainLine *l);
bool explain_any_narrow(const Explain *s); /* but of elements that are spread */
const char *explain_narrow(const Explain *s); /* the first of these: "line 9 read b, 4 bytes at once" */
bool explain_is_spread(const ExplainLine *l); /* elements a few apart, whose sectors have others between them */
#define WITH_LARGER "a larger tile permits that"
#define WITH_PADDING ", but device memory, which bounds the kernel, would move the padding, too"
const char *explain_widen(
    const Explain *s, const ExplainLine *l); /* what would make it wider; "": not known */
/* Elements outside of tensors, "": few; the largest share, of what other tiles have fewer of and of what none has. */
const char *explain_padding(const Explain *s, double *share, double *whole);
const char *explain_powers(const Explain *s); /* extents of tiles that are padded to powers of two; "": none */
const char *explain_unpadded(const Explain *s, const char *change); /* " (BW = 10 is …)", of what a change has none of */
/* The launch without such elements in lines that compute with as large tiles, µs: what device memory and the L2 cache bring
 * stays; fixed: of those that no other tile changes. */
double explain_without_padding(const Explain *s, bool fixed);
/* µs at most of sectors, turns of a warp or passes beyond the fewest, and which of these it is. */
double explain_cost(const Explain *s, const ExplainLine *l, BillPart *part);
double explain_fewest(const Explain *s, const ExplainLine *l); /* the launch without all of these, µs */
/* "costs at most 4.6 µs of the launch", of sectors and passes beyond the fewest; "": there are none, or it is not known.
 * *weighs: may it be worth a change? */
const char *explain_waste(const Explain *s, const ExplainLine *l, bool *weighs);
const char *explain_mean(const Explain *s, const ExplainLine *l);
const char *explain_not_ahead(const Explain *s, const ExplainLine *l);
/* By rows that are padded?  What else keeps it from that, as a value where the tensor ends, is not all: labels without one
 * are read as before, and take as long. */
bool explain_can_be_ahead(const Explain *s, const ExplainLine *l);
/* Have reads before it brought its threads all that it reads, so that it is no access? */
bool explain_is_held(const ExplainLine *l);
/* As counted, or by the layout; -1: not known. */
double explain_sectors(const ExplainLine *l, double *least);
const BankPlan *explain_banks(const ExplainLine *l); /* that take more passes than the fewest; NULL */

/* explain_barrier.c */

void explain_barriers(const Explain *s, Answer *out);
const char *explain_barrier(
    const Explain *s, const ExplainLine *l); /* "": it is none, and has none inside */
const char *explain_often(const Explain *s, const ExplainLine *l);
/* Details, with as many barriers as the code has inside. */
const char *explain_inside(const Explain *s, const ExplainLine *l);
const char *explain_times(const Explain *s, double times); /* "1.3 times as long", "0.91 of the time" */
const char *explain_barrier_fix(const Explain *s, const ExplainLine *l);
/* The same, changes that have fewer barriers, and what all of them take. */
void explain_all_barriers(const Explain *s, TextList *out);
/* explain_barrier.c: " (more barriers: 2 in line 12, scan)" of a change that was compiled; "": none. */
const char *explain_more_barriers(const Explain *s, const json_t *change);
int explain_blocks_with(
    const Explain *s, double more); /* blocks of a multiprocessor, were shared memory larger */

/* explain_product.c */

void explain_products(const Explain *s, Answer *out);
bool explain_is_weaker(const ExplainLine *l); /* by an instruction of a warp */

/* explain_estimate.c */

/* "135 µs (130 to 167 µs)", with the range of times, which has the estimate inside. */
const char *explain_estimate(const Explain *s);
const char *explain_time(const Explain *s);     /* what the range is of, and the floor */
const char *explain_off(const Explain *s);
/* "line 9's loop runs 32 trips of a program", where data says how many, and that is the most; "" */
const char *explain_most_trips(const Explain *s);

/* explain_taken.c */

/* What takes long, the longest first: parts that overlap, and what follows the products, which
 * overlaps with none. */
typedef struct Taken {
	double us;
	const char *name, *lines;
	int part; /* of the bill; -1: behind products */
} Taken;

enum { TAKEN_MOST = 4 };

int explain_taken(const Explain *s, Taken out[TAKEN_MOST]);
const char *explain_term_name(const Explain *s, BillPart p); /* "device memory with atomics" */
const char *explain_names(const Explain *s, const TextList *l); /* "a, b and c" */
const char *explain_wait(const Explain *s, const LineBill *l); /* what it waits for, with shares where that is several */

/* explain_bound.c: paragraphs, the most important first */

void explain_bound(const Explain *s, Answer *out);
const char *explain_guessed(
    const Explain *s); /* "line 9's loop runs 16 trips of a program", where that is a guess; "" */
/* µs that any schedule takes: of bytes that are different (*memory), or of products but for the
 * share outside of tensors. */
double explain_least(const Explain *s, bool *memory, double *outside);
bool explain_idle(const Explain *s); /* are there programs for few of the multiprocessors? */
bool explain_at_floor(const Explain *s);
/* The launch, if multiprocessors that have more of the programs than others could draw as much more of device memory: some
 * of it they do.  Column sums of 192 blocks took an H200 57 us, by equal shares 68, by all of the rate 51. */
double explain_even(const Explain *s);
double explain_least_memory(const Explain *s); /* µs of the bytes that are different */
const char *explain_rounds(const Explain *s); /* blocks that take turns */
const char *explain_read_again(const Explain *s); /* a small tensor that all programs read; "" */

/* explain_compared.c */

const char *explain_compared(const Explain *s);
/* Did nothing fit as passes would have it, and has it other warps or stages, since those fit? */
bool explain_fitted(const Explain *s);
/* Are tiles of less, of a name or several, all slower by the model?  *compared: are there any? */
bool explain_smaller_are_slower(const Explain *s, bool *compared);

/* explain_suggest.c: what can be changed, the largest gain first */

#define SAID_WORTH 0.97 /* of the launch: a change that is worth a sentence */

/* Of changes of that kind which were to take less than 0.97 of the time, as they were built: how many times as long
 * eight in ten took, and half. */
typedef struct ChangeError {
	const char *of;
	int n;
	double least, half, most;
} ChangeError;

/* explain_error.c */
const ChangeError *explain_change_error(const Explain *s, const json_t *change);
const char *explain_change_time(const Explain *s, double us, const ChangeError *e); /* "66.4 µs (60.4 µs to 73.0 µs)" */
const char *explain_change_error_said(const Explain *s, const ChangeError *e);      /* a sentence */

typedef struct Suggestion {
	double us; /* of the launch with it; 0: not known */
	const char *text;
	const ChangeError *error; /* where it is built */
	bool built; /* compiled, and estimated as the kernel is */
	int part; /* of the bill, that it makes less; -1: several */
	bool said;
} Suggestion;

typedef VEC(Suggestion) Suggestions;

Suggestions explain_collect(const Explain *s);
/* "first to change: BN = 64, then 36.1 µs", or that nothing that was tried is better */
/* Are all of a change's values of the schedule, so that a program has the trips that it had? */
bool explain_is_schedule(const Explain *s, const json_t *change);
/* Of a change: "BN = 64 (with warps = 4), its products by wgmma". */
const char *explain_said_of(const Explain *s, const json_t *change);
const char *explain_first(const Explain *s, const Suggestions *all);
void explain_suggestions(const Explain *s, const Suggestions *all, TextList *out); /* but for those that are said */
double explain_measured_us(const json_t *variant); /* 0: it was not */
bool explain_is_measured(const Explain *s); /* were changes? */
double explain_built_us(const Explain *s, const json_t *variant); /* as it is built; 0: it was not, or spills more */
/* In its place, if it is worth it; part: as of a Suggestion. */
void explain_suggest(const Explain *s, Suggestions *all, double us, int part, const char *text);

/* explain_double.c */

const char *explain_doubles(const Explain *s, int line); /* what it computes in f64; "": nothing */

/* explain_change.c: of one part of the bill */

const char *explain_gloss(const Explain *s, int part); /* " (passes over its banks)", where its name does not say it; "" */
const char *explain_pipe(const Explain *s); /* " (ALU pipe)", of instructions; "": they were not counted */

void explain_angle_suggestions(const Explain *s, Suggestions *all);
/* What makes it less, of all that was found for it, which is then said; or of its kind, or that nothing does. */
const char *explain_change(const Explain *s, BillPart p, Suggestions *all);

/* explain_memory.c */

const char *explain_map_rows(const Explain *s, const ExplainLine *l); /* "copy x in rows of 128 bytes, …" of a tensor map */
const char *explain_moved(const Explain *s); /* bytes of device memory by lines; "" */
const char *explain_least_mega(const Explain *s);
const char *explain_line_mega(const Explain *s, double us); /* bytes of a line, "16.8 MB" */
/* "line 5 read x, at random 32 sectors of 4", of elements that data places: as many as lanes, where those in order take the
 * fewest. */
const char *explain_placed(const Explain *s, const ExplainLine *l, bool *bounds);
bool explain_any_gathered(const Explain *s); /* has an access indices that are data, or a tile of them? */
void explain_access_suggestions(const Explain *s, Suggestions *all);

/* explain_line.c */

/* {"text", "bad"} of what stands below a line, and the texts shown when it is chosen. */
json_t *explain_below(const Explain *s, int line);
json_t *explain_chosen(const Explain *s, int line);

#endif
