/* Where results go: files that appear whole or not at all, standard output whose errors are noticed,
 * and a line of progress that only a terminal sees. */
#include "driver/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
write_all(int fd, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, text, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text += n;
		size -= (size_t)n;
	}
	return true;
}

static bool
write_direct(const char *path, const char *text, size_t size)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write_all(fd, text, size);
	int e = errno;
	if (fd >= 0 && close(fd) != 0 && ok) {
		ok = false;
		e = errno;
	}
	errno = e;
	return ok;
}

static bool
write_renamed(const char *path, const char *text, size_t size, mode_t mode)
{
	size_t n = strlen(path) + 16;
	char *temporary = malloc(n);
	if (!temporary)
		return false;
	snprintf(temporary, n, "%s.XXXXXX", path);
	int fd = mkstemp(temporary);
	bool ok = fd >= 0 && write_all(fd, text, size) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
	int e = errno;
	if (fd >= 0 && close(fd) != 0 && ok) {
		ok = false;
		e = errno;
	}
	if (ok && rename(temporary, path) != 0) {
		ok = false;
		e = errno;
	}
	if (!ok && fd >= 0)
		unlink(temporary);
	free(temporary);
	errno = e;
	return ok;
}

bool
cli_write_file(const char *path, const char *text, size_t size)
{
	struct stat st;
	bool exists = stat(path, &st) == 0, ok;
	char *real = exists ? realpath(path, NULL) : NULL;      /* a link stays a link */
	if (exists && !S_ISREG(st.st_mode)) {
		ok = write_direct(path, text, size);
	} else if (exists && access(path, W_OK) != 0) {
		ok = false;                         /* renaming would replace even a file that is read-only */
	} else {
		mode_t mask = umask(0);
		umask(mask);
		ok = write_renamed(real ? real : path, text, size, exists ? st.st_mode & 0777 : 0666 & ~mask);
	}
	if (!ok)
		cli_wrong("cannot write '%s': %s", path, strerror(errno));
	free(real);
	return ok;
}

int
cli_emit(const Cli *cli, const Text *text)
{
	const char *at = text->at ? text->at : "";
	if (cli_has(cli, OPT_OUTPUT))
		return cli_write_file(cli->value[OPT_OUTPUT], at, text->n) ? EXIT_GOOD : EXIT_WRONG;
	fwrite(at, 1, text->n, stdout);
	return EXIT_GOOD;
}

int
cli_finish(int status)
{
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		cli_wrong("cannot write to standard output%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
		return status == EXIT_GOOD ? EXIT_WRONG : status;
	}
	return status;
}

void
cli_progress(const Cli *cli, const char *fmt, ...)
{
	va_list ap;
	if (!cli->progress)
		return;
	fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
}

void
cli_progress_end(const Cli *cli)
{
	if (cli->progress)
		fputs("\r\033[K", stderr);
}
