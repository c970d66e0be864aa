/* Tiles that --trace prints and --break-nan looks at: each thread hands over its part whenever it gets there, and the tiles
 * are shown once they are whole.  For --trace a part is an element, for --break-nan what a thread of the block holds of the
 * operands and of the result.  A loop may be a turn ahead in one warp: a part goes to the oldest run of the op in its
 * program that lacks it. */
#include "runtime/simt/scheduler.h"

#include <stdlib.h>
#include <string.h>

/* One run of an op of a program. */
typedef struct Shown Shown;
struct Shown {
	Shown *next;                                    /* the op's run after it */
	int64_t have;                                   /* parts */
	char **data;                                    /* of each tile, as the interpreter holds it */
	char writer[700];                               /* of the byte asked for, when the first part came */
};

/* The runs of an op of a program that are not whole, in order.  As a part goes to the oldest run that lacks it, the
 * oldest run is whole first. */
typedef struct Series Series;
struct Series {
	Series *next;                                   /* of its bucket */
	const Op *print;
	const SimtBlock *block;                         /* that its threads are of; NULL: any */
	int64_t program[MAX_AXES];
	int64_t need, most;                             /* parts; one more than the greatest number of one */
	Shown *first;
	Shown ***lacks;                                 /* by part: the link to the first run without it; NULL: `first` */
};

enum { BUCKETS = 1024 };

static Series **
bucket_of(Run *run, const Op *print, const uint64_t *program)
{
	uint64_t hash = hash_pointer(print);
	for (int i = 0; i < MAX_AXES; i++)
		hash = hash_mix(hash, program[i]);
	return &run->shown[hash % BUCKETS];
}

static Series *
series_of(Run *run, const Op *print, const SimtBlock *block, const uint64_t *program, int64_t need)
{
	Series **at = bucket_of(run, print, program);
	for (Series *s = *at; s; s = s->next)
		if (s->print == print && s->block == block && memcmp(s->program, program, sizeof s->program) == 0)
			return s;
	Series *s = memory_new(1, sizeof *s);
	*s = (Series){.next = *at, .print = print, .block = block, .need = need};
	s->most = MAX(need, SIMT_WARPS * SIMT_LANES);
	memcpy(s->program, program, sizeof s->program);
	s->lacks = memory_new((size_t)s->most, sizeof *s->lacks);
	return *at = s;
}

static void
series_close(Run *run, Series *s)
{
	Series **at = bucket_of(run, s->print, (const uint64_t *)s->program);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s->lacks);
	free(s);
}

static Shown *
shown_open(const Op *print)
{
	Shown *s = memory_new(1, sizeof *s);
	s->data = memory_new((size_t)print->nin, sizeof *s->data);
	for (int i = 0; i < print->nin; i++) {
		const Type t = tile_shown(print, i);
		s->data[i] = memory_new((size_t)type_count(&t), 8);
	}
	return s;
}

/* Closes the oldest run, and the series with its last. */
static void
shown_close(Run *run, Series *of)
{
	Shown *s = of->first;
	of->first = s->next;
	for (int64_t i = 0; i < of->most; i++)
		if (of->lacks[i] == &s->next)
			of->lacks[i] = NULL;
	for (int i = 0; i < of->print->nin; i++)
		free(s->data[i]);
	free(s->data);
	free(s);
	if (!of->first)
		series_close(run, of);
}

/* The run that a part goes to, which has it from here on. */
static Shown *
shown_without(Series *of, int64_t part)
{
	Shown **at = of->lacks[part] ? of->lacks[part] : &of->first;
	if (!*at)
		*at = shown_open(of->print);
	of->lacks[part] = &(*at)->next;
	(*at)->have++;
	return *at;
}

/* One element's bits, as the emitted code has them, into a tile as the interpreter holds it. */
static void
put(const Type *t, char *data, int64_t at, uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float single;
	double x;
	if (t->ptr != PTR_NONE) {
		((uint64_t *)(void *)data)[at] = bits;
	} else if (dtype_is_packed(t->elem)) {
		uint64_t memory = bits;
		memcpy(&single, &low, sizeof single);
		if (dtype_is_float(t->elem))
			dtype_store_f64(t->elem, &memory, 0, (double)single);
		data[at] = (char)(memory & 15);
	} else if (t->elem == TY_F64) {
		memcpy(&x, &bits, sizeof x);
		dtype_store_f64(t->elem, data, at, x);
	} else if (dtype_is_float(t->elem)) {
		memcpy(&single, &low, sizeof single);
		dtype_store_f64(t->elem, data, at, (double)single);
	} else {
		dtype_store_i64(t->elem, data, at, (int64_t)bits);
	}
}

static void
print_traced(const SimtLaunch *l, const char *tile, const char *writer)
{
	l->print(l->print_user, tile);
	if (*writer)
		l->print(l->print_user, writer);
}

/* value: the element's number, its bits, the program. */
static void
take_element(Run *run, const SimtThread *t, const Op *print, const uint64_t *value)
{
	const Type type = tile_shown(print, 0);
	int64_t at = (uint32_t)value[0];
	Text line = {0};
	Series *of = series_of(run, print, NULL, &value[2], type_count(&type));
	Shown *s = shown_without(of, at);
	if (s->have == 1 && attr_writer(print) >= 0)
		simt_writer(t, attr_writer(print), s->writer, sizeof s->writer);
	put(print->in[0]->type, s->data[0], at, value[1]);
	if (s->have < of->need)
		return;
	if (tile_trace(print, of->program, s->data[0], &line) && run->launch->print)
		print_traced(run->launch, line.at, s->writer);
	shown_close(run, of);
	text_close(&line);
}

/* value: the block's threads, the program, then of each tile how many elements, their numbers and bits.  True: the tiles
 * are whole and not as they should be, which `text` says. */
static bool
take_thread(Run *run, const SimtThread *t, const Op *print, const uint64_t *value, char *text, size_t size)
{
	Series *of = series_of(run, print, t->block, value + 1, (int64_t)value[0]);
	Shown *s = shown_without(of, t->thread);
	double x;
	value += 1 + MAX_AXES;
	for (int i = 0; i < print->nin; i++)
		for (uint64_t n = *value++; n > 0; n--, value += 2)
			if ((int32_t)value[0] >= 0)
				put(print->in[i]->type, s->data[i], (int32_t)value[0], value[1]);
	if (s->have < of->need)
		return false;
	int64_t at = nan_look(print, (const void *const *)s->data, &x);
	Text line = {0};
	if (at >= 0)
		nan_format(print, of->program, at, x, &line);
	snprintf(text, size, "%s", line.at ? line.at : "");
	text_close(&line);
	shown_close(run, of);
	return at >= 0;
}

void
simt_trace(SimtThread *t, int number, const uint64_t *value, int n)
{
	Run *run = scheduler_of(t)->run;
	const Op *print = run->print[number];
	char text[480];
	bool is_wrong = false;
	pthread_mutex_lock(&run->lock);
	if (op_attr(print, ATTR_WATCH))
		is_wrong = take_thread(run, t, print, value, text, sizeof text);
	else
		take_element(run, t, print, value);
	pthread_mutex_unlock(&run->lock);
	if (is_wrong)
		simt_fail_as(t, FAULT_NAN, 0, "%s", text);
}

void
shown_begin(Run *run)
{
	const Func *f = run->launch->func;
	int n = 0;
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		n += op->kind == OP_PRINT;
	run->print = memory_new((size_t)n + 1, sizeof *run->print);
	run->shown = memory_new(BUCKETS, sizeof *run->shown);
	n = 0;
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		if (op->kind == OP_PRINT)
			run->print[++n] = op;
}

void
shown_end(Run *run)
{
	free(run->print);
	for (int i = 0; i < BUCKETS; i++)
		while (run->shown[i])
			shown_close(run, run->shown[i]);
	free(run->shown);
}
