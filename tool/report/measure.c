/* With --measure: the kernel and the changes that were tried, timed on the GPU that is here.
 *
 * All have the tensors of the page's example, several times over, so that together they are twice the L2 cache.  They
 * take turns, each in bursts of about a millisecond; a time is the median of nine.  Functions and divisions that are
 * fast:: in a change are so in a program of its own, of the same text.  Nothing is checked: a change computes the same,
 * or what its name says it does. */
#include "tool/report/report.h"

#include "runtime/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SETS_MOST = 12, ROUNDS = 9, LAUNCHES_LEAST = 3, LAUNCHES_MOST = 200 };
static const double BURST_SECONDS = 1e-3;

typedef struct Form {
	json_t *of;                                     /* that gets its time */
	TglKernel *k;
	TglArg *args[SETS_MOST];
	int nargs, launches;
	double seconds[ROUNDS];
} Form;

typedef struct Measure {
	Session s;
	TglProgram *program, *fast;
	TglKernel *k, *fast_k;
	TglCase *set[SETS_MOST];
	int nset;
	TensorList opened;
	VEC(Form) forms;
} Measure;

static bool
open_program(Measure *m, const char *name, TglProgram **p, TglKernel **k)
{
	*p = session_program(&m->s, m->s.cli->args.at[0]);
	*k = *p ? session_kernel(&m->s, *p, m->s.cli->args.at[0], name) : NULL;
	return *k != NULL;
}

/* The device, whose code has to be what the page is of, and the kernel, twice. */
static bool
open_all(Measure *m, const Cli *cli, const char *name, const Target *t, const PlaceList *slow)
{
	const TglCacheOptions off = {.off = true};      /* in which fast:: functions have no name of their own */
	TglDeviceInfo info;
	if (!session_open(&m->s, cli) || tgl_context_cache(m->s.cx, &off) != TGL_OK ||
	    !session_device(&m->s, cli_has(cli, OPT_DEVICE) ? cli->value[OPT_DEVICE] : "cuda"))
		return false;
	if (tgl_device_info(m->s.dev, &info) != TGL_OK)
		return session_error(&m->s), false;
	if (strncmp(info.name, "simt", 4) == 0)
		return cli_wrong("--measure takes times of a GPU, and %s has none: it runs a GPU's code on this machine",
			   info.name), false;
	if (strcmp(info.target, t->name) != 0)
		return cli_wrong("--measure runs code for '%s' on %s, and the page is of %s: --target=%s", info.target,
			   info.name, t->name, info.target), false;
	if (!open_program(m, name, &m->program, &m->k) || !open_program(m, name, &m->fast, &m->fast_k))
		return false;
	m->fast->program->fast = slow->at;
	m->fast->program->nfast = slow->n;
	return true;
}

static bool
open_sets(Measure *m)
{
	const Cli *cli = m->s.cli;
	TglDeviceInfo info;
	TglCaseOptions o = {.example = cli->value[OPT_EXAMPLE]};
	TglArg *args;
	double bytes = 0, flops;
	if (!session_args(&m->s, m->k, &args, &o.nargs, &m->opened) || tgl_device_info(m->s.dev, &info) != TGL_OK)
		return false;
	o.args = args;
	for (int n = 1; m->nset < n; m->nset++) {
		o.seed = (uint64_t)m->nset;
		m->set[m->nset] = tgl_case_open(m->s.dev, m->k, &o);
		if (!m->set[m->nset] || (m->nset == 0 && tgl_case_work(m->set[0], &bytes, &flops) != TGL_OK))
			return session_error(&m->s), false;
		double wanted = bytes > 0 ? ceil(2 * (double)info.cache / bytes) : 1,
		       room = bytes > 0 && info.memory ? floor((double)info.memory / 2 / bytes) : wanted;
		n = (int)MAX(MIN(MIN(wanted, room), SETS_MOST), 1);
	}
	return true;
}

/* "BM=64,warps=4": the case's arguments, but for those that the change has. */
static int
form_args(const Measure *m, TglCase *set, const char *define, TglArg **out)
{
	Arena *mem = m->s.cli->mem;
	int n = 0, own = 0, all;
	const TglArg *args = tgl_case_args(set, &all);
	TglArg *mine = NEW_ARRAY(mem, TglArg, strlen(define) + 1);
	for (const char *at = define; *at; at += strcspn(at, ","), at += *at == ',') {
		const char *is = strchr(at, '=');
		Pair pair = {arena_strndup(mem, at, (size_t)(is - at)), arena_strndup(mem, is + 1, strcspn(is + 1, ","))};
		own += cli_value(&pair, &mine[own]);
	}
	*out = NEW_ARRAY(mem, TglArg, all + own);
	for (int i = 0; i < all; i++)
		if (!ANY_OF(k, own, args[i].name && strcmp(args[i].name, mine[k].name) == 0))
			(*out)[n++] = args[i];
	for (int i = 0; i < own; i++)
		(*out)[n++] = mine[i];
	return n;
}

/* One that does not run is left out: the change has no time. */
static void
add_form(Measure *m, json_t *of, TglKernel *k, const char *define)
{
	Form f = {.of = of, .k = k};
	for (int i = 0; i < m->nset; i++)
		f.nargs = form_args(m, m->set[i], define, &f.args[i]);
	if (tgl_launch(m->s.dev, k, f.args[0], f.nargs, NULL) == TGL_OK && tgl_device_sync(m->s.dev) == TGL_OK)
		vec_push(m->s.cli->mem, &m->forms, f);
}

/* Seconds of a launch; below 0 after errors. */
static double
burst(Measure *m, Form *f, TglEvent *from, TglEvent *to)
{
	double seconds = 0;
	bool ok = tgl_event_record(from, NULL) == TGL_OK;
	for (int i = 0; i < f->launches && ok; i++)
		ok = tgl_launch(m->s.dev, f->k, f->args[i % m->nset], f->nargs, NULL) == TGL_OK;
	ok = ok && tgl_event_record(to, NULL) == TGL_OK && tgl_event_seconds(from, to, &seconds) == TGL_OK;
	return ok ? seconds / f->launches : -1;
}

static int
by_seconds(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static bool
time_forms(Measure *m)
{
	TglEvent *from = tgl_event_open(m->s.dev), *to = tgl_event_open(m->s.dev);
	bool ok = from && to;
	for (int i = 0; i < m->forms.n && ok; i++) {
		Form *f = &m->forms.at[i];
		f->launches = m->nset;
		double one = burst(m, f, from, to), times = one > 0 ? BURST_SECONDS / one : LAUNCHES_LEAST;
		int n = (int)MIN(MAX(times, LAUNCHES_LEAST), LAUNCHES_MOST);
		f->launches = (n + m->nset - 1) / m->nset * m->nset;
		ok = one >= 0;
	}
	for (int round = 0; round < ROUNDS && ok; round++)
		for (int i = 0; i < m->forms.n && ok; i++) {
			Form *f = &m->forms.at[(i + round) % m->forms.n];
			f->seconds[round] = burst(m, f, from, to);
			ok = f->seconds[round] >= 0;
		}
	for (int i = 0; i < m->forms.n && ok; i++) {
		Form *f = &m->forms.at[i];
		qsort(f->seconds, ROUNDS, sizeof *f->seconds, by_seconds);
		json_object_set_new(f->of, "measured_us", json_real(f->seconds[ROUNDS / 2] * 1e6));
	}
	if (!ok)
		session_error(&m->s);
	tgl_event_close(&from);
	tgl_event_close(&to);
	return ok;
}

bool
report_measure(const Cli *cli, const Inspection *x, json_t *kernel)
{
	Measure m = {.nset = 0};
	PlaceList slow = {0};
	json_t *v;
	size_t i;
	for (Op *op = x->f->body->first; op; op = op_after(op, x->f->body))
		if (report_is_slow(op))
			vec_push(cli->mem, &slow, op->place);
	const char *name = json_string_value(json_object_get(kernel, "kernel"));
	bool ok = open_all(&m, cli, name, x->t, &slow) && open_sets(&m);
	if (ok) {
		add_form(&m, kernel, m.k, "");
		if (!m.forms.n)
			session_error(&m.s);
		ok = m.forms.n > 0;
	}
	json_array_foreach(json_object_get(kernel, "variants"), i, v)
		if (ok)
			add_form(&m, v, json_is_true(json_object_get(v, "fast")) ? m.fast_k : m.k,
			    json_string_value(json_object_get(v, "define")));
	ok = ok && time_forms(&m);
	for (int k = 0; k < m.nset; k++)
		tgl_case_close(&m.set[k]);
	for (int k = 0; k < m.opened.n; k++)
		tgl_tensor_close(&m.opened.at[k]);
	tgl_program_close(&m.program);
	tgl_program_close(&m.fast);
	session_close(&m.s);
	return ok;
}
