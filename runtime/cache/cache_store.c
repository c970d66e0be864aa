/* Artefacts in the database.
 *
 * Bytes are kept with their hash: SQLite notices when its own structure is damaged, but not when what
 * it holds is.  What was not used for longest goes when all of it is larger than the limit; use is
 * written down to the hour, so that a warm process seldom writes.  A use in the future, of a clock that was wrong,
 * counts as none, or its entry would outlive all others. */
#include "runtime/cache/cache.h"

#include <sqlite3.h>
#include <string.h>

enum { TOUCH_SECONDS = 3600 };

/* ---- reading ---- */

static void
touch(Cache *c, const Hash *key)
{
	if (cache_is_read_only(c))
		return;
	sqlite3_stmt *s = cache_prepare(c, "UPDATE artefact SET used = ? WHERE key = ?", true);
	if (!s)
		return;
	sqlite3_bind_int64(s, 1, cache_now(c));
	sqlite3_bind_blob(s, 2, key->byte, HASH_BYTES, SQLITE_STATIC);
	sqlite3_step(s); /* it matters little */
	sqlite3_finalize(s);
}

/* The row's bytes, if they are what was put there. */
static bool
take_bytes(sqlite3_stmt *s, Text *bytes)
{
	const void *p = sqlite3_column_blob(s, 0), *digest = sqlite3_column_blob(s, 1);
	int n = sqlite3_column_bytes(s, 0);
	if (!p || !digest || sqlite3_column_bytes(s, 1) != HASH_BYTES)
		return false;
	Hash h = hash_bytes(p, (size_t)n);
	if (memcmp(h.byte, digest, HASH_BYTES) != 0)
		return false;
	text_putn(bytes, p, (size_t)n);
	return true;
}

bool
cache_get(Cache *c, const Hash *key, Text *bytes)
{
	sqlite3_stmt *s = cache_prepare(c, "SELECT bytes, digest, used FROM artefact WHERE key = ?", false);
	if (!s)
		return false;
	sqlite3_bind_blob(s, 1, key->byte, HASH_BYTES, SQLITE_STATIC);
	int r = sqlite3_step(s);
	bool found = r == SQLITE_ROW && take_bytes(s, bytes);
	bool damaged = r == SQLITE_ROW && !found;
	int64_t used = r == SQLITE_ROW ? sqlite3_column_int64(s, 2) : 0;
	sqlite3_finalize(s);
	if (damaged || (r != SQLITE_ROW && r != SQLITE_DONE))
		cache_failed(c, damaged ? SQLITE_CORRUPT : r, false);
	int64_t now = cache_now(c);
	if (found && (used > now || used < now - TOUCH_SECONDS))
		touch(c, key);
	return found;
}

/* ---- writing ---- */

static int
insert(Cache *c, const Hash *key, const CacheAbout *about, const void *bytes, size_t size)
{
	sqlite3_stmt *s = cache_prepare(c,
	    "INSERT OR REPLACE INTO artefact (key, size, used, made, compiler, kernel, file, target, about,"
	    " digest, bytes) VALUES (?, ?, ?3, ?3, ?, ?, ?, ?, ?, ?, ?)",
	    true);
	if (!s)
		return SQLITE_ABORT; /* said already */
	Hash digest = hash_bytes(bytes, size);
	const char *const text[] = {build_id, about->kernel, about->file, about->target, about->values};
	sqlite3_bind_blob(s, 1, key->byte, HASH_BYTES, SQLITE_STATIC);
	sqlite3_bind_int64(s, 2, (int64_t)size);
	sqlite3_bind_int64(s, 3, cache_now(c));
	for (int i = 0; i < LEN(text); i++)
		sqlite3_bind_text(s, 4 + i, text[i], -1, SQLITE_STATIC);
	sqlite3_bind_blob(s, 9, digest.byte, HASH_BYTES, SQLITE_STATIC);
	sqlite3_bind_blob64(s, 10, bytes, size, SQLITE_STATIC);
	int r = sqlite3_step(s);
	sqlite3_finalize(s);
	return r == SQLITE_DONE ? SQLITE_OK : r;
}

/* Removes what was not used for longest until the rest is within `limit`. */
static int
evict(Cache *c, int64_t limit)
{
	sqlite3_stmt *s = cache_prepare(c,
	    "DELETE FROM artefact WHERE rowid IN (SELECT rowid FROM (SELECT rowid, sum(size) OVER"
	    " (ORDER BY CASE WHEN used > ?2 THEN 0 ELSE used END DESC, CASE WHEN made > ?2 THEN 0 ELSE made END DESC,"
	    " rowid DESC) AS all_since FROM artefact) WHERE all_since > ?1)",
	    true);
	if (!s)
		return SQLITE_ABORT;
	sqlite3_bind_int64(s, 1, limit);
	sqlite3_bind_int64(s, 2, cache_now(c) + TOUCH_SECONDS);
	int r = sqlite3_step(s);
	sqlite3_finalize(s);
	return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int64_t
total_bytes(Cache *c)
{
	int64_t entries, bytes;
	cache_total(c, &entries, &bytes);
	return bytes;
}

/* Ends what BEGIN began; a failure leaves the database as it was. */
static int
finish(Cache *c, int r)
{
	sqlite3 *db = cache_database(c, true);
	if (!db)
		return SQLITE_ABORT;
	if (r == SQLITE_OK)
		r = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	if (r != SQLITE_OK && r != SQLITE_ABORT)
		cache_failed(c, r, true);
	db = cache_database(c, false);
	if (db && !sqlite3_get_autocommit(db))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

/* Eviction leaves less than the limit, so that not every entry that comes makes one go. */
static int64_t
left_of(int64_t limit)
{
	return limit / 10 * 9;
}

static bool
put_once(Cache *c, const Hash *key, const CacheAbout *about, const void *bytes, size_t size)
{
	int64_t limit = cache_limit(c);
	if (!cache_run(c, "BEGIN IMMEDIATE"))
		return false;
	int r = insert(c, key, about, bytes, size);
	bool evicts = r == SQLITE_OK && total_bytes(c) > limit;
	if (evicts)
		r = evict(c, left_of(limit));
	r = finish(c, r);
	if (r == SQLITE_OK && evicts)
		cache_run(c, "PRAGMA incremental_vacuum");
	return r == SQLITE_OK;
}

bool
cache_put(Cache *c, const Hash *key, const CacheAbout *about, const void *bytes, size_t size)
{
	int before = cache_rebuilds(c);
	bool evicts_itself = (int64_t)size > left_of(cache_limit(c));   /* and all others with it */
	if (evicts_itself)
		return false;
	return put_once(c, key, about, bytes, size) ||
	    (cache_rebuilds(c) > before && put_once(c, key, about, bytes, size));       /* a new one was begun */
}

/* ---- what there is ---- */

void
cache_each(Cache *c, bool (*each)(void *user, const TglCacheEntry *e), void *user)
{
	sqlite3_stmt *s = cache_prepare(c,
	    "SELECT key, size, used, made, compiler, kernel, file, target, about FROM artefact"
	    " ORDER BY used DESC, made DESC, rowid DESC",
	    false);
	int r = SQLITE_DONE;
	while (s && (r = sqlite3_step(s)) == SQLITE_ROW) {
		Hash key = {{0}};
		char text[2 * HASH_BYTES + 1];
		if (sqlite3_column_bytes(s, 0) == HASH_BYTES)
			memcpy(key.byte, sqlite3_column_blob(s, 0), HASH_BYTES);
		hash_text(&key, HASH_BYTES, text);
		TglCacheEntry e = {.key = text,
		    .bytes = (uint64_t)sqlite3_column_int64(s, 1),
		    .used = sqlite3_column_int64(s, 2),
		    .made = sqlite3_column_int64(s, 3),
		    .current = strcmp(cache_column(s, 4), build_id) == 0,
		    .kernel = cache_column(s, 5),
		    .file = cache_column(s, 6),
		    .target = cache_column(s, 7),
		    .values = cache_column(s, 8)};
		if (!each(user, &e)) {
			r = SQLITE_DONE;
			break;
		}
	}
	sqlite3_finalize(s);
	if (r != SQLITE_DONE)
		cache_failed(c, r, false);
}

void
cache_total(Cache *c, int64_t *entries, int64_t *bytes)
{
	sqlite3_stmt *s = cache_prepare(c, "SELECT count(*), coalesce(sum(size), 0) FROM artefact", false);
	bool row = s && sqlite3_step(s) == SQLITE_ROW;
	*entries = row ? sqlite3_column_int64(s, 0) : 0;
	*bytes = row ? sqlite3_column_int64(s, 1) : 0;
	sqlite3_finalize(s);
}

/* ---- removing ---- */

static int
remove_foreign(Cache *c)
{
	sqlite3_stmt *s = cache_prepare(c, "DELETE FROM artefact WHERE compiler <> ?", true);
	if (!s)
		return SQLITE_ABORT;
	sqlite3_bind_text(s, 1, build_id, -1, SQLITE_STATIC);
	int r = sqlite3_step(s);
	sqlite3_finalize(s);
	return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int64_t
remove_some(Cache *c, bool all, int64_t limit)
{
	int64_t before, after, bytes;
	if (!cache_database(c, false))
		return 0;
	cache_total(c, &before, &bytes);
	if (!cache_run(c, "BEGIN IMMEDIATE"))
		return -1;
	int r = all ? SQLITE_OK : remove_foreign(c);
	if (r == SQLITE_OK)
		r = evict(c, all ? -1 : limit);
	if (finish(c, r) != SQLITE_OK)
		return -1;
	cache_total(c, &after, &bytes);
	cache_run(c, "PRAGMA incremental_vacuum");
	cache_run(c, "PRAGMA wal_checkpoint(TRUNCATE)");
	return before - after;
}

int64_t
cache_prune(Cache *c, int64_t limit)
{
	return remove_some(c, false, limit);
}

int64_t
cache_clear(Cache *c)
{
	return remove_some(c, true, 0);
}
