/* What tuning found, for the launches after it; where it found nothing, what the compiler chooses.
 *
 * A result is kept for the device's model, the kernel's text (without comments and layout of lines, with
 * every constant and helper that it can see), the dtypes, and the sizes: each dimension and each
 * integer that the header mentions, rounded up to a power of two, so that what was measured for
 * 4096 rows serves 4000 too.  Compile-time parameters that are not tuned count as they are.  The
 * compiler's version does not: a result stays good advice, and goes into version control.
 *
 * What the caller or the example says goes before it, and a result that the header refuses for these sizes is
 * passed over, as is one with a value that `tune` does not list: results are texts that anyone may write. */
#include <string.h>

#include "runtime/tune/tune.h"

/* ---- the key ---- */

/* "vector_add @2:1" without its place: a comment above it changes nothing. */
static void
drop_places(Text *t)
{
	size_t to = 0;
	for (size_t i = 0; i < t->n;) {
		size_t end = i + strcspn(t->at + i, "\n"), cut = end, k = end;
		while (k > i && strchr("0123456789:", t->at[k - 1]))
			k--;
		if (k > i + 1 && t->at[k - 1] == '@' && t->at[k - 2] == ' ')
			cut = k - 2;
		memmove(t->at + to, t->at + i, cut - i);
		to += cut - i;
		if (end < t->n)
			t->at[to++] = '\n';
		i = end + 1;
	}
	t->n = to;
}

static Hash
kernel_hash(TglKernel *k)
{
	const Program *p = k->k->program;
	Ast some = {.file = p->ast->file};
	Text t = {0};
	if (k->text_hashed)
		return k->text_hash;
	Arena *mem = arena_open();
	vec_push(mem, &some.items, (Item *)k->k->item);
	for (int i = 0; i < p->items.n; i++)
		if (p->items.at[i]->kind == ITEM_CONST || p->items.at[i]->kind == ITEM_FN)
			vec_push(mem, &some.items, (Item *)p->items.at[i]);
	ast_dump(p->cx, &some, &t);
	drop_places(&t);
	k->text_hash = hash_bytes(t.at, t.n);
	k->text_hashed = true;
	text_close(&t);
	arena_close(mem);
	return k->text_hash;
}

/* "NVIDIA H200", "cpu, 2 threads" */
static const char *
device_model(TglDevice *dev, Arena *mem)
{
	TglDeviceInfo info = {0};
	dev->dev.info(&dev->dev, &info);
	if (!dev->dev.load_artefact)
		return arena_printf(mem, "%s, %d threads", dev->dev.name, info.threads);
	return arena_strndup(mem, info.text, strcspn(info.text, ","));
}

/* The next of `steps` sizes from one power of two to the next. */
static int64_t
bucket(int64_t v, int64_t steps)
{
	int64_t p = 1;
	while (p < v && p <= INT64_MAX / 2)
		p *= 2;
	int64_t each = MAX(p / 2 / steps, 1);
	return v <= 0 || v > INT64_MAX - each ? v : steps == 1 ? p : (v + each - 1) / each * each;
}

static bool
is_tuned(const Kernel *k, const char *name)
{
	return ANY_OF(i, k->item->tune.n, strcmp(k->item->tune.at[i].name, name) == 0);
}

/* Tiles may be chosen that only fit because they divide a dimension (compile/choose/tile): powers of two that do count. */
enum { WIDE_BITS = 128, CLOSE = 8, DIVIDES_LEAST = 64, DIVIDES_MOST = 4096 };

static int64_t
divisor(int64_t v)
{
	return v <= 0 ? DIVIDES_LEAST : MAX(MIN(v & -v, DIVIDES_MOST), DIVIDES_LEAST);
}

/* Tensors that are contiguous along another dimension, or less aligned than a contiguous one. */
static void
put_strides(const BoundParam *p, const char *name, Text *out)
{
	if (!p->is_spread)
		return;
	ArgStrides s = arg_strides_of(p->dtype, p->rank, p->dim, p->stride);
	if (s.unit != p->rank || s.apart * dtype_info[p->dtype].bits < WIDE_BITS)
		text_printf(out, "%s%s along %d by %d", out->n ? ", " : "", name, s.unit, s.apart);
}

static const char *
sizes_text(TglKernel *k, const Binding *b, const ExampleItem *ex, int64_t steps, Arena *mem)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < b->bound.nsymbol; i++) {
		Const c = b->bound.symbol[i].value;
		int64_t by = divisor(c.i);
		c.i = bucket(c.i, steps);
		value_print(b->bound.symbol[i].name, &c, &t);
		if (steps == CLOSE)
			text_printf(&t, " by %d", (int)by);
	}
	for (int i = 0; i < k->k->params.n; i++) {
		Const c = b->info[i].scalar;
		put_strides(&b->bound.param[i], k->k->params.at[i].name, &t);
		if (k->k->params.at[i].kind != PARAM_SCALAR || !k->in_header[i] || c.kind != CONST_INT)
			continue;
		c.i = bucket(c.i, steps);
		value_print(k->k->params.at[i].name, &c, &t);
	}
	for (int i = 0; i < b->bound.nct; i++) {
		const NamedConst *v = &b->bound.ct[i];
		if (v->value.kind != CONST_DTYPE && (tune_is_fixed(b, ex, v->name) || !is_tuned(k->k, v->name)))
			value_print(v->name, &v->value, &t);
	}
	return text_take(&t, mem);
}

static const char *
dtypes_text(TglKernel *k, const Bound *b, Arena *mem)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < k->k->params.n; i++)
		text_printf(&t, "%s%s", i ? ", " : "", dtype_info[b->param[i].dtype].text);
	return text_take(&t, mem);
}

void
tune_key(TglKernel *k, const Binding *b, TglDevice *dev, const ExampleItem *ex, Arena *mem, TuneKey *out)
{
	*out = (TuneKey){
	    .device = dev ? device_model(dev, mem) : "",
	    .kernel = k->k->name,
	    .hash = kernel_hash(k),
	    .dtypes = dtypes_text(k, &b->bound, mem),
	    .sizes = sizes_text(k, b, ex, 1, mem),
	    .close_sizes = sizes_text(k, b, ex, CLOSE, mem),
	};
}

/* ---- using it ---- */

bool
tune_is_fixed(const Binding *b, const ExampleItem *ex, const char *name)
{
	return named_const(b->value, b->nvalue, name) || (ex && example_sets(ex, name)) ||
	    schedule_hidden(b->bound.kernel, name);
}

/* The names of `tune` with their values; false: they cannot be computed for these sizes. */
static bool
listed_values(TglKernel *k, const Bound *b, Arena *mem, TuneName **list, int *n)
{
	Compile *cx = k->program->compile;
	Reports before = reports_hide(cx, mem);
	bool ok = kernel_tune(k->k, b, list, n);
	reports_restore(cx, &before);
	return ok;
}

static bool
same_text(const Const *a, const Const *b)
{
	Text x = {0}, y = {0};
	const_text(a, &x);
	const_text(b, &y);
	bool same = strcmp(x.at, y.at) == 0;
	text_close(&x);
	text_close(&y);
	return same;
}

/* A value read from text becomes the one of the list that is written like it; false: there is none. */
static bool
take_listed(const TuneName *list, int n, NamedConst *v)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < list[i].nvalue && strcmp(list[i].name, v->name) == 0; j++)
			if (same_text(&list[i].value[j], &v->value)) {
				v->value = list[i].value[j];
				return true;
			}
	return false;
}

static bool
warn_foreign(TglKernel *k, const char *values)
{
	diag_warning(k->program->compile, k->k->item->name_place, DIAG_TUNE_FOREIGN, values, k->k->name);
	return false;
}

static bool
all_listed(TglKernel *k, const Binding *b, NamedConst *tuned, int ntuned, Arena *mem)
{
	TuneName *list;
	int n;
	if (!listed_values(k, &b->bound, mem, &list, &n))
		return false;
	for (int i = 0; i < ntuned; i++) {
		Text t = {0};
		if (take_listed(list, n, &tuned[i]))
			continue;
		values_print(&tuned[i], 1, &t);
		warn_foreign(k, t.at);
		text_close(&t);
		return false;
	}
	return true;
}

/* The bound kernel with what is known; false: as it was.  A result of tuning has listed names and values; the compiler
 * chooses others as well. */
static bool
bind_result(TglKernel *k, Binding *b, const ExampleItem *ex, const char *known, bool is_result, Arena *mem, Arena *into)
{
	NamedConst *tuned, *given;
	int ntuned, n, used = 0;
	Bound bound;
	if (strcmp(known, "default") == 0) /* as tune.c writes no values at all */
		return false;
	if (!values_parse(k->program->compile, known, mem, &tuned, &ntuned))
		return warn_foreign(k, known);
	if (is_result && !all_listed(k, b, tuned, ntuned, mem))
		return false;
	given = bound_values(k->k, &b->bound, b, ex, mem, ntuned, &n);
	for (int i = 0; i < ntuned; i++)
		if ((!is_result || is_tuned(k->k, tuned[i].name)) && !tune_is_fixed(b, ex, tuned[i].name)) {
			given[n++] = (NamedConst){tuned[i].name, tuned[i].value, CHOSEN};
			used++;
		}
	if (!used || !bind_quietly(k, b, given, n, into, &bound, NULL))
		return false;
	b->bound = bound;
	return true;
}

/* What was chosen before, as an example has a choice with each of its inputs, is not the header's own. */
static void
bind_own(TglKernel *k, Binding *b, const ExampleItem *ex, Arena *mem, Arena *into)
{
	Bound own;
	int n;
	NamedConst *given = bound_values(k->k, &b->bound, b, ex, mem, 0, &n);
	if (!bind_quietly(k, b, given, n, into, &own, NULL))
		return;
	b->bound = own;
	binding_pointers(k, b);
}

void
tune_apply_target(TglKernel *k, Binding *b, const ExampleItem *ex, const char *target, Arena *into)
{
	Arena *mem = k->program->compile->mem;
	bind_own(k, b, ex, mem, into);
	bind_result(k, b, ex, tune_choice(k, b, ex, target, mem), false, mem, into);
}

void
tune_apply(TglKernel *k, Binding *b, const ExampleItem *ex, Arena *into)
{
	TglContext *cx = k->program->cx;
	const char *known = NULL;
	TuneKey key;
	bool is_tunable = k->k->item->tune.n > 0;
	if (!b->dev)
		return;
	bool ignores = b->untuned || context_tuning(cx) == TGL_TUNING_IGNORED;
	if (ignores && !b->dev->dev.load_artefact)      /* the oracle's tiles are the source's, if one asks for those */
		return;
	Arena *mem = arena_open();
	bind_own(k, b, ex, mem, into);
	tune_key(k, b, b->dev, ex, mem, &key);
	if (is_tunable && !ignores) {
		known = tune_get(context_cache(cx), &key, mem);
		context_cache_warn(cx, k->program->compile);
	}
	if (!known || !bind_result(k, b, ex, known, true, mem, into))
		bind_result(k, b, ex, tune_chosen(k, b, ex, &key), false, mem, into);
	arena_close(mem);
}
