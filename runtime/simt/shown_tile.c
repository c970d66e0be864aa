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
	Shown *next;
	const Op *print;
	const SimtBlock *block;                         /* that its threads are of; NULL: any */
	int64_t program[MAX_AXES];
	int64_t have, need;                             /* parts */
	uint8_t *got;
	char **data;                                    /* of each tile, as the interpreter holds it */
	char writer[700];                               /* of the byte that is asked for, when the first part came */
};

static Shown *
shown_open(const Op *print, const SimtBlock *block, const uint64_t *program, int64_t need)
{
	Shown *s = memory_new(1, sizeof *s);
	*s = (Shown){.print = print, .block = block, .need = need};
	memcpy(s->program, program, sizeof s->program);
	s->got = memory_new((size_t)MAX(need, SIMT_WARPS * SIMT_LANES), 1);
	s->data = memory_new((size_t)print->nin, sizeof *s->data);
	for (int i = 0; i < print->nin; i++) {
		const Type t = tile_shown(print, i);
		s->data[i] = memory_new((size_t)type_count(&t), 8);
	}
	return s;
}

static void
shown_close(Run *run, Shown *s)
{
	Shown **at = &run->shown;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	for (int i = 0; i < s->print->nin; i++)
		free(s->data[i]);
	free(s->data);
	free(s->got);
	free(s);
}

/* Where a part goes. */
static Shown *
shown_without(Run *run, const Op *print, const SimtBlock *block, const uint64_t *program, int64_t part, int64_t need)
{
	Shown **at = &run->shown;
	for (; *at; at = &(*at)->next)
		if ((*at)->print == print && (*at)->block == block && !(*at)->got[part] &&
		    memcmp((*at)->program, program, sizeof (*at)->program) == 0)
			return *at;
	return *at = shown_open(print, block, program, need);
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
	Shown *s = shown_without(run, print, NULL, &value[2], at, type_count(&type));
	if (s->have == 0 && attr_writer(print) >= 0)
		simt_writer(t, attr_writer(print), s->writer, sizeof s->writer);
	put(print->in[0]->type, s->data[0], at, value[1]);
	s->got[at] = 1;
	if (++s->have < s->need)
		return;
	if (tile_trace(print, s->program, s->data[0], &line) && run->launch->print)
		print_traced(run->launch, line.at, s->writer);
	shown_close(run, s);
	text_close(&line);
}

/* value: the block's threads, the program, then of each tile how many elements, their numbers and bits.  True: the tiles
 * are whole and not as they should be, which `text` says. */
static bool
take_thread(Run *run, const SimtThread *t, const Op *print, const uint64_t *value, char *text, size_t size)
{
	Shown *s = shown_without(run, print, t->block, value + 1, t->thread, (int64_t)value[0]);
	double x;
	value += 1 + MAX_AXES;
	for (int i = 0; i < print->nin; i++)
		for (uint64_t n = *value++; n > 0; n--, value += 2)
			if ((int32_t)value[0] >= 0)
				put(print->in[i]->type, s->data[i], (int32_t)value[0], value[1]);
	s->got[t->thread] = 1;
	if (++s->have < s->need)
		return false;
	int64_t at = nan_look(print, (const void *const *)s->data, &x);
	Text line = {0};
	if (at >= 0)
		nan_format(print, s->program, at, x, &line);
	snprintf(text, size, "%s", line.at ? line.at : "");
	text_close(&line);
	shown_close(run, s);
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
	n = 0;
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		if (op->kind == OP_PRINT)
			run->print[++n] = op;
}

void
shown_end(Run *run)
{
	free(run->print);
	while (run->shown)
		shown_close(run, run->shown);
}
