/* An example run as it is, and with one thing left out, on the simt device.
 *
 * What is left out is left out in a process of its own, which runs the example in one way after the other until somebody
 * notices: a report of the device's checks, results other than those of the whole code, a crash, a hang.  What whole code
 * does in other ways is found out once something was not missed in the first one.  Of a bounds check only ways are tried in
 * which it was false for some thread, as it can not matter elsewhere, a few of them evenly spread. */
#include "tests/omit/subject.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG_SECONDS = 120, TURNS_MOST = 20000000, WAYS_OF_MASK = 12, SIZES_OF_MASK = 32 };

bool
subject_device(const Subject *s, Omit *omit, int order, bool unchecked, Opened *x)
{
	char name[32];
	TglCacheOptions no_cache = {.off = true};
	TglDeviceOptions opt = {.threads = 1, .quick = true, .schedule = (uint64_t)order, .turns = TURNS_MOST,
	    .unchecked = unchecked};
	*x = (Opened){.cx = tgl_context_open()};
	tgl_context_cache(x->cx, &no_cache);
	snprintf(name, sizeof name, "simt:%s", s->target);
	x->dev = tgl_device_open(x->cx, name, &opt);
	if (x->dev)
		x->dev->hooks.omit = omit;
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
	if (subject_case(s, w, x)) {
		if (w->overlaps)
			caught = is_one_program(x) ? run_overlapping(x, out) : CATCH_REPORT;
		else if (tgl_case_run(x->c, NULL) == TGL_OK)
			caught = take_outputs(x, out) ? CATCH_NONE : CATCH_WRONG;
	}
	if (caught == CATCH_REPORT)
		snprintf(s->shared->why, sizeof s->shared->why, "%s", tgl_error(x->cx)->message);
	return caught;
}

/* ---- as it is ---- */

/* The way's right results; those ways are left out that do not run or are not of this code.  Nothing is compiled where the
 * same device has compiled it before. */
static void
know_way(Subject *s, Way *w, Opened *x)
{
	const Omit *o = &s->shared->omit;
	drop_outputs(&w->good);
	w->is_good = run_way(s, w, x, &w->good) == CATCH_NONE && o->code == s->whole.code && o->count == s->whole.count &&
	    memcmp(o->swizzle, s->whole.swizzle, sizeof o->swizzle) == 0;
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
is_of_use(const Subject *s, int i)
{
	const Way *w = &s->way[i];
	int nsize = 0;
	for (int k = 0; k < s->nway; k++)
		nsize += !s->way[k].poison && !s->way[k].overlaps && !s->way[k].is_large && !s->way[k].order;
	int step = nsize / SIZES_OF_MASK + 1;
	bool is_chosen = !w->is_large && (i + i / step) % step == 0;
	return s->whole.kind != OMIT_MASK || i < 2 || is_chosen || w->poison || w->overlaps;
}

static void
know_ways(Subject *s)
{
	Opened x = {0};
	int order = -1;
	for (int i = 0; i < s->nway; i++) {
		Way *w = &s->way[i];
		if (w->is_known)
			continue;
		w->is_known = true;
		if (!is_of_use(s, i))
			continue;
		if (!x.k || w->order != order) {
			close_all(&x);
			s->shared->omit = s->whole;
			if (!subject_device(s, &s->shared->omit, w->order, false, &x))
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
	Omit watching = s->whole;
	watching.selector = NULL;
	watching.was_false = s->shared->was_false;
	watching.place_of = s->shared->place;
	watching.what_of = s->shared->what;
	watching.most = MASKS_MOST;
	if (subject_device(s, &watching, 0, true, &x)) {
		for (int i = 0; i < s->nway; i++)
			if (s->way[i].is_good && !s->way[i].order && !s->way[i].overlaps && !s->way[i].poison)
				watch_masks(s, &s->way[i], &x);
		for (int i = 0; i < s->nway; i++)
			if (s->way[i].poison)
				memcpy(s->way[i].was_false, s->way[s->way[i].nsize ? 1 : 0].was_false, MASKS_MOST);
		s->watches_masks = true;
	}
	close_all(&x);
}

int
subject_count(const Subject *s)
{
	int n = 0;
	if (s->whole.kind != OMIT_SWIZZLE)
		return s->whole.count;
	for (int i = 0; i < OMIT_SWIZZLES; i++)
		n += (int)(s->whole.swizzle[i / 64] >> i % 64 & 1);
	return n;
}

bool
subject_prepare(Subject *s, OmitKind kind)
{
	Opened x;
	Way *w = &s->way[0];
	s->shared->selector = -1;
	s->shared->omit = (Omit){.kind = kind, .n = -1, .selector = kind == OMIT_MASK ? &s->shared->selector : NULL};
	s->watches_masks = false;
	for (int i = 0; i < s->nway; i++)
		s->way[i].is_known = s->way[i].is_good = false;
	drop_outputs(&w->good);
	w->is_known = true;
	w->is_good = subject_device(s, &s->shared->omit, 0, false, &x) && run_way(s, w, &x, &w->good) == CATCH_NONE;
	if (kind == OMIT_MASK)
		s->masks = x;                           /* for all of them */
	else
		close_all(&x);
	s->whole = s->shared->omit;
	return w->is_good;
}

/* ---- with one thing left out ---- */

static void
watch(int seconds)
{
	struct itimerval t = {.it_value = {.tv_sec = seconds}};
	setitimer(ITIMER_PROF, &t, NULL);
}

static bool
may_show(const Subject *s, const Way *w, OmitKind kind, int n)
{
	return w->is_good && (kind != OMIT_MASK || !s->watches_masks || n >= MASKS_MOST || w->was_false[n] || w->overlaps ||
	                         w->order);
}

/* In a child: ways from `from` on until one shows it. */
static Catch
try_ways(const Subject *s, OmitKind kind, int n, int from)
{
	bool selects = kind == OMIT_MASK && n < MASKS_MOST;
	Opened x = selects ? s->masks : (Opened){0};
	int order = selects ? 0 : -1, shows[2] = {0}, seen[2] = {0};
	for (int i = from; i < s->nway; i++)
		shows[s->way[i].poison > 0] += may_show(s, &s->way[i], kind, n);
	for (int i = from; i < s->nway; i++) {
		const Way *w = &s->way[i];
		int step = kind == OMIT_MASK ? (shows[w->poison > 0] + WAYS_OF_MASK - 1) / WAYS_OF_MASK : 1;
		Outputs out = {0};
		if (!may_show(s, w, kind, n) || seen[w->poison > 0]++ % step)
			continue;
		if (w->order != order) {
			close_all(&x);
			order = w->order;
			if (!subject_device(s, &s->shared->omit, order, false, &x))
				return CATCH_CRASH;
		}
		Catch caught = run_way(s, w, &x, &out);
		if (caught == CATCH_NONE && !same_outputs(&out, &w->good))
			caught = CATCH_WRONG;
		drop_outputs(&out);
		if (caught != CATCH_NONE)
			return caught;
	}
	return CATCH_NONE;
}

static Catch
try_apart(Subject *s, int n, int from)
{
	int status = 0;
	bool selects = s->whole.kind == OMIT_MASK && n < MASKS_MOST;
	s->shared->omit = s->whole;
	s->shared->omit.n = selects ? -1 : n;
	s->shared->selector = selects ? n : -1;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		watch(HANG_SECONDS);
		_exit((int)try_ways(s, s->whole.kind, n, from));
	}
	bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
	s->shared->selector = -1;
	return ended ? (Catch)WEXITSTATUS(status) : CATCH_CRASH;
}

Catch
subject_leave_out(Subject *s, int n, bool *never)
{
	bool first = !s->way[s->nway - 1].is_known, shows = false;
	Catch c = CATCH_NONE;
	if (first && s->whole.kind != OMIT_MASK && (c = try_apart(s, n, 0)) != CATCH_NONE)
		return c;
	if (first) {
		know_ways(s);
		if (s->whole.kind == OMIT_MASK)
			know_masks(s);
	}
	for (int i = 0; i < s->nway; i++)
		shows = shows || (s->way[i].is_good && s->watches_masks && n < MASKS_MOST && s->way[i].was_false[n]);
	*never = s->watches_masks && n < MASKS_MOST && !shows;
	if (!*never)
		c = try_apart(s, n, first && s->whole.kind != OMIT_MASK ? 1 : 0);
	if (s->whole.kind == OMIT_MASK && n < MASKS_MOST) {
		s->shared->omit.place = s->shared->place[n];
		s->shared->omit.what = s->shared->what[n];
	}
	return c;
}
