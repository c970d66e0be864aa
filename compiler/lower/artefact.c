/* Artefacts as bytes and back: a cache's file holds what artefact_write made.
 *
 * The form is ours alone and is not meant for another machine: a line that names form and version, then every field in
 * order as it is in memory, lists and texts with their length before them, and a sum over all of it at the end.  A file
 * that was cut short or damaged is refused, never half read. */
#include "ir/derive.h"
#include "lower/artefact.h"

#include "model/digits/digits.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

static const char heading[] = "tegula artefact 10\n";

int
artefact_ranks(const Artefact *a, int axis)
{
	const Cluster c = {a->cluster, a->cluster_axis, MAX(a->cluster_beside, 1)};
	return a->cluster <= 1 || a->cluster_axis < 0 ? 1 : cluster_on(c, axis);
}

size_t
artefact_arrivals(const Artefact *a, size_t blocks)
{
	if (a->persistent)
		return a->part_bytes ? blocks * STREAM_FLAGS : COUNTER_WORDS;
	return blocks / (size_t)MAX(a->split, 1);
}

void
artefact_close(Artefact *a)
{
	for (int i = 0; i < a->nasserts; i++)
		free(a->asserts[i]);
	free(a->asserts);
	free(a->bytes);
	free(a->kernel);
	free(a->abi);
	free(a->map);
	free(a->made);
	*a = (Artefact){0};
}

/* One walk over the fields writes them, or reads them back.  Once something does not fit, what is read is 0. */
typedef struct Fields {
	Text *out;                                      /* NULL: they are read */
	const char *at, *end;
	bool bad;
} Fields;

static void
field(Fields *x, void *value, size_t n)
{
	if (x->out) {
		text_putn(x->out, value, n);
	} else if (x->bad || (size_t)(x->end - x->at) < n) {
		x->bad = true;
	} else {
		memcpy(value, x->at, n);
		x->at += n;
	}
}

/* A count of things of at least `least` bytes each, of which there is still room in the file; reading, room for as many of
 * `size` bytes and a zero. */
static void *
counted(Fields *x, void *at, int64_t *n, size_t least, size_t size)
{
	field(x, n, sizeof *n);
	if (x->out)
		return at;
	x->bad = x->bad || *n < 0 || *n > (x->end - x->at) / (int64_t)least;
	*n = x->bad ? 0 : *n;
	at = calloc((size_t)*n + 1, size);
	x->bad |= !at;
	return at;
}

static void *
list(Fields *x, void *at, int64_t *n, size_t size)
{
	at = counted(x, at, n, size, size);
	if (*n > 0 && at)
		field(x, at, (size_t)*n * size);
	return at;
}

static char *
text(Fields *x, char *s)
{
	int64_t n = s ? (int64_t)strlen(s) : 0;
	return list(x, s, &n, 1);
}

static bool
is_sound(const TensorMap *m)
{
	return m->rank >= 1 && m->rank <= KERNEL_RANK && m->windows >= 0 && m->windows <= WINDOW_RANK;
}

static void
fields(Fields *x, Artefact *a)
{
	int64_t size = (int64_t)a->size, nabi = a->nabi, nmaps = a->nmaps, nmade = a->nmade, nasserts = a->nasserts;
	field(x, &a->form, sizeof a->form);
	a->bytes = list(x, a->bytes, &size, 1);
	a->size = (size_t)size;
	a->kernel = text(x, a->kernel);
	field(x, a->target, sizeof a->target);
	a->abi = list(x, a->abi, &nabi, sizeof *a->abi);
	a->nabi = (int)nabi;
	a->map = list(x, a->map, &nmaps, sizeof *a->map);
	a->nmaps = (int)nmaps;
	a->made = list(x, a->made, &nmade, sizeof *a->made);
	a->nmade = (int)nmade;
#define X(type, name) field(x, &a->name, sizeof a->name);
	ARTEFACT_FIGURES(X)
#undef X
	a->asserts = counted(x, a->asserts, &nasserts, sizeof nasserts, sizeof *a->asserts);
	for (a->nasserts = 0; a->nasserts < nasserts && !x->bad; a->nasserts++)
		a->asserts[a->nasserts] = text(x, a->asserts[a->nasserts]);
	x->bad |= a->target[sizeof a->target - 1] || !ALL_OF(i, a->nmaps, is_sound(&a->map[i])) || a->nmade > MADE_MOST ||
	    !ALL_OF(i, a->nmade, a->made[i].divisor > 0 && a->made[i].step > 0 && a->made[i].end.n <= LAUNCH_TERMS);
}

void
artefact_write(const Artefact *a, Text *out)
{
	size_t start = out->n;
	Artefact whole = *a;
	text_put(out, heading);
	fields(&(Fields){.out = out}, &whole);
	uint64_t sum = checksum(out->at + start, out->n - start);
	text_putn(out, (const char *)&sum, sizeof sum);
}

bool
artefact_read(const char *bytes, size_t size, Artefact *out)
{
	size_t head = strlen(heading);
	uint64_t want;
	*out = (Artefact){0};
	if (size < head + sizeof want || memcmp(bytes, heading, head) != 0)
		return false;
	memcpy(&want, bytes + size - sizeof want, sizeof want);
	if (checksum(bytes, size - sizeof want) != want)
		return false;
	Fields r = {.at = bytes + head, .end = bytes + size - sizeof want};
	fields(&r, out);
	if (!r.bad && r.at == r.end)
		return true;
	artefact_close(out);
	return false;
}
