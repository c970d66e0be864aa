/* Handwritten kernels beside ours: a file of CUDA C++, one of its kernels, launched on a case's
 * tensors.
 *
 * What the compiler for it makes becomes an artefact like our own, with an ABI that is read off the
 * tegula kernel's header; the device loads and launches it as it does ours. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

enum { MAX_BLOCK = 1024, MAX_SOURCE = 16 << 20 };

static bool
read_source(Compile *cx, const char *path, Text *out)
{
	char buffer[16384];
	FILE *f = fopen(path, "rb");
	errno = f ? 0 : errno;
	for (size_t n; f && out->n < MAX_SOURCE && (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
		text_putn(out, buffer, n);
	bool ok = f && !ferror(f) && out->n < MAX_SOURCE;
	if (!ok)
		diag_error(cx, NOWHERE, DIAG_FOREIGN_FILE, path, errno ? strerror(errno) : "it is too large");
	if (f)
		fclose(f);
	text_put(out, "");
	return ok;
}

/* ---- the grid ---- */

static bool
find_blocks(TglForeign *f, TglCase *c, const char *text)
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
	for (int i = 0; i < all->n; i++)
		if (strcmp(all->at[i], name) == 0)
			return true;
	return false;
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
compile_foreign(TglForeign *f, Compile *cx, const char *path)
{
	Device *d = &f->dev->dev;
	Text text = {0}, log = {0};
	TglStatus s = TGL_ERROR_FILE;
	if (read_source(cx, path, &text)) {
		s = d->foreign(d, path, text.at, &f->artefact, &log) ? TGL_OK : TGL_ERROR_DEVICE;
		if (s != TGL_OK && log.n) {
			diag_error(cx, NOWHERE, DIAG_FOREIGN_SOURCE, path);
			diag_note(cx, NOWHERE, "it says\n%s", log.at);
			s = TGL_ERROR_SOURCE;
		} else if (s != TGL_OK) {
			diag_error(cx, NOWHERE, DIAG_FOREIGN_COMPILER, d->error.text);
			if (*d->error.help)
				diag_help(cx, "%s", d->error.help);
		}
		d->error = s == TGL_OK ? d->error : (DeviceError){0};
	}
	text_close(&text);
	text_close(&log);
	return s;
}

static TglStatus
open_foreign(TglForeign *f, TglCase *c, const TglForeignOptions *o)
{
	Compile *cx = c->k->program->compile;
	Device *d = &f->dev->dev;
	if (!d->foreign) {
		diag_error(cx, NOWHERE, DIAG_DEVICE_LACKS, "tgl_foreign_open", d->name, "handwritten kernels");
		return TGL_ERROR_DEVICE;
	}
	if (o->block < 1 || o->block > MAX_BLOCK) {
		diag_error(cx, NOWHERE, DIAG_FOREIGN_BLOCK, o->block);
		return TGL_ERROR_LAUNCH;
	}
	if (!find_blocks(f, c, o->grid))
		return TGL_ERROR_LAUNCH;
	TglStatus s = compile_foreign(f, cx, o->path);
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

TglForeign *
tgl_foreign_open(TglCase *c, const TglForeignOptions *o)
{
	if (!c)
		return NULL;
	TglContext *cx = c->dev->cx;
	context_begin(cx);
	if (context_null(cx, o, "tgl_foreign_open", "options") ||
	    context_null(cx, o->path, "tgl_foreign_open", "the path") ||
	    context_null(cx, o->name, "tgl_foreign_open", "the name") ||
	    context_null(cx, o->grid, "tgl_foreign_open", "the grid"))
		return NULL;
	TglForeign *f = calloc(1, sizeof *f);
	if (!f)
		die("no memory");
	*f = (TglForeign){.dev = c->dev, .k = c->k};
	f->dev->refs++;
	f->k->program->refs++;
	if (context_end(cx, open_foreign(f, c, o), c->k->program->compile) != TGL_OK)
		tgl_foreign_close(&f);
	return f;
}

void
tgl_foreign_close(TglForeign **at)
{
	if (!at || !*at)
		return;
	TglForeign *f = *at;
	TglDevice *dev = f->dev;
	TglProgram *p = f->k->program;
	if (f->loaded)
		dev->dev.unload(&dev->dev, f->loaded);
	artefact_close(&f->artefact);
	free(f);
	program_unref(p);
	device_unref(dev);
	*at = NULL;
}

/* ---- running ---- */

TglStatus
foreign_launch(TglForeign *f, TglCase *c, double *seconds)
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

static TglStatus
run_foreign(TglForeign *f, TglCase *c, double *seconds)
{
	double ignored;
	Compile *cx = c->k->program->compile;
	if (c->k != f->k || c->dev != f->dev) {
		diag_error(cx, NOWHERE, DIAG_API_FOREIGN, "tgl_foreign_run", "the case");
		return TGL_ERROR_USAGE;
	}
	if (!case_restore(c))
		return device_report(c->dev, cx, NULL, NULL);
	TglStatus s = foreign_launch(f, c, seconds ? seconds : &ignored);
	c->has_run = s == TGL_OK;
	return s;
}

TglStatus
tgl_foreign_run(TglForeign *f, TglCase *c, double *seconds)
{
	if (!f || !c)
		return TGL_ERROR_USAGE;
	context_begin(f->dev->cx);
	return context_end(f->dev->cx, run_foreign(f, c, seconds), c->k->program->compile);
}

TglStatus
tgl_foreign_resources(TglForeign *f, TglResources *out)
{
	if (!f)
		return TGL_ERROR_USAGE;
	Device *d = &f->dev->dev;
	context_begin(f->dev->cx);
	if (context_null(f->dev->cx, out, "tgl_foreign_resources", "out"))
		return TGL_ERROR_USAGE;
	TglStatus s = d->resources(d, f->loaded, out) ? TGL_OK
						      : device_report(f->dev, f->dev->cx->own, NULL, NULL);
	return context_end(f->dev->cx, s, f->k->program->compile);
}
