/* The interpreter's fast layer against the definitions of the ops, over the kernels of tests/fuzz/gen.c: memory and
 * printed lines are equal to the bit, NaNs too.  With a step of the fast layer left out, or two live ranges in one
 * slot, they differ, so that the comparison is known to fail.  Few kernels put a wrong live range to use, so that those
 * of what edges assign are looked at as well. */
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
		100693,                                 /* a branch's result is unused, and its slot is another result's source's */
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

static Module *
module_of(Compile *cx, const char *text)
{
	int file = source_text(cx, "test.tir", text, strlen(text));
	Module *m = module_parse(cx, file);

	assert_non_null(m);
	assert_null(module_verify(m));
	return m;
}

/* A branch assigns its first result, which nothing uses, at the end of its sides: by a copy, and by an exchange of slots. */
static void
unused_result_keeps_its_slot(void **state)
{
	static const char head[] = "kernel @f(%t0: in f32[R, C], %t1: in i32[R, C], %t2: inout f16[R, C = 7], "
	    "%t3: out f32[R, C], %t4: out i64[R, C], %t5: inout u8[R, C], %p0: *mut i32, %p1: *mut f32, %n: i32, %a: f32, "
	    "%R: dim, %C: dim) grid(i) {\n"
	    "  %0 = const {value = 0} : i64\n"
	    "  %1 = read %t2, %0, %0 {index = \"pp\", extents = [2, 3]} : f16[2, 3]\n"
	    "  %2 = const {value = 9.0} : f16[2, 3]\n"
	    "  %3 = program_id {axis = 0} : i64\n"
	    "  %4 = eq %3, %0 : bool\n"
	    "  %5, %6 = if %4 : f16[2, 3], f16[2, 3] then {\n"
	    "    %7 = ceil %1 : f16[2, 3]\n"
	    "    print %7 {text = \"first\"}\n"
	    "    %8 = floor %1 : f16[2, 3]\n";
	static const char *const yields[] = {"yield %2, %7", "yield %2, %8", "yield %7, %8", "yield %8, %7"};

	(void)state;
	for (int i = 0; i < LEN(yields); i++) {
		Compile *cx = compile_open();
		Memory *plain = memory_open(1), *fast = memory_open(1);
		Text text = {0};
		text_printf(&text, "%s    %s\n  } else {\n    yield %%2, %%1\n  }\n  print %%6 {text = \"used\"}\n}\n", head,
		    yields[i]);
		Module *m = module_of(cx, text.at);
		assert_true(run(m, plain, (PlanOptions){.plain = true}));
		assert_true(run(m, fast, (PlanOptions){0}));
		assert_non_null(strstr(plain->lines.at, "used"));
		if (!same_bits(plain, fast))
			fail_msg("%s:\n%s---\n%s", yields[i], plain->lines.at, fast->lines.at);
		text_close(&text);
		memory_close(plain);
		memory_close(fast);
		compile_close(cx);
	}
}

/* What an edge assigns is live there, whether or not something uses it: until then no other value has its slot. */
static void
destinations_are_live(void **state)
{
	int moves = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= KERNELS; seed++) {
		Compile *cx = compile_open();
		const char *why;
		Plan *p = plan_open(kernel_of(cx, seed)->funcs.at[0], &(PlanOptions){0}, &why);
		assert_non_null(p);
		for (int i = 0; i < p->fast->order.n; i++) {
			const Node *n = p->fast->order.at[i];
			moves += n->move.n;
			for (int k = 0; k < n->move.n; k++) {
				const Web *w = &p->fast->web.at[value_info(p, n->move.at[k].dst)->web];
				if (w->from > 2 * n->pos + 1 || w->to < 2 * n->pos + 1)
					fail_msg("seed %llu: node %d assigns %%%d, which lives from %d to %d",
					    (unsigned long long)seed, n->pos, n->move.at[k].dst->id, w->from, w->to);
			}
		}
		plan_close(p);
		compile_close(cx);
	}
	assert_true(moves > KERNELS);
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
		cmocka_unit_test(unused_result_keeps_its_slot),
		cmocka_unit_test(destinations_are_live),
		cmocka_unit_test(mutations_are_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
