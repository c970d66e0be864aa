/* The tile IR as a library: types, building and moving ops, the reasons that inference gives, the pass driver's
 * options; and every .tir file of the tests reads back from its own print. */
#define _XOPEN_SOURCE 700                               /* nftw */
#include "pass/pass.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- types ---- */

static void
types_are_interned(void **state)
{
	Compile *cx = compile_open();
	Module *m = module_open(cx);
	const Type *first[200];

	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 200; i++) {
			int64_t extent[2] = {i % 20, i / 20};
			const Type *t = type_tile(m, (DType)(i % DTYPE_COUNT), 2, extent);
			if (round == 0)
				first[i] = t;
			assert_ptr_equal(first[i], t);
		}
	int64_t n = 4;
	assert_ptr_not_equal(type_ptr(m, TY_F32, true, 1, &n), type_ptr(m, TY_F32, false, 1, &n));
	assert_ptr_not_equal(type_tile(m, TY_F32, 1, &n), type_tensor(m, TY_F32, 1, &n));
	assert_ptr_equal(type_with_elem(m, type_ptr(m, TY_F32, true, 1, &n), TY_BOOL), type_tile(m, TY_BOOL, 1, &n));
	compile_close(cx);
}

static void
counts_saturate(void **state)
{
	Compile *cx = compile_open();
	Module *m = module_open(cx);
	int64_t huge[3] = {INT64_C(1) << 40, INT64_C(1) << 40, 0}, bits = 9;

	assert_int_equal(type_count(type_tile(m, TY_F32, 2, huge)), INT64_MAX);
	assert_int_equal(type_count(type_tile(m, TY_F32, 3, huge)), 0);
	assert_int_equal(type_count(type_scalar(m, TY_F32)), 1);
	assert_int_equal(dtype_bytes(TY_I4, bits), 5);
	assert_int_equal(dtype_bytes(TY_F16, bits), 18);
	compile_close(cx);
}

static void
integers_wrap(void **state)
{
	assert_int_equal(int_wrap(TY_I8, 128), -128);
	assert_int_equal(int_wrap(TY_U8, -1), 255);
	assert_int_equal(int_wrap(TY_I4, 9), -7);
	assert_int_equal(int_wrap(TY_BOOL, 2), 0);
	assert_int_equal(int_wrap(TY_I64, INT64_MIN), INT64_MIN);
	assert_int_equal(int_wrap(TY_U32, -1), UINT32_MAX);
}

/* ---- building ---- */

static const FuncParam scalar_x = {.name = "x", .kind = PARAM_SCALAR};

static void
ops_move_and_go(void **state)
{
	Compile *cx = compile_open();
	Module *m = module_open(cx);
	const Type *t = type_scalar(m, TY_I64);
	Func *f = func_make(m, "f", &scalar_x, &t, 1);
	Builder b = {.m = m, .block = f->body, .place = NOWHERE};
	Value *x = &f->body->arg[0];

	Value *one = build_int(&b, t, 1), *sum = build2(&b, OP_ADD, x, one), *twice = build2(&b, OP_ADD, sum, sum);
	assert_int_equal(sum->nuses, 2);
	value_replace(sum, x);
	assert_int_equal(sum->nuses, 0);
	assert_int_equal(x->nuses, 3);
	assert_ptr_equal(twice->def->in[1], x);
	op_erase(sum->def);
	assert_int_equal(x->nuses, 2);
	assert_int_equal(one->nuses, 0);
	op_move(twice->def, f->body, one->def);
	assert_ptr_equal(f->body->first, twice->def);
	assert_ptr_equal(f->body->last, one->def);
	assert_null(module_verify(m));
	compile_close(cx);
}

static Module *
read_text(Compile *cx, const char *text)
{
	return module_parse(cx, source_text(cx, "test.tir", text, strlen(text)));
}

static void
text_order_enters_regions(void **state)
{
	static const OpKind want[] = {OP_IF, OP_NEG, OP_YIELD, OP_IF, OP_YIELD, OP_ABS, OP_YIELD, OP_YIELD, OP_PRINT};
	Compile *cx = compile_open();
	Module *m = read_text(cx, "kernel @f(%c: bool, %n: i32) {\n"
				  "if %c then {\n %a = neg %n : i32\n yield\n} else {\n"
				  "if %c then {\n yield\n} else {\n %b = abs %n : i32\n yield\n}\n yield\n}\n"
				  "print %n {text = \"n\"}\n}\n");
	assert_non_null(m);
	Block *body = m->funcs.at[0]->body;
	int n = 0;
	for (Op *op = body->first; op; op = op_after(op, body))
		assert_int_equal(op->kind, want[n++]);
	assert_int_equal(n, LEN(want));
	Op *inner = body->first->region[1]->first;
	assert_true(op_inside(inner->region[1]->first, body));
	assert_true(op_inside(inner->region[1]->first, inner->region[1]));
	assert_false(op_inside(inner->region[1]->first, inner->region[0]));
	compile_close(cx);
}

/* ---- reasons ---- */

typedef struct Wrong {
	const char *op;                                 /* the op, in a kernel with the parameters below */
	const char *why;                                /* part of the message */
} Wrong;

static const char header[] = "kernel @k(%x: in f32[R, C], %y: out f32[R, C], %q: in i4[R], %p: *f32, %m: *mut f32, %i: i64, "
			     "%n: i32, %a: f32, %h: f16, %c: bool, %R: dim, %C: dim) {\n"
			     "%t = broadcast %a : f32[4, 8]\n%u = broadcast %n : i32[4, 8]\n%v = broadcast %a : f32[8]\n"
			     "%b = broadcast %c : bool[4, 8]\n%w = broadcast %h : f16[4, 8]\n%e = const {value = 0} : i4[8]\n"
			     "%z = const {value = 0} : i32[0, 3]\n";

static const Wrong wrong[] = {
    {"%r = const {value = 1} : f32", "must be a float"},
    {"%r = const {value = 1.0} : i32", "must be an integer"},
    {"%r = const {value = 1} : bool", "must be true or false"},
    {"%r = const {value = 0.1} : f32", "0.10000000000000001 is no value of f32"},
    {"%r = const {value = 0} : *f32", "no constant pointers"},
    {"%r = iota {axis = 0} : f32[4]", "expected integers of 8 bits or more"},
    {"%r = iota {axis = 1} : i32[4]", "axis is 1; i32[4] has 1 dimension"},
    {"%r = program_id {axis = 3} : i64", "a grid has at most 3 axes"},
    {"%r = dim %i {axis = 0} : i64", "operand 1 is i64; expected a tensor parameter"},
    {"%r = dim %x {axis = 2} : i64", "axis is 2"},
    {"%r = add %t, %v : f32[4, 8]", "operand 2 is f32[8]; expected f32[4, 8] as operand 1"},
    {"%r = add %c, %c : bool", "expected integers or floats"},
    {"%r = add %e, %e : i4[8]", "expected elements of 8 bits or more"},
    {"%r = exp %n : i32", "expected floats"},
    {"%r = and %a, %a : f32", "expected integers or bools"},
    {"%r = shl %c, %c : bool", "expected integers"},
    {"%r = neg %p : *f32", "expected a tile of numbers or bools"},
    {"%r = neg %a : f64", "the result type is f64; expected f32"},
    {"%r = cast %t : f16[8, 4]", "expected the shape of operand 1, f32[4, 8]"},
    {"%r = cast %a : *f32", "a cast gives no pointers"},
    {"%r = bitcast %a : f64", "expected elements of 32 bits as in f32"},
    {"%r = bitcast %c : u8", "expected a tile of numbers or pointers"},
    {"%r = ptr_add %a, %n : f32", "expected pointers"},
    {"%r = ptr_add %p, %a : *f32", "expected integers of 8 bits or more"},
    {"%r = ptr_add %p, %u : *f32", "expected the shape of operand 1, *f32"},
    {"%r = ptr_diff %p, %a : i64", "expected pointers as operand 1"},
    {"%r = select %c, %t, %t : f32[4, 8]", "operand 1 is bool; expected bool[4, 8]"},
    {"%r = select %b, %t, %u : f32[4, 8]", "expected f32[4, 8] as operand 2"},
    {"%r0, %r1, %r2, %r3 = philox %n, %u : u32[4, 8], u32[4, 8], u32[4, 8], u32[4, 8]", "expected an i64 scalar"},
    {"%r = reshape %t : f32[31]", "expected 32 elements as in f32[4, 8]"},
    {"%r = reshape %t : f16[32]", "expected the elements of f32[4, 8]"},
    {"%r = permute %t {dims = [0, 0]} : f32[4, 8]", "dims must name each of 0 to 1 once"},
    {"%r = permute %t {dims = [0]} : f32[4]", "1 dims; expected 2"},
    {"%r = broadcast %v : f32[4, 8]", "the rank must be the same"},
    {"%r = cat %t, %u {axis = 0} : f32[8, 8]", "expected f32[4, 8] but for the extent of axis 0"},
    {"%r = join %t, %u : f32[4, 8, 2]", "operand 2 is i32[4, 8]; expected f32[4, 8]"},
    {"%r, %s = split %t : f32[4], f32[4]", "a tile whose last extent is 2"},
    {"%r = extract %t, %i, %i {index = \"gp\", extents = [2]} : f32[2]", "expected letters i or p"},
    {"%r = extract %t, %i, %i {index = \"ip\", extents = [9]} : f32[9]", "9 elements along dimension 1"},
    {"%r = dot %t, %t, %t : f32[4, 8]", "expected 8 rows to match the columns of f32[4, 8]"},
    {"%r = dot %t, %u, %t : f32[4, 8]", "expected floats as in f32[4, 8]"},
    {"%r = dot %v, %v, %v : f32[8]", "expected a tile of rank 2 or more"},
    {"%r = dot_scaled %t, %t, %t, %t, %t {block = 0} : f32[4, 8]", "block is 0; expected 1 or more"},
    {"%r = reduce %t {fn = \"sum\", axis = 2} : f32[4]", "axis is 2; f32[4, 8] has 2 dimensions"},
    {"%r = reduce %t {fn = \"any\", axis = 1} : bool[4]", "expected bools for any"},
    {"%r = reduce %t {fn = \"xor_sum\", axis = 1} : f32[4]", "expected integers or bools for xor_sum"},
    {"%r = reduce %w {fn = \"sum\", axis = 1} : f16[4]", "the result type is f16[4]; expected f32[4]"},
    {"%r = reduce %z {fn = \"argmax\", axis = 0} : i32[3]", "at least one element along axis 0 for argmax"},
    {"%r = scan %t {fn = \"argmax\", axis = 1} : f32[4, 8]", "expected one of sum prod max min"},
    {"%r = sort %e {axis = 0} : i4[8]", "expected elements of 8 bits or more"},
    {"%r, %s = topk %v {axis = 0, k = 9} : f32[9], i32[9]", "k is 9; expected 0 to 8"},
    {"%r = histogram %v {bins = 4} : i32[4]", "expected integers of 8 bits or more"},
    {"%r = gather %t, %n {axis = 0} : f32", "expected rank 2 as f32[4, 8]"},
    {"%r = read %x, %i {index = \"ip\", extents = [4]} : f32[4]", "expected at least 3, an index for each dimension"},
    {"%r = read %x, %i, %i {index = \"i\"} : f32", "expected a letter for each dimension"},
    {"%r = read %x, %i, %n {index = \"ii\"} : f32", "operand 3 is i32; expected an i64 scalar"},
    {"%r = read %x, %i, %i {index = \"pp\", extents = [4]} : f32[4, 4]", "expected one for each p"},
    {"%r = read %x, %i, %i {index = \"pi\", extents = [4, 4]} : f32[4]", "2 extents; expected 1"},
    {"%r = read %x, %i, %i, %n {index = \"ip\", extents = [4]} : f32[4]", "expected a fill of f32 or f32[4]"},
    {"%r = read %x, %u, %u {index = \"gg\"} : f32[8, 4]", "the result type is f32[8, 4]; expected f32[4, 8]"},
    {"write %y, %i, %i, %t {index = \"pp\", extents = [4, 4]}", "operand 4 is f32[4, 8]; expected f32[4, 4]"},
    {"write %x, %i, %i, %t {index = \"pp\", extents = [4, 8]}", "tensor 'x' is an 'in' parameter"},
    {"%r = atomic %y, %i, %i, %a {index = \"ii\", fn = \"xor\"} : f32", "atomic xor on f32; expected integers"},
    {"%r = atomic %y, %i, %i, %a {index = \"ii\", fn = \"cas\"} : f32", "4 operands; expected 5"},
    {"%r = load %a : f32", "expected pointers"},
    {"%r = load %p, %n : f32", "operand 2 is i32; expected bool"},
    {"store %p, %a", "expected pointers to store through (*mut f32)"},
    {"store %m, %n", "operand 2 is i32; expected f32"},
    {"prefetch %p {index = \"i\"}", "index and extents are for tensors"},
    {"assert %n {text = \"t\"}", "expected a bool tile"},
    {"print %x {text = \"t\"}", "operand 1 is tensor<f32[?, ?]>; expected a tile"},
    {"for %n, %i, %i do (%k: i64) {\nyield\n}", "operand 1 is i32; expected an i64 scalar"},
    {"if %n then {\nyield\n} else {\nyield\n}", "operand 1 is i32; expected bool"},
    {"%r = broadcast %a : f32[1048576, 1048577]", "at most 2^40 elements"},
    {"%r = cat %v {axis = 0, axis = 0} : f32[8]", "attribute 'axis' stands twice"},
    {"%r = neg %n {fast = true} : i32", ""},
    {"%r = not %n {fast = true} : i32", "attribute 'fast' is unknown: this op takes none"},
    {"%r = neg %a {fast = 1} : f32", "attribute 'fast' is an integer; expected true or false"},
};

static void
reasons_are_precise(void **state)
{
	for (int i = 0; i < LEN(wrong); i++) {
		Compile *cx = compile_open();
		const char *text = arena_printf(cx->tmp, "%s%s\n}\n", header, wrong[i].op);
		Module *m = read_text(cx, text);
		if (!*wrong[i].why) {
			assert_non_null(m);
		} else {
			if (m || cx->nerrors != 1 || !strstr(cx->first->text, wrong[i].why))
				print_error("%s\n\texpected: %s\n\tfound: %s\n", wrong[i].op, wrong[i].why,
				    cx->first ? cx->first->text : "no error");
			assert_null(m);
			assert_non_null(strstr(cx->first->text, wrong[i].why));
		}
		compile_close(cx);
	}
}

/* ---- the verifier finds what a pass could break ---- */

static Module *
two_adds(Compile *cx)
{
	return read_text(cx, "kernel @f(%n: i32) {\n%a = add %n, %n : i32\n%b = add %a, %n : i32\nprint %b {text = \"b\"}\n}\n");
}

static void
verifier_sees_order_counts_and_types(void **state)
{
	Compile *cx = compile_open();
	Module *m = two_adds(cx);
	Op *a = m->funcs.at[0]->body->first, *b = a->next;

	assert_null(module_verify(m));
	op_move(a, a->home, b->next);
	assert_non_null(strstr(module_verify(m), "not visible"));
	op_move(a, a->home, b);
	b->out[0].nuses++;
	assert_non_null(strstr(module_verify(m), "counts 2 uses and has 1"));
	b->out[0].nuses--;
	b->out[0].type = type_scalar(m, TY_I64);
	assert_non_null(strstr(module_verify(m), "expected i32"));
	compile_close(cx);
}

/* ---- the pass driver ---- */

static void
options_choose_passes(void **state)
{
	Compile *cx = compile_open();
	Module *m = two_adds(cx);
	Text dump = {0}, times = {0};
	PassOptions opt = {.dump = "all", .dump_to = &dump, .times = &times, .skip = "simplify", .verify = true};

	assert_true(passes_run(m, NULL, &opt));
	assert_null(strstr(dump.at, "// after simplify"));
	assert_non_null(strstr(dump.at, "// after licm\nkernel @f"));
	assert_non_null(strstr(times.at, "licm"));
	assert_non_null(strstr(times.at, "3 ops, then 3"));
	dump.n = 0;
	opt = (PassOptions){.dump = "all", .dump_to = &dump, .stop_after = "simplify"};
	assert_true(passes_run(m, NULL, &opt));
	assert_null(strstr(dump.at, "// after licm"));
	dump.n = 0;
	opt = (PassOptions){.dump = "licm", .dump_to = &dump, .only = "licm,simplify,licm"};
	assert_true(passes_run(m, NULL, &opt));
	char *second = strstr(strstr(dump.at, "// after licm") + 1, "// after licm");
	assert_non_null(second);
	assert_null(strstr(dump.at, "// after simplify"));
	text_close(&dump);
	text_close(&times);
	compile_close(cx);
}

static void
needed_facts_are_asked_for(void **state)
{
	Compile *cx = compile_open();
	Module *m = two_adds(cx);

	m->facts = 0;
	assert_false(passes_run(m, NULL, NULL));
	assert_int_equal(cx->first->code, DIAG_PASS_NEEDS);
	compile_close(cx);
}

static void
a_broken_module_is_reported_with_the_pass(void **state)
{
	Compile *cx = compile_open();
	Module *m = two_adds(cx);
	PassOptions opt = {.only = "licm", .verify = true};

	m->funcs.at[0]->body->first->out[0].nuses++;
	assert_false(passes_run(m, NULL, &opt));
	assert_int_equal(cx->first->code, DIAG_PASS_BROKEN);
	assert_non_null(strstr(cx->first->text, "before pass 'licm'"));
	compile_close(cx);
}

/* ---- every file ---- */

static int
round_trip_file(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	size_t n = strlen(path);
	Text once = {0}, twice = {0};

	if (kind != FTW_F || n < 4 || strcmp(path + n - 4, ".tir") != 0)
		return 0;
	Compile *cx = compile_open();
	int file = source_open(cx, path, NOWHERE);
	assert_true(file >= 0);
	Module *m = module_parse(cx, file);
	if (m) {
		module_print(m, &once);
		m = read_text(cx, once.at);
		assert_non_null(m);
		module_print(m, &twice);
		assert_string_equal(once.at, twice.at);
	}
	text_close(&once);
	text_close(&twice);
	compile_close(cx);
	return 0;
}

static void
every_file_reads_back(void **state)
{
	assert_int_equal(nftw("tests", round_trip_file, 16, FTW_PHYS), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(types_are_interned),
	    cmocka_unit_test(counts_saturate),
	    cmocka_unit_test(integers_wrap),
	    cmocka_unit_test(ops_move_and_go),
	    cmocka_unit_test(text_order_enters_regions),
	    cmocka_unit_test(reasons_are_precise),
	    cmocka_unit_test(verifier_sees_order_counts_and_types),
	    cmocka_unit_test(options_choose_passes),
	    cmocka_unit_test(needed_facts_are_asked_for),
	    cmocka_unit_test(a_broken_module_is_reported_with_the_pass),
	    cmocka_unit_test(every_file_reads_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
