/* Instructions of the machine code.
 *
 * A warp executes each of them once at most, or once a trip, so that their number is the estimate's: passes and ptxas
 * join, repeat and drop what the cost model counts op by op (a product and its sum, conversions of rows that several
 * reads share).  A loop's trips are those by which its accesses of global memory, products and shuffles come to what the
 * thread IR has of them; what a branch goes around, as a mask of the diagonal's trips, counts as often as the sizes let it
 * run.  Of warps that divide into roles those that compute are counted.  Where a loop has none the model's count stays.
 *
 *     .L_x_1:                                       // a label of SASS, as nvdisasm prints it
 *             4a10              @!P0 EXIT ;
 *     .L_x_0:
 *             4a20                   BRA `(.L_x_0);         the end, behind which there is padding
 */
#include "model/turn.h"
#include "tool/report/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

bool
code_is(const char *at, const char *name)
{
	size_t n = strlen(name);
	return strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == '.' || at[n] == ';');
}

bool
code_is_one_of(const char *at, const char *const *name, int n)
{
	return ANY_OF(i, n, code_is(at, name[i]));
}

/* The instruction behind the label that a branch names, or behind all; -1: not known. */
int
code_target(const Code *c, const Instruction *branch)
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

/* Is it of the way that BRA.DIV takes where threads of a warp have parted, which those of a kernel's shuffles never do?
 * That ends with the branch back. */
static bool
is_parted(const Code *c, int k)
{
	for (int i = 0; i < c->at.n; i++) {
		int from = strncmp(c->at.at[i].op, "BRA.DIV", 7) == 0 ? code_target(c, &c->at.at[i]) : -1;
		bool in = from >= 0 && from <= k;
		for (int b = from; in && b < k; b++)
			in = c->at.at[b].is_guarded || !code_is(c->at.at[b].op, "BRA") ||
			    strncmp(c->at.at[b].op, "BRA.DIV", 7) == 0;
		if (in)
			return true;
	}
	return false;
}

/* Behind the last EXIT there are only waits' further trips, routines that few values take, and padding; -1: more is. */
static int
code_end(const Code *c)
{
	static const double FEW = .1;
	for (int i = 0; i < c->at.n; i++)
		if (code_is(c->at.at[i].op, "EXIT") && !c->at.at[i].is_guarded) {
			bool rest = false;
			for (int k = i + 1; k < c->at.n; k++)
				rest |= (code_is(c->at.at[k].op, "LDG") || code_is(c->at.at[k].op, "STG")) &&
					!is_parted(c, k);
			return rest || i < FEW * c->at.n ? -1 : i + 1;
		}
	return c->at.n;
}

/* False: it has calls other than of routines for few values, or jumps that are not understood. */
static bool
find_loops(Code *c)
{
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		bool own = code_is(in->op, "CALL") && !strstr(in->op, "slowpath") && !strstr(in->op, "_div_") &&
			   !strstr(in->op, "_rem_") && code_target(c, in) != c->at.n;
		if (own || code_is(in->op, "BRX") || code_is(in->op, "JMP"))
			return false;
		int to = code_is(in->op, "BRA") ? code_target(c, in) : i + 1;
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

/* Of warps that divide into roles those that compute, which take registers that others give up.  False: it has none. */
static bool
read_code(Code *c, const char *text, const json_t *lines, const char *control, bool roles)
{
	static const char takes[] = "USETMAXREG.TRY_ALLOC";
	bool computes = !roles;
	enum { DIGITS = 6 };
	size_t ncontrol = control ? strlen(control) / DIGITS : 0, known = 0;
	bool starts = false; /* behind a routine, of divisions, that stands before the kernel */
	c->label = NEW_ARRAY(c->mem, const char *, json_array_size(lines) + 1);
	for (const char *at = text; *at && c->nline < (int)json_array_size(lines);
	     at += strcspn(at, "\n"), at += *at == '\n', c->nline++) {
		const char *line = arena_strndup(c->mem, at, strcspn(at, "\n"));
		const char *op = report_instruction(line);
		c->label[c->nline] = *at == '.' || *at == '$' ? line : NULL;
		if (!op)
			continue;
		unsigned when = 0;
		if (known < ncontrol)
			when = (unsigned)strtoul(arena_strndup(c->mem, control + DIGITS * known, DIGITS), NULL, 16);
		known++;
		if (code_is(op, "RET") && !ANY_OF(i, c->at.n, code_is(c->at.at[i].op, "EXIT"))) {
			starts = true;
			c->at.n = 0;
			continue;
		}
		starts &= code_is(op, "BRA") || code_is(op, "NOP"); /* padding */
		if (starts)
			continue;
		if (roles && strncmp(op, takes, sizeof takes - 1) == 0) {
			computes = true;
			c->at.n = 0;
		}
		vec_push(c->mem, &c->at,
		    ((Instruction){op, (int)json_integer_value(json_array_get(lines, (size_t)c->nline)), c->nline,
			strchr(line, '@') && strchr(line, '@') < op, 1, when}));
	}
	c->has_control = known == ncontrol;
	int n = code_end(c);
	c->at.n = MAX(n, 0);
	return computes && n > 0 && find_loops(c);
}

int
code_bytes(const char *op)
{
	bool half = strstr(op, ".U16") || strstr(op, ".S16"), byte = strstr(op, ".U8") || strstr(op, ".S8");
	return strstr(op, ".128") ? 16 : strstr(op, ".64 ") ? 8 : half ? 2 : byte ? 1 : 4;
}

static void
walk(CodeWalk *w, const Code *c)
{
	static const char *const ahead[] = {"LDGSTS", "UTMALDG", "UBLKCP", "SYNCS", "HGMMA", "IGMMA", "QGMMA", "BGMMA"};
	static const char *const shared[] = {"LDS", "STS", "ATOMS"};
	enum { LANES = 32 };
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		int source = in->source <= w->lines ? in->source : 0;
		double bytes = code_bytes(in->op) * LANES * in->times;
		w->loaded[source] += code_is(in->op, "LDG") ? bytes : 0;
		w->stored[source] += code_is(in->op, "STG") ? bytes : 0;
		w->local += code_is(in->op, "LDL") || code_is(in->op, "STL") ? bytes : 0;
		w->ahead += code_is_one_of(in->op, ahead, LEN(ahead));
		Pipe p;
		double taken = code_pipe(in->op, &p) * in->times;
		if (taken > 0) {
			w->pipe[p][source] += taken;
			w->pipes[p] += taken;
		}
		bool is_shared = code_is_one_of(in->op, shared, LEN(shared));
		double passes = is_shared ? MAX(code_bytes(in->op) / 4, 1) * in->times : 0;
		double moves = code_is(in->op, "SHFL") ? in->times : 0;
		bool whole = code_is(in->op, "STS") || code_bytes(in->op) > 4;
		w->shared[source] += passes;
		w->picked[source] += whole ? 0 : passes;
		w->shuffled[source] += moves;
		w->of[source] += in->times;
		w->n += in->times;
	}
}

/* That execute a program's instructions: of a block in roles those of the group that computes it, whose code is counted.
 * Of attention by distance ncu has issue slots 28 us and special functions 22 of 76: by all 12 warps 54.6 and 33.9, by
 * the 8 that compute 36.4 and 22.6. */
static int
program_warps(const Func *f)
{
	const Op *roles = func_find(f, OP_ROLES);
	return roles ? (int)attr_warps(roles)->at[1] : func_warps(f);
}

LineBill *
code_line_bill(const CodeWalk *w, Inspection *x, int k)
{
	LineBill *l = &x->spent.at[k];
	return l->file == x->f->place.file && l->line >= 0 && l->line <= w->lines ? l : NULL;
}

/* Instructions of the path that waits for them, one after another: those of the model go, those of the code come. */
static void
turn_by_code(const CodeWalk *w, Inspection *x)
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

/* As Nsight Compute names them, and what goes through them. */
static const char *const pipe_name[PIPES] = {[PIPE_INTEGERS] = "ALU", [PIPE_PRODUCTS] = "FMA", [PIPE_DOUBLES] = "FP64"};
static const char *const pipe_takes[PIPES] = {
    [PIPE_INTEGERS] = "integers, comparisons and selections", [PIPE_PRODUCTS] = "products of integers",
    [PIPE_DOUBLES] = "floats of 64 bits"};

/* By the schedulers, or by a pipe that is busy longer, which is returned; PIPES.  *issued: cycles of the bill by the
 * schedulers. */
static Pipe
issue_by_code(const CodeWalk *w, Inspection *x, double *issued)
{
	const TargetRates *r = x->t->rates;
	double each = program_warps(x->f) / 4.0, slots = w->n / r->issue_rate;
	int most = PIPE_INTEGERS;
	for (int p = 0; p < PIPE_SPECIAL; p++)
		most = w->pipes[p] > w->pipes[most] ? p : most;
	bool piped = w->pipes[most] > slots;
	*issued = slots * each;
	x->bill.part[BILL_ISSUE] = MAX(w->pipes[most], slots) * each;
	x->bill.part[BILL_SPECIAL] = w->pipes[PIPE_SPECIAL] * each;
	for (int k = 0; k < x->spent.n; k++) {
		LineBill *l = &x->spent.at[k], *own = code_line_bill(w, x, k);
		double of = !own ? 0 : piped ? w->pipe[most][l->line] : w->of[l->line] / r->issue_rate;
		l->part[BILL_ISSUE] = of * each;
		l->part[BILL_SPECIAL] = own ? w->pipe[PIPE_SPECIAL][l->line] * each : 0;
	}
	return piped ? (Pipe)most : PIPES;
}

/* Passes over the fewest of a gather whose index is the element's own and a constant (model/turn.h), as of shift and
 * roll; 0: it is none.  Of a recurrence by diagonals, whose shifts have no conflict, an H200 takes 331 us: 474 by places
 * at random, 353 so. */
static double
at_constant(const Op *gather)
{
	enum { LANES = 32 };
	const Layout *l = gather->out[0].layout;
	Turn turn;
	if (!l || !gather_turns(gather, &turn))
		return 0;
	int bytes = MAX(dtype_info[gather->out[0].type->elem].bits / 8, 1), bits = l->out[turn.axis];
	int low = layout_out_at(l, turn.axis), all = 0, fewest = 0;
	const uint64_t along = (UINT64_C(1) << bits) - 1;
	for (int r = 0; r < 1 << l->in[IN_REGISTER]; r++) {
		int64_t at[LANES];
		for (int i = 0; i < LANES; i++) {
			uint64_t element = f2_apply(&l->map, (uint64_t)i << layout_in_at(l, IN_LANE) | (uint64_t)r);
			uint64_t own = element >> low & along;
			uint64_t from = ((own + (uint64_t)turn.by) & along) ^ (uint64_t)turn.flips;
			at[i] = (int64_t)((element & ~(along << low)) | from << low) * bytes;
		}
		int passes, least;
		access_passes(at, LANES, bytes, &passes, &least);
		all += passes;
		fewest += least;
	}
	return fewest > 0 ? (double)all / fewest : 0;
}

/* Passes of a warp's access where data says which elements of a table it takes, by bytes of the table: 32 places at
 * random are 3.53 of one of 32 banks in the mean, and no more than the table has of a bank.  Of five histograms an H200
 * took 1.62 to 1.93 times what was said by one pass for four, and 0.89 to 1.29 so; 1.26 and 1.20 for one. */
static double
at_random(const InspectLine *l)
{
	static const double MOST = 3.53, BANKS = 128;
	bool is_gather = strcmp(l->what, "gather") == 0, is = is_gather || strcmp(l->what, "histogram") == 0;
	double known = is_gather ? at_constant(l->op) : 0;
	return known > 0 ? known : is && l->smem_bytes > 0 ? MIN(MOST, MAX((double)l->smem_bytes / BANKS, 1)) : 1;
}

/* Of what conflicts of banks make more the model's share stays. */
static void
shared_by_code(const CodeWalk *w, Inspection *x)
{
	Bill *b = &x->bill;
	b->part[BILL_SHARED] = b->part[BILL_SHUFFLES] = 0;
	for (int k = 0; k < x->spent.n; k++) {
		LineBill *l = &x->spent.at[k], *own = code_line_bill(w, x, k);
		double more = 1, random = 1;
		for (int i = 0; i < x->lines.n && own; i++) {
			const InspectLine *of = &x->lines.at[i];
			random = of->op && of->op->place.line == l->line ? MAX(random, at_random(of)) : random;
			const BankPlan *bank[] = {&of->in, &of->out};
			for (int j = 0; j < LEN(bank) && of->op && of->op->place.line == l->line; j++)
				more = bank[j]->least > 0 ? MAX(more, (double)bank[j]->passes / bank[j]->least) : more;
		}
		double passes = own ? w->shared[l->line] * more + w->picked[l->line] * (MAX(random, more) - more) : 0;
		l->part[BILL_SHARED] = passes * func_warps(x->f);
		l->part[BILL_SHUFFLES] = own ? w->shuffled[l->line] * func_warps(x->f) : 0;
		b->part[BILL_SHARED] += l->part[BILL_SHARED];
		b->part[BILL_SHUFFLES] += l->part[BILL_SHUFFLES];
	}
}

/* What is spilled comes through the L2 cache as far as the first one does not hold it for all threads.  A blur of
 * 25 taps, of which 21 warps at once have 160 bytes a thread, takes an H200 93.9 us: 146 by the model, which has all of it
 * come, 96.4 so; a cross entropy 36.0, 53.4, 37.1; powers of a modulus 84.0, 89.2, 71.4. */
static void
spills_by_code(const CodeWalk *w, Inspection *x)
{
	Bill *b = &x->bill;
	double lines = SUM_OF(double, k, x->spent.n, x->spent.at[k].part[BILL_SECTORS]); /* which have nothing of it */
	double own = code_local_missed(x) * w->local * func_warps(x->f) / x->t->rates->l2_rate;
	if (b->spilled > 0 && w->local > 0)
		b->part[BILL_SECTORS] = MIN(b->part[BILL_SECTORS], lines) + own;
}

/* {"122": 640.5}: instructions of a warp for a program, by lines of the source. */
static json_t *
by_lines(const double *of, int lines)
{
	json_t *all = json_object();
	char line[16];
	for (int i = 0; i <= lines; i++) {
		snprintf(line, sizeof line, "%d", i);
		if (of[i] > 0)
			json_object_set_new(all, line, json_real(of[i]));
	}
	return all;
}

static CodeWalk
walk_new(int lines, Arena *mem)
{
	CodeWalk w = {.lines = lines, .of = NEW_ARRAY(mem, double, lines + 1), .loaded = NEW_ARRAY(mem, double, lines + 1),
	    .stored = NEW_ARRAY(mem, double, lines + 1), .shared = NEW_ARRAY(mem, double, lines + 1),
	    .shuffled = NEW_ARRAY(mem, double, lines + 1), .picked = NEW_ARRAY(mem, double, lines + 1)};
	for (int p = 0; p < PIPES; p++)
		w.pipe[p] = NEW_ARRAY(mem, double, lines + 1);
	return w;
}

/* Do warps multiply what they decode, which is computed from elements of integers that memory has?  The model's path of
 * that is fitted to launches, whose warps read and decode in turn, of which the code's has less: nine took an H200 1.06 to
 * 1.83 times the estimate by it, and 1.06 to 1.35 by the model's (AWQ's words by one row 16.8 us, 9.2 and 14.4; nf4 by few
 * rows 19.8, 13.3 and 14.9). */
static bool
decodes(Func *f, Arena *mem)
{
	func_number(f);
	bool *decoded = NEW_ARRAY(mem, bool, f->nvalues);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool follows = ANY_OF(i, op->nin, op->in[i]->type->kind == TYPE_TILE && decoded[op->in[i]->id]);
		if (op_family(op) == FAMILY_DOT && (decoded[op->in[0]->id] || decoded[op->in[1]->id]))
			return true;
		for (int i = 0; i < op->nout; i++) {
			const Type *t = op->out[i].type;
			bool is_read = t->kind == TYPE_TILE && t->rank > 0 && dtype_is_int(t->elem);
			decoded[op->out[i].id] = op->kind == OP_READ || op->kind == OP_GET ? is_read : follows;
		}
	}
	return false;
}

/* The launch takes as much longer as its longest part does, which was `before`.  Where roles multiply, one of two
 * warpgroups computes while the other one's products go on, and what does not overlap is in the estimate already: an H200
 * takes 258 us for attention of documents, estimated at 264, whose instructions are 183 and whose products are 159; 549
 * for one with a bias and a cap, 480 and 555. */
static void
total_by_code(Bill *b, double before, bool roles)
{
	double most = b->part[bill_most(b)];
	if (b->each > 0)
		bill_again(b);
	else if (roles)
		b->cycles = MAX(b->cycles, most * b->programs);
	else
		b->cycles += (most - before) * b->programs;
}

/* Clusters start whole, in a GPC that has room for all of their blocks: where each block has a multiprocessor of its own,
 * 30 clusters of four at once.  A sum over bodies by 128 of them, five rounds in place of 3.9, takes an H200 245 us, and
 * 190 by 128 clusters of two. */
static void
rounds_of_clusters(Inspection *x)
{
	const TargetRates *r = x->t->rates;
	int n = func_cluster(x->f);
	if (n <= 2 || n > r->clustered || x->blocks != 1 || x->f->schedule.persistent > 0 || x->grid <= 0)
		return;
	double rounds = ceil(x->grid / n / floor((double)r->clustered / n));
	x->bill.cycles *= MAX(rounds / x->bill.programs, 1);
}

/* Of the estimate by the thread IR: code that takes less has a loop whose trips were not found.  ADPCM by a warp,
 * whose loop
 * reads 16 steps at once, was to take 51 us in place of 366, and takes an H200 323. */
static const double LOST = .3;

static json_t *
count_code(json_t *stages, int lines, Inspection *x, const Bound *bound, Arena *mem)
{
	json_t *sass = json_array_get(stages, json_array_size(stages) - 1);
	Bill *b = &x->bill;
	CodeWalk w = walk_new(lines, mem);
	Code c = {.mem = mem};
	CodePath path = {.loads = 0};
	bool roles = func_find(x->f, OP_ROLES);
	bool ok = b->cycles > 0 && strcmp(json_string_value(json_object_get(sass, "kind")), "sass") == 0 &&
		  read_code(&c, json_string_value(json_object_get(sass, "text")), json_object_get(sass, "lines"),
		      json_string_value(json_object_get(sass, REPORT_CONTROL)), roles);
	json_object_del(sass, REPORT_CONTROL);
	if (!ok)
		return json_null();
	const Bill billed = *b;
	LineBill *spent = NEW_COPY(mem, x->spent.at, x->spent.n);
	double once = b->once > 0 ? b->once : 1;
	double *left = NEW_ARRAY(mem, double, lines + 1);
	if (!code_times(&c, x, bound, lines, once, left))
		return json_null();
	walk(&w, &c);
	double before = b->part[bill_most(b)];
	bool decoded = decodes((Func *)x->f, mem), whole = c.has_control && b->path > 0 && b->each > 0;
	bool multiplies = c.has_control && b->each <= 0;
	if (!whole && !decoded && c.loops.n)
		turn_by_code(&w, x);
	double issued;
	Pipe pipe = issue_by_code(&w, x, &issued);
	if (whole && !w.ahead)
		shared_by_code(&w, x);
	if (whole)
		spills_by_code(&w, x);
	if (whole && !decoded)
		code_wait(&w, &c, x, &path);
	total_by_code(b, before, roles);
	if (multiplies)
		code_wait(&w, &c, x, &path);
	b->part[BILL_WAITING] -= path.issued;
	rounds_of_clusters(x);
	if (c.loops.n && b->cycles < LOST * billed.cycles) {
		*b = billed;
		memcpy(x->spent.at, spent, (size_t)x->spent.n * sizeof *spent);
		return json_null();
	}
	return json_pack("{s:f, s:f, s:i, s:i, s:s?, s:s?, s:f, s:o, s:o, s:o, s:o}", "instructions", w.n, "barrier_us",
	    bill_us(b, x->t, path.barriers), "loads", path.loads, "waits", c.loops.n ? 0 : path.steps, "pipe",
	    pipe < PIPES ? pipe_name[pipe] : NULL, "pipe_takes", pipe < PIPES ? pipe_takes[pipe] : NULL, "slots_us",
	    bill_us(b, x->t, issued), "lines", by_lines(w.of, lines), "mix", code_mix(&c, lines), "specials",
	    code_specials(&c, lines), "left", by_lines(left, lines));
}

/* What another kernel of the launch takes is its own. */
json_t *
report_count_code(json_t *stages, int lines, Inspection *x, const Bound *bound, Arena *mem)
{
	x->bill.cycles -= x->other;
	json_t *counted = count_code(stages, lines, x, bound, mem);
	x->bill.cycles += x->other;
	return counted;
}
