/* A string that grows: what printers write to. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static void
reserve(Text *t, size_t more)
{
	if (t->cap - t->n > more)
		return;
	size_t cap = MAX(t->cap * 2, t->n + more + 1);
	cap = MAX(cap, 256);
	t->at = realloc(t->at, cap);
	if (!t->at)
		die("out of memory for %zu bytes of text", cap);
	t->cap = cap;
}

void
text_putn(Text *t, const char *s, size_t n)
{
	reserve(t, n);
	memcpy(t->at + t->n, s, n);
	t->n += n;
	t->at[t->n] = 0;
}

void
text_put(Text *t, const char *s)
{
	text_putn(t, s, strlen(s));
}

/* Formats again only what did not fit. */
void
text_printf(Text *t, const char *fmt, ...)
{
	va_list ap;
	reserve(t, 32);
	size_t room = t->cap - t->n;
	va_start(ap, fmt);
	int n = number_vformat(t->at + t->n, room, fmt, ap);
	va_end(ap);
	if (n < 0)
		t->at[t->n] = 0;
	else if ((size_t)n >= room) {
		reserve(t, (size_t)n);
		va_start(ap, fmt);
		number_vformat(t->at + t->n, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	t->n += n > 0 ? (size_t)n : 0;
}

char *
text_trim(char *s)
{
	while (*s == ' ')
		s++;
	for (size_t n = strlen(s); n > 0 && s[n - 1] == ' '; n--)
		s[n - 1] = 0;
	return s;
}

bool
text_same(const char *a, const char *b)
{
	while (*a && char_lower(*a) == char_lower(*b))
		a++, b++;
	return *a == *b;
}

void
text_close(Text *t)
{
	free(t->at);
	*t = (Text){0};
}

char *
text_take(Text *t, Arena *mem)
{
	char *s = arena_strndup(mem, t->at ? t->at : "", t->n);
	text_close(t);
	return s;
}

bool
words_have(const char *words, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = words; at && n && (at = strstr(at, word)); at++)
		if (at[-1] == ' ' && at[n] == ' ')
			return true;
	return false;
}
