/* Sizes for tiles that only cut a grid: powers of two, as large as keep threads and memory busy.
 *
 *     B = 90 of f32                     =>      512, 1024 or 2048
 *     BH = 7, BW = 50 of f32            =>      8 and 64, 8 and 128, 16 and 128
 *     B = 128 of rows of 56             =>      64
 *     B = 64 of 16 programs with loops  =>      8
 *
 * The model says which, if any (choose_blocks.c).  Of products: tile/choose_sides.c. */
#include "compile/choose/tile/choose_tile.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "pass/layout/dot.h"

#include <inttypes.h>
#include <string.h>

/* ---- sizes ---- */

enum { LINE_BYTES = 128, ROWS = 8, PROGRAMS_EACH = 8, ROWS_EACH = 2, SMALL = 2048 };
enum { PRODUCTS_LEAST = 8 };                            /* of sizes of products that do not hold all rows */

static Func *
elaborate(Kernel *k, const Bound *b, const Target *t)
{
	const char *passes = target_named(t->name) ? "simplify,licm,simplify,concat,simplify,flatten,contract,simplify"
	                                           : "simplify,licm,simplify";
	const PassOptions opt = {.only = passes};
	return choose_compile(k, b, t, &opt);
}

static bool
bind_one(const ChooseBinding *how, const char *name, int64_t size, Bound *out)
{
	const NamedConst one = choose_number(name, size);
	return how->bind(how->user, &one, 1, out);
}

static void
measure(Sizes *s, const Func *f)
{
	s->bytes = s->element = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Value *v = op_is_access(op) ? access_tile(op) : NULL;
		int64_t bytes = v ? tile_bytes(v->type) : 0;
		if (bytes <= s->bytes)
			continue;
		s->bytes = bytes;
		s->element = element_bytes(v->type);
	}
}

/* Compares modules of some size and of twice that.  Numbers of the header's own size may be other numbers, too, as 64 of 64
 * rows, 64 columns and steps of 64: three and five times it are less likely to. */
static bool
cuts_freely(Pair *x, Kernel *k, const Target *t, const ChooseBinding *how, Arena *mem)
{
	int64_t size = x->size;
	bool free = false;
	for (int times = 1; times <= 5 && !free; times += 2) {
		Bound once, twice;
		x->size = times * size;
		x->written = x->stepped = 0;
		x->divides = 0;
		if (!bind_one(how, x->name, x->size, &once) || !bind_one(how, x->name, 2 * x->size, &twice))
			break;
		Func *one = elaborate(k, &once, t), *two = elaborate(k, &twice, t);
		free = one && two && tile_cuts_freely(x, one, two, mem);
	}
	x->size = size;
	return free;
}

/* Is the kernel, from a size on, as by twice each size up to `most`? */
static bool
is_alike(Pair x, Kernel *k, const Target *t, const ChooseBinding *how, int64_t most, Arena *mem)
{
	bool alike = true;
	for (; alike && x.size < most; x.size *= 2) {
		Bound once, twice;
		alike = bind_one(how, x.name, x.size, &once) && bind_one(how, x.name, 2 * x.size, &twice);
		Func *one = alike ? elaborate(k, &once, t) : NULL, *two = alike ? elaborate(k, &twice, t) : NULL;
		x.written = x.stepped = x.divides = 0;
		alike = one && two && tile_cuts_freely(&x, one, two, mem);
	}
	return alike;
}

/* What fits a narrow type in small tiles, as places do 8 bits, may be wrapped in larger ones.  Powers of two may be other
 * numbers, too; sizes between them divide no group that has a scale: either will do. */
static bool
stays_alike(const Pair *x, Kernel *k, const Target *t, const ChooseBinding *how, int64_t most, Arena *mem)
{
	Pair powers = *x, between = *x;
	powers.size = 2 * x->size;
	between.size = 3 * x->size / 2;
	return is_alike(powers, k, t, how, most, mem) || is_alike(between, k, t, how, most, mem);
}

/* May sizes be others, where indices within a tile come over a number?  By iota % 64 a tile of 32 has other remainders,
 * and so has one of 128 by iota % 96.  Of products sizes go down to 8; what holds all rows begins with the first one. */
static bool
keeps_period(const Pair *x)
{
	return x->given % x->period == 0 && (!x->multiplies || x->is_step || PRODUCTS_LEAST % x->period == 0);
}

/* How a kernel comes from the source: with other sizes than the header's beside the one in question. */
typedef struct Source {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	NamedConst size[TILE_SIZES];                    /* the last one is that in question */
	int n;
} Source;

static Func *
elaborate_only(void *user, int64_t size)
{
	Source *s = user;
	Bound b;
	const PassOptions opt = {.only = ""};
	Module *m = NULL;
	s->size[s->n - 1].value.i = size;
	if (s->how->bind(s->how->user, s->size, s->n, &b))
		m = compile_kernel(s->k, &b, s->t->name, NULL, &opt);
	return m ? m->funcs.at[0] : NULL;
}

/* By all sizes that may be taken: powers of two, and of products multiples of 8 (choose_rows.c). */
static bool
only_places(const Pair *x, Source *source, unsigned which, Arena *mem)
{
	enum { EACH = 8, POWERS = 17 };
	int64_t sizes[POWERS + SIDE_MOST / EACH];
	int n = 0;
	for (int i = 0; i < POWERS && (!x->multiplies || 1 << i <= x->most); i++)
		if (x->multiplies || x->is_step || which & SIZE_SHRINKS || 1 << i > x->given || 1 << i == x->least)
			sizes[n++] = 1 << i;
	for (int64_t size = EACH; x->multiplies && !x->is_step && size <= SIDE_MOST; size += EACH)
		if (!is_power_of_two(size))
			sizes[n++] = size;
	source->size[source->n++] = choose_number(x->name, 0);
	return tile_only_places(x, elaborate_only, source, sizes, n, mem);
}

static void
say_stays(const Pair *x, const ChooseBinding *how)
{
	if (how->why)
		text_printf(&how->why->chosen,
		    "  %s stays %" PRId64 ": it is a value, too, not only where tiles begin and end\n", x->name, x->given);
}

/* The same where the others are as large as those that are tried: `x + (BM >= 128 && BN >= 128)`. */
static bool
only_places_beside(const Sizes *s, int i, const Source *only, unsigned which, Arena *mem)
{
	bool ok = true;
	for (int64_t beside = SIDE_MOST / 2; beside <= s->at[i].most && s->n > 1 && ok; beside *= 2) {
		Source source = *only;
		for (int j = 0; j < s->n; j++)
			if (j != i)
				source.size[source.n++] = choose_number(s->at[j].name, beside);
		ok = only_places(&s->at[i], &source, which, mem);
	}
	return ok;
}

static void
keep_joint(Sizes *s, const Source *only, const ChooseBinding *how, unsigned which, Arena *mem)
{
	bool stays[TILE_SIZES];
	int kept = 0;
	for (int i = 0; i < s->n; i++)
		stays[i] = !only_places_beside(s, i, only, which, mem);
	for (int i = 0; i < s->n; i++)
		if (stays[i])
			say_stays(&s->at[i], how);
		else
			s->at[kept++] = s->at[i];
	s->n = kept;
}

/* The size, or the power of two that holds all of the only tile there is, if half of the size does: maxima of 3 x 3 with
 * their places, rows of 56 by B = 128, took an H200 273 us, and 160 by 64. */
static int64_t
least_that_holds(const Pair *x, const Kernel *k, const Bound *b)
{
	int64_t n = x->is_step ? 0 : choose_divided(k, b, x->name);
	return n > 0 && 2 * n <= x->size ? MAX(INT64_C(1) << log2_ceil(n), 2) : x->size;
}

/* Elements that data places one by one, A[m, p[k]], are read again by each tile of columns, a sector each: twice as many
 * columns of them are worth a tile of 64 rows. */
static bool
takes_wide_side(const Pair *x, Func *f, const Target *t)
{
	int64_t n = x->is_step ? 0 : choose_divided(x->k, x->b, x->name);
	return n > 0 && n % SIDE_WIDE == 0 && ANY_OP(op, f->body, op->kind == OP_READ && estimate_multiplies(&op->out[0]) &&
	    estimate_beside_pieces(x->b, t, op) > 0);
}

void
tile_find_sizes(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, unsigned which, Arena *mem,
    Sizes *s)
{
	const Source only = {.k = k, .t = t, .how = how};
	*s = (Sizes){.programs = (int64_t)choose_programs(b)};
	for (int i = 0; i < b->nct && s->n < TILE_SIZES; i++) {
		Pair *x = &s->at[s->n];
		if (!tile_opens(x, k, b, how, i, which) || !cuts_freely(x, k, t, how, mem) || !keeps_period(x) ||
		    (x->divides && how->any_size))
			continue;
		if (x->divides && how->relies)
			*how->relies = true;
		Func *one = elaborate(k, b, t);
		if (!one)
			continue;
		x->least = least_that_holds(x, k, b);
		x->most = takes_wide_side(x, one, t) ? SIDE_WIDE : SIDE_MOST;
		Source source = only;
		if (!only_places(x, &source, which, mem)) {
			say_stays(x, how);
			continue;
		}
		measure(s, one);
		s->n++;
	}
	keep_joint(s, &only, how, which, mem);
}

/* May the header's sizes be the tile's less ones, one after the other?  `if B < 32` says otherwise, which larger sizes do
 * not show. */
static bool
may_shrink(const Sizes *s, const ChooseTile *tile, Kernel *k, const Target *t, const ChooseBinding *how, Arena *mem)
{
	Source before = {.k = k, .t = t, .how = how};
	bool ok = true;
	for (int i = 0; i < s->n && ok; i++) {
		Source source = before;
		ok = tile->value[i].value.i % s->at[i].period == 0 && only_places(&s->at[i], &source, SIZE_SHRINKS, mem);
		before.size[before.n++] = tile->value[i];
	}
	return ok;
}

/* Elements of the dimension that the parameter cuts, about. */
static int64_t
elements_of(const Pair *x, const Bound *b)
{
	int64_t n = x->least < x->size ? x->least : INT64_MAX;
	for (int a = 0; a < b->naxis; a++)
		if (x->count[a])
			n = MIN(n, b->grid[a] * x->size);
	return n;
}

static bool
can_grow(const Sizes *s, int i, const int64_t *size, const Bound *b, const Target *t)
{
	double programs = (double)s->programs;
	for (int j = 0; j < s->n; j++)
		for (int a = 0; a < b->naxis; a++)
			programs *= s->at[j].count[a] ? (double)s->at[j].size / (double)size[j] : 1;
	return size[i] < elements_of(&s->at[i], b) && programs > PROGRAMS_EACH * t->rates->multiprocessors &&
	    (!s->at[i].divides || 2 * size[i] <= s->at[i].divides);
}

/* Which one to double: dimensions that memory runs along up to a line, of a transposition both; others up to some rows,
 * which share what they read; then the shorter of the first; -1: none. */
static int
next_to_grow(const Sizes *s, const int64_t *size, const Bound *b, const Target *t)
{
	int fast = -1, other = -1;
	for (int i = 0; i < s->n; i++) {
		bool is_fast = s->at[i].last_axis >= 0;
		if (!can_grow(s, i, size, b, t))
			continue;
		if (is_fast && size[i] * s->element < LINE_BYTES)
			return i;
		if (!is_fast)
			other = i;
		else if (fast < 0 || size[i] < size[fast])
			fast = i;
	}
	return other >= 0 && (size[other] < ROWS || fast < 0) ? other : fast;
}

static double
bytes_with(const Sizes *s, const int64_t *size)
{
	double bytes = (double)s->bytes;
	for (int i = 0; i < s->n; i++)
		for (int a = 0; a < MAX_AXES; a++)
			bytes *= s->at[i].count[a] ? (double)size[i] / (double)s->at[i].size : 1;
	return bytes;
}

/* The header's tile by half of its rows, of one that has both. */
static bool
half_the_rows(const Sizes *s, ChooseTile *out)
{
	int row = -1;
	*out = (ChooseTile){.n = s->n, .is_half = true};
	for (int i = 0; i < s->n; i++) {
		out->value[i] = choose_number(s->at[i].name, s->at[i].size);
		if (s->at[i].last_axis < 0 && is_power_of_two(s->at[i].size) && s->at[i].least == s->at[i].size)
			row = i;
	}
	if (row < 0 || s->n < 2 || s->at[0].multiplies)
		return false;
	out->value[row].value.i /= 2;
	return true;
}

/* Does the parameter count rows that are read along, of which the kernel writes a number each? */
static bool
sums_rows(const Sizes *s)
{
	return s->n == 1 && s->at[0].is_row && !s->at[0].is_fast && !s->at[0].multiplies;
}

/* Of fewer programs than `each` for a multiprocessor: tiles of which there are as many, of rows of a sector at least. */
static bool
narrow(const Sizes *s, const Bound *b, const Target *t, int each, ChooseTile *out)
{
	enum { SECTOR_BYTES = 32 };
	double programs = (double)s->programs, enough = (double)each * t->rates->multiprocessors;
	*out = (ChooseTile){.n = s->n};
	for (int i = 0; i < s->n; i++) {
		bool is_row = s->at[i].last_axis < 0 || each > 1;
		int64_t least = is_row ? 1 : SECTOR_BYTES / s->element, size = s->at[i].size;
		for (; programs < enough && is_power_of_two(size) && size / 2 >= least; size /= 2)
			programs *= elements_of(&s->at[i], b) > size / 2 ? 2 : 1;
		out->value[i] = choose_number(s->at[i].name, size);
	}
	return programs > (double)s->programs;
}

int
choose_tiles(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    ChooseTile out[TILES_MOST])
{
	Sizes s;
	int n = 0;
	tile_find_sizes(k, b, t, how, SIZE_CUTS, mem, &s);
	for (int i = 0; i < TILES_GROWN && s.n > 0 && !s.at[0].multiplies; i++) {
		int64_t size[TILE_SIZES];
		bool is_twice = i == TILES_GROWN - 1;
		double bytes = t->tile_bytes >> (is_twice ? 0 : TILES_GROWN - 2 - i);
		bytes = is_twice ? MIN(2.0 * (double)s.bytes, bytes) : bytes;
		for (int j = 0; j < s.n; j++)
			size[j] = INT64_C(1) << log2_ceil(s.at[j].least);
		for (int j; bytes_with(&s, size) < bytes && (j = next_to_grow(&s, size, b, t)) >= 0;)
			size[j] *= 2;
		bool is_small = s.bytes < SMALL || ANY_OF(j, s.n, !is_power_of_two(s.at[j].size));
		ChooseTile tile = {.n = s.n, .is_twice = is_twice};
		tile.is_small = is_small && ALL_OF(j, s.n, size[j] >= s.at[j].size);
		for (int j = 0; j < s.n; j++)
			tile.value[j] = choose_number(s.at[j].name, size[j]);
		bool is_new = ANY_OF(j, s.n, size[j] != s.at[j].size);
		for (int o = 0; o < n; o++)
			is_new = is_new && ANY_OF(j, s.n, out[o].value[j].value.i != size[j]);
		for (int j = 0; j < s.n && is_new; j++)
			is_new = size[j] % s.at[j].period == 0 && stays_alike(&s.at[j], k, t, how, size[j], mem);
		if (is_new && bytes_with(&s, size) <= 2 * bytes)
			out[n++] = tile;
	}
	if (s.n > 0 && !s.at[0].multiplies && narrow(&s, b, t, 1, out + n))
		n += may_shrink(&s, out + n, k, t, how, mem);
	else if (sums_rows(&s) && narrow(&s, b, t, ROWS_EACH, out + n))
		n += may_shrink(&s, out + n, k, t, how, mem);
	return n + (half_the_rows(&s, out + n) && may_shrink(&s, out + n, k, t, how, mem));
}

/* Of rows first, then of what memory runs along. */
static int
next_to_shrink(const Sizes *s, const int64_t *size)
{
	int next = -1;
	for (int i = 0; i < s->n; i++) {
		bool is_row = s->at[i].last_axis < 0, was_row = next >= 0 && s->at[next].last_axis < 0;
		bool is_next = next < 0 || is_row > was_row || (is_row == was_row && size[i] > size[next]);
		next = size[i] > 1 && is_next ? i : next;
	}
	return next;
}

int
choose_smaller(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem,
    ChooseTile out[SMALLER_MOST])
{
	Sizes s;
	int64_t size[TILE_SIZES];
	tile_find_sizes(k, b, t, how, SIZE_CUTS | SIZE_SHRINKS, mem, &s);
	for (int i = 0; i < s.n; i++)
		size[i] = INT64_C(1) << log2_ceil(s.at[i].size);
	int n = 0, largest;
	for (; n < SMALLER_MOST && (largest = next_to_shrink(&s, size)) >= 0 && !s.at[0].multiplies; n++) {
		size[largest] /= 2;
		out[n] = (ChooseTile){.n = s.n};
		for (int i = 0; i < s.n; i++)
			out[n].value[i] = choose_number(s.at[i].name, size[i]);
	}
	return n > 0 && may_shrink(&s, &out[n - 1], k, t, how, mem) ? n : 0;
}

/* Less than the header's step, for rows that are short, and more: powers of two, which is what tiles are padded to. */
int
choose_steps(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem, ChooseTile out[STEPS_MOST])
{
	Sizes s;
	int n = 0;
	tile_find_sizes(k, b, t, how, SIZE_STEPS, mem, &s);
	if (s.n != 1 || s.at[0].multiplies)
		return 0;
	int64_t whole = INT64_C(1) << log2_ceil(s.at[0].size);
	for (int64_t size = whole / 2; size <= 4 * whole; size *= 2)
		if (size != s.at[0].size && size >= t->lanes && size % s.at[0].period == 0 &&
		    (!s.at[0].divides || size <= s.at[0].divides))
			out[n++] = (ChooseTile){.value = {choose_number(s.at[0].name, size)}, .n = 1};
	return n;
}

/* Does the source take remainders, or groups, of indices within a tile that sizes which nothing lists would not keep? */
static bool
divides_places(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		int64_t n = 0;
		const Value *v = op->kind == OP_DIV || op->kind == OP_REM ? op->in[0] : NULL;
		while (v && v->def &&
		    (v->def->kind == OP_CAST || v->def->kind == OP_BROADCAST || v->def->kind == OP_RESHAPE))
			v = v->def->in[0];
		if (v && v->def && v->def->kind == OP_IOTA && value_int(op->in[1], &n) && n > 0 && PRODUCTS_LEAST % n)
			return true;
	}
	return false;
}

bool
choose_only_places(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, const char *name)
{
	int i = ctparam_named(k, name);
	if (i < 0 || b->ct[i].value.kind != CONST_INT || how->is_fixed(how->user, name) || choose_divided(k, b, name) <= 0)
		return true;
	const Pair x = {.name = name, .given = b->ct[i].value.i, .multiplies = true, .most = SIDE_MOST};
	Source source = {.k = k, .t = t, .how = how};
	if (!only_places(&x, &source, 0, k->program->cx->mem))
		return false;
	const Func *f = elaborate_only(&source, x.given);
	return !f || !divides_places(f);
}
