/* Memory freed whole.  An arena hands out zeroed objects from blocks that grow, and frees them
 * together.  Under AddressSanitizer each object is an allocation of its own, so that running over
 * the end of one is seen. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define PER_OBJECT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PER_OBJECT 1
#endif
#endif
#ifndef PER_OBJECT
#define PER_OBJECT 0
#endif

enum { FIRST_BLOCK = 16 << 10, LARGEST_BLOCK = 4 << 20, ALIGN = 16 };

typedef struct Chunk {
	struct Chunk *next;
	size_t size, used;
	_Alignas(16) char data[];
} Chunk;

struct Arena {
	Chunk *chunks;                              /* the newest first; only it has room */
	size_t next_size;
};

void
die_at(const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	fprintf(stderr, "tegula: internal error at %s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

void *
memory_new(size_t n, size_t size)
{
	void *p = calloc(MAX(n, 1), size);
	if (!p)
		die("out of memory for %zu bytes", n * size);
	return p;
}

Arena *
arena_open(void)
{
	Arena *a = memory_new(1, sizeof *a);
	a->next_size = FIRST_BLOCK;
	return a;
}

static void
free_chunks(Chunk *c)
{
	while (c) {
		Chunk *next = c->next;
		free(c);
		c = next;
	}
}

/* The newest block stays, unless it is huge, cleared as far as it was used: what fills the arena again needs no new
 * pages. */
void
arena_reset(Arena *a)
{
	bool stays = !PER_OBJECT && a->chunks && a->chunks->size <= LARGEST_BLOCK;
	Chunk *keep = stays ? a->chunks : NULL;
	free_chunks(keep ? keep->next : a->chunks);
	a->chunks = keep;
	if (keep) {
		memset(keep->data, 0, keep->used);
		keep->used = 0;
		keep->next = NULL;
	} else {
		a->next_size = FIRST_BLOCK;
	}
}

void
arena_close(Arena *a)
{
	if (a)
		free_chunks(a->chunks);
	free(a);
}

static Chunk *
add_chunk(Arena *a, size_t size)
{
	Chunk *c = memory_new(1, sizeof *c + size);
	c->size = size;
	c->next = a->chunks;
	a->chunks = c;
	return c;
}

void *
arena_alloc(Arena *a, size_t size)
{
	if (PER_OBJECT) {
		Chunk *c = add_chunk(a, size);
		c->used = size;
		return c->data;
	}
	size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	Chunk *c = a->chunks;
	if (!c || c->size - c->used < size) {
		c = add_chunk(a, MAX(size, a->next_size));
		if (a->next_size < LARGEST_BLOCK)
			a->next_size *= 2;
	}
	void *p = c->data + c->used;
	c->used += size;
	return p;
}

void *
arena_copy(Arena *a, const void *from, size_t size)
{
	void *p = arena_alloc(a, MAX(size, 1));
	if (size)
		memcpy(p, from, size);
	return p;
}

char *
arena_strndup(Arena *a, const char *s, size_t n)
{
	char *p = arena_alloc(a, n + 1);
	memcpy(p, s, n);
	return p;
}

char *
arena_strdup(Arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

char *
arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	int n = number_vformat(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		return arena_strdup(a, "");
	char *p = arena_alloc(a, (size_t)n + 1);
	number_vformat(p, (size_t)n + 1, fmt, ap);
	return p;
}

char *
arena_printf(Arena *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *p = arena_vprintf(a, fmt, ap);
	va_end(ap);
	return p;
}

void
vec_grow(Arena *a, void **at, int *cap, size_t size)
{
	int n = *cap ? *cap * 2 : 8;
	if (n < *cap)
		die("an array outgrew its count");
	void *p = arena_alloc(a, (size_t)n * size);
	if (*cap)
		memcpy(p, *at, (size_t)*cap * size);
	*at = p;
	*cap = n;
}
