/* Workers: one thread's slots, and running programs in them.
 *
 * The whole block is mapped at once and touched as it is used.  A tile size that a user chose can make it
 * larger than the machine; that is refused here, before the first touch, since the system would hand out
 * the addresses and kill the process later. */
#include "ir/interp/fast/fast.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct Temp {
	char *at;
	size_t bytes;
};

static int64_t
align_up(int64_t n)
{
	return (n + 63) / 64 * 64;
}

static int64_t
block_bytes(const Plan *p)
{
	int64_t n = align_up(p->bytes);

	if (__builtin_add_overflow(n, align_up(fast_strip_bytes(p)) + 128, &n) ||
	    __builtin_add_overflow(n, p->shared_bytes, &n))
		return INT64_MAX / 4;
	return n;
}

size_t
plan_scratch_bytes(const Plan *p)
{
	return (size_t)block_bytes(p);
}

/* NULL: the machine has not that much. */
static char *
memory_map(int64_t bytes)
{
	int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	if (pages > 0 && size > 0 && bytes / size >= pages / 10 * 9)
		return NULL;
	void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

Worker *
worker_open(const Plan *p)
{
	Worker *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->plan = p;
	w->mapped = (size_t)block_bytes(p);
	w->at = calloc((size_t)p->slot_bytes.n + 1, sizeof *w->at);
	w->block = memory_map((int64_t)w->mapped);
	if (!w->at || !w->block || !fast_worker_open(w)) {
		worker_close(w);
		return NULL;
	}
	for (int s = 0; s < p->slot_bytes.n; s++)
		w->at[s] = w->block + p->slot_offset[s];
	w->strip = w->block + align_up(p->bytes);
	w->shared = w->strip + align_up(fast_strip_bytes(p)) + 64;
	return w;
}

static void
end_program(Worker *w)
{
	if (w->plan->opt.gpu)
		w->plan->opt.gpu->end_program(w);
}

void
worker_close(Worker *w)
{
	if (!w)
		return;
	end_program(w);
	if (w->block)
		munmap(w->block, w->mapped);
	for (int i = 0; i < w->ntemps; i++)
		if (w->temp[i].at)
			munmap(w->temp[i].at, w->temp[i].bytes);
	free(w->temp);
	free(w->view);
	free(w->at);
	free(w);
}

/* The temporaries are a stack: each depth keeps the largest so far. */
char *
temp_take(Worker *w, const Op *op, int64_t bytes)
{
	if (w->depth == w->ntemps) {
		struct Temp *more = realloc(w->temp, sizeof *more * (size_t)(w->ntemps + 1));
		if (more) {
			w->temp = more;
			w->temp[w->ntemps++] = (struct Temp){NULL, 0};
		}
	}
	struct Temp *t = w->depth < w->ntemps ? &w->temp[w->depth] : NULL;
	if (t && t->bytes < (size_t)MAX(bytes, 1)) {
		if (t->at)
			munmap(t->at, t->bytes);
		t->bytes = ((size_t)MAX(bytes, 1) + 4095) / 4096 * 4096;
		t->at = memory_map((int64_t)t->bytes);
		if (!t->at)
			t->bytes = 0;
	}
	if (!t || !t->at) {
		fault_at(w, op, FAULT_MEMORY, "%s: no memory for %lld bytes", op_info[op->kind].text, (long long)bytes);
		return NULL;
	}
	w->depth++;
	return t->at;
}

bool
fault_at(Worker *w, const Op *op, FaultKind kind, const char *fmt, ...)
{
	Fault *f = w->fault;
	va_list ap;

	if (!f)
		return false;
	*f = (Fault){.kind = kind, .place = op ? op->place : NOWHERE, .other = NOWHERE};
	memcpy(f->program, w->program, sizeof f->program);
	va_start(ap, fmt);
	number_vformat(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return false;
}

static void
set_argument(const Worker *w, const Value *v, const PlanArg *arg)
{
	if (w->plan->slot[v->id] < 0)
		return;
	if (v->type->ptr != PTR_NONE)
		memcpy(value_at(w, v), &arg->data, sizeof arg->data);
	else if (dtype_is_float(v->type->elem))
		dtype_store_f64(v->type->elem, value_at(w, v), 0, arg->f);
	else
		dtype_store_i64(v->type->elem, value_at(w, v), 0, arg->i);
}

static void
find_program(Worker *w, int64_t linear)
{
	w->linear = linear;
	w->program[0] = linear % w->grid[0];
	w->program[1] = linear / w->grid[0] % w->grid[1];
	w->program[2] = linear / w->grid[0] / w->grid[1];
}

bool
plan_run(const Plan *p, Worker *w, Shadow *s, const PlanArg *args, const int64_t grid[MAX_AXES], int64_t first,
    int64_t count, Fault *fault)
{
	const Block *body = p->func->body;

	*fault = (Fault){.kind = FAULT_NONE, .place = NOWHERE, .other = NOWHERE};
	w->args = args;
	w->shadow = s;
	w->fault = fault;
	w->depth = w->untraced = 0;
	for (int a = 0; a < MAX_AXES; a++) {
		w->grid[a] = MAX(grid[a], 1);
		w->program[a] = 0;
	}
	if (count <= 0)
		return true;
	for (int i = 0; i < body->narg; i++)
		set_argument(w, &body->arg[i], &args[i]);
	bool well = !p->fast || fast_start(w);
	for (int64_t i = first; well && i < first + count; i++) {
		find_program(w, i);
		w->rng = p->opt.seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
		well = p->fast ? fast_run(w) : block_run(w, body);
		end_program(w);
	}
	stream_fence();
	return well;
}
