/* pack: NAME.h and NAME.c, kernels that C and C++ programs call without the compiler. */
#include "tool/pack/pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char default_targets[] = "sm_80,sm_90a";

/* ---- what is asked for ---- */

static void
add_target(Pack *p, const Target *t)
{
	int at = 0;
	if (t->kind == TARGET_METAL) {
		vec_push(p->cx->mem, &p->apples, t);
		return;
	}
	while (at < p->targets.n && p->targets.at[at]->capability < t->capability)
		at++;
	if (at < p->targets.n && p->targets.at[at] == t)
		return;
	vec_push(p->cx->mem, &p->targets, t);
	for (int i = p->targets.n - 1; i > at; i--)
		p->targets.at[i] = p->targets.at[i - 1];
	p->targets.at[at] = t;
}

/* Code for one chip alone runs on no later one: PTX of sm_80 does. */
static void
add_portable(Pack *p)
{
	for (int i = p->has_host; i < p->targets.n; i++)
		if (p->targets.at[i]->name[strlen(p->targets.at[i]->name) - 1] != 'a')
			return;
	if (p->targets.n > p->has_host)
		add_target(p, target_named("sm_80"));
}

static bool
read_targets(Pack *p)
{
	const char *s = cli_has(p->cli, OPT_TARGET) ? p->cli->value[OPT_TARGET] : default_targets;
	while (*s) {
		size_t n = strcspn(s, ",");
		char *name = arena_strndup(p->cx->mem, s, n);
		const Target *t = strcmp(name, pack_host.name) == 0 ? &pack_host : target_named(name);
		if (!t) {
			compile_unknown_target(p->cx, name);
			return false;
		}
		add_target(p, t);
		s += n + (s[n] == ',');
	}
	p->has_host = p->targets.n > 0 && p->targets.at[0] == &pack_host;
	add_portable(p);
	return p->targets.n + p->apples.n > 0 || (cli_misuse("--target names no GPU"), false);
}

/* --name's, else the file's without folder and ending, or of several files the folder's, as a name of C. */
static const char *
choose_name(const Pack *p)
{
	if (cli_has(p->cli, OPT_NAME))
		return p->cli->value[OPT_NAME];
	const char *path = p->cli->args.n == 1 ? p->cli->args.at[0] : p->folder, *slash = strrchr(path, '/');
	char *name = arena_strdup(p->cx->mem, slash ? slash + 1 : path);
	size_t n = strlen(name), end = strlen(".tgl");
	if (n > end && strcmp(name + n - end, ".tgl") == 0)
		name[n - end] = 0;
	for (char *s = name; *s; s++)
		if (!char_is_letter(*s) && !char_is_digit(*s))
			*s = '_';
	return !*name || char_is_digit(*name) ? arena_printf(p->cx->mem, "pack_%s", name) : name;
}

/* ---- kernels ---- */

static const char *const ends[] = {"open", "open_cpu", "close", "error", "load", "sync"};

/* Letters, digits and _, no digit first. */
static bool
begins_name(const char *word)
{
	return !char_is_digit(*word) &&
	    ALL_OF(i, (int)strlen(word), char_is_letter(word[i]) || char_is_digit(word[i]) || word[i] == '_');
}

/* Names of functions that --name and --prefix make. */
static bool
are_names(const Pack *p)
{
	const char *prefix = cli_has(p->cli, OPT_PREFIX) ? p->cli->value[OPT_PREFIX] : "";
	if (!begins_name(prefix))
		return cli_misuse("--prefix goes before names of C: letters, digits and _, no digit first; found '%s'",
			   prefix), false;
	if (!*p->name || !begins_name(p->name))
		return cli_misuse("--name begins names of C: letters, digits and _, no digit first; found '%s'", p->name),
		       false;
	for (int i = 0; i < LEN(ends); i++) {
		const char *function = arena_printf(p->cx->mem, "%s_%s", p->name, ends[i]);
		if (pack_is_reserved(function))
			return cli_wrong("the pack's function '%s' is a name of C's, or of the launcher: "
					 "--name=NAME names the pack otherwise", function), false;
	}
	return true;
}

/* Whether every pack of this name has such a function. */
static bool
is_of_pack(const Pack *p, const char *function)
{
	size_t n = strlen(p->name);
	bool found = false;
	for (int i = 0; strncmp(function, p->name, n) == 0 && function[n] == '_' && i < LEN(ends); i++)
		found |= strcmp(function + n + 1, ends[i]) == 0;
	return found;
}

static bool
is_free_name(const Pack *p, int kernel)
{
	const char *function = p->kernels.at[kernel]->function;
	if (pack_is_reserved(function))
		return cli_wrong("'%s' is a name of C's: --prefix=NAME_ puts something before it", function), false;
	if (is_of_pack(p, function))
		return cli_wrong("'%s' is a function of the pack itself: --name=NAME names the pack otherwise", function),
		       false;
	for (int i = 0; i < kernel; i++)
		if (strcmp(p->kernels.at[i]->function, function) == 0)
			return cli_wrong("two kernels would be the function '%s'", function), false;
	return true;
}

/* As a part of a name: true, 12, m4 for -4. */
static void
put_value(const Const *c, Text *out)
{
	Text t = {0};
	const_text(c, &t);
	for (size_t i = 0; i < t.n; i++)
		text_putn(out, t.at[i] == '-' ? "m" : &t.at[i], 1);
	text_close(&t);
}

/* Whether the functions from `from` on have several values of a compile-time parameter that makes them. */
static bool
differs(const Pack *p, int from, int ct)
{
	const PackKernel *first = p->kernels.at[from];
	bool other = false;
	for (int i = from + 1; i < p->kernels.n; i++)
		other |= !const_equal(&p->kernels.at[i]->bound.ct[ct].value, &first->bound.ct[ct].value);
	return other && pack_makes_function(first->k, ct);
}

/* softmax; of several dtypes softmax_f16 and softmax_f32, of several values attention_CAUSAL_true and _false. */
static bool
name_functions(Pack *p, int from)
{
	const char *prefix = cli_has(p->cli, OPT_PREFIX) ? p->cli->value[OPT_PREFIX] : "";
	for (int i = from; i < p->kernels.n; i++) {
		PackKernel *k = p->kernels.at[i];
		Text t = {0};
		text_printf(&t, "%s%s", prefix, k->k->name);
		const Bound *b = &k->bound;
		for (int c = 0; p->kernels.n - from > 1 && c < b->nct; c++) {
			if (!differs(p, from, c))
				continue;
			text_printf(&t, b->ct[c].value.kind == CONST_DTYPE ? "_" : "_%s_", b->ct[c].name);
			put_value(&b->ct[c].value, &t);
		}
		k->function = text_take(&t, p->cx->mem);
		if (!is_free_name(p, i))
			return false;
	}
	return true;
}

/* Names the line that the errors to come are of. */
static bool
refuse_sizes(const Pack *p, const Kernel *k, const PackSizes *s)
{
	if (s->line)
		cli_wrong("%s:%d: sizes for which kernel '%s' has no code",
		    p->cli->value[s->device ? OPT_TUNED : OPT_SIZES], s->line, k->name);
	return false;
}

static bool
add_kernel(Pack *p, Kernel *k, PackLines *lines)
{
	PackSizesList sizes = {0};
	int from = p->kernels.n;
	bool is_partial;
	if (!pack_sizes(p, k, lines, &sizes, &is_partial))
		return false;
	for (int i = 0; i < sizes.n; i++)
		if (!pack_add_forms(p, k, &sizes.at[i], i == 0))
			return refuse_sizes(p, k, &sizes.at[i]);
	for (int i = from; i < p->kernels.n; i++)
		p->kernels.at[i]->is_partial = is_partial;
	return name_functions(p, from);
}

/* All files are read before a kernel is compiled, which takes seconds. */
static bool
read_file(Pack *p, const char *path)
{
	int file = source_open(p->cx, path, NOWHERE), n = p->found.n;
	if (file < 0)
		return false;
	Program *program = program_open(p->cx, file);
	program_check(program);
	for (int i = 0; i < program->kernels.n; i++)
		if (cli_is_chosen(program, program->kernels.at[i], NULL, file))
			vec_push(p->cx->mem, &p->found, program->kernels.at[i]);
	return p->cx->nerrors == 0 && (p->found.n > n || (cli_wrong("'%s' has no kernel", path), false));
}

static bool
all_used(const Pack *p, const PackLines *lines)
{
	for (int i = 0; i < lines->n; i++)
		if (!lines->at[i].used && !lines->at[i].device)
			return cli_wrong("%s:%d: there is no kernel '%s'", p->cli->value[OPT_SIZES], lines->at[i].line,
			    lines->at[i].kernel), false;
	return true;
}

/* What -D may name, of all kernels. */
static bool
all_defined(Pack *p)
{
	VEC(const char *) known = {0};
	for (int i = 0; i < p->kernels.n; i++) {
		const Kernel *k = p->kernels.at[i]->k;
		for (int c = 0; c < k->item->ctparams.n; c++)
			vec_push(p->cx->mem, &known, k->item->ctparams.at[c].name);
		for (int s = 0; s < k->symbols.n; s++)
			vec_push(p->cx->mem, &known, k->symbols.at[s]);
	}
	for (int i = 0; i < p->cli->define.n; i++) {
		const char *name = p->cli->define.at[i].name, *near = nearest_name(name, known.at, known.n);
		if (!p->defined[i])
			return cli_wrong("-D %s: no kernel has a '%s'%s%s%s", name, name, near ? "; did you mean '" : "",
				   near ? near : "", near ? "'?" : ""), false;
	}
	return true;
}

/* ---- the files ---- */

static void
put_title(const Pack *p, Text *out)
{
	text_printf(out, "/* Made by tegula %s", tgl_version());
	text_put(out, " from");
	for (int i = 0; i < p->cli->args.n; i++) {
		const char *path = p->cli->args.at[i], *slash = strrchr(path, '/');
		text_printf(out, "%s %s", i ? "," : "", slash ? slash + 1 : path);
	}
	text_put(out, ". Change the kernels, not this file. */\n");
}

static const char how_host[] = "/* Opens the pack for the host: its kernels run in the calling "
			       "thread, on addresses of the host, and are done when the\n"
			       " * call returns; the stream is ignored. Link with -lm. */\n"
			       "TgpContext *%s_open_cpu(void);\n";

static const char how[] =
    "/* Opens the pack and the driver. NULL only without memory: without a driver each call says so. */\n"
    "TgpContext *%s_open(void);\n"
    "%s"
    "/* Unloads the code from the thread's CUDA context; that in other contexts goes with them. No other thread may be\n"
    " * launching; *cx becomes NULL. */\n"
    "void %s_close(TgpContext **cx);\n"
    "/* Why the last call of this thread failed, in a sentence; it stays until its next failure. Never NULL. */\n"
    "const char *%s_error(TgpContext *cx);\n"
    "/* Loads all code for the thread's CUDA context now, else each form is loaded when it is first launched. */\n"
    "TgpStatus %s_load(TgpContext *cx);\n"
    "/* Waits for the stream, and reports asserts of kernels that were false. */\n"
    "TgpStatus %s_sync(TgpContext *cx, void *stream);\n\n"
    "/* Each kernel: launched on `stream`, a CUstream or cudaStream_t (NULL: the default one), in the CUDA context "
    "of the\n"
    " * calling thread, and not waited for; addresses are of that GPU. Everything that the code takes for granted "
    "is tested\n"
    " * first, and nothing is launched if it is not so. Launches may be recorded into graphs. Any number of "
    "threads may\n"
    " * launch at once. */\n\n";

static void
put_header(const Pack *p, Text *out)
{
	const char *n = p->name;
	put_title(p, out);
	text_printf(out, "#ifndef TEGULA_PACK_%s_H\n#define TEGULA_PACK_%s_H\n\n", n, n);
	text_put(out, pack_text_header);
	text_put(out, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
	text_printf(out, how, n, p->has_host ? arena_printf(p->cx->mem, how_host, n) : "", n, n, n, n);
	pack_put_prototypes(p, out);
	text_put(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

static void
put_source(const Pack *p, Text *out)
{
	put_title(p, out);
	text_put(out, "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#ifndef __STDC_LIMIT_MACROS\n"
	    "#define __STDC_LIMIT_MACROS\n#define __STDC_CONSTANT_MACROS\n#endif\n");
	text_put(out, "#ifdef __GNUC__\n#pragma GCC diagnostic ignored \"-Woverlength-strings\"  /* PTX */\n#endif\n");
	text_printf(out, "%s#include \"%s.h\"\n\n", p->has_host ? "#define TGP_HOST\n" : "", p->name);
	text_put(out, "#include <dlfcn.h>\n#include <limits.h>\n#include <math.h>\n#include <pthread.h>\n#include "
		      "<stdarg.h>\n#include <stdio.h>\n"
		      "#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n#include "
		      "<sys/types.h>\n#include <unistd.h>\n\n");
	text_put(out, pack_text_types);
	text_put(out, "\n");
	pack_put_limits(p, out);
	pack_put_driver(pack_text_launcher, out);
	text_put(out, pack_text_tables);
	text_put(out, "\n");
	text_put(out, pack_text_launcher);
	if (p->has_host) {
		text_put(out, pack_text_host);
		text_put(out, "\n#ifdef __GNUC__  /* positions in tiles of one value; below 0 without a sign */\n"
		    "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
		    "#pragma GCC diagnostic ignored \"-Wtype-limits\"\n#endif\n");
	}
	text_put(out, "\n/* ---- the kernels ---- */\n\n");
	pack_put_kernels(p, out);
	pack_put_functions(p, out);
}

static bool
write_file(const Pack *p, const char *ending, void (*put)(const Pack *, Text *))
{
	Text t = {0};
	put(p, &t);
	bool ok = cli_write_file(arena_printf(p->cx->mem, "%s/%s%s", p->folder, p->name, ending), t.at, t.n);
	text_close(&t);
	return ok;
}

/* FUNCTION.apple7.1.metal, and beside it how to launch it. */
static bool
write_metal(const Pack *p)
{
	size_t prefix = cli_has(p->cli, OPT_PREFIX) ? strlen(p->cli->value[OPT_PREFIX]) : 0;
	bool ok = true;
	for (int i = 0; i < p->kernels.n; i++)
		for (int f = 0; f < p->kernels.at[i]->metal.n && ok; f++) {
			const PackForm *m = &p->kernels.at[i]->metal.at[f];
			char *path = arena_printf(p->cx->mem, "%s/%s.%s.%d.", p->folder,
			    p->kernels.at[i]->function + prefix, m->target->name, f + 1);
			ok = cli_write_file(arena_printf(p->cx->mem, "%smetal", path), m->metal, strlen(m->metal)) &&
			    cli_write_file(arena_printf(p->cx->mem, "%sjson", path), m->json, strlen(m->json));
		}
	return ok;
}

/* The least value of a compile-time parameter in any form that is more than `than`; false: there is none. */
static bool
next_value(const PackForms *all, int ct, int64_t than, int64_t *out)
{
	bool found = false;
	for (int f = 0; f < all->n; f++) {
		int64_t v = all->at[f].bound.ct[ct].value.i;
		if (v > than && (!found || v < *out))
			*out = v, found = true;
	}
	return found;
}

/* "; DIM = 64, 128 alone: --sizes adds others", of the values that follow from dimensions. */
static void
report_values(const PackKernel *k)
{
	const PackForms *all = k->forms.n ? &k->forms : &k->metal;
	int n = 0;
	for (int c = 0; all->n && c < all->at[0].bound.nct; c++) {
		const NamedConst *ct = &all->at[0].bound.ct[c];
		if (!all->at[0].derived[c] || ct->value.kind != CONST_INT)
			continue;
		printf("%s %s =", n++ ? "," : ";", ct->name);
		int64_t v = INT64_MIN;
		for (int i = 0; next_value(all, c, v, &v); i++)
			printf("%s %" PRId64, i ? "," : "", v);
	}
	printf("%s", n ? " alone: --sizes adds others" : "");
}

static void
report(const Pack *p)
{
	for (int i = 0; i < p->kernels.n; i++) {
		const PackKernel *k = p->kernels.at[i];
		size_t bytes = 0;
		for (int f = 0; f < k->forms.n; f++) {
			bytes += k->forms.at[f].cubin < 0 ? 0 : p->blobs.at[k->forms.at[f].cubin].n;
			bytes += k->forms.at[f].host ? strlen(k->forms.at[f].host) : 0;
			bytes += k->forms.at[f].ptx < 0 ? 0 : p->blobs.at[k->forms.at[f].ptx].n;
		}
		printf("%s: %d form%s, %zu KB of code", k->function, k->forms.n, k->forms.n == 1 ? "" : "s",
		    (bytes + 1023) / 1024);
		if (k->metal.n)
			printf(", %d of Metal text", k->metal.n);
		if (k->is_partial)
			report_values(k);
		printf("\n");
	}
	if (p->targets.n > p->has_host && !p->assembles && !cli_has(p->cli, OPT_PTX))
		printf("PTX alone, as there is no ptxas: the driver compiles what it loads\n");
}

/* Before kernels are compiled, which takes seconds. */
static bool
make_folder(const Pack *p)
{
	struct stat at;
	if (mkdir(p->folder, 0777) != 0 && errno != EEXIST)
		return cli_wrong("cannot make the folder '%s': %s", p->folder, strerror(errno)), false;
	if (stat(p->folder, &at) == 0 && !S_ISDIR(at.st_mode))
		return cli_wrong("cannot write into '%s': it is a file, no folder", p->folder), false;
	return access(p->folder, W_OK | X_OK) == 0 ||
	    (cli_wrong("cannot write into '%s': %s", p->folder, strerror(errno)), false);
}

static bool
make(Pack *p, PackLines *lines)
{
	if (!read_targets(p) || !pack_read_lines(p, lines))
		return false;
	p->name = choose_name(p);
	p->defined = NEW_ARRAY(p->cx->mem, bool, p->cli->define.n);
	if (!are_names(p) || !ALL_OF(i, p->cli->args.n, read_file(p, p->cli->args.at[i])))
		return false;
	if (!make_folder(p))
		return false;
	p->assembles = !cli_has(p->cli, OPT_PTX) && cli_has_assembler();
	if (!ALL_OF(i, p->found.n, add_kernel(p, p->found.at[i], lines)))
		return false;
	if (!all_used(p, lines) || !all_defined(p) || !pack_assemble(p))
		return false;
	report(p);
	if (!write_metal(p))
		return false;
	if (cli_has(p->cli, OPT_TORCH) && !write_file(p, "_torch.cc", pack_put_torch))
		return false;
	return p->targets.n == 0 || (write_file(p, ".h", put_header) && write_file(p, ".c", put_source));
}

int
cmd_pack(const Cli *cli)
{
	if (!cli_operands(cli, 1, INT32_MAX))
		return EXIT_MISUSE;
	if (!cli_to_file(cli))
		return cli_misuse("a pack is files: say which folder they go to with -o, as in -o build");
	Pack p = {.cli = cli, .cx = compile_open(), .folder = cli->value[OPT_OUTPUT]};
	PackLines lines = {0};
	p.cx->ships = true;
	int status = make(&p, &lines) ? EXIT_GOOD : EXIT_WRONG;
	for (int i = 0; i < p.kernels.n; i++)
		for (int f = 0; f < p.kernels.at[i]->forms.n; f++)
			artefact_close(&p.kernels.at[i]->forms.at[f].code);
	for (int i = 0; i < p.blobs.n; i++)
		free(p.blobs.at[i].bytes);
	status = cli_report(cli, p.cx, status);
	compile_close(p.cx);
	return status;
}
