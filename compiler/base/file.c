/* Files that appear whole or not at all.
 *
 * The contents go to a file without a name in the folder of the target (O_TMPFILE) and get the target's name once they
 * are on disk, so that a process killed half-way leaves nothing behind.  Where the file system has no such files, a short
 * name of its own (".tegula-PID-N") is used; signals that end a process wait while that name exists.
 *
 * A symbolic link stays a link: what it points to is written, and made if it is missing.  A file with several names (hard
 * links) and what is no regular file (a pipe, /dev/null) is written in place.  Rights and owner of a file stay. */
#define _GNU_SOURCE                                 /* O_TMPFILE */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS = 40, NAMES = 100, PIECE = 1 << 30 };

bool
file_put(int fd, const void *bytes, size_t n)
{
	const char *at = bytes;
	while (n > 0) {
		ssize_t k = write(fd, at, MIN(n, (size_t)PIECE));
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		at += k;
		n -= (size_t)k;
	}
	return true;
}

static bool
close_after(int fd, bool ok)
{
	int keep = errno;
	if (close(fd) != 0 && ok)
		return false;
	errno = keep;
	return ok;
}

/* The part of a path before its last name, with the slash; its length. */
static size_t
folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? (size_t)(slash - path) + 1 : 0;
}

static char *
folder_of(const char *path)
{
	size_t n = folder_length(path);
	return n ? strndup(path, n) : strdup(".");
}

/* What the link at `path` names, beside `path` if it is relative; NULL with errno if it is no link. */
static char *
follow(const char *path)
{
	char to[PATH_MAX];
	ssize_t n = readlink(path, to, sizeof to);
	if (n < 0 || n == (ssize_t)sizeof to)
		return NULL;
	Text next = {0};
	if (to[0] != '/')
		text_putn(&next, path, folder_length(path));
	text_putn(&next, to, (size_t)n);
	return next.at;
}

/* What a path names behind symbolic links, even to what is missing; malloc'ed. */
static char *
file_target(const char *path)
{
	char *at = strdup(path);
	struct stat st;
	for (int i = 0; at && i < LINKS; i++) {
		bool is_special = stat(at, &st) == 0 && !S_ISREG(st.st_mode);   /* as /dev/stdout's pipe, without a name */
		char *next = is_special ? NULL : follow(at);
		if (!next)
			return at;
		free(at);
		at = next;
	}
	free(at);
	errno = ELOOP;
	return NULL;
}

bool
file_same(const char *a, const char *b)
{
	struct stat sa, sb;
	if (stat(a, &sa) == 0 && stat(b, &sb) == 0)
		return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
	char *ta = file_target(a), *tb = file_target(b);
	bool same = false;
	if (ta && tb && strcmp(ta + folder_length(ta), tb + folder_length(tb)) == 0) {
		char *fa = folder_of(ta), *fb = folder_of(tb);
		same = stat(fa, &sa) == 0 && stat(fb, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
		free(fa);
		free(fb);
	}
	free(ta);
	free(tb);
	return same;
}

/* ---- reading ---- */

bool
file_read(const char *path, size_t most, Text *out)
{
	char block[1 << 14];
	struct stat st;
	FILE *f = fopen(path, "rb");
	if (!f)
		return false;
	bool folder = fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode);
	text_put(out, "");
	for (size_t n; !folder && out->n <= most && (n = fread(block, 1, sizeof block, f)) > 0;)
		text_putn(out, block, n);
	int keep = folder ? EISDIR : ferror(f) ? errno : 0;
	fclose(f);
	errno = keep;
	return keep == 0;
}

/* ---- writing ---- */

typedef struct Job {
	const char *target, *folder;
	const struct stat *old;                     /* the file that is replaced; NULL: a new one */
	FileWriter *write;
	void *of;
} Job;

static bool
fill(const Job *j, int fd)
{
	if (!j->write(fd, j->of))
		return false;
	if (j->old && fchmod(fd, j->old->st_mode & 0777) != 0)
		return false;
	if (j->old && j->old->st_uid != geteuid() && fchown(fd, j->old->st_uid, j->old->st_gid) != 0)
		errno = 0;                          /* only root can give a file away */
	return fsync(fd) == 0;
}

static void
sync_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

/* Signals that end a process wait for as long as a temporary name exists. */
static void
hold_signals(sigset_t *before)
{
	sigset_t ends;
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigaddset(&ends, SIGQUIT);
	pthread_sigmask(SIG_BLOCK, &ends, before);
}

static void
release_signals(const sigset_t *before)
{
	int keep = errno;
	pthread_sigmask(SIG_SETMASK, before, NULL);
	errno = keep;
}

static void
temporary_name(const Job *j, int i, Text *name)
{
	name->n = 0;
	text_printf(name, "%s/.tegula-%ld-%d", j->folder, (long)getpid(), i);
}

static bool
rename_or_remove(const char *temporary, const char *target)
{
	if (rename(temporary, target) == 0)
		return true;
	int keep = errno;
	unlink(temporary);
	errno = keep;
	return false;
}

typedef enum Outcome { DONE, FAILED, NOT_HERE } Outcome;

#ifdef O_TMPFILE
/* Gives the file without a name its name; linkat takes no name that exists, rename replaces it. */
static Outcome
link_name(const Job *j, int fd)
{
	char self[64];
	Text name = {0};
	sigset_t before;
	snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	if (!j->old && linkat(AT_FDCWD, self, AT_FDCWD, j->target, AT_SYMLINK_FOLLOW) == 0)
		return DONE;
	hold_signals(&before);
	int failed = -1;
	for (int i = 0; i < NAMES && failed != 0; i++) {
		temporary_name(j, i, &name);
		failed = linkat(AT_FDCWD, self, AT_FDCWD, name.at, AT_SYMLINK_FOLLOW);
		if (failed && errno != EEXIST)
			break;
	}
	Outcome out = failed ? NOT_HERE : rename_or_remove(name.at, j->target) ? DONE : FAILED;
	release_signals(&before);
	text_close(&name);
	return out;
}

static Outcome
write_unnamed(const Job *j)
{
	int fd = open(j->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	if (fd < 0)
		return NOT_HERE;
	Outcome out = fill(j, fd) ? link_name(j, fd) : FAILED;
	return close_after(fd, out == DONE) ? DONE : out == DONE ? FAILED : out;
}
#else
static Outcome
write_unnamed(const Job *j)
{
	return NOT_HERE;
}
#endif

static bool
write_named(const Job *j)
{
	Text name = {0};
	sigset_t before;
	int fd = -1;
	hold_signals(&before);
	for (int i = 0; i < NAMES && fd < 0; i++) {
		temporary_name(j, i, &name);
		fd = open(name.at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	bool ok = fd >= 0 && close_after(fd, fill(j, fd));
	if (fd >= 0 && !ok) {
		int keep = errno;
		unlink(name.at);
		errno = keep;
	}
	ok = ok && rename_or_remove(name.at, j->target);
	release_signals(&before);
	text_close(&name);
	return ok;
}

static bool
write_in_place(const Job *j, bool cut)
{
	int fd = open(j->target, O_WRONLY | O_CLOEXEC | (cut ? O_TRUNC : 0));
	return fd >= 0 && close_after(fd, j->write(fd, j->of));
}

static bool
write_target(Job *j, struct stat *st)
{
	if (stat(j->target, st) != 0)
		st->st_nlink = 0;
	else if (S_ISDIR(st->st_mode))
		return errno = EISDIR, false;
	else if (!S_ISREG(st->st_mode) || st->st_nlink > 1)
		return write_in_place(j, S_ISREG(st->st_mode));
	else if (access(j->target, W_OK) != 0)
		return false;                       /* renaming would replace even a file that is read-only */
	j->old = st->st_nlink ? st : NULL;
	char *folder = folder_of(j->target);
	j->folder = folder;
	Outcome out = write_unnamed(j);
	bool ok = out == DONE || (out == NOT_HERE && write_named(j));
	int keep = errno;
	if (ok)
		sync_folder(folder);
	free(folder);
	errno = keep;
	return ok;
}

bool
file_write(const char *path, FileWriter *write, void *of)
{
	struct stat st;
	char *target = file_target(path);
	if (!target)
		return false;
	Job j = {.target = target, .write = write, .of = of};
	errno = 0;
	bool ok = write_target(&j, &st);
	int keep = errno;
	free(target);
	errno = keep;
	return ok;
}
