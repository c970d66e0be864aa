/* One kernel's text on the cpu device, and compared with what another device makes of it. */
#include "diff_run.h"

#include "compile/compile.h"
#include "runtime/case/case.h"
#include "target/target.h"
#include "tests/fuzz/draw_layouts.h"
#include "tests/opened.h"
#include "tests/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Nothing given. */
static DiffRun
usual(void)
{
	DiffRun r = {0};
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		r.figure[i] = -1;
	return r;
}

const char *const diff_word[DIFF_WORDS] = {"mma.sync", "ldmatrix", "cp.async", "shfl.sync", "bar.sync",
    "atom.", "red.", ".v4.", "vprintf"};

const char *
diff_kind_text(DiffKind k)
{
	static const char *const text[] = {"the same", "no good source", "results differ",
	    "written outside of a tensor", "the compiler fails", "an assert fails",
	    "the device reports", "a crash", "a hang", "refused"};
	return (int)k < LEN(text) ? text[k] : "?";
}

/* ---- runs ---- */

static int
draw(uint64_t *state, int n)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int)((*state >> 33) % (uint64_t)n);
}

static void
draw_run(DiffRun *r, const char *target, uint64_t seed)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
	for (const char *p = target; *p; p++)
		state = (state ^ (uint64_t)*p) * UINT64_C(0x100000001b3);
	*r = usual();
	snprintf(r->target, sizeof r->target, "%s", target);
	draw(&state, 2);
	if (seed == 0)
		return;
	r->figure[SCHEDULE_WARPS] = draw(&state, 4) ? 1 << draw(&state, 4) : -1;
	r->figure[SCHEDULE_STAGES] = draw(&state, 2) ? 1 + draw(&state, 4) : -1;
	r->figure[SCHEDULE_GROUP] = draw(&state, 4) ? -1 : 1 + draw(&state, 4);
	r->figure[SCHEDULE_PERSISTENT] = draw(&state, 3) ? -1 : draw(&state, 2);
	r->layouts = draw(&state, 2) ? (uint64_t)draw(&state, 1000000) + 1 : 0;
	r->order = draw(&state, 2) ? (uint64_t)draw(&state, 1000000) + 1 : 0;
	r->figure[SCHEDULE_SPECIALIZE] = draw(&state, 4) ? -1 : draw(&state, 2);
	r->figure[SCHEDULE_COARSEN] = draw(&state, 4) ? -1 : 1 << draw(&state, 4);
	r->figure[SCHEDULE_SPLIT] = draw(&state, 3) ? -1 : 1 << draw(&state, 5);
	r->figure[SCHEDULE_STRIP] = draw(&state, 4) ? -1 : 16 << draw(&state, 6);
	r->figure[SCHEDULE_SLICES] = draw(&state, 4) ? -1 : 1 << draw(&state, 4);
	r->figure[SCHEDULE_UNROLL] = draw(&state, 3) ? -1 : 1 << draw(&state, 4);
	r->figure[SCHEDULE_CTAS] = draw(&state, 5) ? -1 : 1 << draw(&state, 3);
	r->figure[SCHEDULE_DYNAMIC] = draw(&state, 3) ? -1 : draw(&state, 2);
	r->figure[SCHEDULE_KEEP] = draw(&state, 3) ? -1 : 1 + draw(&state, 12);
	r->figure[SCHEDULE_BATCH] = draw(&state, 3) ? -1 : 1 << draw(&state, 4);
}

bool
diff_has_gpu(void)
{
	DeviceProbe gpu;
	return device_cuda.probe(0, &gpu) && gpu.info.available;
}

int
diff_runs(uint64_t seed, const char *targets, DiffRun run[DIFF_RUNS_MOST])
{
	const char *name[DIFF_RUNS_MOST];
	int n = 0, nrun = 0;
	for (int i = 0; target_at(i); i++)
		if (target_at(i)->kind == TARGET_PTX && n < DIFF_RUNS_MOST)
			name[n++] = target_at(i)->name;
	uint64_t state = seed ^ 0x7a57e5;
	draw(&state, 2);
	int one = draw(&state, n);
	for (int i = 0; i < n; i++) {
		bool wanted = targets ? strcmp(targets, "all") == 0 || is_named(targets, name[i])
				      : i == one;
		if (wanted)
			draw_run(&run[nrun++], name[i], seed);
	}
	if (diff_has_gpu() && (!targets || is_named(targets, "cuda")))
		draw_run(&run[nrun++], "cuda", seed);
	return nrun;
}

void
diff_run_text(const DiffRun *r, Text *out)
{
	text_put(out, r->target);
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (r->figure[i] >= 0)
			text_printf(out, " %s=%d", schedule_info[i].text, r->figure[i]);
	if (r->layouts)
		text_printf(out, " layouts=%llu", (unsigned long long)r->layouts);
	if (r->order)
		text_printf(out, " order=%llu", (unsigned long long)r->order);
}

static void
read_word(DiffRun *r, const char *word)
{
	const char *eq = strchr(word, '=');
	if (!eq) {
		snprintf(r->target, sizeof r->target, "%.15s", word);
		return;
	}
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (strncmp(word, schedule_info[i].text, (size_t)(eq - word)) == 0)
			r->figure[i] = atoi(eq + 1);
	if (strncmp(word, "layouts=", 8) == 0)
		r->layouts = strtoull(eq + 1, NULL, 10);
	if (strncmp(word, "order=", 6) == 0)
		r->order = strtoull(eq + 1, NULL, 10);
}

int
diff_runs_named(const char *text, DiffRun run[DIFF_RUNS_MOST])
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, "// run: ")) && n < DIFF_RUNS_MOST; n++) {
		DiffRun *r = &run[n];
		*r = usual();
		for (p += 8; *p && *p != '\n';) {
			char word[64];
			int length = (int)strcspn(p, " \n");
			snprintf(word, sizeof word, "%.*s", length, p);
			read_word(r, word);
			p += length + (p[length] == ' ');
		}
	}
	return n;
}

/* ---- one device ---- */

/* "sm_80" stands for the simt device of that target. */
static TglDevice *
open_device(TglContext *cx, const char *target, uint64_t order, bool quick)
{
	char name[32];
	TglDeviceOptions one = {.threads = 1, .quick = quick, .schedule = order};
	if (strcmp(target, "cpu") == 0)
		return tgl_device_open(cx, "cpu", &one);
	if (strncmp(target, "cuda", 4) == 0)
		return tgl_device_open(cx, target, NULL);
	snprintf(name, sizeof name, "simt:%s", target);
	return tgl_device_open(cx, name, &one);
}

/* ---- what kernels print ---- */

typedef struct Lines {
	VEC(char *) at;
	Arena *mem;
} Lines;

static void
on_print(void *user, const char *line)
{
	Lines *l = user;
	vec_push(l->mem, &l->at, arena_printf(l->mem, "%s", line));
}

static int
compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Programs print in any order: the lines of all in alphabetical order. */
static void
sort_lines(Lines *l, Text *out)
{
	if (l->at.n)
		qsort(l->at.at, (size_t)l->at.n, sizeof *l->at.at, compare_lines);
	for (int i = 0; i < l->at.n; i++)
		text_printf(out, "%s\n", l->at.at[i]);
}

/* False: tgl_error says why. */
static bool
run_case(Opened *x, const char *text, const DiffRun *r, bool quick, Text *printed)
{
	Lines lines = {.mem = arena_open()};
	TglArg args[SCHEDULE_COUNT];
	TglCacheOptions no_cache = {.off = true};
	TglCaseOptions opt = {.args = args, .seed = 1};
	x->cx = tgl_context_open();
	if (!x->cx)
		die("no memory");
	tgl_context_cache(x->cx, &no_cache);
	tgl_context_print(x->cx, on_print, &lines);
	tgl_context_compile(x->cx, &(TglCompileOptions){.verify = true});
	draw_layouts(r->layouts);
	x->dev = open_device(x->cx, r->target, r->order, quick);
	x->program = x->dev ? tgl_program_text(x->cx, "generated.tgl", text, strlen(text)) : NULL;
	x->k = x->program ? tgl_program_kernel(x->program, 0) : NULL;
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (r->figure[i] >= 0)
			args[opt.nargs++] = tgl_arg_int(schedule_info[i].text, r->figure[i]);
	x->c = x->k ? tgl_case_open(x->dev, x->k, &opt) : NULL;
	bool ran = x->c && tgl_case_run(x->c, NULL) == TGL_OK;
	tgl_context_print(x->cx, NULL, NULL);
	sort_lines(&lines, printed);
	arena_close(lines.mem);
	return ran;
}

static double
bound_of(const char *text, const char *name)
{
	char want[64];
	int n = snprintf(want, sizeof want, "// bound %s ", name);
	const char *p = strstr(text, want);
	return p ? strtod(p + n, NULL) : 0;
}

static bool
is_output(TglKernel *k, int i, TglParam *p)
{
	return tgl_kernel_param(k, i, p) && p->kind != TGL_PARAM_SCALAR && p->access != TGL_IN &&
	       p->access != TGL_SCRATCH;
}

DiffKind
diff_open(Diff *d, const char *text)
{
	Opened x = {0};
	TglParam p;
	*d = (Diff){.text = text};
	DiffRun cpu = usual();
	memcpy(cpu.target, "cpu", sizeof "cpu");
	bool good = run_case(&x, text, &cpu, true, &d->printed);
	if (!good)
		fputs(tgl_error(x.cx)->text, stderr);
	for (int i = 0; good && tgl_kernel_param(x.k, i, &p); i++) {
		if (!is_output(x.k, i, &p) || d->noutput == DIFF_OUTPUTS)
			continue;
		TglTensor *t = tgl_case_tensor(x.c, p.name);
		DiffOutput *out = &d->output[d->noutput++];
		snprintf(out->name, sizeof out->name, "%s", p.name);
		out->size = tgl_tensor_bytes(t);
		out->bytes = malloc(out->size + 1);
		out->bound = bound_of(text, p.name);
		if (!out->bytes)
			die("no memory");
		good = tgl_tensor_read(t, out->bytes, out->size) == TGL_OK;
	}
	close_all(&x);
	return good ? DIFF_SAME : DIFF_BAD_SOURCE;
}

void
diff_close(Diff *d)
{
	for (int i = 0; i < d->noutput; i++)
		free(d->output[i].bytes);
	d->noutput = 0;
	text_close(&d->printed);
}

/* ---- comparing ---- */

static bool
is_near(double x, double y, double bound)
{
	if (isnan(x) || isnan(y))
		return isnan(x) && isnan(y);
	return x == y || fabs(x - y) <= bound;
}

/* Two a byte.  Floats have two zeros, 0 and 8. */
static bool
same_packed(const uint8_t *a, const uint8_t *b, size_t n, bool is_float)
{
	for (size_t i = 0; i < 2 * n; i++) {
		int x = a[i / 2] >> i % 2 * 4 & 15, y = b[i / 2] >> i % 2 * 4 & 15;
		if (x != y && !(is_float && (x & 7) == 0 && (y & 7) == 0))
			return false;
	}
	return true;
}

static bool
same_elements(const DiffOutput *want, const void *got, TglTensor *t)
{
	DType type = (DType)tgl_tensor_dtype(t);
	int64_t n = tgl_tensor_count(t);
	if (dtype_is_packed(type)) {
		if (same_packed(want->bytes, got, want->size, type == TY_F4E2M1))
			return true;
		fprintf(stderr, "%s: packed elements differ\n", want->name);
		return false;
	}
	for (int64_t i = 0; i < n; i++) {
		if (dtype_is_float(type)) {
			double a = dtype_load_f64(type, want->bytes, i),
			       b = dtype_load_f64(type, got, i);
			if (is_near(a, b, want->bound))
				continue;
			fprintf(stderr, "%s, element %lld: %.17g expected, not %.17g\n", want->name,
			    (long long)i, a, b);
			return false;
		}
		int64_t a = dtype_load_i64(type, want->bytes, i), b = dtype_load_i64(type, got, i);
		if (a == b)
			continue;
		fprintf(stderr, "%s, element %lld: %lld expected, not %lld\n", want->name,
		    (long long)i, (long long)a, (long long)b);
		return false;
	}
	return true;
}

static DiffKind
compare(const Diff *d, Opened *x)
{
	TglParam p;
	for (int i = 0; i < d->noutput; i++) {
		TglTensor *t = tgl_case_tensor(x->c, d->output[i].name);
		void *got = malloc(d->output[i].size + 1);
		if (!got)
			die("no memory");
		bool read = tgl_tensor_bytes(t) == d->output[i].size &&
			    tgl_tensor_read(t, got, d->output[i].size) == TGL_OK;
		bool same = read && same_elements(&d->output[i], got, t);
		free(got);
		if (!same)
			return DIFF_OTHER;
	}
	for (int i = 0; tgl_kernel_param(x->k, i, &p); i++) {
		TglTensor *t = p.kind == TGL_PARAM_SCALAR ? NULL : tgl_case_tensor(x->c, p.name);
		if (t && !tensor_guard_whole(t)) {
			fprintf(stderr, "%s: something is written next to it\n", p.name);
			return DIFF_GUARD;
		}
	}
	return DIFF_SAME;
}

/* The first line of a message, without its numbers. */
static void
keep_refusal(Diff *d, const TglError *e)
{
	int n = snprintf(d->refusal, sizeof d->refusal, "%s ", e->code), most = (int)sizeof d->refusal - 1;
	for (const char *p = e->message; *p && *p != '\n' && n < most; p++) {
		bool digit = *p >= '0' && *p <= '9';
		if (!digit || d->refusal[n - 1] != '#')
			d->refusal[n++] = digit ? '#' : *p;
	}
	d->refusal[n] = '\0';
}

/* Of the emulator, where a tile is one warp's. */
static bool
is_stack_lack(const TglError *e)
{
	return strstr(e->message, " needs more stack") != NULL;
}

/* Layouts that are drawn may give a warpgroup's product operands that no instruction takes. */
static bool
is_drawn_apart(const DiffRun *r, const TglError *e)
{
	return r->layouts && strcmp(e->code, diag_code(DIAG_LOWER_CANNOT)) == 0;
}

static DiffKind
kind_of_error(Diff *d, const DiffRun *r, const TglError *e)
{
	static const DiagCode refusals[] = {DIAG_TILE_REGISTERS, DIAG_SMEM_LARGE, DIAG_SCALED_RANK};
	for (int i = 0; i < LEN(refusals); i++)
		if (strcmp(e->code, diag_code(refusals[i])) == 0)
			return keep_refusal(d, e), DIFF_REFUSED;
	if (is_stack_lack(e) || is_drawn_apart(r, e))
		return keep_refusal(d, e), DIFF_REFUSED;
	fputs(e->text, stderr);
	switch (e->status) {
	case TGL_ERROR_FAULT: return DIFF_FAULT;
	case TGL_ERROR_DEVICE: return DIFF_REPORT;
	default: return DIFF_COMPILER;
	}
}

/* Lines of a GPU go to standard output, past this program. */
static bool
same_printed(const Diff *d, const DiffRun *r, const Text *got)
{
	const char *a = d->printed.at ? d->printed.at : "", *b = got->at ? got->at : "";
	if (strncmp(r->target, "cuda", 4) == 0 || strcmp(a, b) == 0)
		return true;
	fprintf(stderr, "printed:\n%sexpected:\n%s", b, a);
	return false;
}

/* What a GPU would be given of the same: PTX is made, and takes no more than some seconds unless the layouts are
 * drawn, which may be any. */
static DiffKind
make_ptx(Diff *d, Opened *x, const DiffRun *r)
{
	enum { MOST_SECONDS = 4 };
	const Target *t = target_named(r->target);
	PassOptions opt = {.verify = true};
	Text ptx = {0};
	clock_t start = clock();
	draw_layouts(r->layouts);
	ArgAssumptions assumptions;
	specialise(x->k, &x->c->b, x->k->program->compile->tmp, &assumptions);
	Module *m = compile_kernel(x->k->k, &x->c->b.bound, r->target, &assumptions, &opt);
	bool made = m && compile_text(m, t, STAGE_PTX, &ptx, NULL);
	d->ptx_seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
	d->ptx_bytes = ptx.n;
	for (int i = 0; i < DIFF_WORDS; i++)
		d->has_word[i] = made && strstr(ptx.at, diff_word[i]);
	text_close(&ptx);
	if (!made) {
		Text why = {0};
		diag_print(x->k->program->compile, &why, 3, false);
		fprintf(stderr, "no PTX: %s", why.at ? why.at : "\n");
		text_close(&why);
		return DIFF_COMPILER;
	}
	return d->ptx_seconds > MOST_SECONDS && !r->layouts ? DIFF_HANG : DIFF_SAME;
}

DiffKind
diff_check(Diff *d, const DiffRun *r)
{
	Opened x = {0};
	Text printed = {0};
	bool ran = run_case(&x, d->text, r, true, &printed);
	if (!ran && is_stack_lack(tgl_error(x.cx))) { /* code that was made quickly takes much */
		close_all(&x);
		text_close(&printed);
		ran = run_case(&x, d->text, r, false, &printed);
	}
	DiffKind kind = ran ? compare(d, &x) : kind_of_error(d, r, tgl_error(x.cx));
	if (kind == DIFF_SAME && !same_printed(d, r, &printed))
		kind = DIFF_OTHER;
	if (kind == DIFF_SAME && d->wants_ptx && target_named(r->target))
		kind = make_ptx(d, &x, r);
	if (kind != DIFF_SAME && kind != DIFF_REFUSED) {
		Text t = {0};
		diff_run_text(r, &t);
		fprintf(stderr, "on %s\n", t.at);
		text_close(&t);
	}
	text_close(&printed);
	close_all(&x);
	return kind;
}
