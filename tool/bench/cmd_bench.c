/* bench: one kernel timed by replays, alone or against a handwritten one on the same tensors.
 *
 * The tensors are made several times over, so that together they exceed the device's cache; both kernels are checked
 * against the reference; then they and a copy take turns (rounds.c).  Where matrices are multiplied there is a second
 * ceiling beside the copy: a kernel of ours that does nothing but products on tiles it holds. */
#include "tool/bench/bench.h"
#include "tool/bench/profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the command line asks for beyond a session's options. */
typedef struct Request {
	int64_t rounds, seed, sets, block, shared;
	double seconds, rest;
	const char *file, *name;                            /* of --vs; NULL: none */
} Request;

static bool
split_vs(const Cli *cli, Request *w)
{
	const char *vs = cli->value[OPT_VS], *colon = vs ? strrchr(vs, ':') : NULL;
	if (!vs) {
		const OptionId only[] = {OPT_GRID, OPT_BLOCK, OPT_SHARED};
		for (int i = 0; i < LEN(only); i++)
			if (cli_has(cli, only[i]))
				return cli_misuse("--%s is of the kernel that --vs names",
					   option_info[only[i]].name),
				       false;
		return true;
	}
	if (!colon || colon == vs || !colon[1])
		return cli_misuse("--vs takes FILE.cu:KERNEL, found '%s'", vs), false;
	if (!cli_has(cli, OPT_GRID) || !cli_has(cli, OPT_BLOCK))
		return cli_misuse("--vs needs --grid and --block: as in --grid 'cdiv(N, 2048)' --block 256"), false;
	w->file = arena_strndup(cli->mem, vs, (size_t)(colon - vs));
	w->name = colon + 1;
	return true;
}

static bool
read_request(const Cli *cli, Request *w)
{
	*w = (Request){0};
	bool ok = cli_number(cli, OPT_ROUNDS, 21, &w->rounds) && cli_number(cli, OPT_SEED, 0, &w->seed) &&
		  cli_number(cli, OPT_SETS, 0, &w->sets) && cli_number(cli, OPT_BLOCK, 0, &w->block) &&
		  cli_number(cli, OPT_SHARED, 0, &w->shared) && cli_positive(cli, OPT_SECONDS, 2, &w->seconds) &&
		  cli_positive(cli, OPT_REST, 0, &w->rest) && split_vs(cli, w);
	if (ok && w->rounds < 1)
		return cli_misuse("--rounds takes a number from 1 up"), false;
	if (ok && w->sets > MAX_SETS)
		return cli_misuse("--sets takes at most %d", MAX_SETS), false;
	return ok;
}

/* ---- cases ---- */

/* The first example marked bench, or -1. */
static int
bench_example(TglKernel *k)
{
	TglExample e;
	for (int i = 0; tgl_kernel_example(k, i, &e); i++)
		if (e.is_bench)
			return i;
	return -1;
}

static bool
open_set(Bench *b, const Request *w, const TglArg *args, int nargs)
{
	const Cli *cli = b->s->cli;
	int index = bench_example(b->k);
	TglCaseOptions o = {.example = cli->value[OPT_EXAMPLE], .args = args, .nargs = nargs,
		.seed = (uint64_t)w->seed + (uint64_t)b->nsets};
	if (!o.example && index >= 0) {
		o.by_index = true;
		o.index = index;
	}
	cli_progress(cli, "preparing %s, input set %d", tgl_kernel_name(b->k), b->nsets + 1);
	TglCase *c = tgl_case_open(b->s->dev, b->k, &o);
	cli_progress_end(cli);
	if (!c)
		return session_error(b->s), false;
	session_warnings(b->s);
	b->set[b->nsets++] = c;
	return true;
}

/* As many sets as together are twice the cache, but no more than half of the memory. */
static int
sets_needed(const Bench *b, const Request *w, double bytes)
{
	TglDeviceInfo info;
	if (w->sets)
		return (int)w->sets;
	if (tgl_device_info(b->s->dev, &info) != TGL_OK || !info.cache || bytes <= 0)
		return 1;
	double n = ceil(2 * (double)info.cache / bytes);
	if (info.memory)
		n = fmin(n, floor((double)info.memory / 2 / bytes));
	return (int)fmax(1, fmin(n, MAX_SETS / 2));
}

static bool
open_sets(Bench *b, const Request *w, TensorList *opened)
{
	TglArg *args;
	int nargs;
	if (!session_args(b->s, b->k, &args, &nargs, opened) || !open_set(b, w, args, nargs))
		return false;
	if (tgl_case_work(b->set[0], &b->bytes, &b->flops) != TGL_OK)
		return session_error(b->s), false;
	session_warnings(b->s);
	for (int n = sets_needed(b, w, b->bytes); b->nsets < n;)
		if (!open_set(b, w, args, nargs))
			return false;
	return true;
}

static bool
open_foreign(Bench *b, const Request *w)
{
	const Cli *cli = b->s->cli;
	ForeignOptions o = {.path = w->file, .name = w->name, .grid = cli->value[OPT_GRID],
		.block = (int)MIN(w->block, INT32_MAX), .shared = (int)MIN(w->shared, INT32_MAX)};
	if (!w->file)
		return true;
	cli_progress(cli, "compiling %s", w->file);
	b->foreign = foreign_open(b->set[0], &o);
	cli_progress_end(cli);
	if (!b->foreign)
		return session_error(b->s), false;
	return true;
}

/* ---- checking ---- */

static void
add_check(void *user, const TglCheck *c)
{
	Bench *b = user;
	b->passed &= c->passed;
	json_array_append_new(b->checks, json_pack("{s:s, s:s, s:b, s:o, s:I}", "kernel", b->checking, "output", c->param,
	    "passed", c->passed, "error_over_bound", cli_json_number(c->ratio), "wrong", (json_int_t)c->nwrong));
}

/* What stands in the case's outputs, against the reference. */
static bool
check(Bench *b, const char *name)
{
	b->checking = name;
	return session_checks(b->s, b->set[0], add_check, b);
}

static bool
run_and_check(Bench *b)
{
	const Cli *cli = b->s->cli;
	bool wanted = !cli_has(cli, OPT_NO_CHECK) && tgl_kernel_has_reference(b->k);
	double seconds;
	b->checked = wanted;
	cli_progress(cli, "running %s", tgl_kernel_name(b->k));
	bool ok = tgl_case_run(b->set[0], &seconds) == TGL_OK;
	if (!ok)
		session_error(b->s);
	session_warnings(b->s);
	cli_progress(cli, "checking %s", tgl_kernel_name(b->k));
	ok = ok && (!wanted || check(b, b->runner[0].name));
	if (ok && b->foreign) {
		ok = foreign_run(b->foreign, b->set[0], &seconds) == TGL_OK;
		if (!ok)
			session_error(b->s);
		ok = ok && (!wanted || check(b, b->runner[1].name));
	}
	cli_progress_end(cli);
	return ok;
}

/* ---- ceilings ---- */

/* Products of tiles that stay in registers: what the target's instruction gives through this compiler. */
static const char products_text[] =
    "kernel products(a: in %s[128, 32], b: in %s[32, 128], y: out %s[P, 128, 128]) grid(p: P) {\n"
    "    let u = a[:, :];\n"
    "    let v = b[:, :];\n"
    "    var acc = zeros([128, 128], %s);\n"
    "    for i in range(0, 1024) { acc += u @ v; }\n"
    "    y[p, :, :] = acc;\n"
    "}\n"
    "example products { P = %d; split = 1; a = %s; b = %s; }\n";
static const double PRODUCTS_FLOPS = 2.0 * 128 * 128 * 32 * 1024; /* of a program */

/* NULL for types that it cannot be written for, and where there are no products. */
static TglCase *
open_products(Bench *b, double *flops)
{
	TglDeviceInfo info;
	Text text = {0};
	if (!tgl_case_product(b->set[0], &b->operand) || tgl_device_info(b->s->dev, &info) != TGL_OK ||
	    strncmp(info.name, "cuda", 4) != 0)
		return NULL;
	bool whole = b->operand <= TGL_U64;
	const char *t = tgl_dtype_name(b->operand), *sum = whole ? "i32" : b->operand == TGL_F64 ? "f64" : "f32";
	const char *values = whole ? "randint(0, 4)" : "uniform(0, 1)";
	int programs = 4 * info.threads;
	text_printf(&text, products_text, t, t, sum, sum, programs, values, values);
	TglProgram *p = tgl_program_text(b->s->cx, "<products>", text.at, text.n);
	TglCase *c = p ? tgl_case_open(b->s->dev, tgl_program_kernel(p, 0), NULL) : NULL;
	double seconds;
	if (c && tgl_case_replay(c, 1, 1, &seconds) != TGL_OK)
		tgl_case_close(&c);
	*flops = PRODUCTS_FLOPS * programs;
	tgl_program_close(&p);
	text_close(&text);
	return c;
}

/* ---- rounds ---- */

static bool
progress(void *user, int round, int rounds)
{
	const Bench *b = user;
	cli_progress(b->s->cli, "round %d of at most %d", round, rounds);
	return true;
}

static bool
measure(Bench *b, const Request *w)
{
	double flops = 0;
	TglCase *products = open_products(b, &flops);
	RoundsOptions o = {.foreign = b->foreign, .beside = products, .rounds = (int)MIN(w->rounds, INT32_MAX),
		.seconds = w->seconds, .rest = w->rest * 1e-3, .progress = progress, .user = b};
	TglStatus got = rounds_run(b->set, b->nsets, &o, &b->rounds);
	tgl_case_close(&products);
	cli_progress_end(b->s->cli);
	if (got != TGL_OK)
		return session_error(b->s), false;
	b->runner[0].time = b->rounds.ours;
	b->runner[1].time = b->rounds.theirs;
	b->runner[0].has_resources = tgl_case_resources(b->set[0], &b->runner[0].resources) == TGL_OK;
	if (b->foreign)
		b->runner[1].has_resources = foreign_resources(b->foreign, &b->runner[1].resources) == TGL_OK;
	b->products = b->rounds.beside.median > 0 ? flops / b->rounds.beside.median : 0;
	return true;
}

/* ---- all of it ---- */

static int
show(const Bench *b)
{
	const Cli *cli = b->s->cli;
	Text text = {0};
	bool ok = true;
	if (cli->json)
		cli_print_json(bench_json(b));
	else if (cli_has(cli, OPT_CSV))
		bench_csv(b, &text);
	else
		bench_print(b);
	if (text.n)
		fputs(text.at, stdout);
	text_close(&text);
	if (cli_has(cli, OPT_PLOT)) {
		bench_plot(b, &text);
		ok = cli_write_file(cli->value[OPT_PLOT], text.at, text.n);
		text_close(&text);
	}
	return ok && b->passed ? EXIT_GOOD : EXIT_WRONG;
}

/* With --profile: of one launch, with the sizes that would be measured. */
static int
profile_kernel(Bench *b, TglProgram *p)
{
	const Cli *cli = b->s->cli;
	TglDeviceInfo info;
	TglExample e = {0};
	Profile profile;
	b->k = session_kernel(b->s, p, cli->args.at[0], cli->args.n > 1 ? cli->args.at[1] : NULL);
	if (!b->k)
		return b->s->status;
	if (cli->from_input)
		return cli_misuse("--profile runs the file once more: give its name in place of '-'");
	if (tgl_device_info(b->s->dev, &info) != TGL_OK || strncmp(info.name, "cuda", 4) != 0)
		return cli_wrong("--profile reads the counters of an NVIDIA GPU: --device=cuda where there is one");
	const char *target = arena_strdup(cli->mem, info.target);
	int index = bench_example(b->k);
	const char *example = cli->value[OPT_EXAMPLE];
	if (!example && index >= 0 && tgl_kernel_example(b->k, index, &e))
		example = e.label;
	bool ok = profile_take(cli, tgl_kernel_name(b->k), example, &profile);
	return ok ? profile_print(cli, tgl_kernel_name(b->k), example, target, &profile) : EXIT_WRONG;
}

static int
bench_kernel(Bench *b, TglProgram *p, const Request *w)
{
	const Cli *cli = b->s->cli;
	TensorList opened = {0};
	TglDeviceInfo info;
	b->k = session_kernel(b->s, p, cli->args.at[0], cli->args.n > 1 ? cli->args.at[1] : NULL);
	if (!b->k)
		return b->s->status;
	b->passed = true;
	b->checks = json_array();
	b->nrunners = w->file ? 2 : 1;
	b->runner[0].name = "tegula";
	b->runner[1].name = w->name;
	if (tgl_device_info(b->s->dev, &info) == TGL_OK) {
		b->device = arena_strdup(cli->mem, info.name);
		b->device_text = arena_strdup(cli->mem, info.text);
	}
	bool ok = open_sets(b, w, &opened) && open_foreign(b, w) && run_and_check(b) && measure(b, w);
	int status = ok ? show(b) : b->s->status;
	foreign_close(&b->foreign);
	for (int i = 0; i < b->nsets; i++)
		tgl_case_close(&b->set[i]);
	for (int i = 0; i < opened.n; i++)
		tgl_tensor_close(&opened.at[i]);
	json_decref(b->checks);
	return status;
}

int
cmd_bench(const Cli *cli)
{
	Session s;
	Request w;
	if (!cli_operands(cli, 1, 2) || !read_request(cli, &w))
		return EXIT_MISUSE;
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	TglProgram *p = session_operand(&s);
	Bench b = {.s = &s};
	tgl_context_print(s.cx, NULL, NULL);
	if (p)
		s.status = cli_has(cli, OPT_PROFILE) ? profile_kernel(&b, p) : bench_kernel(&b, p, &w);
	tgl_program_close(&p);
	session_close(&s);
	return s.status;
}
