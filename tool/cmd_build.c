/* build, opt and fmt: from text to text. */
#include "tool/cli_build.h"
#include "tool/fmt/fmt.h"

#include <string.h>

enum { ASSEMBLER_SECONDS = 2 };

/* What --emit names. */
typedef enum Stage {
	EMIT_AST, EMIT_TIR, EMIT_LAYOUTS, EMIT_THREAD, EMIT_LLVM, EMIT_PTX, EMIT_CUBIN, EMIT_SASS, EMIT_METAL,
	EMITS,
} Stage;

static const char *const stage_text[EMITS] = {"ast", "tir", "layouts", "thread", "llvm", "ptx", "cubin", "sass", "metal"};

static void
draw_layouts(const Module *m, Text *out)
{
	for (int i = 0; i < m->nlayouts; i++) {
		text_printf(out, "%slayout #%d = ", i ? "\n" : "", i);
		layout_print(m->layouts[i], out);
		text_put(out, "\n");
		cli_draw_layout(m->layouts[i], out);
	}
}

/* An assembler is asked, if there is one, where the estimate would warn; it is given up on, and the estimate told, where
 * it takes long: 92 KB of spills took it 25 s. */
static bool
put_ptx(Module *m, const Target *t, const Bound *b, Text *out, Text *times)
{
	Pressure p;
	Text ptx = {0};
	int registers, spills, stack;
	bool ok = compile_ptx(m, t, b, &ptx, NULL, times) && pressure_estimate(m->funcs.at[0], t, &p);
	if (ok && pressure_spills(p) && cli_resources(t, &ptx, ASSEMBLER_SECONDS, &registers, &spills, &stack))
		spill_warn(m, t, b, spills);
	else if (ok)
		spill_warn_likely(m, t, b, p);
	text_putn(out, ptx.at ? ptx.at : "", ptx.n);
	text_close(&ptx);
	return ok;
}

/* Appends a kernel's stage to out; false after errors in m->cx or printing. */
static bool
put_stage(const Cli *cli, Module *m, const Target *t, Stage stage, const Bound *b, Text *out, Text *times)
{
	Text ptx = {0};
	bool ok = true;
	int spills = 0;
	switch (stage) {
	case EMIT_TIR: module_print(m, out); break;
	case EMIT_LAYOUTS: draw_layouts(m, out); break;
	case EMIT_THREAD: ok = compile_text(m, t, STAGE_THREAD, out, times); break;
	case EMIT_LLVM: ok = compile_text(m, t, STAGE_LLVM, out, times); break;
	case EMIT_METAL: ok = cli_metal(cli, m, t, b, out, times); break;
	case EMIT_PTX: ok = put_ptx(m, t, b, out, times); break;
	case EMIT_CUBIN: ok = cli_cubin(cli, m, t, b, out, times); break;
	default:
		ok = compile_text(m, t, STAGE_PTX, &ptx, times) && cli_machine_code(t, &ptx, true, out, &spills);
		if (ok)
			spill_warn(m, t, b, spills);
		text_close(&ptx);
	}
	return ok;
}

/* A cubin holds the code of one. */
static bool
is_one(const Program *p, const char *name, int file)
{
	return COUNT_OF(i, p->kernels.n, cli_is_chosen(p, p->kernels.at[i], name, file)) <= 1;
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
	if (name && cx->nerrors == 0 && !program_kernel(p, name))
		return cli_no_kernel(cli, p, name);
	if (stage == EMIT_CUBIN && cx->nerrors == 0 && !is_one(p, name, file))
		return cli_wrong("a cubin is of one kernel, and '%s' has several: name one behind the file",
		    cli->args.at[0]);
	for (int i = 0; i < p->kernels.n && cx->nerrors == 0 && status == EXIT_GOOD; i++) {
		Kernel *k = p->kernels.at[i];
		if (!cli_is_chosen(p, k, name, file))
			continue;
		Bound bound;
		Module *m = cli_bound_module(cli, k, NULL, t ? t->name : "cpu", &passes, &misuse, &bound, NULL);
		if (!m || !put_stage(cli, m, t, stage, &bound, out, passes.times))
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

/* The stage named by --emit; EMITS after printing that there is none. */
static Stage
choose_stage(const Cli *cli, const Target **target)
{
	const char *name = cli_has(cli, OPT_EMIT) ? cli->value[OPT_EMIT] : "tir";
	int stage = 0;
	const Target *t = *target;
	while (stage < EMITS && strcmp(name, stage_text[stage]) != 0)
		stage++;
	if (stage == EMITS)
		cli_misuse("--emit takes ast, tir, layouts, thread, llvm, ptx, cubin, sass or metal, found '%s'", name);
	else if (stage == EMIT_METAL && !cli_has(cli, OPT_TARGET))
		*target = target_named("apple7");       /* the least that there is a row for: what it takes, all take */
	else if (stage == EMIT_METAL && (!t || t->kind != TARGET_METAL))
		cli_misuse("--emit=metal is of Apple's GPUs: --target=apple7, apple8 or apple9");
	else if (stage >= EMIT_LLVM && stage < EMIT_METAL && t && t->kind != TARGET_PTX)
		cli_misuse("--emit=%s is of NVIDIA's GPUs; of %s there is --emit=metal", name, t->name);
	else if (stage == EMIT_CUBIN && t && !cli_to_file(cli))
		cli_misuse("--emit=cubin writes a file and its description beside it: say where with -o, as in -o k.cubin");
	else if (stage > EMIT_TIR && !t)
		cli_misuse("--emit=%s is of a GPU: say which with --target, as in --target=sm_90a", name);
	else
		return (Stage)stage;
	return *target != t ? EMIT_METAL : EMITS;
}

int
cmd_build(const Cli *cli)
{
	if (!cli_operands(cli, 1, 2))
		return EXIT_MISUSE;
	Compile *cx = compile_open();
	Text out = {0};
	const Target *t = NULL;
	bool known = cli_target(cli, cx, &t);
	Stage stage = known ? choose_stage(cli, &t) : EMIT_TIR;
	int status = stage == EMITS ? EXIT_MISUSE : EXIT_WRONG;
	int file = known && stage != EMITS ? cli_source(cli, cx) : -1;
	if (file >= 0 && stage == EMIT_AST) {
		ast_dump(cx, ast_parse(cx, file), &out);
		status = EXIT_GOOD;
	} else if (file >= 0) {
		status = build_kernels(cli, cx, file, stage, t, &out);
	}
	if (cx->nerrors == 0 && status == EXIT_GOOD)
		status = cli_emit(cli, &out);
	status = cli_report(cli, cx, status);
	text_close(&out);
	compile_close(cx);
	return status;
}

/* Thread IR's text: verified and simplified (as it is, with --only=), and on to the stage. */
static int
opt_thread(const Cli *cli, Compile *cx, int file, Text *out)
{
	static const int stages[EMITS] = {[EMIT_THREAD] = 1 + STAGE_THREAD, [EMIT_LLVM] = 1 + STAGE_LLVM,
		[EMIT_PTX] = 1 + STAGE_PTX};
	const char *name = cli_has(cli, OPT_EMIT) ? cli->value[OPT_EMIT] : "thread";
	ThreadModules m = {0};
	Text times = {0};
	int stage = 0;
	while (stage < EMITS && (!stages[stage] || strcmp(name, stage_text[stage]) != 0))
		stage++;
	if (stage == EMITS) {
		cli_misuse("--emit takes thread, llvm or ptx of thread IR, found '%s'", name);
		return EXIT_MISUSE;
	}
	bool ok = thread_modules_parse(cx, file, &m);
	for (int i = 0; i < m.n && ok && cli_has(cli, OPT_TARGET); i++) {
		if (strcmp(m.at[i]->target->name, cli->value[OPT_TARGET]) == 0)
			continue;
		cli_misuse("this thread IR is for %s: --target=%s takes tile IR or the source", m.at[i]->target->name,
		    cli->value[OPT_TARGET]);
		return EXIT_MISUSE;
	}
	for (int i = 0; i < m.n && ok; i++) {
		if (!cli_has(cli, OPT_ONLY))
			thread_rewrite(m.at[i], NULL, NULL);
		ok = compile_thread(m.at[i], cx, (CompileStage)(stages[stage] - 1), out,
		    cli_has(cli, OPT_TIME) ? &times : NULL);
	}
	if (times.n)
		fputs(times.at, stderr);
	text_close(&times);
	return ok ? cli_emit(cli, out) : EXIT_WRONG;
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
	bool is_thread = file >= 0 && thread_is_text(cx->files.at[file].text, cx->files.at[file].size);
	if (is_thread) {
		status = cli_report(cli, cx, opt_thread(cli, cx, file, &out));
		text_close(&out);
		compile_close(cx);
		return status;
	}
	bool known = cli_target(cli, cx, &target);
	Stage stage = known ? choose_stage(cli, &target) : EMIT_TIR;
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
	if (ran && put_stage(cli, m, target, stage, NULL, &out, passes.times))
		status = cli_emit(cli, &out);
	if (times.n)
		fputs(times.at, stderr);
	status = cli_report(cli, cx, status);
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
		ast_print(ast, &out);
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
	status = cli_report(cli, cx, status);
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
