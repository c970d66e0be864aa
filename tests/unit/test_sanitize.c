/* Each fault that sanitizing reports, planted once, with what the report must name; and its neighbours that are
 * no fault.  Pointers are held to their buffers without it too. */
#include "interp_help.h"

#include <pthread.h>

static Fault
run_with(PlanOptions opt, const char *text, Buffer *b, int n, int64_t programs)
{
	const int64_t grid[3] = {programs, 1, 1};
	Compile *cx = compile_open();
	Fault f;

	run_once(parse_module(cx, text), &opt, b, n, grid, &f);
	if (f.param)
		f.param = f.param[0] == 'x' ? "x" : f.param[0] == 'y' ? "y" : "?";      /* outlives the module */
	compile_close(cx);
	return f;
}

static Fault
sanitize(const char *text, Buffer *b, int n, int64_t programs)
{
	return run_with((PlanOptions){.sanitize = true}, text, b, n, programs);
}

static Buffer
pointer_to(void *data, size_t bytes)
{
	return (Buffer){.arg = {.data = data, .low = data, .high = (char *)data + bytes}, .bytes = bytes};
}

static void
expect_fault(Fault f, FaultKind kind, int line, int64_t program, const char *param, int64_t element)
{
	if (f.kind != kind)
		fail_msg("fault %d: %s", f.kind, f.text);
	if (kind == FAULT_NONE)
		return;
	assert_int_equal(f.place.line, line);
	assert_int_equal(f.program[0], program);
	assert_string_equal(f.param, param);
	assert_int_equal(f.element, element);
	assert_non_null(strstr(f.text, param));
}

/* Each program stores 4 elements from 3 * pid on: neighbours share one. */
#define STORES_OVERLAP                                                                             \
	"file 0 \"k.tgl\"\n"                                                                       \
	"kernel @k(%y: out f32[16]) grid(p) {\n"                                                   \
	"  %p = program_id {axis = 0} : i64 @2:1\n"                                                \
	"  %three = const {value = 3} : i64 @2:1\n"                                                \
	"  %s = mul %p, %three : i64 @2:1\n"                                                       \
	"  %v = const {value = 1.0} : f32[4] @2:1\n"                                               \
	"  write %y, %s, %v {index = \"p\", extents = [4]} @5:7\n"                                 \
	"}\n"

static void
two_programs_store_to_one_place(void **state)
{
	float y[16] = {0};
	Buffer b[] = {TENSOR(y, 16)};
	Fault f = sanitize(STORES_OVERLAP, b, 1, 4);

	expect_fault(f, FAULT_RACE, 5, 1, "y", 3);
	assert_int_equal(f.other.line, 5);
	assert_int_equal(f.other.col, 7);
	assert_int_equal(f.other_program[0], 0);
	expect_fault(sanitize(STORES_OVERLAP, b, 1, 1), FAULT_NONE, 0, 0, NULL, 0);
}

static void
program_reads_what_another_stores(void **state)
{
	const char *text =
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%x: inout f32[16]) grid(p) {\n"
	    "  %p = program_id {axis = 0} : i64 @2:1\n"
	    "  %one = const {value = 1} : i64 @2:1\n"
	    "  %n = add %p, %one : i64 @2:1\n"
	    "  %v = read %x, %n {index = \"i\"} : f32 @6:3\n"
	    "  write %x, %p, %v {index = \"i\"} @7:3\n"
	    "}\n";
	float x[16] = {0};
	Buffer b[] = {TENSOR(x, 16)};
	Fault f = sanitize(text, b, 1, 2);

	expect_fault(f, FAULT_RACE, 7, 1, "x", 1);
	assert_int_equal(f.other.line, 6);
	assert_int_equal(f.other_program[0], 0);
	assert_non_null(strstr(f.text, "read"));
}

static void
atomics_do_not_race(void **state)
{
	const char *text =
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%x: inout f32[4]) grid(p) {\n"
	    "  %z = const {value = 0} : i64 @2:1\n"
	    "  %v = const {value = 1.0} : f32[4] @2:1\n"
	    "  %o = atomic %x, %z, %v {index = \"p\", extents = [4], fn = \"add\"} : f32[4] @4:1\n"
	    "}\n";
	const char *mixed =
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%x: inout f32[4]) grid(p) {\n"
	    "  %p = program_id {axis = 0} : i64 @2:1\n"
	    "  %z = const {value = 0} : i64 @2:1\n"
	    "  %v = const {value = 1.0} : f32[4] @2:1\n"
	    "  %first = eq %p, %z : bool @2:1\n"
	    "  if %first @2:1 then {\n"
	    "    write %x, %z, %v {index = \"p\", extents = [4]} @7:1\n"
	    "    yield @7:1\n"
	    "  } else {\n"
	    "    %o = atomic %x, %z, %v {index = \"p\", extents = [4], fn = \"add\"} : f32[4] @9:1\n"
	    "    yield @9:1\n"
	    "  }\n"
	    "}\n";
	float x[4] = {0};
	Buffer b[] = {TENSOR(x, 4)};

	expect_fault(sanitize(text, b, 1, 8), FAULT_NONE, 0, 0, NULL, 0);
	expect_fault(sanitize(mixed, b, 1, 8), FAULT_RACE, 9, 1, "x", 0);
}

static void
unwritten_output_is_read(void **state)
{
	const char *text =
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%y: out f32[4, 4]) grid(p) {\n"
	    "  %z = const {value = 0} : i64 @2:1\n"
	    "  %two = const {value = 2} : i64 @2:1\n"
	    "  %v = const {value = 1.0} : f32[2] @2:1\n"
	    "  write %y, %two, %z, %v {index = \"ip\", extents = [2]} @5:1\n"
	    "  %r = read %y, %two, %z {index = \"ip\", extents = [3]} : f32[3] @6:1\n"
	    "  write %y, %z, %z, %r {index = \"ip\", extents = [3]} @7:1\n"
	    "}\n";
	float y[16] = {0};
	Buffer b[] = {TENSOR(y, 4, 4)};
	Fault f = sanitize(text, b, 1, 1);

	expect_fault(f, FAULT_UNINIT, 6, 0, "y", 10);
	assert_non_null(strstr(f.text, "[2, 2]"));
	b[0].arg.filled = true;
	expect_fault(sanitize(text, b, 1, 1), FAULT_NONE, 0, 0, NULL, 0);
}

/* Loads x[pid * 4 + 0 .. 3] + shift through a loop that carries the pointers, and stores to y. */
static Fault
run_pointers(bool sanitizes, int64_t shift, Buffer *x, Buffer *y, int64_t programs)
{
	char text[2048];

	snprintf(text, sizeof text,
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%%x: *f32, %%y: *mut f32) grid(p) {\n"
	    "  %%p = program_id {axis = 0} : i64 @2:1\n"
	    "  %%four = const {value = 4} : i64 @2:1\n"
	    "  %%z = const {value = 0} : i64 @2:1\n"
	    "  %%one = const {value = 1} : i64 @2:1\n"
	    "  %%s = mul %%p, %%four : i64 @2:1\n"
	    "  %%sb = broadcast %%s : i64[4] @2:1\n"
	    "  %%io = iota {axis = 0} : i64[4] @2:1\n"
	    "  %%i = add %%sb, %%io : i64[4] @2:1\n"
	    "  %%xb = broadcast %%x : *f32[4] @2:1\n"
	    "  %%yb = broadcast %%y : *mut f32[4] @2:1\n"
	    "  %%xi = ptr_add %%xb, %%i : *f32[4] @2:1\n"
	    "  %%yi = ptr_add %%yb, %%i : *mut f32[4] @2:1\n"
	    "  %%hi = const {value = %lld} : i64 @2:1\n"
	    "  %%o = const {value = 1} : i64[4] @2:1\n"
	    "  %%q = for %%z, %%hi, %%one, %%xi : *f32[4] @3:1 do (%%k: i64, %%c: *f32[4]) {\n"
	    "    %%n = ptr_add %%c, %%o : *f32[4] @3:1\n"
	    "    yield %%n @3:1\n"
	    "  }\n"
	    "  %%v = load %%q : f32[4] @4:2\n"
	    "  store %%yi, %%v @5:2\n"
	    "}\n",
	    (long long)shift);
	Buffer b[] = {*x, *y};
	return run_with((PlanOptions){.sanitize = sanitizes}, text, b, 2, programs);
}

static void
pointer_leaves_its_buffer(void **state)
{
	float memory[32] = {0};
	Buffer x = pointer_to(memory, 8 * 4), y = pointer_to(memory + 8, 8 * 4);

	Buffer late = pointer_to(memory + 16, 8 * 4), none = pointer_to(NULL, 0);
	late.arg.data = memory + 20;
	for (int sanitizes = 0; sanitizes < 2; sanitizes++) {
		expect_fault(run_pointers(sanitizes, 0, &x, &y, 2), FAULT_NONE, 0, 0, NULL, 0);
		/* One further is inside y's buffer, but it is a pointer into x. */
		expect_fault(run_pointers(sanitizes, 1, &x, &y, 2), FAULT_BOUNDS, 4, 1, "x", 8);
		expect_fault(run_pointers(sanitizes, 0, &late, &y, 2), FAULT_BOUNDS, 4, 1, "x", 4);
		expect_fault(run_pointers(sanitizes, 0, &y, &late, 2), FAULT_BOUNDS, 5, 1, "y", 4);
		expect_fault(run_pointers(sanitizes, 0, &none, &y, 2), FAULT_BOUNDS, 4, 0, "x", 0);
	}
}

/* One program with 20 pointers into x and 20 into y, each `far` elements on, or in turn its first one; `use` uses %q, %m
 * is true of the first `on`. */
static Fault
run_far(bool sanitizes, int64_t far, int on, const char *use, Buffer *x, Buffer *y)
{
	char text[2048];

	snprintf(text, sizeof text,
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%%x: *mut f32, %%y: *mut f32) {\n"
	    "  %%i = iota {axis = 0} : i64[20] @2:1\n"
	    "  %%f = const {value = %lld} : i64[20] @2:1\n"
	    "  %%on = const {value = %d} : i64[20] @2:1\n"
	    "  %%two = const {value = 2} : i64[20] @2:1\n"
	    "  %%h = rem %%i, %%two : i64[20] @2:1\n"
	    "  %%z = const {value = 0} : i64[20] @2:1\n"
	    "  %%one = const {value = 1.0} : f32[20] @2:1\n"
	    "  %%m = lt %%i, %%on : bool[20] @2:1\n"
	    "  %%odd = ne %%h, %%z : bool[20] @2:1\n"
	    "  %%xb = broadcast %%x : *mut f32[20] @2:1\n"
	    "  %%yb = broadcast %%y : *mut f32[20] @2:1\n"
	    "  %%xf = ptr_add %%xb, %%f : *mut f32[20] @2:1\n"
	    "  %%xi = ptr_add %%xf, %%i : *mut f32[20] @2:1\n"
	    "  %%turn = select %%odd, %%xf, %%xb : *mut f32[20] @2:1\n"
	    "  %%ys = ptr_add %%yb, %%i : *mut f32[20] @2:1\n"
	    "  %%both = select %%odd, %%xf, %%yb : *mut f32[20] @2:1\n"
	    "%s @4:2\n"
	    "}\n",
	    (long long)far, on, use);
	Buffer b[] = {*x, *y};
	return run_with((PlanOptions){.sanitize = sanitizes}, text, b, 2, 1);
}

/* Blocks of neighbours, pointers in any order, several buffers at once, single ones; read, written and updated. */
static void
pointers_are_held_to_buffers(void **state)
{
	static const char *const use[] = {
	    "  %v = load %xi : f32[20] @4:2\n  store %ys, %v", "  %v = load %xi, %m : f32[20] @4:2\n  store %ys, %v", "  store %xi, %one", "  store %xi, %one, %m",
	    "  %v = load %turn : f32[20] @4:2\n  store %ys, %v", "  %v = load %turn, %m : f32[20] @4:2\n  store %ys, %v", "  store %turn, %one, %m",
	    "  %v = load %both : f32[20] @4:2\n  store %ys, %v", "  store %both, %one",
	    "  %v = atomic_ptr %xi, %one {fn = \"add\"} : f32[20]",
	    "  %v = atomic_ptr %turn, %one, %m {fn = \"add\", masked = true} : f32[20]",
	};
	static const int64_t far[] = {41, -1, 1000, INT64_C(1) << 40, -(INT64_C(1) << 40), INT64_MAX / 4, INT64_MIN / 4};
	float memory[120] = {0};
	Buffer x = pointer_to(memory, 40 * 4), y = pointer_to(memory + 80, 40 * 4), none = pointer_to(NULL, 0);

	for (int i = 0; i < LEN(use) * 2; i++) {
		bool sanitizes = i % 2, masked = strstr(use[i / 2], "%m") != NULL;
		expect_fault(run_far(sanitizes, 20, 20, use[i / 2], &x, &y), FAULT_NONE, 0, 0, NULL, 0);
		for (int k = 0; k < LEN(far); k++) {
			Fault f = run_far(sanitizes, far[k], 20, use[i / 2], &x, &y);
			bool block = strstr(use[i / 2], "%xi") && far[k] == -1; /* %xi: the element after that is inside */
			expect_fault(f, FAULT_BOUNDS, 4, 0, "x", block ? -1 : far[k]);
			if (masked)
				expect_fault(run_far(sanitizes, far[k], 0, use[i / 2], &x, &y), FAULT_NONE, 0, 0, NULL, 0);
		}
		Fault f = run_far(sanitizes, 0, 20, use[i / 2], &none, &y);
		expect_fault(f, FAULT_BOUNDS, 4, 0, "x", 0);
		assert_non_null(strstr(f.text, "its buffer is empty"));
	}
}

static void
overlapping_buffers_share_their_shadow(void **state)
{
	float memory[16] = {0};
	Buffer x = pointer_to(memory, 8 * 4), y = pointer_to(memory + 4, 8 * 4);
	Fault f = run_pointers(true, 0, &x, &y, 2);

	/* Program 0 stores y[0 .. 3], which is x[4 .. 7], which program 1 reads. */
	expect_fault(f, FAULT_RACE, 4, 1, "x", 4);
	assert_int_equal(f.other.line, 5);
}

static void
packed_neighbours_share_a_byte(void **state)
{
	const char *text =
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%y: out u4[8]) grid(p) {\n"
	    "  %p = program_id {axis = 0} : i64 @2:1\n"
	    "  %v = const {value = 1} : u4 @2:1\n"
	    "  write %y, %p, %v {index = \"i\"} @3:1\n"
	    "}\n";
	uint8_t y[4] = {0};
	Buffer b[] = {tensor_of(y, 4, DIMS(8))};

	expect_fault(sanitize(text, b, 1, 2), FAULT_RACE, 3, 1, "y", 1);
}

/* Two threads, one program each at a time: the report is the same whoever comes first. */
typedef struct Thread {
	Plan *plan;
	Shadow *shadow;
	const PlanArg *args;
	int64_t first, count;
	Fault fault;
} Thread;

static void *
run_thread(void *arg)
{
	Thread *t = arg;
	const int64_t grid[3] = {1000, 1, 1};
	Worker *w = worker_open(t->plan);

	plan_run(t->plan, w, t->shadow, t->args, grid, t->first, t->count, &t->fault);
	worker_close(w);
	return NULL;
}

static void
run_two_threads(const char *text, Buffer *b, int n, const PlanOptions *opt, Thread t[2])
{
	Compile *cx = compile_open();
	PlanArg args[8];
	const char *why;
	pthread_t id;

	for (int i = 0; i < n; i++)
		args[i] = b[i].arg;
	Plan *p = plan_open(parse_module(cx, text)->funcs.at[0], opt, &why);
	Shadow *s = shadow_open(p, args);
	for (int i = 0; i < 2; i++)
		t[i] = (Thread){p, s, args, i * 500, 500, {0}};
	pthread_create(&id, NULL, run_thread, &t[0]);
	run_thread(&t[1]);
	pthread_join(id, NULL);
	shadow_close(s);
	plan_close(p);
	compile_close(cx);
}

static void
threads_race(void **state)
{
	const char *text =
	    "file 0 \"k.tgl\"\n"
	    "kernel @k(%y: out f32[500]) grid(p) {\n"
	    "  %p = program_id {axis = 0} : i64 @2:1\n"
	    "  %n = const {value = 500} : i64 @2:1\n"
	    "  %i = rem %p, %n : i64 @2:1\n"
	    "  %v = const {value = 1.0} : f32 @2:1\n"
	    "  write %y, %i, %v {index = \"i\"} @6:1\n"
	    "}\n";
	static float y[500];
	Buffer b[] = {TENSOR(y, 500)};
	Thread t[2];

	run_two_threads(text, b, 1, &(PlanOptions){.sanitize = true}, t);
	assert_true(t[0].fault.kind == FAULT_RACE || t[1].fault.kind == FAULT_RACE);
}

/* Every dtype's atomic add counts each of two threads' programs once. */
static void
threads_add(void **state)
{
	const struct {
		const char *dtype;
		double each, want;
	} row[] = {
		{"i32", 3, 3000}, {"i64", 3, 3000}, {"u8", 1, 1000 % 256}, {"u16", 3, 3000}, {"f32", 1, 1000},
		{"f64", 1, 1000}, {"f16", 1, 1000}, {"bf16", 0.25, 64},     /* 64 + 0.25 rounds to 64 */
	};

	for (int i = 0; i < LEN(row); i++) {
		char text[1024];
		DType t;
		double place = 0;
		Thread thread[2];
		assert_true(dtype_named(row[i].dtype, &t));
		snprintf(text, sizeof text,
		    "kernel @k(%%x: inout %s[1]) grid(p) {\n"
		    "  %%z = const {value = 0} : i64\n"
		    "  %%v = const {value = %g%s} : %s\n"
		    "  %%o = atomic %%x, %%z, %%v {index = \"i\", fn = \"add\"} : %s\n"
		    "}\n",
		    row[i].dtype, row[i].each, dtype_is_float(t) && row[i].each == 1 ? ".0" : "", row[i].dtype,
		    row[i].dtype);
		Buffer b[] = {tensor_of(&place, 8, DIMS(1))};
		run_two_threads(text, b, 1, NULL, thread);
		double got = dtype_load_f64(t, &place, 0);
		if (got != row[i].want)
			fail_msg("%s: %g; expected %g", row[i].dtype, got, row[i].want);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_programs_store_to_one_place),
		cmocka_unit_test(program_reads_what_another_stores),
		cmocka_unit_test(atomics_do_not_race),
		cmocka_unit_test(unwritten_output_is_read),
		cmocka_unit_test(pointer_leaves_its_buffer),
		cmocka_unit_test(pointers_are_held_to_buffers),
		cmocka_unit_test(overlapping_buffers_share_their_shadow),
		cmocka_unit_test(packed_neighbours_share_a_byte),
		cmocka_unit_test(threads_race),
		cmocka_unit_test(threads_add),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
