/* Parsing the command line by the tables of commands.def.  Options may stand anywhere after the command;
 * `--` ends them.  A word that is not known gets the nearest one offered. */
#include "tool/cli.h"
#include "sema/sema.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const CommandInfo command_info[CMD_COUNT] = {
#define COMMAND(id, name, args, summary, more) {name, args, summary, more},
#include "tool/commands.def"
};

#define C(id) (1u << CMD_##id)
const OptionInfo option_info[OPT_COUNT] = {
#define OPTION(id, name, letter, value, commands, meaning) {name, letter, value, commands, meaning},
#include "tool/commands.def"
};
#undef C

static int
complain(int status, const char *fmt, va_list ap)
{
	fputs("tegula: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	return status;
}

int
cli_misuse(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	complain(EXIT_MISUSE, fmt, ap);
	va_end(ap);
	return EXIT_MISUSE;
}

int
cli_wrong(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	complain(EXIT_WRONG, fmt, ap);
	va_end(ap);
	return EXIT_WRONG;
}

static bool
takes(const Cli *cli, int o)
{
	return option_info[o].commands >> cli->command & 1;
}

static int
find_long(const Cli *cli, const char *name, size_t n)
{
	for (int o = 0; o < OPT_COUNT; o++)
		if (takes(cli, o) && strlen(option_info[o].name) == n && memcmp(option_info[o].name, name, n) == 0)
			return o;
	return -1;
}

static bool
unknown_option(const Cli *cli, const char *word, const char *name)
{
	const char *known[OPT_COUNT];
	int n = 0;
	for (int o = 0; o < OPT_COUNT; o++)
		if (takes(cli, o))
			known[n++] = option_info[o].name;
	const char *near = nearest_name(name, known, n);
	const char *command = command_info[cli->command].name;
	if (near)
		cli_misuse("'%s' has no option '%s'; did you mean '--%s'?", command, word, near);
	else if (cli->command == CMD_help)
		cli_misuse("there is no option '%s'; see 'tegula help'", word);
	else
		cli_misuse("'%s' has no option '%s'; see 'tegula help %s'", command, word, command);
	return false;
}

/* Whether an --out before this one has its name or its file. */
static bool
out_is_taken(const Cli *cli, const Pair *pair)
{
	for (int i = 0; i < cli->out.n; i++) {
		const Pair *other = &cli->out.at[i];
		if (strcmp(other->name, pair->name) == 0)
			return cli_misuse("--out names '%s' twice", pair->name), true;
		if (file_same(other->value, pair->value))
			return cli_misuse("--out writes '%s' and '%s' to one file, '%s'", other->name, pair->name,
			           pair->value), true;
	}
	return false;
}

/* NAME=VALUE into its list. */
static bool
add_pair(Cli *cli, int o, const char *text)
{
	const char *eq = strchr(text, '=');
	if (!eq || eq == text) {
		cli_misuse("--%s takes %s, found '%s'", option_info[o].name, option_info[o].value, text);
		return false;
	}
	Pair pair = {arena_strndup(cli->mem, text, (size_t)(eq - text)), eq + 1};
	if (o == OPT_DEFINE && cli->command != CMD_pack && strides_named(pair.name))
		vec_push(cli->mem, &cli->strides, pair);
	else if (o == OPT_DEFINE)
		vec_push(cli->mem, &cli->define, pair);
	else if (o == OPT_ARG)
		vec_push(cli->mem, &cli->arg, pair);
	else if (out_is_taken(cli, &pair))
		return false;
	else
		vec_push(cli->mem, &cli->out, pair);
	return true;
}

static bool
set_option(Cli *cli, int o, const char *value)
{
	cli->value[o] = value ? value : "";
	if (o == OPT_DEFINE || o == OPT_ARG || o == OPT_OUT)
		return add_pair(cli, o, value);
	return true;
}

/* One option word; *i moves on over a value of its own. */
static bool
option(Cli *cli, int argc, char **argv, int *i)
{
	const char *word = argv[*i], *value = NULL;
	int o = -1;
	if (word[1] == '-') {
		const char *eq = strchr(word, '=');
		size_t n = eq ? (size_t)(eq - word - 2) : strlen(word + 2);
		o = find_long(cli, word + 2, n);
		if (o < 0)
			return unknown_option(cli, word, arena_strndup(cli->mem, word + 2, n));
		value = eq ? eq + 1 : NULL;
	} else {
		for (int k = 0; k < OPT_COUNT; k++)
			if (takes(cli, k) && option_info[k].letter == word[1])
				o = k;
		if (o < 0)
			return unknown_option(cli, word, word + 1);
		value = word[2] ? word + 2 : NULL;
	}
	if (!option_info[o].value && value) {
		cli_misuse("--%s takes no value", option_info[o].name);
		return false;
	}
	if (option_info[o].value && !value) {
		if (*i + 1 >= argc) {
			cli_misuse("--%s needs a value: %s", option_info[o].name, option_info[o].value);
			return false;
		}
		value = argv[++*i];
	}
	return set_option(cli, o, value);
}

int
cli_no_command(const char *name)
{
	const char *known[CMD_COUNT];
	for (int c = 0; c < CMD_COUNT; c++)
		known[c] = command_info[c].name;
	const char *near = nearest_name(name, known, CMD_COUNT);
	if (near)
		return cli_misuse("there is no command '%s'; did you mean '%s'?", name, near);
	return cli_misuse("there is no command '%s'; 'tegula help' lists them", name);
}

static bool
find_command(Cli *cli, const char *name)
{
	for (int c = 0; c < CMD_COUNT; c++) {
		if (strcmp(name, command_info[c].name) == 0) {
			cli->command = (CommandId)c;
			return true;
		}
	}
	cli_no_command(name);
	return false;
}

static bool
settings(Cli *cli)
{
	int64_t n;
	if (!cli_number(cli, OPT_MAX_ERRORS, 20, &n))
		return false;
	cli->max_errors = (int)MIN(n, INT32_MAX);
	cli->json = cli_has(cli, OPT_JSON);
	cli->progress = isatty(2) && !cli->json;
	const char *when = cli_has(cli, OPT_COLOR) ? cli->value[OPT_COLOR] : "auto";
	if (strcmp(when, "auto") != 0 && strcmp(when, "always") != 0 && strcmp(when, "never") != 0) {
		cli_misuse("--color takes always, never or auto, found '%s'", when);
		return false;
	}
	cli->color = strcmp(when, "always") == 0 || (strcmp(when, "auto") == 0 && isatty(2) && !getenv("NO_COLOR"));
	return true;
}

bool
cli_parse(Cli *cli, int argc, char **argv)
{
	int i = 2;
	cli->command = CMD_help;
	if (argc < 2)
		return true;
	if (argv[1][0] == '-' && argv[1][1])
		i = 1;                              /* tegula --version, tegula --help */
	else if (!find_command(cli, argv[1]))
		return false;
	for (; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			while (++i < argc)
				vec_push(cli->mem, &cli->args, argv[i]);
		} else if (argv[i][0] == '-' && argv[i][1]) {
			if (!option(cli, argc, argv, &i))
				return false;
		} else {
			vec_push(cli->mem, &cli->args, argv[i]);
		}
	}
	return settings(cli);
}

/* As in the language: 0x for sixteen, else ten; zeros in front mean nothing. */
static int
integer_base(const char *text)
{
	text += *text == '-' || *text == '+';
	return text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
}

bool
cli_number(const Cli *cli, OptionId o, int64_t absent, int64_t *out)
{
	*out = absent;
	if (!cli_has(cli, o))
		return true;
	char *end;
	errno = 0;
	long long v = strtoll(cli->value[o], &end, integer_base(cli->value[o]));
	if (errno == ERANGE && !*end && v > 0) {
		cli_misuse("--%s takes a whole number up to %lld, found '%s'", option_info[o].name, v, cli->value[o]);
		return false;
	}
	if (errno || end == cli->value[o] || *end || v < 0) {
		cli_misuse("--%s takes a whole number from 0 on, found '%s'", option_info[o].name, cli->value[o]);
		return false;
	}
	*out = v;
	return true;
}

bool
cli_positive(const Cli *cli, OptionId o, double absent, double *out)
{
	char *end;
	*out = absent;
	if (!cli_has(cli, o))
		return true;
	*out = number_read(cli->value[o], &end);
	if (*cli->value[o] && !*end && isfinite(*out) && *out >= 0 && *out <= 1e6)
		return true;
	cli_misuse("--%s takes a number of %s, found '%s'", option_info[o].name, o == OPT_REST ? "milliseconds" : "seconds",
	    cli->value[o]);
	return false;
}

bool
cli_value(const Pair *pair, TglArg *out)
{
	char *end;
	TglDType dtype;
	const char *text = pair->value;
	int base = integer_base(text);
	errno = 0;
	long long i = strtoll(text, &end, base);
	if (!errno && end != text && !*end) {
		*out = tgl_arg_int(pair->name, i);
		return true;
	}
	errno = 0;
	unsigned long long u = strtoull(text, &end, base);
	if (!errno && end != text && !*end && text[0] != '-') {
		*out = tgl_arg_uint(pair->name, u);
		return true;
	}
	if (end != text && !*end)
		return cli_misuse("-D %s: %s is too large for 64 bits; a float has a point", pair->name, text), false;
	double f = number_read(text, &end);
	if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
		*out = tgl_arg_bool(pair->name, text[0] == 't');
	else if (tgl_dtype_named(text, &dtype))
		*out = tgl_arg_dtype(pair->name, dtype);
	else if (end != text && !*end && isinf(f) && strpbrk(text, "0123456789"))
		return cli_misuse("-D %s: %s is too large for f64; write inf for infinity", pair->name, text), false;
	else if (end != text && !*end)
		*out = tgl_arg_float(pair->name, f);
	else
		return cli_misuse("-D %s takes a number, true, false or a dtype, found '%s'", pair->name, text), false;
	return true;
}

bool
cli_operands(const Cli *cli, int least, int most)
{
	const CommandInfo *c = &command_info[cli->command];
	if (cli->args.n >= least && cli->args.n <= most)
		return true;
	const char *blank = *c->args ? " " : "";
	if (cli->args.n < least)
		cli_misuse("expected: tegula %s%s%s", c->name, blank, c->args);
	else
		cli_misuse("'%s' is one word too many; expected: tegula %s%s%s", cli->args.at[most], c->name,
		    blank, c->args);
	return false;
}

PassOptions
cli_passes(const Cli *cli)
{
	return (PassOptions){
		.only = cli->value[OPT_ONLY],
		.skip = cli->value[OPT_SKIP],
		.stop_after = cli->value[OPT_STOP_AFTER],
		.dump = cli->value[OPT_DUMP],
		.verify = cli_has(cli, OPT_VERIFY),
	};
}
