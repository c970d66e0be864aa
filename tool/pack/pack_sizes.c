/* For which sizes a pack has code.
 *
 *     # sizes of --sizes, one a line: a kernel and values by name; a comment may stand behind them
 *     softmax R = 4096, C = 1000
 *     matmul M = 4096, N = 4096, K = 4096, T = f16
 *
 *     # --tuned: what `tegula tune --export` wrote
 *     "NVIDIA H200" matmul 0f6c… "f16, f16, f16" "M = 4096, …": BM = 128, warps = 8 (80 us, default 95 us)
 *
 * A kernel that no line of --sizes names is compiled for its examples (those marked bench, else the first); lines of
 * --tuned add to the functions that these make.  Where a compile-time parameter follows from one dimension, as
 * BLOCK = pow2ceil(C) does, code is of one value of it, and so the pack has some for each power of two of that dimension.
 * Where powers of two are not all values that it can have, as in DIM = D, the pack is partial: it has those of tiles,
 * 16 to 256, and says so. */
#include "tool/pack/pack.h"

#include "runtime/cache/cache.h"
#include "runtime/tune/tune.h"

#include <errno.h>
#include <string.h>

enum {
	MOST_POWER = 14,                                /* 16384: greater ones are asked for */
	TILE_POWER = 4, TILE_MOST_POWER = 8,            /* from the least extent of matrix instructions to large heads */
	TRIED = 64                                      /* sizes that show whether powers of two are all that there is */
};

/* ---- lines ---- */

typedef struct Reading {
	Pack *p;
	PackLines *out;
	const char *path;
	int line;
} Reading;

static bool
add_tuned(void *user, const TuneEntry *e)
{
	Reading *r = user;
	Arena *mem = r->p->cx->mem;
	NamedConst *sizes, *values;
	int nsizes, n;
	PackLine l = {.kernel = arena_strdup(mem, e->key.kernel),
	    .device = arena_strdup(mem, e->key.device),
	    .dtypes = arena_strdup(mem, e->key.dtypes),
	    .line = ++r->line};
	bool is_default = strcmp(e->values, "default") == 0;
	if (!values_parse(r->p->cx, e->key.sizes, mem, &sizes, &nsizes) ||
	    !values_parse(r->p->cx, is_default ? "" : e->values, mem, &values, &n))
		return false;
	l.value = NEW_ARRAY(mem, NamedConst, nsizes + n);
	for (int i = 0; i < nsizes + n; i++)
		l.value[i] = i < nsizes ? sizes[i] : values[i - nsizes];
	l.n = nsizes + n;
	vec_push(mem, r->out, l);
	return true;
}

static bool
read_tuned(Pack *p, const char *path, PackLines *out)
{
	Text t = {0};
	Reading r = {p, out, path, 0};
	int line;
	const char *why = "";
	if (!file_read(path, INT32_MAX, &t))
		return cli_wrong("cannot read '%s': %s", path, strerror(errno)), false;
	bool ok = t.n == 0 || tune_read(t.at, add_tuned, &r, &line, &why);
	if (!ok)
		cli_wrong("%s:%d: this is no result of tuning: %s", path, line, why);
	text_close(&t);
	return ok;
}

static bool
read_size(Pack *p, const char *path, char *s, int number, PackLines *out)
{
	Arena *mem = p->cx->mem;
	PackLine l = {.line = number};
	s[strcspn(s, "#")] = 0;
	s = text_trim(s);
	if (!*s)
		return true;
	size_t n = strcspn(s, " \t");
	l.kernel = arena_strndup(mem, s, n);
	if (!values_parse(p->cx, s + n, mem, &l.value, &l.n) || l.n == 0)
		return cli_wrong("%s:%d: expected a kernel and its sizes, as in `softmax R = 4096, C = 1000`", path,
			   number),
		       false;
	for (int i = 0; i < l.n; i++)
		for (int j = 0; j < i; j++)
			if (l.value[i].name == l.value[j].name)
				return cli_wrong("%s:%d: '%s' is given twice", path, number, l.value[i].name), false;
	vec_push(mem, out, l);
	return true;
}

static bool
read_sizes(Pack *p, const char *path, PackLines *out)
{
	Text t = {0};
	bool ok = true;
	int number = 0;
	if (!file_read(path, INT32_MAX, &t))
		return cli_wrong("cannot read '%s': %s", path, strerror(errno)), false;
	for (char *s = t.at, *end; ok && s && *s; s = end) {
		end = s + strcspn(s, "\n");
		if (*end)
			*end++ = 0;
		ok = read_size(p, path, s, ++number, out);
	}
	text_close(&t);
	return ok;
}

bool
pack_read_lines(Pack *p, PackLines *out)
{
	return (!cli_has(p->cli, OPT_SIZES) || read_sizes(p, p->cli->value[OPT_SIZES], out)) &&
	       (!cli_has(p->cli, OPT_TUNED) || read_tuned(p, p->cli->value[OPT_TUNED], out));
}

/* ---- what follows from what ---- */

static bool
names(const Kernel *k, const Expr *e, const char *symbol, int before)
{
	if (expr_mentions(e, symbol))
		return true;
	for (int i = 0; i < before; i++) {
		const CtParam *c = &k->item->ctparams.at[i];
		if (expr_mentions(e, c->name) && names(k, c->value, symbol, i))
			return true;
	}
	return false;
}

bool
pack_default_names(const Kernel *k, int ct, const char *symbol)
{
	return names(k, k->item->ctparams.at[ct].value, symbol, ct);
}

bool
pack_is_derived(const Kernel *k, int ct)
{
	for (int i = 0; i < k->symbols.n; i++)
		if (pack_default_names(k, ct, k->symbols.at[i]))
			return true;
	return ANY_OF(i, k->params.n,
	    k->params.at[i].kind == PARAM_SCALAR && pack_default_names(k, ct, k->params.at[i].name));
}

/* Whether a count of the grid is divided by a name: cdiv(N, B), N / B. */
static bool
divides(const Expr *e, const char *name)
{
	if (!e)
		return false;
	bool is_cdiv = e->kind == EX_CALL && e->a->kind == EX_NAME && strcmp(e->a->name, "cdiv") == 0 && e->args.n == 2;
	bool found = (is_cdiv && expr_mentions(e->args.at[1].e, name)) ||
	    (e->kind == EX_BINARY && e->bin == BIN_DIV && expr_mentions(e->b, name)) || divides(e->a, name) ||
	    divides(e->b, name) || divides(e->c, name);
	for (int i = 0; i < e->args.n && !found; i++)
		found = divides(e->args.at[i].e, name);
	return found;
}

bool
pack_makes_function(const Kernel *k, int ct)
{
	const char *name = k->item->ctparams.at[ct].name;
	bool is_choice = pack_is_derived(k, ct) || schedule_named(name) >= 0;
	for (int i = 0; i < k->item->tune.n; i++)
		is_choice |= strcmp(k->item->tune.at[i].name, name) == 0;
	for (int i = 0; i < k->item->grid.n; i++)
		is_choice |= divides(k->item->grid.at[i].count, name);
	return !is_choice;
}

/* The one dimension of which code is made for a single value; NULL: none, or several. */
static const char *
class_of(const Kernel *k)
{
	const char *found = NULL;
	int n = 0;
	for (int s = 0; s < k->symbols.n; s++) {
		bool is_named = false;
		for (int i = 0; i < k->item->ctparams.n; i++)
			is_named |= pack_default_names(k, i, k->symbols.at[s]);
		n += is_named;
		found = is_named ? k->symbols.at[s] : found;
	}
	return n == 1 ? found : NULL;
}

/* ---- sizes of a kernel ---- */

static void
set(NamedConst *v, int *n, const NamedConst *c)
{
	for (int i = 0; i < *n; i++)
		if (v[i].name == c->name) {
			v[i] = *c;
			return;
		}
	v[(*n)++] = *c;
}

static bool
is_scalar(const Kernel *k, const char *name)
{
	return ANY_OF(i, k->params.n, k->params.at[i].kind == PARAM_SCALAR && k->params.at[i].name == name);
}

/* -D, as far as a kernel has the name. */
static bool
set_defined(Pack *p, const Kernel *k, NamedConst *v, int *n)
{
	for (int i = 0; i < p->cli->define.n; i++) {
		const Pair *pair = &p->cli->define.at[i];
		char *text = arena_printf(p->cx->mem, "%s = %s", pair->name, pair->value);
		NamedConst *c;
		int one;
		if (!values_parse(p->cx, text, p->cx->mem, &c, &one) || one != 1)
			return cli_misuse("-D %s takes a number, true, false or a dtype, found '%s'", pair->name,
				   pair->value),
			       false;
		if (ctparam_named(k, c->name) < 0 && symbol_named(k, c->name) < 0 && schedule_named(c->name) < 0 &&
		    !is_scalar(k, c->name))
			continue;
		p->defined[i] = true;
		set(v, n, c);
	}
	return true;
}

/* What an example says, but for what the header or the compiler can choose: of compile-time values those without a default
 * and, where it is the example that is asked for, those that it names and results follow from. */
static bool
example_values(Kernel *k, const ExampleItem *ex, bool is_asked, NamedConst *v, int *n)
{
	Bound b;
	ArgInfo *args = NEW_ARRAY(k->program->cx->mem, ArgInfo, k->params.n);
	if (!example_bind(k, ex, NULL, 0, args, &b))
		return false;
	for (int i = 0; i < b.nsymbol; i++)
		set(v, n, &b.symbol[i]);
	for (int i = 0; i < b.nct; i++)
		if (!k->item->ctparams.at[i].value ||
		    (is_asked && example_sets(ex, b.ct[i].name) && pack_makes_function(k, i)))
			set(v, n, &b.ct[i]);
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR && args[i].scalar.kind != CONST_NONE)
			set(v, n, &(NamedConst){.name = k->params.at[i].name, .value = args[i].scalar});
	return true;
}

static PackSizes *
add(Pack *p, const Kernel *k, PackSizesList *out, const NamedConst *base, int nbase, int more)
{
	PackSizes s = {
	    .given = NEW_ARRAY(p->cx->mem, NamedConst, nbase + more + p->cli->define.n + k->symbols.n), .n = nbase};
	memcpy(s.given, base, sizeof *base * (size_t)nbase);
	vec_push(p->cx->mem, out, s);
	return &vec_last(out);
}

/* Sizes of examples, which count as asked for where no line does. */
static bool
add_examples(Pack *p, Kernel *k, bool is_asked, PackSizesList *out)
{
	bool benches = false;
	for (int i = 0; i < k->examples.n; i++)
		benches |= k->examples.at[i].is_bench;
	for (int i = 0; i < k->examples.n; i++) {
		NamedConst none = {0};
		if (benches ? !k->examples.at[i].is_bench : i > 0)
			continue;
		PackSizes *s = add(p, k, out, &none, 0, k->params.n + k->item->ctparams.n);
		s->is_asked = is_asked;
		if (!example_values(k, &k->examples.at[i], is_asked, s->given, &s->n) ||
		    !set_defined(p, k, s->given, &s->n))
			return false;
	}
	if (k->examples.n > 0)
		return true;
	PackSizes *s = add(p, k, out, &(NamedConst){0}, 0, k->params.n);
	NamedConst size = {.value = {.kind = CONST_INT, .i = 1024}}, one = {.value = {.kind = CONST_INT, .i = 1}};
	for (int i = 0; i < k->symbols.n; i++) {
		size.name = k->symbols.at[i];
		set(s->given, &s->n, &size);
	}
	for (int i = 0; i < k->params.n; i++) {
		one.name = k->params.at[i].name;
		if (is_scalar(k, one.name) && header_mentions(k, one.name))
			set(s->given, &s->n, &one);
	}
	return set_defined(p, k, s->given, &s->n);
}

static PackSizes *
add_power(Pack *p, const Kernel *k, const PackSizes *base, const char *symbol, int64_t size, PackSizesList *out)
{
	PackSizes *s = add(p, k, out, base->given, base->n, 1);
	set(s->given, &s->n, &(NamedConst){.name = symbol, .value = {.kind = CONST_INT, .i = size}});
	return s;
}

/* The compile-time values that follow from a dimension; false: the header refuses the size. */
static bool
values_of(Pack *p, Kernel *k, const PackSizes *base, const char *symbol, int64_t size, int64_t *out)
{
	PackSizesList one = {0};
	const PackSizes *s = add_power(p, k, base, symbol, size, &one);
	Bound b;
	p->cx->muted++;
	bool ok = kernel_bind(k, NEW_ARRAY(p->cx->mem, ArgInfo, k->params.n), s->given, s->n, &b);
	p->cx->muted--;
	for (int i = 0; ok && i < k->item->ctparams.n; i++)
		out[i] = pack_default_names(k, i, symbol) ? b.ct[i].value.i : 0;
	return ok;
}

/* Whether code of powers of two is right for every size between them, as of BLOCK = pow2ceil(C). */
static bool
powers_cover(Pack *p, Kernel *k, const PackSizes *base, const char *symbol)
{
	int n = k->item->ctparams.n;
	size_t bytes = sizeof(int64_t) * (size_t)n;
	int64_t *seen = NEW_ARRAY(p->cx->mem, int64_t, TRIED * n), *v = NEW_ARRAY(p->cx->mem, int64_t, n);
	int nseen = 0;
	for (int64_t size = 1; size <= TRIED; size *= 2)
		nseen += values_of(p, k, base, symbol, size, seen + nseen * n);
	for (int64_t size = 3; size <= TRIED / 2; size++) {
		bool found = !values_of(p, k, base, symbol, size, v);
		for (int i = 0; i < nseen && !found; i++)
			found = memcmp(v, seen + i * n, bytes) == 0;
		if (!found)
			return false;
	}
	return true;
}

/* Whether code is of some values of the dimensions alone. */
static bool
add_powers(Pack *p, Kernel *k, const PackSizes *base, PackSizesList *out)
{
	const char *symbol = class_of(k);
	bool covers = symbol && powers_cover(p, k, base, symbol);
	for (int power = covers ? 0 : TILE_POWER; symbol && power <= (covers ? MOST_POWER : TILE_MOST_POWER); power++)
		add_power(p, k, base, symbol, INT64_C(1) << power, out);
	return !covers;
}

/* "" where the header refuses them. */
static const char *
variant_of(Pack *p, Kernel *k, const PackSizes *s)
{
	Bound b;
	p->cx->muted++;
	bool ok = kernel_bind(k, NEW_ARRAY(p->cx->mem, ArgInfo, k->params.n), s->given, s->n, &b);
	p->cx->muted--;
	return ok ? pack_variant(p, k, &b) : "";
}

/* Whether no sizes before are of the same function. */
static bool
is_first_of_function(Pack *p, Kernel *k, const PackSizesList *all, int at)
{
	const char *variant = variant_of(p, k, &all->at[at]);
	return !ANY_OF(i, at, strcmp(variant_of(p, k, &all->at[i]), variant) == 0);
}

/* Of sizes what a launch cannot choose: dimensions, scalars, and values that make the function; and -D. */
static bool
take_function(Pack *p, Kernel *k, const PackSizes *s, PackSizes *out)
{
	out->given = NEW_ARRAY(p->cx->mem, NamedConst, s->n + p->cli->define.n);
	for (int i = 0; i < s->n; i++) {
		int ct = ctparam_named(k, s->given[i].name);
		bool is_choice = ct >= 0 ? k->item->ctparams.at[ct].value && !pack_makes_function(k, ct)
					 : schedule_named(s->given[i].name) >= 0;
		if (!is_choice)
			out->given[out->n++] = s->given[i];
	}
	return set_defined(p, k, out->given, &out->n);
}

/* Whether sizes are of a function, and were measured with its dtypes. */
static bool
is_of_function(Pack *p, Kernel *k, const PackSizes *s, const PackLine *l, const char *variant)
{
	size_t n = strlen(l->dtypes);
	const char *of = variant_of(p, k, s);
	bool has_dtypes = strncmp(variant, l->dtypes, n) == 0 && (!variant[n] || variant[n] == ';');
	return has_dtypes && (!*of || strcmp(of, variant) == 0);
}

/* Lines of --sizes; of --tuned those of a function. */
static bool
add_lines(Pack *p, Kernel *k, const PackSizes *base, PackLines *lines, const char *variant, PackSizesList *out)
{
	for (int i = 0; i < lines->n; i++) {
		PackLine *l = &lines->at[i];
		if (strcmp(l->kernel, k->name) != 0 || !l->device != !variant)
			continue;
		PackSizes *s = add(p, k, out, base->given, base->n, l->n);
		s->is_asked = true;
		s->device = l->device;
		s->line = l->line;
		l->used = 1;
		if (!set_defined(p, k, s->given, &s->n))
			return false;
		for (int j = 0; j < l->n; j++)
			set(s->given, &s->n, &l->value[j]);
		if (variant && !is_of_function(p, k, s, l, variant))
			out->n--;
	}
	return true;
}

/* Results of tuning come first: of two forms for the same sizes a launch takes the first. */
bool
pack_sizes(Pack *p, Kernel *k, PackLines *lines, PackSizesList *out, bool *is_partial)
{
	PackSizesList asked = {0}, examples = {0};
	bool has_line = false;
	for (int i = 0; i < lines->n; i++)
		has_line |= !lines->at[i].device && strcmp(lines->at[i].kernel, k->name) == 0;
	if (!add_examples(p, k, !has_line, &examples) ||
	    (has_line && !add_lines(p, k, &examples.at[0], lines, NULL, &asked)))
		return false;
	for (int i = 0; i < examples.n && !has_line; i++)
		vec_push(p->cx->mem, &asked, examples.at[i]);
	PackSizes *of = NEW_ARRAY(p->cx->mem, PackSizes, asked.n);
	for (int i = 0; i < asked.n; i++)
		if (is_first_of_function(p, k, &asked, i) &&
		    (!take_function(p, k, &asked.at[i], &of[i]) ||
			!add_lines(p, k, &of[i], lines, variant_of(p, k, &asked.at[i]), out)))
			return false;
	for (int i = 0; i < asked.n; i++)
		vec_push(p->cx->mem, out, asked.at[i]);
	*is_partial = false;
	for (int i = 0; i < asked.n; i++)
		*is_partial |= of[i].n > 0 && add_powers(p, k, &of[i], out);
	return true;
}
