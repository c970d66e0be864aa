/* The compiler's choice among the values of tune(...): what it takes, what it leaves, and that a header is bound once
 * for each combination of compile-time parameters, however many schedules there are. */
#include "compile/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PRODUCT(functions, space)                                                                                 \
	functions "kernel mm<BM = 128, BN = 128, BK = 64>(a: in bf16[M, K], b: in bf16[K, N], c: out bf16[M, N])\n" \
	"grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) " space "\n"                                                       \
	"{ var acc = zeros([BM, BN], f32);\n"                                                                      \
	"  for k in range(0, K, BK) { acc += a[pm * BM +: BM, k +: BK] @ b[k +: BK, pn * BN +: BN]; }\n"           \
	"  c[pm * BM +: BM, pn * BN +: BN] = cast(acc); }\n"
#define SPACE "tune(BM = {64, 128, 256}, BN = {64, 128, 256}, BK = {32, 64, 128}, warps = {4, 8}, stages = {2, 3, 4, 5})"
#define PLAIN "fn cast(x) { return x as bf16; }\n"

typedef struct Case {
	Compile *cx;
	Kernel *k;
	ArgInfo args[3];
	NamedConst fixed[1];
	int nfixed, binds;
	NamedConst *chosen;
	int n;
} Case;

static bool
is_fixed(void *user, const char *name)
{
	const Case *c = user;
	return c->nfixed && strcmp(c->fixed[0].name, name) == 0;
}

static bool
bind(void *user, const NamedConst *given, int n, Bound *out)
{
	Case *c = user;
	NamedConst all[32];
	int m = 0;
	for (int i = 0; i < c->nfixed + n; i++) {
		all[m] = i < c->nfixed ? c->fixed[i] : given[i - c->nfixed];
		all[m].name = intern(c->cx->names, all[m].name);
		m++;
	}
	c->binds++;
	return kernel_bind(c->k, c->args, all, m, out);
}

static bool
choose(Case *c, const char *text, int64_t m, int64_t n, int64_t k)
{
	Bound b;
	const ChooseBinding how = {is_fixed, bind, c};
	c->cx = compile_open();
	Program *p = program_open(c->cx, source_text(c->cx, "<test>", text, strlen(text)));
	assert_int_equal(c->cx->nerrors, 0);
	c->k = p->kernels.at[0];
	c->args[0] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {m, k}};
	c->args[1] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {k, n}};
	c->args[2] = (ArgInfo){.given = true, .dtype = TY_BF16, .rank = 2, .dim = {m, n}};
	assert_true(bind(c, NULL, 0, &b));
	c->binds = 0;
	int called = p->called.n;
	bool chooses = choose_values(c->k, &b, target_named("sm_90a"), &how, c->cx->mem, &c->chosen, &c->n);
	assert_int_equal(p->called.n, called);
	assert_int_equal(c->cx->nerrors, 0);
	return chooses;
}

static int64_t
value(const Case *c, const char *name)
{
	for (int i = 0; i < c->n; i++)
		if (strcmp(c->chosen[i].name, name) == 0)
			return c->chosen[i].value.i;
	fail_msg("nothing is chosen for %s", name);
	return 0;
}

static void
test_binds_once(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 8192, 8192, 8192));
	assert_int_equal(c.binds, 3 * 3 * 3);
	assert_int_equal(value(&c, "BM"), 128);
	assert_int_equal(value(&c, "BN"), 256);
	assert_int_equal(value(&c, "warps"), 8);
	compile_close(c.cx);
}

/* `where` may speak of a schedule's names, and refuse some of them. */
static void
test_where(void **state)
{
	Case c = {0};
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE " where warps * 32 <= BM && stages < 4"), 8192, 8192, 8192));
	assert_true(value(&c, "warps") * 32 <= value(&c, "BM"));
	assert_true(value(&c, "stages") < 4);
	compile_close(c.cx);
}

static void
test_fixed(void **state)
{
	Case c = {0};
	c.fixed[0] = (NamedConst){.name = "BN", .value = {.kind = CONST_INT, .i = 64}, .place = NOWHERE};
	c.nfixed = 1;
	assert_true(choose(&c, PRODUCT(PLAIN, SPACE), 8192, 8192, 8192));
	for (int i = 0; i < c.n; i++)
		assert_string_not_equal(c.chosen[i].name, "BN");
	assert_int_equal(c.binds, 3 * 3);
	compile_close(c.cx);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_binds_once), cmocka_unit_test(test_where), cmocka_unit_test(test_fixed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
