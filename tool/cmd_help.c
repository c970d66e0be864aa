/* help, man and completion: three views of commands.def. */
#include "tool/cli.h"

#include <string.h>

static bool
takes(int option, int command)
{
	return option_info[option].commands >> command & 1;
}

/* "-D, --define NAME=VALUE" */
static void
option_text(int o, Text *out)
{
	const OptionInfo *i = &option_info[o];
	if (i->letter)
		text_printf(out, "-%c, ", i->letter);
	text_printf(out, "--%s%s%s", i->name, i->value ? " " : "", i->value ? i->value : "");
}

static void
print_options(int command)
{
	printf("\nOptions:\n");
	for (int o = 0; o < OPT_COUNT; o++) {
		Text t = {0};
		if (!takes(o, command))
			continue;
		option_text(o, &t);
		printf("  %-26s %s\n", t.at, option_info[o].meaning);
		text_close(&t);
	}
}

/* Text in lines of at most 79 letters. */
static void
print_wrapped(const char *text)
{
	int column = 0;
	while (*text) {
		size_t n = strcspn(text, " ");
		if (column > 0 && column + 1 + (int)n > 79) {
			putchar('\n');
			column = 0;
		}
		column += printf("%s%.*s", column ? " " : "", (int)n, text);
		text += n;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static int
help_command(int c)
{
	const CommandInfo *i = &command_info[c];
	printf("Usage: tegula %s%s%s\n\n", i->name, *i->args ? " [OPTION]... " : "", i->args);
	printf("Command %s: %s.\n", i->name, i->summary);
	if (*i->more) {
		putchar('\n');
		print_wrapped(i->more);
	}
	print_options(c);
	return EXIT_GOOD;
}

int
cmd_help(const Cli *cli)
{
	if (!cli_operands(cli, 0, 1))
		return EXIT_MISUSE;
	for (int c = 0; c < CMD_COUNT && cli->args.n == 1; c++)
		if (strcmp(cli->args.at[0], command_info[c].name) == 0)
			return help_command(c);
	if (cli->args.n == 1)
		return cli_no_command(cli->args.at[0]);
	printf("Usage: tegula COMMAND [OPTION]... [OPERAND]...\n\n"
	       "A compiler for GPU kernels: tile programs in .tgl files.\n\nCommands:\n");
	for (int c = 0; c < CMD_COUNT; c++)
		printf("  %-10s %-16s %s\n", command_info[c].name, command_info[c].args, command_info[c].summary);
	printf("\n'tegula help COMMAND' says more.  Exit status: 0 good, 1 something is wrong with the input or\n"
	       "a check failed, 2 the command line is wrong.\n");
	return EXIT_GOOD;
}

/* Text for roff: hyphens and backslashes escaped, no line begins with a dot. */
static void
roff(const char *s)
{
	if (*s == '.' || *s == '\'')
		fputs("\\&", stdout);
	for (; *s; s++) {
		if (*s == '-' || *s == '\\')
			putchar('\\');
		putchar(*s == '\\' ? 'e' : *s);
	}
}

int
cmd_man(const Cli *cli)
{
	if (!cli_operands(cli, 0, 0))
		return EXIT_MISUSE;
	printf(".TH TEGULA 1 \"\" \"tegula %s\" \"User Commands\"\n.SH NAME\ntegula \\- compile and run GPU kernels "
	       "written as tile programs\n.SH SYNOPSIS\n.B tegula\n.I COMMAND\n[\\fIOPTION\\fR]... [\\fIOPERAND\\fR]...\n"
	       ".SH COMMANDS\n", tgl_version());
	for (int c = 0; c < CMD_COUNT; c++) {
		printf(".TP\n.B %s\\fR %s\n", command_info[c].name, command_info[c].args);
		roff(command_info[c].summary);
		puts(".");
		if (*command_info[c].more) {
			roff(command_info[c].more);
			putchar('\n');
		}
	}
	puts(".SH OPTIONS");
	for (int o = 0; o < OPT_COUNT; o++) {
		Text t = {0};
		option_text(o, &t);
		fputs(".TP\n.B ", stdout);
		roff(t.at);
		putchar('\n');
		roff(option_info[o].meaning);
		fputs(" (", stdout);
		if (option_info[o].commands == ~0u)
			fputs("all commands", stdout);
		for (int c = 0, n = 0; c < CMD_COUNT && option_info[o].commands != ~0u; c++)
			if (takes(o, c))
				printf("%s%s", n++ ? ", " : "", command_info[c].name);
		puts(")");
		text_close(&t);
	}
	puts(".SH EXIT STATUS\n0: good.  1: something is wrong with the input, or a check failed.  2: the command "
	     "line is wrong.");
	return EXIT_GOOD;
}

static void
bash_completion(void)
{
	puts("_tegula() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=\n\tif [ $COMP_CWORD -eq 1 ]; then");
	printf("\t\twords='");
	for (int c = 0; c < CMD_COUNT; c++)
		printf("%s%s", c ? " " : "", command_info[c].name);
	puts("'\n\telif [[ $cur == -* ]]; then\n\t\tcase ${COMP_WORDS[1]} in");
	for (int c = 0; c < CMD_COUNT; c++) {
		printf("\t\t%s) words='", command_info[c].name);
		for (int o = 0, n = 0; o < OPT_COUNT; o++)
			if (takes(o, c))
				printf("%s--%s", n++ ? " " : "", option_info[o].name);
		puts("' ;;");
	}
	puts("\t\tesac\n\tfi\n\tif [ -n \"$words\" ]; then\n\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	     "\telse\n\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\tfi\n}\ncomplete -o filenames -F _tegula tegula");
}

/* A description for zsh: no brackets, colons or quotes. */
static void
zsh_text(const char *s)
{
	for (; *s; s++)
		if (!strchr("[]:'", *s))
			putchar(*s);
}

static void
zsh_completion(void)
{
	puts("#compdef tegula\n_tegula() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a commands=(");
	for (int c = 0; c < CMD_COUNT; c++) {
		printf("\t\t\t'%s:", command_info[c].name);
		zsh_text(command_info[c].summary);
		puts("'");
	}
	puts("\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tcase $words[2] in");
	for (int c = 0; c < CMD_COUNT; c++) {
		printf("\t%s) _arguments", command_info[c].name);
		for (int o = 0; o < OPT_COUNT; o++) {
			if (!takes(o, c))
				continue;
			printf(" '*--%s%s[", option_info[o].name, option_info[o].value ? "=" : "");
			zsh_text(option_info[o].meaning);
			printf("]%s'", option_info[o].value ? ":value:" : "");
		}
		puts(" '*:file:_files' ;;");
	}
	puts("\tesac\n}\n_tegula \"$@\"");
}

int
cmd_completion(const Cli *cli)
{
	if (!cli_operands(cli, 1, 1))
		return EXIT_MISUSE;
	if (strcmp(cli->args.at[0], "bash") == 0)
		bash_completion();
	else if (strcmp(cli->args.at[0], "zsh") == 0)
		zsh_completion();
	else
		return cli_misuse("there is completion for bash and zsh, not for '%s'", cli->args.at[0]);
	return EXIT_GOOD;
}
