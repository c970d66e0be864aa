/* The header of a .npy file: the text of a Python dictionary, of which nothing but the three keys
 * is taken.
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/tensor/tensor.h"

typedef struct Scan {
	const char *s, *end;
	const char *why; /* what is wrong, once something is */
} Scan;

static void
skip_space(Scan *c)
{
	while (c->s < c->end && char_is_space(*c->s))
		c->s++;
}

static bool
take(Scan *c, char want)
{
	skip_space(c);
	if (c->s == c->end || *c->s != want)
		return false;
	c->s++;
	return true;
}

static bool
wrong(Scan *c, const char *why)
{
	if (!c->why)
		c->why = why;
	return false;
}

static bool
scan_string(Scan *c, char *out, size_t room)
{
	skip_space(c);
	if (c->s == c->end || (*c->s != '\'' && *c->s != '"'))
		return wrong(c, "expected a text in quotes");
	char quote = *c->s++;
	size_t n = 0;
	while (c->s < c->end && *c->s != quote) {
		if (*c->s == '\\' || (unsigned char)*c->s < 32 || n + 1 >= room)
			return wrong(c, "a text in it is too long or has strange letters");
		out[n++] = *c->s++;
	}
	out[n] = 0;
	return c->s++ < c->end || wrong(c, "a text in it has no end");
}

static bool
scan_word(Scan *c, const char *word)
{
	size_t n = strlen(word);
	skip_space(c);
	if ((size_t)(c->end - c->s) < n || memcmp(c->s, word, n) != 0)
		return false;
	c->s += n;
	return true;
}

static bool
scan_extent(Scan *c, int64_t *out)
{
	int64_t v = 0;
	skip_space(c);
	if (c->s == c->end || !char_is_digit(*c->s))
		return wrong(c, "expected a number in 'shape'");
	for (; c->s < c->end && char_is_digit(*c->s); c->s++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->s - '0', &v))
			return wrong(c, "an extent in 'shape' passes 2^63 - 1");
	if (c->s < c->end && *c->s == 'L')
		c->s++;
	*out = v;
	return true;
}

static bool
scan_shape(Scan *c, NpyHeader *h)
{
	if (!take(c, '('))
		return wrong(c, "'shape' is not a tuple");
	while (!take(c, ')')) {
		if (h->rank == MAX_NPY_RANK)
			return wrong(c, "'shape' has more than 32 dimensions");
		if (!scan_extent(c, &h->dim[h->rank++]))
			return false;
		if (!take(c, ',')) {
			if (!take(c, ')'))
				return wrong(c, "expected ',' or ')' in 'shape'");
			break;
		}
	}
	return true;
}

static bool
scan_value(Scan *c, NpyHeader *h, const char *key, unsigned *seen)
{
	const char *const keys[] = {"descr", "fortran_order", "shape"};
	int k = VALUE_OF(i, LEN(keys), strcmp(keys[i], key) == 0, i, LEN(keys));
	if (k == LEN(keys))
		return wrong(c, "it has a key that is not 'descr', 'fortran_order' or 'shape'");
	if (*seen & 1u << k)
		return wrong(c, "it has a key twice");
	*seen |= 1u << k;
	if (k == 2)
		return scan_shape(c, h);
	if (k == 1) {
		h->fortran = scan_word(c, "True");
		return h->fortran || scan_word(c, "False") ||
		       wrong(c, "'fortran_order' is not True or False");
	}
	skip_space(c);
	if (c->s < c->end && *c->s == '[')
		return wrong(c, "its elements are records of several fields");
	return scan_string(c, h->descr, sizeof h->descr);
}

/* Takes '<f4' apart; what it can't is left with kind 0. */
static void
split_descr(NpyHeader *h)
{
	const char *s = h->descr;
	char *end;
	h->order = '=';
	if (*s == '<' || *s == '>' || *s == '|' || *s == '=')
		h->order = *s++;
	if (!*s || !strchr("biufV", *s) || !char_is_digit(s[1]))
		return;
	long size = strtol(s + 1, &end, 10);
	if (*end || size < 1 || size > 8)
		return;
	h->kind = *s;
	h->size = (int)size;
}

bool
npy_parse_header(const char *text, size_t size, NpyHeader *h, const char **why)
{
	Scan c = {text, text + size, NULL};
	unsigned seen = 0;
	char key[32];
	bool ok = take(&c, '{') || wrong(&c, "it does not begin with '{'");
	while (ok && !take(&c, '}')) {
		ok = scan_string(&c, key, sizeof key) &&
		     (take(&c, ':') || wrong(&c, "expected ':' after a key")) &&
		     scan_value(&c, h, key, &seen);
		if (ok && !take(&c, ',')) {
			ok = take(&c, '}') || wrong(&c, "expected ',' or '}'");
			break;
		}
	}
	skip_space(&c);
	if (ok && c.s != c.end)
		ok = wrong(&c, "something follows the '}'");
	if (ok && seen != 7)
		ok = wrong(&c, "'descr', 'fortran_order' or 'shape' is missing");
	if (ok)
		split_descr(h);
	*why = c.why;
	return ok;
}
