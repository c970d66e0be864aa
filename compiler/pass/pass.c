/* The pass driver: which rows of passes.def run, in which order, and what is checked, dumped and timed
 * around them.  Every pass gets a scratch arena of its own that is gone when it returns. */
#include "pass/pass.h"

#include "pass/layout/axis.h"

#include "target/target.h"

#include <string.h>
#include <time.h>

const PassInfo pass_info[PASS_COUNT] = {
#define PASS(name, needs, adds, drops, when, meaning)                                              \
	[PASS_##name] = {#name, needs, adds, drops, when, pass_##name, meaning},
#include "pass/passes.def"
#undef PASS
};

static const struct { PassKind pass; unsigned when; } pipeline[] = {
#define PASS(name, needs, adds, drops, when, meaning) {PASS_##name, when},
#define AGAIN(name, when, why) {PASS_##name, when},
#include "pass/passes.def"
#undef PASS
};

static const char *
facts_text(Module *m, unsigned facts)
{
	Text all = {0};

	facts_print(facts, " ", &all);
	return text_take(&all, m->cx->tmp);
}

/* The next name of a comma list; false at its end. */
static bool
next_name(const char **list, const char **name, size_t *n)
{
	if (!*list || !**list)
		return false;
	*name = *list;
	*n = strcspn(*list, ",");
	*list += *n + ((*list)[*n] == ',');
	return true;
}

static int
pass_named(const char *name, size_t n)
{
	return FIRST_OF(p, PASS_COUNT, strlen(pass_info[p].name) == n && memcmp(pass_info[p].name, name, n) == 0);
}

static bool
listed(const char *list, const char *pass)
{
	const char *name;
	size_t n;

	while (next_name(&list, &name, &n))
		if (strlen(pass) == n && memcmp(pass, name, n) == 0)
			return true;
	return false;
}

static bool
check_names(Module *m, const char *list)
{
	const char *text[PASS_COUNT], *name;
	bool good = true;
	size_t n;

	for (int p = 0; p < PASS_COUNT; p++)
		text[p] = pass_info[p].name;
	while (next_name(&list, &name, &n)) {
		if (pass_named(name, n) >= 0)
			continue;
		name = arena_strndup(m->cx->tmp, name, n);
		const char *best = nearest_name(name, text, PASS_COUNT);
		diag_error(m->cx, NOWHERE, DIAG_PASS_UNKNOWN, name);
		if (best)
			diag_help(m->cx, "did you mean '%s'?", best);
		good = false;
	}
	return good;
}

/* The facts that ir/verify.c knows nothing of. */
static const struct { unsigned fact; const char *(*check)(Func *f, const Target *t, const Op **at); } checks[] = {
	{PADDED, check_padded}, {AXES, check_axes}, {PROGRAMS, check_programs}, {STAGED, check_staged},
	{PARTED, check_parted}, {SMEM, check_smem}, {SYNCED, check_synced},
};

static const char *
check_facts(Module *m, const Target *t)
{
	for (int c = 0; c < LEN(checks) && t; c++)
		for (int i = 0; i < m->funcs.n; i++) {
			Func *f = m->funcs.at[i];
			const Op *at = NULL;
			bool claims = (m->facts & checks[c].fact) && !f->is_reference;
			const char *why = claims ? checks[c].check(f, t, &at) : NULL;
			if (why)
				return verify_message(m, why, at);
		}
	return NULL;
}

static bool
check_module(Module *m, const Target *t, const char *when, const char *pass)
{
	const char *why = module_verify(m);

	if (!why)
		why = check_facts(m, t);
	if (why)
		diag_error(m->cx, NOWHERE, DIAG_PASS_BROKEN, when, pass, why);
	return !why;
}

/* What the passes leave out is no error here: a barrier or wait is taken out of a dump to see what becomes of it. */
bool
pass_is_lowerable(Module *m, const Target *t)
{
	unsigned missing = (LAYOUTS | SMEM) & ~m->facts;
	const char *why = missing ? NULL : module_verify(m);
	if (missing) {
		diag_error(m->cx, NOWHERE, DIAG_PASS_NEEDS, "lower", facts_text(m, missing));
		return diag_help(m->cx, "print it after the last pass: `build --target=%s --emit=tir`", t->name);
	}
	return why ? diag_error(m->cx, NOWHERE, DIAG_TIR_LAYOUT, why) : true;
}

static int
count_ops(const Module *m)
{
	int n = 0;

	for (int i = 0; i < m->funcs.n; i++) {
		const Block *body = m->funcs.at[i]->body;
		for (const Op *op = body->first; op; op = op_after(op, body))
			n++;
	}
	return n;
}

double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void
dump(Module *m, const PassInfo *p, const PassOptions *opt)
{
	if (!opt->dump || !opt->dump_to)
		return;
	if (strcmp(opt->dump, "all") != 0 && !listed(opt->dump, p->name))
		return;
	text_printf(opt->dump_to, "// after %s\n", p->name);
	module_print(m, opt->dump_to);
}

/* Passes for GPUs alone never see a reference, which runs on the cpu device. */
static void
run_on_functions(Module *m, const Target *t, const PassInfo *p)
{
	for (int i = 0; i < m->funcs.n; i++)
		if (!m->funcs.at[i]->is_reference || p->when != PASS_GPU)
			p->run(m->funcs.at[i], t);
}

static bool
run_one(Module *m, const Target *t, const PassInfo *p, const PassOptions *opt)
{
	unsigned missing = p->needs & ~m->facts;
	int errors = m->cx->nerrors;

	if (!t && p->when == PASS_GPU)
		return diag_error(m->cx, NOWHERE, DIAG_PASS_TARGET, p->name);
	if (missing)
		return diag_error(m->cx, NOWHERE, DIAG_PASS_NEEDS, p->name, facts_text(m, missing));
	if (opt->verify && !check_module(m, t, "before", p->name))
		return false;
	int before = opt->times ? count_ops(m) : 0;
	double start = now_ms();
	run_on_functions(m, t, p);
	double ms = now_ms() - start;
	m->facts = (m->facts & ~p->drops) | p->adds;
	if (p->drops & AXES)
		axis_drop(m);
	if (opt->times)
		text_printf(opt->times, "%-12s %9.3f ms  %6d ops, then %d\n", p->name, ms, before,
		    count_ops(m));
	dump(m, p, opt);
	return (!opt->verify || check_module(m, t, "after", p->name)) && m->cx->nerrors == errors;
}

static bool
run_in_scratch(Module *m, const Target *t, const PassInfo *p, const PassOptions *opt)
{
	Arena *kept = m->cx->tmp;

	m->cx->tmp = arena_open();
	bool good = run_one(m, t, p, opt);
	arena_close(m->cx->tmp);
	m->cx->tmp = kept;
	return good;
}

/* Tile IR may come from a file: does it name matrix instructions that the target has? */
static bool
check_products(const Module *m, const Target *t)
{
	bool good = true;

	for (int i = 0; i < m->funcs.n; i++) {
		const Block *body = m->funcs.at[i]->body;
		for (const Op *op = body->first; op; op = op_after(op, body)) {
			bool multiplies = op_family(op) == FAMILY_DOT || op->kind == OP_DOT_START;
			const char *name = multiplies ? attr_mma(op) : "";
			if (!*name || target_has_product(t, name))
				continue;
			name = arena_printf(m->cx->tmp, "the matrix instruction '%s'", name);
			diag_error(m->cx, op->place, DIAG_LOWER_CANNOT, name, t ? t->name : "any target");
			good = false;
		}
	}
	return good;
}

static bool
check_options(Module *m, const PassOptions *opt)
{
	bool good = check_names(m, opt->only);

	good = check_names(m, opt->skip) && good;
	good = check_names(m, opt->stop_after) && good;
	return (!opt->dump || strcmp(opt->dump, "all") == 0 || check_names(m, opt->dump)) && good;
}

/* For whoever shows the lines of one file. */
static void
place_in_own_file(Func *f)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		while (op->place.call && op->place.file != f->place.file)
			op->place = op->place.call->at;
}

bool
passes_run(Module *m, const Target *t, const PassOptions *opt)
{
	static const PassOptions none = {0};
	_Static_assert(LEN(pipeline) <= PASS_COUNT * 4, "order holds the pipeline");
	PassKind order[PASS_COUNT * 4];
	int n = 0;
	const char *list, *name;
	size_t length;

	if (!opt)
		opt = &none;
	m->cx->verifies = opt->verify;
	unsigned when = PASS_ALL | (t ? PASS_GPU : 0) | (opt->watch ? PASS_ASKED : 0);
	if (!check_options(m, opt) || !check_products(m, t))
		return false;
	for (int i = 0; i < m->funcs.n && opt->own_file; i++)
		place_in_own_file(m->funcs.at[i]);
	for (list = opt->only; n < LEN(order) && next_name(&list, &name, &length);)
		order[n++] = (PassKind)pass_named(name, length);
	for (int i = 0; i < LEN(pipeline) && !opt->only; i++)
		if (pipeline[i].when & when)
			order[n++] = pipeline[i].pass;
	for (int i = 0; i < n; i++) {
		const PassInfo *p = &pass_info[order[i]];
		if (listed(opt->skip, p->name))
			continue;
		if (!run_in_scratch(m, t, p, opt))
			return false;
		if (opt->stop_after && listed(opt->stop_after, p->name))
			break;
	}
	return true;
}
