/* Equal strings become one pointer: a table whose strings live in the arena.  Also the nearest name to a misspelt one. */
#include "base/base.h"

#include <string.h>

struct Intern {
	Arena *a;
	HashTable all;                              /* tag: the length */
};

uint64_t
checksum(const char *s, size_t n)
{
	uint64_t h = UINT64_C(14695981039346656037);
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(1099511628211);
	return h;
}

Intern *
intern_open(Arena *a)
{
	Intern *in = NEW(a, Intern);
	in->a = a;
	return in;
}

const char *
intern_n(Intern *in, const char *s, size_t n)
{
	uint64_t hash = checksum(s, n);
	const HashEntry *is = TABLE_FIND(e, &in->all, hash, (size_t)e->tag == n && memcmp(e->of, s, n) == 0);
	char *copy = is ? is->of : arena_strndup(in->a, s, n);
	if (!is)
		table_add(in->a, &in->all, hash, copy, (int)n);
	return copy;
}

const char *
intern(Intern *in, const char *s)
{
	return intern_n(in, s, strlen(s));
}

enum { NAME_MAX_LETTERS = 64 };

/* Edit distance with neighbours swapped counting once (optimal string alignment). */
static int
distance(const char *a, int na, const char *b, int nb)
{
	int row[3][NAME_MAX_LETTERS + 1];
	for (int j = 0; j <= nb; j++)
		row[0][j] = j;
	for (int i = 1; i <= na; i++) {
		int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
		now[0] = i;
		for (int j = 1; j <= nb; j++) {
			int d = up[j - 1] + (a[i - 1] != b[j - 1]);
			d = MIN(d, MIN(up[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d = MIN(d, up2[j - 2] + 1);
			now[j] = d;
		}
	}
	return row[na % 3][nb];
}

const char *
nearest_name(const char *name, const char *const *candidates, int n)
{
	size_t na = strlen(name);
	const char *best = NULL;
	int best_distance = 0;
	if (na > NAME_MAX_LETTERS)
		return NULL;
	for (int i = 0; i < n; i++) {
		size_t nb = strlen(candidates[i]);
		if (nb > NAME_MAX_LETTERS)
			continue;
		int d = distance(name, (int)na, candidates[i], (int)nb);
		int most = (int)MAX(na, nb) / 3;
		bool begins = na > 0 && best && d == best_distance && strncmp(candidates[i], name, na) == 0;
		if (d > 0 && d <= MAX(most, na > 1 ? 1 : 0) && d < (int)MAX(na, nb) &&
		    (!best || d < best_distance || begins)) {
			best = candidates[i];
			best_distance = d;
		}
	}
	return best;
}

const char *
name_advice(Arena *mem, const char *name, const char *const *known, int n)
{
	enum { NAMES_SHOWN = 24 };
	const char *near = nearest_name(name, known, n);
	Text t = {0};
	if (near)
		text_printf(&t, "did you mean '%s'?", near);
	if (!near || n > 1)
		text_printf(&t, "%s%s", near ? " " : "", n > 1 ? "there are " : n == 1 ? "there is " : "there are none");
	for (int i = 0; i < MIN(n, NAMES_SHOWN) && (!near || n > 1); i++)
		text_printf(&t, "%s'%s'", i ? ", " : "", known[i]);
	if (n > NAMES_SHOWN)
		text_printf(&t, " and %d more", n - NAMES_SHOWN);
	return text_take(&t, mem);
}
