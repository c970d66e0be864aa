/* The text of a module: a line a node, regions indented (docs/thread.md).
 *
 *     kernel @k(r1: global of f32 readonly align 16 "x", r2: i32 "n") target sm_90a threads 128 shared 0 align 16 {
 *         r3: i32 = thread
 *         r4: i32 = mul r3, 4
 *         r5, r6: f32 = load.global [r1 + r4 + 16] align 8 where r7
 *         r8: i32, r9: f32 = loop 0 .. r2 step 1 (r5) {
 *             r10: f32 = fadd r9, r6
 *         } r11: f32 = next (r10)
 *     }
 *
 * Constants stand where they are used and take no number, so that numbers change only with what is computed.  A constant
 * whose type the reader could not tell has it behind it: `0:i64`. */
#include "thread/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Print {
	const ThreadModule *m;
	Text *out;
	int indent, numbers, *number;                   /* number: by register */
	int *file;                                      /* numbers of files, by Place.file; 0: places name it not */
	Place at;
} Print;

static void
start(Print *p)
{
	for (int i = 0; i < p->indent; i++)
		text_put(p->out, "    ");
}

static void
put_constant(Print *p, const ThreadNode *n)
{
	char s[40];
	if (!thread_is_float(n->type)) {
		text_printf(p->out, "%lld", (long long)n->i);
	} else if (isnan(n->f) || isinf(n->f)) {
		text_put(p->out, isnan(n->f) ? "nan" : n->f < 0 ? "-inf" : "inf");
	} else {
		number_format(s, sizeof s, n->type == REG_F64 ? "%.17g" : "%.9g", n->f);
		text_printf(p->out, "%s%s", s, strpbrk(s, ".e") ? "" : ".0");
	}
}

/* A use of a register, where one of that type is expected (REG_TYPES: of any). */
static void
use(Print *p, Reg r, RegType expected)
{
	const ThreadNode *n = thread_def(p->m, r);
	if (n->kind == NODE_SHARED) {
		text_put(p->out, "shared");
	} else if (n->kind != NODE_CONST) {
		text_printf(p->out, "r%d", p->number[r]);
	} else if (n->type == REG_PRED) {
		text_put(p->out, n->i ? "true" : "false");
	} else {
		put_constant(p, n);
		if (expected == REG_TYPES)
			expected = thread_is_float(n->type) ? REG_F32 : REG_I32;
		if (n->type != expected)
			text_printf(p->out, ":%s", reg_type_text[n->type]);
	}
}

static void
uses(Print *p, const ThreadNode *n, int from, int count)
{
	for (int i = 0; i < count; i++) {
		text_put(p->out, i ? ", " : "");
		use(p, n->in[from + i], thread_operand_type(p->m, n, from + i));
	}
}

static void
list(Print *p, const ThreadNode *n, int from, int count)
{
	text_put(p->out, "(");
	uses(p, n, from, count);
	text_put(p->out, ")");
}

/* New registers with their types: "r5, r6: f32". */
static void
results(Print *p, const Reg *r, int n)
{
	for (int i = 0; i < n; i++) {
		RegType t = thread_type(p->m, r[i]);
		p->number[r[i]] = ++p->numbers;
		text_printf(p->out, "r%d", p->number[r[i]]);
		if (i + 1 == n || thread_type(p->m, r[i + 1]) != t)
			text_printf(p->out, ": %s", reg_type_text[t]);
		text_put(p->out, i + 1 < n ? ", " : "");
	}
}

static void
put_place(Print *p, Place at)
{
	if (at.file < 0 || (at.file == p->at.file && at.line == p->at.line && at.col == p->at.col))
		return;
	p->at = at;
	start(p);
	if (p->file[at.file] > 1)
		text_printf(p->out, "@%d:%d:%d\n", p->file[at.file] - 1, at.line, at.col);
	else
		text_printf(p->out, "@%d:%d\n", at.line, at.col);
}

static void
stand(Print *p, Place at)
{
	if (p->at.file < 0 && at.file >= 0)
		put_place(p, p->m->place);
	put_place(p, at);
}

static void
address(Print *p, const ThreadAccess *at)
{
	text_put(p->out, "[");
	use(p, at->base, at->space == SPACE_SHARED ? REG_SHARED : REG_GLOBAL);
	if (at->offset) {
		bool is_constant = thread_def(p->m, at->offset)->kind == NODE_CONST; /* says its type: `16` is bytes more */
		text_put(p->out, " + ");
		use(p, at->offset, is_constant ? REG_PRED : REG_TYPES);
	}
	if (at->constant)
		text_printf(p->out, " %c %lld", at->constant < 0 ? '-' : '+', llabs((long long)at->constant));
	text_put(p->out, "]");
	if (at->align)
		text_printf(p->out, " align %d", at->align);
	if (at->cache)
		text_printf(p->out, " %s", thread_cache_text[at->cache]);
	if (at->mask) {
		text_put(p->out, " where ");
		use(p, at->mask, REG_PRED);
	}
	if (at->fill) {
		text_put(p->out, " else ");
		use(p, at->fill, at->type);
	}
	if (at->changes) {
		text_put(p->out, " changes ");
		use(p, at->changes, REG_GLOBAL);
	}
}

static void
put_lookup(Print *p, const ThreadNode *n)
{
	text_put(p->out, "lookup ");
	uses(p, n, 0, 1);
	text_put(p->out, " {");
	for (int i = 0; i < n->nimm; i++)
		text_printf(p->out, "%s%lld", i ? ", " : "", (long long)n->imm[i]);
	text_put(p->out, "}");
}

static void
put_atomic(Print *p, const ThreadNode *n)
{
	const ThreadAccess *at = n->at;
	text_printf(p->out, "atomic.%s.%s.%s.%s.%s%s ", thread_atomic_text[n->op], thread_order_text[at->order],
	    thread_scope_text[at->scope], thread_space_text[at->space], reg_type_text[at->type], at->n == 2 ? ".x2" : "");
	if (n->nin > 1) {
		use(p, n->in[1], thread_operand_type(p->m, n, 1));
		text_put(p->out, ", ");
	}
	uses(p, n, 0, 1);
	text_put(p->out, ", ");
	address(p, at);
}

static void
put_prim(Print *p, const ThreadNode *n)
{
	text_put(p->out, prim_info[n->op].text);
	for (int i = 0; i < n->nimm; i++)
		text_printf(p->out, "%c%lld", i ? ':' : '.', (long long)n->imm[i]);
	text_put(p->out, n->nin ? " " : "");
	uses(p, n, 0, n->nin);
}

static void
put_quoted(Print *p, const ThreadNode *n)
{
	text_printf(p->out, "%s ", thread_kind_text[n->kind]);
	text_quoted(p->out, n->text, "nt", "\\x%02x");
	text_put(p->out, n->nin ? " " : "");
	uses(p, n, 0, n->nin);
}

/* "wgmma.n64k16.f16 r1, r2, (…) scale r3", of A in registers "(r1, r4, r5, r6), r2, (…)" */
static void
put_wgmma(Print *p, const ThreadNode *n)
{
	int words = wgmma_words((unsigned)n->op), count = n->wgmma->n / 2;
	text_printf(p->out, "%s%s%s ", n->wgmma->name, n->op & TRANSPOSE_A ? ".transpose_a" : "",
	    n->op & TRANSPOSE_B ? ".transpose_b" : "");
	if (words > 1)
		list(p, n, 0, words);
	else
		uses(p, n, 0, 1);
	text_put(p->out, ", ");
	uses(p, n, words, 1);
	text_put(p->out, ", ");
	list(p, n, words + 1, count);
	if (n->nin > words + 1 + count) {
		text_put(p->out, " scale ");
		uses(p, n, words + 1 + count, 1);
	}
}

static void
put_matrix(Print *p, const ThreadNode *n)
{
	if (n->kind == NODE_MMA) {
		MmaWords w = mma_words(n->mma);
		text_printf(p->out, "mma.%s ", n->mma->name);
		list(p, n, 0, w.a);
		text_put(p->out, ", ");
		list(p, n, w.a, w.b);
		text_put(p->out, ", ");
		list(p, n, w.a + w.b, w.c);
		return;
	}
	put_wgmma(p, n);
}

/* What stands behind the results. */
static void
put_node(Print *p, const ThreadNode *n)
{
	switch (n->kind) {
	case NODE_OP:
		text_put(p->out, thread_op_text[n->op]);
		if (thread_is_comparison((ThreadOp)n->op))
			text_printf(p->out, ".%s", reg_type_text[thread_type(p->m, n->in[0])]);
		text_put(p->out, " ");
		uses(p, n, 0, n->nin);
		return;
	case NODE_CAST:
		text_printf(p->out, "%s ", thread_cast_text[n->op]);
		uses(p, n, 0, 1);
		return;
	case NODE_LOOKUP: put_lookup(p, n); return;
	case NODE_LOAD:
		text_printf(p->out, "load.%s ", thread_space_text[n->at->space]);
		address(p, n->at);
		return;
	case NODE_STORE:
		text_printf(p->out, "store.%s.%s ", thread_space_text[n->at->space], reg_type_text[n->at->type]);
		uses(p, n, 0, n->nin);
		text_put(p->out, ", ");
		address(p, n->at);
		return;
	case NODE_ATOMIC: put_atomic(p, n); return;
	case NODE_PRIM: put_prim(p, n); return;
	case NODE_CALL:
		text_printf(p->out, "call @%s", n->text);
		list(p, n, 0, n->nin);
		return;
	case NODE_PTX: case NODE_PRINT: put_quoted(p, n); return;
	case NODE_TRACE:
		text_printf(p->out, "trace %d ", n->op);
		list(p, n, 0, n->nin);
		return;
	case NODE_MMA: case NODE_WGMMA: put_matrix(p, n); return;
	case NODE_SETTLE:
		text_put(p->out, "settle ");
		list(p, n, 0, n->nin);
		return;
	default:
		text_printf(p->out, "%s%s", thread_kind_text[n->kind], n->nin ? " " : "");
		uses(p, n, 0, n->nin);
	}
}

/* ---- regions ---- */

static void region(Print *p, const ThreadRegion *r);

static void
yielded(Print *p, const char *word, const Reg *v, const Reg *like, int n)
{
	text_printf(p->out, "%s(", word);
	for (int i = 0; i < n; i++) {
		text_put(p->out, i ? ", " : "");
		use(p, v[i], like ? thread_type(p->m, like[i]) : REG_TYPES);
	}
	text_put(p->out, ")");
}

/* "} r11: f32 = next (r10)" */
static void
close(Print *p, const char *word, const ThreadNode *n, const ThreadRegion *r)
{
	start(p);
	text_put(p->out, n->nout ? "} " : "}");
	results(p, n->out, n->nout);
	if (n->nout)
		yielded(p, word, r->yield, n->out, n->nout);
	text_put(p->out, "\n");
}

static void
put_loop(Print *p, const ThreadNode *n)
{
	const ThreadRegion *r = n->region[0];
	results(p, r->arg, r->narg);
	text_put(p->out, r->narg ? " = " : "");
	if (n->kind == NODE_LOOP) {
		static const char *const between[] = {"loop ", " .. ", " step "};
		for (int i = 0; i < 3; i++) {
			text_put(p->out, between[i]);
			uses(p, n, i, 1);
		}
		text_put(p->out, " ");
		list(p, n, 3, n->nin - 3);
	} else {
		text_put(p->out, "while ");
		list(p, n, 0, n->nin);
	}
	text_put(p->out, " {\n");
	p->indent++;
	region(p, r);
	p->indent--;
	close(p, " = next ", n, r);
}

static void
put_if(Print *p, const ThreadNode *n)
{
	const ThreadRegion *then = n->region[0], *otherwise = n->region[1];
	text_put(p->out, "if ");
	uses(p, n, 0, 1);
	text_put(p->out, " {\n");
	p->indent++;
	region(p, then);
	p->indent--;
	start(p);
	text_put(p->out, "} ");
	if (n->nout)
		yielded(p, "gives ", then->yield, NULL, n->nout);
	text_put(p->out, n->nout ? " else {\n" : "else {\n");
	p->indent++;
	region(p, otherwise);
	p->indent--;
	close(p, " = gives ", n, otherwise);
}

static void
node(Print *p, const ThreadNode *n)
{
	stand(p, n->place);
	if (n->kind == NODE_TEST) {
		p->indent--;
		start(p);
		text_put(p->out, "} test ");
		uses(p, n, 0, 1);
		text_put(p->out, " {\n");
		p->indent++;
		return;
	}
	start(p);
	if (n->kind == NODE_LOOP || n->kind == NODE_WHILE) {
		put_loop(p, n);
	} else if (n->kind == NODE_IF) {
		put_if(p, n);
	} else {
		results(p, n->out, n->nout);
		text_put(p->out, n->nout ? " = " : "");
		put_node(p, n);
		text_put(p->out, "\n");
	}
}

static void
region(Print *p, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++)
		node(p, r->body.at[i]);
	stand(p, r->end);
}

/* ---- heads ---- */

static void
put_function(Print *p, const ThreadFunc *f)
{
	text_printf(p->out, "function @%s(", f->name);
	results(p, f->body->arg, f->nparam);
	text_put(p->out, ")");
	for (int i = 0; i < f->nresult; i++)
		text_printf(p->out, "%s%s", i ? ", " : ": ", reg_type_text[f->result[i]]);
	text_put(p->out, " {\n");
	p->indent++;
	for (int i = 0; i < f->body->body.n; i++) {
		Place at = p->at;                       /* functions stand at no line */
		const ThreadNode *n = f->body->body.at[i];
		p->at = n->place;
		node(p, n);
		p->at = at;
	}
	p->indent--;
	text_put(p->out, "} ");
	yielded(p, "gives ", f->body->yield, NULL, f->nresult);
	text_put(p->out, "\n");
}

static void
put_param(Print *p, int i)
{
	const ThreadParam *k = &p->m->kernel.param[i];
	results(p, &p->m->body->arg[i], 1);
	text_printf(p->out, " of %s", dtype_info[k->elem].text);
	if (k->most > k->least)
		text_printf(p->out, " from %lld to %lld", (long long)k->least, (long long)k->most);
	text_put(p->out, k->is_read_only ? " readonly" : "");
	text_put(p->out, k->is_aliased ? " aliased" : "");
	text_put(p->out, k->is_map ? " map" : "");
	if (k->align > 1)
		text_printf(p->out, " align %d", k->align);
	text_put(p->out, " ");
	text_json(p->out, k->name);
}

static void
find_files(Print *p, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i];
		if (n->place.file >= 0)
			p->file[n->place.file] = 1;
		for (int k = 0; k < 2 && n->region[k]; k++)
			find_files(p, n->region[k]);
	}
	if (r->end.file >= 0)
		p->file[r->end.file] = 1;
}

/* Those that places are in, numbered from 0. */
static void
put_files(Print *p, const Compile *cx)
{
	int n = 0;
	p->file = NEW_ARRAY(p->m->mem, int, cx->files.n);
	find_files(p, p->m->body);
	if (p->m->place.file >= 0)
		p->file[p->m->place.file] = 1;
	for (int i = 0; i < cx->files.n; i++) {
		if (!p->file[i])
			continue;
		p->file[i] = ++n;
		text_printf(p->out, "file %d ", n - 1);
		text_quoted(p->out, cx->files.at[i].path, "nt", "\\x%02x");
		text_put(p->out, "\n");
	}
}

void
thread_module_print(const ThreadModule *m, const Compile *cx, Text *out)
{
	Print p = {.m = m, .out = out, .at = NOWHERE, .number = NEW_ARRAY(m->mem, int, m->reg.n + 1)};
	put_files(&p, cx);
	for (int i = 0; i < m->functions.n; i++)
		put_function(&p, m->functions.at[i]);
	text_printf(out, "kernel @%s(", m->kernel.name);
	for (int i = 0; i < m->kernel.nparam; i++) {
		text_put(out, i ? ", " : "");
		put_param(&p, i);
	}
	text_printf(out, ") target %s threads %d", m->target->name, m->kernel.threads);
	if (m->kernel.min_blocks)
		text_printf(out, " resident %d", m->kernel.min_blocks);
	if (m->kernel.cluster)
		text_printf(out, " cluster %d", m->kernel.cluster);
	text_printf(out, " shared %d align %d {\n", m->kernel.shared_bytes, m->kernel.shared_align);
	p.indent++;
	region(&p, m->body);
	text_put(out, "}\n");
}
