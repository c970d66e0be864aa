/* From arguments as a caller gives them to a bound header: sorts them to parameters and names,
 * has sema evaluate the header, and checks what only a launch knows: strides, addresses, overlap.
 *
 * Every message stands under the parameter in the kernel's header. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static const char *const schedule_names[] = {
    "warps", "stages", "group", "persistent", "specialize", "ctas"};

static bool
is_value_name(const Kernel *k, const char *name)
{
	for (int i = 0; i < k->symbols.n; i++)
		if (strcmp(k->symbols.at[i], name) == 0)
			return true;
	for (int i = 0; i < k->item->ctparams.n; i++)
		if (strcmp(k->item->ctparams.at[i].name, name) == 0)
			return true;
	for (int i = 0; i < LEN(schedule_names); i++)
		if (strcmp(schedule_names[i], name) == 0)
			return true;
	return false;
}

static void
report_unknown(Compile *cx, const Kernel *k, const char *name)
{
	VEC(const char *) names = {0};
	for (int i = 0; i < k->params.n; i++)
		vec_push(cx->tmp, &names, k->params.at[i].name);
	for (int i = 0; i < k->symbols.n; i++)
		vec_push(cx->tmp, &names, k->symbols.at[i]);
	for (int i = 0; i < k->item->ctparams.n; i++)
		vec_push(cx->tmp, &names, k->item->ctparams.at[i].name);
	for (int i = 0; i < LEN(schedule_names); i++)
		vec_push(cx->tmp, &names, schedule_names[i]);
	diag_error(cx, k->item->name_place, DIAG_LAUNCH_UNKNOWN, k->name, name);
	diag_help(cx, "%s", name_advice(cx->mem, name, names.at, names.n));
}

static const char *
kind_text(TglArgKind kind)
{
	const char *const text[] = {
	    "nothing", "a tensor", "an integer", "a float", "a bool", "a dtype", "an expression", "an integer"};
	return (unsigned)kind < (unsigned)LEN(text) ? text[kind] : "something else";
}

static bool
value_of(const TglArg *a, Const *out)
{
	*out = (Const){.kind = CONST_NONE};
	switch (a->kind) {
	case TGL_ARG_INT: out->kind = CONST_INT; break;
	case TGL_ARG_UINT: out->kind = a->i < 0 ? CONST_BIG : CONST_INT; break;
	case TGL_ARG_BOOL: out->kind = CONST_BOOL; break;
	case TGL_ARG_FLOAT: out->kind = CONST_FLOAT; break;
	case TGL_ARG_DTYPE: out->kind = CONST_DTYPE; break;
	default: return false;
	}
	out->i = a->i;
	out->f = a->f;
	if (out->kind == CONST_DTYPE) {
		if (a->i < 0 || a->i >= DTYPE_COUNT)
			return false;
		out->dtype = (DType)a->i;
	}
	return true;
}

bool
dtype_holds(DType t, int64_t v)
{
	int bits = dtype_info[t].bits;
	if (dtype_is_unsigned(t))
		return bits == 64 || (v >= 0 && v < (int64_t)1 << bits);
	return bits == 64 || (v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1));
}

/* A number for a scalar parameter, in the kind that its type asks for. */
static bool
scalar_value(Compile *cx, const KernelParam *p, const TglArg *a, Const *out)
{
	bool ok = value_of(a, out) && out->kind != CONST_DTYPE;
	if (ok && p->dtype_known) {
		bool is_float = dtype_is_float(p->dtype);
		if (is_float)
			const_to_float(out);
		ok = is_float              ? out->kind == CONST_FLOAT
		     : p->dtype == TY_BOOL ? out->kind == CONST_BOOL
					   : out->kind == CONST_INT || out->kind == CONST_BIG;
	}
	if (!ok) {
		diag_error(cx, p->ast->place, DIAG_LAUNCH_KIND, p->name,
		    p->dtype_known ? dtype_info[p->dtype].text : "a number", kind_text(a->kind));
		return false;
	}
	bool big = out->kind == CONST_BIG;
	if (p->dtype_known && dtype_is_int(p->dtype) &&
	    (big ? p->dtype != TY_U64 : !dtype_holds(p->dtype, out->i))) {
		diag_error(cx, p->ast->place, DIAG_LAUNCH_RANGE, p->name, const_describe(cx, out),
		    dtype_info[p->dtype].text);
		return false;
	}
	return true;
}

/* Elements that a pointer to a tensor stands for: its own, or, if they are spread, all to the end
 * of its memory. */
static int64_t
reach(const TglTensor *t)
{
	if (tensor_is_contiguous(t))
		return tgl_tensor_count(t);
	int bits = dtype_info[t->dtype].bits;
	int64_t bytes = t->high - t->data;
	return bits < 8 ? bytes * 2 : bytes / (bits / 8);
}

bool
binding_scalar(TglKernel *tk, int i, const TglArg *a, Binding *b)
{
	b->info[i].given = true;
	return scalar_value(tk->program->compile, &tk->k->params.at[i], a, &b->info[i].scalar);
}

static bool
set_param(TglKernel *tk, int i, const TglArg *a, bool texts, Binding *out)
{
	Compile *cx = tk->program->compile;
	const KernelParam *p = &tk->k->params.at[i];
	ArgInfo *info = &out->info[i];
	if (out->arg[i]) {
		diag_error(cx, p->ast->place, DIAG_LAUNCH_TWICE, p->name);
		return false;
	}
	if (p->kind == PARAM_TENSOR && p->access == ACCESS_SCRATCH) {
		diag_error(cx, p->ast->place, DIAG_LAUNCH_SCRATCH, p->name);
		return false;
	}
	out->arg[i] = a;
	if (a->kind == TGL_ARG_TEXT) {
		if (texts)
			return true;
		diag_error(cx, p->ast->place, DIAG_LAUNCH_TEXT, p->name);
		return false;
	}
	if (p->kind == PARAM_SCALAR)
		return binding_scalar(tk, i, a, out);
	info->given = true;
	if (a->kind != TGL_ARG_TENSOR || !a->tensor) {
		diag_error(cx, p->ast->place, DIAG_LAUNCH_KIND, p->name, "a tensor",
		    a->kind == TGL_ARG_TENSOR ? "NULL" : kind_text(a->kind));
		return false;
	}
	out->tensor[i] = a->tensor;
	info->dtype = (DType)a->tensor->dtype;
	info->rank = a->tensor->rank;
	memcpy(info->dim, a->tensor->dim, sizeof info->dim);
	if (p->kind == PARAM_POINTER) {
		info->rank = 1;
		info->dim[0] = reach(a->tensor);
	}
	return true;
}

static bool
set_value(TglKernel *tk, const TglArg *a, Binding *out)
{
	Compile *cx = tk->program->compile;
	NamedConst *v = &out->value[out->nvalue];
	if (!is_value_name(tk->k, a->name)) {
		report_unknown(cx, tk->k, a->name);
		return false;
	}
	*v = (NamedConst){.name = intern(cx->names, a->name), .place = NOWHERE};
	for (int i = 0; i < out->nvalue; i++)
		if (out->value[i].name == v->name) {
			diag_error(cx, tk->k->item->name_place, DIAG_LAUNCH_TWICE, a->name);
			return false;
		}
	if (!value_of(a, &v->value)) {
		diag_error(cx, tk->k->item->name_place, DIAG_LAUNCH_KIND, a->name, "a value",
		    kind_text(a->kind));
		return false;
	}
	out->nvalue++;
	return true;
}

static int
next_positional(const Kernel *k, int from)
{
	while (from < k->params.n && k->params.at[from].kind == PARAM_TENSOR &&
	       k->params.at[from].access == ACCESS_SCRATCH)
		from++;
	return from;
}

static bool
report_many(TglKernel *tk, const TglArg *args, int nargs)
{
	int takes = 0, given = 0;
	for (int i = next_positional(tk->k, 0); i < tk->k->params.n;
	     i = next_positional(tk->k, i + 1))
		takes++;
	for (int i = 0; i < nargs; i++)
		given += !args[i].name;
	diag_error(tk->program->compile, tk->k->item->name_place, DIAG_LAUNCH_MANY, tk->k->name,
	    takes, given);
	return false;
}

bool
binding_collect(TglKernel *tk, const TglArg *args, int nargs, bool texts, Binding *out)
{
	int n = tk->k->params.n, at = 0;
	bool ok = true;
	Arena *mem = arena_open();
	*out = (Binding){
	    .mem = mem,
	    .tensor = NEW_ARRAY(mem, TglTensor *, n),
	    .arg = NEW_ARRAY(mem, const TglArg *, n),
	    .info = NEW_ARRAY(mem, ArgInfo, n),
	    .value = NEW_ARRAY(mem, NamedConst, nargs),
	};
	for (int i = 0; i < nargs; i++) {
		const TglArg *a = &args[i];
		if (a->name) {
			int p = tgl_kernel_param_named(tk, a->name);
			ok &= p >= 0 ? set_param(tk, p, a, texts, out) : set_value(tk, a, out);
			continue;
		}
		at = next_positional(tk->k, at);
		if (at == n)
			return report_many(tk, args, nargs);
		ok &= set_param(tk, at++, a, texts, out);
	}
	return ok;
}

void
binding_close(Binding *b)
{
	if (b->mem)
		arena_close(b->mem);
	if (b->scrap)
		arena_close(b->scrap);
	b->mem = b->scrap = NULL;
}

/* ---- the header ---- */

enum { MEMO_SIZE = 32 };

/* The last headers evaluated, so that a launch like an earlier one asks sema nothing. */
typedef struct Memo {
	struct {
		char *key;
		size_t nkey;
		Bound bound;
		Arena *mem; /* all that sema made for it */
	} at[MEMO_SIZE];
	int next; /* the one to go */
} Memo;

/* Keys are bytes, compared whole; what varies in length carries its length. */
void
key_const(Text *key, const Const *c)
{
	const int64_t word[4] = {
	    (int64_t)c->kind, c->i, (int64_t)c->dtype, c->text ? (int64_t)strlen(c->text) : -1};
	text_putn(key, (const char *)word, sizeof word);
	text_putn(key, (const char *)&c->f, sizeof c->f);
	if (c->text)
		text_putn(key, c->text, strlen(c->text));
}

static void
bind_key(const TglKernel *tk, const Binding *b, Text *key)
{
	const Kernel *k = tk->k;
	for (int i = 0; i < k->params.n; i++) {
		const ArgInfo *a = &b->info[i];
		const int word[3] = {a->given, (int)a->dtype, a->rank};
		text_putn(key, (const char *)word, sizeof word);
		text_putn(
		    key, (const char *)a->dim, sizeof *a->dim * (size_t)MIN(a->rank, KERNEL_RANK));
		if (k->params.at[i].kind == PARAM_SCALAR && tk->in_header[i])
			key_const(key, &a->scalar);
	}
	text_putn(key, (const char *)&b->dev, sizeof b->dev);
	for (int i = 0; i < b->nvalue; i++) { /* interned: the address is the name */
		text_putn(key, (const char *)&b->value[i].name, sizeof b->value[i].name);
		key_const(key, &b->value[i].value);
	}
}

/* The header's answer, from memory or from sema. */
static bool
bind_header(TglKernel *k, Binding *b)
{
	Text key = {0};
	if (!k->memo && !(k->memo = calloc(1, sizeof *k->memo)))
		die("no memory");
	Memo *m = k->memo;
	text_put(&key, "");
	bind_key(k, b, &key);
	for (int i = 0; i < MEMO_SIZE; i++)
		if (m->at[i].key && m->at[i].nkey == key.n &&
		    memcmp(m->at[i].key, key.at, key.n) == 0) {
			b->bound = m->at[i].bound;
			text_close(&key);
			return true;
		}
	Arena *mem = arena_open();
	Arena *keep = compile_into(k->program->compile, mem);
	bool ok = kernel_bind(k->k, b->info, b->value, b->nvalue, &b->bound);
	compile_into(k->program->compile, keep);
	if (ok)
		tune_apply(k, b, NULL, mem);
	if (!ok) {
		b->scrap = mem;
		text_close(&key);
		return false;
	}
	free(m->at[m->next].key);
	if (m->at[m->next].mem)
		arena_close(m->at[m->next].mem);
	m->at[m->next].key = key.at;
	m->at[m->next].nkey = key.n;
	m->at[m->next].bound = b->bound;
	m->at[m->next].mem = mem;
	m->next = (m->next + 1) % MEMO_SIZE;
	return true;
}

void
binding_pointers(TglKernel *k, Binding *b)
{
	BoundParam *param = NEW_ARRAY(b->mem, BoundParam, k->k->params.n);
	memcpy(param, b->bound.param, sizeof *param * (size_t)k->k->params.n);
	b->bound.param = param;
	for (int i = 0; i < k->k->params.n; i++) {
		if (k->k->params.at[i].kind == PARAM_SCALAR)
			param[i].scalar = b->info[i].scalar;
		if (k->k->params.at[i].kind != PARAM_POINTER || !b->tensor[i])
			continue;
		param[i].rank = 1;
		param[i].dim[0] = reach(b->tensor[i]);
	}
}

bool
binding_bind(TglKernel *k, Binding *b)
{
	if (!bind_header(k, b))
		return false;
	binding_pointers(k, b);
	return true;
}

void
binding_forget(TglKernel *k)
{
	for (int i = 0; k->memo && i < MEMO_SIZE; i++) {
		free(k->memo->at[i].key);
		if (k->memo->at[i].mem)
			arena_close(k->memo->at[i].mem);
	}
	free(k->memo);
	k->memo = NULL;
}

/* ---- what only a launch asks ---- */

static bool
writes(const KernelParam *p)
{
	return p->kind == PARAM_TENSOR ? p->access == ACCESS_OUT || p->access == ACCESS_INOUT
				       : p->kind == PARAM_POINTER && p->ptr == PTR_MUT;
}

static void
report_strides(Compile *cx, const KernelParam *p, const TglTensor *t)
{
	int64_t want[TGL_MAX_RANK];
	Text type = {0}, is = {0}, should = {0};
	tensor_contiguous(t->dtype, t->rank, t->dim, want);
	text_put(&type, dtype_info[t->dtype].text);
	tensor_shape_text(t->dim, t->rank, &type);
	tensor_shape_text(t->stride, t->rank, &is);
	tensor_shape_text(want, t->rank, &should);
	diag_error(cx, p->ast->place, DIAG_LAUNCH_STRIDED, p->name, type.at, is.at, should.at);
	diag_help(cx, "declare it `strided`, or give a contiguous copy");
	text_close(&type);
	text_close(&is);
	text_close(&should);
}

static bool
check_strides(Compile *cx, const KernelParam *p, const TglTensor *t)
{
	if (p->kind == PARAM_TENSOR && !p->strided && !tensor_is_contiguous(t)) {
		report_strides(cx, p, t);
		return false;
	}
	if (!writes(p) || p->kind != PARAM_TENSOR)
		return true;
	for (int d = 0; d < t->rank; d++)
		if (t->dim[d] > 1 && t->stride[d] == 0) {
			diag_error(cx, p->ast->place, DIAG_LAUNCH_ZERO_STRIDE, p->name, d);
			return false;
		}
	if (!tensor_overlaps_itself(t))
		return true;
	Text shape = {0}, stride = {0};
	tensor_shape_text(t->dim, t->rank, &shape);
	tensor_shape_text(t->stride, t->rank, &stride);
	diag_error(cx, p->ast->place, DIAG_LAUNCH_SELF_OVERLAP, p->name, shape.at, stride.at);
	text_close(&shape);
	text_close(&stride);
	return false;
}

bool
binding_fits(TglKernel *tk, const Binding *b, int i, const TglTensor *t)
{
	Compile *cx = tk->program->compile;
	const KernelParam *p = &tk->k->params.at[i];
	const BoundParam *want = &b->bound.param[i];
	bool same = p->kind == PARAM_POINTER || t->rank == want->rank;
	for (int d = 0; p->kind == PARAM_TENSOR && same && d < t->rank; d++)
		same = t->dim[d] == want->dim[d];
	if (same)
		return true;
	Text is = {0}, should = {0};
	tensor_shape_text(t->dim, t->rank, &is);
	tensor_shape_text(want->dim, want->rank, &should);
	diag_error(cx, p->ast->place, DIAG_LAUNCH_SHAPE, p->name, is.at, should.at);
	text_close(&is);
	text_close(&should);
	return false;
}

static bool
check_tensor(TglKernel *tk, TglDevice *dev, const Binding *b, int i)
{
	Compile *cx = tk->program->compile;
	const KernelParam *p = &tk->k->params.at[i];
	const TglTensor *t = b->tensor[i];
	if (t->dev != dev) {
		diag_error(cx, p->ast->place, DIAG_LAUNCH_DEVICE, p->name, dev->dev.name);
		return false;
	}
	return binding_fits(tk, b, i, t) && check_strides(cx, p, t);
}

/* What the kernel writes as a tensor overlaps nothing, and what it writes through a pointer no
 * tensor; pointers among themselves may, as in any pointer program. */
static bool
check_apart(TglKernel *tk, const Binding *b, int i, int j)
{
	const KernelParam *p = &tk->k->params.at[i], *q = &tk->k->params.at[j];
	if (!b->tensor[i] || !b->tensor[j] || (!writes(p) && !writes(q)))
		return true;
	if (p->kind == PARAM_POINTER && q->kind == PARAM_POINTER)
		return true;
	if (!tensor_overlaps(b->tensor[i], b->tensor[j]))
		return true;
	const KernelParam *w = writes(p) ? p : q;
	Compile *cx = tk->program->compile;
	diag_error(cx, q->ast->place, DIAG_LAUNCH_OVERLAP, p->name, q->name, w->name);
	diag_note(cx, p->ast->place, "'%s' is declared here", p->name);
	return false;
}

bool
binding_complete(TglKernel *tk, const Binding *b)
{
	bool ok = true;
	for (int i = 0; i < tk->k->params.n; i++) {
		const KernelParam *p = &tk->k->params.at[i];
		if (b->info[i].given || (p->kind == PARAM_TENSOR && p->access == ACCESS_SCRATCH))
			continue;
		diag_error(tk->program->compile, p->ast->place, DIAG_LAUNCH_MISSING, p->name,
		    tk->k->name, tk->param_text[i]);
		ok = false;
	}
	return ok;
}

bool
binding_check(TglKernel *tk, TglDevice *dev, const Binding *b)
{
	bool ok = true;
	for (int i = 0; i < tk->k->params.n; i++)
		if (b->tensor[i])
			ok &= check_tensor(tk, dev, b, i);
	for (int i = 0; ok && i < tk->k->params.n; i++)
		for (int j = i + 1; j < tk->k->params.n; j++)
			ok &= check_apart(tk, b, i, j);
	return ok;
}
