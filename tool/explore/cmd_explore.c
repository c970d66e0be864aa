/* explore: serves the page until Ctrl-C or SIGTERM. */
#define _GNU_SOURCE
#include "tool/explore/explore.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
make_token(char *out)
{
	unsigned char byte[TOKEN_DIGITS / 2];
	if (getentropy(byte, sizeof byte) != 0)
		return cli_wrong("there are no random numbers: %s", strerror(errno)), false;
	for (size_t i = 0; i < sizeof byte; i++)
		snprintf(out + 2 * i, 3, "%02x", byte[i]);
	return true;
}

/* The folder, and which of its files comes first: FILE's own folder, or FOLDER and the first that it has. */
static bool
find_folder(Explorer *x, const char *operand)
{
	struct stat s;
	char path[PATH_MAX];
	if (!realpath(operand, path) || stat(path, &s) != 0)
		return cli_wrong("cannot read '%s': %s", operand, strerror(errno)), false;
	if (S_ISDIR(s.st_mode)) {
		x->folder = arena_strdup(x->mem, path);
		json_t *files = explorer_files(x);
		const char *first = json_string_value(json_array_get(files, 0));
		x->first = first ? arena_strdup(x->mem, first) : NULL;
		json_decref(files);
		return x->first ? true : (cli_wrong("there is no .tgl file in '%s'", operand), false);
	}
	char *slash = strrchr(path, '/');
	x->folder = arena_strndup(x->mem, path, MAX((size_t)(slash - path), (size_t)1));
	x->first = arena_strdup(x->mem, slash + 1);
	char *real = explorer_path(x, x->first);
	free(real);
	return real ? true : (cli_wrong("'%s' is no .tgl file", operand), false);
}

static int
serve_until_told(Explorer *x)
{
	sigset_t ends;
	int which;
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);    /* before there are threads: all of them inherit it */
	signal(SIGPIPE, SIG_IGN);
	Server *s = server_open(x);
	if (!s)
		return EXIT_WRONG;
	printf("http://127.0.0.1:%d/%s/\nOpen this address in a browser of this machine; Ctrl-C ends.\n", x->port,
	    x->token);
	fflush(stdout);
	while (sigwait(&ends, &which) != 0) {}
	server_close(s);
	return EXIT_GOOD;
}

int
cmd_explore(const Cli *cli)
{
	int64_t port;
	if (!cli_operands(cli, 1, 1) || !cli_number(cli, OPT_PORT, 0, &port))
		return EXIT_MISUSE;
	if (port > UINT16_MAX)
		return cli_misuse("--port takes a number up to %d", UINT16_MAX);
	Explorer x = {.mem = cli->mem, .program = cli_program(cli), .port = (int)port,
		.lock = PTHREAD_MUTEX_INITIALIZER};
	if (!x.program)
		return cli_wrong("cannot tell where this program is: there is no /proc");
	return find_folder(&x, cli->args.at[0]) && make_token(x.token) ? serve_until_told(&x) : EXIT_WRONG;
}
