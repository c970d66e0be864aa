/* What is kept on disk between processes: artefacts and tuning results, in one SQLite database.
 *
 * A cache never makes anything fail: what goes wrong is said once, by cache_warning, and the
 * work is then done as if there were none. */
#ifndef TEGULA_CACHE_H
#define TEGULA_CACHE_H

#include "base/base.h"
#include "runtime/cache/hash.h"
#include "runtime/tgl.h"

typedef struct Cache Cache;
struct sqlite3;
struct sqlite3_stmt;

typedef struct CacheOptions {
	const char *folder;             /* NULL: the user's; made when something is first kept */
	int64_t limit;                  /* bytes of artefacts; 0: CACHE_LIMIT */
	bool off;
	int64_t (*now)(void);           /* seconds; NULL: the time of day */
	const char *wrong;              /* about a variable that is not heeded; else NULL */
} CacheOptions;

#define CACHE_LIMIT (INT64_C(512) << 20)

/* cache_options.c */

/* Options with what the environment says of those not set: TEGULA_CACHE=off, TEGULA_CACHE_DIR,
 * TEGULA_CACHE_LIMIT (bytes; K, M, G behind it), then the folder of the system.  The folder is in `mem`. */
CacheOptions cache_options(const CacheOptions *given, Arena *mem);

/* cache.c */

Cache *cache_open(const CacheOptions *o); /* touches no file */
void cache_close(Cache *c);
const char *cache_path(const Cache *c); /* of the database, there or not; NULL: it is off */
int64_t cache_limit(const Cache *c);
/* What went wrong, once; else NULL.  Until the next call. */
const char *cache_warning(Cache *c);
int64_t cache_now(const Cache *c);
int cache_rebuilds(const Cache *c);     /* how often a damaged database was set aside */

/* For cache_store.c and tune_store.c: the database, NULL if there is none to read or (`write`) to write to. */
struct sqlite3 *cache_database(Cache *c, bool write);
/* Hands a result of SQLite over that is no success. */
void cache_failed(Cache *c, int result, bool write);
/* A statement of one line of SQL; NULL after handing over why not: a cache that can only be read reports `write`. */
struct sqlite3_stmt *cache_prepare(Cache *c, const char *sql, bool write);
const char *cache_column(struct sqlite3_stmt *s, int i);        /* a row's text; "" for none */
/* A statement run at once. */
bool cache_run(Cache *c, const char *sql);
bool cache_is_read_only(const Cache *c);

/* cache_trust.c */

enum { CACHE_WHY = 512 };

/* May the database at `path` be used: can only the user and root have written to it, and to what lies beside it in its
 * folder?  Else `why` says what is wrong. */
bool cache_trusts(const char *folder, const char *path, char why[CACHE_WHY]);

/* cache_store.c: artefacts */

/* What a listing shows of an entry. */
typedef struct CacheAbout {
	const char *kernel, *file, *target;
	const char *values;             /* "BLOCK = 1024, warps = 4" */
} CacheAbout;

bool cache_get(Cache *c, const Hash *key, Text *bytes);
bool cache_put(Cache *c, const Hash *key, const CacheAbout *about, const void *bytes, size_t size);
/* Every entry, used last first, until `each` returns false. */
void cache_each(Cache *c, bool (*each)(void *user, const TglCacheEntry *e), void *user);
/* Entries and their bytes in all. */
void cache_total(Cache *c, int64_t *entries, int64_t *bytes);
/* Removes what other compilers made and the longest unused down to `limit`; how many entries.  -1: it failed. */
int64_t cache_prune(Cache *c, int64_t limit);
int64_t cache_clear(Cache *c);

/* tune_store.c: tuning results */

typedef struct TuneKey {
	const char *device;             /* "NVIDIA H200" */
	const char *kernel;             /* its name */
	Hash hash;                      /* of its text and what it calls */
	const char *dtypes, *sizes;     /* "f16, f16", "M = 4096, N = 1024": powers of two */
	const char *close_sizes;        /* in eight steps from one to the next; no part of what is kept on disk */
} TuneKey;

enum { TUNE_HASH_BYTES = 16 };          /* of a hash, in text */

typedef struct TuneEntry {
	TuneKey key;
	const char *values;             /* "BM = 128, warps = 8" */
	double seconds, plain;          /* of the winner and of the default */
	int64_t made;
} TuneEntry;

/* The winner's values, in `mem`; NULL: none. */
const char *tune_get(Cache *c, const TuneKey *key, Arena *mem);
bool tune_put(Cache *c, const TuneEntry *e);
/* Every result, in order of device, kernel, dtypes and sizes. */
void tune_each(Cache *c, bool (*each)(void *user, const TuneEntry *e), void *user);
int64_t tune_clear(Cache *c);           /* how many there were; -1: it failed */
/* As lines of text, one a result, and back.  Reading stops at the first line that is none: *line is
 * its number then (from 1), *why what is wrong. */
void tune_print(const TuneEntry *e, Text *out);
bool tune_read(char *text, bool (*each)(void *user, const TuneEntry *e), void *user, int *line,
    const char **why);

#endif
