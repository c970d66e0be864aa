/* The source that a command is given: a file, or `-`, standard input, under the name of --as; and where the command is. */
#define _GNU_SOURCE
#include "tool/cli_build.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

static bool
takes_input(const Cli *cli)
{
	return cli->args.n > 0 && strcmp(cli->args.at[0], "-") == 0 && (option_info[OPT_AS].commands >> cli->command & 1);
}

bool
cli_read_input(Cli *cli)
{
	char part[4096];
	size_t n;
	if (!takes_input(cli)) {
		if (!cli_has(cli, OPT_AS))
			return true;
		cli_misuse("--as names the text of standard input: give '-' for the file");
		return false;
	}
	while ((n = fread(part, 1, sizeof part, stdin)) > 0)
		text_putn(&cli->input, part, n);
	if (ferror(stdin)) {
		cli_wrong("cannot read standard input");
		return false;
	}
	cli->from_input = true;
	cli->args.at[0] = cli_has(cli, OPT_AS) ? cli->value[OPT_AS] : "<stdin>";
	return true;
}

int
cli_source(const Cli *cli, Compile *cx)
{
	const char *path = cli->args.at[0];
	if (!cli->from_input)
		return source_open(cx, path, NOWHERE);
	return source_text(cx, path, cli->input.n ? cli->input.at : "", cli->input.n);
}

const char *
cli_program(const Cli *cli)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path);
	if (n > 0 && n < (ssize_t)sizeof path)
		return arena_strndup(cli->mem, path, (size_t)n);
#ifdef __APPLE__
	extern int _NSGetExecutablePath(char *buffer, uint32_t *size);
	uint32_t room = sizeof path;
	if (_NSGetExecutablePath(path, &room) == 0)
		return arena_strdup(cli->mem, path);
#endif
	return NULL;
}
