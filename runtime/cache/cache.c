/* The database on disk: opened when it is first needed, given up when it cannot be used, and set
 * aside when it is damaged.
 *
 * SQLite, because many processes write at once, any of them may be killed at any moment and the disk
 * may be full, and because SQLite is tested for all of that.  The journal is a write-ahead
 * log where the file system can do that (readers and a writer do not wait for one another) and what
 * SQLite falls back to elsewhere.  A commit is not forced to the disk: a loss of power may lose
 * the last entries, which are then made again.
 *
 * A folder has a file `lock` beside the database, held while a database is begun or set aside: of two
 * processes that find the same damage, the second must not set aside what the first has just begun.
 * The file's number, as it was when it was opened, shows that.
 *
 * A database that cannot be written to (no permission, a read-only or full disk) is still read.  One that another user can
 * have written to is not: cache_trust.c. */
#include "runtime/cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUSY_MILLISECONDS = 2000, MAX_REBUILDS = 3, MAX_BROKEN = 9, WARNING_BYTES = 1024 };

struct Cache {
	char *folder, *path;
	int64_t limit;
	int64_t (*now)(void);
	sqlite3 *db;                    /* NULL: not opened yet, or given up */
	bool off, read_only;
	pid_t owner;                    /* SQLite's objects do not live through fork() */
	dev_t device;                   /* of the file that is open */
	ino_t number;
	int rebuilds;
	bool said;                      /* one warning is enough … */
	bool waiting;                   /* … and it has not been asked for yet */
	char warning[WARNING_BYTES];
};

static const char schema[] =
    "PRAGMA auto_vacuum = INCREMENTAL;"
    "PRAGMA journal_mode = WAL;"
    "BEGIN IMMEDIATE;"                                  /* all or none: a disk may be full in between */
    "CREATE TABLE IF NOT EXISTS artefact (key BLOB PRIMARY KEY, size INTEGER NOT NULL,"
    " used INTEGER NOT NULL, made INTEGER NOT NULL, compiler TEXT NOT NULL, kernel TEXT NOT NULL,"
    " file TEXT NOT NULL, target TEXT NOT NULL, about TEXT NOT NULL, digest BLOB NOT NULL,"
    " bytes BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS artefact_used ON artefact (used, size);"
    "CREATE TABLE IF NOT EXISTS tuning (device TEXT NOT NULL, hash TEXT NOT NULL,"
    " dtypes TEXT NOT NULL, sizes TEXT NOT NULL, kernel TEXT NOT NULL, winner TEXT NOT NULL,"
    " seconds REAL NOT NULL, plain REAL NOT NULL, made INTEGER NOT NULL,"
    " PRIMARY KEY (device, hash, dtypes, sizes));"
    "COMMIT;";

/* ---- open and close ---- */

static char *
join(const char *a, const char *b)
{
	size_t n = strlen(a) + strlen(b) + 1;
	char *s = memory_new(n, 1);
	snprintf(s, n, "%s%s", a, b);
	return s;
}

Cache *
cache_open(const CacheOptions *o)
{
	Cache *c = memory_new(1, sizeof *c);
	c->off = o->off || !o->folder;
	c->limit = o->limit > 0 ? o->limit : CACHE_LIMIT;
	c->now = o->now;
	if (o->wrong) {
		number_format(c->warning, sizeof c->warning, "%s", o->wrong);
		c->waiting = true;
	}
	if (!c->off) {
		c->folder = join(o->folder, "");
		c->path = join(o->folder, "/cache1.db"); /* 1: of these tables */
	}
	return c;
}

static void
close_database(Cache *c)
{
	if (c->db && c->owner == getpid())
		sqlite3_close(c->db);
	c->db = NULL;
}

void
cache_close(Cache *c)
{
	if (!c)
		return;
	close_database(c);
	free(c->folder);
	free(c->path);
	free(c);
}

const char *
cache_path(const Cache *c)
{
	return c->path;
}

int64_t
cache_limit(const Cache *c)
{
	return c->limit;
}

int
cache_rebuilds(const Cache *c)
{
	return c->rebuilds;
}

int64_t
cache_now(const Cache *c)
{
	return c->now ? c->now() : (int64_t)time(NULL);
}

/* ---- warnings ---- */

static void warn(Cache *c, const char *fmt, ...) PRINTF(2, 3);

static void
warn(Cache *c, const char *fmt, ...)
{
	va_list ap;
	if (c->said)
		return;
	c->said = c->waiting = true;
	va_start(ap, fmt);
	number_vformat(c->warning, sizeof c->warning, fmt, ap);
	va_end(ap);
}

const char *
cache_warning(Cache *c)
{
	bool waiting = c && c->waiting;
	if (waiting)
		c->waiting = false;
	return waiting ? c->warning : NULL;
}

static void
close_for_good(Cache *c)
{
	close_database(c);
	c->off = true;
}

/* ---- the lock of the folder ---- */

/* -1: there is none; then one does without. */
static int
lock_folder(const Cache *c)
{
	char *path = join(c->folder, "/lock");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	free(path);
	while (fd >= 0 && flock(fd, LOCK_EX) != 0)
		if (errno != EINTR)
			break;
	return fd;
}

static void
unlock_folder(int fd)
{
	if (fd >= 0)
		close(fd);
}

static bool
same_file(const Cache *c)
{
	struct stat st;
	return stat(c->path, &st) == 0 && st.st_dev == c->device && st.st_ino == c->number;
}

/* A name for the damaged database: "….broken", or with the first number that is free; NULL: all are taken. */
static char *
free_name(const Cache *c)
{
	struct stat st;
	for (int i = 1; i <= MAX_BROKEN; i++) {
		char end[16] = ".broken";
		if (i > 1)
			snprintf(end, sizeof end, ".broken%d", i);
		char *name = join(c->path, end);
		if (lstat(name, &st) != 0)
			return name;
		free(name);
	}
	return NULL;
}

static void
move_aside(Cache *c, const char *why)
{
	char *aside = free_name(c), *log = join(c->path, "-wal"), *memory = join(c->path, "-shm");
	bool ok = (aside ? rename(c->path, aside) : unlink(c->path)) == 0;
	if (!ok)
		warn(c, "the cache '%s' is damaged (%s) and cannot be set aside: %s", c->path, why, strerror(errno));
	else if (aside)
		warn(c, "the cache was damaged (%s); it is now '%s', and a new one is begun", why, aside);
	else
		warn(c, "the cache '%s' was damaged (%s); it is removed, as %d of '%s.broken' are there already, and a "
		    "new one is begun", c->path, why, MAX_BROKEN, c->path);
	unlink(log);
	unlink(memory);
	c->off = !ok;
	free(aside);
	free(log);
	free(memory);
}

/* The damaged database gets another name, unless another process has already done that.  What is read without its log
 * may look damaged while another process writes: that is left alone. */
static void
set_aside(Cache *c, const char *why)
{
	close_database(c);
	if (c->read_only) {
		warn(c, "the cache '%s' cannot be written to, nor read without that: %s", c->path, why);
		c->off = true;
		return;
	}
	int lock = lock_folder(c);
	if (same_file(c))
		move_aside(c, why);
	unlock_folder(lock);
	if (++c->rebuilds > MAX_REBUILDS)
		close_for_good(c);
}

/* "disk I/O error: No space left on device" */
static void
put_reason(const Cache *c, int result, char out[256])
{
	const char *text = c->db ? sqlite3_errmsg(c->db) : sqlite3_errstr(result);
	int system = c->db ? sqlite3_system_errno(c->db) : 0;
	bool io = (result & 0xff) == SQLITE_IOERR || (result & 0xff) == SQLITE_CANTOPEN;
	snprintf(out, 256, "%s%s%s", text, io && system ? ": " : "", io && system ? strerror(system) : "");
}

void
cache_failed(Cache *c, int result, bool write)
{
	char reason[256];
	put_reason(c, result, reason);
	switch (result & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		break; /* others are at it; the work is done without */
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
	case SQLITE_ERROR: /* tables that are not ours */
		set_aside(c, reason);
		break;
	default:
		warn(c, "the cache '%s' cannot be %s: %s", c->path, write ? "written to" : "read", reason);
		c->read_only = true;
		if (!write)
			close_for_good(c);
	}
}

/* ---- the database ---- */

/* The folder and those above it. */
static bool
make_folder(const char *path)
{
	struct stat st;
	char *p = join(path, "");
	for (char *s = strchr(p + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = 0;
		mkdir(p, 0700);
		*s = '/';
	}
	free(p);
	return mkdir(path, 0700) == 0 || (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static bool
open_file(Cache *c, const char *path, int flags)
{
	sqlite3 *db = NULL;
	struct stat st;
	int r = sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, NULL);
	c->db = db;
	c->owner = getpid();
	if (r != SQLITE_OK) {
		cache_failed(c, r, false);
		close_database(c);
		return false;
	}
	sqlite3_extended_result_codes(db, 1);
	sqlite3_busy_timeout(db, BUSY_MILLISECONDS);
	if (stat(c->path, &st) == 0) {
		c->device = st.st_dev;
		c->number = st.st_ino;
	}
	return true;
}

/* Whether it can be read; a log that can't be opened, for lack of permission or of room on the disk, is done without. */
static int
try_reading(Cache *c)
{
	return sqlite3_exec(c->db, "SELECT 1 FROM artefact LIMIT 1", NULL, NULL, NULL);
}

static bool
open_to_read(Cache *c)
{
	c->read_only = true;
	if (try_reading(c) == SQLITE_OK)
		return true;
	Text uri = {0};
	text_put(&uri, "file:");
	for (const char *s = c->path; *s; s++)
		text_printf(&uri, strchr("%?# ", *s) ? "%%%02x" : "%c", (unsigned char)*s);
	text_put(&uri, "?immutable=1");
	close_database(c);
	bool ok = open_file(c, uri.at, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
	text_close(&uri);
	int r = ok ? try_reading(c) : SQLITE_OK;
	if (ok && r != SQLITE_OK)
		cache_failed(c, r, false);
	return c->db != NULL;
}

/* Tables are made under the folder's lock: SQLite does not wait for others to change a journal's
 * mode. */
static bool
begin(Cache *c)
{
	int lock = lock_folder(c);
	int r = sqlite3_exec(c->db, schema, NULL, NULL, NULL);
	unlock_folder(lock);
	if (r != SQLITE_OK)
		cache_failed(c, r, true);
	if (r != SQLITE_OK && c->db)                            /* there is nothing to read */
		close_for_good(c);
	return r == SQLITE_OK && c->db;
}

/* SQLite would make a file that others may read.  Where it cannot be made, SQLite says why. */
static void
make_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0)
		close(fd);
}

static bool
open_database(Cache *c, bool create)
{
	struct stat st;
	char why[CACHE_WHY];
	bool there = lstat(c->path, &st) == 0;
	if (!there && !create)
		return false;
	if (!there && !make_folder(c->folder)) {
		warn(c, "the folder '%s' of the cache cannot be made: %s", c->folder, strerror(errno));
		c->off = true;
		return false;
	}
	if (!cache_trusts(c->folder, c->path, why)) {
		warn(c, "the cache is not used: %s; what lies there may be others' code", why);
		c->off = true;
		return false;
	}
	if (!there)
		make_file(c->path);
	if (!open_file(c, c->path, SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0)))
		return false;
	if (sqlite3_db_readonly(c->db, "main") == 1)
		return open_to_read(c);
	sqlite3_exec(c->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
	int r = there && st.st_size ? try_reading(c) : SQLITE_ERROR;
	if (r == SQLITE_READONLY_DIRECTORY || r == SQLITE_CANTOPEN || (r & 0xff) == SQLITE_IOERR || r == SQLITE_FULL ||
	    (r == SQLITE_READONLY_CANTINIT || r == SQLITE_READONLY_CANTLOCK))
		return open_to_read(c);
	return r == SQLITE_OK || begin(c);
}

bool
cache_is_read_only(const Cache *c)
{
	return c->read_only;
}

sqlite3 *
cache_database(Cache *c, bool write)
{
	if (c->db && c->owner != getpid())
		c->db = NULL; /* the parent's */
	for (int i = 0; i < 2 && !c->db && !c->off; i++) /* again after setting aside */
		open_database(c, write);
	if (c->off || !write || !c->read_only)
		return c->off ? NULL : c->db;
	warn(c, "the cache '%s' cannot be written to: it can only be read, and nothing is kept", c->path);
	return NULL;
}

sqlite3_stmt *
cache_prepare(Cache *c, const char *sql, bool write)
{
	sqlite3_stmt *s = NULL;
	sqlite3 *db = cache_database(c, write);
	int r = db ? sqlite3_prepare_v2(db, sql, -1, &s, NULL) : SQLITE_OK;
	if (r != SQLITE_OK)
		cache_failed(c, r, write);
	return s;
}

const char *
cache_column(sqlite3_stmt *s, int i)
{
	const char *t = (const char *)sqlite3_column_text(s, i);
	return t ? t : "";
}

bool
cache_run(Cache *c, const char *sql)
{
	sqlite3 *db = cache_database(c, true);
	int r = db ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_OK;
	if (r != SQLITE_OK)
		cache_failed(c, r, true);
	return db && r == SQLITE_OK;
}
