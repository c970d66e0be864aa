/* How many registers a thread holds at once, estimated from PTX, where no assembler is there to say it.
 *
 * A value is live from its definition to its last use; where the last use stands in a loop and the definition before it,
 * to the loop's end (the branch back):
 *
 *     mov.b32 %r2, %r1;            %r1 and %r2 are one value: the copies at the ends of blocks cost nothing
 *     $L__BB0_1:
 *     add.s32 %r3, %r2, %r9;       %r9 comes from before the loop: it is live until the branch
 *     @%p1 bra $L__BB0_1;
 *
 * The most that are live at once is what the text's own order of instructions takes.  An assembler reorders and
 * rematerialises, so that it may do with less: pressure_spills leaves room for that.  Kernels of dsl_examples take up to
 * 1.32 times 255, or 38 more than 64, and are not spilled.  Sums of products are another matter: no order lets go of
 * them, so that they spill where they alone leave less than a loop's addresses and operands take. */
#include "compile/compile.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CLASSES = 16, MARGIN_PERCENT = 140, MARGIN = 48, BESIDE_SUMS = 16, COPIES_OF_ONE = 2 };

/* `.reg .b32 %r<2608>;`: registers %r0 to %r2607. */
typedef struct RegClass {
	const char *name;
	size_t len;
	int first, n, width;                            /* its registers' numbers among all; in 32-bit registers */
} RegClass;

typedef struct Life {
	int from, to;                                   /* instructions; from -1: it is never named */
	int same, width;                                /* a register that it is one with (union-find) */
	bool is_held;                                   /* by a product of warpgroups, beside all others of its line */
	int copies;                                     /* to sums: a zero that many begin with has more than two */
	bool is_sum;                                    /* of a matrix instruction: none of them is computed again */
} Life;

typedef struct Loop {
	int from, to, outer;                            /* instructions; the loop that holds it, or -1 */
} Loop;

/* A sum that is used up here and given again there, in one basic block, holds nothing between. */
typedef struct Hole {
	int reg, from, to;
} Hole;

typedef struct Scan {
	Arena *mem;
	RegClass cls[MAX_CLASSES];
	int ncls, nreg, nins;
	bool of_sums;                                   /* they are what is counted */
	bool gives;                                     /* the line has the results of an mma, named on the line before */
	int block;                                      /* first instruction of the basic block */
	VEC(Hole) holes;
	Life *reg;
	VEC(int) label;                                 /* of each $L__BB0_N: the instruction behind it, plus 1 */
	VEC(Loop) loops;
} Scan;

/* "b64" → 2; of predicates there are others. */
static int
class_width(const char *type)
{
	int bits = atoi(type + 1);
	return strncmp(type, "pred", 4) == 0 ? 0 : bits > 32 ? bits / 32 : 1;
}

static void
add_class(Scan *s, const char *line)
{
	const char *type = line + strlen(".reg ."), *at = strchr(line, '%'), *open = at ? strchr(at, '<') : NULL;
	if (!open || s->ncls == MAX_CLASSES || strcspn(line, "\n") < (size_t)(open - line))
		return;
	int n = atoi(open + 1);
	s->cls[s->ncls++] = (RegClass){at + 1, (size_t)(open - at - 1), s->nreg, n, class_width(type)};
	s->nreg += n;
}

/* The register named at a '%', or -1; *end is behind it. */
static int
reg_at(const Scan *s, const char *p, const char **end)
{
	const char *name = p + 1, *digit = name;
	while (char_is_letter(*digit))
		digit++;
	char *behind;
	long n = char_is_digit(*digit) ? strtol(digit, &behind, 10) : -1;
	*end = n < 0 ? digit : behind;
	for (int i = 0; i < s->ncls && n >= 0; i++)
		if (s->cls[i].len == (size_t)(digit - name) && memcmp(s->cls[i].name, name, s->cls[i].len) == 0)
			return n < s->cls[i].n ? s->cls[i].first + (int)n : -1;
	return -1;
}

static int
find(Life *reg, int i)
{
	while (reg[i].same != i)
		i = reg[i].same = reg[reg[i].same].same;
	return i;
}

/* `mov.b32 %r1, %r2;` and nothing else: both are one. */
static void
join_copy(Scan *s, const char *line)
{
	const char *p = strchr(line, '%'), *end;
	int to = p && strncmp(line, "mov.", 4) == 0 ? reg_at(s, p, &end) : -1;
	if (to < 0 || strncmp(end, ", %", 3) != 0)
		return;
	int from = reg_at(s, end + 2, &end);
	bool apart = from >= 0 && (s->reg[to].is_held || s->reg[from].is_held);
	if (from >= 0 && s->of_sums && s->reg[to].is_sum) { /* one zero begins many sums */
		apart |= s->reg[from].copies >= COPIES_OF_ONE;
		s->reg[from].copies++;
	}
	if (from >= 0 && !apart && *end == ';' && s->reg[to].width == s->reg[from].width)
		s->reg[find(s->reg, from)].same = find(s->reg, to);
}

/* The number of the block that "$L__BB0_12" at `p` names, or -1. */
static int
block_number(const char *p)
{
	const char *bar = strncmp(p, "$L__BB", 6) == 0 ? strchr(p, '_') : NULL;
	bar = bar ? strchr(bar + 2, '_') : NULL;
	return bar && char_is_digit(bar[1]) ? atoi(bar + 1) : -1;
}

static void
note_label(Scan *s, const char *line)
{
	int n = block_number(line);
	while (n >= s->label.n)
		vec_push(s->mem, &s->label, 0);
	if (n >= 0)
		s->label.at[n] = s->nins + 1;
	s->block = s->nins;
}

/* A branch to a label that was there already closes a loop. */
static void
note_branch(Scan *s, const char *line, size_t len)
{
	const char *p = memchr(line, '$', len);
	int n = p ? block_number(p) : -1;
	if (n >= 0)
		s->block = s->nins + 1;
	if (n >= 0 && n < s->label.n && s->label.at[n] > 0)
		vec_push(s->mem, &s->loops, ((Loop){s->label.at[n] - 1, s->nins, -1}));
}

/* Registers are declared first: with the first instruction all are known. */
static void
make_registers(Scan *s)
{
	s->reg = NEW_ARRAY(s->mem, Life, s->nreg);
	for (int c = 0; c < s->ncls; c++)
		for (int i = s->cls[c].first; i < s->cls[c].first + s->cls[c].n; i++)
			s->reg[i] = (Life){.from = -1, .to = -1, .same = i, .width = s->cls[c].width};
}

/* Accumulators that begin as copies of one zero are not one register. */
static void
note_held(Scan *s, const char *body)
{
	for (const char *p = strstr(body, "wgmma.mma_async"); p; p = strstr(p, "wgmma.mma_async"))
		for (const char *end = p + strcspn(p, "\n"); p < end;) {
			const char *at = memchr(p, '%', (size_t)(end - p));
			int r = at ? reg_at(s, at, &p) : -1;
			if (r >= 0)
				s->reg[r].is_held = true;
			p = at ? p : end;
		}
}

/* The registers between the braces that `p` stands before; returns what is behind them. */
static const char *
mark_sums(Scan *s, const char *p)
{
	const char *at = strchr(p, '{'), *end = at ? strchr(at, '}') : NULL;
	while (end && (at = memchr(at, '%', (size_t)(end - at)))) {
		int r = reg_at(s, at, &at);
		if (r >= 0)
			s->reg[r].is_sum = true;
	}
	return end ? end : p + 1;
}

/* What matrix instructions give, and add to: `mma.sync… {%r4, %r5}, {a}, {b}, {%r6, %r7};`. */
static void
note_sums(Scan *s, const char *body)
{
	for (const char *p = strstr(body, "wgmma.mma_async"); p; p = strstr(p, "wgmma.mma_async"))
		p = mark_sums(s, p + 1);
	for (const char *p = strstr(body, "\tmma.sync"); p; p = strstr(p, "\tmma.sync")) {
		const char *last = mark_sums(s, p), *end = strchr(last, ';');
		for (p = last; end && (last = memchr(last, '{', (size_t)(end - last))); last++)
			p = last;
		mark_sums(s, p);
	}
}

static void
note_instruction(Scan *s, const char *line, size_t len)
{
	const char *p = line, *end = line + len;
	if (!s->reg) {
		make_registers(s);
		note_held(s, line);
		note_sums(s, line);
	}
	while (p < end && (p = memchr(p, '%', (size_t)(end - p)))) {
		int r = reg_at(s, p, &p);
		if (r < 0)
			continue;
		if (s->reg[r].from < 0)
			s->reg[r].from = s->nins;
		else if (s->gives && s->reg[r].to >= s->block)
			vec_push(s->mem, &s->holes, ((Hole){r, s->reg[r].to, s->nins}));
		s->reg[r].to = s->nins;
	}
	join_copy(s, line);
	note_branch(s, line, len);
	s->nins++;
	s->gives = s->of_sums && strncmp(line, "mma.sync", 8) == 0;
}

static void
scan_body(Scan *s, const char *p)
{
	for (; *p && *p != '}'; p += *p == '\n') {
		p += strspn(p, " \t");
		size_t len = strcspn(p, "\n");
		if (strncmp(p, ".reg .", 6) == 0 && !s->reg)
			add_class(s, p);
		else if (*p == '$')
			note_label(s, p);
		else if (len > 0 && *p != '.' && *p != '/')
			note_instruction(s, p, len);
		p += len;
	}
}

static int
by_start(const void *a, const void *b)
{
	const Loop *x = a, *y = b;
	return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to < y->to) - (x->to > y->to);
}

/* The innermost loop of each instruction, or -1; each loop gets the one around it. */
static int *
innermost(Scan *s)
{
	int *in = NEW_ARRAY(s->mem, int, s->nins), now = -1, next = 0;
	if (s->loops.n)
		qsort(s->loops.at, (size_t)s->loops.n, sizeof *s->loops.at, by_start);
	for (int i = 0; i < s->nins; i++) {
		while (now >= 0 && s->loops.at[now].to < i)
			now = s->loops.at[now].outer;
		for (; next < s->loops.n && s->loops.at[next].from <= i; next++) {
			s->loops.at[next].outer = now;
			now = next;
		}
		in[i] = now;
	}
	return in;
}

/* Copies become one life; what comes from before a loop and is used in it lasts to its end. */
static void
stretch(Scan *s, const int *in)
{
	for (int i = 0; i < s->nreg; i++) {
		Life *all = &s->reg[find(s->reg, i)], *r = &s->reg[i];
		if (r->from < 0 || all == r)
			continue;
		all->from = all->from < 0 ? r->from : MIN(all->from, r->from);
		all->to = MAX(all->to, r->to);
		all->is_sum |= r->is_sum;
	}
	for (int i = 0; i < s->nreg; i++) {
		Life *r = &s->reg[i];
		if (r->from < 0 || r->same != i)
			continue;
		for (int l = in[r->to]; l >= 0 && r->from < s->loops.at[l].from; l = s->loops.at[l].outer)
			r->to = MAX(r->to, s->loops.at[l].to);
	}
}

static int
peak(Scan *s)
{
	int *change = NEW_ARRAY(s->mem, int, s->nins + 1), most = 0;
	for (int i = 0; i < s->nreg; i++)
		if (s->reg[i].from >= 0 && s->reg[i].same == i && (s->reg[i].is_sum || !s->of_sums)) {
			change[s->reg[i].from] += s->reg[i].width;
			change[s->reg[i].to] -= s->reg[i].width;
		}
	for (int i = 0; i < s->holes.n; i++) {
		change[s->holes.at[i].from] -= s->reg[s->holes.at[i].reg].width;
		change[s->holes.at[i].to] += s->reg[s->holes.at[i].reg].width;
	}
	for (int i = 0, now = 0; i < s->nins; i++) {
		now += change[i];
		most = MAX(most, now);
	}
	return most;
}

/* The most registers that are live at once, of all or of the sums alone. */
static int
most_live(const char *body, bool of_sums)
{
	Scan s = {.mem = arena_open(), .of_sums = of_sums};
	scan_body(&s, body);
	if (s.reg)
		stretch(&s, innermost(&s));
	int n = s.reg ? peak(&s) : 0;
	arena_close(s.mem);
	return n;
}

/* The number behind a directive of the entry, or `absent`. */
static int
directive(const char *entry, const char *body, const char *word, int absent)
{
	const char *p = strstr(entry, word);
	return p && p < body ? atoi(p + strlen(word)) : absent;
}

Pressure
ptx_pressure(const char *text, const Target *t)
{
	const char *entry = strstr(text, "\n.visible .entry "), *body = entry ? strstr(entry, "\n{") : NULL;
	/* Warps that compute have what others gave up, and of loops with peeled ends all would count at once. */
	if (!body || strstr(body, "setmaxnreg.inc"))
		return (Pressure){0};
	int threads = directive(entry, body, ".reqntid ", directive(entry, body, ".maxntid ", t->max_threads));
	int blocks = directive(entry, body, ".minnctapersm ", 1), each = t->registers / MAX(threads * blocks, 1) / 8 * 8;
	Pressure p = {.limit = MIN(each, t->max_registers)};
	p.held = most_live(body + 2, false);
	p.sums = most_live(body + 2, true);
	return p;
}

bool
pressure_spills(Pressure p)
{
	if (p.sums > 0 && p.sums + BESIDE_SUMS > p.limit)
		return true;
	return (int64_t)p.held * 100 > (int64_t)p.limit * MARGIN_PERCENT && p.held > p.limit + MARGIN;
}
