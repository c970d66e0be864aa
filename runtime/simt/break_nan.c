/* --break-nan: each thread hands over what it holds of the tiles that an op was given and of the one that it made,
 * whenever it gets there.  When all its threads have come the tiles are whole, and they are looked at as the cpu device
 * looks at its own (ir/interp/nan.c).  A loop may be a turn ahead in one warp: what a thread brings goes to the oldest run
 * of the op in its program that has not got it yet. */
#include "runtime/simt/block.h"

#include <stdlib.h>
#include <string.h>

typedef struct Watched Watched;

/* One run of an op. */
struct Watched {
	Watched *next;
	const Op *print;
	int64_t program[MAX_AXES];
	int have;                                       /* threads */
	uint32_t got[SIMT_WARPS];
	void **data;                                    /* of each tile, as the interpreter holds it */
};

static const char watches_key;

static void
watched_free(Watched *w)
{
	for (int i = 0; i < w->print->nin; i++)
		free(w->data[i]);
	free(w->data);
	free(w);
}

static void
watches_close(void *user)
{
	Watched **list = user;
	for (Watched *w = *list, *next; w; w = next) {
		next = w->next;
		watched_free(w);
	}
	free(list);
}

/* Those that some thread is still to come to, oldest first. */
static Watched **
watches_of(SimtThread *t)
{
	void **slot = simt_block_local(t, &watches_key);
	if (!*slot) {
		*slot = calloc(1, sizeof(Watched *));
		if (!*slot)
			die("no memory");
		simt_at_end(t, watches_close, *slot);
	}
	return *slot;
}

static Watched *
watched_new(const Op *print, const uint64_t *program)
{
	Watched *w = calloc(1, sizeof *w);
	void **data = calloc((size_t)print->nin, sizeof *data);
	if (!w || !data)
		die("no memory");
	w->print = print;
	w->data = data;
	memcpy(w->program, program, sizeof w->program);
	for (int i = 0; i < print->nin; i++) {
		const Type t = tile_shown(print, i);
		data[i] = calloc((size_t)type_count(&t) + 1, 8);
		if (!data[i])
			die("no memory");
	}
	return w;
}

/* Where t's part goes. */
static Watched **
run_without(Watched **at, const SimtThread *t, const Op *print, const uint64_t *program)
{
	for (; *at; at = &(*at)->next)
		if ((*at)->print == print && memcmp((*at)->program, program, sizeof (*at)->program) == 0 &&
		    !((*at)->got[t->warp] >> t->lane & 1))
			return at;
	*at = watched_new(print, program);
	return at;
}

static void
look(SimtThread *t, const Watched *w)
{
	char text[480];
	double x;
	Text line = {0};
	int64_t at = nan_look(w->print, (const void *const *)w->data, &x);
	if (at < 0)
		return;
	nan_format(w->print, w->program, at, x, &line);
	snprintf(text, sizeof text, "%s", line.at);
	text_close(&line);
	simt_fail_as(t, FAULT_NAN, 0, "%s", text);
}

void
watch_take(SimtThread *t, const Op *print, const uint64_t *value)
{
	int threads = (int)*value++;
	Watched **at = run_without(watches_of(t), t, print, value), *w = *at;
	value += MAX_AXES;
	for (int i = 0; i < print->nin; i++)
		for (uint64_t n = *value++; n > 0; n--, value += 2)
			if ((int32_t)value[0] >= 0)
				trace_put(print->in[i]->type, w->data[i], (int32_t)value[0], value[1]);
	w->got[t->warp] |= UINT32_C(1) << t->lane;
	if (++w->have < threads)
		return;
	look(t, w);
	*at = w->next;
	watched_free(w);
}
