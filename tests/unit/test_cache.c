/* The cache on disk: what is put is found, by any number of processes, whatever happens to them and to the
 * files; and what cannot be is said once and hurts nobody. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "runtime/case/case.h"

static const CacheAbout about = {.kernel = "k", .file = "k.tgl", .target = "sm_90a", .values = "B = 1"};

typedef struct Fixture {
	char folder[64], path[96];
	int64_t limit;
} Fixture;

static int
setup(void **state)
{
	Fixture *f = calloc(1, sizeof *f);
	strcpy(f->folder, "/tmp/tegula-cache-XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	snprintf(f->path, sizeof f->path, "%s/cache1.db", f->folder);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	Fixture *f = *state;
	char path[512];
	DIR *d = opendir(f->folder);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", f->folder, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(f->folder);
	free(f);
	return 0;
}

static Cache *
open_in(const Fixture *f)
{
	return cache_open(&(CacheOptions){.folder = f->folder, .limit = f->limit});
}

static Hash
key_of(int i)
{
	return hash_bytes(&i, sizeof i);
}

/* Bytes that can be told from all others: `size` of them for entry i. */
static void
make_bytes(int i, size_t size, char *out)
{
	for (size_t k = 0; k < size; k++)
		out[k] = (char)((unsigned)i * 2654435761u >> (k % 4 * 8) ^ k * 131);
}

static void
put(Cache *c, int i, size_t size)
{
	char *bytes = malloc(size + 1);
	Hash key = key_of(i);
	make_bytes(i, size, bytes);
	cache_put(c, &key, &about, bytes, size);
	free(bytes);
}

/* Whether entry i is there; if so it must be what was put. */
static bool
is_there(Cache *c, int i, size_t size)
{
	Text t = {0};
	Hash key = key_of(i);
	char *bytes = malloc(size + 1);
	make_bytes(i, size, bytes);
	bool found = cache_get(c, &key, &t);
	if (found) {
		assert_int_equal(t.n, size);
		assert_memory_equal(t.at, bytes, size);
	}
	free(bytes);
	text_close(&t);
	return found;
}

/* ---- names ---- */

static void
assert_hash(const char *text, const char *want)
{
	char got[2 * HASH_BYTES + 1];
	Hash h = hash_bytes(text, strlen(text));
	hash_text(&h, HASH_BYTES, got);
	assert_string_equal(got, want);
}

/* The examples of FIPS 180-4's companion, and both sides of each boundary of the padding. */
static void
test_hash(void **state)
{
	assert_hash("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_hash("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	assert_hash("0123456789012345678901234567890123456789012345678901234",
	    "f34d5a0f80c0cbf84c8c0b90218c22637abd199965249da736a20143c8c9c9d9");
	assert_hash("0123456789012345678901234567890123456789012345678901234567890123",
	    "9674d9e078535b7cec43284387a6ee39956188e735a85452b0050b55341cda56");
}

static void
test_assumptions(void **state)
{
	for (uint64_t v = 1; v < 4096; v++) {
		int64_t p = assumption_of(v);
		assert_true(p >= 1 && p <= 16 && v % (uint64_t)p == 0);
		assert_true(p == 16 || v % (uint64_t)(2 * p) != 0);
	}
	assert_int_equal(assumption_of(0), 16);
	assert_int_equal(assumption_of((uint64_t)-8), 8);
	assert_int_equal(assumption_of((uint64_t)INT64_MIN), 16);
}

/* ---- one process ---- */

static void
test_kept(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	assert_false(is_there(c, 1, 100));
	assert_int_not_equal(access(f->path, F_OK), 0); /* looking makes nothing */
	put(c, 1, 100);
	put(c, 2, 0);
	put(c, 3, 300000);
	assert_true(is_there(c, 1, 100));
	cache_close(c);
	c = open_in(f);
	assert_true(is_there(c, 1, 100));
	assert_true(is_there(c, 3, 300000));
	assert_false(is_there(c, 4, 1));
	put(c, 1, 100);
	int64_t n, bytes;
	cache_total(c, &n, &bytes);
	assert_int_equal(n, 3);
	assert_int_equal(bytes, 300100);
	assert_null(cache_warning(c));
	assert_int_equal(cache_clear(c), 3);
	assert_false(is_there(c, 1, 100));
	cache_close(c);
}

static int64_t
some_time(void)
{
	return 1000000;
}

static int64_t
later(void)
{
	return 2000000;
}

typedef struct First {
	char key[2 * HASH_BYTES + 1];
	int64_t used, made;
} First;

static bool
note_first(void *user, const TglCacheEntry *e)
{
	First *f = user;
	snprintf(f->key, sizeof f->key, "%s", e->key);
	f->used = e->used;
	f->made = e->made;
	return false;
}

/* What is used stays, what is not goes, and the limit holds. */
static void
test_eviction(void **state)
{
	Fixture *f = *state;
	CacheOptions early = {.folder = f->folder, .limit = 100000, .now = some_time}, late = early;
	late.now = later;
	Cache *c = cache_open(&early);
	for (int i = 0; i < 9; i++)
		put(c, i, 10000);
	cache_close(c);
	c = cache_open(&late);
	assert_true(is_there(c, 0, 10000)); /* now used later than the others */
	First e;
	char first[2 * HASH_BYTES + 1];
	cache_each(c, note_first, &e);
	Hash key = key_of(0);
	hash_text(&key, HASH_BYTES, first);
	assert_string_equal(e.key, first);
	assert_int_equal(e.used, 2000000);
	assert_int_equal(e.made, 1000000);
	put(c, 20, 10000);
	assert_true(is_there(c, 1, 10000)); /* just full */
	put(c, 21, 25000);
	int64_t n, bytes;
	cache_total(c, &n, &bytes);
	assert_true(bytes <= 100000 && bytes > 70000);
	assert_true(is_there(c, 0, 10000));
	assert_true(is_there(c, 20, 10000));
	assert_true(is_there(c, 21, 25000));
	assert_false(is_there(c, 2, 10000));
	put(c, 22, 90001); /* more than what is left: not kept, and nothing goes for it */
	assert_false(is_there(c, 22, 90001));
	assert_true(is_there(c, 21, 25000));
	put(c, 23, 90000);
	assert_true(is_there(c, 23, 90000));
	assert_null(cache_warning(c));
	cache_close(c);
}

static int64_t
in_the_future(void)
{
	return 1000000000;
}

/* Entries of a clock that was wrong go before what is used now, and one that is found again is of now. */
static void
test_future(void **state)
{
	Fixture *f = *state;
	CacheOptions wrong = {.folder = f->folder, .limit = 100000, .now = in_the_future}, right = wrong;
	right.now = some_time;
	Cache *c = cache_open(&wrong);
	for (int i = 0; i < 9; i++)
		put(c, i, 10000);
	cache_close(c);
	c = cache_open(&right);
	assert_true(is_there(c, 4, 10000));
	for (int i = 10; i < 18; i++)
		put(c, i, 10000);
	for (int i = 10; i < 18; i++)
		assert_true(is_there(c, i, 10000));
	assert_true(is_there(c, 4, 10000));
	assert_false(is_there(c, 0, 10000) || is_there(c, 8, 10000));
	cache_close(c);
}

static void
sql(const Fixture *f, const char *text)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static void
test_pruning(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	for (int i = 0; i < 6; i++)
		put(c, i, 1000);
	cache_close(c);
	sql(f, "UPDATE artefact SET compiler = 'another' WHERE rowid <= 2");
	c = open_in(f);
	assert_int_equal(cache_prune(c, 3500), 3); /* two of another compiler, one beyond the limit */
	int64_t n, bytes;
	cache_total(c, &n, &bytes);
	assert_int_equal(n, 3);
	assert_true(is_there(c, 5, 1000));
	assert_false(is_there(c, 0, 1000));
	cache_close(c);
}

static void
test_options(void **state)
{
	Arena *mem = arena_open();
	const struct {
		const char *text;
		int64_t want;
	} size[] = {{"100", 100}, {"3K", 3072}, {"2m", 2 << 20}, {"1G", 1 << 30}, {"0", 0}, {"x", 0}, {"-5", 0},
	    {"5Mb", 0}, {"99999999999G", 0}, {"", 0}};
	setenv("TEGULA_CACHE_DIR", "/a/b", 1);
	for (int i = 0; i < LEN(size); i++) {
		setenv("TEGULA_CACHE_LIMIT", size[i].text, 1);
		CacheOptions o = cache_options(&(CacheOptions){0}, mem);
		assert_int_equal(o.limit, size[i].want);
		assert_string_equal(o.folder, "/a/b");
	}
	unsetenv("TEGULA_CACHE_DIR");
	unsetenv("TEGULA_CACHE_LIMIT");
	setenv("XDG_CACHE_HOME", "/x", 1);
	assert_string_equal(cache_options(&(CacheOptions){0}, mem).folder, "/x/tegula");
	setenv("XDG_CACHE_HOME", "not/absolute", 1);
	setenv("HOME", "/h", 1);
	assert_non_null(strstr(cache_options(&(CacheOptions){0}, mem).folder, "/h/"));
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	CacheOptions o = cache_options(&(CacheOptions){0}, mem);
	assert_null(o.folder);
	Cache *c = cache_open(&o); /* no home: no cache, and nothing to say about it */
	put(c, 1, 10);
	assert_false(is_there(c, 1, 10));
	assert_null(cache_warning(c));
	assert_null(cache_path(c));
	cache_close(c);
	setenv("TEGULA_CACHE", "off", 1);
	assert_true(cache_options(&(CacheOptions){0}, mem).off);
	setenv("TEGULA_CACHE", "/some/folder", 1);
	o = cache_options(&(CacheOptions){.off = true}, mem);
	c = cache_open(&o);
	const char *s = cache_warning(c);
	assert_true(s && strstr(s, "'/some/folder'") && strstr(s, "TEGULA_CACHE_DIR"));
	assert_null(cache_warning(c));
	cache_close(c);
	setenv("TEGULA_CACHE", "On", 1);
	setenv("TEGULA_TUNE", "OFF", 1);
	assert_null(cache_options(&(CacheOptions){0}, mem).wrong);
	setenv("TEGULA_TUNE", "never", 1);
	assert_non_null(strstr(cache_options(&(CacheOptions){0}, mem).wrong, "TEGULA_TUNE is 'never'"));
	setenv("TEGULA_CACHE_LIMIT", "5Mb", 1);
	assert_non_null(strstr(cache_options(&(CacheOptions){0}, mem).wrong, "'5Mb'"));
	unsetenv("TEGULA_CACHE");
	unsetenv("TEGULA_TUNE");
	unsetenv("TEGULA_CACHE_LIMIT");
	arena_close(mem);
}

/* ---- what can't be written ---- */

static void
test_no_folder(void **state)
{
	Cache *c = cache_open(&(CacheOptions){.folder = "/dev/null/tegula"});
	assert_false(is_there(c, 1, 10));
	assert_null(cache_warning(c));
	put(c, 1, 10);
	const char *s = cache_warning(c);
	assert_non_null(s);
	assert_non_null(strstr(s, "/dev/null/tegula"));
	put(c, 2, 10);
	assert_false(is_there(c, 1, 10));
	assert_null(cache_warning(c)); /* once */
	cache_close(c);
}

/* Runs `body` in a child; its exit status. */
static int
in_child(const Fixture *f, void (*body)(const Fixture *f))
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		body(f);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#define CHECK(x)                                                                                           \
	do {                                                                                               \
		if (!(x)) {                                                                                \
			fprintf(stderr, "%d: %s\n", __LINE__, #x);                                         \
			_exit(1);                                                                          \
		}                                                                                          \
	} while (0)

static void
use_read_only(const Fixture *f)
{
	if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
		_exit(77);
	Cache *c = open_in(f);
	CHECK(is_there(c, 1, 5000));
	CHECK(!is_there(c, 2, 5000));
	CHECK(!cache_warning(c));
	put(c, 2, 5000);
	const char *s = cache_warning(c); /* not before something is to be kept */
	CHECK(s && strstr(s, f->path) && strstr(s, "can only be read"));
	CHECK(!is_there(c, 2, 5000));
	CHECK(is_there(c, 1, 5000));
	put(c, 3, 5000);
	CHECK(!cache_warning(c));
	cache_close(c);
}

static void
test_read_only(void **state)
{
	Fixture *f = *state;
	char lock[128];
	Cache *c = open_in(f);
	put(c, 1, 5000);
	cache_close(c);
	snprintf(lock, sizeof lock, "%s/lock", f->folder);
	chmod(f->path, 0444);
	chmod(lock, 0444);
	chmod(f->folder, 0555);
	int status = in_child(f, use_read_only);
	chmod(f->folder, 0755);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

/* A limit on the size of files does what a full disk does: writes fail. */
static void
use_full_disk(const Fixture *f)
{
	struct rlimit limit = {300000, 300000};
	signal(SIGXFSZ, SIG_IGN);
	Cache *c = open_in(f);
	put(c, 1, 1000);
	CHECK(is_there(c, 1, 1000));
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	for (int i = 2; i < 20; i++)
		put(c, i, 100000);
	const char *s = cache_warning(c);
	CHECK(s && strstr(s, "cannot be written to"));
	CHECK(is_there(c, 1, 1000));
	CHECK(!is_there(c, 19, 100000));
	put(c, 30, 10);
	CHECK(!cache_warning(c));
	cache_close(c);
}

static void
test_full_disk(void **state)
{
	Fixture *f = *state;
	assert_int_equal(in_child(f, use_full_disk), 0);
	Cache *c = open_in(f); /* there is room again */
	assert_true(is_there(c, 1, 1000));
	put(c, 40, 100000);
	assert_true(is_there(c, 40, 100000));
	assert_null(cache_warning(c));
	cache_close(c);
}

/* The disk is full while the tables are made: at every size there is a cache afterwards, and nothing is taken for damaged. */
static void
begin_on_full_disk(const Fixture *f)
{
	enum { PAGE = 4096, PAGES = 24 };
	signal(SIGXFSZ, SIG_IGN);
	for (int pages = 0; pages <= PAGES; pages++) {
		struct rlimit limit = {(rlim_t)pages * PAGE, RLIM_INFINITY};
		CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		Cache *c = open_in(f);
		put(c, 1, 200000);
		CHECK(!is_there(c, 1, 200000));
		const char *s = cache_warning(c);
		CHECK(s && strstr(s, "cannot be written to"));
		CHECK(cache_rebuilds(c) == 0);
		cache_close(c);
	}
}

/* What is there is read by a process that begins when the disk is full already: nothing is written beside it then. */
static void
read_on_full_disk(const Fixture *f)
{
	enum { PAGE = 4096, PAGES = 12 };
	signal(SIGXFSZ, SIG_IGN);
	for (int pages = 0; pages <= PAGES; pages++) {
		struct rlimit limit = {(rlim_t)pages * PAGE, RLIM_INFINITY};
		CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
		Cache *c = open_in(f);
		CHECK(is_there(c, 1, 1000));
		CHECK(!cache_warning(c));
		put(c, 2, 200000);
		const char *s = cache_warning(c);
		CHECK(s && strstr(s, "cannot be written to"));
		CHECK(cache_rebuilds(c) == 0);
		cache_close(c);
	}
}

static void
test_read_on_full_disk(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	put(c, 1, 1000);
	cache_close(c);
	assert_int_equal(in_child(f, read_on_full_disk), 0);
}

static void
test_full_disk_at_first(void **state)
{
	Fixture *f = *state;
	assert_int_equal(in_child(f, begin_on_full_disk), 0);
	Cache *c = open_in(f);
	put(c, 1, 1000);
	assert_true(is_there(c, 1, 1000));
	assert_null(cache_warning(c));
	cache_close(c);
}

/* ---- many processes ---- */

enum { WRITERS = 8, EACH = 40 };

static void
write_many(const Fixture *f, int who)
{
	Cache *c = open_in(f);
	for (int i = 0; i < EACH; i++) {
		put(c, who * 1000 + i, 3000);
		put(c, 9000 + i, 20000); /* all of them the same */
		CHECK(is_there(c, who * 1000 + i, 3000));
		CHECK(is_there(c, 9000 + i, 20000));
	}
	const char *s = cache_warning(c);
	if (s)
		fprintf(stderr, "%s\n", s);
	CHECK(!s);
	cache_close(c);
}

static void
test_many_writers(void **state)
{
	Fixture *f = *state;
	pid_t pid[WRITERS];
	fflush(NULL);
	for (int i = 0; i < WRITERS; i++)
		if ((pid[i] = fork()) == 0) {
			write_many(f, i);
			_exit(0);
		}
	for (int i = 0; i < WRITERS; i++) {
		int status;
		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	Cache *c = open_in(f);
	int64_t n, bytes;
	cache_total(c, &n, &bytes);
	assert_int_equal(n, WRITERS * EACH + EACH);
	for (int w = 0; w < WRITERS; w++)
		for (int i = 0; i < EACH; i++)
			assert_true(is_there(c, w * 1000 + i, 3000));
	cache_close(c);
}

/* What a parent has opened is not a child's; both go on. */
static void
test_fork(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	put(c, 1, 100);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK(is_there(c, 1, 100));
		put(c, 2, 100);
		CHECK(is_there(c, 2, 100));
		cache_close(c);
		_exit(0);
	}
	put(c, 3, 100);
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_true(is_there(c, 2, 100));
	assert_true(is_there(c, 3, 100));
	cache_close(c);
}

/* A process that is killed while it writes leaves what was there before. */
static void
test_kill(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	put(c, -1, 50000);
	cache_close(c);
	for (int round = 0; round < 30; round++) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			Cache *mine = open_in(f);
			for (int i = 0;; i++)
				put(mine, round * 100000 + i, 100000);
		}
		usleep(3000 + (useconds_t)(round * 1700));
		kill(pid, SIGKILL);
		int status;
		waitpid(pid, &status, 0);
		c = open_in(f);
		assert_true(is_there(c, -1, 50000));
		put(c, -2 - round, 100);
		assert_true(is_there(c, -2 - round, 100));
		for (int i = 0; is_there(c, round * 100000 + i, 100000); i++)
			;
		assert_null(cache_warning(c));
		cache_close(c);
	}
	sqlite3 *db;
	sqlite3_stmt *s;
	sqlite3_open(f->path, &db);
	sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
	sqlite3_finalize(s);
	sqlite3_close(db);
}

/* ---- damage ---- */

static size_t
file_size(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void
fill(const Fixture *f)
{
	Cache *c = open_in(f);
	for (int i = 0; i < 20; i++)
		put(c, i, 2000 + (size_t)i * 500);
	cache_close(c);
}

/* Whatever is left of the database: what it gives is right, and, once the damage has been met, it can be
 * used again. */
static void
use_damaged(const Fixture *f)
{
	int missing = -1;
	for (int round = 0; round < 4 && missing; round++) {
		Cache *c = open_in(f);
		for (int i = 0; i < 20; i++)
			is_there(c, i, 2000 + (size_t)i * 500);
		for (int i = 0; i < 20; i++)
			put(c, 100 + i, 4000);
		missing = 0;
		for (int i = 0; i < 20; i++)
			missing += !is_there(c, 100 + i, 4000);
		cache_close(c);
	}
	assert_int_equal(missing, 0);
	unlink(f->path);
}

static void
test_truncated(void **state)
{
	Fixture *f = *state;
	fill(f);
	size_t size = file_size(f->path);
	assert_true(size > 100000);
	unlink(f->path);
	for (size_t cut = 0; cut < size; cut += cut < 200 ? 37 : size / 19) {
		fill(f);
		assert_int_equal(truncate(f->path, (off_t)cut), 0);
		use_damaged(f);
	}
}

static void
test_overwritten(void **state)
{
	Fixture *f = *state;
	unsigned seed = 12345;
	for (int round = 0; round < 25; round++) {
		fill(f);
		size_t size = file_size(f->path);
		int fd = open(f->path, O_RDWR);
		for (int i = 0; i < 1 + round * 3; i++) {
			char noise[64];
			seed = seed * 1103515245 + 12345;
			size_t at = (size_t)(seed >> 4) % (size - sizeof noise);
			make_bytes((int)seed, sizeof noise, noise);
			assert_int_equal(pwrite(fd, noise, sizeof noise, (off_t)at), sizeof noise);
		}
		close(fd);
		use_damaged(f);
	}
}

static void
test_not_a_database(void **state)
{
	Fixture *f = *state;
	FILE *t = fopen(f->path, "w");
	for (int i = 0; i < 1000; i++)
		fprintf(t, "this is not a database, whatever its name says\n");
	fclose(t);
	Cache *c = open_in(f);
	assert_false(is_there(c, 1, 10));
	const char *s = cache_warning(c);
	assert_non_null(s);
	assert_non_null(strstr(s, "cache1.db.broken"));
	assert_null(cache_warning(c));
	put(c, 1, 10);
	assert_true(is_there(c, 1, 10));
	cache_close(c);
	char aside[128];
	snprintf(aside, sizeof aside, "%s.broken", f->path);
	assert_int_equal(file_size(aside), 47000);
}

static void
write_text(const char *path, const char *text)
{
	FILE *t = fopen(path, "w");
	assert_non_null(t);
	for (int i = 0; i < 100; i++)
		fputs(text, t);
	fclose(t);
}

/* What was set aside stays; after nine of them a damaged database is removed. */
static void
test_damaged_again(void **state)
{
	Fixture *f = *state;
	char name[160], text[32];
	for (int i = 1; i <= 11; i++) {
		snprintf(text, sizeof text, "no database, number %02d\n", i);
		write_text(f->path, text);
		chmod(f->path, 0600);
		Cache *c = open_in(f);
		put(c, 1, 10);
		assert_true(is_there(c, 1, 10));
		const char *s = cache_warning(c);
		assert_non_null(s);
		assert_non_null(strstr(s, i <= 9 ? "it is now '" : "it is removed"));
		cache_close(c);
		unlink(f->path);
	}
	for (int i = 1; i <= 10; i++) {
		char line[32] = "";
		snprintf(name, sizeof name, i > 1 ? "%s.broken%d" : "%s.broken", f->path, i);
		snprintf(text, sizeof text, "no database, number %02d\n", i);
		FILE *t = fopen(name, "r");
		assert_int_equal(t != NULL, i <= 9);
		if (!t)
			continue;
		assert_non_null(fgets(line, sizeof line, t));
		assert_string_equal(line, text);
		fclose(t);
	}
}

/* ---- others ---- */

static mode_t
mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 0777;
}

static void
test_modes(void **state)
{
	Fixture *f = *state;
	static const char *const name[] = {"cache1.db", "cache1.db-wal", "cache1.db-shm", "lock"};
	char folder[96], path[160];
	mode_t before = umask(0);
	Cache *c = open_in(f);
	put(c, 1, 100);
	umask(before);
	assert_int_equal(mode_of(f->folder), 0700);
	for (int i = 0; i < LEN(name); i++) {
		snprintf(path, sizeof path, "%s/%s", f->folder, name[i]);
		assert_int_equal(mode_of(path), 0600);
	}
	cache_close(c);
	chmod(f->path, 0644); /* as earlier versions made it */
	c = open_in(f);
	assert_true(is_there(c, 1, 100));
	assert_int_equal(mode_of(f->path), 0600);
	cache_close(c);
	snprintf(folder, sizeof folder, "%s/a", f->folder);
	c = cache_open(&(CacheOptions){.folder = folder});
	put(c, 1, 100);
	cache_close(c);
	assert_int_equal(mode_of(folder), 0700);
	snprintf(path, sizeof path, "rm -rf %s", folder);
	assert_int_equal(system(path), 0);
}

/* Nothing is read or kept, and the complaint says why. */
static void
expect_distrust(const Fixture *f, const char *why)
{
	Cache *c = open_in(f);
	assert_false(is_there(c, 1, 100));
	put(c, 1, 100);
	assert_false(is_there(c, 1, 100));
	const char *s = cache_warning(c);
	assert_non_null(s);
	if (!strstr(s, why) || !strstr(s, "the cache is not used"))
		fail_msg("no '%s' in: %s", why, s);
	cache_close(c);
}

static void
expect_trust(const Fixture *f)
{
	Cache *c = open_in(f);
	assert_true(is_there(c, 1, 100));
	assert_null(cache_warning(c));
	cache_close(c);
}

static void
test_links(void **state)
{
	Fixture *f = *state;
	static const char *const name[] = {"cache1.db", "cache1.db-wal", "cache1.db-shm", "cache1.db-journal", "lock"};
	char path[160], away[160], why[192];
	Cache *c = open_in(f);
	put(c, 1, 100);
	cache_close(c);
	for (int i = 0; i < LEN(name); i++) {
		snprintf(path, sizeof path, "%s/%s", f->folder, name[i]);
		snprintf(away, sizeof away, "%s/away", f->folder);
		bool there = rename(path, away) == 0;
		assert_int_equal(symlink("away", path), 0);
		snprintf(why, sizeof why, "%s' is a symbolic link", path);
		expect_distrust(f, why);
		unlink(path);
		if (there)
			assert_int_equal(rename(away, path), 0);
	}
	expect_trust(f);
	Fixture link = *f; /* of the folder, the user's own: it may lie on another disk */
	snprintf(link.folder, sizeof link.folder, "%.40s/l", f->folder);
	assert_int_equal(symlink(f->folder, link.folder), 0);
	expect_trust(&link);
	if (geteuid() == 0) {
		assert_int_equal(lchown(link.folder, 65534, 65534), 0);
		expect_distrust(&link, "is a symbolic link of another user (65534)");
	}
	unlink(link.folder);
}

static void
test_writable_by_others(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	put(c, 1, 100);
	cache_close(c);
	chmod(f->folder, 0720);
	expect_distrust(f, "can be written to by other users (mode 720)");
	chmod(f->folder, 01777);
	expect_distrust(f, "can be written to by other users (mode 777)");
	chmod(f->folder, 0755);
	expect_trust(f);
	chmod(f->path, 0602);
	expect_distrust(f, "cache1.db' can be written to by other users (mode 602)");
	chmod(f->path, 0600);
	expect_trust(f);
}

static void
use_others(const Fixture *f)
{
	CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
	Cache *c = open_in(f);
	CHECK(is_there(c, 1, 100));
	CHECK(!cache_warning(c));
	cache_close(c);
}

/* Code that another user has put there is not run; root's is. */
static void
test_owners(void **state)
{
	Fixture *f = *state;
	if (geteuid() != 0)
		skip();
	Cache *c = open_in(f);
	put(c, 1, 100);
	cache_close(c);
	assert_int_equal(chown(f->folder, 65534, 65534), 0);
	expect_distrust(f, "belongs to another user (65534)");
	assert_int_equal(chown(f->folder, 0, 0), 0);
	assert_int_equal(chown(f->path, 65534, 65534), 0);
	expect_distrust(f, "cache1.db' belongs to another user (65534)");
	assert_int_equal(chown(f->path, 0, 0), 0);
	expect_trust(f);
	chmod(f->folder, 0755);
	chmod(f->path, 0644);
	assert_int_equal(in_child(f, use_others), 0);
}

/* Two processes find the same damage; only one begins anew, and what it keeps stays. */
static void
test_damage_found_twice(void **state)
{
	Fixture *f = *state;
	fill(f);
	Cache *a = open_in(f), *b = open_in(f);
	assert_true(is_there(a, 0, 2000) && is_there(b, 0, 2000));
	cache_failed(a, SQLITE_CORRUPT, false);
	put(a, 50, 100);
	assert_true(is_there(a, 50, 100));
	cache_failed(b, SQLITE_CORRUPT, false);
	assert_true(is_there(b, 50, 100));
	assert_true(is_there(a, 50, 100));
	assert_non_null(cache_warning(a));
	assert_null(cache_warning(b));
	cache_close(a);
	cache_close(b);
}

/* ---- tuning results ---- */

static bool
print_entry(void *user, const TuneEntry *e)
{
	tune_print(e, user);
	return true;
}

static bool
put_entry(void *user, const TuneEntry *e)
{
	return tune_put(user, e);
}

static void
test_tuning_text(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	Arena *mem = arena_open();
	Text first = {0}, second = {0};
	int line;
	const char *why = "";
	char text[] = "# a comment\n\n"
		      "\"NVIDIA H200\" softmax 000102030405060708090a0b0c0d0e0f \"f32, f32\" \"C = 1024\": "
		      "BLOCK = 1024, warps = 4 (12.3 us, default 15 us)\r\n"
		      "\"a \\\"b\\\" (c)\" k ffffffffffffffffffffffffffffffff \"\" \"\": B = (3) (1 us, default 2 us)";
	assert_true(tune_read(text, put_entry, c, &line, &why));
	assert_int_equal(line, 4);
	tune_each(c, print_entry, &first);
	assert_string_equal(first.at,
	    "\"NVIDIA H200\" softmax 000102030405060708090a0b0c0d0e0f \"f32, f32\" \"C = 1024\": "
	    "BLOCK = 1024, warps = 4 (12.3 us, default 15 us)\n"
	    "\"a \\\"b\\\" (c)\" k ffffffffffffffffffffffffffffffff \"\" \"\": B = (3) (1 us, default 2 us)\n");
	TuneKey key = {.device = "NVIDIA H200", .kernel = "softmax", .dtypes = "f32, f32", .sizes = "C = 1024"};
	for (int i = 0; i < 16; i++)
		key.hash.byte[i] = (unsigned char)i;
	assert_string_equal(tune_get(c, &key, mem), "BLOCK = 1024, warps = 4");
	key.sizes = "C = 2048";
	assert_null(tune_get(c, &key, mem));
	assert_int_equal(tune_clear(c), 2);
	char *copy = strdup(first.at);
	assert_true(tune_read(copy, put_entry, c, &line, &why));
	tune_each(c, print_entry, &second);
	assert_string_equal(first.at, second.at);
	free(copy);
	text_close(&first);
	text_close(&second);
	arena_close(mem);
	cache_close(c);
}

static void
test_tuning_text_refused(void **state)
{
	Fixture *f = *state;
	Cache *c = open_in(f);
	const char *const bad[] = {
	    "NVIDIA k 000102030405060708090a0b0c0d0e0f \"\" \"\": B = 1 (1 us, default 1 us)",
	    "\"d\" k 0001 \"\" \"\": B = 1 (1 us, default 1 us)",
	    "\"d\" k 000102030405060708090a0b0c0d0e0G \"\" \"\": B = 1 (1 us, default 1 us)",
	    "\"d\" k 000102030405060708090a0b0c0d0e0f \"\": B = 1 (1 us, default 1 us)",
	    "\"d\" k 000102030405060708090a0b0c0d0e0f \"\" \"\" B = 1 (1 us, default 1 us)",
	    "\"d\" k 000102030405060708090a0b0c0d0e0f \"\" \"\": B = 1",
	    "\"d\" k 000102030405060708090a0b0c0d0e0f \"\" \"\": (1 us, default 1 us)",
	    "\"d\" k 000102030405060708090a0b0c0d0e0f \"\" \"\": B = 1 (nan us, default 1 us)",
	    "\"d", "\"d\" k", "\"d\"",
	};
	for (int i = 0; i < LEN(bad); i++) {
		char text[256];
		int line;
		const char *why = NULL;
		snprintf(text, sizeof text, "# one\n%s\n", bad[i]);
		assert_false(tune_read(text, put_entry, c, &line, &why));
		assert_int_equal(line, 2);
		assert_non_null(why);
	}
	assert_int_equal(tune_clear(c), 0);
	cache_close(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_hash),
	    cmocka_unit_test(test_assumptions),
	    cmocka_unit_test(test_options),
	    TEST(test_kept),
	    TEST(test_eviction),
	    TEST(test_future),
	    TEST(test_pruning),
	    TEST(test_no_folder),
	    TEST(test_read_only),
	    TEST(test_full_disk),
	    TEST(test_read_on_full_disk),
	    TEST(test_full_disk_at_first),
	    TEST(test_many_writers),
	    TEST(test_fork),
	    TEST(test_kill),
	    TEST(test_truncated),
	    TEST(test_overwritten),
	    TEST(test_not_a_database),
	    TEST(test_damaged_again),
	    TEST(test_modes),
	    TEST(test_links),
	    TEST(test_writable_by_others),
	    TEST(test_owners),
	    TEST(test_damage_found_twice),
	    TEST(test_tuning_text),
	    TEST(test_tuning_text_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
