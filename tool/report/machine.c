/* Instructions of the machine code.
 *
 * A warp executes each of them once at most, or once a trip, so that their number is the estimate's: passes and ptxas
 * join, repeat and drop what the cost model counts op by op (a product and its sum, conversions of rows that several
 * reads share).  A loop's trips are those by which its accesses of global memory, products and shuffles come to what the
 * thread IR has of them.  Of code for warps that divide into roles the model's count stays, and where a loop has none.
 *
 *     .L_x_1:                                       // a label of SASS, as nvdisasm prints it
 *             4a10              @!P0 EXIT ;
 *     .L_x_0:
 *             4a20                   BRA `(.L_x_0);         the end, behind which there is padding
 */
#include "tool/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 256 };

const char *
report_instruction(const char *line)
{
	const char *at = strstr(line, "*/");
	if (!at || !strstr(line, "/*") || strstr(line, "//"))
		return NULL;
	at += 2 + strspn(at + 2, " \t");
	if (*at == '@')
		at += strcspn(at, " "), at += strspn(at, " ");
	return *at >= 'A' && *at <= 'Z' ? at : NULL;
}

static bool
is_named(const char *at, const char *name)
{
	size_t n = strlen(name);
	return strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == '.' || at[n] == ';');
}

static bool
is_one_of(const char *at, const char *const *name, int n)
{
	return ANY_OF(i, n, is_named(at, name[i]));
}

/* Loads, stores and copies of global memory, products, and exchanges between lanes, of which the thread IR has as many. */
static bool
is_mark(const char *op)
{
	static const char *const name[] = {"LDG", "STG", "LDGSTS", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "HMMA", "IMMA",
	    "DMMA", "BMMA", "SHFL", "REDUX"};
	return is_one_of(op, name, LEN(name));
}

/* Of the pipe for integers, comparisons and selections, of half the rate (CUDA's guide, throughput
 * of arithmetic instructions); 1: of the pipe that multiplies integers, of the same rate; -1: of
 * others. */
static int
half_pipe(const char *op)
{
	static const char *const name[] = {"IADD3", "VIADD", "ISETP", "FSETP", "HSETP2", "SEL", "FSEL",
	    "FMNMX", "IMNMX", "VIMNMX", "HMNMX2", "LOP3", "PLOP3", "SHF", "PRMT", "LEA", "IABS", "SGXT",
	    "BMSK", "F2FP", "FCHK", "P2R", "R2P"};
	return is_one_of(op, name, LEN(name)) ? 0 : is_named(op, "IMAD") ? 1 : -1;
}

typedef struct Instruction {
	const char *op;
	int source, n; /* line of the source; of SASS */
	bool is_guarded;
	double times; /* that a warp executes it for one program */
} Instruction;

/* Of instructions: [from, to). */
typedef struct CodeLoop {
	int from, to;
	double times; /* trips for one program; -1: not known yet */
} CodeLoop;

typedef struct Code {
	VEC(Instruction) at;
	VEC(CodeLoop) loops;
	Arena *mem;
	const char **label; /* by lines of SASS: the text of one that is a label; NULL */
	int nline;
} Code;

/* Behind the last EXIT there are only waits' further trips, routines that few values take, and padding; -1: more is. */
static int
code_end(const Code *c)
{
	static const double FEW = .1;
	for (int i = 0; i < c->at.n; i++)
		if (is_named(c->at.at[i].op, "EXIT") && !c->at.at[i].is_guarded) {
			bool rest = false;
			for (int k = i + 1; k < c->at.n; k++)
				rest |= is_named(c->at.at[k].op, "LDG") || is_named(c->at.at[k].op, "STG");
			return rest || i < FEW * c->at.n ? -1 : i + 1;
		}
	return c->at.n;
}

/* The instruction behind the label that a branch names, or behind all; -1: not known. */
static int
target_of(const Code *c, const Instruction *branch)
{
	const char *label = strchr(branch->op, '('), *end = label ? strchr(label, ')') : NULL;
	size_t n = end ? (size_t)(end - label - 1) : 0;
	for (int l = 0; n && l < c->nline; l++) {
		if (!c->label[l] || strncmp(c->label[l], label + 1, n) != 0 || c->label[l][n] != ':')
			continue;
		for (int i = 0; i < c->at.n; i++)
			if (c->at.at[i].n > l)
				return i;
		return c->at.n;
	}
	return -1;
}

/* False: it has calls other than of routines for few values, or jumps that are not understood. */
static bool
find_loops(Code *c)
{
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		bool own = is_named(in->op, "CALL") && !strstr(in->op, "slowpath") && !strstr(in->op, "_div_") &&
			   !strstr(in->op, "_rem_");
		if (own || is_named(in->op, "BRX") || is_named(in->op, "JMP"))
			return false;
		int to = is_named(in->op, "BRA") ? target_of(c, in) : i + 1;
		bool had = false;
		for (int k = 0; k < c->loops.n && to >= 0 && to <= i; k++)
			if (c->loops.at[k].from == to) {
				c->loops.at[k].to = i + 1;
				had = true;
			}
		if (to < 0)
			return false;
		if (to <= i && !had)
			vec_push(c->mem, &c->loops, ((CodeLoop){to, i + 1, -1}));
	}
	return true;
}

static bool
read_code(Code *c, const char *text, const json_t *lines)
{
	c->label = NEW_ARRAY(c->mem, const char *, json_array_size(lines) + 1);
	for (const char *at = text; *at && c->nline < (int)json_array_size(lines);
	     at += strcspn(at, "\n"), at += *at == '\n', c->nline++) {
		const char *line = arena_strndup(c->mem, at, strcspn(at, "\n"));
		const char *op = report_instruction(line);
		c->label[c->nline] = *at == '.' || *at == '$' ? line : NULL;
		if (op)
			vec_push(c->mem, &c->at,
			    ((Instruction){op,
				(int)json_integer_value(json_array_get(lines, (size_t)c->nline)), c->nline,
				strchr(line, '@') && strchr(line, '@') < op, 1}));
	}
	int n = code_end(c);
	c->at.n = MAX(n, 0);
	return n > 0 && find_loops(c);
}

/* ---- how often ---- */

/* The smallest loop that has an instruction; NULL: none. */
static CodeLoop *
loop_of(const Code *c, int i)
{
	CodeLoop *in = NULL;
	for (int k = 0; k < c->loops.n; k++) {
		CodeLoop *l = &c->loops.at[k];
		if (i >= l->from && i < l->to && (!in || l->to - l->from < in->to - in->from))
			in = l;
	}
	return in;
}

/* Marks of a line in the loop itself, not in loops inside; NULL: in no loop. */
static int
marks_in(const Code *c, const CodeLoop *l, int line)
{
	int n = 0;
	for (int i = l ? l->from : 0; i < (l ? l->to : c->at.n); i++)
		n += (line < 0 || c->at.at[i].source == line) && is_mark(c->at.at[i].op) &&
		     loop_of(c, i) == l;
	return n;
}

/* The trips of a loop are the marks that its lines have by the thread IR, but for those outside of loops, divided by those
 * of a trip in SASS: of the line that has most.  What ptxas unrolls has a second loop for the trips that are left, which
 * has fewer. */
static void
time_loops(Code *c, const Inspection *x, int lines, double once)
{
	double *left = NEW_ARRAY(c->mem, double, lines + 1), all = 0;
	for (int k = 0; k < x->spent.n; k++) {
		const LineBill *l = &x->spent.at[k];
		if (l->file == x->f->place.file && l->line >= 0 && l->line <= lines)
			all += left[l->line] += l->marks;
	}
	for (int s = 1; s <= lines; s++)
		left[s] = MAX(left[s] - once * marks_in(c, NULL, s), 0);
	for (;;) {
		CodeLoop *most = NULL;
		int n = 0, line = 0, others = 0;
		for (int k = 0; k < c->loops.n; k++)
			for (int s = 1; s <= lines && c->loops.at[k].times < 0; s++) {
				int own = marks_in(c, &c->loops.at[k], s);
				if (own > n) {
					n = own;
					line = s;
					most = &c->loops.at[k];
				}
			}
		if (!most || all <= 0)                  /* none, or the thread IR's marks are not known */
			break;
		for (int k = 0; k < c->loops.n; k++)
			others += &c->loops.at[k] != most && c->loops.at[k].times < 0 &&
				  marks_in(c, &c->loops.at[k], line) > 0;
		double trips = left[line] / n;
		most->times = others && trips >= 1 ? floor(trips) : trips;
		for (int s = 1; s <= lines; s++)
			left[s] = MAX(left[s] - most->times * marks_in(c, most, s), 0);
	}
}

/* Loops without a mark wait, and are passed once for each trip of the loop around them, where they are short. */
static bool
time_instructions(Code *c, double once)
{
	enum { SHORT = 16 };
	for (int i = 0; i < c->at.n; i++) {
		CodeLoop *in = loop_of(c, i);
		while (in && in->times < 0) {
			CodeLoop *around = NULL;
			if (in->to - in->from > SHORT)
				return false;
			for (int k = 0; k < c->loops.n; k++) {
				CodeLoop *l = &c->loops.at[k];
				bool has = l != in && l->from <= in->from && l->to >= in->to;
				around = has && (!around || l->to - l->from < around->to - around->from) ? l : around;
			}
			in = around;
		}
		c->at.at[i].times = in ? in->times : once;
	}
	return true;
}

/* Can a warp have all its values such as need no more than what comes before that branch? */
static bool
is_seldom(const Code *c, const Inspection *x, int from, int to)
{
	enum { LEAST = 24 }; /* of what reduces a large angle */
	bool is_long = to - from >= LEAST;
	int calls = 0;
	for (int i = from; i < to; i++) {
		const Op *op = x->f->body->first;
		calls += is_named(c->at.at[i].op, "CALL");
		while (is_long && op &&
		       !(op->nregion == 0 && op_info[op->kind].cost == COST_LONG &&
			   op->place.line == c->at.at[i].source))
			op = op_after(op, x->f->body);
		is_long &= op != NULL;
	}
	return to - from < LEAST * calls || is_long;
}

static void
scale(Code *c, int from, int to, double by)
{
	for (int i = from; i < to; i++)
		c->at.at[i].times *= by;
}

/* Branches around what few values need: routines of divisions, which are called, and angles that
 * are large; of two ways, where one goes on behind the other, the shorter, as a warp's threads
 * mostly go one. */
static void
leave_seldom(Code *c, const Inspection *x)
{
	static const double SELDOM = .1; /* estimate_trips.c has the same */
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		int to = is_named(in->op, "BRA") && in->is_guarded ? target_of(c, in) : -1;
		if (to <= i + 1)
			continue;
		const Instruction *last = &c->at.at[to - 1];
		int join = is_named(last->op, "BRA") && !last->is_guarded ? target_of(c, last) : -1;
		bool two = join > to && join - to < 4 * (to - i);
		if (is_seldom(c, x, i + 1, to) || (two && to - i <= join - to)) {
			scale(c, i + 1, to, SELDOM);
			i = to - 1;
		} else if (two) {
			scale(c, to, join, SELDOM);
		}
	}
}

/* What a walk through straight code has counted. */
typedef struct Walk {
	int lines;       /* of the source; line 0: of none */
	double *of;      /* instructions of each */
	double *half[2], halves[2]; /* of these, and of all, those of pipes of half the rate */
	int *steps;      /* waits for loads that it began */
	double n, loaded, stored; /* bytes of a warp */
	int loads, waits;
	int begun[REGISTERS]; /* one more than the line whose load fills a register; 0: none does */
} Walk;

/* Does a text name a register that a load fills (R12, not UR12)?  The line of that load. */
static bool
awaits(const Walk *w, const char *at, const char *end, int *line)
{
	for (; at < end; at++) {
		bool names =
		    *at == 'R' && char_is_digit(at[1]) && !char_is_letter(at[-1]) && at[-1] != '_';
		int r = names ? atoi(at + 1) : REGISTERS;
		if (r < REGISTERS && w->begun[r]) {
			*line = w->begun[r] - 1;
			return true;
		}
	}
	return false;
}

/* Of a thread's access. */
static int
bytes_of(const char *op)
{
	bool half = strstr(op, ".U16") || strstr(op, ".S16"), byte = strstr(op, ".U8") || strstr(op, ".S8");
	return strstr(op, ".128") ? 16 : strstr(op, ".64 ") ? 8 : half ? 2 : byte ? 1 : 4;
}

/* Loads are under way until something reads what one of them brings, which waits for all of them.
 */
static void
take_loads(Walk *w, const char *op, int source)
{
	const char *at = op + strcspn(op, " ;"), *end = op + strlen(op), *to = strchr(at, 'R');
	bool loads = is_named(op, "LDG");
	const char *from = loads && strchr(at, ',') ? strchr(at, ',') : at;
	int line = 0;
	if (awaits(w, from, end, &line)) {
		memset(w->begun, 0, sizeof w->begun);
		w->steps[line]++;
		w->waits++;
	}
	if (!loads || !to || !char_is_digit(to[1]))
		return;
	int n = MAX(bytes_of(op) / 4, 1);
	for (int r = atoi(to + 1); n > 0 && r < REGISTERS; n--, r++)
		w->begun[r] = source + 1;
	w->loads++;
}

static void
walk(Walk *w, const Code *c)
{
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		int source = in->source <= w->lines ? in->source : 0;
		if (!c->loops.n)
			take_loads(w, in->op, source);
		w->loaded += is_named(in->op, "LDG") ? bytes_of(in->op) * 32 : 0;
		w->stored += is_named(in->op, "STG") ? bytes_of(in->op) * 32 : 0;
		int half = half_pipe(in->op);
		if (half >= 0) {
			w->half[half][source] += in->times;
			w->halves[half] += in->times;
		}
		w->of[source] += in->times;
		w->n += in->times;
	}
}

/* Of what loads bring, the share that device memory has to send: the rest, as of windows that overlap, is in caches.  What
 * those take to answer is of a stencil of two fields (1865 us on an H200, 4960 by memory's latency, 2212 so) and a pooling
 * (276, 551, 274). */
static double
latency_of(const Walk *w, const Inspection *x)
{
	static const double CACHED = 250;
	const TargetRates *r = x->t->rates;
	double bytes = x->bill.part[BILL_MEMORY] * r->memory_rate / r->multiprocessors / func_warps(x->f);
	double sent = MIN(MAX(bytes - w->stored, 0) / MAX(w->loaded, 1), 1);
	return CACHED + (r->latency - CACHED) * sent;
}

/* More waiting than the model counts, where the code's loads wait for one another: ptxas has not
 * the registers for all at once.  A softmax of 5001 f16 a row has 64 loads in 27 steps: 536 us on
 * an H200, of which the model has 162. */
static void
wait_by_code(const Walk *w, Inspection *x)
{
	static const char memory[] = "memory's latency";
	double each = latency_of(w, x) / MAX(x->blocks, 1), modelled = 0;
	for (int i = 0; i < x->spent.n; i++)
		modelled += strcmp(x->spent.at[i].wait, memory) == 0
				? x->spent.at[i].part[BILL_WAITING]
				: 0;
	if (x->blocks <= 0 || w->waits * each <= modelled)
		return;
	x->bill.part[BILL_WAITING] += w->waits * each - modelled;
	for (int i = 0; i < x->spent.n; i++) {
		LineBill *l = &x->spent.at[i];
		bool own = l->file == x->f->place.file && l->line >= 0 && l->line <= w->lines;
		double now = own ? w->steps[l->line] * each : 0;
		bool was = strcmp(l->wait, memory) == 0;
		l->part[BILL_WAITING] = now + (was ? 0 : l->part[BILL_WAITING]);
		l->wait = now > l->part[BILL_WAITING] / 2 ? memory : l->wait;
	}
}

/* Instructions of the path that waits for them, one after another: those of the model go, those of the code come. */
static void
turn_by_code(const Walk *w, Inspection *x)
{
	Bill *b = &x->bill;
	double before = b->issued * x->t->rates->issue_alone, now = w->n * x->t->rates->issue_alone;
	if (b->path <= 0 || b->issued <= 0)
		return;
	double each = b->part[BILL_WAITING] / b->path;
	b->part[BILL_WAITING] *= MAX(b->path - before + now, 0) / b->path;
	for (int i = 0; i < x->spent.n; i++) {
		LineBill *l = &x->spent.at[i];
		bool own = l->file == x->f->place.file && l->line >= 0 && l->line <= w->lines;
		double had = l->part[BILL_ISSUE] * 4 * x->t->rates->issue_rate / func_warps(x->f);
		double more = ((own ? w->of[l->line] : 0) - had) * x->t->rates->issue_alone * each;
		l->part[BILL_WAITING] = MAX(l->part[BILL_WAITING] + more, 0);
	}
}

/* By the schedulers, or by a pipe of half the rate that has more than half of them: its name; NULL. */
static const char *
issue_by_code(const Walk *w, Inspection *x)
{
	const TargetRates *r = x->t->rates;
	int most = w->halves[1] > w->halves[0];
	bool half = w->halves[most] / r->integer_rate > w->n / r->issue_rate;
	const double *of = half ? w->half[most] : w->of;
	double each = func_warps(x->f) / (4 * (half ? r->integer_rate : r->issue_rate));
	x->bill.part[BILL_ISSUE] = (half ? w->halves[most] : w->n) * each;
	for (int k = 0; k < x->spent.n; k++) {
		LineBill *l = &x->spent.at[k];
		bool own = l->file == x->f->place.file && l->line >= 0 && l->line <= w->lines;
		l->part[BILL_ISSUE] = own ? of[l->line] * each : 0;
	}
	return !half ? NULL : most ? "products of integers" : "integers, comparisons and selections";
}

/* {"122": 640.5}: instructions of a warp for a program, by lines of the source. */
static json_t *
by_lines(const Walk *w)
{
	json_t *all = json_object();
	char line[16];
	for (int i = 0; i <= w->lines; i++) {
		snprintf(line, sizeof line, "%d", i);
		if (w->of[i] > 0)
			json_object_set_new(all, line, json_real(w->of[i]));
	}
	return all;
}

json_t *
report_count_code(const json_t *stages, int lines, Inspection *x, Arena *mem)
{
	const json_t *sass = json_array_get(stages, json_array_size(stages) - 1);
	Bill *b = &x->bill;
	Walk w = {.lines = lines,
	    .of = NEW_ARRAY(mem, double, lines + 1),
	    .half = {NEW_ARRAY(mem, double, lines + 1), NEW_ARRAY(mem, double, lines + 1)},
	    .steps = NEW_ARRAY(mem, int, lines + 1)};
	Code c = {.mem = mem};
	if (b->cycles <= 0 || func_find(x->f, OP_ROLES) ||
	    strcmp(json_string_value(json_object_get(sass, "kind")), "sass") != 0 ||
	    !read_code(&c, json_string_value(json_object_get(sass, "text")), json_object_get(sass, "lines")))
		return json_null();
	double once = b->once > 0 ? b->once : 1;
	time_loops(&c, x, lines, once);
	if (!time_instructions(&c, once))
		return json_null();
	leave_seldom(&c, x);
	walk(&w, &c);
	double before = b->part[bill_most(b)];
	if (c.loops.n)
		turn_by_code(&w, x);
	const char *pipe = issue_by_code(&w, x);
	if (!c.loops.n)
		wait_by_code(&w, x);
	if (b->each > 0)
		bill_again(b);
	else
		b->cycles += (b->part[bill_most(b)] - before) * b->programs;
	return json_pack("{s:f, s:i, s:i, s:s?, s:o}", "instructions", w.n, "loads", w.loads, "waits",
	    w.waits, "pipe", pipe, "lines", by_lines(&w));
}
