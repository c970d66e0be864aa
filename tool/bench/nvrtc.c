/* Handwritten kernels to machine code by NVRTC, which is opened at run time: from where the system
 * looks for libraries, else from the CUDA toolkit ($CUDA_HOME, or /usr/local/cuda).
 *
 * Headers such as cuda_bf16.h are the toolkit's: its include folder is found beside the library, or
 * in the toolkit.  Without one, sources that include nothing still compile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/bench/rounds.h"

typedef struct Nvrtc {
	void *lib;
#define NVRTC(name, params) int (*name) params;
#include "tool/bench/nvrtc.def"
#undef NVRTC
} Nvrtc;

enum { NVRTC_BAD_OPTION = 5, NVRTC_COMPILATION = 6, MAX_OPTIONS = 12 };

static const char *
toolkit(void)
{
	const char *home = getenv("CUDA_HOME");
	return home && *home ? home : "/usr/local/cuda";
}

static bool
find_functions(Nvrtc *n)
{
	bool all = true;
#define NVRTC(name, params)                                                                        \
	*(void **)&n->name = dlsym(n->lib, #name);                                                 \
	all &= n->name != NULL;
#include "tool/bench/nvrtc.def"
#undef NVRTC
	return all;
}

/* It stays open, as libraries that start threads had better. */
static bool
nvrtc_open(Device *d, Nvrtc *n)
{
	const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
	char path[1024];
	*n = (Nvrtc){0};
	for (int i = 0; i < 2 * LEN(names) && !n->lib; i++) {
		const char *name = names[i % LEN(names)];
		snprintf(path, sizeof path, "%s%s%s", i < LEN(names) ? "" : toolkit(),
		    i < LEN(names) ? "" : "/lib64/", name);
		n->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	if (!n->lib)
		return device_fail(d, DEVICE_FAILED,
		    "install CUDA's NVRTC 12 or later (cuda-nvrtc, or the toolkit), and name its folder in "
		    "LD_LIBRARY_PATH, or the toolkit's in CUDA_HOME", "there is no NVRTC: %s", dlerror());
	if (find_functions(n))
		return true;
	device_fail(d, DEVICE_FAILED, "install NVRTC 12 or later", "libnvrtc lacks a function that is needed");
	dlclose(n->lib);
	return false;
}

typedef struct Options {
	const char *at[MAX_OPTIONS];
	int n;
	Text text[MAX_OPTIONS];
} Options;

static void
add(Options *o, const char *fmt, ...)
{
	va_list ap;
	char buffer[1200];
	va_start(ap, fmt);
	number_vformat(buffer, sizeof buffer, fmt, ap);
	va_end(ap);
	if (o->n == MAX_OPTIONS)
		return;
	text_put(&o->text[o->n], buffer);
	o->at[o->n] = o->text[o->n].at;
	o->n++;
}

/* A folder with the headers of a toolkit, and those of its C++ library. */
static bool
add_headers(Options *o, const char *folder)
{
	char path[1100];
	snprintf(path, sizeof path, "%s/cuda_fp16.h", folder);
	if (access(path, R_OK) != 0)
		return false;
	add(o, "-I%s", folder);
	snprintf(path, sizeof path, "%s/cccl", folder);
	if (access(path, R_OK) == 0)
		add(o, "-I%s", path);
	return true;
}

static void
add_folders(Options *o, const Nvrtc *n, const char *source)
{
	const char *const beside[] = {"../include", "../../include", "../../../include"};
	const char *slash = strrchr(source, '/');
	char path[1024];
	Dl_info where;
	add(o, "-I%.*s", slash ? (int)MAX(slash - source, 1) : 1, slash ? source : ".");
	snprintf(path, sizeof path, "%s/include", toolkit());
	if (add_headers(o, path) || !dladdr(*(void *const *)&n->nvrtcVersion, &where) || !where.dli_fname ||
	    !(slash = strrchr(where.dli_fname, '/')))
		return;
	for (int i = 0; i < LEN(beside); i++) {
		snprintf(path, sizeof path, "%.*s/%s", (int)(slash - where.dli_fname), where.dli_fname, beside[i]);
		if (add_headers(o, path))
			return;
	}
}

static void
take_log(const Nvrtc *n, void *program, Text *log)
{
	size_t size = 0;
	char *text = n->nvrtcGetProgramLogSize(program, &size) == 0 && size > 0 ? calloc(1, size + 1) : NULL;
	if (text && n->nvrtcGetProgramLog(program, text) == 0)
		text_put(log, text);
	free(text);
	while (log->n > 0 && (log->at[log->n - 1] == '\n' || log->at[log->n - 1] == ' '))
		log->at[--log->n] = 0;
}

static bool
take_code(Device *d, const Nvrtc *n, void *program, Artefact *out)
{
	if (n->nvrtcGetCUBINSize(program, &out->size) == 0 && out->size > 0)
		out->bytes = malloc(out->size);
	if (out->bytes && n->nvrtcGetCUBIN(program, out->bytes) == 0) {
		out->form = FORM_CUBIN;
		return true;
	}
	return device_fail(d, DEVICE_FAILED, "", "NVRTC made no machine code");
}

bool
nvrtc_compile(Device *d, const char *path, const char *text, Artefact *out, Text *log)
{
	Nvrtc n;
	Options o = {0};
	void *program = NULL;
	int major = 0, minor = 0;
	if (!nvrtc_open(d, &n))
		return false;
	n.nvrtcVersion(&major, &minor);
	add(&o, "--gpu-architecture=%s", d->target);
	add(&o, "--std=c++17");
	add_folders(&o, &n, path);
	int r = n.nvrtcCreateProgram(&program, text, path, 0, NULL, NULL);
	bool ok = r == 0 && (r = n.nvrtcCompileProgram(program, o.n, o.at)) == 0;
	if (!ok) {
		if (program)
			take_log(&n, program, log);
		device_fail(d, DEVICE_FAILED, r == NVRTC_BAD_OPTION ? "install the newest NVRTC" : "",
		    "NVRTC %d.%d failed for %s with result %d", major, minor, d->target, r);
		if (r != NVRTC_COMPILATION)
			text_close(log);
	}
	ok = ok && take_code(d, &n, program, out);
	if (program)
		n.nvrtcDestroyProgram(&program);
	for (int i = 0; i < o.n; i++)
		text_close(&o.text[i]);
	return ok;
}
