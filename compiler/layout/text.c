/* Layouts as text, both ways, and as a picture.
 *
 *     layout(shape = [4, 8], register = [[0, 1]], lane = [[0, 2], [0, 4], [1, 0], [2, 0]], warp = [], block = [])
 *
 * is the map itself: one image a bit, as tile coordinates.  The builders have short forms that read the
 * way people speak of them; they print as the map. */
#include "layout/layout.h"

#include <string.h>

static const char *const in_names[IN_DIMS] = {"register", "lane", "warp", "block"};

static void
print_image(const Layout *l, uint64_t image, Text *out)
{
	text_put(out, "[");
	for (int d = 0; d < l->rank; d++)
		text_printf(out, "%s%llu", d ? ", " : "",
		    (unsigned long long)(image >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1)));
	text_put(out, "]");
}

void
layout_print(const Layout *l, Text *out)
{
	text_put(out, "layout(shape = [");
	for (int d = 0; d < l->rank; d++)
		text_printf(out, "%s%llu", d ? ", " : "", 1ull << l->out[d]);
	text_put(out, "]");
	for (int in = 0, i = 0; in < IN_DIMS; in++) {
		text_printf(out, ", %s = [", in_names[in]);
		for (int n = 0; n < l->in[in]; n++, i++) {
			text_put(out, n ? ", " : "");
			print_image(l, l->map.col[i], out);
		}
		text_put(out, "]");
	}
	text_put(out, ")");
}

/* A cursor over the text.  The first complaint is kept. */
typedef struct Reader {
	const char *start, *at;
	const char *why;
} Reader;

enum { LIST_MAX = F2_MAX };

typedef struct List {
	int n;
	int64_t v[LIST_MAX][LAYOUT_RANK];           /* lists of numbers use v[i][0] */
	int len[LIST_MAX];
} List;

typedef struct Field {
	char name[16];
	bool is_list;
	int64_t number;
	List list;
} Field;

enum { FIELD_MAX = 8 };

static bool
fail(Reader *r, const char *why)
{
	if (!r->why)
		r->why = why;
	return false;
}

static void
skip_space(Reader *r)
{
	while (char_is_space(*r->at))
		r->at++;
}

static bool
take(Reader *r, char c)
{
	skip_space(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static bool
word(Reader *r, char *out, size_t size)
{
	size_t n = 0;
	skip_space(r);
	while (char_is_letter(*r->at) || *r->at == '_') {
		if (n + 1 >= size)
			return fail(r, "this name is too long");
		out[n++] = *r->at++;
	}
	out[n] = 0;
	return n > 0 || fail(r, "expected a name");
}

static bool
number(Reader *r, int64_t *out)
{
	skip_space(r);
	if (!char_is_digit(*r->at))
		return fail(r, "expected a number");
	for (*out = 0; char_is_digit(*r->at); r->at++) {
		if (*out > INT32_MAX)
			return fail(r, "this number is too large");
		*out = *out * 10 + (*r->at - '0');
	}
	return true;
}

static bool
image(Reader *r, List *l)
{
	int *len = &l->len[l->n];
	do {
		if (*len == LAYOUT_RANK)
			return fail(r, "an image has at most 5 coordinates");
		if (!number(r, &l->v[l->n][(*len)++]))
			return false;
	} while (take(r, ','));
	return take(r, ']') || fail(r, "expected ']' or ','");
}

static bool
list(Reader *r, List *l)
{
	if (take(r, ']'))
		return true;
	do {
		if (l->n == LIST_MAX)
			return fail(r, "this list is too long");
		if (take(r, '[') ? !image(r, l) : !number(r, &l->v[l->n][0]))
			return false;
		l->n++;
	} while (take(r, ','));
	return take(r, ']') || fail(r, "expected ']' or ','");
}

static int
fields(Reader *r, Field *f)
{
	int n = 0;
	if (!take(r, '(')) {
		fail(r, "expected '('");
		return 0;
	}
	do {
		if (n == FIELD_MAX) {
			fail(r, "too many fields");
			return n;
		}
		if (!word(r, f[n].name, sizeof f[n].name) || (!take(r, '=') && !fail(r, "expected '='")))
			return n;
		f[n].is_list = take(r, '[');
		if (f[n].is_list ? !list(r, &f[n].list) : !number(r, &f[n].number))
			return n;
		n++;
	} while (take(r, ','));
	if (!take(r, ')'))
		fail(r, "expected ')' or ','");
	return n;
}

static const Field *
field(const Field *f, int n, const char *name)
{
	return VALUE_OF(i, n, strcmp(f[i].name, name) == 0, &f[i], NULL);
}

static bool
power_of_two(Reader *r, int64_t v, int *log)
{
	*log = log2_floor(v);
	return is_power_of_two(v) || fail(r, "extents are powers of two");
}

/* A list of `rank` powers of two (or of indices, if plain) by name; absent: `absent` everywhere. */
static bool
figures(Reader *r, const Field *f, int n, const char *name, int rank, bool plain, int absent, int out[LAYOUT_RANK])
{
	const Field *g = field(f, n, name);
	for (int d = 0; d < rank; d++)
		out[d] = absent < 0 ? rank - 1 - d : absent;
	if (!g)
		return true;
	if (!g->is_list || g->list.n != rank)
		return fail(r, "this list needs one number for each dimension of the shape");
	for (int d = 0; d < rank; d++) {
		out[d] = (int)g->list.v[d][0];
		if (!plain && !power_of_two(r, g->list.v[d][0], &out[d]))
			return false;
	}
	return true;
}

static bool
is_order(Reader *r, const int order[LAYOUT_RANK], int rank)
{
	unsigned seen = 0;
	for (int d = 0; d < rank; d++)
		if (order[d] >= 0 && order[d] < rank)
			seen |= 1u << order[d];
	return seen == (1u << rank) - 1 || fail(r, "order names each dimension once");
}

static bool
read_map(Reader *r, const Field *f, int n, int rank, const int shape[LAYOUT_RANK], Layout *out)
{
	Layout l = {.rank = rank};
	memcpy(l.out, shape, sizeof l.out);
	l.map = f2_zero(0, layout_out_bits(&l));
	for (int in = 0; in < IN_DIMS; in++) {
		const Field *g = field(f, n, in_names[in]);
		for (int i = 0; g && i < g->list.n; i++) {
			uint64_t image_bits = 0;
			if (g->list.len[i] != rank)
				return fail(r, "an image has one coordinate for each dimension");
			for (int d = 0; d < rank; d++) {
				if (g->list.v[i][d] >> l.out[d])
					return fail(r, "this coordinate is outside the shape");
				image_bits |= (uint64_t)g->list.v[i][d] << layout_out_at(&l, d);
			}
			if (l.map.nin == F2_MAX)
				return fail(r, "too many bits");
			l.map.col[l.map.nin++] = image_bits;
			l.in[in]++;
		}
	}
	*out = l;
	return layout_valid(&l) || fail(r, "some element of the tile is held nowhere");
}

static bool
read_boxed(Reader *r, const Field *f, int n, int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK],
    Layout *out)
{
	const Field *row = field(f, n, "row_bytes"), *elem = field(f, n, "elem_bytes");
	int row_log = 7, elem_log = 0;

	if ((row && !power_of_two(r, row->number, &row_log)) || (elem && !power_of_two(r, elem->number, &elem_log)))
		return false;
	if (row_log < 4 || row_log > 7 || elem_log > 3)
		return fail(r, "boxes have row_bytes of 16, 32, 64 or 128 and elem_bytes of at most 8");
	*out = layout_boxed(rank, shape, order, 1 << row_log, 1 << elem_log);
	return true;
}

static bool
read_form(Reader *r, const char *form, const Field *f, int n, Layout *out)
{
	int rank, shape[LAYOUT_RANK], bits = 0;
	const Field *s = field(f, n, "shape");
	if (!s || !s->is_list || s->list.n > LAYOUT_RANK)
		return fail(r, "expected shape = [...] with at most 5 extents");
	rank = s->list.n;
	if (!figures(r, f, n, "shape", rank, false, 0, shape))
		return false;
	for (int d = 0; d < rank; d++)
		bits += shape[d];
	if (bits > 24)
		return fail(r, "a tile has at most 2^24 elements");
	if (strcmp(form, "layout") == 0)
		return read_map(r, f, n, rank, shape, out);
	Blocked b = {.rank = rank};
	if (!figures(r, f, n, "order", rank, true, -1, b.order) || !is_order(r, b.order, rank))
		return false;
	if (strcmp(form, "blocked") == 0) {
		if (!figures(r, f, n, "per_thread", rank, false, 0, b.per_thread) ||
		    !figures(r, f, n, "lanes", rank, false, 0, b.lanes) ||
		    !figures(r, f, n, "warps", rank, false, 0, b.warps))
			return false;
		*out = layout_blocked(&b, shape);
		return true;
	}
	if (strcmp(form, "swizzled") == 0) {
		const Field *v = field(f, n, "vector"), *p = field(f, n, "per_phase"), *m = field(f, n, "phases");
		int vector = 0, per_phase = 0, phases = 0;
		if ((v && !power_of_two(r, v->number, &vector)) || (p && !power_of_two(r, p->number, &per_phase)) ||
		    (m && !power_of_two(r, m->number, &phases)))
			return false;
		*out = layout_swizzled(rank, shape, b.order, vector, per_phase, phases);
		return true;
	}
	if (strcmp(form, "boxed") == 0)
		return read_boxed(r, f, n, rank, shape, b.order, out);
	return fail(r, "expected layout(...), blocked(...), swizzled(...) or boxed(...)");
}

const char *
layout_parse(const char *text, Layout *out, int *at)
{
	Reader r = {text, text, NULL};
	Field f[FIELD_MAX] = {0};
	char form[16];
	if (word(&r, form, sizeof form)) {
		int n = fields(&r, f);
		if (!r.why)
			read_form(&r, form, f, n, out);
	}
	skip_space(&r);
	if (!r.why && *r.at)
		r.why = "expected the end";
	*at = (int)(r.at - r.start);
	return r.why;
}
