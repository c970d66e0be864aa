/* The `tegula` command: finds the command in the table and calls it. */
#include "tool/cli.h"

#include <signal.h>

static int (*const run[CMD_COUNT])(const Cli *cli) = {
#define COMMAND(id, name, args, summary, more) cmd_##id,
#include "tool/commands.def"
};

int
main(int argc, char **argv)
{
	Cli cli = {.mem = arena_open()};
	signal(SIGXFSZ, SIG_IGN);                   /* a file beyond its limit fails as a full disk does */
	int status = EXIT_MISUSE;
	if (cli_parse(&cli, argc, argv)) {
		if (cli_has(&cli, OPT_VERSION)) {
			printf("tegula %s\n", tgl_version());
			status = EXIT_GOOD;
		} else if (cli_has(&cli, OPT_HELP)) {
			cli.args.n = 0;
			if (cli.command != CMD_help)
				vec_push(cli.mem, &cli.args, command_info[cli.command].name);
			status = cmd_help(&cli);
		} else if (cli_read_input(&cli)) {
			status = run[cli.command](&cli);
		}
		if (argc < 2)
			status = EXIT_MISUSE;
	}
	status = cli_finish(status);
	text_close(&cli.input);
	arena_close(cli.mem);
	return status;
}
