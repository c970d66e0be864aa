/* Workers: one thread's registers, and running programs in them.
 *
 * The whole block is mapped at once and touched as it is used.  A tile size that a user chose can make it
 * larger than the machine; that is refused here, before the first touch, since the system would hand out
 * the addresses and kill the process later. */
#include "ir/interp/plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int64_t
align_up(int64_t n)
{
	return (n + 63) / 64 * 64;
}

static int64_t
block_bytes(const Plan *p)
{
	int64_t n = align_up(p->bytes);

	if (__builtin_add_overflow(n, align_up(p->temp), &n) ||
	    __builtin_add_overflow(n, align_up(p->strips) + 128, &n) || __builtin_add_overflow(n, p->shared, &n))
		return INT64_MAX / 4;
	return n;
}

size_t
plan_scratch_bytes(const Plan *p)
{
	return (size_t)block_bytes(p);
}

static bool
fits_in_memory(int64_t bytes)
{
	int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages <= 0 || size <= 0 || bytes / size < pages / 10 * 9;
}

Worker *
worker_open(const Plan *p)
{
	int64_t bytes = block_bytes(p);
	Worker *w = calloc(1, sizeof *w);

	if (!w)
		return NULL;
	w->plan = p;
	w->mapped = (size_t)bytes;
	w->reg = calloc((size_t)p->reg.n + 1, sizeof *w->reg);
	w->view = calloc((size_t)p->nview + 1, sizeof *w->view);
	w->block = MAP_FAILED;
	if (fits_in_memory(bytes))
		w->block = mmap(NULL, w->mapped, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!w->reg || !w->view || w->block == MAP_FAILED) {
		worker_close(w);
		return NULL;
	}
	for (int r = 0; r < p->reg.n; r++)
		w->reg[r] = w->block + p->reg_at[r];
	w->temp = w->block + align_up(p->bytes);
	w->strip = w->temp + align_up(p->temp);
	w->shared = w->strip + align_up(p->strips) + 64;
	return w;
}

void
worker_close(Worker *w)
{
	if (!w)
		return;
	if (w->block != MAP_FAILED)
		munmap(w->block, w->mapped);
	flights_drop(w);
	free(w->view);
	free(w->reg);
	free(w);
}

Worker *
worker_clone(const Worker *w)
{
	const Plan *p = w->plan;
	Worker *c = worker_open(p);

	if (!c)
		return NULL;
	memcpy(c->block, w->block, (size_t)align_up(p->bytes));
	for (int r = 0; r < p->reg.n; r++)
		c->reg[r] = c->block + (w->reg[r] - w->block);
	memcpy(c->view, w->view, sizeof *c->view * (size_t)p->nview);
	c->shared = w->shared;
	c->ready = w->ready;
	c->args = w->args;
	c->shadow = w->shadow;
	c->fault = w->fault;
	memcpy(c->grid, w->grid, sizeof c->grid);
	memcpy(c->program, w->program, sizeof c->program);
	c->linear = w->linear;
	c->rng = w->rng;
	return c;
}

static void
place_scalar(const Worker *w, const Value *v, const PlanArg *arg)
{
	const Home h = value_home(w->plan, v);

	if (h.kind != HOME_REG)
		return;
	if (v->type->ptr != PTR_NONE)
		memcpy(w->reg[h.reg], &arg->data, sizeof arg->data);
	else if (dtype_is_float(v->type->elem))
		dtype_store_f64(v->type->elem, w->reg[h.reg], 0, arg->f);
	else
		dtype_store_i64(v->type->elem, w->reg[h.reg], 0, arg->i);
}

static bool
start_launch(Worker *w)
{
	const Plan *p = w->plan;
	const Block *body = p->func->body;

	w->program[0] = w->program[1] = w->program[2] = 0;
	for (int i = 0; i < body->narg; i++)
		place_scalar(w, &body->arg[i], &w->args[i]);
	if (!w->ready && !code_run(w, &p->code_once))
		return false;
	w->ready = true;
	return code_run(w, &p->code_launch);
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
	*fault = (Fault){.kind = FAULT_NONE, .place = NOWHERE, .other = NOWHERE};
	w->args = args;
	w->shadow = s;
	w->fault = fault;
	for (int a = 0; a < MAX_AXES; a++)
		w->grid[a] = MAX(grid[a], 1);
	if (count <= 0)
		return true;
	if (!start_launch(w))
		return false;
	bool well = true;
	for (int64_t i = first; well && i < first + count; i++) {
		find_program(w, i);
		w->rng = p->opt.seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
		well = code_run(w, &p->code_body);
		flights_drop(w);
	}
	stream_fence();
	return well;
}
