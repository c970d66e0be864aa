/* Metal Shading Language: the writer of a second language.
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
 * Metal 3.1, to be compiled with safe math.  Pointers are buffers in order; numbers that the kernel reads are together
 * in one more, laid out as C does it, so that a kernel of many tensors stays within Metal's 31.  Positions in the grid
 * are one number each, as in the thread IR.  What the thread IR calls and Metal does not have (erf, expm1 …) is a
 * function above the kernel. */
#include "emit/msl/msl.h"

#include <string.h>

/* Reported once for each line and column. */
void
msl_cannot(Msl *m, Place at, const char *what)
{
	const Diag *last = m->errors->last;
	if (last && last->code == DIAG_LOWER_CANNOT && last->place.line == at.line && last->place.col == at.col &&
	    strstr(last->text, what))
		return;
	diag_error(m->errors, at, DIAG_LOWER_CANNOT, what, m->t->target->name);
}

static void
name_parameter(Msl *m, MslNode *n, const ThreadParam *p)
{
	n->c = (int)c_plain(p->type);
	if (p->type == REG_I64 || p->type == REG_I32)
		n->c = (int)(dtype_is_unsigned(p->elem) ? c_plain(p->type) : c_plain(p->type) - 1);
	n->name = msl_fresh(m, p->name);
}

/* "main" is no name for a kernel. */
static void
name_kernel(Msl *m)
{
	const ThreadKernel *k = &m->t->kernel;
	const Target *t = m->t->target;
	m->made->target = t;
	m->made->kernel = *k;
	m->made->kernel.name = strcmp(k->name, "main") == 0 ? "main_" : msl_fresh(m, k->name);
	m->made->param = NEW_ARRAY(m->mem, EmitMslParam, k->nparam);
	for (int i = 0; i < k->nparam; i++)
		name_parameter(m, msl_def(m, m->t->body->arg[i]), &k->param[i]);
	m->values = msl_fresh(m, "values");
	msl_def(m, m->t->shared)->name = msl_fresh(m, "scratch");
	if (k->threads > t->max_threads)
		msl_cannot(m, m->t->place, arena_printf(m->mem, "a block of %d threads (%d at most)", k->threads,
		    t->max_threads));
	if (k->shared_bytes > t->shared_bytes)
		msl_cannot(m, m->t->place, arena_printf(m->mem, "a block with %d bytes of threadgroup memory (%d at most)",
		    k->shared_bytes, t->shared_bytes));
}

/* ---- the signature ---- */

static void
put_param(Msl *m, Text *t, const char *indent, bool *first, const char *fmt, ...) PRINTF(5, 6);

static void
put_param(Msl *m, Text *t, const char *indent, bool *first, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *s = arena_vprintf(m->mem, fmt, ap);
	va_end(ap);
	text_printf(t, "%s%s", *first ? "" : ",\n", *first ? "" : indent);
	text_put(t, s);
	*first = false;
}

/* The buffer or offset of each parameter. */
static void
assign_buffers(Msl *m)
{
	int nbuffers = 0, size = 0, align = 1;
	for (int i = 0; i < m->t->kernel.nparam; i++) {
		EmitMslParam *p = &m->made->param[i];
		if (m->t->kernel.param[i].type == REG_GLOBAL)
			*p = (EmitMslParam){.buffer = nbuffers++, .offset = -1, .is_padded = p->is_padded};
	}
	for (int i = 0; i < m->t->kernel.nparam; i++) {
		RegType t = m->t->kernel.param[i].type;
		if (t == REG_GLOBAL)
			continue;
		bool used = msl_def(m, m->t->body->arg[i])->uses > 0;
		int bytes = thread_type_bytes(t), at = (size + bytes - 1) / bytes * bytes;
		m->made->param[i] = (EmitMslParam){.buffer = used ? nbuffers : -1, .offset = at};
		size = used ? at + bytes : size;
		align = used ? MAX(align, bytes) : align;
	}
	m->made->values_bytes = (size + align - 1) / align * align;
	nbuffers += size > 0;
	if (nbuffers > MSL_BUFFERS)
		msl_cannot(m, m->t->place, arena_printf(m->mem, "a kernel of %d buffers (%d at most)", nbuffers,
		    MSL_BUFFERS));
	if (size > MSL_VALUES)
		msl_cannot(m, m->t->place, arena_printf(m->mem, "a kernel given %d bytes of numbers (%d at most)", size,
		    MSL_VALUES));
}

/* "struct k_values { … };", and what its fields are called in the kernel. */
static void
put_values(const Msl *m, Text *type, Text *locals)
{
	text_printf(type, "struct %s_values {\n", m->made->kernel.name);
	for (int i = 0; i < m->t->kernel.nparam; i++) {
		const MslNode *n = msl_def(m, m->t->body->arg[i]);
		if (m->made->param[i].offset < 0 || m->made->param[i].buffer < 0)
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
	for (int i = 0; i < m->t->kernel.nparam; i++)
		if (m->t->kernel.param[i].type == REG_GLOBAL) {
			const MslNode *n = msl_def(m, m->t->body->arg[i]);
			put_param(m, t, indent, first, "%s%s [[buffer(%d)]]", msl_pointer_type(m, n), n->name, nbuffers++);
		}
	if (m->made->values_bytes)
		put_param(m, t, indent, first, "constant %s_values &%s [[buffer(%d)]]", m->made->kernel.name, m->values,
		    nbuffers);
}

static void
put_positions(Msl *m, Text *t, const char *indent, bool *first)
{
	static const struct {
		int prim;
		const char *text;
	} positions[] = {
		{PRIM_BLOCK, "uint tg [[threadgroup_position_in_grid]]"},
		{PRIM_NBLOCKS, "uint tgs [[threadgroups_per_grid]]"},
		{PRIM_THREAD, "uint lid [[thread_index_in_threadgroup]]"},
		{PRIM_LANE, "uint lane [[thread_index_in_simdgroup]]"},
		{PRIM_SIMDGROUP, "uint sg [[simdgroup_index_in_threadgroup]]"},
	};
	for (int i = 0; i < LEN(positions); i++)
		for (int r = 0; r < m->t->reg.n; r++) {
			const MslNode *n = m->reg[r].def;
			if (n->kind == NODE_PRIM && n->t->op == positions[i].prim && n->uses) {
				put_param(m, t, indent, first, "%s", positions[i].text);
				break;
			}
		}
}

static void
put_signature(Msl *m, Text *t)
{
	bool first = true;
	Text locals = {0};
	char *start = arena_printf(m->mem, "kernel void %s(", m->made->kernel.name);
	char *indent = arena_printf(m->mem, "%*s", (int)strlen(start), "");
	assign_buffers(m);
	if (m->made->values_bytes)
		put_values(m, t, &locals);
	text_printf(t, "[[max_total_threads_per_threadgroup(%d)]]\n%s", m->t->kernel.threads, start);
	put_buffers(m, t, indent, &first);
	put_positions(m, t, indent, &first);
	text_put(t, ")\n{\n");
	if (m->t->kernel.shared_bytes) {
		const char *type = msl_shared_type(m);
		const MslNode *shared = msl_def(m, m->t->shared);
		int size = strcmp(type, "uchar") == 0 ? 1 : thread_type_bytes((RegType)(shared->points - 1));
		text_printf(t, "    alignas(16) threadgroup %s %s[%d];\n\n", type, shared->name,
		    (m->t->kernel.shared_bytes + size - 1) / size);
	}
	text_put(t, locals.at ? locals.at : "");
	text_close(&locals);
}

/* ---- functions ---- */

/* The function of each lane. */
static void
put_vector_form(Msl *m, const ThreadFunc *f, const char *type, int w, Text *out)
{
	const char *second = f->nparam > 1 ? arena_printf(m->mem, ", %s%d y", type, w) : "";
	text_printf(out, "static inline %s%d %s(%s%d x%s) { return %s%d(", type, w, f->name, type, w, second, type, w);
	for (int i = 0; i < w; i++) {
		char lane = "xyzw"[i];
		text_printf(out, f->nparam > 1 ? "%s%s(x.%c, y.%c)" : "%s%s(x.%c)", i ? ", " : "", f->name, lane, lane);
	}
	text_put(out, "); }\n");
}

static void
put_function(Msl *m, int number, Text *out)
{
	const ThreadFunc *f = m->t->functions.at[number];
	const char *type = c_text[c_plain(f->result[0])];
	MslNode returns = {.kind = NODE_TEST};
	Text t = {0}, kept = m->body;
	m->body = (Text){0};
	text_put(&m->body, "");
	m->indent = 1;
	m->line = -1;
	m->names.n = m->numbered.n = 0;
	for (int i = 0; i < f->nparam; i++) {
		MslNode *p = msl_def(m, f->body->arg[i]);
		p->name = msl_fresh(m, i ? "y" : "x");
		p->c = (int)c_plain(f->param[i]);
	}
	msl_count(m, f->body, &returns);
	const Compile *cx = m->cx;
	m->cx = NULL;                                   /* its lines are the compiler's own, not the source's */
	msl_region_text(m, f->body);
	msl_say(m, "return %s;", msl_as(m, msl_expr(m, f->body->yield, 1), c_plain(f->result[0]), 1).text);
	m->cx = cx;
	const char *second = f->nparam > 1 ? arena_printf(m->mem, ", %s y", type) : "";
	text_printf(&t, "static inline %s %s(%s x%s) {\n%s}\n", type, f->name, type, second, m->body.at);
	for (int w = 2; w <= 4; w *= 2)
		if (m->widths[number] & w)
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
		                 "#include <metal_stdlib>\nusing namespace metal;\n\n", m->t->target->name);
	else
		text_put(out, "\n");
}

static void
put_kernel(Msl *m)
{
	Text head = {0};
	m->barrier_device = m->stores_device && (m->reads_stored || m->stores_again);
	msl_merge(m, m->t->body);
	msl_count(m, m->t->body, NULL);
	msl_matrix_plan(m, m->t->body);
	m->body = (Text){0};
	text_put(&m->body, "");
	m->indent = 1;
	m->line = -1;
	if (m->errors->nerrors == 0)
		msl_region_text(m, m->t->body);
	put_signature(m, &head);
	put_head(m, m->out);
	for (int i = 0; i < m->t->functions.n && m->errors->nerrors == 0; i++)
		put_function(m, i, m->out);
	msl_helpers_text(m, m->out);
	msl_tables_text(m, m->out);
	text_put(m->out, head.at);
	text_put(m->out, m->body.at);
	text_put(m->out, "}\n");
	text_close(&head);
	text_close(&m->body);
}

void
emit_msl(ThreadModule *t, Compile *cx, Text *out, EmitMsl *made)
{
	Msl m = {.mem = t->mem, .t = t, .out = out, .cx = cx, .errors = cx, .made = made};
	msl_select(&m);
	msl_keep_beside(&m);
	m.widths = NEW_ARRAY(t->mem, int, t->functions.n);
	name_kernel(&m);
	msl_note_uses(&m);
	put_kernel(&m);
}
