/* The host side of a description (docs/metal.md): fills every buffer by its row, dispatches the grid that the
 * formulas give, and has the outputs compared with the reference, as `tegula check` does on a device, or with what the cpu
 * device makes where the kernel has none.
 *
 * Its only input about the kernel is the description, and about the case what a user of the description has: tensors by
 * name, scalars, dimensions. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/msl/formula.h"
#include "tests/msl/host.h"
#include "tests/msl/main.h"

enum { FAULT_ROOM = 64, PADDING = 0x5a };

typedef struct Host {
	const MslProgram *program;
	TglCase *c;
	json_t *json;
	HostResult *out;
	MslLaunch launch;
	void *mine[MSL_BUFFERS];                        /* what was allocated, and for which tensor it is a copy */
	size_t size[MSL_BUFFERS];                       /* without its padding */
	unsigned char value[4096];                      /* the numbers, by their offsets */
	int nvalue;                                     /* bytes of them; 0: none */
	TglTensor *tensor[MSL_BUFFERS];
	char *first[MSL_BUFFERS];                       /* what the first run left in outputs */
	char **cpu;                                     /* what the cpu device does, by parameter; NULL: there is a reference */
	bool given[MSL_BUFFERS];
	int faults;                                     /* index of that buffer, -1 */
} Host;

static void wrong(Host *h, const char *fmt, ...) PRINTF(2, 3);

static void
wrong(Host *h, const char *fmt, ...)
{
	va_list ap;
	if (*h->out->wrong)
		return;
	va_start(ap, fmt);
	vsnprintf(h->out->wrong, sizeof h->out->wrong, fmt, ap);
	va_end(ap);
}

static const char *
word_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

static int
number_of(const json_t *o, const char *key)
{
	return (int)json_integer_value(json_object_get(o, key));
}

/* ---- values ---- */

static bool
case_value(const Host *h, const char *name, size_t n, const char **text)
{
	const char *at;
	for (int i = 0; tgl_case_value(h->c, i, &at, text); i++)
		if (strlen(at) == n && memcmp(at, name, n) == 0)
			return true;
	return false;
}

/* A name in a formula: a dimension, a scalar, or a value of the description. */
static bool
named(void *user, const char *name, size_t n, double *value)
{
	const Host *h = user;
	const char *text;
	char key[128];
	snprintf(key, sizeof key, "%.*s", (int)n, name);
	const json_t *v = json_object_get(json_object_get(h->json, "values"), key);
	if (json_is_number(v)) {
		*value = json_number_value(v);
		return true;
	}
	if (!case_value(h, name, n, &text))
		return false;
	*value = strtod(text, NULL);
	return true;
}

/* What the text was made for is what the case has. */
static void
check_values(Host *h)
{
	const char *key, *text;
	json_t *v;
	json_object_foreach(json_object_get(h->json, "values"), key, v) {
		char mine[64];
		if (json_is_integer(v))
			snprintf(mine, sizeof mine, "%lld", (long long)json_integer_value(v));
		else if (json_is_real(v))
			snprintf(mine, sizeof mine, "%.9g", json_real_value(v));
		else if (json_is_boolean(v))
			snprintf(mine, sizeof mine, "%s", json_is_true(v) ? "true" : "false");
		else
			snprintf(mine, sizeof mine, "%s", json_string_value(v) ? json_string_value(v) : "");
		if (case_value(h, key, strlen(key), &text) && strcmp(text, mine) != 0)
			wrong(h, "made for %s = %s, the case has %s", key, mine, text);
	}
}

/* ---- buffers ---- */

static int
param_named(const Host *h, const char *name)
{
	const Kernel *k = h->c->k->k;
	for (int i = 0; i < k->params.n; i++)
		if (strcmp(k->params.at[i].name, name) == 0)
			return i;
	return -1;
}

/* From the tensor's first element to the end of its last, gaps of a strided one included. */
static size_t
memory_bytes(const TglTensor *t)
{
	const char *low, *high;
	tensor_span(t, &low, &high);
	return (size_t)(high - low);
}

/* `padded`: how many bytes the memory is a multiple of; those behind the tensor are to stay as they are. */
static void
put_memory(Host *h, int i, size_t size, int padded, int grain, bool unset, const void *from)
{
	size_t whole = padded > 1 ? (size + (size_t)padded - 1) / (size_t)padded * (size_t)padded : size;
	h->mine[i] = msl_guarded(whole);
	if (!h->mine[i]) {
		wrong(h, "no memory");
		return;
	}
	memset(h->mine[i], PADDING, whole);
	if (from && size)
		memcpy(h->mine[i], from, size);
	h->size[i] = size;
	h->launch.buffer[i] = (MslBuffer){h->mine[i], whole, grain, unset, false};
}

static void
put_tensor(Host *h, int i, const json_t *row)
{
	int p = param_named(h, word_of(row, "name"));
	const Kernel *k = h->c->k->k;
	const char *access = word_of(row, "access"), *dtype = word_of(row, "dtype");
	int grain = msl_dtype_bytes(dtype);
	if (p < 0) {
		wrong(h, "buffer %d: there is no parameter '%s'", i, word_of(row, "name"));
		return;
	}
	const BoundParam *b = &h->c->b.bound.param[p];
	if (!h->c->b.tensor[p]) {                       /* scratch */
		int64_t n = 1;
		for (int d = 0; d < b->rank; d++)
			n *= b->dim[d];
		put_memory(h, i, (size_t)((n * dtype_info[b->dtype].bits + 7) / 8), number_of(row, "padded"), grain, true, NULL);
		return;
	}
	TglTensor *t = h->c->b.tensor[p];
	const json_t *fill = json_object_get(row, "fill");
	bool unset = strcmp(access, "write") == 0 && !fill;
	if (b->has_fill != (fill != NULL))
		wrong(h, "buffer %d: '%s' is filled before the launch, or not", i, word_of(row, "name"));
	if (!grain || (k->params.at[p].kind == PARAM_TENSOR && strcmp(dtype, dtype_info[t->dtype].text) != 0 &&
	    !strchr(dtype, '4')))
		wrong(h, "buffer %d, '%s', is of %s, not %s", i, word_of(row, "name"), dtype_info[t->dtype].text, dtype);
	h->tensor[i] = t;
	put_memory(h, i, memory_bytes(t), number_of(row, "padded"), grain ? grain : 1, unset, t->data);
}

static void
put_value(Host *h, const json_t *row, uint64_t bits)
{
	int bytes = msl_dtype_bytes(word_of(row, "dtype")), at = number_of(row, "offset");
	if (!bytes || at < 0 || at % bytes || at + bytes > h->nvalue)
		wrong(h, "'%s' has no type, or is not within the values", word_of(row, "name"));
	else
		memcpy(h->value + at, &bits, (size_t)bytes);
}

static void
put_scalar(Host *h, const json_t *row)
{
	int p = param_named(h, word_of(row, "name"));
	if (p < 0) {
		wrong(h, "there is no parameter '%s'", word_of(row, "name"));
		return;
	}
	const Const *v = &h->c->b.info[p].scalar;
	PlanArg a = {.i = v->i, .f = v->kind == CONST_FLOAT ? v->f : (double)v->i};
	put_value(h, row, scalar_bits(h->c->b.bound.param[p].dtype, &a));
}

static void
put_extent(Host *h, const json_t *row, bool stride)
{
	int p = param_named(h, word_of(row, "name")), d = number_of(row, "dim");
	const TglTensor *t = p < 0 ? NULL : h->c->b.tensor[p];
	const BoundParam *b = p < 0 ? NULL : &h->c->b.bound.param[p];
	if (!b || d < 0 || d >= b->rank || (stride && !t))
		wrong(h, "'%s' has no dimension %d", word_of(row, "name"), d);
	else
		put_value(h, row, (uint64_t)(stride ? t->stride[d] : b->dim[d]));
}

static void
put_dim(Host *h, const json_t *row)
{
	const char *name = word_of(row, "name"), *text;
	if (case_value(h, name, strlen(name), &text))
		put_value(h, row, (uint64_t)strtoll(text, NULL, 10));
	else
		wrong(h, "there is no dimension '%s'", name);
}

static void
put_field(Host *h, const json_t *row)
{
	const char *kind = word_of(row, "kind");
	int axis = number_of(row, "dim");
	if (strcmp(kind, "scalar") == 0)
		put_scalar(h, row);
	else if (strcmp(kind, "dim") == 0)
		put_dim(h, row);
	else if (strcmp(kind, "extent") == 0 || strcmp(kind, "stride") == 0)
		put_extent(h, row, *kind == 's');
	else if (strcmp(kind, "grid") == 0 && axis >= 0 && axis < MAX_AXES)
		put_value(h, row, (uint64_t)h->c->b.bound.grid[axis]);
	else if (strcmp(kind, "inverse") == 0 && axis >= 0 && axis < MAX_AXES)
		put_value(h, row, grid_inverse(h->c->b.bound.grid[axis]));
	else
		wrong(h, "a value is of no known kind, '%s'", kind);
}

/* The buffer of all numbers. */
static void
put_values(Host *h, int i, const json_t *row)
{
	const json_t *field;
	size_t k;
	h->nvalue = number_of(row, "bytes");
	if (h->nvalue <= 0 || h->nvalue > (int)sizeof h->value) {
		wrong(h, "%d bytes of values", h->nvalue);
		return;
	}
	json_array_foreach(json_object_get(row, "fields"), k, field)
		put_field(h, field);
	put_memory(h, i, (size_t)h->nvalue, 0, 4, false, h->value);
	h->launch.buffer[i].constant = true;
}

static void
put_row(Host *h, const json_t *row)
{
	const char *kind = word_of(row, "kind");
	int i = json_is_integer(json_object_get(row, "index")) ? number_of(row, "index") : -1;
	if (i < 0 || i >= MSL_BUFFERS || h->given[i]) {
		wrong(h, "a buffer has no index of its own");
		return;
	}
	h->given[i] = true;
	if (strcmp(kind, "tensor") == 0)
		put_tensor(h, i, row);
	else if (strcmp(kind, "values") == 0)
		put_values(h, i, row);
	else if (strcmp(kind, "faults") == 0) {
		put_memory(h, i, FAULT_ROOM, 0, 4, false, NULL);
		memset(h->mine[i], 0, FAULT_ROOM);
		h->faults = i;
	} else if (strcmp(kind, "counter") == 0) {
		put_memory(h, i, 8, 0, 4, false, NULL);
		memset(h->mine[i], 0, 8);
	} else
		wrong(h, "buffer %d is of no known kind, '%s'", i, kind);
}

/* ---- launching ---- */

static int64_t
find_grid(Host *h)
{
	const json_t *grid = json_object_get(h->json, "grid");
	int64_t all = 1, want[MAX_AXES];
	grid_count(&h->c->b.bound, want);
	if ((int)json_array_size(grid) != h->c->b.bound.naxis)
		wrong(h, "the grid has %d axes, not %d", (int)json_array_size(grid), h->c->b.bound.naxis);
	for (int i = 0; i < (int)json_array_size(grid) && i < MAX_AXES; i++) {
		const char *text = json_string_value(json_array_get(grid, (size_t)i));
		double v = 0;
		if (!text || !formula_value(&(Formula){named, h, true}, text, &v))
			wrong(h, "'%s' is no formula", text ? text : "");
		else if ((int64_t)v != want[i])
			wrong(h, "axis %d of the grid is %s = %lld, and should be %lld", i, text, (long long)v,
			    (long long)want[i]);
		all *= (int64_t)v;
	}
	return all;
}

static bool
prepare(Host *h)
{
	const json_t *row;
	size_t i;
	h->faults = -1;
	h->nvalue = 0;
	memset(h->value, 0, sizeof h->value);
	if (strcmp(word_of(h->json, "math"), "safe") != 0)
		wrong(h, "arithmetic that is not safe");
	h->launch.kernel = msl_kernel(h->program, word_of(h->json, "kernel"));
	if (!h->launch.kernel)
		wrong(h, "the text has no kernel '%s'", word_of(h->json, "kernel"));
	else if (h->launch.kernel->threads != number_of(h->json, "threads"))
		wrong(h, "%d threads, but the kernel's attribute allows %d", number_of(h->json, "threads"),
		    h->launch.kernel->threads);
	check_values(h);
	json_array_foreach(json_object_get(h->json, "buffers"), i, row)
		put_row(h, row);
	int64_t groups = find_grid(h);
	for (int j = 0; j < 3; j++)
		h->launch.groups[j] = h->launch.threads[j] = 1;
	h->launch.groups[0] = (int)groups;
	h->launch.threads[0] = number_of(h->json, "threads");
	h->launch.threadgroup_bytes = number_of(h->json, "threadgroup_bytes");
	return !*h->out->wrong;
}

static void
clean(Host *h)
{
	for (int i = 0; i < MSL_BUFFERS; i++) {
		if (h->mine[i])
			msl_unguard(h->mine[i], h->launch.buffer[i].size);
		h->mine[i] = NULL;
		h->tensor[i] = NULL;
		h->given[i] = false;
	}
	h->launch = (MslLaunch){0};
	memset(h->size, 0, sizeof h->size);
}

/* ---- judging ---- */

/* ---- without a reference ---- */

static void
run_on_cpu(Host *h)
{
	int n = h->c->k->k->params.n;
	if (h->c->k->k->reference)
		return;
	h->cpu = calloc((size_t)n + 1, sizeof *h->cpu);
	if (tgl_case_run(h->c, NULL) != TGL_OK)
		wrong(h, "on cpu: %.300s", tgl_error(h->c->dev->cx)->text);
	for (int i = 0; i < n; i++) {
		const TglTensor *t = h->c->b.tensor[i];
		h->cpu[i] = t ? malloc(memory_bytes(t) + 1) : NULL;
		if (t)
			memcpy(h->cpu[i], t->data, memory_bytes(t));
	}
}

/* Devices sum in other orders; integers, and floats below 16 bits, are equal to the bit. */
static bool
is_near(const char *dtype, const char *got, const char *want, int bytes)
{
	if (memcmp(got, want, (size_t)bytes) == 0)
		return true;
	if (strcmp(dtype, "f32") != 0 && strcmp(dtype, "f16") != 0 && strcmp(dtype, "bf16") != 0)
		return false;
	double a = msl_get(dtype, got), b = msl_get(dtype, want), unit = *dtype == 'f' ? dtype[1] == '3' ? 1e-4 : 4e-3 : 3e-2;
	return (isnan(a) && isnan(b)) || fabs(a - b) <= unit * fmax(fabs(b), 1);
}

static void
compare_cpu(Host *h)
{
	for (int i = 0; i < h->c->k->k->params.n; i++) {
		const TglTensor *t = h->c->b.tensor[i];
		const char *dtype = t ? dtype_info[t->dtype].text : "";
		int bytes = t && dtype_info[t->dtype].bits >= 8 ? msl_dtype_bytes(dtype) : 1;
		for (size_t at = 0; t && at + (size_t)bytes <= memory_bytes(t); at += (size_t)bytes)
			if (!is_near(dtype, (char *)t->data + at, h->cpu[i] + at, bytes)) {
				wrong(h, "'%s': element %zu is %g, and on cpu %g", h->c->k->k->params.at[i].name,
				    at / (size_t)bytes, msl_get(dtype, (char *)t->data + at),
				    msl_get(dtype, h->cpu[i] + at));
				break;
			}
	}
}

static void
compare(Host *h)
{
	TglCheck check;
	bool more = true;
	if (h->cpu) {
		compare_cpu(h);
		return;
	}
	for (int i = 0; more; i++) {
		if (tgl_case_check(h->c, i, &check, &more) != TGL_OK) {
			wrong(h, "the check failed: %.300s", tgl_error(h->c->dev->cx)->text);
			return;
		}
		if (!more)
			break;
		h->out->ratio = fmax(h->out->ratio, check.ratio);
		if (!check.passed)
			wrong(h, "'%s' at %lld is %g, not %g: %g times its bound, %lld of %lld elements wrong", check.param,
			    (long long)check.element, check.got, check.want, check.ratio,
			    (long long)check.nwrong, (long long)check.count);
	}
}

static void
take_back(Host *h)
{
	for (int i = 0; i < MSL_BUFFERS; i++)
		if (h->tensor[i] && h->size[i])
			memcpy(h->tensor[i]->data, h->mine[i], h->size[i]);
	for (int i = 0; i < MSL_BUFFERS; i++)
		for (size_t k = h->size[i]; h->mine[i] && k < h->launch.buffer[i].size; k++)
			if (((unsigned char *)h->mine[i])[k] != PADDING)
				wrong(h, "buffer %d: the padding behind it has changed", i);
	uint32_t fault = h->faults < 0 ? 0 : *(uint32_t *)h->mine[h->faults];
	if (fault)
		wrong(h, "assert number %u is false", fault);
}

/* The same bits in another order, but for sums by atomics, whose order is undefined. */
static void
compare_runs(Host *h, int run)
{
	for (int i = 0; i < MSL_BUFFERS; i++) {
		size_t size = h->size[i];
		if (!h->tensor[i] || !size)
			continue;
		if (run == 0) {
			h->first[i] = malloc(size);
			memcpy(h->first[i], h->mine[i], size);
		} else if (memcmp(h->first[i], h->mine[i], size) != 0 && !h->program->has_atomics)
			msl_report(&h->out->reports, "fragment", 0,
			    "buffer %d depends on which lane holds which element of a matrix, or on the order of threads", i);
	}
}

bool
host_run(const MslProgram *p, const char *json, TglCase *c, HostResult *out)
{
	json_error_t error;
	Host h = {.program = p, .c = c, .out = out, .json = json_loads(json, 0, &error)};
	*out = (HostResult){0};
	if (!h.json)
		wrong(&h, "the description is no JSON: %s", error.text);
	if (!*out->wrong)
		run_on_cpu(&h);
	for (int run = 0; run < 2 && !*out->wrong && !out->reports.n; run++) {
		if (!case_restore(c) || !fill_outputs(c->k, &c->b.bound, c->b.tensor))
			wrong(&h, "no memory");
		if (prepare(&h)) {
			h.launch.order = run;
			h.launch.layout = p->names_elements ? 0 : run;
			if (h.launch.groups[0] > 0)
				msl_launch(p, &h.launch, &out->reports);
			take_back(&h);
			compare_runs(&h, run);
			c->has_run = true;
			if (!out->reports.n)
				compare(&h);
		}
		clean(&h);
	}
	for (int i = 0; i < MSL_BUFFERS; i++)
		free(h.first[i]);
	for (int i = 0; h.cpu && i < c->k->k->params.n; i++)
		free(h.cpu[i]);
	free(h.cpu);
	json_decref(h.json);
	return !*out->wrong && !out->reports.n;
}
