/* A pack's tables: code as words, forms with all that they take for granted, kernels, and what the launcher uses of the
 * driver.  C99 and C++ both read them: fields stand in the order of pack/launcher.c. */
#include "num/num.h"
#include "tool/pack/pack.h"

#include <inttypes.h>
#include <string.h>

/* ---- the driver ---- */

static bool
is_used(const char *launcher, const char *before, const char *name)
{
	char word[80];
	size_t n = (size_t)snprintf(word, sizeof word, "%s%s", before, name);
	for (const char *s = launcher; (s = strstr(s, word)); s += n)
		if (!char_is_letter(s[n]) && !char_is_digit(s[n]) && s[n] != '_')
			return true;
	return false;
}

typedef struct Row {
	const char *name, *params;
	bool is_needed;
} Row;

static const Row rows[] = {
#define CUDA(name, params) {#name, #params, true},
#define CUDA_OPTIONAL(name, params) {#name, #params, false},
#include "runtime/cuda/cuda.def"
#undef CUDA
#undef CUDA_OPTIONAL
};

static const struct {
	const char *name;
	int value;
} numbers[] = {
#define CUDA_NUMBER(name, value) {#name, value},
#include "runtime/cuda/cuda.def"
#undef CUDA_NUMBER
};

static const struct {
	int code;
	const char *fix;
} fixes[] = {
#define CUDA_ERROR(code, effect, fix) {code, fix},
#include "runtime/cuda/cuda.def"
#undef CUDA_ERROR
};

static const char *const abi_words[] = {
#define ABI(id, word, meaning) #id,
#include "lower/abi.def"
#undef ABI
};

static void
put_numbers(const char *launcher, Text *out)
{
	text_put(out, "enum {\n");
	for (int i = 0; i < LEN(numbers); i++)
		if (is_used(launcher, "TGP_", numbers[i].name))
			text_printf(out, "\tTGP_%s = %d,\n", numbers[i].name, numbers[i].value);
	for (int i = 0; i < LEN(abi_words); i++)
		text_printf(out, "\tTGP_%s%s\n", abi_words[i], i + 1 < LEN(abi_words) ? i ? "," : " = 0," : "");
	text_put(out, "};\n\n");
}

/* What helps a program that has no compiler. */
static void
put_fixes(Text *out)
{
	text_put(out, "static const struct {\n\tint code;\n\tconst char *fix;\n} tgp_fixes[] = {\n");
	for (int i = 0; i < LEN(fixes); i++) {
		if (strstr(fixes[i].fix, "tegula") || strstr(fixes[i].fix, "-D ") || strstr(fixes[i].fix, "--"))
			continue;
		text_printf(out, "\t{%d, ", fixes[i].code);
		text_json(out, fixes[i].fix);
		text_put(out, "},\n");
	}
	text_put(out, "};\n\n");
}

void
pack_put_driver(const char *launcher, Text *out)
{
	put_numbers(launcher, out);
	text_put(out, "typedef struct TgpDriver {\n");
	for (int i = 0; i < LEN(rows); i++)
		if (is_used(launcher, "", rows[i].name))
			text_printf(out, "\tCudaResult (*%s)%s;\n", rows[i].name, rows[i].params);
	text_put(out, "} TgpDriver;\n\nstatic const struct {\n\tconst char *name;\n\tsize_t at;\n\tint is_needed;\n"
	    "} tgp_rows[] = {\n");
	for (int i = 0; i < LEN(rows); i++)
		if (is_used(launcher, "", rows[i].name))
			text_printf(out, "\t{\"%s\", offsetof(TgpDriver, %s), %d},\n", rows[i].name, rows[i].name,
			    rows[i].is_needed);
	text_put(out, "};\n\n");
	put_fixes(out);
}

void
pack_put_limits(const Pack *p, Text *out)
{
	int params = 1, dims = 1, cts = 1, values = 1, maps = 1;
	for (int i = 0; i < p->kernels.n; i++) {
		const PackKernel *k = p->kernels.at[i];
		params = MAX(params, k->k->params.n);
		dims = MAX(dims, k->k->symbols.n);
		cts = MAX(cts, k->k->item->ctparams.n);
		for (int f = 0; f < k->forms.n; f++) {
			values = MAX(values, k->forms.at[f].code.nabi);
			maps = MAX(maps, k->forms.at[f].code.nmaps);
		}
	}
	text_printf(out, "enum {\n\tTGP_RANK = %d, TGP_MOST_PARAMS = %d, TGP_MOST_DIMS = %d, TGP_MOST_CT = %d,\n"
	    "\tTGP_MOST_VALUES = %d, TGP_MOST_MAPS = %d\n};\n\n", KERNEL_RANK, params, dims, cts, values, maps);
}

/* ---- forms ---- */

/* PTX as it is, a line a literal.  What C would read otherwise is written as a number. */
static void
put_text(const PackBlob *b, Text *out)
{
	text_put(out, "[] =\n\t\"");
	for (size_t i = 0; i + 1 < b->n; i++) {
		unsigned char c = (unsigned char)b->bytes[i];
		if (c == '\n')
			text_put(out, i + 2 < b->n ? "\\n\"\n\t\"" : "\\n");
		else if (c == '\t')
			text_put(out, "\\t");
		else if (c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?')
			text_printf(out, "\\%03o", c);
		else
			text_putn(out, (const char *)&b->bytes[i], 1);
	}
	text_put(out, "\";\n\n");
}

static void
put_words(const PackBlob *b, Text *out)
{
	text_put(out, "[] = {");
	for (size_t at = 0; at < b->n; at += 8) {
		uint64_t word = 0;
		for (size_t i = 0; i < 8 && at + i < b->n; i++)
			word |= (uint64_t)(unsigned char)b->bytes[at + i] << 8 * i;
		text_printf(out, "%s0x%" PRIx64 ",", at % 64 ? "" : "\n\t", word);
	}
	text_put(out, "\n};\n\n");
}

static void
put_blob(const PackBlob *b, int number, Text *out)
{
	text_printf(out, "static const %s tgp_code_%d", b->is_text ? "char" : "uint64_t", number);
	(b->is_text ? put_text : put_words)(b, out);
}

static void
put_numbers_of(const char *type, const char *name, const PackKernel *k, int form,
    int64_t (*at)(const PackKernel *, int, int), int n, Text *out)
{
	text_printf(out, "static const %s tgp_%s_%s_%d[] = {", type, name, k->function, form);
	for (int i = 0; i < MAX(n, 1); i++)
		text_printf(out, "%s%" PRId64, i ? ", " : "", n ? at(k, form, i) : 0);
	text_put(out, "};\n");
}

/* A `where` clause on the schedule, which a form has kept to. */
static bool
mentions_schedule(const Kernel *k, const Expr *e)
{
	bool does = false;
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		does |= expr_mentions(e, intern(k->program->cx->names, schedule_info[i].text));
	return does;
}

static int64_t
ct_at(const PackKernel *k, int form, int i)
{
	const PackForm *f = &k->forms.at[form];
	const Expr *opaque = i < f->bound.nct ? NULL : k->opaque.at[i - f->bound.nct];
	Const c = {0};
	if (!opaque)
		c = f->bound.ct[i].value;
	else if (mentions_schedule(k->k, opaque))
		return 1;
	else if (!bound_eval(k->k, &f->bound, opaque, "a formula of the header", &c))
		return 0;
	return c.kind == CONST_INT || c.kind == CONST_BOOL ? c.i : 0;
}

static int64_t size_at(const PackKernel *k, int form, int i) { return k->forms.at[form].bound.symbol[i].value.i; }
static int64_t assumed_at(const PackKernel *k, int form, int i) { return k->forms.at[form].assumed[i]; }
static int64_t align_at(const PackKernel *k, int form, int i) { return k->forms.at[form].align[i]; }
static int64_t rows_at(const PackKernel *k, int form, int i) { return k->forms.at[form].rows[i]; }
static int64_t derived_at(const PackKernel *k, int form, int i) { return k->forms.at[form].derived[i]; }

static void
put_sum(const LaunchSum *s, Text *out)
{
	text_printf(out, "{%lld, %d, {", (long long)s->number, s->n);
	for (int i = 0; i < MAX(s->n, 1); i++)
		text_printf(out, "%s{%lld, %d, %d}", i ? ", " : "", (long long)s->term[i].factor, s->term[i].param,
		    s->term[i].dim);
	text_put(out, "}}");
}

static void
put_window(const MapWindow *w, int number, Text *out)
{
	text_printf(out, "%s{%d, ", number ? ", " : "", w->step);
	put_sum(&w->lower, out);
	text_put(out, ", ");
	put_sum(&w->count, out);
	text_put(out, ", ");
	put_sum(&w->reach, out);
	text_put(out, "}");
}

static void
put_abi(const PackKernel *k, int form, Text *out)
{
	const Artefact *a = &k->forms.at[form].code;
	text_printf(out, "static const TgpAbi tgp_abi_%s_%d[] = {", k->function, form);
	for (int i = 0; i < a->nabi; i++)
		text_printf(out, "%s{TGP_%s, %d, %d}", i ? ", " : "", abi_words[a->abi[i].kind], a->abi[i].param,
		    a->abi[i].dim);
	text_put(out, a->nabi ? "};\n" : "{0, 0, 0}};\n");
	if (a->nmaps == 0)
		return;
	text_printf(out, "static const TgpMap tgp_map_%s_%d[] = {\n", k->function, form);
	for (int i = 0; i < a->nmaps; i++) {
		const TensorMap *m = &a->map[i];
		text_printf(out, "\t{%d, %d, %d, %d, %d, %d, {", m->param, m->elem_bytes, m->rank, m->swizzle,
		    m->is_stored, m->is_added);
		for (int d = 0; d < KERNEL_RANK; d++)
			text_printf(out, "%s%d", d ? ", " : "", d < m->rank ? m->dim[d] : 0);
		text_put(out, "}, {");
		for (int d = 0; d < KERNEL_RANK; d++)
			text_printf(out, "%s%d", d ? ", " : "", d < m->rank ? m->merged[d] : 0);
		text_put(out, "}, {");
		for (int d = 0; d < KERNEL_RANK; d++)
			text_printf(out, "%s%d", d ? ", " : "", d < m->rank ? m->box[d] : 0);
		text_printf(out, "}, %d, {", m->windows);
		for (int w = 0; w < MAX(m->windows, 1); w++)
			put_window(&m->window[w], w, out);
		text_put(out, "}},\n");
	}
	text_put(out, "};\n");
}

static void
put_asserts(const PackKernel *k, int form, Text *out)
{
	const PackForm *f = &k->forms.at[form];
	int n = f->host ? f->nasserts : f->code.nasserts;
	if (n == 0)
		return;
	text_printf(out, "static const char *const tgp_asserts_%s_%d[] = {\n", k->function, form);
	for (int i = 0; i < n; i++) {
		text_put(out, "\t");
		text_json(out, f->host ? f->asserts[i] : f->code.asserts[i]);
		text_put(out, ",\n");
	}
	text_put(out, "};\n");
}

static void
put_form_data(const PackKernel *k, int i, Text *out)
{
	const PackForm *f = &k->forms.at[i];
	put_abi(k, i, out);
	put_asserts(k, i, out);
	put_numbers_of("int64_t", "ct", k, i, ct_at, f->bound.nct + k->opaque.n, out);
	put_numbers_of("int64_t", "size", k, i, size_at, f->bound.nsymbol, out);
	put_numbers_of("int64_t", "assumed", k, i, assumed_at, f->bound.nsymbol, out);
	put_numbers_of("unsigned char", "align", k, i, align_at, k->k->params.n, out);
	put_numbers_of("unsigned char", "rows", k, i, rows_at, k->k->params.n, out);
	put_numbers_of("unsigned char", "derived", k, i, derived_at, f->bound.nct, out);
}

static void
put_code(int blob, Text *out)
{
	if (blob < 0)
		text_put(out, "NULL, ");
	else
		text_printf(out, "tgp_code_%d, ", blob);
}

static int
target_index(const Pack *p, const Target *t)
{
	return FIRST_OF(i, p->targets.n, p->targets.at[i] == t);
}

static void
put_form(const Pack *p, const PackKernel *k, int i, Text *out)
{
	const PackForm *f = &k->forms.at[i];
	const Artefact *a = &f->code;
	char name[200];
	snprintf(name, sizeof name, "%s_%d", k->function, i);
	text_printf(out, "\t{\"%s\", ", k->k->name);
	text_json(out, f->about);
	text_printf(out, ", %d, ", target_index(p, f->target));
	put_code(f->cubin, out);
	put_code(f->ptx, out);
	if (f->host)
		text_printf(out, "tgp_run_%s, sizeof(struct tgp_room_%s), ", f->host_name, f->host_name);
	else
		text_put(out, "NULL, 0, ");
	text_printf(out, "%d, %d, %d, {%d, %d, %d}, %d, %d, %d, %d, %d, %lld,\n\t\ttgp_abi_%s, %d, ", a->threads,
	    (int)a->shared_bytes, MAX(a->cluster, 1), artefact_ranks(a, 0), artefact_ranks(a, 1), artefact_ranks(a, 2),
	    a->persistent, a->waits, a->parts_registers,
	    MAX(a->split, 1), MAX(a->share, 1), (long long)a->part_bytes, name, a->nabi);
	text_printf(out, a->nmaps ? "tgp_map_%s, %d, " : "NULL, 0, ", name, a->nmaps);
	text_printf(out, a->nasserts || f->nasserts ? "tgp_asserts_%s, " : "NULL, ", name);
	text_printf(out,
	    "tgp_ct_%s, tgp_size_%s, tgp_assumed_%s,\n\t\ttgp_align_%s, tgp_rows_%s, tgp_derived_%s, %s},\n", name,
	    name, name, name, name, name,
	    f->level == PACK_GENERAL ? "TGP_GENERAL"
	    : f->level == PACK_WIDE  ? "1"
				     : "0");
}

/* ---- kernels ---- */

static const char *
what_of(const KernelParam *p, char out[80])
{
	static const char *const access[] = {[ACCESS_IN] = "TGP_IN",
	    [ACCESS_OUT] = "TGP_OUT",
	    [ACCESS_INOUT] = "TGP_IN | TGP_OUT",
	    [ACCESS_SCRATCH] = "TGP_SCRATCH"};
	snprintf(out, 80, "%s%s", p->kind == PARAM_SCALAR ? "TGP_VALUE" : p->kind == PARAM_POINTER ? "TGP_ADDRESS"
	    : access[p->access], p->kind == PARAM_TENSOR && p->strided ? " | TGP_STRIDED" : "");
	return out;
}

/* A fill's element as bits; an element of less than a byte stands twice in one. */
static uint64_t
fill_bits(const BoundParam *b, int *bytes)
{
	const DTypeInfo *t = &dtype_info[b->dtype];
	uint64_t bits = 0;
	*bytes = MAX(t->bits / 8, 1);
	if (dtype_is_float(b->dtype))
		dtype_store_f64(b->dtype, &bits, 0, b->fill.kind == CONST_FLOAT ? b->fill.f : (double)b->fill.i);
	else
		bits = (uint64_t)b->fill.i;
	if (t->bits < 8)
		bits = (bits & 15) * 17;
	return *bytes < 8 ? bits & ((UINT64_C(1) << 8 * *bytes) - 1) : bits;
}

static void
put_params(const PackKernel *k, Text *out)
{
	char what[80];
	text_printf(out, "static const TgpParam tgp_params_%s[] = {\n", k->function);
	for (int i = 0; i < k->k->params.n; i++) {
		const BoundParam *b = &k->forms.at[0].bound.param[i];
		int bytes = 0;
		uint64_t fill = b->has_fill ? fill_bits(b, &bytes) : 0;
		text_printf(out, "\t{\"%s\", %s, %d, %d, %d, UINT64_C(0x%" PRIx64 ")},\n", k->k->params.at[i].name,
		    what_of(&k->k->params.at[i], what), dtype_info[b->dtype].bits,
		    k->k->params.at[i].kind == PARAM_TENSOR ? b->rank : 0, bytes, fill);
	}
	text_put(out, k->k->params.n ? "};\n\n" : "\t{NULL, 0, 0, 0, 0, 0}\n};\n\n");
}

static void
put_texts(const char *name, const PackKernel *k, const char *const *text, int n, Text *out)
{
	text_printf(out, "static const char *const tgp_%s_%s[] = {", name, k->function);
	for (int i = 0; i < n; i++) {
		text_put(out, i ? ", " : "");
		text_json(out, text[i]);
	}
	text_put(out, n ? "};\n" : "NULL};\n");
}

static void
put_names(const Pack *p, const PackKernel *k, Text *out)
{
	const Item *item = k->k->item;
	const char **text = NEW_ARRAY(p->cx->mem, const char *, k->k->symbols.n + item->ctparams.n + item->where.n);
	for (int i = 0; i < k->k->symbols.n; i++)
		text[i] = k->k->symbols.at[i];
	put_texts("dims", k, text, k->k->symbols.n, out);
	for (int i = 0; i < item->ctparams.n; i++)
		text[i] = item->ctparams.at[i].name;
	put_texts("cts", k, text, item->ctparams.n, out);
	for (int i = 0; i < item->where.n; i++) {
		Text t = {0};
		expr_put(item->where.at[i], 0, &t);
		text[i] = text_take(&t, p->cx->mem);
	}
	put_texts("wheres", k, text, item->where.n, out);
}

/* Do the header's formulas or bounding boxes of windows take scalars? */
static bool
reads_values(const PackKernel *pk)
{
	const Kernel *k = pk->k;
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR && header_mentions(k, k->params.at[i].name))
			return true;
	for (int f = 0; f < pk->forms.n; f++)
		for (int m = 0; m < pk->forms.at[f].code.nmaps; m++)
			if (pk->forms.at[f].code.map[m].windows)
				return true;
	return false;
}

static void
put_kernel_data(const Pack *p, const PackKernel *k, Text *out)
{
	put_params(k, out);
	put_names(p, k, out);
	pack_put_header(k, out);
	for (int i = 0; i < k->forms.n; i++)
		put_form_data(k, i, out);
	for (int i = 0; i < k->forms.n; i++)
		text_put(out, k->forms.at[i].host ? k->forms.at[i].host : "");
	text_printf(out, "static const TgpForm tgp_forms_%s[] = {\n", k->function);
	for (int i = 0; i < k->forms.n; i++)
		put_form(p, k, i, out);
	text_put(out, "};\n\n");
}

void
pack_put_kernels(const Pack *p, Text *out)
{
	int first = 0;
	for (int i = 0; i < p->blobs.n; i++)
		put_blob(&p->blobs.at[i], i, out);
	for (int i = 0; i < p->kernels.n; i++)
		put_kernel_data(p, p->kernels.at[i], out);
	text_put(out, "static const TgpKernel tgp_kernels[] = {\n");
	for (int i = 0; i < p->kernels.n; i++) {
		const PackKernel *k = p->kernels.at[i];
		const char *n = k->function;
		text_printf(out,
		    "\t{\"%s\", %d, %d, %d, tgp_params_%s, tgp_dims_%s, tgp_cts_%s, "
		    "tgp_wheres_%s,\n\t\ttgp_header_%s, "
		    "%d, %d, tgp_forms_%s, %d, %d},\n",
		    k->k->name, k->k->params.n, k->k->symbols.n, k->k->item->ctparams.n, n, n, n, n, n,
		    reads_values(k), k->k->item->grid.n, n, k->forms.n, first);
		first += k->forms.n;
	}
	text_put(out, "};\n\nstatic const TgpTarget tgp_targets[] = {\n");
	for (int i = 0; i < p->targets.n; i++) {
		const Target *t = p->targets.at[i];
		text_printf(out, "\t{\"%s\", %d, %d},\n", t->name, t->capability,
		    t == &pack_host || t->name[strlen(t->name) - 1] == 'a');
	}
	text_printf(out,
	    "};\n\nstatic const TgpPack tgp_pack = {\"%s\", tgp_kernels, %d, %d, tgp_targets, %d};\n\n", p->name,
	    p->kernels.n, first, p->targets.n);
}
