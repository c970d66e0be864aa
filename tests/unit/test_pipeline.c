/* Pipelined loops compute what they computed before, whatever the number of trips; so does what smem and barrier leave. */
#include "interp_help.h"

#include "pass/pass.h"
#include "target/target.h"

enum { M = 16, N = 16, KMAX = 128 };

static const char matmul[] =
    "facts(TYPED, LAYOUTS)\n"
    "layout #0 = blocked(shape = [16, 16], per_thread = [1, 4], lanes = [8, 4], warps = [2, 1])\n"
    "layout #1 = blocked(shape = [16, 16], per_thread = [4, 1], lanes = [4, 8], warps = [1, 2], order = [0, 1])\n"
    "kernel @matmul(%x: in f32[16, K], %w: in f32[K, 16], %y: out f32[16, 16], %K: dim, %lo: i64) warps(2) STAGES {\n"
    "	%0 = const {value = 0} : i64\n"
    "	%16 = const {value = 16} : i64\n"
    "	%z = const {value = 0.0} : f32[16, 16] #0\n"
    "	%r = for %lo, %K, %16, %z : f32[16, 16] #0 do (%k: i64, %acc: f32[16, 16] #0) {\n"
    "		%a = read %x, %0, %k {index = \"pp\", extents = [16, 16], vector = 4, valid = [16, 15]} : f32[16, 16] #0\n"
    "		%b = read %w, %k, %0 {index = \"pp\", extents = [16, 16], vector = 4} : f32[16, 16] #0\n"
    "		%n = neg %a : f32[16, 16] #0\n"
    "		%t = permute %n {dims = [1, 0]} : f32[16, 16] #1\n"
    "		%tc = convert %t : f32[16, 16] #0\n"
    "		%bc = convert %b : f32[16, 16] #1\n"
    "		%ac = convert %a : f32[16, 16] #1\n"
    "		%d = dot %ac, %bc, %acc : f32[16, 16] #0\n"
    "		%e = dot %tc, %bc, %d : f32[16, 16] #0\n"
    "		%f = add %e, %b : f32[16, 16] #0\n"
    "		yield %f\n"
    "	}\n"
    "	write %y, %0, %0, %r {index = \"pp\", extents = [16, 16]}\n"
    "}\n";

static char *
with_stages(const char *stages)
{
	const char *at = strstr(matmul, "STAGES");
	char *text = malloc(sizeof matmul + 16);

	sprintf(text, "%.*s%s%s", (int)(at - matmul), matmul, stages, at + 6);
	return text;
}

/* Runs the text for K columns, after the passes named (NULL: none) for a target. */
static void
run_text(const char *text, const char *target, const char *passes, int64_t k, int64_t lo, float *y)
{
	const int64_t grid[3] = {1, 1, 1};
	static const PlanOptions plain;
	Compile *cx = compile_open();
	Module *m = parse_module(cx, text);
	float *x = calloc(M * KMAX, sizeof *x), *w = calloc(KMAX * N, sizeof *w);
	Fault fault;

	for (int i = 0; i < M * KMAX; i++)
		x[i] = (float)(i % 13) - 6;
	for (int i = 0; i < KMAX * N; i++)
		w[i] = (float)(i % 11) - 5;
	if (passes) {
		PassOptions opt = {.only = passes, .verify = true};
		Text out = {0};
		if (!passes_run(m, target_named(target), &opt)) {
			diag_print(cx, &out, 0, false);
			fail_msg("%s", out.at);
		}
		const Func *f = m->funcs.at[0];
		bool changed = false;
		for (const Op *op = f->body->first; op; op = op_after(op, f->body))
			changed = changed || op->kind == OP_GET;
		assert_true(changed);
	}
	Buffer b[] = {
	    tensor_of(x, sizeof *x * M * (size_t)k, DIMS(M, k)), tensor_of(w, sizeof *w * (size_t)k * N, DIMS(k, N)),
	    tensor_of(y, sizeof *y * M * N, DIMS(M, N)), SCALAR(k), SCALAR(lo),
	};
	run_once(m, &plain, b, LEN(b), grid, &fault);
	assert_int_equal(fault.kind, FAULT_NONE);
	free(x);
	free(w);
	compile_close(cx);
}

static void
same_results(void **state)
{
	static const char *const stages[] = {"", "stages(1)", "stages(2)", "stages(3)", "stages(5)"};
	static const char *const targets[] = {"sm_75", "sm_80", "sm_90a"};
	static const char *const passes[] = {"pipeline", "pipeline,smem,barrier"};
	static const int64_t ks[] = {0, 5, 16, 32, 41, 48, 64, 128};

	for (int s = 0; s < LEN(stages); s++) {
		char *text = with_stages(stages[s]);
		for (int k = 0; k < LEN(ks); k++) {
			float want[M * N] = {0}, got[M * N];
			run_text(text, NULL, NULL, ks[k], k & 1, want);
			for (int t = 0; t < LEN(targets); t++)
				for (int p = 0; p < LEN(passes); p++) {
					memset(got, 0, sizeof got);
					run_text(text, targets[t], passes[p], ks[k], k & 1, got);
					if (memcmp(got, want, sizeof got) != 0)
						fail_msg("%s %s %s K = %d", stages[s], targets[t], passes[p], (int)ks[k]);
				}
		}
		free(text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
