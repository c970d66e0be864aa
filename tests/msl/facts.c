/* Launches described by comments of the .metal file, for files that were written by hand:
 *
 *     // check: KERNEL groups 4 1 threads 128 shared 1024       begins one; the rest are of it
 *     // buffer 0 f32 512 = i % 7                               contents by a formula of the index i; `unset`: none
 *     // value 1 u32 = 500                                      passed by value
 *     // expect 0 = 2 * (i % 7) within 0.001                    what is there at the end
 *     // layout: apple                                           the file takes Apple's layout of fragments for granted
 *     ...;                                    // ! race         what has to be reported of this line, and nothing else
 *
 * Each launch runs twice: the second time with groups and threads in another order, and the elements of matrices in other
 * lanes.  What comes out must be the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/msl/formula.h"
#include "tests/msl/msl.h"
#include "tests/msl/main.h"

enum { MAX_LAUNCHES = 8, MAX_EXPECTS = 64 };

typedef struct Slot {
	bool used, unset, by_value;
	char dtype[8], fill[160], expect[160];
	int n;
	double within;
} Slot;

typedef struct Launch {
	char kernel[128];
	int groups[3], threads[3], shared, line;
	Slot slot[MSL_BUFFERS];
} Launch;

typedef struct Facts {
	Launch launch[MAX_LAUNCHES];
	int n;
	MslReport want[MAX_EXPECTS];
	int nwant;
	int elements_line;                              /* that names thread_elements first */
	bool apple, bad;
} Facts;

/* ---- elements ---- */

int
msl_dtype_bytes(const char *t)
{
	static const struct { const char *name; int bytes; } row[] = {{"f32", 4}, {"f16", 2}, {"bf16", 2},
	    {"i32", 4}, {"u32", 4},
		{"i64", 8}, {"u64", 8}, {"i16", 2}, {"u16", 2}, {"i8", 1}, {"u8", 1}, {"bool", 1}, {"f8e4m3",
		    1}, {"f8e5m2", 1},
		{"f64", 8}, {"i4", 1}, {"u4", 1}, {"f4e2m1", 1}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (strcmp(row[i].name, t) == 0)
			return row[i].bytes;
	return 0;
}

void
msl_put(const char *t, void *to, double v)
{
	int64_t i = (int64_t)v;
	float f = (float)v;
	uint32_t u;
	if (strcmp(t, "f32") == 0)
		memcpy(to, &f, 4);
	else if (strcmp(t, "f64") == 0)
		memcpy(to, &v, 8);
	else if (strcmp(t, "f16") == 0)
		memcpy(to, &(uint16_t){__gnu_f2h_ieee(f)}, 2);
	else if (strcmp(t, "bf16") == 0) {
		memcpy(&u, &f, 4);
		u = (u + 0x7fff + (u >> 16 & 1)) >> 16;
		memcpy(to, &u, 2);
	} else
		memcpy(to, &i, (size_t)msl_dtype_bytes(t));
}

double
msl_get(const char *t, const void *from)
{
	int64_t i = 0;
	float f;
	uint16_t h;
	int bytes = msl_dtype_bytes(t);
	if (strcmp(t, "f32") == 0)
		return memcpy(&f, from, 4), f;
	if (strcmp(t, "f16") == 0)
		return memcpy(&h, from, 2), (double)__gnu_h2f_ieee(h);
	memcpy(&i, from, (size_t)bytes);
	if (strcmp(t, "bf16") == 0) {
		uint32_t u = (uint32_t)i << 16;
		return memcpy(&f, &u, 4), f;
	}
	if (*t == 'i' && bytes < 8)
		i = (int64_t)((uint64_t)i << (64 - 8 * bytes)) >> (64 - 8 * bytes);
	return (double)i;
}

/* ---- reading comments ---- */

static void
read_launch(Launch *l, const char *s)
{
	char word[32];
	int n, at = 0, *to = NULL, room = 0;
	for (int i = 0; i < 3; i++)
		l->groups[i] = l->threads[i] = 1;
	sscanf(s, "%127s%n", l->kernel, &at);
	for (s += at; sscanf(s, "%31s%n", word, &at) == 1; s += at) {
		if (strcmp(word, "groups") == 0)
			to = l->groups, room = 3;
		else if (strcmp(word, "threads") == 0)
			to = l->threads, room = 3;
		else if (strcmp(word, "shared") == 0)
			to = &l->shared, room = 1;
		else if (room && sscanf(word, "%d", &n) == 1)
			*to++ = n, room--;
	}
}

static void
read_slot(Facts *f, Launch *l, const char *s, bool by_value)
{
	int i, at = 0;
	char dtype[8];
	if (sscanf(s, "%d %7s%n", &i, dtype, &at) != 2 || i < 0 || i >= MSL_BUFFERS || !msl_dtype_bytes(dtype)) {
		f->bad = true;
		return;
	}
	Slot *to = &l->slot[i];
	to->used = true;
	to->by_value = by_value;
	to->n = 1;
	strcpy(to->dtype, dtype);
	if (!by_value)
		to->n = (int)strtol(s + at, NULL, 10);
	const char *formula = strchr(s + at, '=');
	to->unset = !formula;
	if (formula)
		snprintf(to->fill, sizeof to->fill, "%s", formula + 1);
}

static void
read_expect(Launch *l, const char *s)
{
	int i = atoi(s);
	char *within;
	const char *formula = strchr(s, '=');
	if (i < 0 || i >= MSL_BUFFERS || !formula)
		return;
	Slot *to = &l->slot[i];
	snprintf(to->expect, sizeof to->expect, "%s", formula + 1);
	within = strstr(to->expect, " within ");
	to->within = within ? atof(within + 8) : 0;
	if (within)
		*within = 0;
}

static const char *
after(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);
	return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

static bool
read_facts(const char *path, Facts *out)
{
	FILE *f = fopen(path, "r");
	char row[1024];
	if (!f)
		return false;
	for (int line = 1; fgets(row, sizeof row, f); line++) {
		char *mark = strstr(row, "// ! ");
		const char *s;
		row[strcspn(row, "\n")] = 0;
		Launch *l = out->n ? &out->launch[out->n - 1] : NULL;
		if (!out->elements_line && strstr(row, "thread_elements"))
			out->elements_line = line;
		for (char *word = mark ? strtok(mark + 5, " ") : NULL; word &&
		    out->nwant < MAX_EXPECTS; word = strtok(NULL, " ")) {
			out->want[out->nwant].line = line;
			strncpy(out->want[out->nwant++].text, word, sizeof out->want->text - 1);
		}
		out->apple |= after(row, "// layout: apple") != NULL;
		if ((s = after(row, "// check: ")) && out->n < MAX_LAUNCHES) {
			out->launch[out->n].line = line;
			read_launch(&out->launch[out->n++], s);
		} else if (l && (s = after(row, "// buffer ")))
			read_slot(out, l, s, false);
		else if (l && (s = after(row, "// value ")))
			read_slot(out, l, s, true);
		else if (l && (s = after(row, "// expect ")))
			read_expect(l, s);
	}
	fclose(f);
	return true;
}

/* ---- running ---- */

static bool
index_name(void *user, const char *name, size_t n, double *value)
{
	*value = *(const int *)user;
	return n == 1 && *name == 'i';
}

static double
formula_at(Facts *f, const char *text, int i)
{
	double v = 0;
	if (!formula_value(&(Formula){index_name, &i, false}, text, &v)) {
		if (!f->bad)
			printf("not a formula: %s\n", text);
		f->bad = true;
	}
	return v;
}

static void
fill(Facts *f, const Launch *l, MslLaunch *to)
{
	for (int i = 0; i < MSL_BUFFERS; i++) {
		const Slot *s = &l->slot[i];
		if (!s->used)
			continue;
		int bytes = msl_dtype_bytes(s->dtype);
		MslBuffer *b = &to->buffer[i];
		*b = (MslBuffer){msl_guarded((size_t)(bytes * s->n)), (size_t)(bytes * s->n), bytes, s->unset, s->by_value};
		for (int j = 0; j < s->n; j++)
			msl_put(s->dtype, (char *)b->at + bytes * j, s->unset ? -77 : formula_at(f, s->fill, j));
	}
}

static void
compare(Facts *f, const Launch *l, const MslLaunch *run, MslReports *out)
{
	for (int i = 0; i < MSL_BUFFERS; i++) {
		const Slot *s = &l->slot[i];
		for (int j = 0; s->used && *s->expect && j < s->n; j++) {
			double got = msl_get(s->dtype, (char *)run->buffer[i].at + msl_dtype_bytes(s->dtype) * j);
			double want = formula_at(f, s->expect, j), d = got - want;
			if ((d <= s->within && -d <= s->within) || f->bad)
				continue;
			msl_report(out, "result", l->line, "element %d of buffer %d is %g, not %g", j, i, got, want);
			break;
		}
	}
}

static void
compare_layouts(Facts *f, const MslProgram *p, const Launch *l, const MslLaunch *a, const MslLaunch *b, MslReports *out)
{
	for (int i = 0; i < MSL_BUFFERS; i++)
		if (l->slot[i].used && !p->has_atomics && memcmp(a->buffer[i].at, b->buffer[i].at, a->buffer[i].size) != 0)
			msl_report(out, "fragment", f->elements_line,
			    "buffer %d depends on which lane holds which element of a matrix, or on the order of threads", i);
}

static void
run_launch(Facts *f, const MslProgram *p, const Launch *l, MslReports *out)
{
	MslLaunch run[2] = {0};
	for (int i = 0; i < 2; i++) {
		run[i].kernel = msl_kernel(p, l->kernel);
		run[i].order = i;
		run[i].layout = f->apple ? 0 : i;
		run[i].threadgroup_bytes = l->shared;
		memcpy(run[i].groups, l->groups, sizeof l->groups);
		memcpy(run[i].threads, l->threads, sizeof l->threads);
		fill(f, l, &run[i]);
		if (!run[i].kernel)
			msl_report(out, "result", l->line, "there is no kernel '%s'", l->kernel);
		else
			msl_launch(p, &run[i], out);
	}
	if (!out->n)
		compare(f, l, &run[0], out);
	if (!out->n)
		compare_layouts(f, p, l, &run[0], &run[1], out);
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < MSL_BUFFERS; j++)
			if (run[i].buffer[j].at)
				msl_unguard(run[i].buffer[j].at, run[i].buffer[j].size);
}

/* An error in the library: the line that the notes behind it name. */
static int
line_noted(const char *error, const char *name)
{
	const char *next = strstr(error + 1, " error: "), *at = strstr(error, name);
	return at && (!next || at < next) ? atoi(at + strlen(name) + 1) : 0;
}

/* The compiler's messages, as reports of their lines. */
static void
report_errors(const char *path, const char *messages, MslReports *out)
{
	const char *name = strrchr(path, '/');
	name = name ? name + 1 : path;
	for (const char *s = messages; s && *s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL) {
		size_t n = strcspn(s, "\n");
		const char *error = strstr(s, "error: "), *at = strstr(s, name);
		if (!error || error > s + n)
			continue;
		int line = at && at < error ? atoi(at + strlen(name) + 1) : at && strncmp(at - 1, "/", 1) == 0
		    ? line_noted(error, name) : atoi(s);
		if (line || !out->n)
			msl_report(out, "error", line, "%.*s", (int)(s + n - error - 7), error + 7);
	}
	if (!out->n)
		msl_report(out, "error", 0, "%.300s", messages);
}

static int
judge(const char *path, const Facts *f, const MslReports *r)
{
	int bad = 0;
	for (int i = 0; i < f->nwant; i++)
		if (!msl_reported(r, f->want[i].text, f->want[i].line)) {
			printf("%s:%d: %s was not reported\n", path, f->want[i].line, f->want[i].text);
			bad++;
		}
	for (int i = 0; i < r->n; i++) {
		bool wanted = false;
		for (int j = 0; j < f->nwant; j++)
			wanted |= f->want[j].line == r->at[i].line && strcmp(f->want[j].text, r->at[i].kind) == 0;
		if (!wanted || msl_verbose)
			printf("%s:%d: %s: %s\n", path, r->at[i].line, r->at[i].kind, r->at[i].text);
		bad += !wanted;
	}
	return bad;
}

int
msl_facts(const char *path)
{
	Facts *f = calloc(1, sizeof *f);
	MslReports *r = calloc(1, sizeof *r);
	int bad = 1;
	if (!read_facts(path, f) || f->n == 0)
		printf("%s: describes no launch\n", path);
	else {
		MslProgram *p = msl_open(path);
		if (p->error)
			report_errors(path, p->error, r);
		for (int i = 0; i < f->n && !p->error; i++)
			run_launch(f, p, &f->launch[i], r);
		bad = judge(path, f, r) + f->bad;
		msl_close(p);
	}
	free(f);
	free(r);
	return bad;
}
