/* Whether what lies in the cache can be only the user's own.
 *
 * Code comes out of the cache and is run, so nothing is read that another user can have put there: the folder, the
 * database, the files that SQLite keeps beside it and the lock must belong to the user or to root, must be writable by
 * no other user, and are no symbolic links (the folder may be one of the user's own).  Inside such a folder no other user
 * can change anything, so that what was looked at is what is then opened.
 *
 * Files of the user's own that others may read lose that right. */
#include "runtime/cache/cache.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHERS_WRITE = S_IWGRP | S_IWOTH, OTHERS = S_IRWXG | S_IRWXO };

static bool
is_trusted_user(uid_t user)
{
	return user == geteuid() || user == 0;
}

static bool
has_trusted_owner(const char *path, const struct stat *st, char why[CACHE_WHY])
{
	if (is_trusted_user(st->st_uid) && !(st->st_mode & OTHERS_WRITE))
		return true;
	if (is_trusted_user(st->st_uid))
		snprintf(why, CACHE_WHY, "'%s' can be written to by other users (mode %03o)", path,
		    (unsigned)st->st_mode & 0777);
	else
		snprintf(why, CACHE_WHY, "'%s' belongs to another user (%ld)", path, (long)st->st_uid);
	return false;
}

static bool
trust_folder(const char *folder, char why[CACHE_WHY])
{
	struct stat st;
	bool there = lstat(folder, &st) == 0;
	if (there && S_ISLNK(st.st_mode) && !is_trusted_user(st.st_uid)) {
		snprintf(why, CACHE_WHY, "'%s' is a symbolic link of another user (%ld)", folder, (long)st.st_uid);
		return false;
	}
	if (!there || stat(folder, &st) != 0) {
		snprintf(why, CACHE_WHY, "'%s': %s", folder, strerror(errno));
		return false;
	}
	return has_trusted_owner(folder, &st, why);
}

/* A file that need not be there. */
static bool
trust_file(const char *path, char why[CACHE_WHY])
{
	struct stat st;
	if (lstat(path, &st) != 0)
		return true; /* or it cannot be reached, and will not be opened either */
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, CACHE_WHY, "'%s' is %s", path, S_ISLNK(st.st_mode) ? "a symbolic link" : "not a file");
		return false;
	}
	if (!has_trusted_owner(path, &st, why))
		return false;
	if (st.st_uid == geteuid() && (st.st_mode & OTHERS))
		chmod(path, st.st_mode & (mode_t)~OTHERS & 07777);
	return true;
}

bool
cache_trusts(const char *folder, const char *path, char why[CACHE_WHY])
{
	static const char *const beside[] = {"", "-wal", "-shm", "-journal"};
	Text name = {0};
	bool ok = trust_folder(folder, why);
	for (int i = 0; i <= LEN(beside) && ok; i++) {
		name.n = 0;
		if (i < LEN(beside))
			text_printf(&name, "%s%s", path, beside[i]);
		else
			text_printf(&name, "%s/lock", folder);
		ok = trust_file(name.at, why);
	}
	text_close(&name);
	return ok;
}
