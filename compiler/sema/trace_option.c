/* --trace NAME@LINE: where the walk gives that name a value on that line of the kernel's file, by let, var, an
 * assignment, a parameter, a counter or a grid index, a print op with {trace} goes in right behind.  All values on the
 * way are listed, so that the error for an unknown name or line can offer those that exist. */
#include "sema/elab.h"

#include <stdlib.h>
#include <string.h>

typedef struct Named {
	const char *name;
	int line;
} Named;

struct Traced {
	VEC(Named) all;
	int found;
};

static const char *
read_number(const char *s, int64_t *out)
{
	char *end;
	if (*s < '0' || *s > '9')
		return NULL;
	*out = strtoll(s, &end, 10);
	return end;
}

/* ",program=(1, 2)" or ",program=1"; what follows, NULL: something else. */
static const char *
parse_program(const char *s, TraceRequest *out)
{
	bool several = *s == '(';
	s += several;
	do {
		s += out->naxis > 0;
		s += strspn(s, " ");
		if (out->naxis == MAX_AXES || !(s = read_number(s, &out->program[out->naxis])))
			return NULL;
		out->naxis++;
		s += strspn(s, " ");
	} while (several && *s == ',');
	return !several ? s : *s == ')' ? s + 1 : NULL;
}

/* What follows a word, if it stands there. */
static const char *
after(const char *s, const char *word)
{
	return strncmp(s, word, strlen(word)) == 0 ? s + strlen(word) : NULL;
}

bool
trace_parse(Intern *names, const char *text, TraceRequest *out)
{
	const char *at = strchr(text, '@');
	int64_t line;
	*out = (TraceRequest){.writer = -1};
	if (!at || at == text)
		return false;
	const char *rest = read_number(at + 1, &line);
	if (!rest || line < 1 || line > INT32_MAX)
		return false;
	out->line = (int)line;
	out->name = intern_n(names, text, (size_t)(at - text));
	if (after(rest, ",program="))
		rest = parse_program(after(rest, ",program="), out);
	if (rest && after(rest, ",shared="))
		rest = read_number(after(rest, ",shared="), &out->writer);
	return rest && !*rest;
}

static bool
is_tree_of_tiles(const Val *v)
{
	if (v->kind == VAL_TUPLE) {
		return ALL_OF(i, v->n, is_tree_of_tiles(&v->items[i])) && v->n > 0;
	}
	return v->kind == VAL_TILE || val_is_const(v);
}

/* A function that folds a dimension must have no effects. */
static bool
folds(const Block *b)
{
	for (; b->parent; b = b->parent->home)
		if (op_has_fn(b->parent))
			return true;
	return false;
}

static void
print_tiles(Elab *e, const Val *v, const char *text, Place at)
{
	const TraceRequest *request = e->cx->trace;
	Attr attr[4] = {attr_new_text(e->m, text), attr_new_trace(e->m, true)};
	int n = 2;
	Place before = e->b.place;
	for (int i = 0; v->kind == VAL_TUPLE && i < v->n; i++)
		print_tiles(e, &v->items[i], arena_printf(e->cx->mem, "%s[%d]", text, i), at);
	Value *x = v->kind == VAL_TUPLE ? NULL : val_ir(e, v);
	if (!x)
		return;
	if (request->naxis)
		attr[n++] = attr_new_program(e->m, request->program, request->naxis);
	if (request->writer >= 0)
		attr[n++] = attr_new_writer(e->m, request->writer);
	e->b.place = at;
	op_make(&e->b, OP_PRINT, &x, 1, attr, n, NULL, 0);
	e->b.place = before;
}

void
trace_value(Elab *e, const char *name, Place at, const Val *v)
{
	const TraceRequest *request = e->cx->trace;
	const NameObserver *observer = e->cx->observer;
	if (observer && name[0] != ' ')
		observer->value(observer->user, name, at, val_describe(e, v));
	if (!request || e->whole || !e->func || name[0] == ' ' || at.file != e->kernel->item->place.file ||
	    !is_tree_of_tiles(v) || folds(e->b.block))
		return;
	if (!e->traced)
		e->traced = NEW(e->cx->mem, Traced);
	vec_push(e->cx->mem, &e->traced->all, ((Named){name, at.line}));
	if (name != request->name || at.line != request->line)
		return;
	e->traced->found++;
	print_tiles(e, v, arena_printf(e->cx->mem, "%s@%d", name, at.line), at);
}

/* The line's names, or the name's lines, or all names: each once. */
static void
list_near(Elab *e, bool by_line, bool by_name, Text *out)
{
	const TraceRequest *request = e->cx->trace;
	for (int i = 0; e->traced && i < e->traced->all.n; i++) {
		const Named *n = &e->traced->all.at[i];
		bool is_new = !(by_line && n->line != request->line) &&
			      !(by_name && n->name != request->name) &&
			      ALL_OF(k, i,
				  e->traced->all.at[k].name != n->name ||
				      e->traced->all.at[k].line != n->line);
		if (is_new)
			text_printf(out, "%s%s@%d", out->n ? ", " : "", n->name, n->line);
	}
}

/* The kernel whose text a line of the file lies in; NULL: none's. */
static const Item *
kernel_of_line(const Elab *e, int line)
{
	const Item *found = NULL;
	for (int i = 0; i < e->program->items.n; i++) {
		const Item *it = e->program->items.at[i];
		if (it->place.file == e->kernel->item->place.file && it->place.line <= line &&
		    (!found || it->place.line >= found->place.line))
			found = it;
	}
	return found && found->kind == ITEM_KERNEL ? found : NULL;
}

void
trace_end(Elab *e)
{
	const TraceRequest *request = e->cx->trace;
	Text line = {0}, name = {0}, all = {0};
	if (!request || e->cx->nerrors || (e->traced && e->traced->found))
		return;
	const Item *other = kernel_of_line(e, request->line);
	if (other && other->name != e->kernel->name) {
		diag_warning(e->cx, e->kernel->item->name_place, DIAG_TRACE_ELSEWHERE, request->line, other->name,
		    e->kernel->name);
		return;
	}
	list_near(e, true, false, &line);
	list_near(e, false, true, &name);
	list_near(e, false, false, &all);
	diag_error(e->cx, e->kernel->item->name_place, DIAG_TRACE_NONE, e->kernel->name, request->name, request->line);
	if (name.n)
		diag_help(e->cx, "the name gets values at %s", name.at);
	else if (line.n)
		diag_help(e->cx, "names of that line: %s", line.at);
	else if (all.n)
		diag_help(e->cx, "there are %s", all.at);
	text_close(&line);
	text_close(&name);
	text_close(&all);
}
