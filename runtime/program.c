/* Programs and kernels as the user sees them: what a file holds, with the names and types that a
 * caller needs to make arguments. */
#include <stdlib.h>
#include <string.h>

#include "runtime/launch/launch.h"

void
program_unref(TglProgram *p)
{
	if (--p->refs > 0)
		return;
	TglContext *cx = p->cx;
	for (int i = 0; i < p->nkernels; i++) {
		launch_cache_drop(&p->kernel[i], NULL);
		instance_close_all(&p->kernel[i]);
	}
	free(p->kernel);
	compile_close(p->compile);
	free(p);
	context_unref(cx);
}

void
tgl_program_close(TglProgram **p)
{
	if (!p || !*p)
		return;
	program_unref(*p);
	*p = NULL;
}

Arena *
compile_into(Compile *cx, Arena *mem)
{
	Arena *before = cx->mem;
	cx->mem = mem;
	return before;
}

/* `T`, `*mut f32`, `in strided f16[N, cdiv(K, 128)]`: as fmt writes it. */
static const char *
param_type_text(Compile *cx, const KernelParam *p)
{
	Text s = {0};
	type_expr_print(p->ast->type, &s);
	return text_take(&s, cx->mem);
}

static void
collect_kernels(TglProgram *p)
{
	p->nkernels = p->program->kernels.n;
	p->kernel = memory_new((size_t)p->nkernels, sizeof *p->kernel);
	for (int i = 0; i < p->nkernels; i++) {
		Kernel *k = p->program->kernels.at[i];
		TglKernel *t = &p->kernel[i];
		t->program = p;
		t->k = k;
		t->param_text = NEW_ARRAY(p->compile->mem, const char *, k->params.n);
		t->in_header = NEW_ARRAY(p->compile->mem, bool, k->params.n);
		for (int j = 0; j < k->params.n; j++) {
			t->param_text[j] = param_type_text(p->compile, &k->params.at[j]);
			t->in_header[j] = header_mentions(k, k->params.at[j].name);
		}
	}
}

/* Takes `compile`, in which `file` was opened (or not: -1). */
static TglProgram *
open_take(TglContext *cx, Compile *compile, int file)
{
	Program *program = file >= 0 ? program_open(compile, file) : NULL;
	if (program)
		program_check(program);
	if (!program || compile->nerrors > 0) {
		context_fail(cx, TGL_ERROR_SOURCE, compile);
		compile_close(compile);
		return NULL;
	}
	TglProgram *p = memory_new(1, sizeof *p);
	p->program = program;
	p->compile = compile;
	collect_kernels(p);
	p->cx = cx;
	p->refs = 1;
	cx->refs++;
	context_done(cx, compile);
	return p;
}

TglProgram *
tgl_program_file(TglContext *cx, const char *path)
{
	if (!cx || !context_call(cx, "tgl_program_file", "path", path))
		return NULL;
	Compile *compile = compile_open();
	return open_take(cx, compile, source_open(compile, path, NOWHERE));
}

TglProgram *
tgl_program_text(TglContext *cx, const char *name, const char *text, size_t size)
{
	if (!cx || !context_call(cx, "tgl_program_text", "text", text))
		return NULL;
	Compile *compile = compile_open();
	return open_take(cx, compile, source_text(compile, name ? name : "<text>", text, size));
}

const char *
tgl_program_hash(TglProgram *p)
{
	char hex[2 * HASH_BYTES + 1] = "";
	Text all = {0};
	for (int i = 0; p && i < p->compile->files.n; i++) {
		const SourceFile *f = &p->compile->files.at[i];
		uint64_t size = f->size;
		text_putn(&all, (const char *)&size, sizeof size);
		text_putn(&all, f->text, f->size);
	}
	Hash h = hash_bytes(all.at ? all.at : "", all.n);
	text_close(&all);
	hash_text(&h, HASH_BYTES, hex);
	return p ? arena_strdup(p->compile->mem, hex) : "";
}

int
tgl_program_kernels(TglProgram *p)
{
	return p ? p->nkernels : 0;
}

TglKernel *
tgl_program_kernel(TglProgram *p, int i)
{
	return p && i >= 0 && i < p->nkernels ? &p->kernel[i] : NULL;
}

static void
report_no_kernel(TglProgram *p, const char *name)
{
	Compile *cx = p->compile;
	const char **names = MAP_OF(cx->tmp, const char *, i, p->nkernels, p->kernel[i].k->name);
	diag_error(cx, NOWHERE, DIAG_NO_KERNEL, cx->files.at[p->program->ast->file].path, name);
	diag_help(cx, "%s", name_advice(cx->mem, name, names, p->nkernels));
}

TglKernel *
tgl_kernel(TglProgram *p, const char *name)
{
	if (!p || !context_call(p->cx, "tgl_kernel", "name", name))
		return NULL;
	for (int i = 0; i < p->nkernels; i++)
		if (strcmp(p->kernel[i].k->name, name) == 0)
			return &p->kernel[i];
	report_no_kernel(p, name);
	context_fail(p->cx, TGL_ERROR_NAME, p->compile);
	return NULL;
}

const char *
tgl_kernel_name(TglKernel *k)
{
	return k ? k->k->name : "";
}

const char *
tgl_kernel_file(TglKernel *k)
{
	return k ? k->program->compile->files.at[k->k->item->place.file].path : "";
}

int
tgl_kernel_line(TglKernel *k)
{
	return k ? k->k->item->place.line : 0;
}

TglProgram *
tgl_kernel_program(TglKernel *k)
{
	return k ? k->program : NULL;
}

int
tgl_kernel_params(TglKernel *k)
{
	return k ? k->k->params.n : 0;
}

bool
tgl_kernel_param(TglKernel *k, int i, TglParam *out)
{
	if (!k || !out || i < 0 || i >= k->k->params.n)
		return false;
	const KernelParam *p = &k->k->params.at[i];
	*out = (TglParam){
	    .name = p->name,
	    .kind = p->kind == PARAM_TENSOR    ? TGL_PARAM_TENSOR
		    : p->kind == PARAM_POINTER ? TGL_PARAM_POINTER
					       : TGL_PARAM_SCALAR,
	    .access = p->kind == PARAM_POINTER ? p->ptr == PTR_MUT ? TGL_INOUT : TGL_IN
					       : (TglAccess)p->access,
	    .dtype = p->dtype_known ? (int)p->dtype : TGL_DTYPE_UNKNOWN,
	    .rank = p->rank,
	    .strided = p->strided,
	    .has_fill = p->has_fill,
	    .in_header = p->kind == PARAM_SCALAR && k->in_header[i],
	    .text = k->param_text[i],
	};
	return true;
}

int
tgl_kernel_param_named(TglKernel *k, const char *name)
{
	return k && name ? param_of_kernel(k->k, name) : -1;
}

bool
tgl_kernel_has_reference(TglKernel *k)
{
	return k && k->k->reference;
}

static bool
has_merge(const StmtList *list)
{
	return ANY_OF(i, list->n,
	    list->at[i]->part.name || has_merge(&list->at[i]->body) ||
		has_merge(&list->at[i]->orelse));
}

bool
tgl_kernel_merges(TglKernel *k)
{
	bool found = k && has_merge(&k->k->item->body);
	for (int i = 0; k && !found && i < k->program->program->items.n; i++) {
		const Item *it = k->program->program->items.at[i];
		found = it->kind == ITEM_FN && has_merge(&it->body);
	}
	return found;
}

const char *
tgl_kernel_symbol(TglKernel *k, int i)
{
	return k && i >= 0 && i < k->k->symbols.n ? k->k->symbols.at[i] : NULL;
}

const char *
tgl_kernel_constant(TglKernel *k, int i)
{
	return k && i >= 0 && i < k->k->item->ctparams.n ? k->k->item->ctparams.at[i].name : NULL;
}

bool
tgl_kernel_example(TglKernel *k, int i, TglExample *out)
{
	if (!k || !out || i < 0 || i >= k->k->examples.n)
		return false;
	const ExampleItem *e = &k->k->examples.at[i];
	*out = (TglExample){e->label ? e->label : "", e->is_bench, k->program->compile->files.at[e->item->place.file].path};
	return true;
}
