/* Where results go: files that appear whole or not at all (base/file.c), standard output whose errors are
 * reported, and a line of progress that only a terminal sees. */
#include "tool/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool
put_text(int fd, void *of)
{
	const Text *t = of;
	return file_put(fd, t->at, t->n);
}

bool
cli_write_file(const char *path, const char *text, size_t size)
{
	Text whole = {(char *)text, size, size};
	if (file_write(path, put_text, &whole))
		return true;
	cli_wrong("cannot write '%s': %s", path, strerror(errno));
	return false;
}

bool
cli_to_file(const Cli *cli)
{
	return cli_has(cli, OPT_OUTPUT) && strcmp(cli->value[OPT_OUTPUT], "-") != 0;
}

int
cli_emit(const Cli *cli, const Text *text)
{
	const char *at = text->at ? text->at : "";
	if (cli_to_file(cli))
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
