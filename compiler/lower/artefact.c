/* Artefacts as bytes and back: a cache's file holds what artefact_write made.
 *
 * The form is ours alone and is not meant for another machine: a line that names form and version, then every field in
 * order, numbers as 8 bytes, texts with their length before them, and a sum over all of it at the end.  A file that was
 * cut short or damaged is refused, never half read. */
#include "lower/artefact.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

static const char heading[] = "tegula artefact 7\n";

enum { MOST = 1 << 30 };                                /* bytes of a text, entries of a list: more is damage */

size_t
artefact_arrivals(const Artefact *a, size_t blocks)
{
	if (a->persistent)
		return a->part_bytes ? blocks * STREAM_FLAGS : DRAW_WORDS;
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
	*a = (Artefact){0};
}

static void
put_number(Text *out, int64_t v)
{
	text_putn(out, (const char *)&v, sizeof v);
}

static void
put_bytes(Text *out, const char *s, size_t n)
{
	put_number(out, (int64_t)n);
	text_putn(out, s, n);
}

static void
put_sum(Text *out, const LaunchSum *s)
{
	put_number(out, s->number);
	put_number(out, s->n);
	for (int i = 0; i < s->n; i++) {
		put_number(out, s->term[i].factor);
		put_number(out, s->term[i].param);
		put_number(out, s->term[i].dim);
	}
}

static void
put_map(Text *out, const TensorMap *m)
{
	put_number(out, m->param);
	put_number(out, m->elem_bytes);
	put_number(out, m->swizzle);
	put_number(out, m->is_stored + m->is_added);
	put_number(out, m->rank);
	for (int d = 0; d < KERNEL_RANK; d++) {
		put_number(out, m->dim[d]);
		put_number(out, m->merged[d]);
		put_number(out, m->box[d]);
	}
	put_number(out, m->windows);
	for (int i = 0; i < m->windows; i++) {
		put_number(out, m->window[i].step);
		put_sum(out, &m->window[i].lower);
		put_sum(out, &m->window[i].count);
		put_sum(out, &m->window[i].reach);
	}
}

void
artefact_write(const Artefact *a, Text *out)
{
	size_t start = out->n;
	text_put(out, heading);
	put_number(out, a->form);
	put_bytes(out, a->bytes, a->size);
	put_bytes(out, a->kernel, strlen(a->kernel));
	put_bytes(out, a->target, strlen(a->target));
	put_number(out, a->nabi);
	for (int i = 0; i < a->nabi; i++) {
		put_number(out, a->abi[i].kind);
		put_number(out, a->abi[i].param);
		put_number(out, a->abi[i].dim);
		put_number(out, a->abi[i].bytes);
	}
	put_number(out, a->nmaps);
	for (int i = 0; i < a->nmaps; i++)
		put_map(out, &a->map[i]);
#define X(type, name) put_number(out, a->name);
	ARTEFACT_FIGURES(X)
#undef X
	put_number(out, a->nasserts);
	for (int i = 0; i < a->nasserts; i++)
		put_bytes(out, a->asserts[i], strlen(a->asserts[i]));
	put_number(out, (int64_t)checksum(out->at + start, out->n - start));
}

/* reading: once something does not fit, every further answer is 0 */

typedef struct Reader {
	const char *at, *end;
	bool bad;
} Reader;

static int64_t
get_number(Reader *r)
{
	int64_t v = 0;
	if (r->bad || (size_t)(r->end - r->at) < sizeof v) {
		r->bad = true;
		return 0;
	}
	memcpy(&v, r->at, sizeof v);
	r->at += sizeof v;
	return v;
}

/* A count of things of at least `least` bytes each, of which there is still room in the file. */
static int
get_count(Reader *r, int least)
{
	int64_t n = get_number(r);
	if (n < 0 || n > MOST || n * least > r->end - r->at)
		r->bad = true;
	return r->bad ? 0 : (int)n;
}

/* Zeros for n things and one more; for none, where memory is short. */
static void *
get_room(Reader *r, int n, size_t size)
{
	void *room = calloc((size_t)n + 1, size);
	if (!room)
		r->bad = true;
	return room;
}

static char *
get_bytes(Reader *r, size_t *size)
{
	int n = get_count(r, 1);
	char *s = get_room(r, n, 1);
	*size = r->bad ? 0 : (size_t)n;
	if (s && *size)
		memcpy(s, r->at, *size);
	r->at += *size;
	return s;
}

static void
get_abi(Reader *r, Artefact *out)
{
	out->nabi = get_count(r, 4 * (int)sizeof(int64_t));
	out->abi = get_room(r, out->nabi, sizeof *out->abi);
	for (int i = 0; i < out->nabi && !r->bad; i++) {
		AbiParam *p = &out->abi[i];
		p->kind = (AbiKind)get_number(r);
		p->param = (int)get_number(r);
		p->dim = (int)get_number(r);
		p->bytes = (int)get_number(r);
	}
}

static void
get_sum(Reader *r, LaunchSum *s)
{
	s->number = get_number(r);
	s->n = (int)get_number(r);
	r->bad |= s->n < 0 || s->n > LAUNCH_TERMS;
	for (int i = 0; i < s->n && !r->bad; i++) {
		s->term[i].factor = get_number(r);
		s->term[i].param = (int)get_number(r);
		s->term[i].dim = (int)get_number(r);
	}
}

static void
get_maps(Reader *r, Artefact *out)
{
	out->nmaps = get_count(r, (6 + 3 * KERNEL_RANK) * (int)sizeof(int64_t));
	out->map = get_room(r, out->nmaps, sizeof *out->map);
	for (int i = 0; i < out->nmaps && !r->bad; i++) {
		TensorMap *m = &out->map[i];
		m->param = (int)get_number(r);
		m->elem_bytes = (int)get_number(r);
		m->swizzle = (int)get_number(r);
		int64_t stored = get_number(r);
		m->is_stored = stored > 0;
		m->is_added = stored > 1;
		m->rank = (int)get_number(r);
		for (int d = 0; d < KERNEL_RANK; d++) {
			m->dim[d] = (int)get_number(r);
			m->merged[d] = (int)get_number(r);
			m->box[d] = (int)get_number(r);
		}
		m->windows = (int)get_number(r);
		r->bad |= m->rank < 1 || m->rank > KERNEL_RANK || m->windows < 0 || m->windows > WINDOW_RANK;
		for (int k = 0; k < m->windows && !r->bad; k++) {
			m->window[k].step = (int)get_number(r);
			get_sum(r, &m->window[k].lower);
			get_sum(r, &m->window[k].count);
			get_sum(r, &m->window[k].reach);
		}
	}
}

static void
get_asserts(Reader *r, Artefact *out)
{
	int n = get_count(r, (int)sizeof(int64_t));
	size_t size;
	out->asserts = get_room(r, n, sizeof *out->asserts);
	for (; out->nasserts < n && !r->bad; out->nasserts++)
		out->asserts[out->nasserts] = get_bytes(r, &size);
}

static void
get_all(Reader *r, Artefact *out)
{
	size_t size;
	out->form = (ArtefactForm)get_number(r);
	out->bytes = get_bytes(r, &out->size);
	out->kernel = get_bytes(r, &size);
	char *target = get_bytes(r, &size);
	if (size < sizeof out->target && target)
		memcpy(out->target, target, size);
	else
		r->bad = true;
	free(target);
	get_abi(r, out);
	get_maps(r, out);
#define X(type, name) out->name = get_number(r);
	ARTEFACT_FIGURES(X)
#undef X
	get_asserts(r, out);
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
	Reader r = {.at = bytes + head, .end = bytes + size - sizeof want};
	get_all(&r, out);
	if (!r.bad && r.at == r.end)
		return true;
	artefact_close(out);
	return false;
}
