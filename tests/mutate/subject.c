/* An example run as it is, and with one mutation of its thread IR, on the simt device.
 *
 * A mutant runs in a process of its own, in one way after the other until something detects it: a report of the device's
 * checks, results other than those of the whole code, a crash, a hang.  What whole code does in other ways is found out once
 * a mutant was not detected in the first one.  Of a bounds check only ways are tried in which it was false for some thread,
 * as it can not matter elsewhere, a few of them evenly spread. */
#include "tests/mutate/subject.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lower/lower.h"
#include "model/digits/digits.h"

enum { HANG_SECONDS = 120, ITERATIONS_MOST = 20000000, WAYS_OF_MASK = 12, SIZES_OF_MASK = 32 };

static Mutant *mutant;                                  /* of the one device that is open */

/* As the device's own `load`, of thread IR that is changed. */
static Loaded *
load_mutated(Device *d, Func *f, const char **why)
{
	Arena *mem = arena_open();
	ThreadModule *m = lower_func(f, target_named(d->target), mem);
	Loaded *l = NULL;
	*why = NULL;
	if (m) {
		mutant_apply(m, mutant, f->schedule.materialize == MATERIALIZE_FIRST);
		d->thread = m;
		l = device_simt.load(d, f, why);
	}
	arena_close(mem);
	return l;
}

static char *reports;                                   /* of its launches: Shared.why */

static void
add_report(const Compile *cx, const Diag *d, const char *kind)
{
	size_t n = strlen(reports), size = sizeof ((Shared *)0)->why;
	if (d->place.file >= 0)
		snprintf(reports + n, size - n, "%s:%d: %s: %s [%s]\n", cx->files.at[d->place.file].path, d->place.line, kind,
		    d->text, diag_code(d->code));
}

/* What the checks found, also where a user is shown one of several at a place. */
static bool
report_all(Device *d, Compile *cx)
{
	bool any = device_simt.report_findings(d, cx);
	for (const Diag *x = cx->first; x; x = x->next) {
		add_report(cx, x, "error");
		for (const Diag *note = x->notes; note; note = note->next)
			add_report(cx, note, "note");
	}
	return any;
}

bool
subject_device(const Subject *s, Mutant *o, int order, bool unchecked, Opened *x)
{
	char name[32];
	TglCacheOptions no_cache = {.off = true};
	TglDeviceOptions opt = {.threads = 1, .quick = true, .schedule = (uint64_t)order, .iterations = ITERATIONS_MOST,
	    .unchecked = unchecked, .costs = true};
	*x = (Opened){.cx = tgl_context_open()};
	tgl_context_cache(x->cx, &no_cache);
	tgl_context_compile(x->cx, &(TglCompileOptions){.ir = s->ir});
	snprintf(name, sizeof name, "%s%s", strcmp(s->target, "cpu") == 0 ? "" : "simt:", s->target);
	x->dev = tgl_device_open(x->cx, name, &opt);
	if (x->dev && o) {
		x->dev->dev.load = load_mutated;
		x->dev->dev.report_findings = report_all;
	}
	mutant = o;
	reports = s->shared->why;
	x->program = x->dev ? tgl_program_file(x->cx, s->path) : NULL;
	x->k = x->program ? tgl_program_kernel(x->program, s->kernel) : NULL;
	return x->k != NULL;
}

/* Every third row of an input is NaN. */
static bool
poison(Opened *x, int which)
{
	TglParam p;
	if (!tgl_kernel_param(x->k, (which - 1) / 2, &p))
		return false;
	TglTensor *t = tgl_case_tensor(x->c, p.name);
	int rank = tgl_tensor_rank(t), d = rank < 2 || which % 2 ? 0 : rank - 2;
	size_t size = tgl_tensor_bytes(t), bytes = tgl_tensor_dtype(t) == TGL_F32 ? 4 : 2;
	int64_t row = 1;
	for (int i = d + 1; i < rank; i++)
		row *= tgl_tensor_dim(t, i);
	if (dtype_is_int((DType)tgl_tensor_dtype(t)))
		return tgl_tensor_fill(t, 0) == TGL_OK;
	char *at = malloc(size + 1);
	bool ok = at && tgl_tensor_read(t, at, size) == TGL_OK;
	for (int64_t i = 0; ok && i < (int64_t)(size / bytes); i++)
		if (i / row % tgl_tensor_dim(t, d) % 3 == 1)
			memset(at + (size_t)i * bytes, 0x7f, bytes);    /* of f16 and bf16 too that is a NaN */
	for (int64_t i = 0; ok && bytes == 4 && i < (int64_t)(size / bytes); i++)
		if (i / row % tgl_tensor_dim(t, d) % 3 == 1)
			memcpy(at + i * 4, &(float){NAN}, 4);
	ok = ok && tgl_tensor_write(t, at, size) == TGL_OK;
	free(at);
	return ok;
}

bool
subject_case(const Subject *s, const Way *w, Opened *x)
{
	TglArg arg[SIZES_MOST];
	TglCaseOptions one = {.seed = 1, .by_index = true, .index = s->example, .args = arg, .nargs = w->nsize};
	for (int i = 0; i < w->nsize; i++)
		arg[i] = tgl_arg_int(w->size[i].name, w->size[i].value);
	tgl_case_close(&x->c);
	x->c = tgl_case_open(x->dev, x->k, &one);
	return x->c && (!w->poison || poison(x, w->poison));
}

static bool
take(TglTensor *t, Outputs *out)
{
	size_t size = tgl_tensor_bytes(t);
	void *bytes = malloc(size + 1);
	if (!bytes || out->n == OUTPUTS_MOST || tgl_tensor_read(t, bytes, size) != TGL_OK || !tensor_guard_whole(t)) {
		free(bytes);
		return false;
	}
	out->bytes[out->n] = bytes;
	out->size[out->n++] = size;
	return true;
}

static bool
take_outputs(Opened *x, Outputs *out)
{
	TglParam p;
	for (int i = 0; tgl_kernel_param(x->k, i, &p) && out->n < OUTPUTS_MOST; i++) {
		if (p.kind == TGL_PARAM_SCALAR || p.access == TGL_IN || p.access == TGL_SCRATCH)
			continue;
		if (!take(tgl_case_tensor(x->c, p.name), out))
			return false;
	}
	return true;
}

static void
drop_outputs(Outputs *o)
{
	for (int i = 0; i < o->n; i++)
		free(o->bytes[i]);
	o->n = 0;
}

static bool
same_outputs(const Outputs *a, const Outputs *b)
{
	for (int i = 0; i < a->n; i++)
		if (i >= b->n || a->size[i] != b->size[i] || memcmp(a->bytes[i], b->bytes[i], a->size[i]) != 0)
			return false;
	return a->n == b->n;
}

/* The numbers of the arguments that are pointers: the first that is read and the first that is written to. */
static bool
find_pointers(Opened *x, const TglArg *arg, int n, int *from, int *to)
{
	TglParam p;
	*from = *to = -1;
	for (int i = 0; i < n; i++) {
		int at = arg[i].name ? tgl_kernel_param_named(x->k, arg[i].name) : -1;
		if (at < 0 || !tgl_kernel_param(x->k, at, &p) || p.kind != TGL_PARAM_POINTER)
			continue;
		int *which = p.access == TGL_IN ? from : to;
		*which = *which < 0 ? i : *which;
	}
	return *from >= 0 && *to >= 0;
}

/* As many elements of t and 16 bytes more. */
static TglTensor *
longer(Opened *x, TglTensor *t, int64_t *more)
{
	size_t size = tgl_tensor_bytes(t);
	*more = 16 / (int64_t)dtype_tile_size((DType)tgl_tensor_dtype(t));
	int64_t n = tgl_tensor_count(t) + *more;
	TglTensor *longer = tgl_tensor(x->dev, tgl_tensor_dtype(t), 1, &n);
	char *bytes = calloc(size + 16, 1);
	bool ok = longer && bytes && tgl_tensor_read(t, bytes, size) == TGL_OK &&
	    tgl_tensor_write(longer, bytes, size + 16) == TGL_OK;
	free(bytes);
	if (!ok)
		tgl_tensor_close(&longer);
	return longer;
}

/* What is written goes 16 bytes behind where the first pointer that is read points. */
static Catch
run_overlapping(Opened *x, Outputs *out)
{
	TglArg arg[32];
	int n, from, to;
	int64_t first, extent;
	const TglArg *given = tgl_case_args(x->c, &n);
	TglTensor *both = NULL, *view = NULL;
	Catch caught = CATCH_REPORT;
	if (n > LEN(arg))
		return CATCH_REPORT;
	memcpy(arg, given, sizeof *arg * (size_t)n);
	if (find_pointers(x, arg, n, &from, &to) && (both = longer(x, arg[from].tensor, &first))) {
		extent = tgl_tensor_count(both) - first;
		arg[from].tensor = both;
		view = arg[to].tensor = tgl_tensor_view(both, &first, &extent);
		if (view && tgl_launch(x->dev, x->k, arg, n, NULL) == TGL_OK && tgl_device_sync(x->dev) == TGL_OK)
			caught = take(both, out) ? CATCH_NONE : CATCH_WRONG;
	}
	tgl_tensor_close(&view);
	tgl_tensor_close(&both);
	return caught;
}

static bool
is_one_program(Opened *x)
{
	int64_t grid[TGL_MAX_AXES] = {0}, n = 1;
	if (!tgl_case_grid(x->c, grid))
		return false;
	for (int i = 0; i < TGL_MAX_AXES; i++)
		n *= grid[i] > 0 ? grid[i] : 1;
	return n == 1;
}

static Catch
run_way(const Subject *s, const Way *w, Opened *x, Outputs *out)
{
	Catch caught = CATCH_REPORT;
	*s->shared->why = '\0';
	if (subject_case(s, w, x)) {
		if (w->overlaps)
			caught = is_one_program(x) ? run_overlapping(x, out) : CATCH_REPORT;
		else if (tgl_case_run(x->c, NULL) == TGL_OK) {
			out->is_costly = strstr(tgl_error(x->cx)->text, "[W1401]");
			caught = take_outputs(x, out) ? CATCH_NONE : CATCH_WRONG;
		}
	}
	size_t n = strlen(s->shared->why);
	if (caught == CATCH_REPORT)
		snprintf(s->shared->why + n, sizeof s->shared->why - n, "%s", tgl_error(x->cx)->text);
	return caught;
}

/* ---- as it is ---- */

/* The way's right results; those ways are left out that do not run or are not of this code.  Nothing is compiled where the
 * same device has compiled it before. */
static void
know_way(Subject *s, Way *w, Opened *x)
{
	const Mutant *o = &s->shared->mutant;
	drop_outputs(&w->good);
	w->is_good = run_way(s, w, x, &w->good) == CATCH_NONE && o->code == s->whole.code && o->count == s->whole.count;
}

/* Which bounds checks are false in it: code without checks, as it writes to this process. */
static void
watch_masks(Subject *s, Way *w, Opened *x)
{
	Outputs out = {0};
	memset(s->shared->was_false, 0, sizeof s->shared->was_false);
	run_way(s, w, x, &out);
	drop_outputs(&out);
	memcpy(w->was_false, s->shared->was_false, sizeof w->was_false);
}

/* Of bounds checks there are many: fewer sizes are tried, and no other orders.  Of each `step` ways one is tried, every time
 * a different one: the ways take turns between the dimensions, and a fixed stride could skip all those of one. */
static bool
is_for_masks(const Subject *s, int i)
{
	const Way *w = &s->way[i];
	int nsize = 0;
	for (int k = 0; k < s->nway; k++)
		nsize += !s->way[k].poison && !s->way[k].overlaps && !s->way[k].is_large && !s->way[k].order;
	int step = nsize / SIZES_OF_MASK + 1;
	return i < 2 || w->poison || w->overlaps || (!w->is_large && (i + i / step) % step == 0);
}

/* Of the first `to` ways, or of those for bounds checks. */
static void
know_ways(Subject *s, int to, bool masks)
{
	Opened x = {0};
	int order = -1;
	for (int i = 0; i < to; i++) {
		Way *w = &s->way[i];
		if (w->is_known || (masks && !is_for_masks(s, i)))
			continue;
		w->is_known = true;
		if (!x.k || w->order != order) {
			close_all(&x);
			s->shared->mutant = s->whole;
			if (!subject_device(s, &s->shared->mutant, w->order, false, &x))
				break;
		}
		order = w->order;
		know_way(s, w, &x);
		if (!w->is_good) {
			close_all(&x);                  /* other code may be kept there */
			x = (Opened){0};
		}
	}
	close_all(&x);
}

static void
know_masks(Subject *s)
{
	Opened x;
	know_ways(s, s->nway, true);
	s->shared->mutant = s->whole;
	s->shared->mutant.was_false = s->shared->was_false;
	if (subject_device(s, &s->shared->mutant, 0, true, &x)) {
		for (int i = 0; i < s->nway; i++)
			if (s->way[i].is_good && !s->way[i].order && !s->way[i].overlaps && !s->way[i].poison)
				watch_masks(s, &s->way[i], &x);
		for (int i = 0; i < s->nway; i++)
			if (s->way[i].poison)
				memcpy(s->way[i].was_false, s->way[s->way[i].nsize ? 1 : 0].was_false, MUTANTS_MOST);
	}
	close_all(&x);
	s->knows_masks = true;
}

bool
subject_prepare(Subject *s)
{
	Opened x;
	Way *w = &s->way[0];
	s->shared->mutant = (Mutant){.n = -1, .note = s->shared->note};
	w->is_known = true;
	w->is_good = subject_device(s, &s->shared->mutant, 0, false, &x) && run_way(s, w, &x, &w->good) == CATCH_NONE;
	close_all(&x);
	s->whole = s->shared->mutant;
	s->whole.note = NULL;
	s->nknown = 1;
	return w->is_good;
}

/* ---- mutants ---- */

static void
watch(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

static bool
may_show(const Subject *s, int i, int n)
{
	const Way *w = &s->way[i];
	return w->is_good && (s->shared->note[n].kind != MUTANT_MASK || (is_for_masks(s, i) && (w->was_false[n] || w->overlaps)));
}

/* The warning, of a swizzle: banks in conflict.  Only the first launch of code counts what accesses cost. */
static Catch
try_way(const Subject *s, int n, const Way *w, Opened *x)
{
	Outputs out = {0};
	Catch caught = run_way(s, w, x, &out);
	bool may_warn = s->shared->note[n].kind == MUTANT_SWIZZLE && w == s->way && !w->good.is_costly;
	if (caught == CATCH_NONE && !same_outputs(&out, &w->good))
		caught = CATCH_WRONG;
	else if (caught == CATCH_NONE && may_warn && out.is_costly)
		caught = CATCH_REPORT;
	drop_outputs(&out);
	return caught;
}

/* In a child: ways from `from` on, before `to`, until one shows it. */
static Catch
try_ways(const Subject *s, int n, int from, int to)
{
	Opened x = {0};
	int order = -1, shows[2] = {0}, seen[2] = {0};
	for (int i = from; i < to; i++)
		shows[s->way[i].poison > 0] += may_show(s, i, n);
	for (int i = from; i < to; i++) {
		const Way *w = &s->way[i];
		int step = s->shared->note[n].kind == MUTANT_MASK ? (shows[w->poison > 0] + WAYS_OF_MASK - 1) / WAYS_OF_MASK : 1;
		if (!may_show(s, i, n) || seen[w->poison > 0]++ % step)
			continue;
		if (w->order != order) {
			close_all(&x);
			order = w->order;
			if (!subject_device(s, &s->shared->mutant, order, false, &x))
				return CATCH_CRASH;
		}
		Catch caught = try_way(s, n, w, &x);
		if (caught != CATCH_NONE)
			return caught;
	}
	return CATCH_NONE;
}

/* In ways from `from` on, before `to`, or in the first alone in an order of the warps. */
static Catch
try_apart(Subject *s, int n, int from, int to, int order)
{
	int status = 0;
	s->shared->mutant = s->whole;
	s->shared->mutant.n = n;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		Opened x;
		watch(HANG_SECONDS);
		if (order < 0)
			_exit((int)try_ways(s, n, from, to));
		_exit(subject_device(s, &s->shared->mutant, order, false, &x) ? (int)try_way(s, n, &s->way[0], &x) : CATCH_CRASH);
	}
	bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
	return ended ? (Catch)WEXITSTATUS(status) : CATCH_CRASH;
}

static Catch
mutate_mask(Subject *s, int n, bool *never)
{
	if (!s->knows_masks)
		know_masks(s);
	*never = true;
	for (int i = 0; i < s->nway && *never; i++)
		*never = !s->way[i].is_good || !s->way[i].was_false[n];
	return *never ? CATCH_NONE : try_apart(s, n, 0, s->nway, -1);
}

/* In the ways that are known; then some more become so. */
Catch
subject_mutate(Subject *s, int n, bool *never)
{
	enum { MORE = 8 };
	Catch c = CATCH_NONE;
	*never = false;
	if (s->shared->note[n].kind == MUTANT_MASK)
		return mutate_mask(s, n, never);
	for (int from = 0; from < s->nway && c == CATCH_NONE; ) {
		int to = s->nknown = from < s->nknown ? s->nknown : MIN(from + MORE, s->nway);
		know_ways(s, to, false);
		c = try_apart(s, n, from, to, -1);
		from = to;
	}
	return c;
}

bool
subject_agrees(const Subject *s, int norders)
{
	Subject cpu = *s;
	Outputs want = {0}, got = {0};
	Opened x;
	cpu.target = "cpu";
	cpu.ir = NULL;
	bool ok = subject_device(&cpu, NULL, 0, false, &x) && run_way(&cpu, &s->way[0], &x, &want) == CATCH_NONE;
	close_all(&x);
	for (int order = 0; order < norders && ok; order++) {
		ok = subject_device(s, NULL, order, false, &x) && run_way(s, &s->way[0], &x, &got) == CATCH_NONE &&
		    same_outputs(&got, &want);
		drop_outputs(&got);
		close_all(&x);
	}
	drop_outputs(&want);
	return ok;
}

Catch
subject_mutate_in(Subject *s, int n, int order)
{
	return try_apart(s, n, 0, 1, order);
}
