/* What a compiled form is made for, and its names in memory and on disk.
 *
 * A kernel is compiled for its compile-time values, the dtypes and constant extents of its arguments,
 * its schedule, and what is assumed of its arguments: the largest power of two up to 16 that divides each
 * address (in bytes), each integer scalar and each dimension.  16 bytes are what one thread moves at
 * most, so that more would part forms that are equal; but a dimension that whole tiles fill is assumed
 * to be a multiple of the tile (assumption_of_dim), as such code tests no bounds.  A `strided` parameter
 * that gets a contiguous tensor is compiled as if it were not strided; of another one's strides the
 * dimension that is contiguous is known, and what power of two, up to 16 bytes, the others are
 * multiples of (compile/arg_strides.c): its accesses are as wide, and tensor maps take it.
 * Dimensions themselves are arguments; where a kernel's header computes a compile-time value from one
 * (pow2ceil(C)), that value is part of the key and the dimension is not, unless it is some eighths of a power of two.
 *
 * In memory a form's name is these facts as bytes, compared whole.  On disk it is their hash together
 * with all else that the bytes of an artefact depend on: the text and the path of every file of the
 * program (places are in the code), the kernel, the target, the passes left out, and the compiler
 * itself, by the hash of its own sources (cmake/build_id.cmake). */
#include <string.h>

#include "runtime/launch/launch.h"


static int64_t
param_assumption(const KernelParam *p, const BoundParam *bound, const TglTensor *t, const Const *scalar)
{
	if (p->kind != PARAM_SCALAR) /* scratch is the library's own, aligned to 64 */
		return t ? assumption_of((uint64_t)(uintptr_t)t->data) : ASSUMED_MOST;
	return dtype_is_int(bound->dtype) && scalar->kind == CONST_INT ? assumption_of((uint64_t)scalar->i) : 0;
}

static ArgStrides
param_strides(const KernelParam *p, const TglTensor *t)
{
	if (!p->strided || (!t && !param_is_scratch(p)))
		return (ArgStrides){0};
	if (!t || tensor_is_contiguous(t))
		return (ArgStrides){.is_dense = true};
	return arg_strides_of((DType)t->dtype, t->rank, t->dim, t->stride);
}

void
specialise(const TglKernel *k, const Binding *b, Arena *mem, ArgAssumptions *out)
{
	int nparams = k->k->params.n;
	int64_t *param = MAP_OF(mem, int64_t, i, nparams,
	    param_assumption(&k->k->params.at[i], &b->bound.param[i], b->tensor[i], &b->info[i].scalar));
	int64_t *symbol = MAP_OF(mem, int64_t, i, b->bound.nsymbol, assumption_of_dim(&b->bound, i));
	ArgStrides *strides = MAP_OF(mem, ArgStrides, i, nparams, param_strides(&k->k->params.at[i], b->tensor[i]));
	*out = (ArgAssumptions){.param = param, .symbol = symbol, .strides = strides,
	    .few_programs = assumption_few_programs(&b->bound),
	    .short_axes = assumption_short_axes(&b->bound, b->bound.schedule.ctas)};
}

/* Keys are bytes, compared whole; what varies in length carries its length. */
static void
key_const(Text *key, const Const *c)
{
	const int64_t word[4] = {
	    (int64_t)c->kind, c->i, (int64_t)c->dtype, c->text ? (int64_t)strlen(c->text) : -1};
	text_putn(key, (const char *)word, sizeof word);
	text_putn(key, (const char *)&c->f, sizeof c->f);
	if (c->text)
		text_putn(key, c->text, strlen(c->text));
}

void
specialise_key(const TglKernel *k, const Bound *b, const ArgAssumptions *assumptions, Text *key)
{
	int nparams = k->k->params.n;
	for (int i = 0; i < b->nct; i++)
		key_const(key, &b->ct[i].value);
	for (int i = 0; i < nparams; i++) {
		const BoundParam *p = &b->param[i];
		text_putn(key, (const char *)&p->dtype, sizeof p->dtype);
		for (int d = 0; d < p->rank; d++) {
			int64_t extent = p->dim_const[d] ? p->dim[d] : -1;
			text_putn(key, (const char *)&extent, sizeof extent);
		}
	}
	text_putn(key, (const char *)&b->schedule, sizeof b->schedule);
	if (!assumptions)
		return;
	text_putn(key, (const char *)assumptions->param, sizeof *assumptions->param * (size_t)nparams);
	text_putn(key, (const char *)assumptions->symbol, sizeof *assumptions->symbol * (size_t)b->nsymbol);
	text_putn(key, (const char *)assumptions->strides, sizeof *assumptions->strides * (size_t)nparams);
	text_putn(key, assumptions->no_windows ? "g" : "w", 1);
	text_putn(key, assumptions->few_programs ? "f" : "m", 1);
	text_putn(key, (const char *)&assumptions->short_axes, sizeof assumptions->short_axes);
}

/* A text and its end, so that two of them can't run together. */
static void
put_text(Text *key, const char *s, size_t n)
{
	uint64_t size = n;
	text_putn(key, (const char *)&size, sizeof size);
	text_putn(key, s, n);
}

static void
put_word(Text *key, const char *s)
{
	put_text(key, s ? s : "", s ? strlen(s) : 0);
}

/* All files of a program, hashed once. */
static const Hash *
program_hash(TglProgram *p)
{
	if (p->hashed)
		return &p->hash;
	Text all = {0};
	for (int i = 0; i < p->compile->files.n; i++) {
		const SourceFile *f = &p->compile->files.at[i];
		put_word(&all, f->path);
		put_text(&all, f->text, f->size);
	}
	p->hash = hash_bytes(all.at ? all.at : "", all.n);
	p->hashed = true;
	text_close(&all);
	return &p->hash;
}

Hash
artefact_hash(const TglKernel *k, const char *target, const char *key, size_t nkey)
{
	const TglCompileOptions *o = &k->program->cx->compile;
	Text all = {0};
	put_word(&all, "tegula artefact 1");
	put_word(&all, build_id);
	put_text(&all, (const char *)program_hash(k->program)->byte, HASH_BYTES);
	put_word(&all, k->k->name);
	put_word(&all, target);
	put_word(&all, o->only);
	put_word(&all, o->skip);
	put_word(&all, o->stop_after);
	put_text(&all, key, nkey);
	Hash h = hash_bytes(all.at, all.n);
	text_close(&all);
	return h;
}
