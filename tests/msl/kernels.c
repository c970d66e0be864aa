/* Every kernel of a file or a folder through the Metal writer and onto the checker, at friendly and awkward sizes: those of
 * tests/sweep where a kernel has a file there, else its own examples.  Its examples for `bench` are too large to be run here:
 * whether there is a text for them is all that is asked.  The outcomes are the table that docs/metal.md keeps. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/msl/host.h"
#include "tests/msl/main.h"

typedef struct Row {
	char kernel[64], outcome[400];
	char refused[400];                              /* which example for bench has no text, and why */
	int right, cases;
	double ratio;
} Row;

typedef struct Kernels {
	const KernelsOptions *o;
	TglContext *cx;
	TglDevice *dev;
	Row *row;
	int n, room;
	Text text, json;                                /* the emitted ones of the case at hand */
	Text compiled;                                  /* what `program` was made of */
	MslProgram *program;
} Kernels;

/* ---- one case ---- */

static const char *
first_message(Compile *cx)
{
	for (const Diag *d = cx->first; d; d = d->next)
		if (d->severity == SEV_ERROR)
			return d->text;
	return "no message";
}

/* The text that the case's launch on a Mac would compile; false: refused, with the reason in `why`. */
static bool
emit(Kernels *k, TglCase *c, char *why, size_t room)
{
	Compile *cx = c->k->program->compile;
	ArgAssumptions assumptions;
	PassOptions passes = {0};
	Text times = {0};
	k->text.n = k->json.n = 0;
	specialise(c->k, &c->b, cx->tmp, &assumptions);
	Module *m = compile_kernel(c->k->k, &c->b.bound, k->o->target, &assumptions, &passes);
	bool ok = m && compile_metal(m, target_named(k->o->target), &c->b.bound, &k->text, &k->json, &times);
	text_close(&times);
	if (!ok)
		snprintf(why, room, "%s", first_message(cx));
	return ok;
}

/* Compiles the text, unless it is the last one again. */
static const MslProgram *
compiled(Kernels *k)
{
	if (k->program && k->compiled.n == k->text.n && memcmp(k->compiled.at, k->text.at, k->text.n) == 0)
		return k->program;
	char path[] = "/tmp/msl_kernel.XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	msl_close(k->program);
	k->program = NULL;
	if (!f)
		return NULL;
	fwrite(k->text.at, 1, k->text.n, f);
	fclose(f);
	k->program = msl_open(path);
	unlink(path);
	k->compiled.n = 0;
	text_putn(&k->compiled, k->text.at, k->text.n);
	return k->program;
}

static void
set_outcome(Row *r, const char *what, const char *why)
{
	if (!*r->outcome)
		snprintf(r->outcome, sizeof r->outcome, "%s%s%.300s", what, *why ? ": " : "", why);
}

static void
run_case(Kernels *k, Row *r, TglCase *c)
{
	char why[400];
	r->cases++;
	if (!emit(k, c, why, sizeof why)) {
		set_outcome(r, "refused", why);
		return;
	}
	const MslProgram *p = compiled(k);
	HostResult *h = calloc(1, sizeof *h);
	if (!p || p->error)
		set_outcome(r, "does not compile", p ? p->error : "no file");
	else if (host_run(p, k->json.at, c, h))
		r->right++;
	else if (*h->wrong)
		set_outcome(r, "wrong", h->wrong);
	else {
		snprintf(why, sizeof why, "line %d: %s: %.300s", h->reports.at[0].line, h->reports.at[0].kind,
		    h->reports.at[0].text);
		set_outcome(r, "reported", why);
	}
	r->ratio = MAX(r->ratio, h->ratio);
	if (*r->outcome && k->o->keep && p) {
		char path[256];
		snprintf(path, sizeof path, "%s/%s.metal", k->o->keep, r->kernel);
		FILE *f = fopen(path, "w");
		if (f) {
			fwrite(k->text.at, 1, k->text.n, f);
			fclose(f);
		}
	}
	free(h);
}

/* ---- one kernel ---- */

static bool
has_sweep(const Kernel *at)
{
	for (int i = 0; i < at->examples.n; i++)
		if (at->examples.at[i].label && strstr(at->examples.at[i].label, ", awkward"))
			return true;
	return false;
}

/* Of a sweep's "f32, friendly" and "f32, awkward" the first friendly and the last awkward one, of other
 * kernels all but those for `bench`. */
static bool
is_wanted(const Kernels *k, const Kernel *at, int i)
{
	const char *label = at->examples.at[i].label, *kind = label ? strstr(label, ", ") : NULL;
	if (at->examples.at[i].is_bench)
		return false;
	bool friendly = kind && strcmp(kind, ", friendly") == 0, awkward = kind && strcmp(kind, ", awkward") == 0;
	if (k->o->all)
		return true;
	if (!friendly && !awkward)
		return !has_sweep(at);
	for (int j = 0; j < at->examples.n; j++) {
		const char *other = at->examples.at[j].label, *same = other ? strstr(other, kind) : NULL;
		if (same && strcmp(same, kind) == 0 && (friendly ? j < i : j > i))
			return false;
	}
	return true;
}

/* The first example for bench that has no text. */
static void
emit_bench(const Kernels *k, Row *r, TglKernel *kernel)
{
	Compile *cx = kernel->program->compile;
	Kernel *at = kernel->k;
	for (int i = 0; i < at->examples.n && !*r->refused; i++) {
		const ExampleItem *ex = &at->examples.at[i];
		PassOptions passes = {0};
		Text text = {0}, json = {0};
		Bound b;
		if (!ex->is_bench)
			continue;
		ArgInfo *args = NEW_ARRAY(cx->mem, ArgInfo, at->params.n);
		bool ok = example_bind(at, ex, NULL, 0, args, &b);
		ArgAssumptions assumptions = assumptions_of_dims(cx->mem, &b);
		Module *m = ok ? compile_kernel(at, &b, k->o->target, &assumptions, &passes) : NULL;
		if (!m || !compile_metal(m, target_named(k->o->target), &b, &text, &json, NULL))
			snprintf(r->refused, sizeof r->refused, "; \"%s\" is refused: %.300s", ex->label ? ex->label : "",
			    first_message(cx));
		text_close(&text);
		text_close(&json);
	}
}

static Row *
new_row(Kernels *k)
{
	if (k->n == k->room) {
		k->room = MAX(16, 2 * k->room);
		k->row = realloc(k->row, (size_t)k->room * sizeof *k->row);
	}
	k->row[k->n] = (Row){0};
	return &k->row[k->n++];
}

static void
run_kernel(Kernels *k, TglKernel *kernel)
{
	Row *r = new_row(k);
	const Kernel *at = kernel->k;
	snprintf(r->kernel, sizeof r->kernel, "%s", at->name);
	for (int i = 0; i < at->examples.n; i++) {
		if (!is_wanted(k, at, i))
			continue;
		TglCaseOptions o = {.index = i, .by_index = true, .untuned = true};
		TglCase *c = tgl_case_open(k->dev, kernel, &o);
		if (!c) {
			set_outcome(r, "no case", tgl_error(k->cx)->text);
			continue;
		}
		run_case(k, r, c);
		tgl_case_close(&c);
	}
	if (!*r->outcome)
		set_outcome(r, r->cases ? "right" : "no example", "");
}

/* ---- a file, a folder ---- */

static int
is_source(const struct dirent *d)
{
	size_t n = strlen(d->d_name);
	return n > 4 && strcmp(d->d_name + n - 4, ".tgl") == 0;
}

/* Of the kernel's own file, which has the examples for bench. */
static void
finish_kernel(Kernels *k, const char *file)
{
	Row *r = &k->row[k->n - 1];
	TglProgram *p = tgl_program_file(k->cx, file);
	TglKernel *own = p ? tgl_kernel(p, r->kernel) : NULL;
	if (own)
		emit_bench(k, r, own);
	tgl_program_close(&p);
	printf("%-24s %2d of %2d  %8.3g  %s%s\n", r->kernel, r->right, r->cases, r->ratio, r->outcome, r->refused);
	fflush(stdout);
}

/* The kernels of the file `own`, with the examples of tests/sweep's file of that name if there is one. */
static void
run_file(Kernels *k, const char *own)
{
	char sweep[512];
	const char *slash = strrchr(own, '/');
	snprintf(sweep, sizeof sweep, "tests/sweep/%s", slash ? slash + 1 : own);
	TglProgram *p = tgl_program_file(k->cx, access(sweep, R_OK) == 0 ? sweep : own);
	TglKernel *kernel;
	if (!p)
		printf("%s", tgl_error(k->cx)->text);
	for (int i = 0; p && (kernel = tgl_program_kernel(p, i)); i++)
		if (!k->o->only || strcmp(kernel->k->name, k->o->only) == 0) {
			run_kernel(k, kernel);
			finish_kernel(k, own);
		}
	tgl_program_close(&p);
}

static void
run_folder(Kernels *k)
{
	const KernelsOptions *o = k->o;
	struct dirent **file;
	int n = scandir(o->path, &file, is_source, alphasort);
	for (int i = 0; i < n; i++) {
		char own[512];
		snprintf(own, sizeof own, "%s/%s", o->path, file[i]->d_name);
		if (o->parts <= 1 || i % o->parts == o->part)
			run_file(k, own);
		free(file[i]);
	}
	if (n >= 0)
		free(file);
}

/* ---- the table ---- */

static void
put_row(const Row *r, Text *out)
{
	text_printf(out, "| `%s` | ", r->kernel);
	for (const char *s = r->outcome; *s && *s != '\n'; s++)
		text_printf(out, *s == '|' ? "\\%c" : "%c", *s);
	for (const char *s = r->refused; *s && *s != '\n'; s++)
		text_printf(out, *s == '|' ? "\\%c" : "%c", *s);
	text_put(out, " |\n");
}

static const char begin_mark[] = "<!-- kernels: made by msl_check --kernels dsl_examples --table docs/metal.md --write -->\n";
static const char end_mark[] = "<!-- end -->\n";

static bool
write_table(const Kernels *k, const char *doc)
{
	const char *begin = strstr(doc, begin_mark), *end = begin ? strstr(begin, end_mark) : NULL;
	Text whole = {0};
	if (!end) {
		printf("%s has no marks for the table\n", k->o->document);
		return false;
	}
	text_putn(&whole, doc, (size_t)(begin - doc) + strlen(begin_mark));
	text_put(&whole, "| kernel | outcome |\n| --- | --- |\n");
	for (int i = 0; i < k->n; i++)
		put_row(&k->row[i], &whole);
	text_put(&whole, end);
	FILE *f = fopen(k->o->document, "w");
	bool ok = f && fwrite(whole.at, 1, whole.n, f) == whole.n;
	if (f)
		ok &= fclose(f) == 0;
	text_close(&whole);
	return ok;
}

/* Whether the document has each kernel's outcome. */
static bool
has_rows(const Kernels *k, const char *doc)
{
	bool ok = true;
	for (int i = 0; i < k->n; i++) {
		Text row = {0};
		put_row(&k->row[i], &row);
		if (!strstr(doc, row.at)) {
			printf("%s lacks: %s", k->o->document, row.at);
			ok = false;
		}
		text_close(&row);
	}
	return ok;
}

static bool
compare_table(const Kernels *k)
{
	char *doc = msl_read_file(k->o->document);
	bool ok = doc && (k->o->write ? write_table(k, doc) : has_rows(k, doc));
	free(doc);
	return ok;
}

int
msl_kernels(const KernelsOptions *o)
{
	Kernels *k = calloc(1, sizeof *k);
	struct stat st;
	int right = 0;
	k->o = o;
	k->cx = tgl_context_open();
	k->dev = tgl_device_open(k->cx, "cpu", NULL);
	if (stat(o->path, &st) == 0 && S_ISDIR(st.st_mode))
		run_folder(k);
	else
		run_file(k, o->path);
	for (int i = 0; i < k->n; i++)
		right += strcmp(k->row[i].outcome, "right") == 0;
	if (k->n)
		printf("%d of %d kernels right on %s\n", right, k->n, o->target);
	else
		printf("%s: no kernel to run\n", o->path);
	bool same = k->n > 0 && (!o->document || compare_table(k));
	bool ok = same && (o->document || right == k->n);
	msl_close(k->program);
	text_close(&k->text);
	text_close(&k->json);
	text_close(&k->compiled);
	tgl_device_close(&k->dev);
	tgl_context_close(&k->cx);
	free(k->row);
	free(k);
	return !ok;
}
