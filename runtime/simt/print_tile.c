/* Tiles that --trace prints: each thread hands over its elements one by one, whenever it gets there, and the tile is
 * printed once it is whole.  A loop may be a turn ahead in one warp: an element goes into the oldest tile of its print
 * and program that has not got it yet. */
#include "runtime/simt/block.h"

#include <stdlib.h>
#include <string.h>

typedef struct Gathered Gathered;

struct Gathered {
	Gathered *next;
	const Op *print;
	int64_t program[MAX_AXES], count, have;
	uint8_t *got;
	char *data;                                     /* as the interpreter holds a tile */
};

static Gathered *
tile_without(Run *run, const Op *print, const uint64_t *value)
{
	Gathered **at = &run->gathered;
	for (; *at; at = &(*at)->next)
		if ((*at)->print == print && memcmp((*at)->program, &value[2], sizeof (*at)->program) == 0 &&
		    !(*at)->got[value[0]])
			return *at;
	const Type t = tile_shown(print, 0);
	Gathered *g = calloc(1, sizeof *g);
	if (!g)
		die("no memory");
	g->print = print;
	g->count = type_count(&t);
	memcpy(g->program, &value[2], sizeof g->program);
	g->got = calloc((size_t)g->count, 1);
	g->data = calloc((size_t)g->count, 8);
	if (!g->got || !g->data)
		die("no memory");
	*at = g;
	return g;
}

void
trace_put(const Type *t, char *data, int64_t at, uint64_t bits)
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
drop(Run *run, Gathered *g)
{
	Gathered **at = &run->gathered;
	while (*at != g)
		at = &(*at)->next;
	*at = g->next;
	free(g->got);
	free(g->data);
	free(g);
}

void
simt_trace(SimtThread *t, int number, const uint64_t *value, int n)
{
	const SimtLaunch *l = simt_launch(t);
	Run *run = crew_of(t)->run;
	const Op *print = run->print[number];
	if (op_attr(print, ATTR_WATCH)) {
		watch_take(t, print, value);
		return;
	}
	uint64_t word[2 + MAX_AXES] = {(uint32_t)value[0]};
	Text line = {0};
	memcpy(&word[1], &value[1], sizeof word - sizeof *word);
	pthread_mutex_lock(&run->lock);
	Gathered *g = tile_without(run, print, word);
	trace_put(print->in[0]->type, g->data, (int64_t)word[0], word[1]);
	g->got[word[0]] = 1;
	if (++g->have == g->count) {
		if (tile_trace(g->print, g->program, g->data, &line) && l->print)
			l->print(l->print_user, line.at);
		drop(run, g);
	}
	pthread_mutex_unlock(&run->lock);
	text_close(&line);
}

void
traces_open(Run *run)
{
	const Func *f = run->launch->func;
	int n = 0;
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		n += op->kind == OP_PRINT;
	run->print = calloc((size_t)n + 1, sizeof *run->print);
	if (!run->print)
		die("no memory");
	n = 0;
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		if (op->kind == OP_PRINT)
			run->print[++n] = op;
}

void
traces_close(Run *run)
{
	free(run->print);
	while (run->gathered)
		drop(run, run->gathered);
}
