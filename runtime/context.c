/* The context: what the last call reported, options, and the count of objects that keep it.
 *
 * Reports are collected in a Compile (the program's, or the context's own for what concerns no
 * program), rendered once when a call fails, and then emptied, so that the texts the user holds do
 * not depend on objects that may be closed meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

const char *
tgl_version(void)
{
	return "0.1.0";
}

const char *
tgl_status_name(TglStatus s)
{
	const char *const names[] = {
	    "ok", "usage", "source", "name", "launch", "file", "memory", "fault", "device"};
	return (unsigned)s < (unsigned)LEN(names) ? names[s] : "?";
}

TglContext *
tgl_context_open(void)
{
	TglContext *cx = memory_new(1, sizeof *cx);
	cx->refs = 1;
	cx->limit = 20;
	cx->own = compile_open();
	context_begin(cx);
	return cx;
}

/* Its texts become copies, or are freed. */
static void
each_text(TglCompileOptions *o, bool copies)
{
	const char **const all[] = {&o->only, &o->skip, &o->stop_after, &o->dump, &o->ir, &o->trace};
	for (int i = 0; i < LEN(all); i++)
		if (!copies)
			free((char *)*all[i]);
		else if (*all[i])
			*all[i] = strdup(*all[i]);
}

void
context_unref(TglContext *cx)
{
	if (--cx->refs > 0)
		return;
	compile_close(cx->own);
	references_close(cx->references);
	cache_close(cx->cache);
	text_close(&cx->text);
	text_close(&cx->json);
	text_close(&cx->message);
	text_close(&cx->file);
	text_close(&cx->compiled_text);
	each_text(&cx->compile, false);
	free(cx);
}

void
tgl_context_close(TglContext **cx)
{
	if (!cx || !*cx)
		return;
	context_unref(*cx);
	*cx = NULL;
}

void
context_begin(TglContext *cx)
{
	cx->text.n = cx->json.n = cx->message.n = cx->file.n = 0;
	text_put(&cx->text, "");
	text_put(&cx->json, "[]");
	text_put(&cx->message, "");
	cx->code[0] = 0;
	cx->error = (TglError){.code = cx->code};
}

static void
set_pointers(TglContext *cx)
{
	cx->error.message = cx->message.at;
	cx->error.text = cx->text.at;
	cx->error.json = cx->json.at;
	if (cx->error.file)
		cx->error.file = cx->file.at;
}

/* The first error of the list, or the first report of any kind. */
static const Diag *
leading(const Compile *c)
{
	for (const Diag *d = c->first; d; d = d->next)
		if (d->severity == SEV_ERROR)
			return d;
	return c->first;
}

static void
capture(TglContext *cx, Compile *c)
{
	const Diag *d = leading(c);
	if (!d)
		return;
	cx->text.n = cx->json.n = cx->message.n = cx->file.n = 0;
	diag_print(c, &cx->text, cx->limit, cx->color);
	diag_json(c, &cx->json, cx->limit);
	text_put(&cx->message, d->text);
	snprintf(cx->code, sizeof cx->code, "%s", diag_code(d->code));
	if (d->place.file >= 0) {
		text_put(&cx->file, c->files.at[d->place.file].path);
		cx->error.file = cx->file.at;
		cx->error.line = d->place.line;
		cx->error.col = d->place.col;
	}
	for (d = c->first; d; d = d->next)
		cx->error.nwarnings += d->severity == SEV_WARNING;
	c->first = c->last = NULL;
	c->nerrors = 0;
}

/* The context's own reports are dropped with their memory. */
static void
empty_own(TglContext *cx)
{
	compile_close(cx->own);
	cx->own = compile_open();
}

/* The system refused memory, and nothing more is known. */
static void
report_memory(Compile *c)
{
	const Diag *d = leading(c);
	if (!d || d->severity != SEV_ERROR)
		diag_error(c, NOWHERE, DIAG_FAULT_MEMORY,
		    "the system has no memory left for this; use smaller sizes, or raise the limit of the process");
}

TglStatus
context_fail(TglContext *cx, TglStatus s, Compile *from)
{
	if (s == TGL_ERROR_MEMORY)
		report_memory(from && (from->first || !cx->own->first) ? from : cx->own);
	if (from && from->first)
		capture(cx, from);
	else if (cx->own->first) {
		capture(cx, cx->own);
		empty_own(cx);
	}
	cx->error.status = s;
	set_pointers(cx);
	return s;
}

void
context_done(TglContext *cx, Compile *from)
{
	if (from)
		capture(cx, from);
	set_pointers(cx);
}

TglStatus
context_end(TglContext *cx, TglStatus s, Compile *program)
{
	arena_reset(program->tmp);
	if (s != TGL_OK)
		return context_fail(cx, s, program);
	context_done(cx, program);
	return TGL_OK;
}

TglStatus
report_status(const Compile *cx, TglStatus otherwise)
{
	DiagCode code = cx->last ? cx->last->code : DIAG_COUNT;
	if (code == DIAG_TENSOR_MEMORY || code == DIAG_FAULT_MEMORY)
		return TGL_ERROR_MEMORY;
	return code == DIAG_DEVICE_FAILED ? TGL_ERROR_DEVICE : otherwise;
}

bool
context_null(TglContext *cx, const void *p, const char *f, const char *what)
{
	if (p)
		return false;
	diag_error(cx->own, NOWHERE, DIAG_API_NULL, f, what);
	context_fail(cx, TGL_ERROR_USAGE, NULL);
	return true;
}

bool
context_call(TglContext *cx, const char *f, const char *what, const void *p)
{
	context_begin(cx);
	return !context_null(cx, p, f, what);
}

static const TglError no_context = {
    .status = TGL_ERROR_USAGE,
    .code = "E1150",
    .message = "the context is NULL",
    .text = "error[E1150]: the context is NULL\n",
    .json = "[]",
};

const TglError *
tgl_error(TglContext *cx)
{
	if (!cx)
		return &no_context;
	set_pointers(cx);
	return &cx->error;
}

void
tgl_error_limit(TglContext *cx, int max)
{
	if (cx)
		cx->limit = MAX(max, 0);
}

void
tgl_error_color(TglContext *cx, bool on)
{
	if (cx)
		cx->color = on;
}

void
tgl_context_print(TglContext *cx, void (*print)(void *user, const char *line), void *user)
{
	if (!cx)
		return;
	cx->hooks.print = print;
	cx->hooks.print_user = user;
}

TglStatus
tgl_context_compile(TglContext *cx, const TglCompileOptions *options)
{
	if (!cx)
		return TGL_ERROR_USAGE;
	context_begin(cx);
	each_text(&cx->compile, false);
	cx->compile = options ? *options : (TglCompileOptions){0};
	TglCompileOptions *o = &cx->compile;
	each_text(o, true);
	TraceRequest request;
	if (!o->trace || trace_parse(cx->own->names, o->trace, &request))
		return TGL_OK;
	diag_error(cx->own, NOWHERE, DIAG_TRACE_TEXT, o->trace);
	return context_fail(cx, TGL_ERROR_USAGE, NULL);
}
