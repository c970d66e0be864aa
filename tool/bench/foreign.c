/* Handwritten kernels beside ours: a file of CUDA C++, one of its kernels, launched on a case's tensors.
 *
 * NVRTC's machine code becomes an artefact like our own, with an ABI that is read off the tegula kernel's header; the
 * device loads and launches it as any other. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/bench/rounds.h"

enum { MAX_BLOCK = 1024 };

/* ---- the grid ---- */

static bool
find_blocks(Foreign *f, TglCase *c, const char *text)
{
	Compile *cx = c->k->program->compile;
	Const v;
	int file = source_text(cx, "<grid>", text, strlen(text));
	const Expr *e = file < 0 ? NULL : ast_parse_expr(cx, file);
	if (!e || !bound_eval(c->k->k, &c->b.bound, e, "the grid", &v))
		return false;
	if (v.kind == CONST_INT && v.i >= 1 && v.i <= INT32_MAX) {
		f->blocks = v.i;
		return true;
	}
	Text value = {0};
	const_text(&v, &value);
	diag_error(cx, e->place, DIAG_FOREIGN_GRID, text, value.at);
	text_close(&value);
	return false;
}

/* ---- what is passed ---- */

static void
add_abi(Artefact *a, AbiKind kind, int param, int bytes)
{
	a->abi[a->nabi++] = (AbiParam){.kind = kind, .param = param, .bytes = bytes};
}

static void
make_abi(Artefact *a, const Kernel *k, const Bound *b)
{
	a->abi = calloc((size_t)(k->params.n + k->symbols.n) + 1, sizeof *a->abi);
	if (!a->abi)
		die("no memory");
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		if (p->kind == PARAM_SCALAR)
			add_abi(a, ABI_SCALAR, i, (dtype_info[b->param[i].dtype].bits + 7) / 8);
		else if (p->kind != PARAM_TENSOR || p->access != ACCESS_SCRATCH)
			add_abi(a, ABI_POINTER, i, 8);
	}
	for (int i = 0; i < k->symbols.n; i++)
		add_abi(a, ABI_DIM, k->params.n + i, 8);
}

/* ---- the name ---- */

static const char section[] = ".text.";

/* The next name of a kernel in machine code, where each has a section; NULL: there are no more. */
static const char *
next_kernel(const Artefact *a, const char *from)
{
	const char *end = a->bytes + a->size;
	const char *p = memmem(from, (size_t)(end - from), section, sizeof section - 1);
	return p && memchr(p, 0, (size_t)(end - p)) ? p + sizeof section - 1 : NULL;
}

typedef VEC(const char *) Names;

static bool
has_name(const Names *all, const char *name)
{
	return ANY_OF(i, all->n, strcmp(all->at[i], name) == 0);
}

static void
help_name(Compile *cx, const Names *all, const char *name)
{
	const char *near = nearest_name(name, all->at, all->n);
	Text list = {0};
	for (int i = 0; i < all->n; i++)
		if (strncmp(all->at[i], "_Z", 2) == 0 && strstr(all->at[i], name)) {
			diag_help(cx, "declare it extern \"C\", so that its name stays as it is written");
			return;
		}
	for (int i = 0; i < all->n; i++)
		text_printf(&list, "%s%s", i ? ", " : "", all->at[i]);
	if (near)
		diag_help(cx, "did you mean '%s'?", near);
	else if (all->n)
		diag_help(cx, "it has %s", list.at);
	text_close(&list);
}

static bool
has_kernel(Compile *cx, const Artefact *a, const char *path, const char *name)
{
	Names all = {0};
	for (const char *p = a->bytes; (p = next_kernel(a, p));)
		if (!has_name(&all, p))
			vec_push(cx->tmp, &all, p);
	if (has_name(&all, name))
		return true;
	diag_error(cx, NOWHERE, DIAG_FOREIGN_NAME, path, name);
	help_name(cx, &all, name);
	return false;
}

/* ---- opening ---- */

static TglStatus
compile_cuda(Foreign *f, Compile *cx, const char *path, const char *text)
{
	Device *d = &f->dev->dev;
	Text log = {0};
	TglStatus s = TGL_OK;
	if (!nvrtc_compile(d, path, text, &f->artefact, &log)) {
		s = log.n ? TGL_ERROR_SOURCE : TGL_ERROR_DEVICE;
		if (log.n) {
			diag_error(cx, NOWHERE, DIAG_FOREIGN_SOURCE, path);
			diag_note(cx, NOWHERE, "it says\n%s", log.at);
		} else {
			diag_error(cx, NOWHERE, DIAG_FOREIGN_COMPILER, d->error.text);
			if (*d->error.help)
				diag_help(cx, "%s", d->error.help);
		}
		d->error = (DeviceError){0};
	}
	text_close(&log);
	return s;
}

static TglStatus
compile_file(Foreign *f, Compile *cx, const char *path)
{
	Text text = {0};
	TglStatus s = TGL_ERROR_FILE;
	if (file_read(path, INT32_MAX, &text))
		s = compile_cuda(f, cx, path, text.at);
	else
		diag_error(cx, NOWHERE, DIAG_FOREIGN_FILE, path, strerror(errno));
	text_close(&text);
	return s;
}

static TglStatus
open_foreign(Foreign *f, TglCase *c, const ForeignOptions *o)
{
	Compile *cx = c->k->program->compile;
	Device *d = &f->dev->dev;
	if (!d->finish) {                               /* devices that take machine code have it */
		diag_error(cx, NOWHERE, DIAG_DEVICE_LACKS, "bench --vs", d->name, "handwritten kernels");
		return TGL_ERROR_DEVICE;
	}
	if (o->block < 1 || o->block > MAX_BLOCK) {
		diag_error(cx, NOWHERE, DIAG_FOREIGN_BLOCK, o->block);
		return TGL_ERROR_LAUNCH;
	}
	if (!find_blocks(f, c, o->grid))
		return TGL_ERROR_LAUNCH;
	TglStatus s = compile_file(f, cx, o->path);
	if (s != TGL_OK)
		return s;
	if (!has_kernel(cx, &f->artefact, o->path, o->name))
		return TGL_ERROR_NAME;
	f->artefact.kernel = strdup(o->name);
	f->artefact.threads = o->block;
	f->artefact.shared_bytes = o->shared;
	f->artefact.cluster = 1;
	snprintf(f->artefact.target, sizeof f->artefact.target, "%s", d->target);
	make_abi(&f->artefact, c->k->k, &c->b.bound);
	f->loaded = d->load_artefact(d, &f->artefact);
	return f->loaded ? TGL_OK : device_report(f->dev, cx, NULL, NULL);
}

Foreign *
foreign_open(TglCase *c, const ForeignOptions *o)
{
	TglContext *cx = c->dev->cx;
	context_begin(cx);
	Foreign *f = calloc(1, sizeof *f);
	if (!f)
		die("no memory");
	*f = (Foreign){.dev = c->dev, .k = c->k};
	if (context_end(cx, open_foreign(f, c, o), c->k->program->compile) != TGL_OK)
		foreign_close(&f);
	return f;
}

void
foreign_close(Foreign **at)
{
	Foreign *f = *at;
	if (!f)
		return;
	if (f->loaded)
		f->dev->dev.unload(&f->dev->dev, f->loaded);
	artefact_close(&f->artefact);
	free(f);
	*at = NULL;
}

/* ---- running ---- */

TglStatus
foreign_launch(Foreign *f, TglCase *c, double *seconds)
{
	Device *d = &f->dev->dev;
	Compile *cx = c->k->program->compile;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	const int64_t grid[MAX_AXES] = {f->blocks, 1, 1};
	const PlanArg *args = kernel_args(cx->tmp, c->k->k, &c->b.bound, c->b.tensor, c->b.info);
	bool ok = (!seconds || d->time_begin(d)) && fill_outputs(c->k, &c->b.bound, c->b.tensor) &&
		  d->launch(d, f->loaded, args, grid, &fault) &&
		  (!seconds || (d->time_end(d, seconds) && d->sync(d, &fault)));
	return ok ? TGL_OK : device_report(f->dev, cx, &fault, NULL);
}

TglStatus
foreign_run(Foreign *f, TglCase *c, double *seconds)
{
	Compile *cx = c->k->program->compile;
	context_begin(f->dev->cx);
	TglStatus s = case_restore(c) ? foreign_launch(f, c, seconds) : device_report(c->dev, cx, NULL, NULL);
	c->has_run = s == TGL_OK;
	return context_end(f->dev->cx, s, cx);
}

TglStatus
foreign_resources(Foreign *f, TglResources *out)
{
	Device *d = &f->dev->dev;
	Compile *cx = f->k->program->compile;
	context_begin(f->dev->cx);
	TglStatus s = d->resources(d, f->loaded, out) ? TGL_OK : device_report(f->dev, cx, NULL, NULL);
	return context_end(f->dev->cx, s, cx);
}
