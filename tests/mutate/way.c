/* The ways in which an example is run, so that whatever can matter does in one of them:
 *
 *     as it is, with the warps in several orders
 *     other sizes: each dimension and count larger by few steps that leave its divisors, and last by many, so that loops
 *     make more trips and other rows and columns are the last ones; and all of them smaller
 *     inputs of floats of which some rows are NaN: what should have been left alone shows even where it is times zero
 *     integers that are 0, as lengths
 *     a pointer that is written to just behind where another one reads, in a launch of one program
 *
 * A way counts only where the code stays that of the example: sizes that a launch promises something else of make other
 * code. */
#include "tests/mutate/subject.h"

#include <stdlib.h>
#include <string.h>

static Way *
add(Subject *s)
{
	Way *w = &s->way[s->nway < WAYS_MOST ? s->nway++ : WAYS_MOST - 1];
	*w = (Way){0};
	return w;
}

static void
set_size(Way *w, const char *name, int64_t value)
{
	if (w->nsize == SIZES_MOST)
		return;
	snprintf(w->size[w->nsize].name, sizeof w->size[0].name, "%s", name);
	w->size[w->nsize++].value = value;
}

/* The value of a dimension or of an integer argument by number; NULL past the last, 0 for what is no such. */
static const char *
integer_at(Opened *x, int i, int64_t *value)
{
	const char *name, *text;
	char *end;
	bool is_size = false;
	TglParam p;
	*value = 0;
	if (!tgl_case_value(x->c, i, &name, &text))
		return NULL;
	for (int k = 0; tgl_kernel_symbol(x->k, k); k++)
		is_size = is_size || strcmp(name, tgl_kernel_symbol(x->k, k)) == 0;
	for (int k = 0; tgl_kernel_param(x->k, k, &p); k++)
		is_size = is_size || (p.kind == TGL_PARAM_SCALAR && strcmp(name, p.name) == 0);
	int64_t n = strtoll(text, &end, 10);
	if (is_size && *end == '\0' && n > 1)
		*value = n;
	return name;
}

static void
add_smaller(Subject *s, Opened *x)
{
	Way *w = add(s);
	const char *name;
	int64_t n;
	for (int i = 0; (name = integer_at(x, i, &n)); i++)
		if (n > 2 * MIN(n & -n, 8))
			set_size(w, name, n - 2 * MIN(n & -n, 8));
}

/* By steps that keep the powers of two which divide it, and by whole tiles. */
static void
add_larger(Subject *s, Opened *x)
{
	static const int steps[] = {1, 2, 3, 4, 6, 7, 12, 25}, odd[] = {1, -1, 7, 40}, tiles[] = {32, 64, 128, 192, 256};
	const char *name;
	int64_t n;
	for (int k = 0; k < LEN(steps); k++)
		for (int i = 0; (name = integer_at(x, i, &n)); i++) {
			int64_t step = n & -n, more = steps[k] * (step < 64 ? 2 : 1) * step;
			if (n && (n > 3 || k < 2) && more <= MAX(4 * step, 24) && s->nway < WAYS_MOST - 24)
				set_size(add(s), name, n + more);
		}
	for (int k = 0; k < LEN(odd); k++)
		for (int i = 0; (name = integer_at(x, i, &n)); i++)
			if (n >= 4 && (n & -n) > 1 && s->nway < WAYS_MOST - 16)
				set_size(add(s), name, n + odd[k]);
	for (int k = 0; k < LEN(tiles); k++)
		for (int i = 0; (name = integer_at(x, i, &n)); i++)
			if (n >= (k < 2 ? 4 : 16) && (n & -n) < 32 && s->nway < WAYS_MOST - 8)
				set_size(add(s), name, n + tiles[k]);
}

/* The costly ones, last: no dimension becomes more than 64 times as large. */
static void
add_large(Subject *s, Opened *x)
{
	static const int many[] = {640, 1536, 4608};
	const char *name;
	int64_t n;
	for (int k = 0; k < LEN(many); k++)
		for (int i = 0; (name = integer_at(x, i, &n)); i++)
			if (n >= 16 && many[k] <= 63 * n && s->nway < WAYS_MOST) {
				Way *w = add(s);
				w->is_large = true;
				set_size(w, name, n + MAX(many[k] / (n & -n), 1) * (n & -n));
			}
}

static bool
is_poisonable(const TglParam *p, const TglTensor *t)
{
	int d = t ? (int)tgl_tensor_dtype(t) : 0;
	return p->kind == TGL_PARAM_TENSOR && p->access == TGL_IN && t && tgl_tensor_rank(t) > 0 &&
	    (d == TGL_F16 || d == TGL_BF16 || d == TGL_F32);
}

/* Every third row of one input, a row being what one index of its first or last dimension but one tells. */
static void
add_poisoned(Subject *s, Opened *x)
{
	TglParam p;
	for (int i = 0; tgl_kernel_param(x->k, i, &p); i++)
		for (int k = 0; k < 2 && is_poisonable(&p, tgl_case_tensor(x->c, p.name)); k++)
			if (k == 0 || tgl_tensor_rank(tgl_case_tensor(x->c, p.name)) > 2) {
				Way *w = add(s);
				w->poison = 1 + 2 * i + k;
				Way *smaller = add(s);
				*smaller = s->way[1];
				smaller->poison = w->poison;
			}
}

/* Integers that are read are 0: lengths, so that loops do not run, and indices. */
static void
add_zeros(Subject *s, Opened *x)
{
	TglParam p;
	for (int i = 0; tgl_kernel_param(x->k, i, &p); i++) {
		TglTensor *t = p.kind == TGL_PARAM_TENSOR && p.access == TGL_IN ? tgl_case_tensor(x->c, p.name) : NULL;
		if (t && (tgl_tensor_dtype(t) == TGL_I32 || tgl_tensor_dtype(t) == TGL_I64))
			add(s)->poison = 1 + 2 * i;
	}
}

static void
add_overlapping(Subject *s, Opened *x)
{
	const char *name;
	int64_t n;
	int npointer = 0;
	TglParam p;
	for (int i = 0; tgl_kernel_param(x->k, i, &p); i++)
		npointer += p.kind == TGL_PARAM_POINTER;
	if (npointer < 2)
		return;
	Way *w = add(s);
	w->overlaps = true;
	for (int i = 0; (name = integer_at(x, i, &n)); i++)
		if (n)
			set_size(w, name, MIN(n, 1000));
}

bool
subject_open(Subject *s, int norders)
{
	Opened x;
	s->way = calloc(WAYS_MOST, sizeof *s->way);
	if (!s->way)
		return false;
	add(s);
	bool ok = subject_device(s, NULL, 0, false, &x) && subject_case(s, &s->way[0], &x);
	if (ok) {
		add_smaller(s, &x);
		add_larger(s, &x);
		add_poisoned(s, &x);
		add_zeros(s, &x);
		add_overlapping(s, &x);
		for (int order = 1; order < norders; order++)
			add(s)->order = order;
		add_large(s, &x);
	} else {
		snprintf(s->shared->why, sizeof s->shared->why, "%s", tgl_error(x.cx)->message);
	}
	close_all(&x);
	return ok;
}

void
subject_close(Subject *s)
{
	for (int i = 0; s->way && i < s->nway; i++)
		for (int k = 0; k < s->way[i].good.n; k++)
			free(s->way[i].good.bytes[k]);
	free(s->way);
	s->way = NULL;
}
