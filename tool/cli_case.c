/* What run and check share: a context set up by the options, the kernel asked for, arguments. */
#include "tool/cli.h"

#include <string.h>

/* What kernels print and what passes dump goes to standard output, unless that is JSON. */
static FILE *
output(void *user)
{
	const Cli *cli = user;
	return cli->json ? stderr : stdout;
}

static void
print_line(void *user, const char *line)
{
	FILE *to = output(user);
	fputs(line, to);
	if (!*line || line[strlen(line) - 1] != '\n')
		fputc('\n', to);
}

static void
print_dump(void *user, const char *text)
{
	fputs(text, output(user));
}

bool
session_open(Session *s, const Cli *cli)
{
	PassOptions passes = cli_passes(cli);
	TglCompileOptions compile = {
		.only = passes.only, .skip = passes.skip, .stop_after = passes.stop_after, .dump = passes.dump,
		.verify = passes.verify, .times = cli_has(cli, OPT_TIME), .write = print_dump,
		.user = (void *)cli, .ir = cli->value[OPT_IR], .trace = cli->value[OPT_TRACE],
	};
	if (cli_has(cli, OPT_TRACE) && cli_has(cli, OPT_IR)) {
		cli_wrong("--trace looks for names in the source, and --ir runs something else: one of them");
		return false;
	}
	*s = (Session){.cli = cli, .cx = tgl_context_open(), .status = EXIT_WRONG};
	if (!s->cx) {
		cli_wrong("out of memory");
		return false;
	}
	tgl_error_limit(s->cx, cli->max_errors);
	tgl_error_color(s->cx, cli->color);
	tgl_context_print(s->cx, print_line, (void *)cli);
	if (tgl_context_compile(s->cx, &compile) != TGL_OK) {
		session_error(s);
		session_close(s);
		return false;
	}
	return true;
}

bool
session_device(Session *s, const char *name)
{
	int64_t threads, schedule, iterations;
	if (!cli_number(s->cli, OPT_THREADS, 0, &threads) || !cli_number(s->cli, OPT_SCHEDULE, 0, &schedule) ||
	    !cli_number(s->cli, OPT_ITERATIONS, 0, &iterations)) {
		s->status = EXIT_MISUSE;
		return false;
	}
	TglDeviceOptions options = {
		.threads = (int)MIN(threads, 1024),
		.sanitize = cli_has(s->cli, OPT_SANITIZE),
		.break_nan = cli_has(s->cli, OPT_BREAK_NAN),
		.unchecked = cli_has(s->cli, OPT_UNCHECKED),
		.schedule = (uint64_t)schedule,
		.iterations = iterations,
		.costs = s->cli->command == CMD_race,
	};
	if (!name && cli_has(s->cli, OPT_TRACE))
		name = "cpu";                       /* GPUs don't trace */
	tgl_device_close(&s->dev);
	s->dev = tgl_device_open(s->cx, name, &options);
	if (!s->dev)
		session_error(s);
	return s->dev != NULL;
}

void
session_close(Session *s)
{
	tgl_device_close(&s->dev);
	tgl_context_close(&s->cx);
}

/* To standard error, if it was not there before. */
static void
print_once(Session *s, const char *text)
{
	for (int i = 0; i < s->printed.n; i++)
		if (strcmp(s->printed.at[i], text) == 0)
			return;
	vec_push(s->cli->mem, &s->printed, arena_strdup(s->cli->mem, text));
	fflush(stdout);
	fputs(text, stderr);
}

int
session_error(Session *s)
{
	const TglError *e = tgl_error(s->cx);
	print_once(s, s->cli->json ? e->json : e->text);
	return s->status = EXIT_WRONG;
}

void
session_warnings(Session *s)
{
	const TglError *e = tgl_error(s->cx);
	if (e->status == TGL_OK && e->nwarnings > 0)
		print_once(s, s->cli->json ? e->json : e->text);
}

TglProgram *
session_program(Session *s, const char *path)
{
	const Text *in = &s->cli->input;
	TglProgram *p = s->cli->from_input ? tgl_program_text(s->cx, path, in->at ? in->at : "", in->n)
					   : tgl_program_file(s->cx, path);
	if (p)
		session_warnings(s);
	else
		session_error(s);
	return p;
}

TglProgram *
session_operand(Session *s)
{
	return session_device(s, s->cli->value[OPT_DEVICE]) ? session_program(s, s->cli->args.at[0]) : NULL;
}

bool
session_checks(Session *s, TglCase *c, void (*each)(void *user, const TglCheck *r), void *user)
{
	bool more = true;
	for (int i = 0; more; i++) {
		TglCheck r;
		if (tgl_case_check(c, i, &r, &more) != TGL_OK)
			return session_error(s), false;
		if (more)
			each(user, &r);
	}
	return true;
}

bool
session_is_chosen(TglProgram *p, TglKernel *k, const char *path)
{
	return strcmp(tgl_kernel_file(k), path) == 0 ||
	    !ANY_OF(i, tgl_program_kernels(p), strcmp(tgl_kernel_file(tgl_program_kernel(p, i)), path) == 0);
}

TglKernel *
session_kernel(Session *s, TglProgram *p, const char *path, const char *name)
{
	if (name) {
		TglKernel *k = tgl_kernel(p, name);
		if (!k)
			session_error(s);
		return k;
	}
	TglKernel *only = NULL;
	Text names = {0};
	int n = 0;
	for (int i = 0; i < tgl_program_kernels(p); i++) {
		TglKernel *k = tgl_program_kernel(p, i);
		if (!session_is_chosen(p, k, path))
			continue;
		text_printf(&names, "%s%s", n++ ? ", " : "", tgl_kernel_name(k));
		only = k;
	}
	if (n == 0)
		cli_wrong("'%s' has no kernel", path);
	else if (n > 1)
		s->status = cli_misuse("'%s' has %d kernels: name one of %s", path, n, names.at);
	text_close(&names);
	return n == 1 ? only : NULL;
}

static bool
is_npy(const char *value)
{
	size_t n = strlen(value);
	return n > 4 && strcmp(value + n - 4, ".npy") == 0;
}

static bool
argument(Session *s, TglKernel *k, const Pair *pair, TglArg *out, TensorList *opened)
{
	TglParam param;
	int i = tgl_kernel_param_named(k, pair->name);
	if (!is_npy(pair->value) || i < 0) {
		*out = tgl_arg_text(pair->name, pair->value);
		return true;
	}
	tgl_kernel_param(k, i, &param);
	TglTensor *t = tgl_tensor_npy(s->dev, pair->value, param.dtype);
	if (!t)
		return session_error(s), false;
	vec_push(s->cli->mem, opened, t);
	*out = tgl_arg_tensor(pair->name, t);
	return true;
}

bool
session_args(Session *s, TglKernel *k, TglArg **args, int *n, TensorList *opened)
{
	const Cli *cli = s->cli;
	*args = NEW_ARRAY(cli->mem, TglArg, cli->define.n + cli->strides.n + cli->arg.n + 1);     /* check adds one */
	*n = 0;
	for (int i = 0; i < cli->define.n; i++)
		if (!cli_value(&cli->define.at[i], &(*args)[(*n)++]))
			return s->status = EXIT_MISUSE, false;
	for (int i = 0; i < cli->strides.n; i++)
		(*args)[(*n)++] = tgl_arg_text(cli->strides.at[i].name, cli->strides.at[i].value);
	return ALL_OF(i, cli->arg.n, argument(s, k, &cli->arg.at[i], &(*args)[(*n)++], opened));
}
