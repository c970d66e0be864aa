/* What a kernel makes of dtypes, shapes and values that were given before: shapes of all parameters, kept so that outputs
 * can be allocated without evaluating the header again.  The last used come first. */
#include "ext.h"

#include <stdlib.h>

enum { MAX_PLANS = 32, KEY_WORDS = MAX_PARAMS * (TGL_MAX_RANK + 1) + MAX_VALUES * 3 };

static int64_t
hash_name(const char *s)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211u;
	return (int64_t)h;
}

static int
put_number(int64_t *key, int n, const TglArg *a)
{
	key[n++] = a->kind;
	if (a->kind == TGL_ARG_FLOAT)
		memcpy(&key[n++], &a->f, sizeof a->f);
	else
		key[n++] = a->i;
	return n;
}

static int
make_key(const Call *c, int64_t *key)
{
	int n = 0;
	for (int i = 0; i < c->n; i++) {
		const TglParam *p = &c->k->param[i].p;
		const Array *a = &c->array[i];
		if (c->is_array[i]) {
			key[n++] = a->dtype * 8 + a->rank;
			for (int d = 0; d < a->rank; d++)
				key[n++] = a->dim[d];
		} else if (p->in_header && c->scalar[i].kind != TGL_ARG_NONE) {
			n = put_number(key, n, &c->scalar[i]);
		} else {
			key[n++] = -1;
		}
	}
	for (int i = 0; i < c->nvalues; i++) {
		key[n++] = hash_name(c->value[i].name);
		n = put_number(key, n, &c->value[i]);
	}
	return n;
}

static void
plan_close(KernelObject *k, int i)
{
	free(k->plans[i]->key);
	free(k->plans[i]);
}

static Plan *
plan_add(KernelObject *k, const int64_t *key, int nkey)
{
	Plan *p = calloc(1, sizeof *p + sizeof(TglShape) * (size_t)k->n);
	int64_t *own = malloc(sizeof *key * (size_t)(nkey + 1));
	if (!p || !own) {
		free(p);
		free(own);
		PyErr_NoMemory();
		return NULL;
	}
	memcpy(own, key, sizeof *key * (size_t)nkey);
	p->key = own;
	p->nkey = nkey;
	if (k->nplans == MAX_PLANS)
		plan_close(k, --k->nplans);
	memmove(k->plans + 1, k->plans, sizeof *k->plans * (size_t)k->nplans++);
	return k->plans[0] = p;
}

Plan *
plan_find(Call *c)
{
	KernelObject *k = c->k;
	int64_t key[KEY_WORDS];
	int n = make_key(c, key);
	if (!k->plans && !(k->plans = calloc(MAX_PLANS, sizeof *k->plans))) {
		PyErr_NoMemory();
		return NULL;
	}
	for (int i = 0; i < k->nplans; i++) {
		Plan *p = k->plans[i];
		if (p->nkey != n || memcmp(p->key, key, sizeof *key * (size_t)n) != 0)
			continue;
		memmove(k->plans + 1, k->plans, sizeof *k->plans * (size_t)i);
		return k->plans[0] = p;
	}
	return plan_add(k, key, n);
}

Plan *
plan_shapes(Call *c)
{
	TglArg args[MAX_PARAMS + MAX_VALUES];
	TglShape shape[MAX_PARAMS];
	Report r;
	Ask ask;
	int n;
	Plan *p = plan_find(c);
	if (!p || p->shaped)
		return p;
	library_lock(&ask, true);
	Dev *d = device_find(false, 0);
	bool ok = d && call_arguments(c, d, args, &n) && tgl_shapes(c->k->k, args, n, shape, NULL) == TGL_OK;
	report_take(&r, ok ? TGL_OK : tgl_error(context)->status);
	library_unlock(&ask);
	if (!report_raise(&r) || !(p = plan_find(c))) /* which another thread may have dropped */
		return NULL;
	memcpy(p->shape, shape, sizeof *shape * (size_t)c->n);
	p->shaped = true;
	return p;
}

void
plans_close(KernelObject *k)
{
	for (int i = 0; i < k->nplans; i++)
		plan_close(k, i);
	free(k->plans);
}
