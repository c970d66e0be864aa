/* Tiles that no header lists: of products with few rows, and of columns and rows between powers of two.
 *
 *     grid(pm: cdiv(M, BM), …) tune(BM = {64, 128, 256}, …), M = 3      =>      BM = 4
 *
 * Rows that a tensor has not are multiplied all the same, and bulk copies take their time for rows outside: M = 16,
 * N = K = 8192 in bf16 takes 59.5 us on an H200 with 64 rows, and 37.4 with 16, by instructions of warps.  So where a
 * dimension is 32 or less, the least power of two that holds it takes the place of those listed for tiles along it; not of
 * 17 rows and more where warpgroups multiply the transposed product, of 24 rows or 40 (18 x 1016 x 8328 takes 16.8 us by
 * warps and 9.6 so, 32 x 14336 x 4096 33.8 and 30.6, 32 x 8192 x 8192 33.8 and 35.0); nor where a tensor's shape depends
 * on the tile's, nor where one product of a loop feeds another.  Such loops wait for memory alone: passes coalesce and
 * pipeline have rules for their warps and stages.  Where the other sizes listed make programs for less than three quarters
 * of the multiprocessors, smaller ones join them.
 *
 *     tune(…, BN = {64, 128, 256}), N > 128       =>      BN = {64, 96, 128, 160, 192, 224, 256}
 *
 * An instruction of warpgroups has any multiple of 8 columns, so that tiles of 160 make programs for 130 multiprocessors
 * where those of 128 make 160: 1031 x 4096 x 4096 in bf16 takes 70.6 us on an H200 with powers of two, 58.6 with 160, and
 * 1536^3 15.7 and 13.1.  Rows become columns where the product is transposed (pass dot): for M = 131 there are tiles of 136
 * and 72 rows: 131 x 4096 x 4096 takes 19.3 us without, 13.9 with them, 257 x 4096 x 14336 80 and 50. */
#include "compile/choose/tile/choose_tile.h"
#include "pass/layout/dot.h"

#include <limits.h>
#include <string.h>

enum { ROWS_MOST = 32, ROWS_BY_WARPS = 16, COLUMNS_LEAST = 32, COLUMNS_MOST = 256, ROWS_STEP = 8 };
enum { PART_FEW = 24, PART_LEAST = 40, PART_LONE = 48, PART_MOST = 256, PARTS = 5, PARTS_ROUNDS = 4, ROW_PROGRAMS = 4,
       PARTS_FEW = 16, SLOTS_MOST = 8, SLOTS_FEW = 6, WARPGROUP = 2 };     /* the last: log2 of its warps */

/* The axis grid(…: cdiv(D, name)), and D, which may be B * P * Q; -1: there is none. */
static int
axis_divided(const Kernel *k, const Bound *b, const char *name, int64_t *size)
{
	for (int i = 0; i < k->item->grid.n; i++) {
		const Expr *e = k->item->grid.at[i].count;
		Const c;
		if (e->kind != EX_CALL || !tile_is_name(e->a, "cdiv") || e->args.n != 2 ||
		    !tile_is_name(e->args.at[1].e, name) || expr_mentions(e->args.at[0].e, name) ||
		    !bound_eval((Kernel *)k, b, e->args.at[0].e, "a number of rows", &c) || c.kind != CONST_INT)
			continue;
		*size = c.i;
		return i;
	}
	return -1;
}

int64_t
choose_divided(const Kernel *k, const Bound *b, const char *name)
{
	int64_t size;
	return axis_divided(k, b, name, &size) < 0 ? -1 : size;
}

static bool
shapes_mention(const Kernel *k, const char *name)
{
	for (int i = 0; i < k->item->params.n; i++) {
		const TypeExpr *t = k->item->params.at[i].type;
		if (ANY_OF(d, t->dims.n, expr_mentions(t->dims.at[d], name)))
			return true;
	}
	return false;
}

static int64_t
least_value(const TuneName *t)
{
	int64_t least = INT64_MAX;
	for (int i = 0; i < t->nvalue; i++)
		least = t->value[i].kind == CONST_INT && t->value[i].i > 0 ? MIN(least, t->value[i].i) : 0;
	return t->nvalue ? least : 0;
}

/* Sizes that are halved until enough programs have some of the columns, from the least listed one on. */
static void
add_narrower(TuneName *t, int64_t columns, int64_t narrowest, int multiprocessors, Arena *mem)
{
	int64_t least = least_value(t), most = least;
	int more = 0;
	while (most / 2 >= narrowest && 4 * ((columns + most - 1) / most) < 3 * multiprocessors) {
		most /= 2;
		more++;
	}
	Const *all = NEW_ARRAY(mem, Const, t->nvalue + more);
	for (int i = 0; i < more; i++)
		all[i] = (Const){.kind = CONST_INT, .i = most << i};
	memcpy(all + more, t->value, sizeof *all * (size_t)t->nvalue);
	t->value = all;
	t->nvalue += more;
}

/* Has each product one row or column? */
static bool
are_vectors(const Func *f)
{
	return !ANY_OP(op, f->body, op->kind == OP_DOT && MIN(op->out[0].type->extent[op->out[0].type->rank - 2],
	    op->out[0].type->extent[op->out[0].type->rank - 1]) != 1);
}

bool
choose_has_few(const Kernel *k, const Bound *b)
{
	return ANY_OF(i, k->item->ctparams.n,
	    (uint64_t)choose_divided(k, b, k->item->ctparams.at[i].name) - 1 < ROWS_MOST);
}

static bool
lists(const TuneName *t, int64_t value)
{
	return ANY_OF(i, t->nvalue, t->value[i].kind == CONST_INT && t->value[i].i == value);
}

static bool
is_open(const Kernel *k, const ChooseBinding *how, const TuneName *name)
{
	return !name->is_value && least_value(name) > 0 && !how->is_fixed(how->user, name->name) &&
	    !shapes_mention(k, name->name);
}

/* The least size that holds the rows of tiles that `name` divides; 0: they are not few, or it must stay as it is. */
static int64_t
least_size(const Kernel *k, const Bound *b, const ChooseBinding *how, const TuneName *name)
{
	int64_t rows = choose_divided(k, b, name->name), size = 1;
	while (size < rows)
		size *= 2;
	return rows > 0 && rows <= ROWS_MOST && is_open(k, how, name) ? size : 0;
}

/* Rows that two tiles of few hold are multiplied by warps as fewer are. */
void
choose_join_rows(const Kernel *k, const Bound *b, const ChooseBinding *how, Arena *mem, TuneName *all, int n)
{
	for (int i = 0; i < n; i++) {
		int64_t size = least_size(k, b, how, &all[i]), rows = choose_divided(k, b, all[i].name);
		if (rows > ROWS_MOST && rows <= 2 * ROWS_MOST && is_open(k, how, &all[i]))
			size = ROWS_MOST;
		if (size == 0 || lists(&all[i], size))
			continue;
		Const *value = NEW_ARRAY(mem, Const, all[i].nvalue + 1);
		memcpy(value + 1, all[i].value, sizeof *value * (size_t)all[i].nvalue);
		value[0] = (Const){.kind = CONST_INT, .i = size};
		all[i].value = value;
		all[i].nvalue++;
	}
}

/* The one product, where nothing that is computed sees columns beside each other. */
static const Op *
lone_product(const Func *f)
{
	const Op *dot = NULL;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool shapes_operand = op->kind == OP_RESHAPE && !dot;   /* computed: of flat loops too little is expected */
		if (op->kind == OP_DOT ? dot != NULL : shapes_operand || !choose_keeps_columns(op))
			return NULL;
		dot = op->kind == OP_DOT ? op : dot;
	}
	return dot;
}

static bool
has_rows_between(const Op *dot, const Target *t)
{
	return dot_transposes(dot, dot->out[0].type->extent[0] / 4 * 3, t, WARPGROUP);
}

/* Instructions have any multiple of 8 columns, of integers of 16. */
static int
rows_step(const Op *dot, const Target *t)
{
	return ROWS_STEP << !dot_transposes(dot, dot->out[0].type->extent[0] - ROWS_STEP, t, WARPGROUP);
}

/* The most columns that another name divides. */
static int64_t
columns_beside(const Kernel *k, const Bound *b, const TuneName *all, int n, int i)
{
	int64_t most = 0;
	for (int j = 0; j < n; j++)
		most = MAX(most, j == i ? 0 : choose_divided(k, b, all[j].name));
	return most;
}

/* Of more than 16 rows warpgroups multiply the transposed product of 24 or 40, if there is no other.  So of 8 and more by
 * weights [K, N] that make programs of 128 columns for most multiprocessors once: 16 x 14336 x 4096 takes 32.2 us by warps
 * and 29.5 so, 16 x 12800 x 3072 24.6 and 21.4, but 16 x 8192 x 8192 32.2 and 33.6. */
static bool
is_for_warpgroups(const Func *f, const Target *t, int64_t rows, int64_t columns)
{
	enum { LEAST = 8, WIDE = 128, BITS = 16 };
	const Op *dot = rows >= LEAST && rows <= ROWS_MOST ? lone_product(f) : NULL;
	bool along_k;
	if (!dot || dot->out[0].type->rank != 2 || !has_rows_between(dot, t))
		return false;
	dot_operand_root(dot->in[1], &along_k);
	int64_t programs = (columns + WIDE - 1) / WIDE, most = t->rates ? t->rates->multiprocessors : 0;
	bool is_wide = !along_k && dtype_info[dot->in[1]->type->elem].bits == BITS && 5 * programs >= 3 * most &&
	    programs <= most;
	return rows > ROWS_BY_WARPS ? rows <= PART_FEW || rows_step(dot, t) == ROWS_STEP : is_wide;
}

bool
choose_few_rows(const Kernel *k, const Func *f, const Bound *b, const ChooseBinding *how, const Target *t, Arena *mem,
    TuneName *all, int n, bool is_lone)
{
	bool any = are_vectors(f);
	int64_t narrowest = COLUMNS_LEAST;
	bool many = choose_leaves(f);                   /* groups: each has few rows, but there are many */
	for (int i = 0; i < n && !many && !dots_are_chained(f, f->body); i++) {
		int64_t size = least_size(k, b, how, &all[i]);
		int64_t rows = choose_divided(k, b, all[i].name), columns = columns_beside(k, b, all, n, i);
		if (size == 0 || is_for_warpgroups(f, t, rows, columns))
			continue;
		narrowest = is_lone ? MAX(narrowest, 2 * size) : narrowest;     /* warps divide no squares (slice_find.c) */
		all[i].value[0].i = size;
		all[i].nvalue = 1;
		any = true;
	}
	for (int i = 0; i < n && any; i++) {
		int64_t columns = choose_divided(k, b, all[i].name);
		bool is_several = columns > 0 && !all[i].is_value && all[i].nvalue > 1;
		if (is_several && least_value(&all[i]) > 0 && !shapes_mention(k, all[i].name))
			add_narrower(&all[i], columns, narrowest, is_lone ? INT_MAX / 3 : t->rates->multiprocessors, mem);
	}
	return any;
}

/* ---- between powers of two ---- */

static bool
has_columns_between(const Op *dot, const Target *t)
{
	DotWgmma w;
	return !dot_wgmma_reason(dot, t, WARPGROUP, false, &w);
}

/* Of how many programs each row of tiles is, by the columns that are listed for them, the widest first; or each column. */
typedef struct RowPrograms {
	int64_t of[ROW_PROGRAMS];
	int n, multiprocessors;
} RowPrograms;

static RowPrograms
row_programs(const Kernel *k, const Bound *b, const Target *t, const TuneName *rows, const TuneName *all, int n)
{
	RowPrograms out = {.multiprocessors = t->rates ? t->rates->multiprocessors : 0};
	int64_t size, other = 1;
	int row = axis_divided(k, b, rows->name, &size);
	for (int i = 0; i < n; i++) {
		int column = &all[i] == rows ? -1 : axis_divided(k, b, all[i].name, &size);
		for (int d = 0; d < b->naxis && column >= 0; d++)
			other *= d == row || d == column ? 1 : b->grid[d];
		for (int64_t c = COLUMNS_MOST; c >= COLUMNS_MOST / 4 && column >= 0 && out.n < ROW_PROGRAMS; c /= 2)
			if (lists(&all[i], c))
				out.of[out.n++] = (size + c - 1) / c * other;
	}
	return out;
}

static int64_t
size_of_parts(int64_t size, int64_t parts, int64_t step)
{
	return ((size + parts - 1) / parts + step - 1) / step * step;
}

/* Rows or columns of tiles that make programs for all multiprocessors one, two or three times: of 6000 x 1024 x 2048 tiles
 * of 184 x 128 are 264 programs, which take 38.0 us on an H200, 50.6 of 128 x 128. */
static int
add_rounds(const RowPrograms *p, int64_t size, int64_t step, Const *all, int n)
{
	enum { ROUNDS = 3, FULL = 90 };                 /* per cent */
	int first = n;
	for (int64_t round = 1; round <= ROUNDS; round++)
		for (int i = 0; i < p->n; i++) {
			int64_t all_of = round * p->multiprocessors, parts = p->of[i] > 0 ? all_of / p->of[i] : 0;
			int64_t v = parts > 0 ? size_of_parts(size, parts, step) : 0;
			bool fits = v >= PART_LEAST && v <= PART_MOST && !is_power_of_two(v) &&
			    100 * ((size + v - 1) / v) * p->of[i] >= FULL * all_of;
			fits = fits && ALL_OF(j, n, all[j].i != v);
			if (fits && n < first + PARTS_ROUNDS)
				all[n++] = (Const){.kind = CONST_INT, .i = v};
		}
	return n;
}

/* Multiples of 32 between listed powers of two, of which there are columns, and of 16 that fill the multiprocessors.  Of
 * weights [K, N], which come in boxes of 64 columns, the last box of those has less than 64 bytes a row, which is slow: 256
 * x 5120 x 5120 takes 22.2 us in 88 x 128 and 24.4 in 128 x 80; of [N, K] 23.4 and 23.2, 256 x 11008 x 4096 35.6 and 33.7
 * in 128 x 176. */
static void
add_between(TuneName *t, int64_t columns, const Op *dot, const RowPrograms *rows, Arena *mem)
{
	enum { LEAST = 64, MOST = 128, STEP = 32, SECTOR = 16 };
	bool along_k;
	dot_operand_root(dot->in[1], &along_k);
	Const *all = NEW_ARRAY(mem, Const, t->nvalue + 2 * MOST / STEP + PARTS_ROUNDS);
	int n = t->nvalue;
	memcpy(all, t->value, sizeof *all * (size_t)n);
	for (int64_t p = LEAST; p <= MOST; p *= 2)
		for (int64_t v = p + STEP; v < 2 * p && columns > p && lists(t, p) && lists(t, 2 * p); v += STEP)
			if (!lists(t, v))
				all[n++] = (Const){.kind = CONST_INT, .i = v};
	n = t->nvalue > 1 && along_k ? add_rounds(rows, columns, SECTOR, all, n) : n;
	t->more = n - t->nvalue;
	t->value = all;
	t->nvalue = n;
}

/* Multiples of 8 of which few tiles just cover the rows, as many tiles of any size nearly do, or make programs for all
 * multiprocessors.  Rows that one tile of 24, 40 or 48 covers have no other: of 64 some would lie outside. */
static void
add_parts(TuneName *t, int64_t rows, const Op *dot, const RowPrograms *p, const Target *target, Arena *mem)
{
	Const *all = NEW_ARRAY(mem, Const, t->nvalue + PARTS + PARTS_ROUNDS);
	int n = t->nvalue, step = rows_step(dot, target);
	memcpy(all, t->value, sizeof *all * (size_t)n);
	int64_t one = rows <= PART_FEW ? PART_FEW : MAX(size_of_parts(rows, 1, step), PART_LEAST);
	bool is_lone = one <= PART_FEW || (one <= PART_LONE && dot_transposes(dot, one, target, WARPGROUP));
	if (is_lone)
		all[0] = (Const){.kind = CONST_INT, .i = one}, t->nvalue = 0, n = 1;
	for (int64_t parts = (rows + PART_MOST - 1) / PART_MOST, v = PART_MOST, last = is_lone ? one : 0;
	     parts <= PARTS_FEW && n < t->nvalue + PARTS && v >= PART_LEAST; parts++) {
		v = size_of_parts(rows, parts, step);
		if (v >= PART_LEAST && v != last && !is_power_of_two(v))
			all[n++] = (Const){.kind = CONST_INT, .i = v};
		last = v;
	}
	n = add_rounds(p, rows, step, all, n);
	t->more = n - t->nvalue;
	t->value = all;
	t->nvalue = n;
}

/* Adds to a name what the product has of its values between those listed, if it is the tile's rows or columns. */
static void
add_tiles(TuneName *name, int64_t size, const Op *dot, int64_t value, const RowPrograms *p, const Target *t,
    Arena *mem)
{
	const Type *acc = dot->out[0].type;
	if (acc->extent[1] == value && has_columns_between(dot, t))
		add_between(name, size, dot, p, mem);
	else if (acc->extent[0] == value && has_rows_between(dot, t))
		add_parts(name, size, dot, p, t, mem);
}

/* Slots beyond those listed: small tiles alone on their multiprocessors wait for copies that are too few.  Of tiles that
 * have all rows no more than six: 22 x 4096 x 14336 in 24 x 64 x 128 takes 33.0 us with six, 43.3 with eight. */
static void
add_slots(TuneName *t, int64_t most, Arena *mem)
{
	static const int more[] = {6, 8};
	Const *all = NEW_ARRAY(mem, Const, t->nvalue + LEN(more));
	int n = 0;
	for (int i = 0; i < t->nvalue + LEN(more); i++) {
		bool is_listed = i < t->nvalue;
		Const c = is_listed ? t->value[i] : (Const){.kind = CONST_INT, .i = more[i - t->nvalue]};
		if (c.kind != CONST_INT || (c.i <= most && (is_listed || !lists(t, c.i))))
			all[n++] = c;
	}
	t->value = all;
	t->nvalue = n;
}

/* Are rows written by digits of an index, of no dimensions that are merged?  Threads of a producer, which have few
 * registers, compute those for the rows of a padded tile with masks, and spill (strided convolution of 192 rows: 10 KB). */
static bool
numbers_digits(const Func *f)
{
	return ANY_OP(op, f->body, op->kind == OP_REM && op->out[0].type->rank > 0) &&
	    ANY_OP(op, f->body, op->kind == OP_WRITE && strchr(attr_index(op), 'g'));
}

static int64_t
listed_least(const TuneName *t)
{
	TuneName listed = *t;
	listed.nvalue -= t->more;
	return t->is_value ? 0 : least_value(&listed);
}

/* Programs of the least tiles that the header lists. */
static int64_t
most_programs(const Kernel *k, const Bound *b, const TuneName *all, int n)
{
	int64_t programs = (int64_t)choose_programs(b);
	for (int i = 0; i < n; i++) {
		int64_t size, least = listed_least(&all[i]);
		int d = least <= 0 ? -1 : axis_divided(k, b, all[i].name, &size);
		programs = d < 0 ? programs : programs / MAX(b->grid[d], 1) * ((size + least - 1) / least);
	}
	return programs;
}

/* Of a step along K of `value`, bytes of the operands' rows; 0: the name is another. */
static int64_t
depth_bytes(const Func *f, int64_t value)
{
	const Op *dot = f ? lone_product(f) : NULL;
	const Type *a = dot ? dot->in[0]->type : NULL;
	return a && a->rank == 2 && a->extent[1] == value ? dtype_bytes(a->elem, value) : 0;
}

/* Where each multiprocessor has one program at most, steps of two lines along K. */
static void
add_deeper(const ChooseBinding *how, ChooseProduct *product, void *user, Arena *mem, TuneName *t)
{
	enum { LINES = 256 };
	const Const *last = &t->value[MAX(t->nvalue - 1, 0)];
	if (t->is_value || t->nvalue < 2 || last->kind != CONST_INT || how->is_fixed(how->user, t->name) ||
	    2 * depth_bytes(product(user, &(NamedConst){t->name, *last, NOWHERE}), last->i) != LINES)
		return;
	Const *all = NEW_ARRAY(mem, Const, t->nvalue + 1);
	memcpy(all, t->value, sizeof *all * (size_t)t->nvalue);
	all[t->nvalue] = (Const){.kind = CONST_INT, .i = 2 * last->i};
	t->value = all;
	t->nvalue++;
}

/* Programs for less than three quarters of the multiprocessors have narrower tiles, unless rows lie outside of them: 37 x
 * 4096 x 11008 takes 40 us in 64 x 32, 35 in 64 x 64 and 27 in 40 x 64.  `columns` is the name of the tile's. */
static void
add_few(const Kernel *k, const Bound *b, const ChooseBinding *how, const Target *t, ChooseProduct *product, void *user,
    Arena *mem, TuneName *all, int n, const TuneName *columns)
{
	enum { FILLED = 8 };                            /* of a tile's rows this part may be outside */
	int multiprocessors = t->rates->multiprocessors;
	int64_t programs = most_programs(k, b, all, n);
	bool fills = true;
	for (int i = 0; i < n && programs <= 2 * multiprocessors; i++) {
		int64_t size = choose_divided(k, b, all[i].name), least = listed_least(&all[i]);
		if (size <= 0)
			add_deeper(how, product, user, mem, &all[i]);
		else if (&all[i] != columns && least > 0)
			fills &= FILLED * ((size + least - 1) / least * least - size) <= least;
	}
	for (int i = 0; i < n && fills && 4 * programs < 3 * multiprocessors; i++)
		if (&all[i] == columns && choose_divided(k, b, all[i].name) > 2 * COLUMNS_MOST)
			add_narrower(&all[i], choose_divided(k, b, all[i].name), COLUMNS_LEAST, multiprocessors, mem);
}

bool
choose_between(const Kernel *k, const Bound *b, const ChooseBinding *how, const Target *t, ChooseProduct *product,
    void *user, Arena *mem, TuneName *all, int n)
{
	const TuneName *columns = NULL;
	bool is_lone = false;
	int64_t most_slots = SLOTS_MOST;
	DotWgmma w;
	for (int i = 0; i < n; i++) {
		int64_t size = choose_divided(k, b, all[i].name);
		if (size <= 0 || all[i].is_value || how->is_fixed(how->user, all[i].name) || shapes_mention(k, all[i].name))
			continue;
		for (int v = 0; v < all[i].nvalue; v++) {
			const Func *f = product(user, &(NamedConst){all[i].name, all[i].value[v], NOWHERE});
			const Op *dot = f ? lone_product(f) : NULL;
			const Type *acc = dot ? dot->out[0].type : NULL;
			if (!acc || acc->rank != 2 || acc->extent[0] == acc->extent[1])
				continue;
			bool is_row = acc->extent[0] == all[i].value[v].i;
			if (is_row && (numbers_digits(f) || (size <= ROWS_BY_WARPS &&
				!is_for_warpgroups(f, t, size, columns_beside(k, b, all, n, i)))))
				break;
			RowPrograms p = row_programs(k, b, t, &all[i], all, n);
			add_tiles(&all[i], size, dot, all[i].value[v].i, &p, t, mem);
			most_slots = all[i].more == all[i].nvalue ? SLOTS_FEW : most_slots;
			is_lone |= has_columns_between(dot, t);
			if (acc->extent[1] == all[i].value[v].i && !dot_wgmma_reason(dot, t, WARPGROUP, false, &w))
				columns = &all[i];
			break;
		}
	}
	for (int i = 0; i < n && is_lone; i++)
		if (schedule_named(all[i].name) == SCHEDULE_STAGES)
			add_slots(&all[i], most_slots, mem);
	add_few(k, b, how, t, product, user, mem, all, n, columns);
	return is_lone;
}
