/* The cache as the user sees it: options, what it holds, pruning and clearing. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static void
open_cache(TglContext *cx, const TglCacheOptions *given)
{
	Arena *mem = arena_open();
	CacheOptions o = {.folder = given->folder,
	    .limit = (int64_t)MIN(given->limit, (uint64_t)INT64_MAX),
	    .off = given->off};
	o = cache_options(&o, mem);
	cache_close(cx->cache);
	cx->cache = cache_open(&o);
	arena_close(mem);
}

Cache *
context_cache(TglContext *cx)
{
	if (!cx->cache)
		open_cache(cx, &(TglCacheOptions){0});
	return cx->cache;
}

TglTuning
context_tuning(const TglContext *cx)
{
	const char *s = getenv("TEGULA_TUNE");
	if (cx->tuning != TGL_TUNING_DEFAULT)
		return cx->tuning;
	if (s && text_same(s, "off"))
		return TGL_TUNING_FROZEN;
	return s && text_same(s, "ignore") ? TGL_TUNING_IGNORED : TGL_TUNING_ON;
}

void
context_cache_warn(TglContext *cx, Compile *to)
{
	const char *s = cache_warning(cx->cache);
	if (s)
		diag_warning(to, NOWHERE, DIAG_CACHE, s);
}

TglStatus
tgl_context_cache(TglContext *cx, const TglCacheOptions *options)
{
	TglCacheOptions plain = {0};
	if (!cx)
		return TGL_ERROR_USAGE;
	context_begin(cx);
	open_cache(cx, options ? options : &plain);
	cx->tuning = options ? options->tuning : TGL_TUNING_DEFAULT;
	return TGL_OK;
}

/* ---- what there is ---- */

static TglStatus
end(TglContext *cx)
{
	context_cache_warn(cx, cx->own);
	if (cx->own->first)
		context_done(cx, cx->own);
	return TGL_OK;
}

static bool
count(void *user, const TuneEntry *e)
{
	++*(int64_t *)user;
	return true;
}

TglStatus
tgl_cache_info(TglContext *cx, TglCacheInfo *out)
{
	int64_t bytes;
	if (!cx || !context_call(cx, "tgl_cache_info", "out", out))
		return TGL_ERROR_USAGE;
	Cache *c = context_cache(cx);
	*out = (TglCacheInfo){.path = cache_path(c),
	    .limit = (uint64_t)cache_limit(c),
	    .compiled = cx->compiled,
	    .found = cx->found};
	cache_total(c, &out->entries, &bytes);
	out->bytes = (uint64_t)bytes;
	tune_each(c, count, &out->tunings);
	return end(cx);
}

TglStatus
tgl_cache_list(TglContext *cx, bool (*each)(void *user, const TglCacheEntry *e), void *user)
{
	if (!cx)
		return TGL_ERROR_USAGE;
	context_begin(cx);
	if (!each) {
		context_null(cx, NULL, "tgl_cache_list", "each");
		return TGL_ERROR_USAGE;
	}
	cache_each(context_cache(cx), each, user);
	return end(cx);
}

/* ---- removing ---- */

static TglStatus
removed(TglContext *cx, int64_t n, int64_t *out)
{
	if (out)
		*out = MAX(n, 0);
	if (n >= 0)
		return end(cx);
	const char *s = cache_warning(cx->cache);
	diag_error(cx->own, NOWHERE, DIAG_CACHE_REMOVE, s ? s : "others are using it");
	return context_fail(cx, TGL_ERROR_FILE, NULL);
}

TglStatus
tgl_cache_prune(TglContext *cx, uint64_t limit, int64_t *n)
{
	if (!cx)
		return TGL_ERROR_USAGE;
	context_begin(cx);
	Cache *c = context_cache(cx);
	return removed(cx, cache_prune(c, limit ? (int64_t)MIN(limit, (uint64_t)INT64_MAX) : cache_limit(c)), n);
}

TglStatus
tgl_cache_clear(TglContext *cx, bool tuning, int64_t *n)
{
	if (!cx)
		return TGL_ERROR_USAGE;
	context_begin(cx);
	int64_t gone = cache_clear(context_cache(cx));
	int64_t results = tuning && gone >= 0 ? tune_clear(cx->cache) : 0;
	return removed(cx, results < 0 ? -1 : gone + results, n);
}

/* ---- between caches ---- */

typedef struct Copy {
	Cache *from, *to;
	int64_t n;
} Copy;

static void
key_read(const char *text, Hash *out)
{
	for (int i = 0; i < HASH_BYTES; i++) {
		const char byte[3] = {text[2 * i], text[2 * i + 1], 0};
		out->byte[i] = (unsigned char)strtol(byte, NULL, 16);
	}
}

/* What is damaged is not found, and what other compilers made is of no use there either. */
static bool
copy_entry(void *user, const TglCacheEntry *e)
{
	Copy *c = user;
	Hash key;
	Text bytes = {0}, there = {0};
	key_read(e->key, &key);
	if (e->current && !cache_get(c->to, &key, &there) && cache_get(c->from, &key, &bytes)) {
		c->n += cache_put(c->to, &key, &(CacheAbout){e->kernel, e->file, e->target, e->values}, bytes.at, bytes.n);
	}
	text_close(&bytes);
	text_close(&there);
	return true;
}

static TglStatus
copy_all(TglContext *cx, const char *folder, bool out, int64_t *n)
{
	Cache *other = cache_open(&(CacheOptions){.folder = folder, .limit = INT64_MAX});
	Copy c = {out ? context_cache(cx) : other, out ? other : context_cache(cx), 0};
	if (out)
		cache_database(other, true);    /* what has nothing to export can be imported, too */
	cache_each(c.from, copy_entry, &c);
	const char *why = cache_warning(other);
	if (why)
		diag_warning(cx->own, NOWHERE, DIAG_CACHE, why);
	cache_close(other);
	if (n)
		*n = c.n;
	return end(cx);
}

TglStatus
tgl_cache_export(TglContext *cx, const char *folder, int64_t *n)
{
	if (!cx || !context_call(cx, "tgl_cache_export", "folder", folder))
		return TGL_ERROR_USAGE;
	return copy_all(cx, folder, true, n);
}

TglStatus
tgl_cache_import(TglContext *cx, const char *folder, int64_t *n)
{
	if (!cx || !context_call(cx, "tgl_cache_import", "folder", folder))
		return TGL_ERROR_USAGE;
	return copy_all(cx, folder, false, n);
}

/* ---- tuning results as text ---- */

typedef struct Lines {
	void (*write)(void *user, const char *line);
	void *user;
} Lines;

static bool
write_line(void *user, const TuneEntry *e)
{
	const Lines *l = user;
	Text t = {0};
	tune_print(e, &t);
	l->write(l->user, t.at);
	text_close(&t);
	return true;
}

TglStatus
tgl_tuning_export(TglContext *cx, void (*write)(void *user, const char *line), void *user)
{
	if (!cx)
		return TGL_ERROR_USAGE;
	context_begin(cx);
	if (!write) {
		context_null(cx, NULL, "tgl_tuning_export", "write");
		return TGL_ERROR_USAGE;
	}
	Lines l = {write, user};
	tune_each(context_cache(cx), write_line, &l);
	return end(cx);
}

typedef struct Import {
	Cache *c;
	int64_t n;
} Import;

static bool
import_one(void *user, const TuneEntry *e)
{
	Import *i = user;
	i->n++;
	return tune_put(i->c, e);
}

/* Nothing is taken from a text that would end for us before it does. */
static bool
has_nul(const char *text, size_t size, int *line, const char **why)
{
	const char *nul = memchr(text, 0, size);
	*line = 1;
	for (const char *s = text; nul && s < nul; s++)
		*line += *s == '\n';
	*why = "it holds a NUL byte";
	return nul;
}

TglStatus
tgl_tuning_import(TglContext *cx, const char *text, size_t size, int64_t *count)
{
	int line;
	const char *why = "";
	if (!cx || !context_call(cx, "tgl_tuning_import", "text", text))
		return TGL_ERROR_USAGE;
	Arena *mem = arena_open();
	Import i = {.c = context_cache(cx)};
	bool ok = !has_nul(text, size, &line, &why) &&
		  tune_read(arena_strndup(mem, text, size), import_one, &i, &line, &why);
	arena_close(mem);
	if (count)
		*count = i.n;
	if (ok)
		return end(cx);
	diag_error(cx->own, NOWHERE, DIAG_TUNE_TEXT, line, why);
	return context_fail(cx, TGL_ERROR_FILE, NULL);
}
