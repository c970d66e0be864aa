/* A file and its imports as a Program: items by name, each kernel with its reference, examples and facts, and
 * whatever can be said of a header before any value is known (declare.c). */
#include "sema/elab.h"
#include "sema/header.h"

#include <stdlib.h>
#include <string.h>

typedef VEC(const Ast *) AstList;

static const char *
item_kind(const Item *it)
{
	switch (it->kind) {
	case ITEM_CONST: return "constant";
	case ITEM_FN: return "function";
	default: return "kernel";
	}
}

static bool
is_named(const Item *it)
{
	return it->kind == ITEM_CONST || it->kind == ITEM_FN || it->kind == ITEM_KERNEL;
}

/* Every item of a file and its imports once, depth first. */
static void
collect(Program *p, const Ast *ast, AstList *seen)
{
	for (int i = 0; i < seen->n; i++)
		if (seen->at[i] == ast)
			return;
	vec_push(p->cx->mem, seen, ast);
	for (int i = 0; i < ast->items.n; i++) {
		const Item *it = ast->items.at[i];
		if (it->kind == ITEM_IMPORT && it->imported)
			collect(p, it->imported, seen);
		else if (it->kind != ITEM_IMPORT && it->kind != ITEM_ERROR)
			vec_push(p->cx->mem, &p->items, it);
	}
}

static int
by_name(const void *a, const void *b)
{
	const Item *x = *(const Item *const *)a, *y = *(const Item *const *)b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->name_place.file != y->name_place.file)
		return x->name_place.file < y->name_place.file ? -1 : 1;
	return x->name_place.line != y->name_place.line ? (x->name_place.line < y->name_place.line ? -1 : 1)
							: x->name_place.col - y->name_place.col;
}

/* Of constants, functions and kernels there is one of a name. */
static void
report_twice(Program *p)
{
	const Item **all = NEW_ARRAY(p->cx->mem, const Item *, p->items.n);
	int n = 0;

	for (int i = 0; i < p->items.n; i++)
		if (is_named(p->items.at[i]))
			all[n++] = p->items.at[i];
	qsort(all, (size_t)n, sizeof *all, by_name);
	for (int i = 1; i < n; i++) {
		if (all[i]->name != all[i - 1]->name)
			continue;
		diag_error(p->cx, all[i]->name_place, DIAG_ITEM_TWICE, item_kind(all[i]), all[i]->name);
		diag_note(p->cx, all[i - 1]->name_place, "the %s '%s' is here", item_kind(all[i - 1]), all[i]->name);
	}
}

Kernel *
program_kernel(Program *p, const char *name)
{
	return VALUE_OF(i, p->kernels.n, strcmp(p->kernels.at[i]->name, name) == 0, p->kernels.at[i], NULL);
}

static bool
is_word(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The words in text .. end, of a pattern up to the line's end or '='. */
static void
add_words(Program *p, NameSet *set, const char *text, const char *end, bool pattern)
{
	while (text < end && !(pattern && (*text == '\n' || *text == '='))) {
		const char *from = text;
		while (text < end && is_word(*text))
			text++;
		if (text > from)
			vec_push(p->cx->mem, set, intern_n(p->cx->names, from, (size_t)(text - from)));
		else
			text++;
	}
}

/* What the text defines with this word: one name, or those of a pattern. */
static void
add_defined(Program *p, NameSet *set, const SourceFile *f, const char *word)
{
	size_t n = strlen(word);
	const char *end = f->text + f->size;

	for (const char *s = f->text; (s = strstr(s, word)) != NULL; s += n) {
		const char *at = s + n, *stop;
		if ((s > f->text && is_word(s[-1])) || is_word(*at))
			continue;
		while (*at == ' ' || *at == '\t')
			at++;
		for (stop = at; is_word(*stop);)
			stop++;
		add_words(p, set, at, *at == '(' ? end : stop, true);
	}
}

/* What stands in lines that did not parse. */
static void
add_broken_lines(Program *p, NameSet *set)
{
	const char *line;
	size_t size;
	int looked = 0;
	Place last = NOWHERE;

	for (const Diag *d = p->cx->first; d && looked < 100; d = d->next, looked++) {
		bool again = d->place.file == last.file && d->place.line == last.line;
		last = d->place;
		if (strncmp(diag_code(d->code), "E01", 3) != 0 || d->place.file < 0 || again)
			continue;
		if (source_line(&p->cx->files.at[d->place.file], d->place.line, &line, &size))
			add_words(p, set, line, line + size, false);
	}
}

static int
by_address(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return (x > y) - (x < y);
}

static bool
set_has(const NameSet *set, const char *name)
{
	return set->n && bsearch(&name, set->at, (size_t)set->n, sizeof *set->at, by_address);
}

/* The names of the items, and those that only the text has. */
static void
list_names(Program *p)
{
	static const char *const words[] = {"kernel", "fn", "const", "let", "var"};

	for (int i = 0; i < p->items.n; i++) {
		if (is_named(p->items.at[i]))
			vec_push(p->cx->mem, &p->known, p->items.at[i]->name);
		if (p->items.at[i]->kind == ITEM_CONST)
			vec_push(p->cx->mem, &p->consts, p->items.at[i]->name);
	}
	if (p->partial)
		add_broken_lines(p, &p->lost);
	for (int i = 0; p->partial && i < p->cx->files.n; i++)
		for (int j = 0; j < LEN(words); j++)
			add_defined(p, &p->lost, &p->cx->files.at[i], words[j]);
	NameSet *const sets[] = {&p->known, &p->consts, &p->lost};
	for (int i = 0; i < LEN(sets); i++)
		if (sets[i]->n)
			qsort(sets[i]->at, (size_t)sets[i]->n, sizeof *sets[i]->at, by_address);
}

bool
program_const(const Program *p, const char *name)
{
	return set_has(&p->consts, name);
}

/* The definition may be in a line that did not parse, or under a header that did not. */
bool
program_lost(const Program *p, const char *name)
{
	return !set_has(&p->known, name) && set_has(&p->lost, name);
}

/* The kernel that a reference, example or expect belongs to; NULL after an error. */
static Kernel *
owner(Program *p, const Item *it, const char *what)
{
	for (int i = 0; i < p->kernels.n; i++) {        /* most often the next one after the last result */
		int at = (p->near + i) % p->kernels.n;
		if (p->kernels.at[at]->name != it->name)
			continue;
		p->near = at;
		return p->kernels.at[at];
	}
	if (program_lost(p, it->name))
		return NULL;
	const char **names = MAP_OF(p->cx->mem, const char *, i, p->kernels.n, p->kernels.at[i]->name);
	diag_error(p->cx, it->name_place, DIAG_KERNEL_UNKNOWN, what, it->name);
	const char *near = nearest_name(it->name, names, p->kernels.n);
	if (near)
		diag_help(p->cx, "did you mean '%s'?", near);
	return NULL;
}

static void
add_reference(Program *p, const Item *it)
{
	Kernel *k = owner(p, it, "reference");

	if (k && k->reference) {
		diag_error(p->cx, it->name_place, DIAG_REFERENCE_TWICE, it->name);
		diag_note(p->cx, k->reference->name_place, "the first is here");
	} else if (k) {
		k->reference = it;
	}
}

static void
add_example(Program *p, const Item *it)
{
	Kernel *k = owner(p, it, "example");
	ExampleItem ex = {it, it->label ? it->label : "", it->is_bench};

	if (!k)
		return;
	for (int i = 0; i < k->examples.n; i++) {
		if (strcmp(k->examples.at[i].label, ex.label) != 0)
			continue;
		diag_error(p->cx, it->label ? it->label_place : it->name_place, DIAG_EXAMPLE_TWICE, it->name,
		    it->label ? " named " : " without a name", ex.label);
		diag_help(p->cx, "tell them apart: example %s \"wide\" { ... }", it->name);
		return;
	}
	vec_push(p->cx->mem, &k->examples, ex);
}

const ExampleItem *
kernel_first_example(const Kernel *k, bool is_bench)
{
	return VALUE_OF(i, k->examples.n, k->examples.at[i].is_bench == is_bench,
	    &k->examples.at[i], k->examples.n ? &k->examples.at[0] : NULL);
}

Program *
program_open(Compile *cx, int file)
{
	Program *p = NEW(cx->mem, Program);
	AstList seen = {0};

	p->cx = cx;
	p->ast = ast_parse(cx, file);
	ast_import(cx, p->ast);
	p->partial = cx->nerrors > 0;
	collect(p, p->ast, &seen);
	list_names(p);
	report_twice(p);
	p->names = names_of_items(p);
	for (int i = 0; i < p->items.n; i++)
		if (p->items.at[i]->kind == ITEM_KERNEL)
			vec_push(cx->mem, &p->kernels, kernel_declare(p, p->items.at[i]));
	for (int i = 0; i < p->items.n; i++) {
		const Item *it = p->items.at[i];
		if (it->kind == ITEM_REFERENCE)
			add_reference(p, it);
		else if (it->kind == ITEM_EXAMPLE)
			add_example(p, it);
		else if (it->kind == ITEM_EXPECT) {
			Kernel *k = owner(p, it, "expect");
			if (k)
				vec_push(cx->mem, &k->expects, it);
		}
	}
	return p;
}
