/* The interpreter's fast layer against the definitions of the ops, over the kernels of tests/fuzz/gen.c: memory and
 * printed lines are equal to the bit, NaNs too.  With a step of the fast layer left out, or two live ranges in one
 * slot, they differ, so that the comparison is known to fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../fuzz/ir_run.h"
#include "ir/interp/fast/fast.h"

#include <stdlib.h>
#include <string.h>

enum { KERNELS = 1500, MUTATED = 300 };

static Memory *
memory_open(uint64_t seed)
{
	Memory *mem = aligned_alloc(64, sizeof *mem);

	mem->lines = (Text){0};
	memory_fill(mem, seed);
	return mem;
}

static void
memory_close(Memory *mem)
{
	text_close(&mem->lines);
	free(mem);
}

static Module *
kernel_of(Compile *cx, uint64_t seed)
{
	Input in;

	input_make(&in, seed);
	return gen_module(cx, (Bytes){in.bytes, in.bytes + in.n});
}

static void
fast_is_plain(void **state)
{
	static const uint64_t found[] = {
		13449,                                  /* a branch gives one value twice, and its slot is a result's */
	};

	(void)state;
	for (int n = 1; n <= KERNELS + LEN(found); n++) {
		uint64_t seed = n <= KERNELS ? (uint64_t)n : found[n - KERNELS - 1];
		static const PlanOptions options[] = {{.plain = true}, {0}, {.plain = true, .base = true}, {.base = true}};
		Compile *cx = compile_open();
		Module *m = kernel_of(cx, seed);
		Memory *mem[4];
		for (int i = 0; i < 4; i++) {
			mem[i] = memory_open(seed);
			assert_true(run(m, mem[i], options[i]));
		}
		for (int i = 0; i < 4; i += 2)
			if (!same_bits(mem[i], mem[i + 1]))
				fail_msg("seed %llu%s: fuzz_ir --seed=%llu --count=1 --show", (unsigned long long)seed,
				    i ? ", loops for any CPU" : "", (unsigned long long)seed);
		for (int i = 0; i < 4; i++)
			memory_close(mem[i]);
		compile_close(cx);
	}
}

/* Leaves out a step of the body that fills the slot of a tile, or stores. */
static bool
drop_step(Plan *p, uint64_t draw)
{
	Code *c = &p->fast->code_body;

	for (int i = 0; i < c->n; i++) {
		int at = (int)((draw + (uint64_t)i) % (uint64_t)c->n);
		const Op *op = c->at[at]->op;
		bool fills = op->nout == 1 && op->out[0].type->rank > 0 && storage_of(p, &op->out[0]).kind == STORE_SLOT;
		if (!fills && !(op_info[op->kind].traits & WRITES))
			continue;
		memmove(&c->at[at], &c->at[at + 1], sizeof *c->at * (size_t)(c->n - at - 1));
		c->n--;
		return true;
	}
	return false;
}

/* A slot of a tile of numbers.  One of pointers would be checked, overwritten and followed. */
static bool
holds_numbers(const Plan *p, int slot)
{
	const Block *body = p->func->body;

	for (Op *op = body->first; op; op = op_after(op, body))
		for (int i = 0; i < op->nout; i++)
			if (p->slot[op->out[i].id] == slot && op->out[i].type->ptr != PTR_NONE)
				return false;
	return p->slot_bytes.at[slot] > 8;
}

/* Puts two slots of one size into one memory: live ranges that overlap. */
static bool
join_slots(Plan *p, uint64_t draw)
{
	int n = p->slot_bytes.n, first = (int)(draw % (uint64_t)n);

	for (int i = 0; i < n; i++)
		for (int a = (first + i) % n, b = a + 1; b < n && holds_numbers(p, a); b++)
			if (p->slot_bytes.at[a] == p->slot_bytes.at[b] && holds_numbers(p, b)) {
				p->slot_offset[b] = p->slot_offset[a];
				return true;
			}
	return false;
}

/* Of the kernels whose plan could be changed so, the share that then leave something else than the definitions. */
static double
noticed(const char *what, bool (*mutate)(Plan *p, uint64_t draw))
{
	int made = 0, differ = 0;

	for (uint64_t seed = 1; seed <= MUTATED; seed++) {
		Compile *cx = compile_open();
		Module *m = kernel_of(cx, seed);
		Memory *plain = memory_open(seed), *fast = memory_open(seed);
		PlanOptions opt = {.print = on_print, .user = &fast->lines};
		const char *why;
		Plan *p = plan_open(m->funcs.at[0], &opt, &why);
		assert_non_null(p);
		if (mutate(p, seed * 7919)) {
			made++;
			assert_true(run(m, plain, (PlanOptions){.plain = true}));
			memory_run(p, fast);
			differ += !same_bits(plain, fast);
		}
		plan_close(p);
		memory_close(plain);
		memory_close(fast);
		compile_close(cx);
	}
	print_message("%s: %d of %d kernels differ\n", what, differ, made);
	assert_true(made > MUTATED / 2);
	return (double)differ / made;
}

static void
mutations_are_noticed(void **state)
{
	(void)state;
	assert_true(noticed("a step left out", drop_step) > 0.4);
	assert_true(noticed("two live ranges in one slot", join_slots) > 0.25);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_is_plain),
		cmocka_unit_test(mutations_are_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
