/* What is trimmed of a choice for products with weights that threads decode: rows of tiles that lie outside of the tensor,
 * and a warpgroup alone on its multiprocessor, where warpgroups multiply, and slots of rings, where a block's warps divide
 * the loop.
 *
 * Tensor maps take long for such rows, and products as long as for others: 33 x 8192 x 8192 in int4 takes 39.6 us on an
 * H200 in a tile of 64 rows, 22.4 in one of 40; 50 rows 25.9 in one of 64 and 25.0 in one of 56; 100 rows 46.0 in one of
 * 128 and 30.0 in one of 104.
 *
 * A warpgroup decodes and multiplies in turn, so that of two on a multiprocessor one decodes while the other multiplies,
 * and as many blocks share a program's loop as take the fewest iterations one after the other, if all run at once.  On an
 * H200 80 programs of 48 x 5120 x 5120 in int4 take 17.4 us alone, 15.2 by two and 12.8 by four, but 128 of 33 x 8192 x
 * 8192 27.6, 23.5 and 28.9; 64 of 128 x 4096 x 14336 in i8 81, 45 and 73, where four are 64 clusters, of which 62 run at
 * once.
 * Of more than 64 rows a block of two warpgroups takes 128 columns, where that is fewer: 65 x 5120 x 5120 of f8e4m3 takes
 * 17.3 us so, 18.2 with 64, 128 x 5120 x 13824 47.8 and 71.9, 128 x 14336 x 4096 of f4e2m1 50.3 and 58.2; but 4 bits with a
 * product a trip lose (u4 with zero points, 100 x 5120 x 5120 24.8 and 22.8).
 *
 * What is asked for at a loop's start delays the first tiles of the warps that start last: 1 x 8192 x 8192 in int4 takes
 * 11.3 us with two slots of 32 KB in each of two blocks on a multiprocessor, 11.8 with three; 1 x 14336 x 4096 10.4 with
 * two of 16 KB in each of four blocks, 12.5 with three. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "compile/inspect.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

enum { ROWS_LEAST = 17, ROWS_STEP = 8, NAMES_MOST = 16 };
static const double PLACED = 0.9;                       /* of the multiprocessors, by clusters of four (choose_split.c) */

typedef struct Trim {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	NamedConst *value;
	int n;
} Trim;

/* By all passes, or elaborated and simplified; NULL: the header refuses the values, or they do not compile. */
static Func *
built(const Trim *x, bool simplified)
{
	Bound b;
	return choose_with(x->k, x->t, x->how, x->value, x->n, simplified, &b);
}

/* By all passes, with so many slots. */
static Func *
built_with_slots(const Trim *x, int slots)
{
	Trim more = *x;
	more.value[more.n++] = choose_word(SCHEDULE_STAGES, slots);
	return built(&more, false);
}

/* Blocks of a multiprocessor, by shared memory and the thread IR's registers; below 0: not known. */
static double
resident(Func *f, const Target *t)
{
	Inspection of = {.f = f, .t = t};
	Pressure p;
	if (!pressure_estimate(f, t, &p))
		return -1;
	inspect_resources(&of, MIN(2 * p.held / 3, p.limit), 0, 0);
	return of.blocks;
}

static bool
has_warpgroups(const Trim *x)
{
	const Func *f = built(x, false);
	return f && block_find(f->body, OP_DOT_START);
}

/* Is that true of the kernel as elaborated and simplified? */
static bool
holds(const Trim *x, bool (*what)(const Func *f))
{
	const Func *f = built(x, true);
	return f && what(f);
}

/* How much of K an iteration adds to each of the loop's sums. */
static double
depth_of(const Op *loop)
{
	double depth = 0, sums = SUM_OF(double, i, loop->nout, loop->out[i].type->rank > 1);
	for (const Op *op = loop->region[0]->first; op; op = op->next)
		if (op->kind == OP_DOT_START)
			depth += (double)op->in[0]->type->extent[op->in[0]->type->rank - 1];
	return depth / fmax(sums, 1);
}

static int
named(const Trim *x, ScheduleName which)
{
	int at = VALUE_OF(i, x->n, schedule_named(x->value[i].name) == (int)which, i, x->n);
	return at;
}

/* Nothing but what was chosen says what the word is. */
static bool
is_open(const Trim *x, const Bound *first, ScheduleName which)
{
	const char *word = schedule_info[which].text;
	bool listed = named(x, which) < x->n;
	bool says = !listed && (first->schedule.at[which] > 0 || header_mentions(x->k, word));
	return !says && ctparam_named(x->k, word) < 0 && !x->how->is_fixed(x->how->user, word);
}

static void
set(Trim *x, ScheduleName which, int64_t value)
{
	int at = named(x, which);
	x->value[at] = choose_word(which, value);
	x->n = MAX(x->n, at + 1);
}

/* How blocks that decode and multiply in turn share the programs' loops. */
typedef struct Shares {
	double programs, trips;
	double places;                                  /* of blocks at once, by what a block of one warpgroup holds */
	double least;                                   /* iterations of a multiprocessor's blocks, one after the other */
	double join;                                    /* what joining takes of what it takes where iterations are short */
	int parts;
	bool may_widen, is_wide;                        /* twice the columns, by two warpgroups */
} Shares;

/* Two blocks beside each other take 1.4 to 1.75 of a lone one's time for an iteration on an H200 (33 to 128 rows), one of
 * twice the columns by two warpgroups 1.3 to 1.6; what joins two blocks takes as long as 4 iterations of up to 128 of K,
 * four 6.  Eight records of 32 at a time (pass bundle), 64 x 6144 x 4096, take 28 us by one block a loop, 25.4 by two. */
static void
share(Shares *s, double multiprocessors, int parts, bool is_wide)
{
	static const double each[] = {1, 1, 0.78, 0.73, 0.7}, join[] = {0, 0, 4, 0, 6}, wide = 1.45, clearly = 0.97;
	double blocks = s->programs * parts, beside = ceil(blocks / multiprocessors);
	double one = is_wide ? wide : each[MIN((int)beside, (int)LEN(each) - 1)];
	double trips = s->trips / parts * beside * one + join[parts] * s->join;
	double placed = parts > 2 ? floor(PLACED * multiprocessors) / multiprocessors : 1;
	bool fits = blocks <= (is_wide ? multiprocessors : s->places * placed) || parts == 1;
	if (!fits || (is_wide && beside > 1) || (s->parts > 0 && trips >= (is_wide ? clearly : 1) * s->least))
		return;
	s->least = trips;
	s->parts = parts;
	s->is_wide = is_wide;
}

static int
count_products(const Func *f)
{
	return COUNT_OPS(op, f->body, op->kind == OP_DOT_START);
}

/* Has a trip several products, or weights that come as bytes by tensor maps? */
static bool
may_widen(const Func *f)
{
	bool bytes = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		DType t = op->kind == OP_ALLOC ? op->out[0].type->elem : TY_F32;
		bytes |= t == TY_I8 || t == TY_F8E4M3 || t == TY_F8E5M2;
	}
	return bytes || count_products(f) > 1;
}

/* Of blocks of one warpgroup; false: they are others. */
static bool
find_shares(const Trim *x, Shares *s)
{
	enum { ONE = 4, MOST = 4 };
	static const double DEPTH = 128;
	double multiprocessors = x->t->rates->multiprocessors;
	Bound b;
	*s = (Shares){0};
	if (!x->how->bind(x->how->user, x->value, x->n, &b) || b.schedule.ctas > 1)
		return false;
	s->programs = choose_programs(&b);
	Func *f = built(x, false);
	double blocks = f && f->schedule.warps == ONE && f->schedule.specialize != 1 ? resident(f, x->t) : -1;
	if (blocks < 0)
		return false;
	const Op *loop = FIND_OP(op, f->body,
	    op->kind == OP_FOR && block_find(op->region[0], OP_DOT_START));     /* that warpgroups multiply in */
	s->trips = loop ? estimate_trips(f, &b, loop) : 0;
	s->join = loop ? fmin(DEPTH / depth_of(loop), 1) : 1;
	s->may_widen = may_widen(f);
	s->places = blocks * multiprocessors;
	for (int parts = 1; parts <= MOST && s->trips > 0; parts *= 2)
		share(s, multiprocessors, parts, false);
	return s->trips > 0;
}

/* The name of 64 columns beside more than 64 rows; -1: there is none. */
static int
find_columns(const Trim *x, const Bound *first, int64_t *columns)
{
	enum { COLUMNS = 64 };
	bool has_rows = false;
	int at = -1;
	for (int i = 0; i < x->n; i++) {
		int64_t size = choose_divided(x->k, first, x->value[i].name);
		has_rows |= size > COLUMNS && x->value[i].value.i > COLUMNS;
		if (size >= 2 * COLUMNS && x->value[i].value.i == COLUMNS) {
			*columns = size;
			at = i;
		}
	}
	return has_rows ? at : -1;
}

/* Four slots of a block that is alone on its multiprocessor.  On an H200 48 x 4096 x 14336 of int4 by two blocks takes 32.5
 * us with three, 24.9 so, 128 x 4096 x 14336 of i8 48.9 and 44.9. */
static void
deepen(Trim *x, const Bound *first, double blocks)
{
	enum { SLOTS = 4 };
	int at = named(x, SCHEDULE_STAGES);
	if (blocks <= x->t->rates->multiprocessors && is_open(x, first, SCHEDULE_STAGES) &&
	    (at == x->n || x->value[at].value.i < SLOTS))
		set(x, SCHEDULE_STAGES, SLOTS);
}

/* Do warpgroups multiply in blocks for which there is room? */
static bool
stands(const Trim *x, int warps)
{
	const Func *f = built(x, false);
	return f && f->schedule.warps == warps && block_find(f->body, OP_DOT_START) && blocks_by_shared(f, x->t) >= 1;
}

/* Has blocks share the loop, or gives them twice the columns and warps, where the header does not say how many; `values`
 * have room for three more. */
static void
pair(Trim *x, const Bound *first)
{
	enum { WARPS = 4, WIDE = 2 };
	NamedConst were[NAMES_MOST];
	int n = x->n, was = named(x, SCHEDULE_SPLIT);
	int64_t columns = 0;
	Shares s;
	if (n > NAMES_MOST || !is_open(x, first, SCHEDULE_SPLIT) || !holds(x, choose_decodes) || holds(x, choose_gathers))
		return;
	memcpy(were, x->value, sizeof *were * (size_t)n);
	set(x, SCHEDULE_SPLIT, 1);
	bool found = find_shares(x, &s);
	int at = found && s.may_widen && is_open(x, first, SCHEDULE_WARPS) ? find_columns(x, first, &columns) : -1;
	if (at >= 0) {
		double width = (double)x->value[at].value.i, programs = s.programs;
		s.programs *= ceil((double)columns / (WIDE * width)) / ceil((double)columns / width);
		for (int parts = 1; parts <= 2; parts++)
			share(&s, x->t->rates->multiprocessors, parts, true);
		s.programs = s.is_wide ? s.programs : programs;
	}
	if (s.is_wide) {
		x->value[at].value.i *= WIDE;
		set(x, SCHEDULE_WARPS, WIDE * WARPS);
	}
	set(x, SCHEDULE_SPLIT, s.parts);
	if (found && was == n && !s.is_wide && s.parts == 1)
		x->n = n;
	if (found)
		deepen(x, first, s.programs * s.parts);
	if (found && stands(x, s.is_wide ? WIDE * WARPS : WARPS))
		return;
	memcpy(x->value, were, sizeof *were * (size_t)n);
	x->n = n;
}

/* More than 64 rows with several products a trip, each with sums of its own: those fill a thread's registers, and no
 * fewer are needed for a few rows less.  f4e2m1 in groups of 32, tiles of 128 rows and of as many as there are, take
 * 14.0 us and 19.0 (112 x 3840 x 2560), 34.2 and 35.8 (120 x 5120 x 5120), 32.8 and 34.3 (112 x 9216 x 2560), 19.9 and
 * 19.4 (100 x 4096 x 4096). */
static bool
trims_little(const Trim *x, int64_t tile, int64_t was)
{
	enum { ROWS = 64, SHARE = 6 };                  /* the share of the rows that has to be left out: a sixth */
	const Func *f = was > ROWS && (was - tile) * SHARE < was ? built(x, false) : NULL;
	return f && count_products(f) > 1;
}

void
choose_trim(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, NamedConst *values, int *n)
{
	Candidates apart = candidates_open(k);
	Trim x = {k, t, how, values, *n};
	candidates_next(&apart);
	for (int i = 0; i < x.n; i++) {
		int64_t *tile = &values[i].value.i, was = *tile, rows = choose_divided(k, b, values[i].name);
		if (rows < ROWS_LEAST || was - rows < ROWS_STEP || !holds(&x, choose_decodes) || !has_warpgroups(&x) ||
		    !choose_only_places(k, b, t, how, values[i].name))
			continue;
		*tile = (rows + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP;
		*tile = has_warpgroups(&x) && !trims_little(&x, *tile, was) ? *tile : was;
	}
	pair(&x, b);
	*n = x.n;
	candidates_close(&apart);
}

/* ---- slots ---- */

/* Bytes of a slot of the largest ring, or of all of the largest type, as of two weights, and how many slots they have. */
static int64_t
ring_of(const Func *f, int *slots)
{
	const Type *most = NULL;
	int64_t all = 0;
	for (const Op *op = f->body->first; op; op = op->next) {
		const Type *t = op->kind == OP_ALLOC && op->out[0].type->slots > 1 ? op->out[0].type : NULL;
		int64_t bytes = t ? dtype_bytes(t->elem, type_count(t)) : 0;
		if (bytes > all && t != most) {
			most = t;
			all = bytes;
		} else if (t && t == most) {
			all += bytes;
		}
	}
	*slots = most ? most->slots : 0;
	return all;
}

/* Of copies that start before the grids before are over, eight warps with two slots, if two such blocks fit: the next
 * grid's blocks then come to stand where this one's end (lower/kernel.c).  1 x 8192 x 8192 takes 12.2 us with four warps,
 * 9.6 so. */
static bool
takes_eight(const Trim *x)
{
	enum { FOUR = 4, EIGHT = 8, SLOTS = 2, BLOCKS = 2 };
	int at = named(x, SCHEDULE_WARPS);
	if (at == x->n || x->value[at].value.i != FOUR)
		return false;
	x->value[at].value.i = EIGHT;
	const Func *f = built_with_slots(x, SLOTS);
	bool fits = f && f->schedule.slices == EIGHT && blocks_by_shared(f, x->t) == BLOCKS;
	x->value[at].value.i = fits ? EIGHT : FOUR;
	return fits;
}

/* Do so many blocks with so many slots stand on a multiprocessor? */
static bool
stand(const Trim *x, int slots, double blocks)
{
	Func *f = built_with_slots(x, slots);
	return f && resident(f, x->t) >= blocks;
}

/* As many slots as keep some 64 KB under way on a multiprocessor, if those are fewer than pass pipeline takes; else 0.  Of
 * 44 launches of 1 to 16 rows three slots for four took 0.96 in the mean where one or two blocks stand on a multiprocessor,
 * two for three 0.93 where three do (1 x 8192 x 8192 of int4 13.1 us with four of 16 KB, 12.6 with three; 16 x 7168 x 2560
 * of f4e2m1 with scales of 16 12.9 and 11.6; 3 x 11008 x 4096 of int4 in groups of 64 12.1 with three, 11.1 with two).
 * Two, where all blocks stand at once with those alone: the last ones would begin when others end.  Bytes of two nibbles,
 * 7 x 9216 x 4096, 288 blocks, take 14.5 us with three, 11.8 with two. */
static int
wanted_slots(const Trim *x)
{
	enum { UNDER_WAY = 64 * 1024, TWO = 2 };
	int slots = 0;
	Bound b;
	if (!x->how->bind(x->how->user, x->value, x->n, &b) || b.schedule.split > 1 || !holds(x, choose_computes))
		return 0;
	const Func *f = built(x, false);
	int64_t each = f && f->schedule.slices > 1 ? ring_of(f, &slots) : 0;
	double blocks = ceil(choose_programs(&b) / x->t->rates->multiprocessors);
	if (each && blocks == TWO && func_waits_late(f) && takes_eight(x))
		return TWO;
	int wanted = each ? MAX(1 + (int)(UNDER_WAY / (blocks * (double)each)), TWO) : slots;
	int few = MIN(wanted, slots);
	if (few > TWO && !stand(x, few, blocks) && stand(x, TWO, blocks))
		return TWO;
	return wanted < slots ? wanted : 0;
}

int
choose_slots(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, NamedConst *values, int n)
{
	const char *word = schedule_info[SCHEDULE_STAGES].text;
	Candidates apart = candidates_open(k);
	Trim x = {k, t, how, values, n};
	bool is_open = b->schedule.stages <= 0 && ctparam_named(k, word) < 0 && !how->is_fixed(how->user, word) &&
	    named(&x, SCHEDULE_STAGES) == n;
	candidates_next(&apart);
	int slots = is_open ? wanted_slots(&x) : 0;
	candidates_close(&apart);
	if (slots)
		values[n] = choose_number(word, slots);
	return slots > 0;
}
