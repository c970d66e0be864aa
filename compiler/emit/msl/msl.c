/* Metal Shading Language: the second emitter that makes something to run.
 *
 *     #include <metal_stdlib>
 *     using namespace metal;
 *
 *     struct softmax_values {
 *         long C;
 *     };
 *
 *     [[max_total_threads_per_threadgroup(128)]]
 *     kernel void softmax(device const float *x [[buffer(0)]],
 *                         device float *y [[buffer(1)]],
 *                         constant softmax_values &values [[buffer(2)]],
 *                         uint tg [[threadgroup_position_in_grid]],
 *                         uint lid [[thread_index_in_threadgroup]])
 *     {
 *         const long C = values.C;
 *
 * Metal 3.1, to be compiled with safe math.  Pointers are buffers in order; numbers that the kernel reads are together in
 * one more, laid out as C does it, so that a kernel of many tensors stays within Metal's 31.  Places in the grid are one
 * number each, as lowering wants them.  What lowering calls by name and Metal does not have (erf, expm1 …) is a function
 * above the kernel. */
#include "emit/msl/msl.h"

#include <string.h>

static Reg
given_param(Msl *m, int i, const EmitParam *p)
{
	MslNode *n = NEW(m->e.mem, MslNode);
	*n = (MslNode){.kind = MSL_PARAM, .op = i, .type = p->type, .width = 1, .home = m->block, .place = NOWHERE,
		.range = msl_range_any(p->type)};
	if (p->most > p->least)
		n->range = (MslRange){p->least, p->most, true};
	n->c = (int)c_plain(p->type);
	if (p->type == REG_I64 || p->type == REG_I32)
		n->c = (int)(dtype_is_unsigned(p->elem) ? c_plain(p->type) : c_plain(p->type) - 1);
	n->name = msl_fresh(m, p->name);
	return msl_add(m, n, p->type);
}

/* "main" is no name for a kernel. */
static void
kernel_begin(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared)
{
	Msl *m = msl_state(e);
	e->kernel = *k;
	e->kernel.name = strcmp(k->name, "main") == 0 ? "main_" : msl_fresh(m, k->name);
	m->nparam = k->nparam;
	m->param = NEW_ARRAY(e->mem, Reg, k->nparam);
	m->at = NEW_ARRAY(e->mem, EmitMslParam, k->nparam);
	for (int i = 0; i < k->nparam; i++)
		m->param[i] = param[i] = given_param(m, i, &k->param[i]);
	m->values = msl_fresh(m, "values");
	MslNode *n = NEW(e->mem, MslNode);
	*n = (MslNode){.kind = MSL_SHARED, .type = REG_SHARED, .width = 1, .home = m->block, .place = NOWHERE};
	n->name = msl_fresh(m, "scratch");
	m->shared = *shared = msl_add(m, n, REG_SHARED);
	if (k->threads > e->target->max_threads)
		msl_cannot(m, arena_printf(e->mem, "a block of %d threads (%d at most)", k->threads,
		    e->target->max_threads));
	if (k->shared_bytes > e->target->shared_bytes)
		msl_cannot(m, arena_printf(e->mem, "a block with %d bytes of threadgroup memory (%d at most)",
		    k->shared_bytes,
		    e->target->shared_bytes));
}

/* ---- the signature ---- */

static void
put_param(Msl *m, Text *t, const char *indent, bool *first, const char *fmt, ...) PRINTF(5, 6);

static void
put_param(Msl *m, Text *t, const char *indent, bool *first, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = arena_vprintf(m->e.mem, fmt, ap);
	va_end(ap);
	text_printf(t, "%s%s", *first ? "" : ",\n", *first ? "" : indent);
	text_put(t, s);
	*first = false;
}

/* Where each parameter is passed. */
static void
place_params(Msl *m)
{
	int nbuffers = 0, size = 0, align = 1;
	for (int i = 0; i < m->nparam; i++)
		if (m->e.kernel.param[i].type == REG_GLOBAL)
			m->at[i] = (EmitMslParam){.buffer = nbuffers++, .offset = -1, .is_padded = m->at[i].is_padded};
	for (int i = 0; i < m->nparam; i++) {
		RegType t = m->e.kernel.param[i].type;
		if (t == REG_GLOBAL)
			continue;
		bool used = msl_def(m, m->param[i])->uses > 0;
		int bytes = msl_size(t), at = (size + bytes - 1) / bytes * bytes;
		m->at[i] = (EmitMslParam){.buffer = used ? nbuffers : -1, .offset = at};
		size = used ? at + bytes : size;
		align = used ? MAX(align, bytes) : align;
	}
	m->values_bytes = (size + align - 1) / align * align;
	nbuffers += size > 0;
	if (nbuffers > MSL_BUFFERS)
		msl_cannot(m, arena_printf(m->e.mem, "a kernel of %d buffers (%d at most)", nbuffers, MSL_BUFFERS));
	if (size > MSL_VALUES)
		msl_cannot(m, arena_printf(m->e.mem, "a kernel given %d bytes of numbers (%d at most)", size, MSL_VALUES));
}

/* "struct k_values { … };", and what its fields are called in the kernel. */
static void
put_values(const Msl *m, Text *type, Text *locals)
{
	text_printf(type, "struct %s_values {\n", m->e.kernel.name);
	for (int i = 0; i < m->nparam; i++) {
		const MslNode *n = msl_def(m, m->param[i]);
		if (m->at[i].offset < 0 || m->at[i].buffer < 0)
			continue;
		text_printf(type, "    %s %s;\n", c_text[n->c], n->name);
		text_printf(locals, "    const %s %s = %s.%s;\n", c_text[n->c], n->name, m->values, n->name);
	}
	text_put(type, "};\n\n");
	text_put(locals, "\n");
}

static void
put_buffers(Msl *m, Text *t, const char *indent, bool *first)
{
	int nbuffers = 0;
	for (int i = 0; i < m->nparam; i++)
		if (m->e.kernel.param[i].type == REG_GLOBAL) {
			const MslNode *n = msl_def(m, m->param[i]);
			put_param(m, t, indent, first, "%s%s [[buffer(%d)]]", msl_pointer_type(m, n), n->name, nbuffers++);
		}
	if (m->values_bytes)
		put_param(m, t, indent, first, "constant %s_values &%s [[buffer(%d)]]", m->e.kernel.name, m->values,
		    nbuffers);
}

static void
put_places(Msl *m, Text *t, const char *indent, bool *first)
{
	static const struct {
		int prim;
		const char *text;
	} places[] = {
		{PRIM_BLOCK, "uint tg [[threadgroup_position_in_grid]]"},
		{PRIM_NBLOCKS, "uint tgs [[threadgroups_per_grid]]"},
		{PRIM_THREAD, "uint lid [[thread_index_in_threadgroup]]"},
		{PRIM_LANE, "uint lane [[thread_index_in_simdgroup]]"},
		{PRIM_COUNT, "uint sg [[simdgroup_index_in_threadgroup]]"},
	};
	for (int i = 0; i < LEN(places); i++)
		for (int r = 0; r < m->reg.n; r++) {
			const MslNode *n = m->reg.at[r].def;
			if (n->kind == MSL_PRIM && n->op == places[i].prim && n->uses) {
				put_param(m, t, indent, first, "%s", places[i].text);
				break;
			}
		}
}

static void
put_signature(Msl *m, Text *t)
{
	bool first = true;
	Text locals = {0};
	char *start = arena_printf(m->e.mem, "kernel void %s(", m->e.kernel.name);
	char *indent = arena_printf(m->e.mem, "%*s", (int)strlen(start), "");
	place_params(m);
	if (m->values_bytes)
		put_values(m, t, &locals);
	text_printf(t, "[[max_total_threads_per_threadgroup(%d)]]\n%s", m->e.kernel.threads, start);
	put_buffers(m, t, indent, &first);
	put_places(m, t, indent, &first);
	text_put(t, ")\n{\n");
	if (m->e.kernel.shared_bytes) {
		const char *type = msl_shared_type(m);
		int size = strcmp(type, "uchar") == 0 ? 1 : msl_size((RegType)(msl_def(m, m->shared)->points - 1));
		text_printf(t, "    alignas(16) threadgroup %s %s[%d];\n\n", type, msl_def(m, m->shared)->name,
		    (m->e.kernel.shared_bytes + size - 1) / size);
	}
	text_put(t, locals.at ? locals.at : "");
	text_close(&locals);
}

/* ---- functions ---- */

/* The function of each lane. */
static void
put_vector_form(Msl *m, const MslFunction *f, const char *type, int w, Text *out)
{
	const char *second = f->nparam > 1 ? arena_printf(m->e.mem, ", %s%d y", type, w) : "";
	text_printf(out, "static inline %s%d %s(%s%d x%s) { return %s%d(", type, w, f->name, type, w, second, type, w);
	for (int i = 0; i < w; i++) {
		char lane = "xyzw"[i];
		text_printf(out, f->nparam > 1 ? "%s%s(x.%c, y.%c)" : "%s%s(x.%c)", i ? ", " : "", f->name, lane, lane);
	}
	text_put(out, "); }\n");
}

static void
put_function(Msl *m, MslFunction *f, Text *out)
{
	const char *type = c_text[c_plain(f->result)];
	Text t = {0}, kept = m->body;
	m->body = (Text){0};
	text_put(&m->body, "");
	m->indent = 1;
	m->line = -1;
	m->names.n = m->numbered.n = 0;
	for (int i = 0; i < f->nparam; i++) {
		MslNode *p = msl_def(m, f->inside[i]);
		p->name = msl_fresh(m, i ? "y" : "x");
		p->c = (int)c_plain(f->param[i]);
	}
	msl_count(m, f->body);
	const Compile *cx = m->cx;
	m->cx = NULL;                                   /* its lines are the compiler's own, not the source's */
	msl_block_text(m, f->body);
	m->cx = cx;
	const char *second = f->nparam > 1 ? arena_printf(m->e.mem, ", %s y", type) : "";
	text_printf(&t, "static inline %s %s(%s x%s) {\n%s}\n", type, f->name, type, second, m->body.at);
	for (int w = 2; w <= 4; w *= 2)
		if (f->widths & w)
			put_vector_form(m, f, type, w, &t);
	if (!out->at || !strstr(out->at, t.at))         /* another kernel of the file may have it */
		text_printf(out, "%s\n", t.at);
	text_close(&t);
	text_close(&m->body);
	m->body = kept;
}

static void
put_head(const Msl *m, Text *out)
{
	if (out->n == 0)
		text_printf(out, "// Made by tegula for %s; Metal 3.1, to be compiled with safe math (-fno-fast-math).\n"
		                 "#include <metal_stdlib>\nusing namespace metal;\n\n", m->e.target->name);
	else
		text_put(out, "\n");
}

static void
kernel_end(Emitter *e)
{
	Msl *m = msl_state(e);
	Text head = {0};
	m->barrier_device = m->stores_device && m->reads_stored;
	msl_merge(m, m->block);
	msl_count(m, m->block);
	msl_matrix_plan(m, m->block);
	m->body = (Text){0};
	text_put(&m->body, "");
	m->indent = 1;
	m->line = -1;
	if (m->errors->nerrors == 0)
		msl_block_text(m, m->block);
	put_signature(m, &head);
	put_head(m, m->out);
	for (int i = 0; i < m->functions.n && m->errors->nerrors == 0; i++)
		put_function(m, m->functions.at[i], m->out);
	msl_helpers_text(m, m->out);
	msl_tables_text(m, m->out);
	text_put(m->out, head.at);
	text_put(m->out, m->body.at);
	text_put(m->out, "}\n");
	text_close(&head);
	text_close(&m->body);
}

EmitMslParam
emit_msl_param(const Emitter *e, int i)
{
	return msl_state(e)->at[i];
}

int
emit_msl_values(const Emitter *e)
{
	return msl_state(e)->values_bytes;
}

Emitter *
emit_msl_open(Arena *mem, const Target *t, Compile *cx, Text *out)
{
	Msl *m = NEW(mem, Msl);
	m->e = (Emitter){.target = t, .mem = mem, .state = m, .kernel_begin = kernel_begin, .kernel_end = kernel_end};
	m->out = out;
	m->cx = m->errors = cx;
	m->place = NOWHERE;
	msl_record_open(m);
	return &m->e;
}
