/* build, opt and fmt: from text to text. */
#include "driver/cli.h"

#include "driver/compile.h"

#include <string.h>

static int
report(const Cli *cli, Compile *cx, int status)
{
	Text t = {0};
	if (cx->first && cli->json)
		diag_json(cx, &t, cli->max_errors);
	else if (cx->first)
		diag_print(cx, &t, cli->max_errors, cli->color);
	fflush(stdout);
	if (t.n)
		fputs(t.at, stderr);
	text_close(&t);
	return cx->nerrors > 0 ? EXIT_WRONG : status;
}

/* A -D value as sema takes it. */
static bool
define(Compile *cx, const Pair *pair, NamedConst *out)
{
	TglArg arg;
	if (!cli_value(pair, &arg))
		return false;
	*out = (NamedConst){.name = intern(cx->names, pair->name), .place = NOWHERE};
	switch (arg.kind) {
	case TGL_ARG_INT: out->value = (Const){.kind = CONST_INT, .i = arg.i}; break;
	case TGL_ARG_BOOL: out->value = (Const){.kind = CONST_BOOL, .i = arg.i}; break;
	case TGL_ARG_FLOAT: out->value = (Const){.kind = CONST_FLOAT, .f = arg.f}; break;
	default:
		out->value.kind = CONST_DTYPE;
		dtype_named(tgl_dtype_name((TglDType)arg.i), &out->value.dtype);
	}
	return true;
}

/* The example asked for, or the first; NULL if there is none, *ok false if a named one is missing. */
static const ExampleItem *
choose_example(const Cli *cli, const Kernel *k, bool *ok)
{
	const char *want = cli->value[OPT_EXAMPLE];
	*ok = true;
	for (int i = 0; i < k->examples.n; i++)
		if (!want || strcmp(k->examples.at[i].label, want) == 0)
			return &k->examples.at[i];
	if (want) {
		cli_wrong("kernel '%s' has no example \"%s\"", k->name, want);
		*ok = false;
	}
	return NULL;
}

static int64_t
power_dividing(int64_t v)
{
	int64_t p = PROMISED_MOST;
	while (v % p != 0)
		p /= 2;
	return p;
}

/* What a launch with just these sizes, on tensors of its own, would promise. */
static Promises
promises_of(Arena *mem, const Bound *b)
{
	int64_t *param = NEW_ARRAY(mem, int64_t, b->kernel->params.n), *symbol = NEW_ARRAY(mem, int64_t, b->nsymbol);
	for (int i = 0; i < b->kernel->params.n; i++) {
		const Const *c = &b->param[i].scalar;
		bool is_scalar = b->kernel->params.at[i].kind == PARAM_SCALAR;
		param[i] = !is_scalar ? PROMISED_MOST : c->kind == CONST_INT ? power_dividing(c->i) : 0;
	}
	for (int i = 0; i < b->nsymbol; i++)
		symbol[i] = b->symbol[i].value.kind == CONST_INT ? power_dividing(b->symbol[i].value.i) : 0;
	return (Promises){.param = param, .symbol = symbol};
}

static Module *
build_kernel(const Cli *cli, Kernel *k, const PassOptions *passes, bool *misuse)
{
	Compile *cx = k->program->cx;
	NamedConst *given = NEW_ARRAY(cx->mem, NamedConst, cli->define.n);
	ArgInfo *args = NEW_ARRAY(cx->mem, ArgInfo, k->params.n);
	Bound bound = {0};
	const char *target = cli_has(cli, OPT_TARGET) ? cli->value[OPT_TARGET] : "cpu";
	bool ok;
	for (int i = 0; i < cli->define.n; i++)
		if (!define(cx, &cli->define.at[i], &given[i])) {
			*misuse = true;
			return NULL;
		}
	const ExampleItem *ex = choose_example(cli, k, &ok);
	if (!ok)
		return NULL;
	ok = ex ? example_bind(k, ex, given, cli->define.n, args, &bound)
	        : kernel_bind(k, args, given, cli->define.n, &bound);
	if (!ok)
		return NULL;
	Promises promises = promises_of(cx->mem, &bound);
	return compile_kernel(k, &bound, target, &promises, passes);
}

/* What --emit names. */
typedef enum Stage {
	EMIT_AST, EMIT_TIR, EMIT_LAYOUTS, EMIT_TRACE, EMIT_LLVM, EMIT_PTX, EMIT_CUBIN, EMIT_SASS, EMITS,
} Stage;

static const char *const stage_text[EMITS] = {"ast", "tir", "layouts", "trace", "llvm", "ptx", "cubin", "sass"};

static void
draw_layouts(const Module *m, Text *out)
{
	for (int i = 0; i < m->nlayouts; i++) {
		text_printf(out, "%slayout #%d = ", i ? "\n" : "", i);
		layout_print(m->layouts[i], out);
		text_put(out, "\n");
		layout_draw(m->layouts[i], out);
	}
}

/* Appends a kernel's stage to out; false after errors in m->cx or printing. */
static bool
put_stage(Module *m, const Target *t, Stage stage, Text *out, Text *times)
{
	Text ptx = {0};
	bool ok = true;
	switch (stage) {
	case EMIT_TIR: module_print(m, out); break;
	case EMIT_LAYOUTS: draw_layouts(m, out); break;
	case EMIT_TRACE: ok = compile_text(m, t, STAGE_TRACE, out, times); break;
	case EMIT_LLVM: ok = compile_text(m, t, STAGE_LLVM, out, times); break;
	case EMIT_PTX: ok = compile_text(m, t, STAGE_PTX, out, times); break;
	default:
		ok = compile_text(m, t, STAGE_PTX, &ptx, times) && cli_machine_code(t, &ptx, stage == EMIT_SASS, out);
		text_close(&ptx);
	}
	return ok;
}

static int
build_kernels(const Cli *cli, Compile *cx, int file, Stage stage, const Target *t, Text *out)
{
	Program *p = program_open(cx, file);
	const char *name = cli->args.n > 1 ? cli->args.at[1] : NULL;
	PassOptions passes = cli_passes(cli);
	Text dumps = {0}, times = {0};
	bool misuse = false;
	int n = 0, status = EXIT_GOOD;
	program_check(p);
	passes.dump_to = &dumps;
	passes.times = cli_has(cli, OPT_TIME) ? &times : NULL;
	if (name && cx->nerrors == 0 && !program_kernel(p, name)) {
		const char **names = NEW_ARRAY(cx->mem, const char *, p->kernels.n);
		for (int i = 0; i < p->kernels.n; i++)
			names[i] = p->kernels.at[i]->name;
		const char *near = nearest_name(name, names, p->kernels.n);
		if (near)
			return cli_wrong("there is no kernel '%s'; did you mean '%s'?", name, near);
		return cli_wrong("there is no kernel '%s'", name);
	}
	for (int i = 0; i < p->kernels.n && cx->nerrors == 0 && status == EXIT_GOOD; i++) {
		Kernel *k = p->kernels.at[i];
		if (name ? strcmp(k->name, name) != 0 : k->item->place.file != file)
			continue;
		Module *m = build_kernel(cli, k, &passes, &misuse);
		if (!m || !put_stage(m, t, stage, out, passes.times))
			status = misuse ? EXIT_MISUSE : EXIT_WRONG;
		n++;
	}
	if (n == 0 && cx->nerrors == 0 && status == EXIT_GOOD)
		status = cli_wrong("'%s' has no kernel", cli->args.at[0]);
	if (dumps.n)
		fputs(dumps.at, stdout);
	if (times.n)
		fputs(times.at, stderr);
	text_close(&dumps);
	text_close(&times);
	return status;
}

/* The row named by --target, NULL for the cpu device; false after an error. */
static bool
choose_target(const Cli *cli, Compile *cx, const Target **out)
{
	const char *name = cli->value[OPT_TARGET];
	if (!cli_has(cli, OPT_TARGET) || strcmp(name, "cpu") == 0)
		return true;
	*out = target_named(name);
	if (!*out)
		diag_error(cx, NOWHERE, DIAG_TARGET_UNKNOWN, name);
	return *out != NULL;
}

/* The stage named by --emit; EMITS after printing that there is none. */
static Stage
choose_stage(const Cli *cli, const Target *t)
{
	const char *name = cli_has(cli, OPT_EMIT) ? cli->value[OPT_EMIT] : "tir";
	int stage = 0;
	while (stage < EMITS && strcmp(name, stage_text[stage]) != 0)
		stage++;
	if (stage == EMITS)
		cli_misuse("--emit takes ast, tir, layouts, trace, llvm, ptx, cubin or sass, found '%s'", name);
	else if (stage > EMIT_TIR && !t)
		cli_misuse("--emit=%s is of a GPU: say which with --target, as in --target=sm_90a", name);
	else
		return (Stage)stage;
	return EMITS;
}

int
cmd_build(const Cli *cli)
{
	if (!cli_operands(cli, 1, 2))
		return EXIT_MISUSE;
	Compile *cx = compile_open();
	Text out = {0};
	const Target *t = NULL;
	bool known = choose_target(cli, cx, &t);
	Stage stage = known ? choose_stage(cli, t) : EMIT_TIR;
	int status = stage == EMITS ? EXIT_MISUSE : EXIT_WRONG;
	int file = known && stage != EMITS ? source_open(cx, cli->args.at[0], NOWHERE) : -1;
	if (file >= 0 && stage == EMIT_AST) {
		ast_dump(cx, ast_parse(cx, file), &out);
		status = EXIT_GOOD;
	} else if (file >= 0) {
		status = build_kernels(cli, cx, file, stage, t, &out);
	}
	if (cx->nerrors == 0 && status == EXIT_GOOD)
		status = cli_emit(cli, &out);
	status = report(cli, cx, status);
	text_close(&out);
	compile_close(cx);
	return status;
}

int
cmd_opt(const Cli *cli)
{
	if (!cli_operands(cli, 1, 1))
		return EXIT_MISUSE;
	Compile *cx = compile_open();
	Text out = {0}, dumps = {0}, times = {0};
	PassOptions passes = cli_passes(cli);
	int status = EXIT_WRONG, file = source_open(cx, cli->args.at[0], NOWHERE);
	const Target *target = NULL;
	bool known = choose_target(cli, cx, &target);
	Stage stage = known ? choose_stage(cli, target) : EMIT_TIR;
	if (stage == EMIT_AST)
		cli_misuse("--emit=ast is of source: tile IR has no tree");
	known = known && stage != EMITS && stage != EMIT_AST;
	status = stage == EMITS || stage == EMIT_AST ? EXIT_MISUSE : status;
	Module *m = known && file >= 0 ? module_parse(cx, file) : NULL;
	passes.dump_to = &dumps;
	passes.times = cli_has(cli, OPT_TIME) ? &times : NULL;
	bool ran = m && passes_run(m, target, &passes);
	if (dumps.n)
		fputs(dumps.at, stdout);
	if (ran && put_stage(m, target, stage, &out, passes.times))
		status = cli_emit(cli, &out);
	if (times.n)
		fputs(times.at, stderr);
	status = report(cli, cx, status);
	text_close(&out);
	text_close(&dumps);
	text_close(&times);
	compile_close(cx);
	return status;
}

static int
format_file(const Cli *cli, const char *path)
{
	Compile *cx = compile_open();
	Text out = {0};
	int status = EXIT_WRONG, file = source_open(cx, path, NOWHERE);
	Ast *ast = file >= 0 ? ast_parse(cx, file) : NULL;
	if (ast && cx->nerrors == 0) {
		ast_print(cx, ast, &out);
		const SourceFile *f = &cx->files.at[file];
		bool same = out.n == f->size && memcmp(out.at, f->text, out.n) == 0;
		status = EXIT_GOOD;
		if (cli_has(cli, OPT_FMT_CHECK) && !same) {
			printf("%s\n", path);
			status = EXIT_WRONG;
		} else if (cli_has(cli, OPT_IN_PLACE) && !same) {
			status = cli_write_file(path, out.at, out.n) ? EXIT_GOOD : EXIT_WRONG;
		} else if (!cli_has(cli, OPT_FMT_CHECK) && !cli_has(cli, OPT_IN_PLACE)) {
			fwrite(out.at, 1, out.n, stdout);
		}
	}
	status = report(cli, cx, status);
	text_close(&out);
	compile_close(cx);
	return status;
}

int
cmd_fmt(const Cli *cli)
{
	int status = EXIT_GOOD;
	if (!cli_operands(cli, 1, INT32_MAX))
		return EXIT_MISUSE;
	for (int i = 0; i < cli->args.n; i++)
		if (format_file(cli, cli->args.at[i]) != EXIT_GOOD)
			status = EXIT_WRONG;
	return status;
}
