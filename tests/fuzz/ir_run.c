/* The kernels of gen.c on the interpreter. */
#include "ir_run.h"
#include "tests/interp/gpu.h"

#include <math.h>
#include <string.h>

uint64_t
rng_next(Rng *r)
{
	r->state += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = r->state;
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

int
rng_below(Rng *r, int n)
{
	return (int)(rng_next(r) % (uint64_t)n);
}

void
input_make(Input *in, uint64_t seed)
{
	Rng r = {seed};

	in->seed = seed;
	in->n = 40 + rng_below(&r, MAX_BYTES - 40);
	for (int i = 0; i < in->n; i++)
		in->bytes[i] = (uint8_t)rng_next(&r);
}

void
memory_fill(Memory *mem, uint64_t seed)
{
	Rng r = {seed};

	memset(mem->tensor, 0, sizeof mem->tensor);
	for (int i = 0; i < GEN_TENSORS; i++)
		for (int k = 0; k < CELLS; k++) {
			int v = rng_below(&r, 41) - 20;
			if (gen_tensor_access(i) == ACCESS_OUT)
				continue;
			if (dtype_is_float(gen_tensor_type(i)))
				dtype_store_f64(gen_tensor_type(i), mem->tensor[i], k, v / 4.0);
			else
				dtype_store_i64(gen_tensor_type(i), mem->tensor[i], k, v);
		}
	for (int k = 0; k < GEN_POINTED; k++) {
		dtype_store_i64(TY_I32, mem->pointed[0], k, k * 3 - 50);
		dtype_store_f64(TY_F32, mem->pointed[1], k, k * 0.25 - 4);
	}
}

void
on_print(void *user, const char *line)
{
	text_printf(user, "%s\n", line);
}

void
memory_run(const Plan *plan, Memory *mem)
{
	PlanArg arg[GEN_TENSORS + GEN_POINTERS + 4] = {0};
	Fault fault = {0};

	for (int i = 0; i < GEN_TENSORS; i++)
		arg[i] = (PlanArg){.data = mem->tensor[i], .dim = {GEN_ROWS, GEN_COLS}, .stride = {GEN_COLS, 1},
		    .low = (char *)mem->tensor[i], .high = (char *)mem->tensor[i] + sizeof mem->tensor[i]};
	for (int i = 0; i < GEN_POINTERS; i++)
		arg[GEN_TENSORS + i] = (PlanArg){.data = mem->pointed[i], .low = (char *)mem->pointed[i],
		    .high = (char *)mem->pointed[i] + sizeof mem->pointed[i]};
	arg[GEN_TENSORS + GEN_POINTERS].i = 5;
	arg[GEN_TENSORS + GEN_POINTERS + 1].f = 0.75;
	arg[GEN_TENSORS + GEN_POINTERS + 2].i = GEN_ROWS;
	arg[GEN_TENSORS + GEN_POINTERS + 3].i = GEN_COLS;
	Worker *w = worker_open(plan);
	if (!plan_run(plan, w, NULL, arg, (int64_t[MAX_AXES]){GEN_GRID, 1, 1}, 0, GEN_GRID, &fault))
		text_printf(&mem->lines, "fault: %s\n", fault.text);
	worker_close(w);
}

bool
run(Module *m, Memory *mem, PlanOptions opt)
{
	const char *why = NULL;

	opt.print = on_print;
	opt.user = &mem->lines;
	opt.gpu = &gpu_ops;
	Plan *plan = plan_open(m->funcs.at[0], &opt, &why);
	if (!plan) {
		fprintf(stderr, "no plan: %s\n", why);
		return false;
	}
	memory_run(plan, mem);
	plan_close(plan);
	return true;
}

bool
same_elements(DType t, const void *a, const void *b, int n)
{
	for (int i = 0; i < n; i++) {
		if (!dtype_is_float(t)) {
			if (dtype_load_i64(t, a, i) != dtype_load_i64(t, b, i))
				return false;
			continue;
		}
		double x = dtype_load_f64(t, a, i), y = dtype_load_f64(t, b, i);
		if (isnan(x) != isnan(y) || (!isnan(x) && (x != y || signbit(x) != signbit(y))))
			return false;
	}
	return true;
}

static void
drop_nan_signs(char *s)
{
	for (char *at = s; at && (at = strstr(at, "-nan")); at++)
		*at = ' ';
}

bool
same_memory(Memory *a, Memory *b)
{
	for (int i = 0; i < GEN_TENSORS; i++)
		if (!same_elements(gen_tensor_type(i), a->tensor[i], b->tensor[i], CELLS)) {
			fprintf(stderr, "tensor t%d differs\n", i);
			return false;
		}
	for (int i = 0; i < GEN_POINTERS; i++)
		if (!same_elements(i ? TY_F32 : TY_I32, a->pointed[i], b->pointed[i], GEN_POINTED)) {
			fprintf(stderr, "memory of p%d differs\n", i);
			return false;
		}
	drop_nan_signs(a->lines.at);
	drop_nan_signs(b->lines.at);
	if (strcmp(a->lines.at ? a->lines.at : "", b->lines.at ? b->lines.at : "") == 0)
		return true;
	fprintf(stderr, "printed lines differ:\n%s---\n%s", a->lines.at ? a->lines.at : "",
	    b->lines.at ? b->lines.at : "");
	return false;
}

bool
same_bits(const Memory *a, const Memory *b)
{
	return memcmp(a->tensor, b->tensor, sizeof a->tensor) == 0 && memcmp(a->pointed, b->pointed, sizeof a->pointed) == 0 &&
	    strcmp(a->lines.at ? a->lines.at : "", b->lines.at ? b->lines.at : "") == 0;
}
