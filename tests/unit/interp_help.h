/* What the tests of the interpreter share: running a function of tile IR text over arrays.
 *
 * Every run is made three times: as it is, with a trace (which turns off views and groups) and sanitizing.
 * All must leave the same bytes, so that each test also proves that fusing changes nothing. */
#ifndef INTERP_HELP_H
#define INTERP_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/interp/gpu.h"
#include "ir/ir.h"

typedef struct Buffer {
	PlanArg arg;
	size_t bytes;                                   /* 0: a scalar */
} Buffer;

static inline Buffer
tensor_of(void *data, size_t bytes, int rank, const int64_t *dim)
{
	Buffer b = {.arg = {.data = data, .low = data, .high = (char *)data + bytes}, .bytes = bytes};
	int64_t step = 1;

	for (int d = rank - 1; d >= 0; d--) {
		b.arg.dim[d] = dim[d];
		b.arg.stride[d] = step;
		step *= dim[d];
	}
	return b;
}

#define DIMS(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}
#define TENSOR(data, ...) tensor_of((data), sizeof(data), DIMS(__VA_ARGS__))
#define SCALAR(x) ((Buffer){.arg = {.i = (int64_t)(x), .f = (double)(x)}})

static inline Module *
parse_module(Compile *cx, const char *text)
{
	int file = source_text(cx, "test.tir", text, strlen(text));
	Module *m = file < 0 ? NULL : module_parse(cx, file);
	const char *wrong = m ? module_verify(m) : NULL;
	Text out = {0};

	if (!m || wrong) {
		diag_print(cx, &out, 0, false);
		fail_msg("%s%s", out.at ? out.at : "", wrong ? wrong : "");
	}
	return m;
}

static inline void
ignore_trace(void *user, const Op *op, const int64_t program[MAX_AXES], int out, const void *data)
{
	(void)user, (void)op, (void)program, (void)out, (void)data;
}

/* Runs the module's first function once; `fault` is what came of it. */
static inline void
run_once(Module *m, const PlanOptions *opt, Buffer *buffers, int n, const int64_t grid[3], Fault *fault)
{
	PlanArg args[32];
	const char *why = NULL;
	PlanOptions with = opt ? *opt : (PlanOptions){0};
	with.gpu = &gpu_ops;
	Plan *p = plan_open(m->funcs.at[0], &with, &why);

	if (!p)
		fail_msg("plan: %s", why);
	for (int i = 0; i < n; i++)
		args[i] = buffers[i].arg;
	Worker *w = worker_open(p);
	assert_non_null(w);
	Shadow *s = shadow_open(p, args);
	plan_run(p, w, s, args, grid, 0, grid[0] * grid[1] * grid[2], fault);
	shadow_close(s);
	worker_close(w);
	plan_close(p);
}

static inline void
save_buffers(Buffer *b, int n, char **copy)
{
	for (int i = 0; i < n; i++) {
		copy[i] = malloc(b[i].bytes + 1);
		memcpy(copy[i], b[i].arg.data ? b[i].arg.data : "", b[i].bytes);
	}
}

static inline void
restore_buffers(Buffer *b, int n, char **copy)
{
	for (int i = 0; i < n; i++)
		if (b[i].bytes)
			memcpy(b[i].arg.data, copy[i], b[i].bytes);
}

static inline Fault
run_ways(const char *text, Buffer *b, int n, int64_t g0, int64_t g1, int64_t g2, bool sanitize)
{
	const int64_t grid[3] = {g0, g1, g2};
	Compile *cx = compile_open();
	Module *m = parse_module(cx, text);
	char *before[32], *after[32];
	PlanOptions ways[4] = {{0}, {.trace = ignore_trace}, {.plain = true}, {.sanitize = true}};
	Fault fault[4];

	save_buffers(b, n, before);
	for (int i = 0; i < (sanitize ? 4 : 3); i++) {
		restore_buffers(b, n, before);
		run_once(m, &ways[i], b, n, grid, &fault[i]);
		if (i == 0)
			save_buffers(b, n, after);
		if (fault[i].kind != fault[0].kind)
			fail_msg("way %d: fault %d %s; way 0: %d %s", i, fault[i].kind, fault[i].text, fault[0].kind, fault[0].text);
		for (int k = 0; k < n && fault[0].kind == FAULT_NONE; k++)
			if (b[k].bytes && memcmp(b[k].arg.data, after[k], b[k].bytes) != 0)
				fail_msg("way %d leaves other bytes in argument %d than way 0", i, k);
	}
	restore_buffers(b, n, after);
	for (int i = 0; i < n; i++) {
		free(before[i]);
		free(after[i]);
	}
	compile_close(cx);
	return fault[0];
}

#define RUN(tir, grid, ...)                                                                        \
	do {                                                                                       \
		Buffer buffers_[] = {__VA_ARGS__};                                                 \
		Fault fault_ = run_ways(tir, buffers_, LEN(buffers_), grid, 1, 1, true);          \
		if (fault_.kind != FAULT_NONE)                                                     \
			fail_msg("fault: %s", fault_.text);                                        \
	} while (0)

#endif
