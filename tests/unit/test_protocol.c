/* Rings of mbarriers, parted or not, as the passes leave them are good, and each of them with one mistake is refused: an op of the
 * protocol that is missing, done twice, moved or given another figure, a counter that does not count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "ir/ir.h"
#include "pass/pass.h"
#include "target/target.h"

static const char *const files[] = {"tests/pass/roles/attention.out", "tests/pass/roles/backward.out",
    "tests/pass/roles/cluster.out", "tests/pass/roles/cluster_both.out", "tests/pass/roles/sum.out",
    "tests/pass/skew/attention.out", "tests/pass/join/attention.out", "tests/pass/guard/nest.out",
    "tests/pass/relax/scale.out", "tests/pass/smem/roles.out", "tests/pass/warpgroup/matmul.out",
    "tests/pass/pipeline/early.out"};

/* ---- mistakes: false where the op is not one to make it in ---- */

typedef bool Mistake(Module *m, Op *op);

static bool
is_handing(const Op *op)
{
	return op->kind == OP_AWAIT || op->kind == OP_EXPECT || op->kind == OP_ARRIVE;
}

static bool
is_counted(const Op *op)
{
	return op->kind == OP_COPY && access_data(op) + 2 < op->nin;
}

/* A wait that stood before in its block: it is over at once (skew). */
static bool
is_again(const Op *op)
{
	for (const Op *was = op->prev; was; was = was->prev)
		if (op->kind == OP_AWAIT && was->kind == OP_AWAIT && memcmp(was->in, op->in, 3 * sizeof *op->in) == 0)
			return true;
	return false;
}

/* The first wait of a producer for a slot of its loop's, behind one for the queries' slot: the program that read the last has
 * read both (join). */
static bool
is_implied(const Op *op)
{
	const Op *branch = op->home->parent;
	if (op->kind != OP_AWAIT || op->next->kind != OP_EXPECT || branch->kind != OP_IF || branch->home->parent->kind != OP_IF)
		return false;
	return block_find(branch->home, OP_AWAIT)->home == branch->home;
}

static bool
drop(Module *m, Op *op)
{
	if (is_again(op) || is_implied(op))
		return false;
	if (!is_handing(op) && (!is_counted(op) || op->out[0].nuses))
		return false;
	op_erase(op);
	return true;
}

static bool
repeat(Module *m, Op *op)
{
	Builder b = {.m = m, .block = op->home, .before = op, .place = op->place};
	if (op->kind != OP_EXPECT && op->kind != OP_ARRIVE && !is_counted(op))
		return false;
	op_make(&b, op->kind, op->in, op->nin, op->attr, op->nattr, op->nout ? (const Type *[]){op->out[0].type} : NULL, op->nout);
	return true;
}

static bool
turn_parity(Module *m, Op *op)
{
	Builder b = {.m = m, .block = op->home, .before = op, .place = op->place};
	if (op->kind != OP_AWAIT)
		return false;
	op_set_in(op, 2, build2(&b, OP_SUB, build_index(&b, 1), op->in[2]));
	return true;
}

/* A wait comes last in its block, an arrival first, an expectation of bytes behind the loop. */
static bool
move(Module *m, Op *op)
{
	if (op->kind == OP_AWAIT && op->next->kind != OP_YIELD && !is_again(op) && !is_implied(op))
		op_move(op, op->home, op->home->last);
	else if (op->kind == OP_ARRIVE)
		op_move(op, op->home, op->home->first);
	else
		return false;
	return true;
}

static bool
miscount(Module *m, Op *op)
{
	if (op->kind == OP_MBARRIER)
		attr_set_count(m, op, attr_count(op) + 1);
	else if (op->kind == OP_EXPECT)
		attr_set_bytes(m, op, attr_bytes(op) - 16);
	else if (op->kind == OP_ARRIVE && *attr_by(op))
		attr_set_by(m, op, "");
	else
		return false;
	return true;
}

static bool
count_less(Module *m, Op *op)
{
	if (op->kind != OP_MBARRIER || attr_count(op) < 2)
		return false;
	attr_set_count(m, op, attr_count(op) - 1);
	return true;
}

/* A product that is not waited for at all. */
static bool
leave_product(Module *m, Op *op)
{
	if (op->kind != OP_DOT_WAIT)
		return false;
	attr_set_left(m, op, attr_left(op) + 2);
	return true;
}

static bool
is_filled(const Func *f, const Op *alloc)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (is_counted(op) && buffer_owner(op->in[access_data(op)]) == alloc)
			return true;
	return false;
}

static bool
take_slot(Module *m, Op *op)
{
	const Type *t = op->nout ? op->out[0].type : NULL;
	if (op->kind == OP_MBARRIER && t->slots > 1)
		op->out[0].type = type_mbarrier(m, t->slots - 1);
	else if (op->kind == OP_ALLOC && t->slots > 1 && is_filled(op->home->func, op))
		op->out[0].type = type_buffer(m, t->elem, t->slots - 1, t->rank, t->extent);
	else
		return false;
	return true;
}

/* A block alone hears of what is the cluster's.  (Of a copy that goes to rank 0's mask alone, each block copies all of it.) */
static bool
keep_alone(Module *m, Op *op)
{
	if (op->kind != OP_ARRIVE || !attr_mask(op))
		return false;
	attr_set_mask(m, op, 1);
	return true;
}

/* Is the parity waited for, or the other one? */
static bool
is_phase(const Value *v)
{
	return ANY_OP(op, v->block, (op->kind == OP_AWAIT && op->in[2] == v) || (op->kind == OP_SUB && op->in[1] == v));
}

/* The last phase that a loop carries stays as it was in the trip. */
static bool
stop_phase(Module *m, Op *op)
{
	const Op *loop = op->kind == OP_YIELD ? op->home->parent : NULL;
	bool stops = false;
	if (!loop || loop->kind != OP_FOR)
		return false;
	for (int i = loop->nout; i-- > 0 && !stops;) {
		Value *arg = &op->home->arg[1 + i];
		stops = arg->type->rank == 0 && arg->type->elem == TY_I64 && is_phase(arg);
		if (stops)
			op_set_in(op, i, arg);
	}
	return stops;
}

static const struct { Mistake *make; const char *name; } mistakes[] = {
	{drop, "dropped"}, {repeat, "done twice"}, {turn_parity, "another phase"}, {move, "moved"}, {miscount, "another count"},
	{count_less, "a smaller count"}, {leave_product, "product left running"}, {take_slot, "one slot less"},
	{keep_alone, "alone"}, {stop_phase, "a phase that stands still"},
};

/* ---- trials ---- */

static Module *
parse_file(Compile *cx, const char *path)
{
	int file = source_open(cx, path, NOWHERE);
	Module *m = file < 0 ? NULL : module_parse(cx, file);
	if (!m)
		fail_msg("%s does not parse", path);
	return m;
}

static Op *
op_at(Module *m, int n)
{
	Block *body = m->funcs.at[0]->body;
	Op *op = body->first;
	while (op && n-- > 0)
		op = op_after(op, body);
	return op;
}

/* Has the protocol to do with such ops? */
static bool
may_be_wrong(OpKind k)
{
	return k == OP_AWAIT || k == OP_EXPECT || k == OP_ARRIVE || k == OP_COPY || k == OP_MBARRIER || k == OP_ALLOC ||
	    k == OP_DOT_WAIT || k == OP_YIELD;
}

/* One mistake in op number n.  True: it was made; *missed counts those that were not found. */
static bool
trial(const char *path, int mistake, int n, int *missed)
{
	Compile *cx = compile_open();
	Module *m = parse_file(cx, path);
	Op *op = op_at(m, n);
	Text line = {0};
	const Op *at = NULL;
	op_print(op, &line);
	bool made = mistakes[mistake].make(m, op);
	const char *why = made ? check_parted(m->funcs.at[0], target_named("sm_90a"), &at) : "";
	if (!why)
		print_error("%s: %s is not found: %s\n", path, mistakes[mistake].name, line.at);
	text_close(&line);
	compile_close(cx);
	*missed += !why;
	return made;
}

static void
good_rings_pass(void **state)
{
	for (int i = 0; i < LEN(files); i++) {
		Compile *cx = compile_open();
		Module *m = parse_file(cx, files[i]);
		const Op *at = NULL;
		const char *why = check_parted(m->funcs.at[0], target_named("sm_90a"), &at);
		if (why)
			fail_msg("%s: %s", files[i], why);
		compile_close(cx);
	}
}

static void
mistakes_are_found(void **state)
{
	int made[LEN(mistakes)] = {0}, missed = 0;
	for (int i = 0; i < LEN(files); i++) {
		Compile *cx = compile_open();
		const Block *body = parse_file(cx, files[i])->funcs.at[0]->body;
		int n = 0;
		for (const Op *op = body->first; op; op = op_after(op, body), n++)
			for (int k = 0; k < LEN(mistakes) && may_be_wrong(op->kind); k++)
				made[k] += trial(files[i], k, n, &missed);
		compile_close(cx);
	}
	assert_int_equal(missed, 0);
	for (int k = 0; k < LEN(mistakes); k++)
		assert_true(made[k] > 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(good_rings_pass), cmocka_unit_test(mistakes_are_found)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
