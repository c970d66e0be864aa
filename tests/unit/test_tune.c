/* Tuning: successive halving over scripted times, and whole tunings on a device whose times, failures and mistakes are
 * scripted, so that what wins is known. */
#include <math.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/tune/tune.h"

/* ---- successive halving ---- */

typedef struct Script {
	double time[64];                /* seconds; 0: it fails */
	double noise;                   /* share of the time, evenly spread */
	int fails_at[64];               /* the sample that fails, from 1; 0: none */
	int taken[64], total;
	double clock, cost;             /* the clock moves by what is measured and by this much a sample */
	unsigned seed;
} Script;

static double
random_part(Script *s)
{
	s->seed = s->seed * 1103515245 + 12345;
	return ((s->seed >> 8) & 0xffff) / 65536.0 - 0.5;
}

static bool
measure_script(void *user, int i, double *seconds)
{
	Script *s = user;
	s->taken[i]++;
	s->total++;
	*seconds = s->time[i] * (1 + s->noise * random_part(s));
	s->clock += *seconds + s->cost;
	return s->time[i] > 0 && s->taken[i] != s->fails_at[i];
}

static double
script_clock(void *user)
{
	return ((Script *)user)->clock;
}

static Halving
run_script(Arena *mem, Script *s, int n, int favourite, double deadline)
{
	Halving r = {.mem = mem,
	    .arm = NEW_ARRAY(mem, Arm, n),
	    .n = n,
	    .favourite = favourite,
	    .measure = measure_script,
	    .now = script_clock,
	    .user = s,
	    .deadline = deadline};
	halving_run(&r);
	return r;
}

static void
test_fastest_wins(void **state)
{
	Arena *mem = arena_open();
	for (unsigned seed = 1; seed <= 50; seed++) {
		Script s = {.noise = 0.05, .seed = seed};
		for (int i = 0; i < 40; i++)
			s.time[i] = 1e-3 * (1 + 0.1 * ((i * 17 + (int)seed) % 40));
		Halving r = run_script(mem, &s, 40, 0, 1e9);
		assert_true(fabs(s.time[r.winner] - 1e-3) < 1e-9);
		assert_null(r.arm[r.winner].why);
	}
	arena_close(mem);
}

/* Those that are much slower cost a sample or few; the close ones get the most. */
static void
test_early_stopping(void **state)
{
	Arena *mem = arena_open();
	Script s = {.noise = 0.02, .seed = 7};
	for (int i = 0; i < 32; i++)
		s.time[i] = i < 2 ? 1e-3 + 1e-5 * i : i < 8 ? 1.5e-3 : 1e-2;
	Halving r = run_script(mem, &s, 32, -1, 1e9);
	assert_true(r.winner < 2);
	for (int i = 8; i < 32; i++) {
		assert_int_equal(s.taken[i], 1);
		assert_true(r.arm[i].out && r.arm[i].slower);
		assert_string_equal(r.arm[i].why, "more than three times the time of the best");
	}
	for (int i = 2; i < 8; i++)
		assert_true(s.taken[i] <= 4);
	assert_true(s.taken[0] > 4 && s.taken[1] > 4);
	assert_true(s.total <= 24 + 6 * 4 + 2 * MAX_SAMPLES);
	arena_close(mem);
}

/* The slow ones stand first: they are not dropped before better ones are known, but soon after. */
static void
test_slow_ones_first(void **state)
{
	Arena *mem = arena_open();
	Script s = {.noise = 0.02, .seed = 3};
	for (int i = 0; i < 20; i++)
		s.time[i] = i < 19 ? 1e-2 : 1e-3;
	Halving r = run_script(mem, &s, 20, 0, 1e9);
	assert_int_equal(r.winner, 19);
	for (int i = 0; i < 19; i++)
		assert_true(s.taken[i] <= 2);
	arena_close(mem);
}

/* Within the noise nothing is faster, and the favourite stays. */
static void
test_noise(void **state)
{
	Arena *mem = arena_open();
	int kept = 0;
	for (unsigned seed = 1; seed <= 100; seed++) {
		Script s = {.noise = 0.3, .seed = seed, .time = {1e-3, 0.999e-3, 1.001e-3}};
		Halving r = run_script(mem, &s, 3, 0, 1e9);
		kept += r.winner == 0;
	}
	assert_true(kept >= 90);
	for (unsigned seed = 1; seed <= 100; seed++) { /* 5 % are told from 0.5 % of noise */
		Script s = {.noise = 0.01, .seed = seed, .time = {1.05e-3, 1e-3}};
		assert_int_equal(run_script(mem, &s, 2, 0, 1e9).winner, 1);
	}
	arena_close(mem);
}

static void
test_noise_covers(void **state)
{
	double v[MAX_SAMPLES];
	Script s = {.seed = 11};
	int inside = 0;
	for (int round = 0; round < 400; round++) {
		Arm r = {.sample = v, .n = 21};
		for (int i = 0; i < r.n; i++)
			v[i] = 1 + 0.1 * (random_part(&s) + random_part(&s) + random_part(&s) + random_part(&s));
		arm_statistics(&r);
		inside += fabs(r.median - 1) <= r.noise;
	}
	assert_true(inside >= 380); /* 396 are to be expected */
}

static void
test_failures_in_a_race(void **state)
{
	Arena *mem = arena_open();
	Script s = {.noise = 0.01, .seed = 5, .time = {2e-3, 0, 1e-3, 1.5e-3}, .fails_at = {[2] = 2}};
	Halving r = run_script(mem, &s, 4, -1, 1e9);
	assert_int_equal(r.winner, 3);
	assert_true(r.arm[1].out && !r.arm[1].slower && r.arm[1].n == 0);
	assert_true(r.arm[2].out && !r.arm[2].slower);
	/* those that were dropped for being slower are still better than nothing */
	Script late = {.noise = 0.01, .seed = 5, .time = {2e-3, 1.3e-3, 1e-3, 1.001e-3}, .fails_at = {[2] = 6, [3] = 6}};
	r = run_script(mem, &late, 4, 0, 1e9);
	assert_int_equal(r.winner, 1);
	assert_null(r.arm[1].why);
	Script none = {.seed = 5};
	assert_int_equal(run_script(mem, &none, 4, 0, 1e9).winner, -1);
	assert_int_equal(run_script(mem, &none, 0, -1, 1e9).winner, -1);
	arena_close(mem);
}

/* The best so far is what there is when the time is up. */
static void
test_deadline(void **state)
{
	Arena *mem = arena_open();
	Script s = {.noise = 0.01, .seed = 5, .cost = 1, .time = {5e-3, 3e-3, 2e-3, 1e-3}};
	Halving r = run_script(mem, &s, 4, -1, 2.5);
	assert_int_equal(s.total, 3);
	assert_int_equal(r.winner, 2);
	assert_true(r.spent);
	Script early = {.seed = 5, .time = {1, 1}};
	r = run_script(mem, &early, 2, 0, 0);
	assert_int_equal(r.winner, -1);
	assert_true(r.spent);
	arena_close(mem);
}

/* ---- a device with a script ---- */

static const char source[] =
    "// a comment\n"
    "fn twice(v) => v + v;\n"
    "kernel double<BLOCK = 64, WIDE: bool = false>(x: in f32[N], y: out f32[N]) grid(i: cdiv(N, BLOCK))\n"
    "    tune(BLOCK = {16, 32, 64, 128, 256, 512}, warps = {1, 2}) where BLOCK <= 256 || N > 100000\n"
    "{\n"
    "    y[i * BLOCK +: BLOCK] = twice(x[i * BLOCK +: BLOCK]);\n"
    "}\n"
    "reference double { y[:] = 2.0 * x[:]; }\n"
    "example double \"small\" { N = 1024; x = normal(0, 1); }\n"
    "example double \"set\" { N = 1024; BLOCK = 32; x = normal(0, 1); }\n"
    "kernel blind<B = 64>(x: in f32[N], y: out f32[N], s: scratch f32[B]) grid(i: cdiv(N, B)) tune(B = {32, 64, 128}) {\n"
    "    y[i * B +: B] = 2.0 * x[i * B +: B];\n"
    "}\n"
    "example blind { N = 1024; x = normal(0, 1); }\n"
    "kernel sized<B = 64>(x: in f32[N], y: out f32[cdiv(N, B)]) grid(i: cdiv(N, B)) tune(B = {32, 64}) {\n"
    "    y[i] = sum(x[i * B +: B]);\n"
    "}\n"
    "example sized { N = 1024; x = normal(0, 1); }\n"
    "kernel far<B = 4096>(x: in f32[N], y: out f32[N]) grid(i: cdiv(N, B)) tune(B = {4096, 8192}) {\n"
    "    y[i * B +: B] = 2.0 * x[i * B +: B];\n"
    "}\n"
    "example far { N = 300001; x = normal(0, 1); }\n"
    "kernel wide<B = 16, C = 16>(a: in f16[N, N], y: out f32[N, N]) grid(i: cdiv(N, B))\n"
    "    tune(B = {16, 128, 256}, C = {16, 1024}, stages = {2, 4}, warps = {1, 4, 64})\n"
    "{\n"
    "    var acc = zeros([B, 128], f32);\n"
    "    for k in range(0, N, C) { acc += a[i * B +: B, k +: C] @ a[k +: C, 0 +: 128]; }\n"
    "    y[i * B +: B, 0 +: 128] = acc;\n"
    "}\n"
    "example wide { N = 256; a = normal(0, 1); }\n"
    "kernel plain(x: in f32[N], y: out f32[N]) grid(i: N) { y[i] = x[i]; }\n"
    "example plain { N = 8; x = zeros; }\n"
    "kernel heavy<B = 128>(x: in f16[N, N], y: out f16[N, N]) grid(i: cdiv(N, B))\n"
    "    tune(B = {16, 32, 64}, warps = {1, 2, 4, 8, 16, 32}, stages = {2, 3}) where warps * 8 <= B\n"
    "{\n"
    "    y[i * B +: B, 0 +: 16] = x[i * B +: B, 0 +: 16] * (2.0 as f16);\n"
    "}\n"
    "example heavy { N = 256; x = normal(0, 1); }\n"
    "kernel together<B = pow2ceil(C)>(x: in f32[R, C], y: out f32[R]) grid(r: R) tune(warps = {8, 32})\n"
    "{\n"
    "    y[r] = sum(x[r, 0 +: B] else 0.0);\n"
    "}\n"
    "example together { R = 512; C = 20000; x = zeros; }\n"
    "kernel mixed<B = 64>(x: in f32[N], y: out f32[N], g: out u8[N]) grid(p: cdiv(N, B)) tune(warps = {1, 2})\n"
    "{\n"
    "    let v = x[p * B +: B];\n"
    "    y[p * B +: B] = 0.3 * v + 0.6 * abs(v);\n"
    "    g[p * B +: B] = round(100 * (0.3 * v + 0.6 * abs(v))) as u8;\n"
    "}\n"
    "example mixed { N = 1024; x = zeros; }\n"
    "kernel attend<BN = 16>(q: in bf16[M, 64], k: in bf16[N, 64], v: in bf16[N, 64], o: out f32[M, 64], s8: out i8[M, 64])\n"
    "    grid(p: cdiv(M, 16)) tune(BN = {16, 32, 64, 128})\n"
    "{\n"
    "    let mine = q[p * 16 +: 16, :];\n"
    "    var m = full([16], -inf, f32);\n"
    "    var l = zeros([16], f32);\n"
    "    var acc = zeros([16, 64], f32);\n"
    "    for at in range(0, N, BN) {\n"
    "        let s = mine @ k[at +: BN, :].T * 0.18;\n"
    "        let n = max(m, max(s, axis = 1));\n"
    "        let e = exp2(s - n[:, new]);\n"
    "        let scale = exp2(m - n);\n"
    "        l = l * scale + sum(e, axis = 1);\n"
    "        acc = acc * scale[:, new] + (e as bf16) @ v[at +: BN, :];\n"
    "        m = n;\n"
    "    }\n"
    "    o[p * 16 +: 16, :] = acc / l[:, new];\n"
    "    s8[p * 16 +: 16, :] = (round(acc / l[:, new] * 127.0)) as i8;\n"
    "}\n"
    "example attend { M = 256; N = 512; q = normal(0, 1); k = normal(0, 1); v = normal(0, 1); }\n"
    "kernel means<B = 32>(x: in f32[R, C], y: out f32[R]) grid(i: cdiv(R, B / 32)) tune(B = {32, 64, 128})\n"
    "{\n"
    "    var t = zeros([B / 32], f32);\n"
    "    for c in range(0, C, B) { t += sum(x[i * (B / 32) +: B / 32, c +: B], axis = 1); }\n"
    "    y[i * (B / 32) +: B / 32] = t / C;\n"
    "}\n"
    "kernel product<BM = 64, BN = 64, BK = 64>(a: in bf16[M, K], b: in bf16[K, N], y: out bf16[M, N])\n"
    "    grid(m: cdiv(M, BM), n: cdiv(N, BN))\n"
    "    tune(BM = {16, 64, 128}, BN = {16, 64, 128, 256}, BK = {16, 32, 64}, warps = {1, 4, 8}, stages = {2, 3, 4, 5})\n"
    "{\n"
    "    var acc = zeros([BM, BN], f32);\n"
    "    for k in range(0, K, BK) { acc += a[m * BM +: BM, k +: BK] @ b[k +: BK, n * BN +: BN]; }\n"
    "    y[m * BM +: BM, n * BN +: BN] = acc as bf16;\n"
    "}\n"
    "example product { M = 2048; N = 2048; K = 2048; a = zeros; b = zeros; }\n"
    "example means { R = 64; C = 4096; x = uniform(0, 1); }\n";

typedef struct Fixture {
	char folder[64];
	TglContext *cx;
	TglDevice *dev;
	TglProgram *p;
} Fixture;

static struct {
	double time[2048];              /* by BLOCK, which 1024 / programs is */
	bool fails[2048], wrong[2048];
	int runs[2048];
	int block, programs;            /* of the last launch */
	int wrong_at;                   /* 0: 77 */
	float wrong_by;                 /* 0: 0.25 */
	unsigned seed;
	bool (*launch)(Device *, Loaded *, const PlanArg *, const int64_t *, Fault *);
} script;

static bool
script_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	script.block = (int)(1024 / grid[0]);
	script.programs = (int)grid[0];
	script.runs[script.block]++;
	if (script.fails[script.block]) {
		d->error.what = DEVICE_FAILED;
		snprintf(d->error.text, sizeof d->error.text, "the script says so");
		return false;
	}
	if (!script.launch(d, l, args, grid, fault))
		return false;
	if (script.wrong[script.block])
		((float *)args[1].data)[script.wrong_at ? script.wrong_at : 77] += script.wrong_by != 0 ? script.wrong_by : 0.25f;
	return true;
}

static bool
script_time_end(Device *d, double *seconds)
{
	script.seed = script.seed * 1103515245 + 12345;
	double t = script.time[script.block] > 0 ? script.time[script.block] : 1e-3;
	*seconds = t * (1 + 0.02 * ((script.seed >> 8 & 0xff) / 256.0 - 0.5));
	return true;
}

static void
open_all(Fixture *f, const char *text)
{
	f->cx = tgl_context_open();
	tgl_context_cache(f->cx, &(TglCacheOptions){.folder = f->folder});
	f->dev = tgl_device_open(f->cx, "cpu", &(TglDeviceOptions){.threads = 1});
	script.launch = f->dev->dev.launch;
	f->dev->dev.launch = script_launch;
	f->dev->dev.time_end = script_time_end;
	f->p = tgl_program_text(f->cx, "k.tgl", text, strlen(text));
	if (!f->p)
		fail_msg("%s", tgl_error(f->cx)->text);
}

static void
close_all(Fixture *f)
{
	tgl_program_close(&f->p);
	tgl_device_close(&f->dev);
	tgl_context_close(&f->cx);
}

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	unsetenv("TEGULA_CACHE");
	unsetenv("TEGULA_TUNE");
	memset(&script, 0, sizeof script);
	script.seed = 99;
	strcpy(f->folder, "/tmp/tegula-tune-XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	open_all(f, source);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	char command[128];
	close_all(f);
	snprintf(command, sizeof command, "rm -rf %s", f->folder);
	if (system(command) != 0)
		return -1;
	free(f);
	return 0;
}

static TglTune
tune(Fixture *f, const char *kernel, const TglCaseOptions *which, const TglTuneOptions *o)
{
	TglTune t;
	TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, kernel), which);
	if (!c)
		fail_msg("%s", tgl_error(f->cx)->text);
	if (tgl_case_tune(c, o, &t) != TGL_OK)
		fail_msg("%s", tgl_error(f->cx)->text);
	tgl_case_close(&c);
	return t;
}

static const TglTuneCandidate *
candidate(const TglTune *t, const char *values)
{
	for (int i = 0; i < t->n; i++)
		if (strcmp(t->candidate[i].values, values) == 0)
			return &t->candidate[i];
	fail_msg("no candidate %s", values);
	return NULL;
}

/* BLOCK that a plain launch uses now. */
static int
launched_block(Fixture *f, int64_t n, const TglArg *more, int nmore)
{
	TglTensor *x = tgl_tensor(f->dev, TGL_F32, 1, &n), *y = tgl_tensor(f->dev, TGL_F32, 1, &n);
	TglArg args[8] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	for (int i = 0; i < nmore; i++)
		args[2 + i] = more[i];
	if (tgl_launch(f->dev, tgl_kernel(f->p, "double"), args, 2 + nmore, NULL) != TGL_OK)
		fail_msg("%s", tgl_error(f->cx)->text);
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	return (int)(n / script.programs);
}

static void
script_times(void)
{
	const int block[] = {16, 32, 64, 128, 256};
	const double time[] = {9e-3, 2e-3, 1.5e-3, 1e-3, 1.1e-3};
	for (int i = 0; i < LEN(block); i++)
		script.time[block[i]] = time[i];
}

static void
test_tuning(void **state)
{
	Fixture *f = *state;
	script_times();
	assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
	TglTune t = tune(f, "double", NULL, NULL);
	assert_int_equal(t.n, 6); /* warps matter to no cpu; the default is one of the six */
	assert_int_equal(t.combinations, 6);
	assert_true(t.candidate[0].is_default);
	assert_string_equal(t.candidate[0].values, "BLOCK = 64");
	assert_string_equal(t.candidate[t.winner].values, "BLOCK = 128");
	assert_true(fabs(t.candidate[t.winner].median - 1e-3) < 2e-5);
	assert_non_null(strstr(t.why, " times as fast as the default; the next, BLOCK = 256, takes +"));
	assert_int_equal(candidate(&t, "BLOCK = 512")->state, TGL_TUNE_PRUNED);
	assert_non_null(strstr(candidate(&t, "BLOCK = 512")->why, "where"));
	assert_int_equal(candidate(&t, "BLOCK = 16")->state, TGL_TUNE_SLOWER);
	assert_true(candidate(&t, "BLOCK = 16")->samples < 3);
	assert_true(candidate(&t, "BLOCK = 256")->samples > 3);
	assert_int_equal(script.runs[512], 0);
	assert_true(t.kept && !t.spent && !t.frozen);
	assert_string_equal(t.device, "cpu, 1 threads");
	assert_string_equal(t.dtypes, "f32, f32");
	assert_string_equal(t.sizes, "N = 1024, WIDE = false");
	tgl_tune_close(&t);
	assert_int_equal(t.n, 0);
}

/* Who is asked for a value: the caller, the example, the results of tuning, the default. */
static void
test_authority(void **state)
{
	Fixture *f = *state;
	script_times();
	TglTune t = tune(f, "double", NULL, NULL);
	tgl_tune_close(&t);
	for (int round = 0; round < 2; round++) {
		TglArg given[] = {tgl_arg_int("BLOCK", 16)}, wide[] = {tgl_arg_bool("WIDE", true)};
		assert_int_equal(launched_block(f, 1024, NULL, 0), 128);
		assert_int_equal(launched_block(f, 513, NULL, 0), 513 / 5); /* 1024 is the next power of two */
		assert_int_equal(launched_block(f, 2048, NULL, 0), 64);
		assert_int_equal(launched_block(f, 1024, given, 1), 16);
		assert_int_equal(launched_block(f, 1024, wide, 1), 64); /* another kernel, as it were */
		TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, "double"), &(TglCaseOptions){.example = "set"});
		tgl_case_run(c, NULL);
		assert_int_equal(script.block, 32);
		tgl_case_close(&c);
		c = tgl_case_open(f->dev, tgl_kernel(f->p, "double"), NULL);
		tgl_case_run(c, NULL);
		assert_int_equal(script.block, 128);
		int n;
		const TglArg *args = tgl_case_args(c, &n);
		script.block = 0;
		tgl_launch(f->dev, tgl_kernel(f->p, "double"), args, n, NULL);
		assert_int_equal(script.block, 128);
		tgl_case_close(&c);
		c = tgl_case_open(f->dev, tgl_kernel(f->p, "double"), &(TglCaseOptions){.untuned = true});
		tgl_case_run(c, NULL);
		assert_int_equal(script.block, 64);
		tgl_case_close(&c);
		close_all(f); /* and in another process */
		open_all(f, source);
	}
	tgl_context_cache(f->cx, &(TglCacheOptions){.folder = f->folder, .tuning = TGL_TUNING_IGNORED});
	assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
	close_all(f);
	setenv("TEGULA_TUNE", "ignore", 1);
	open_all(f, source);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
	unsetenv("TEGULA_TUNE");
}

/* A comment or another layout of the text keeps results, other code does not. */
static void
test_other_text(void **state)
{
	Fixture *f = *state;
	Text changed = {0};
	script_times();
	TglTune t = tune(f, "double", NULL, NULL);
	tgl_tune_close(&t);
	close_all(f);
	text_printf(&changed, "\n// moved by two lines\n\n%s", source);
	open_all(f, changed.at);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 128);
	close_all(f);
	text_close(&changed);
	char *other = strdup(source), *at = strstr(other, "=> v + v");
	memcpy(at, "=> v * v", 8);
	open_all(f, other);
	free(other);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
}

static void
test_frozen(void **state)
{
	Fixture *f = *state;
	script_times();
	setenv("TEGULA_TUNE", "off", 1);
	TglTune t = tune(f, "double", NULL, NULL);
	assert_true(t.frozen && t.n == 0 && t.winner == -1 && !t.known);
	assert_int_equal(script.runs[64] + script.runs[128], 0);
	tgl_tune_close(&t);
	unsetenv("TEGULA_TUNE");
	t = tune(f, "double", NULL, &(TglTuneOptions){.no_keep = true});
	assert_false(t.kept);
	tgl_tune_close(&t);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
	t = tune(f, "double", NULL, NULL);
	tgl_tune_close(&t);
	setenv("TEGULA_TUNE", "off", 1);
	memset(script.runs, 0, sizeof script.runs);
	t = tune(f, "double", NULL, NULL);
	assert_string_equal(t.known, "BLOCK = 128");
	assert_int_equal(script.runs[64] + script.runs[128], 0);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 128); /* what is known is used */
	tgl_tune_close(&t);
	unsetenv("TEGULA_TUNE");
}

/* The fastest computes something else, the next fails: the third wins. */
static void
test_wrong_and_failing(void **state)
{
	Fixture *f = *state;
	const char *const kernel[] = {"double", "blind"}; /* with a reference and without */
	for (int i = 0; i < 2; i++) {
		memset(&script, 0, offsetof(__typeof__(script), launch));
		script_times();
		script.time[64] = 4e-3;
		script.wrong[128] = true;
		script.fails[256] = true;
		TglTune t = tune(f, kernel[i], NULL, NULL);
		const char *name = i ? "B" : "BLOCK";
		char values[32];
		snprintf(values, sizeof values, "%s = 128", name);
		const TglTuneCandidate *wrong = candidate(&t, values);
		assert_int_equal(wrong->state, TGL_TUNE_WRONG);
		assert_int_equal(script.runs[128], 1);
		assert_non_null(strstr(wrong->why, i ? "element 77 of 'y'" : "1 of 1024 elements of 'y' are wrong"));
		if (!i) {
			assert_int_equal(candidate(&t, "BLOCK = 256")->state, TGL_TUNE_FAILED);
			assert_non_null(strstr(candidate(&t, "BLOCK = 256")->why, "the script says so"));
		}
		snprintf(values, sizeof values, "%s = 32", name);
		assert_string_equal(t.candidate[t.winner].values, values);
		tgl_tune_close(&t);
	}
	/* a default that fails is passed over too */
	script.fails[64] = true;
	TglTune t = tune(f, "double", NULL, NULL);
	assert_int_equal(t.candidate[0].state, TGL_TUNE_FAILED);
	assert_string_equal(t.candidate[t.winner].values, "BLOCK = 32");
	assert_non_null(strstr(t.why, "the default did not run"));
	tgl_tune_close(&t);
}

/* One element in many that several threads look at, wherever it is; a rounding is none. */
static void
test_wrong_far(void **state)
{
	Fixture *f = *state;
	const int at[] = {1, 4686, 4687, 150000, 299967, 300000};
	script.wrong[1024 / 37] = true;                     /* programs of B = 8192 */
	for (int i = 0; i <= LEN(at); i++) {
		char says[64];
		script.wrong_at = at[i % LEN(at)];
		script.wrong_by = i < LEN(at) ? 0 : 1e-7f;
		TglTune t = tune(f, "far", NULL, &(TglTuneOptions){.no_keep = true});
		const TglTuneCandidate *c = candidate(&t, "B = 8192");
		snprintf(says, sizeof says, "element %d of 'y' is ", script.wrong_at);
		assert_int_equal(c->state == TGL_TUNE_WRONG, i < LEN(at));
		assert_true(i == LEN(at) || strstr(c->why, says));
		tgl_tune_close(&t);
	}
}

/* Another number of keys a trip rounds other probabilities to bf16, and puts other elements between two integers. */
static void
test_other_roundings(void **state)
{
	Fixture *f = *state;
	TglTune t = tune(f, "attend", NULL, &(TglTuneOptions){.no_keep = true});
	assert_int_equal(t.n, 4);
	for (int i = 0; i < t.n; i++)
		if (t.candidate[i].state == TGL_TUNE_WRONG)
			fail_msg("%s: %s", t.candidate[i].values, t.candidate[i].why);
	tgl_tune_close(&t);
}

/* A sum of f32 is much nearer than what a forgotten element does, one of 4096 positive ones. */
static void
test_forgotten_element(void **state)
{
	Fixture *f = *state;
	script.wrong[1024 / 16] = true;                     /* programs of B = 128 */
	script.wrong_at = 7;
	for (int i = 0; i < 2; i++) {
		script.wrong_by = i ? -0.5f / 4096 : -0x1p-22f;
		TglTune t = tune(f, "means", NULL, &(TglTuneOptions){.no_keep = true});
		assert_int_equal(candidate(&t, "B = 128")->state == TGL_TUNE_WRONG, i == 1);
		tgl_tune_close(&t);
	}
}

static double
error_of(Fixture *f, const char *kernel, const char *param, bool *jumps)
{
	TglKernel *k = tgl_kernel(f->p, kernel);
	TglCase *c = tgl_case_open(f->dev, k, NULL);
	RoundError e[8] = {{0}};
	double share = -1;
	assert_non_null(c);
	assert_true(tune_errors(k, &c->b.bound, "cpu", e));
	for (int i = 0; i < k->k->params.n; i++)
		if (strcmp(k->k->params.at[i].name, param) == 0) {
			share = e[i].share;
			*jumps = e[i].jumps;
		}
	tgl_case_close(&c);
	return share;
}

/* By dtype, length and order: what is elementwise is the same in every candidate, but for what may be fused. */
static void
test_error_bounds(void **state)
{
	Fixture *f = *state;
	bool jumps;
	assert_true(error_of(f, "double", "y", &jumps) == 0 && !jumps);
	double fused = error_of(f, "mixed", "y", &jumps);   /* of two products and their sum, as one op or as two */
	assert_true(fused > 0 && fused < 4 * 0x1p-24 && !jumps);
	assert_true(error_of(f, "mixed", "g", &jumps) > 0 && jumps);
	double sum = error_of(f, "means", "y", &jumps);
	assert_true(sum > 8 * 0x1p-24 && sum < 256 * 0x1p-24 && !jumps);
	double attention = error_of(f, "attend", "o", &jumps);
	assert_true(attention >= 0x1p-8 && attention < 0x1p-6 && !jumps);
	assert_true(error_of(f, "attend", "s8", &jumps) > 0 && jumps);
}

static void
refused(Fixture *f, const char *kernel, const TglCaseOptions *o, TglStatus status, const char *code, const char *says)
{
	TglTune t;
	TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, kernel), o);
	assert_non_null(c);
	assert_int_equal(tgl_case_tune(c, NULL, &t), status);
	assert_string_equal(tgl_error(f->cx)->code, code);
	assert_non_null(strstr(tgl_error(f->cx)->text, says));
	tgl_tune_close(&t);
	tgl_case_close(&c);
}

static void
test_nothing_to_tune(void **state)
{
	Fixture *f = *state;
	refused(f, "plain", NULL, TGL_ERROR_NAME, "E1149", "its header has no tune");
	refused(f, "double", &(TglCaseOptions){.example = "set"}, TGL_ERROR_NAME, "E1149", "every name");
	memset(script.fails, 1, sizeof script.fails);
	refused(f, "double", NULL, TGL_ERROR_DEVICE, "E1148", "the script says so");
	TglTune t;
	assert_int_equal(tgl_case_tune(NULL, NULL, &t), TGL_ERROR_USAGE);
}

/* Outputs of another shape can't be compared: such values are left alone. */
static void
test_other_shapes(void **state)
{
	Fixture *f = *state;
	TglTune t = tune(f, "sized", NULL, NULL);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.candidate[1].state, TGL_TUNE_PRUNED);
	assert_string_equal(t.candidate[1].why, "dimension 0 of 'y' must be cdiv(N, B) = 32, not 16");
	assert_int_equal(t.winner, 0);
	tgl_tune_close(&t);
}

static bool
stop_soon(void *user, const char *what, double part)
{
	assert_true(part >= 0 && part <= 1 && *what);
	return ++*(int *)user < 3;
}

static void
test_stopped(void **state)
{
	Fixture *f = *state;
	int calls = 0;
	script_times();
	TglTune t = tune(f, "double", NULL, &(TglTuneOptions){.progress = stop_soon, .user = &calls});
	assert_int_equal(calls, 3);
	assert_int_equal(t.winner, -1);
	assert_false(t.kept);
	tgl_tune_close(&t);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
	t = tune(f, "double", NULL, &(TglTuneOptions){.budget = 1e-6}); /* the default is tried in any case */
	assert_true(t.winner == -1 && t.spent && !t.kept);
	tgl_tune_close(&t);
}

/* ---- results as text ---- */

static void
put_line(void *user, const char *line)
{
	text_put(user, line);
}

static void
test_export(void **state)
{
	Fixture *f = *state;
	Text t = {0}, again = {0};
	int64_t n;
	script_times();
	TglTune r = tune(f, "double", NULL, NULL);
	tgl_tune_close(&r);
	assert_int_equal(tgl_tuning_export(f->cx, put_line, &t), TGL_OK);
	assert_non_null(strstr(t.at, "\"cpu, 1 threads\" double "));
	assert_non_null(strstr(t.at, " \"f32, f32\" \"N = 1024, WIDE = false\": BLOCK = 128 ("));
	tgl_cache_clear(f->cx, true, &n);
	assert_int_equal(n, 1);
	close_all(f);
	open_all(f, source);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
	close_all(f);
	open_all(f, source);
	assert_int_equal(tgl_tuning_import(f->cx, t.at, t.n, &n), TGL_OK);
	assert_int_equal(n, 1);
	assert_int_equal(launched_block(f, 1024, NULL, 0), 128);
	assert_int_equal(tgl_tuning_export(f->cx, put_line, &again), TGL_OK);
	assert_string_equal(t.at, again.at);
	assert_int_equal(tgl_tuning_import(f->cx, "# fine\nnot a result\n", 20, &n), TGL_ERROR_FILE);
	assert_string_equal(tgl_error(f->cx)->code, "E1147");
	assert_non_null(strstr(tgl_error(f->cx)->text, "line 2 "));
	assert_int_equal(tgl_tuning_export(f->cx, NULL, NULL), TGL_ERROR_USAGE);
	assert_int_equal(tgl_tuning_import(f->cx, NULL, 0, &n), TGL_ERROR_USAGE);
	text_close(&t);
	text_close(&again);
}

/* A result that the header refuses, or that is nonsense, is passed over. */
static void
test_useless_results(void **state)
{
	Fixture *f = *state;
	const char *const values[] = {"BLOCK = 512", "BLOCK = what", "", "N = 5", "BLOCK = 1.5", "default", "BLOCK = 0"};
	for (int i = 0; i < LEN(values); i++) {
		Binding b;
		int64_t n = 1024;
		TglKernel *k = tgl_kernel(f->p, "double");
		TglTensor *x = tgl_tensor(f->dev, TGL_F32, 1, &n);
		TglArg args[] = {tgl_arg_tensor("x", x)};
		TuneEntry e = {.values = values[i], .seconds = 1, .plain = 1};
		assert_true(binding_collect(k, args, 1, false, &b) && binding_bind(k, &b));
		tune_key(k, &b, f->dev, NULL, b.mem, &e.key);
		assert_true(tune_put(context_cache(f->cx), &e));
		binding_close(&b);
		tgl_tensor_close(&x);
		launch_cache_drop(k, NULL);
		assert_int_equal(launched_block(f, 1024, NULL, 0), 64);
		bool says_nothing = !*values[i] || strcmp(values[i], "default") == 0 ||
				    strcmp(values[i], "BLOCK = 512") == 0; /* listed, and refused by `where` */
		assert_int_equal(tgl_error(f->cx)->nwarnings, says_nothing ? 0 : 1);
		if (!says_nothing)
			assert_string_equal(tgl_error(f->cx)->code, "W0402");
	}
}

static const char *
close_sizes(Fixture *f, int64_t n)
{
	Binding b;
	TuneKey key;
	TglTensor *x = tgl_tensor(f->dev, TGL_F32, 1, &n);
	TglArg args[] = {tgl_arg_tensor("x", x)};
	TglKernel *k = tgl_kernel(f->p, "double");
	assert_true(binding_collect(k, args, 1, false, &b) && binding_bind(k, &b));
	tune_key(k, &b, f->dev, NULL, b.mem, &key);
	char *text = strdup(key.close_sizes);
	binding_close(&b);
	tgl_tensor_close(&x);
	return text;
}

/* What was chosen for 2048, as tiles that divide it, is not what 1984 takes; 1985 and 2047 have one choice. */
static void
test_close_sizes(void **state)
{
	static const struct { int64_t a, b; bool same; } pairs[] = {
		{2048, 1984, false}, {1985, 2047, true}, {1984, 2047, true}, {2048, 2560, false}, {3840, 3968, false}, {256, 1, false}};
	for (int i = 0; i < LEN(pairs); i++) {
		const char *a = close_sizes(*state, pairs[i].a), *b = close_sizes(*state, pairs[i].b);
		assert_int_equal(strcmp(a, b) == 0, pairs[i].same);
		free((void *)a);
		free((void *)b);
	}
}

/* ---- a GPU ---- */

static Loaded *
gpu_load(Device *d, const Artefact *a)
{
	return calloc(1, 64);
}

static void
gpu_unload(Device *d, Loaded *l)
{
	free(l);
}

static bool
gpu_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	script.block = (int)(1024 / grid[0]);
	script.programs = (int)grid[0];
	return true;
}

static _Atomic int gpu_launches, gpu_waited;

static bool
gpu_count_launch(Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	atomic_fetch_add(&gpu_launches, 1);
	return gpu_launch(d, l, args, grid, fault);
}

/* Blocks of one warp take an assembler until something was launched. */
static bool
gpu_slow_finish(Device *d, Artefact *a)
{
	for (int ms = 0; a->threads == 32 && !atomic_load(&gpu_launches); ms++) {
		if (ms == 60 * 1000)
			return false;
		atomic_store(&gpu_waited, 1);
		nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
	}
	return true;
}

static void
open_gpu(Fixture *f)
{
	close_all(f);
	open_all(f, source);
	f->dev->dev.target = "sm_90a";
	f->dev->dev.load_artefact = gpu_load;
	f->dev->dev.unload = gpu_unload;
	f->dev->dev.launch = gpu_launch;
}

/* Candidates are compiled by threads, each once, and found in the cache the next time. */
static void
test_gpu(void **state)
{
	Fixture *f = *state;
	TglCacheInfo info;
	for (int round = 0; round < 2; round++) {
		open_gpu(f);
		for (int i = 16; i < 2048; i *= 2)
			script.time[i] = i == 16 * 4 ? 1e-3 : 2e-3; /* B = 16 of 256 rows */
		TglTune t = tune(f, "heavy", NULL, &(TglTuneOptions){.threads = 3, .no_keep = true});
		assert_int_equal(t.combinations, 36);
		int pruned = 0, same = 0, ran = 0;
		for (int i = 0; i < t.n; i++) {
			const TglTuneCandidate *c = &t.candidate[i];
			pruned += c->state == TGL_TUNE_PRUNED && strstr(c->why, "where");
			same += c->state == TGL_TUNE_PRUNED && strstr(c->why, "the same code as");
			ran += c->samples > 0;
			assert_true(c->state != TGL_TUNE_FAILED && c->state != TGL_TUNE_WRONG && c->state != TGL_TUNE_SKIPPED);
		}
		assert_int_equal(t.n, 37); /* the default lies outside of the set */
		assert_int_equal(pruned, 2 * (4 + 3 + 2));
		assert_true(same > 0); /* nothing here is pipelined: stages change nothing */
		assert_int_equal(ran + same + pruned, 37);
		assert_non_null(strstr(t.candidate[t.winner].values, "B = 16"));
		tgl_tune_close(&t);
		assert_int_equal(tgl_cache_info(f->cx, &info), TGL_OK);
		if (round == 0)
			assert_int_equal(info.compiled, 37 - pruned);
		else
			assert_true(info.compiled <= same && info.found >= ran);
	}
}

/* What needs too much shared memory, too many registers or threads is pruned, with the figures. */
static void
test_too_large(void **state)
{
	Fixture *f = *state;
	int found[3] = {0};
	const char *const says[] = {"bytes of shared memory; sm_90a has", "for each of 32 threads; at most", "'warps' must be"};
	open_gpu(f);
	TglTune t = tune(f, "wide", NULL, &(TglTuneOptions){.no_keep = true, .budget = 1000});
	for (int i = 0; i < t.n; i++) {
		assert_int_not_equal(t.candidate[i].state, TGL_TUNE_FAILED);
		for (int k = 0; k < LEN(says); k++)
			found[k] += t.candidate[i].state == TGL_TUNE_PRUNED && strstr(t.candidate[i].why, says[k]) != NULL;
	}
	assert_true(found[0] > 0 && found[1] > 0 && found[2] > 0);
	tgl_tune_close(&t);
}

/* The default is what a launch takes, which the compiler chooses: 32 warps by pass coalesce's rule, 8 by the model. */
static void
test_default_is_chosen(void **state)
{
	Fixture *f = *state;
	open_gpu(f);
	TglTune t = tune(f, "together", NULL, &(TglTuneOptions){.no_keep = true, .budget = 5});
	assert_true(t.n > 0 && t.candidate[0].is_default);
	assert_string_equal(t.candidate[0].values, "warps = 8");
	tgl_tune_close(&t);
}

static int64_t
named(const Bound *b, const char *name)
{
	Const v;
	assert_true(bound_value(b, name, &v));
	return v.i;
}

/* What the model expects least of is compiled and tried first: large tiles of a large product, behind the default. */
static void
test_order(void **state)
{
	Fixture *f = *state;
	open_gpu(f);
	Arena *mem = arena_open();
	TglTuneOptions o = {0};
	TglCase *c = tgl_case_open(f->dev, tgl_kernel(f->p, "product"), NULL);
	assert_non_null(c);
	Tuner t = {.c = c, .k = c->k, .dev = c->dev, .mem = mem, .options = &o, .start = device_clock(), .budget = 1e5};
	t.target = target_named("sm_90a");
	assert_true(tune_space(&t));
	assert_true(t.at.n >= 432 && t.order[0] == 0);
	bool seen[512] = {false};
	int known = 0;
	for (int k = 0; k < t.at.n; k++) {
		const Candidate *x = &t.at.at[t.order[k]];
		assert_false(seen[t.order[k]]);
		seen[t.order[k]] = true;
		if (k == 0 || x->cycles <= 0)
			continue;
		assert_true(known == k - 1);            /* those that are not modelled come last */
		assert_true(k == 1 || x->cycles >= t.at.at[t.order[k - 1]].cycles);
		known++;
		if (k <= 8)
			assert_true(named(&x->bound, "BM") >= (k <= 6 ? 128 : 64) && named(&x->bound, "BM") <= 128 &&
			    named(&x->bound, "BM") * named(&x->bound, "BN") >= 128 * 128);
	}
	assert_true(known > t.at.n / 2);
	tgl_case_close(&c);
	arena_close(mem);
}

/* A compilation that takes longer than there is does not hold up the others. */
static void
test_slow_to_compile(void **state)
{
	Fixture *f = *state;
	int skipped = 0;
	open_gpu(f);
	f->dev->dev.launch = gpu_count_launch;
	f->dev->dev.finish = gpu_slow_finish;
	TglTune t = tune(f, "heavy", NULL, &(TglTuneOptions){.threads = 3, .no_keep = true, .budget = 5});
	assert_int_equal(atomic_load(&gpu_waited), 1);
	assert_true(t.winner >= 0 && t.candidate[0].samples > 0);
	for (int i = 0; i < t.n; i++)
		if (t.candidate[i].state != TGL_TUNE_PRUNED && strstr(t.candidate[i].values, "warps = 1,"))
			skipped += t.candidate[i].state == TGL_TUNE_SKIPPED && strstr(t.candidate[i].why, "spent on compiling");
	assert_true(skipped > 0);
	tgl_tune_close(&t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_fastest_wins),
	    cmocka_unit_test(test_early_stopping),
	    cmocka_unit_test(test_slow_ones_first),
	    cmocka_unit_test(test_noise),
	    cmocka_unit_test(test_noise_covers),
	    cmocka_unit_test(test_failures_in_a_race),
	    cmocka_unit_test(test_deadline),
	    TEST(test_tuning),
	    TEST(test_authority),
	    TEST(test_other_text),
	    TEST(test_frozen),
	    TEST(test_wrong_and_failing),
	    TEST(test_wrong_far),
	    TEST(test_other_roundings),
	    TEST(test_forgotten_element),
	    TEST(test_error_bounds),
	    TEST(test_nothing_to_tune),
	    TEST(test_other_shapes),
	    TEST(test_stopped),
	    TEST(test_export),
	    TEST(test_useless_results), TEST(test_close_sizes),
	    TEST(test_gpu),
	    TEST(test_too_large),
	    TEST(test_default_is_chosen),
	    TEST(test_order),
	    TEST(test_slow_to_compile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
