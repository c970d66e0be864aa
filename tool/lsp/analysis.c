/* One text compiled for an editor: what is wrong with it, what its names mean, what they were given.
 *
 * Each text is compiled anew, in a few milliseconds, and thrown away with its first change.  The code for the target
 * takes longer and is made only when hints are asked for. */
#include "tool/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

static void
keep_value(void *user, const char *name, Place at, const char *what)
{
	Analysis *a = user;
	NamedValue v = {at, what};
	for (int i = a->values.n - 1; i >= MAX(a->values.n - 8, 0); i--)
		if (place_order(a->values.at[i].at, at) == 0 && strcmp(a->values.at[i].what, what) == 0)
			return;
	vec_push(a->cx->mem, &a->values, v);
}

static Analysis *
analyse(const Document *d)
{
	Analysis *a = memory_new(1, sizeof *a);
	const NameObserver observer = {keep_value, a};
	a->cx = compile_open();
	a->file = source_text(a->cx, d->path, d->text.at ? d->text.at : "", d->text.n);
	if (a->file < 0)
		return a;
	a->cx->observer = &observer;
	a->program = program_open(a->cx, a->file);
	program_check(a->program);
	a->cx->observer = NULL;
	names_find(a->program->ast, a->cx->mem, &a->names);
	return a;
}

Analysis *
analysis_of(Server *s, Document *d)
{
	if (!d->analysis)
		d->analysis = analyse(d);
	return d->analysis;
}

void
analysis_close(Analysis *a)
{
	if (!a)
		return;
	compile_close(a->cx);
	free(a);
}

const SourceFile *
analysis_source(const Analysis *a)
{
	return a->file < 0 ? NULL : &a->cx->files.at[a->file];
}

const NameUse *
use_at(const Analysis *a, Place at)
{
	return VALUE_OF(i, a->names.uses.n, place_has(a->names.uses.at[i].place, at), &a->names.uses.at[i], NULL);
}

const char *
value_at(const Analysis *a, Place at)
{
	const char *text = NULL;
	enum { SHOWN = 3 };
	for (int i = 0, n = 0; i < a->values.n && n < SHOWN; i++) {
		const NamedValue *v = &a->values.at[i];
		if (v->at.file != at.file || place_order(v->at, at) != 0)
			continue;
		text = text ? arena_printf(a->cx->mem, "%s, %s", text, v->what) : v->what;
		n++;
	}
	return text;
}

/* ---- what the code for the target is like ---- */

static void
put_banks(Text *out, const BankPlan *b, const char *where)
{
	if (b->bytes > 0 && b->passes > b->least)
		text_printf(out, ", %d bank passes of %d %s shared memory", b->passes, b->least, where);
}

/* A line's figures in as few words as an editor has room for; nothing for what needs none. */
static void
put_line(const InspectLine *x, Text *out)
{
	switch (x->kind) {
	case INSPECT_ACCESS:
		if (!x->layout)
			return;
		text_printf(out, "%s: %d B a thread", x->what, x->bytes);
		if (x->sectors_known)
			text_printf(out, ", %d of %d sectors", x->touched, x->least);
		break;
	case INSPECT_DOT:
		text_put(out, x->what);
		if (x->reason)
			text_printf(out, ": %s", x->reason);
		break;
	case INSPECT_CONVERT:
		text_printf(out, "%s through %s", x->what, x->way);
		break;
	case INSPECT_COPY: case INSPECT_MOVE:
		text_put(out, x->what);
		break;
	default:
		return;
	}
	put_banks(out, &x->in, "into");
	put_banks(out, &x->out, "from");
}

static void
add_note(Analysis *a, int line, const char *text)
{
	for (int k = 0; k < a->notes.n; k++)
		if (a->notes.at[k].line == line && strcmp(a->notes.at[k].text, text) == 0)
			return;
	vec_push(a->cx->mem, &a->notes, ((LineNote){line, arena_strdup(a->cx->mem, text)}));
}

/* "4 warps, 8192 bytes of shared memory", at the kernel's name. */
static void
note_whole(Analysis *a, const Inspection *x)
{
	Text t = {0};
	int warps = func_warps(x->f);
	text_printf(&t, "%d warp%s, %lld bytes of shared memory", warps, warps == 1 ? "" : "s",
	    (long long)x->f->shared_bytes);
	if (x->f->place.file == 0)
		add_note(a, x->f->place.line, t.at);
	text_close(&t);
}

/* "8 registers of each of 128 threads, 4 adjacent along dimension 1". */
static void
put_held(const Layout *l, Text *out)
{
	int most = 0;
	for (int d = 1; d < l->rank; d++)
		if (layout_contiguous(l, d) > layout_contiguous(l, most))
			most = d;
	text_printf(out, "%d register%s of each of %d threads", 1 << l->in[IN_REGISTER], l->in[IN_REGISTER] ? "s" : "",
	    1 << (l->in[IN_LANE] + l->in[IN_WARP]));
	if (layout_contiguous(l, most) > 0)
		text_printf(out, ", %d adjacent along dimension %d", 1 << layout_contiguous(l, most), most);
}

static void
note_held(Analysis *a, const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; i < op->nout; i++) {
			const Value *v = &op->out[i];
			Text t = {0};
			if (!v->name || !v->layout || v->layout->rank == 0 || op->place.file != 0)
				continue;
			put_held(v->layout, &t);
			HeldNote note = {arena_strdup(a->cx->mem, v->name), op->place.line, arena_strdup(a->cx->mem, t.at)};
			vec_push(a->cx->mem, &a->held, note);
			text_close(&t);
		}
}

static void
note_kernel(Analysis *a, const Inspection *x)
{
	note_whole(a, x);
	note_held(a, x->f);
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *line = &x->lines.at[i];
		Text t = {0};
		put_line(line, &t);
		if (t.n && line->op->place.file == 0)
			add_note(a, line->op->place.line, t.at);
		text_close(&t);
	}
}

void
analysis_inspect(Server *s, Analysis *a)
{
	const SourceFile *f = analysis_source(a);
	const PassOptions passes = {.own_file = true};
	if (a->inspected || !f || a->cx->nerrors > 0)
		return;
	a->inspected = true;
	Compile *cx = compile_open();
	int file = source_text(cx, f->path, f->text, f->size);
	Program *p = file == 0 ? program_open(cx, file) : NULL;
	for (int i = 0; p && i < p->kernels.n; i++) {
		Kernel *k = p->kernels.at[i];
		const ExampleItem *ex = kernel_first_example(k, true);
		bool misuse = false;
		Bound bound;
		Inspection x;
		if (k->item->place.file != file || !ex)
			continue;
		Module *m = cli_bound_module(s->cli, k, ex, s->target->name, &passes, &misuse, &bound, NULL);
		if (!m)
			continue;
		inspect_func(m->funcs.at[0], s->target, inspect_args(&bound, m->funcs.at[0], cx->mem), cx->mem, &x);
		note_kernel(a, &x);
	}
	compile_close(cx);
}
