/* Values by name: what a bound kernel has, as text, and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tune/tune.h"

NamedConst *
bound_values(const Kernel *k, const Bound *b, const Binding *given, const ExampleItem *ex, Arena *mem, int extra, int *n)
{
	NamedConst *v = NEW_ARRAY(mem, NamedConst, b->nsymbol + b->nct + SCHEDULE_COUNT + extra);
	*n = 0;
	for (int i = 0; i < b->nsymbol; i++)
		v[(*n)++] = (NamedConst){b->symbol[i].name, b->symbol[i].value, NOWHERE};
	for (int i = 0; i < b->nct; i++)
		if (!given || tune_is_fixed(given, ex, b->ct[i].name))
			v[(*n)++] = (NamedConst){b->ct[i].name, b->ct[i].value, NOWHERE};
	for (int i = 0; i < SCHEDULE_COUNT; i++) {
		const char *name = schedule_info[i].text;
		Const c;
		if (!schedule_hidden(k, name) && (!given || tune_is_fixed(given, ex, name)) && bound_value(b, name, &c))
			v[(*n)++] = (NamedConst){intern(k->program->cx->names, name), c, NOWHERE};
	}
	return v;
}

/* ---- text ---- */

void
value_print(const char *name, const Const *v, Text *out)
{
	text_printf(out, "%s%s = ", out->n ? ", " : "", name);
	const_text(v, out);
}

void
values_print(const NamedConst *v, int n, Text *out)
{
	text_put(out, "");
	for (int i = 0; i < n; i++)
		value_print(v[i].name, &v[i].value, out);
}

static bool
parse_const(const char *s, Const *out)
{
	char *end;
	TglDType t;
	*out = (Const){.kind = CONST_INT};
	if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0) {
		*out = (Const){.kind = CONST_BOOL, .i = s[0] == 't'};
		return true;
	}
	if (tgl_dtype_named(s, &t)) {
		*out = (Const){.kind = CONST_DTYPE, .dtype = (DType)t};
		return true;
	}
	errno = 0;
	out->i = strtoll(s, &end, 10);
	if (end != s && !*end && !errno)
		return true;
	errno = 0;
	*out = (Const){.kind = CONST_BIG, .i = (int64_t)strtoull(s, &end, 10)};
	if (end != s && !*end && !errno && *s != '-')
		return true;
	*out = (Const){.kind = CONST_FLOAT, .f = number_read(s, &end)};
	return end != s && !*end;
}

bool
values_parse(Compile *cx, const char *text, Arena *mem, NamedConst **out, int *n)
{
	char *copy = arena_strdup(mem, text), *next;
	int room = 1;
	for (const char *s = text; *s; s++)
		room += *s == ',';
	*out = NEW_ARRAY(mem, NamedConst, room);
	*n = 0;
	if (!*text_trim(copy))
		return true;
	for (char *s = copy; s; s = next) {
		next = strchr(s, ',');
		if (next)
			*next++ = 0;
		char *eq = strchr(s, '=');
		if (!eq)
			return false;
		*eq = 0;
		NamedConst *v = &(*out)[(*n)++];
		*v = (NamedConst){.name = intern(cx->names, text_trim(s)), .place = NOWHERE};
		if (!*v->name || !parse_const(text_trim(eq + 1), &v->value))
			return false;
	}
	return true;
}

/* ---- binding ---- */

/* The first report as one line; a constraint that is broken by itself, so that equal reasons read alike. */
static void
take_report(const Compile *cx, Text *why)
{
	const Diag *d = cx->first;
	const char *line;
	size_t size;
	if (!d || !why)
		return;
	const Place *p = &d->place;
	bool where = d->code == DIAG_WHERE && p->line == p->end_line &&
		     source_line(&cx->files.at[p->file], p->line, &line, &size) && (size_t)p->end_col <= size + 1;
	if (where)
		text_printf(why, "where %.*s", p->end_col - p->col, line + p->col - 1);
	else
		text_put(why, d->text);
}

Reports
reports_hide(Compile *cx, Arena *mem)
{
	Reports r = {cx->first, cx->last, cx->nerrors, compile_into(cx, mem)};
	cx->first = cx->last = NULL;
	return r;
}

void
reports_restore(Compile *cx, const Reports *r)
{
	compile_into(cx, r->mem);
	cx->first = r->first;
	cx->last = r->last;
	cx->nerrors = r->nerrors;
}

bool
bind_quietly(TglKernel *k, const Binding *b, const NamedConst *given, int n, Arena *mem, Bound *out, Text *why)
{
	Compile *cx = k->program->compile;
	Reports before = reports_hide(cx, mem);
	ArgInfo *info = NEW_COPY(mem, b->info, k->k->params.n);
	for (int i = 0; i < k->k->params.n; i++) /* tensors still to be made have no shape yet */
		if (k->k->params.at[i].kind == PARAM_TENSOR)
			info[i].given = b->tensor[i] && k->k->params.at[i].access != ACCESS_SCRATCH;
	bool ok = kernel_bind(k->k, info, given, n, out);
	for (int i = 0; ok && i < k->k->params.n; i++)
		if (k->k->params.at[i].kind == PARAM_POINTER) /* its buffer is the arguments' to say */
			out->param[i] = b->bound.param[i];
	take_report(cx, why);
	reports_restore(cx, &before);
	return ok;
}
