/* Tuning results: in the database, and as lines of text for version control.
 *
 *     "NVIDIA H200" softmax 0f6c…16 bytes…9a "f32, f32" "C = 1024": BLOCK = 1024, warps = 4 (12.3 us, default 15 us)
 *
 * What the text says in brackets is for people, but is read back all the same. */
#include "runtime/cache/cache.h"

#include <math.h>
#include <sqlite3.h>
#include <string.h>

static void
bind_key(sqlite3_stmt *s, const TuneKey *k, char hash[2 * TUNE_HASH_BYTES + 1])
{
	hash_text(&k->hash, TUNE_HASH_BYTES, hash);
	sqlite3_bind_text(s, 1, k->device, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 2, hash, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 3, k->dtypes, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 4, k->sizes, -1, SQLITE_STATIC);
}

const char *
tune_get(Cache *c, const TuneKey *key, Arena *mem)
{
	char hash[2 * TUNE_HASH_BYTES + 1];
	sqlite3_stmt *s = cache_prepare(c,
	    "SELECT winner FROM tuning WHERE device = ? AND hash = ? AND dtypes = ? AND sizes = ?", false);
	if (!s)
		return NULL;
	bind_key(s, key, hash);
	int r = sqlite3_step(s);
	const char *text = r == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
	const char *found = text ? arena_strdup(mem, text) : NULL;
	sqlite3_finalize(s);
	if (r != SQLITE_ROW && r != SQLITE_DONE)
		cache_failed(c, r, false);
	return found;
}

bool
tune_put(Cache *c, const TuneEntry *e)
{
	char hash[2 * TUNE_HASH_BYTES + 1];
	sqlite3_stmt *s = cache_prepare(c,
	    "INSERT OR REPLACE INTO tuning (device, hash, dtypes, sizes, kernel, winner, seconds, plain, made)"
	    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	    true);
	if (!s)
		return false;
	bind_key(s, &e->key, hash);
	sqlite3_bind_text(s, 5, e->key.kernel, -1, SQLITE_STATIC);
	sqlite3_bind_text(s, 6, e->values, -1, SQLITE_STATIC);
	sqlite3_bind_double(s, 7, e->seconds);
	sqlite3_bind_double(s, 8, e->plain);
	sqlite3_bind_int64(s, 9, e->made ? e->made : cache_now(c));
	int r = sqlite3_step(s);
	sqlite3_finalize(s);
	if (r != SQLITE_DONE)
		cache_failed(c, r, true);
	return r == SQLITE_DONE;
}

static int
digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
read_hash(const char *s, size_t n, Hash *out)
{
	*out = (Hash){{0}};
	for (size_t i = 0; i < n && n == 2 * TUNE_HASH_BYTES; i++) {
		if (digit(s[i]) < 0)
			return false;
		out->byte[i / 2] |= (unsigned char)(digit(s[i]) << (i % 2 ? 0 : 4));
	}
	return n == 2 * TUNE_HASH_BYTES;
}

void
tune_each(Cache *c, bool (*each)(void *user, const TuneEntry *e), void *user)
{
	sqlite3_stmt *s = cache_prepare(c,
	    "SELECT device, kernel, hash, dtypes, sizes, winner, seconds, plain, made FROM tuning"
	    " ORDER BY device, kernel, hash, dtypes, sizes",
	    false);
	int r = SQLITE_DONE;
	while (s && (r = sqlite3_step(s)) == SQLITE_ROW) {
		TuneEntry e = {
		    .key = {.device = cache_column(s, 0), .kernel = cache_column(s, 1), .dtypes = cache_column(s, 3),
			.sizes = cache_column(s, 4)},
		    .values = cache_column(s, 5),
		    .seconds = sqlite3_column_double(s, 6),
		    .plain = sqlite3_column_double(s, 7),
		    .made = sqlite3_column_int64(s, 8),
		};
		if (read_hash(cache_column(s, 2), strlen(cache_column(s, 2)), &e.key.hash) && !each(user, &e)) {
			r = SQLITE_DONE;
			break;
		}
	}
	sqlite3_finalize(s);
	if (r != SQLITE_DONE)
		cache_failed(c, r, false);
}

int64_t
tune_clear(Cache *c)
{
	sqlite3 *db = cache_database(c, false);
	if (!db)
		return 0;
	if (!cache_run(c, "DELETE FROM tuning"))
		return -1;
	return sqlite3_changes(cache_database(c, false));
}

/* ---- text ---- */

void
tune_print(const TuneEntry *e, Text *out)
{
	char hash[2 * TUNE_HASH_BYTES + 1];
	hash_text(&e->key.hash, TUNE_HASH_BYTES, hash);
	text_json(out, e->key.device);
	text_printf(out, " %s %s ", e->key.kernel, hash);
	text_json(out, e->key.dtypes);
	text_put(out, " ");
	text_json(out, e->key.sizes);
	text_printf(out, ": %s (%.4g us, default %.4g us)\n", e->values, e->seconds * 1e6, e->plain * 1e6);
}

static char *
skip_blanks(char *s)
{
	while (*s == ' ' || *s == '\t' || *s == '\r')
		s++;
	return s;
}

/* "…" in place; what follows it, or NULL. */
static char *
quoted(char *s, const char **out)
{
	s = skip_blanks(s);
	if (*s != '"')
		return NULL;
	char *to = ++s;
	*out = to;
	for (; *s && *s != '"'; s++) {
		if (*s == '\\' && (s[1] == '"' || s[1] == '\\'))
			s++;
		*to++ = *s;
	}
	if (*s != '"')
		return NULL;
	*to = 0;
	return s + 1;
}

/* A word, ended by a blank that becomes its 0. */
static char *
word(char *s, const char **out)
{
	s = skip_blanks(s);
	*out = s;
	while (*s && !char_is_space(*s))
		s++;
	if (!*s || s == *out)
		return NULL;
	*s = 0;
	return s + 1;
}

/* `before`, a number and " us": `*s` moves past them. */
static bool
read_time(const char **s, const char *before, double *out)
{
	char *end;
	if (!*s || strncmp(*s, before, strlen(before)) != 0)
		return false;
	*s += strlen(before);
	*out = number_read(*s, &end) * 1e-6;
	if (end == *s || strncmp(end, " us", 3) != 0)
		return false;
	*s = end + 3;
	return true;
}

/* " BM = 128, warps = 8 (12.3 us, default 15 us)" */
static bool
read_values(char *s, TuneEntry *e)
{
	s = skip_blanks(s);
	e->values = s;
	char *open = strrchr(s, '(');
	const char *from = open;
	if (open == s || !read_time(&from, "(", &e->seconds) || !read_time(&from, ", default ", &e->plain))
		return false;
	while (open > s && open[-1] == ' ')
		open--;
	*open = 0;
	return *s && isfinite(e->seconds) && isfinite(e->plain);
}

static const char *
read_line(char *s, TuneEntry *e)
{
	const char *hash = "";
	*e = (TuneEntry){0};
	if (!(s = quoted(s, &e->key.device)))
		return "it begins with a device in quotes";
	if (!(s = word(s, &e->key.kernel)) || !(s = word(s, &hash)) || !read_hash(hash, strlen(hash), &e->key.hash))
		return "after the device come the kernel's name and 32 hexadecimal digits";
	if (!(s = quoted(s, &e->key.dtypes)) || !(s = quoted(s, &e->key.sizes)))
		return "after the digits come dtypes and sizes, each in quotes";
	if (*s != ':' || !read_values(s + 1, e))
		return "it ends with ': NAME = VALUE, … (T us, default T us)'";
	return NULL;
}

bool
tune_read(char *text, bool (*each)(void *user, const TuneEntry *e), void *user, int *line, const char **why)
{
	*line = 0;
	for (char *s = text, *end; *s; s = end) {
		TuneEntry e;
		end = s + strcspn(s, "\n");
		if (*end)
			*end++ = 0;
		++*line;
		s = skip_blanks(s);
		if (!*s || *s == '#')
			continue;
		if ((*why = read_line(s, &e)))
			return false;
		if (!each(user, &e)) {
			*why = "it cannot be kept";
			return false;
		}
	}
	return true;
}
