/* Runs the cases of tests/data/interp_cases.txt, whose answers NumPy gave (gen_interp.py has the format): what
 * every argument holds afterwards must be equal, element by element; elements between strides included. */
#include "interp_help.h"

#include <math.h>

enum { MAX_ARGS = 16, MAX_ELEMENTS_HERE = 1 << 16 };

typedef struct Case {
	char name[128];
	Text ir;
	int64_t grid;
	Buffer buffer[MAX_ARGS];
	DType type[MAX_ARGS];
	void *memory[MAX_ARGS];
	double *want[MAX_ARGS];                         /* NULL: unchanged */
	int64_t count[MAX_ARGS];
	int n;
} Case;

/* "3x4" into dims; "-" is none. */
static int
read_dims(char *word, int64_t *dim)
{
	int rank = 0;

	if (strcmp(word, "-") == 0)
		return 0;
	for (char *at = word; at; at = strchr(at, 'x')) {
		at += *at == 'x';
		dim[rank++] = strtoll(at, &at, 10);
		if (*at == '\0')
			break;
	}
	return rank;
}

static void
read_values(char *text, double *x, int64_t *n)
{
	char *end;

	for (*n = 0; *n < MAX_ELEMENTS_HERE; (*n)++) {
		x[*n] = strtod(text, &end);
		if (end == text)
			return;
		text = end;
	}
}

static void
read_tensor(Case *c, char *line)
{
	char dtype[16], dims[64], strides[64];
	char *values = strchr(line, ':') + 1, *after = strchr(values, '=');
	static double x[MAX_ELEMENTS_HERE], y[MAX_ELEMENTS_HERE];
	int64_t n, wanted;
	int k = c->n++;
	Buffer *b = &c->buffer[k];

	assert_int_equal(sscanf(line, "%*s %15s %63s %63s", dtype, dims, strides), 3);
	assert_true(dtype_named(dtype, &c->type[k]));
	if (after)
		*after = '\0';
	read_values(values, x, &n);
	c->count[k] = n;
	b->bytes = (size_t)dtype_bytes(c->type[k], n);
	c->memory[k] = calloc(b->bytes + 1, 1);
	b->arg.data = c->memory[k];
	b->arg.low = c->memory[k];
	b->arg.high = b->arg.low + b->bytes;
	read_dims(dims, b->arg.dim);
	read_dims(strides, b->arg.stride);
	for (int64_t i = 0; i < n; i++)
		dtype_store_f64(c->type[k], b->arg.data, i, x[i]);
	if (!after)
		return;
	read_values(after + 1, y, &wanted);
	assert_int_equal(wanted, n);
	c->want[k] = malloc(sizeof(double) * (size_t)(n + 1));
	memcpy(c->want[k], y, sizeof(double) * (size_t)n);
}

static void
check_case(Case *c)
{
	Fault f = run_ways(c->ir.at, c->buffer, c->n, c->grid, 1, 1, true);

	if (f.kind != FAULT_NONE)
		fail_msg("%s: fault: %s", c->name, f.text);
	for (int k = 0; k < c->n; k++)
		for (int64_t i = 0; c->want[k] && i < c->count[k]; i++) {
			double got = dtype_load_f64(c->type[k], c->buffer[k].arg.data, i), want = c->want[k][i];
			if (got == want ? !signbit(got) == !signbit(want) : got != got && want != want)
				continue;
			fail_msg("%s: argument %d element %d is %.17g; expected %.17g", c->name, k, (int)i, got, want);
		}
}

static void
close_case(Case *c)
{
	for (int k = 0; k < c->n; k++) {
		free(c->memory[k]);
		free(c->want[k]);
	}
	text_close(&c->ir);
	*c = (Case){.grid = 1};
}

static void
all_cases(void **state)
{
	FILE *f = fopen("tests/data/interp_cases.txt", "r");
	char *line = NULL;
	size_t cap = 0;
	bool in_ir = false;
	Case c = {.grid = 1};
	int ncases = 0;

	assert_non_null(f);
	while (getline(&line, &cap, f) > 0) {
		if (in_ir) {
			in_ir = strcmp(line, "end\n") != 0;
			if (in_ir)
				text_put(&c.ir, line);
		} else if (sscanf(line, "case %127s", c.name) == 1) {
			ncases++;
		} else if (strcmp(line, "ir\n") == 0) {
			in_ir = true;
		} else if (strncmp(line, "grid", 4) == 0) {
			c.grid = strtoll(line + 4, NULL, 10);
		} else if (strcmp(line, "done\n") == 0) {
			check_case(&c);
			close_case(&c);
		} else {
			read_tensor(&c, line);
		}
	}
	free(line);
	fclose(f);
	assert_true(ncases > 930);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_cases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
