/* Compiles the forms of a kernel.
 *
 * For one choice of sizes and one target a pack has up to three forms of code, which differ in what they assume:
 *
 *     exact     multiples and numbers of just these sizes, addresses at 16 bytes, strided tensors row-major; of sizes of
 *               --sizes, --tuned, an example
 *     wide      dimensions along which memory is contiguous are multiples of 16 bytes, where the sizes are; rows of strided
 *               tensors are contiguous and begin at such multiples
 *     general   elements lie at multiples of their size; always
 *
 * Forms that would be equal are compiled once.  A launch takes the form for the nearest sizes of those that are right for
 * its arguments. */
#include "compile/choose/choose.h"
#include "runtime/runtime.h"
#include "tool/pack/host.h"

#include <stdlib.h>
#include <string.h>

enum {
	WIDE = 16,                                      /* bytes of an address, and of a row */
	MOST_TILE = 1 << 15,                            /* elements, of a form that was not asked for */
};

const Target pack_host = {.name = "cpu"};

/* ---- binding ---- */

typedef struct Open {
	Kernel *k;
	const PackSizes *s;
	ArgInfo *args;
	bool any_size, relies;                          /* values are to be right for all sizes; they are for some */
} Open;

static bool
is_given(void *user, const char *name)
{
	const Open *o = user;
	return schedule_hidden(o->k, name) || ANY_OF(i, o->s->n, strcmp(o->s->given[i].name, name) == 0);
}

static bool
bind_with(void *user, const NamedConst *more, int n, Bound *out)
{
	const Open *o = user;
	NamedConst *given = NEW_ARRAY(o->k->program->cx->mem, NamedConst, o->s->n + n);
	for (int i = 0; i < o->s->n + n; i++)
		given[i] = i < o->s->n ? o->s->given[i]
				       : (NamedConst){more[i - o->s->n].name, more[i - o->s->n].value, CHOSEN};
	return kernel_bind(o->k, o->args, given, o->s->n + n, out);
}

/* With the values that the compiler chooses for these sizes, where it has a choice and no result of tuning says them. */
static bool
bind(Open *o, const Target *t, Bound *out)
{
	const ChooseBinding how = {is_given, bind_with, o, .any_size = o->any_size, .relies = &o->relies};
	NamedConst *chosen;
	int n;
	if (!bind_with(o, NULL, 0, out))
		return false;
	if (t == &pack_host || o->s->device)
		return true;
	return !choose_values(o->k, out, t, &how, o->k->program->cx->mem, &chosen, &n) || bind_with(o, chosen, n, out);
}

/* Elements that fill 16 bytes of each tensor whose last dimension, along which memory is contiguous, names a
 * symbol; 0: there is none. */
static int64_t
row_multiple(const Kernel *k, const Bound *b, const char *symbol)
{
	int64_t most = 0;
	for (int i = 0; i < k->params.n; i++) {
		const TypeExpr *t = k->params.at[i].ast->type;
		const Expr *e = k->params.at[i].kind == PARAM_TENSOR && t && t->has_dims && t->dims.n
				    ? vec_last(&t->dims)
				    : NULL;
		if (e && expr_mentions(e, symbol))
			most = MAX(most, MIN(WIDE * 8 / dtype_info[b->param[i].dtype].bits, ASSUMED_MOST));
	}
	return most;
}

/* The sizes without roles, which copy by tensor maps of rows and addresses of 16 bytes.  `shorter`: with rows one element
 * shorter too, which no wide access takes. */
static PackSizes
unaligned(Open *o, const Bound *b, bool shorter)
{
	PackSizes s = *o->s;
	s.given = NEW_ARRAY(o->k->program->cx->mem, NamedConst, o->s->n + 1);
	for (int i = 0; i < s.n; i++) {
		s.given[i] = o->s->given[i];
		if (shorter && symbol_named(o->k, s.given[i].name) >= 0 && row_multiple(o->k, b, s.given[i].name) > 1)
			s.given[i].value.i = MAX(s.given[i].value.i - 1, 1);
	}
	const char *roles = intern(o->k->program->cx->names, "specialize");
	if (!is_given(o, roles))
		s.given[s.n++] = (NamedConst){.name = roles, .value = {.kind = CONST_INT}};
	return s;
}

/* Whether what follows from the dimensions is the same. */
static bool
same_derived(const Kernel *k, const Bound *a, const Bound *b)
{
	return !ANY_OF(i, a->nct, pack_is_derived(k, i) && a->ct[i].value.i != b->ct[i].value.i);
}

/* For any alignment: values that are chosen for rows of odd length, where such rows make the same compile-time values; else
 * for these. */
static bool
bind_general(Open *o, const Target *t, const Bound *b, Bound *out)
{
	Compile *cx = o->k->program->cx;
	PackSizes odd = unaligned(o, b, true), even = unaligned(o, b, false);
	Open as = {.k = o->k, .s = &odd, .args = o->args};
	Bound like;
	NamedConst *chosen = NULL;
	int n = 0;
	if (o->s->device)
		return bind_with(o, NULL, 0, out);
	cx->muted++;
	if (!bind_with(&as, NULL, 0, &like) || !same_derived(o->k, b, &like))
		as.s = &even;
	const ChooseBinding how = {is_given, bind_with, &as, .any_size = true};
	bool chooses = bind_with(&as, NULL, 0, &like) && choose_values(o->k, &like, t, &how, cx->mem, &chosen, &n);
	cx->muted--;
	return bind_with(o, chosen, chooses ? n : 0, out);
}

/* ---- what a form takes for granted ---- */

static bool
has_strided(const Kernel *k)
{
	return ANY_OF(i, k->params.n, k->params.at[i].strided);
}

/* False: there is nothing that such a form knows and a general one does not. */
static bool
wide_symbols(const Kernel *k, const Bound *b, int64_t *symbol)
{
	bool any = false, rows = false;
	for (int i = 0; i < b->nsymbol; i++) {
		int64_t row = row_multiple(k, b, b->symbol[i].name), size = b->symbol[i].value.i;
		symbol[i] = row > 1 && size > 0 && size % row == 0 ? row : 1;
		any |= symbol[i] > 1;
		rows |= row > 0;
	}
	return any || !rows;
}

/* Rows that are contiguous and begin at multiples of 16 bytes, however far apart. */
static ArgStrides
wide_rows(const BoundParam *p)
{
	return (ArgStrides){.unit = (unsigned char)p->rank, .apart = (unsigned char)(WIDE * 8 / dtype_info[p->dtype].bits)};
}

/* False: the level is no other than a more general one. */
static bool
assume(Pack *p, const Kernel *k, const Bound *b, PackLevel level, ArgAssumptions *out)
{
	Arena *mem = p->cx->mem;
	int64_t *param = NEW_ARRAY(mem, int64_t, k->params.n), *symbol = NEW_ARRAY(mem, int64_t, b->nsymbol);
	ArgStrides *strides = NEW_ARRAY(mem, ArgStrides, k->params.n);
	bool is_other = true;
	if (level == PACK_EXACT)
		for (int i = 0; i < b->nsymbol; i++)
			symbol[i] = assumption_multiple(assumption_of_dim(b, i));      /* the launcher tests no bounds */
	else if (level == PACK_WIDE)
		is_other = wide_symbols(k, b, symbol);
	for (int i = 0; i < b->nsymbol && level == PACK_GENERAL; i++)
		symbol[i] = 1;
	for (int i = 0; i < k->params.n; i++) {
		int bytes = MAX(dtype_info[b->param[i].dtype].bits / 8, 1);
		param[i] = k->params.at[i].kind == PARAM_SCALAR ? 0 : level == PACK_GENERAL ? bytes : WIDE;
		if (level != PACK_GENERAL && k->params.at[i].strided)
			strides[i] = level == PACK_EXACT ? (ArgStrides){.is_dense = true} : wide_rows(&b->param[i]);
	}
	*out = (ArgAssumptions){.param = param, .symbol = symbol, .strides = strides, .no_windows = level == PACK_GENERAL,
	    .alone = true};
	return is_other || (level == PACK_WIDE && has_strided(k));
}

/* Values that a header lists in tune(...) are right for all sizes, if the list speaks of none. */
static bool
is_free(const Kernel *k, const char *name)
{
	for (int i = 0; i < k->item->tune.n; i++) {
		if (strcmp(k->item->tune.at[i].name, name) != 0)
			continue;
		bool speaks = false;
		for (int e = 0; e < k->item->tune.at[i].values.n; e++)
			for (int s = 0; s < k->symbols.n; s++)
				speaks |= expr_mentions(k->item->tune.at[i].values.at[e], k->symbols.at[s]);
		return !speaks;
	}
	return false;
}

/* The facts that the launcher tests.  A compile-time value that follows from dimensions must follow from those of a launch
 * too; one that was asked for instead is for the dimensions that it was asked for. */
static void
note(Pack *p, const PackKernel *pk, const PackSizes *s, const ArgAssumptions *a, PackForm *f)
{
	const Kernel *k = pk->k;
	Arena *mem = p->cx->mem;
	Open o = {.k = pk->k, .s = s};
	f->assumed = NEW_ARRAY(mem, int64_t, f->bound.nsymbol);
	f->align = NEW_ARRAY(mem, unsigned char, k->params.n);
	f->rows = NEW_ARRAY(mem, unsigned char, k->params.n);
	f->derived = NEW_ARRAY(mem, unsigned char, f->bound.nct);
	for (int i = 0; i < f->bound.nsymbol; i++)
		f->assumed[i] = pk->fixes[i] ? -f->bound.symbol[i].value.i : a->symbol[i] ? a->symbol[i] : 1;
	for (int i = 0; i < k->params.n; i++) {
		f->align[i] = (unsigned char)a->param[i];
		f->rows[i] = a->strides[i].is_dense ? PACK_DENSE : a->strides[i].unit ? a->strides[i].apart : 0;
	}
	for (int i = 0; i < f->bound.nct; i++) {
		bool is_derived = pack_is_derived(k, i), is_set = is_given(&o, f->bound.ct[i].name);
		f->derived[i] = is_derived && !is_set && !is_free(k, f->bound.ct[i].name);
		for (int d = 0; is_derived && is_set && d < f->bound.nsymbol; d++)
			if (pack_default_names(k, i, f->bound.symbol[d].name))
				f->assumed[d] = -f->bound.symbol[d].value.i;
	}
}

/* ---- compiling ---- */

static bool
same_const(const Const *a, const Const *b)
{
	return a->kind == b->kind && a->i == b->i && a->f == b->f && a->dtype == b->dtype;
}

static bool
same_form(const Kernel *k, const PackForm *a, const PackForm *b)
{
	if (a->target != b->target || memcmp(&a->bound.schedule, &b->bound.schedule, sizeof a->bound.schedule) != 0)
		return false;
	for (int i = 0; i < a->bound.nct; i++)
		if (!same_const(&a->bound.ct[i].value, &b->bound.ct[i].value) || a->derived[i] != b->derived[i])
			return false;
	for (int i = 0; i < a->bound.nsymbol; i++)
		if (a->assumed[i] != b->assumed[i])
			return false;
	return memcmp(a->align, b->align, (size_t)k->params.n) == 0 && memcmp(a->rows, b->rows, (size_t)k->params.n) == 0;
}

int
pack_blob(Pack *p, const char *bytes, size_t n, bool is_text)
{
	for (int i = 0; i < p->blobs.n; i++)
		if (p->blobs.at[i].n == n && memcmp(p->blobs.at[i].bytes, bytes, n) == 0)
			return i;
	PackBlob b = {.bytes = memory_new(n, 1), .n = n, .is_text = is_text};
	memcpy(b.bytes, bytes, n);
	vec_push(p->cx->mem, &p->blobs, b);
	return p->blobs.n - 1;
}

static const char *
about(Pack *p, const PackForm *f)
{
	static const char *const level[] = {[PACK_EXACT] = "", [PACK_WIDE] = "", [PACK_GENERAL] = ", of any alignment"};
	Text t = {0};
	int n = 0;
	text_printf(&t, "%s %s", f->bound.kernel->name, f->target->name);
	for (int i = 0; i < f->bound.nct; i++) {
		text_printf(&t, "%s%s = ", n++ ? ", " : ": ", f->bound.ct[i].name);
		const_text(&f->bound.ct[i].value, &t);
	}
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (f->bound.schedule.at[i] > 0)
			text_printf(&t, "%s%s = %d", n++ ? ", " : ": ", schedule_info[i].text, f->bound.schedule.at[i]);
	text_put(&t, level[f->level]);
	return text_take(&t, p->cx->mem);
}

/* PTX for the driver; machine code where there is a ptxas. */
static void
keep_code(Pack *p, PackForm *f)
{
	Text ptx = {f->code.bytes, strlen(f->code.bytes), f->code.size};
	bool one_chip = f->target->name[strlen(f->target->name) - 1] == 'a';
	f->cubin = -1;
	f->work = p->assembles ? pack_assemble_later(p, f->target, &ptx, f->must) : NULL;
	f->ptx = !p->assembles || !one_chip ? pack_blob(p, ptx.at, ptx.n + 1, true) : -1;
}

static void
tell_lack(const Kernel *k, const Module *m, const Host *h)
{
	const Place *at = &h->place;
	const char *line = "";

	if (at->file >= 0)
		line = arena_printf(h->mem, " in line %d of '%s'", at->line, m->cx->files.at[at->file].path);

	cli_wrong("kernel '%s' has no code for the target cpu: there is no C for '%s'%s", k->name, h->lacks, line);
}

/* The same as C, for the host.  False after printing, if that is asked for. */
static bool
compile_host(Pack *p, Kernel *k, PackForm *f, const ArgAssumptions *a, bool must)
{
	PassOptions passes = {0};
	Text text = {0};
	Module *m = compile_kernel(k, &f->bound, pack_host.name, a, &passes);
	Host h = {.mem = p->cx->mem, .nparams = k->params.n, .place = NOWHERE,
		.name = arena_printf(p->cx->mem, "%s_%d", k->name, p->nhosts++)};
	bool ok = m && host_write(&h, m, &text);
	if (m && !ok && must)
		tell_lack(k, m, &h);
	f->host = ok ? text_take(&text, p->cx->mem) : NULL;
	f->host_name = h.name;
	f->asserts = h.asserts.at;
	f->nasserts = h.asserts.n;
	f->ptx = f->cubin = -1;
	return ok;
}

/* What is kept of a form is in the pack's memory; the module is not. */
static bool
compile(Pack *p, Kernel *k, PackForm *f, const ArgAssumptions *a, Text *metal, Text *json)
{
	PassOptions passes = {0};
	const Diag *before = p->cx->last;
	Arena *apart = arena_open(), *keep = compile_into(p->cx, apart);
	Module *m = compile_kernel(k, &f->bound, f->target->name, a, &passes);
	bool ok = m && (metal ? compile_metal(m, f->target, &f->bound, metal, json, NULL)
			      : compile_artefact(m, f->target, &f->code));
	compile_into(p->cx, keep);
	if (p->cx->last == before)
		arena_close(apart);                             /* else reports lie there */
	return ok;
}

/* Its text, and how to launch it. */
static bool
compile_apple(Pack *p, Kernel *k, PackForm *f, const ArgAssumptions *a)
{
	Text text = {0}, json = {0};
	bool ok = compile(p, k, f, a, &text, &json);
	f->metal = ok ? text_take(&text, p->cx->mem) : NULL;
	f->json = ok ? text_take(&json, p->cx->mem) : NULL;
	text_close(&text);
	text_close(&json);
	return ok;
}

static bool
add_form(Pack *p, PackKernel *pk, const PackSizes *s, PackForm *f, PackLevel level, bool must)
{
	ArgAssumptions a;
	if (!assume(p, pk->k, &f->bound, level, &a))
		return true;
	f->level = level;
	f->must = must;
	note(p, pk, s, &a, f);
	PackForms *forms = f->target->kind == TARGET_METAL ? &pk->metal : &pk->forms;
	for (int i = 0; i < forms->n; i++)
		if (same_form(pk->k, &forms->at[i], f))
			return true;
	f->about = about(p, f);
	cli_progress(p->cli, "%s", f->about);
	bool ok = f->target == &pack_host                ? compile_host(p, pk->k, f, &a, must)
		  : f->target->kind == TARGET_METAL ? compile_apple(p, pk->k, f, &a)
						    : compile(p, pk->k, f, &a, NULL, NULL);
	cli_progress_end(p->cli);
	if (ok && f->target->kind == TARGET_PTX && f->target != &pack_host)
		keep_code(p, f);
	if (ok)
		vec_push(p->cx->mem, forms, *f);
	return ok;
}

/* ---- kernels ---- */

const char *
pack_variant(Pack *p, const Kernel *k, const Bound *b)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < k->params.n; i++)
		text_printf(&t, "%s%s", i ? ", " : "", dtype_info[b->param[i].dtype].text);
	for (int i = 0; i < b->nct; i++) {
		if (!pack_makes_function(k, i))
			continue;
		text_printf(&t, "; %s = ", b->ct[i].name);
		const_text(&b->ct[i].value, &t);
	}
	return text_take(&t, p->cx->mem);
}

static PackKernel *
kernel_of(Pack *p, Kernel *k, const Bound *b)
{
	const char *variant = pack_variant(p, k, b);
	for (int i = 0; i < p->kernels.n; i++)
		if (p->kernels.at[i]->k == k && strcmp(p->kernels.at[i]->variant, variant) == 0)
			return p->kernels.at[i];
	PackKernel *pk = NEW(p->cx->mem, PackKernel);
	pk->k = k;
	pk->variant = variant;
	pk->bound = *b;
	vec_push(p->cx->mem, &p->kernels, pk);
	pk->fixes = NEW_ARRAY(p->cx->mem, bool, k->symbols.n);
	return pk;
}

/* Chips of which results of tuning are good for a target, by the words of their names. */
static bool
is_measured_on(const char *device, const Target *t)
{
	static const struct {
		const char *word;
		int capability;
	} chips[] = {{"GB200", 100}, {"B200", 100}, {"H100", 90}, {"H200", 90}, {"GH200", 90}, {"A100", 80}, {"A10", 86},
		{"A40", 86}, {"RTX 30", 86}, {"RTX 40", 89}, {"L40", 89}, {"L4", 89}, {"RTX 50", 120}, {"T4", 75}};
	bool is_host = device && strncmp(device, "cpu", 3) == 0;
	if (device && is_host != (t == &pack_host))
		return false;
	for (int i = 0; device && !is_host && i < LEN(chips); i++)
		if (strstr(device, chips[i].word))
			return t->capability == chips[i].capability;
	return true;
}

/* Larger tiles take minutes to compile, and seldom fit. */
static bool
is_small(Kernel *k, const Bound *b, const Target *t)
{
	Module *m = kernel_module(k, b, t == &pack_host ? t->name : t->kind == TARGET_METAL ? "metal" : "ptx");
	for (Op *op = m ? m->funcs.at[0]->body->first : NULL; op; op = op_after(op, m->funcs.at[0]->body))
		for (int i = 0; i < op->nout; i++)
			if (op->out[i].type->kind == TYPE_TILE && type_count(op->out[i].type) > MOST_TILE)
				return false;
	return m;
}

/* Of powers of two, those that a header refuses or that do not compile are left out; what was asked for is an error. */
static bool
add_target(Pack *p, Kernel *k, const PackSizes *s, const Target *t, bool must)
{
	PackForm f = {.target = t};
	Open o = {.k = k, .s = s, .args = NEW_ARRAY(p->cx->mem, ArgInfo, k->params.n)};
	Bound aligned;
	if (!bind(&o, t, &f.bound) || !bind_with(&o, NULL, 0, &aligned) || (!must && !is_small(k, &f.bound, t)))
		return !must;
	PackKernel *pk = kernel_of(p, k, &aligned);
	if (pk->forms.n == 0 && pk->opaque.n == 0) {
		vec_push(p->cx->mem, &pk->forms, f);            /* what formulas say of dtypes */
		bool ok = pack_find_opaque(p, pk);
		pk->forms.n = 0;
		if (!ok)
			return false;
	}
	int level = t == &pack_host ? PACK_GENERAL : s->is_asked ? PACK_EXACT : PACK_WIDE;
	for (; level <= PACK_GENERAL; level++) {
		o.any_size = o.relies && level == PACK_WIDE;    /* such a form knows less of what divides the sizes */
		if (o.any_size && !bind(&o, t, &f.bound))
			return !must;
		if (level == PACK_GENERAL && t != &pack_host && !bind_general(&o, t, &aligned, &f.bound))
			return !must;
		if (!add_form(p, pk, s, &f, (PackLevel)level, must) && must)
			return false;
	}
	return true;
}

bool
pack_add_forms(Pack *p, Kernel *k, const PackSizes *s, bool is_only)
{
	bool must = s->is_asked || is_only, ok = true;
	p->cx->muted += !must;
	for (int i = 0; ok && i < p->targets.n; i++)
		if (is_measured_on(s->device, p->targets.at[i]))
			ok = add_target(p, k, s, p->targets.at[i], must);
	for (int i = 0; ok && i < p->apples.n && !s->device; i++)
		ok = add_target(p, k, s, p->apples.at[i], must);
	p->cx->muted -= !must;
	return ok || !must;
}
