/* PTX to machine code, which can be kept and loads at once.
 *
 * The driver's own compiler comes first: it is there already.  Where it is older than the PTX, or
 * missing, CUDA's libnvJitLink is asked, then its ptxas; both are slower to start (the library alone
 * takes 0.2 s to load).
 *
 * Hopper's own code is not compiled for linking, and the driver's linker and nvJitLink do nothing else.  There ptxas (13.0)
 * drops setmaxnreg (C7504), and takes the routines that it calls itself, as of a 64-bit division, for calls of unknown
 * functions: it then waits behind every wgmma (C7509), which made convolution and attention with a bias 1.5 to 2 times
 * slower.  A ptxas compiles such kernels as a whole program; without one they stay PTX, which the driver compiles when it
 * loads it and keeps in a cache of its own. */
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cuda/cuda.h"

extern char **environ;

/* ---- libnvJitLink ---- */

typedef struct Linker {
	int (*create)(void **handle, uint32_t n, const char **options);
	int (*add)(void *handle, int kind, const void *data, size_t size, const char *name);
	int (*complete)(void *handle);
	int (*size)(void *handle, size_t *size);
	int (*cubin)(void *handle, void *to);
	int (*log_size)(void *handle, size_t *size);
	int (*log)(void *handle, char *to);
	int (*destroy)(void **handle);
} Linker;

enum { LINKER_PTX = 2, LOG_BYTES = 4096 };

/* The library exports its names plain, older ones with the version that they came with. */
static bool
find(void *lib, const char *name, void *out)
{
	char versioned[64];
	void *p = dlsym(lib, name);
	for (int v = 12; !p && v <= 13; v++) {
		snprintf(versioned, sizeof versioned, "__%s_%d_0", name, v);
		p = dlsym(lib, versioned);
	}
	*(void **)out = p;
	return p != NULL;
}

/* It stays open: starting it is slow, and it does not give all back that it takes. */
static bool
linker_open(Linker *l)
{
	const char *const names[] = {"libnvJitLink.so.13", "libnvJitLink.so.12",
	    "/usr/local/cuda/lib64/libnvJitLink.so.13", "/usr/local/cuda/lib64/libnvJitLink.so.12"};
	void *lib = NULL;
	for (int i = 0; i < LEN(names) && !lib; i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return false;
	if (find(lib, "nvJitLinkCreate", &l->create) && find(lib, "nvJitLinkAddData", &l->add) &&
	    find(lib, "nvJitLinkComplete", &l->complete) &&
	    find(lib, "nvJitLinkGetLinkedCubinSize", &l->size) &&
	    find(lib, "nvJitLinkGetLinkedCubin", &l->cubin) &&
	    find(lib, "nvJitLinkGetErrorLogSize", &l->log_size) &&
	    find(lib, "nvJitLinkGetErrorLog", &l->log) && find(lib, "nvJitLinkDestroy", &l->destroy))
		return true;
	dlclose(lib);
	return false;
}

static char *
take_cubin(const Linker *l, void *handle, size_t *size)
{
	if (l->complete(handle) != 0 || l->size(handle, size) != 0)
		return NULL;
	char *cubin = malloc(*size ? *size : 1);
	if (cubin && l->cubin(handle, cubin) == 0)
		return cubin;
	free(cubin);
	return NULL;
}

static void
take_log(const Linker *l, void *handle, Text *why)
{
	size_t n = 0;
	char *log = l->log_size(handle, &n) == 0 && n > 0 ? calloc(1, n + 1) : NULL;
	if (log && l->log(handle, log) == 0)
		text_printf(why, "; nvJitLink: %s", log);
	else
		text_put(why, "; nvJitLink refused it");
	free(log);
}

static char *
by_linker(const Artefact *a, const char *arch, size_t *size, Text *why)
{
	Linker l;
	void *handle = NULL;
	char option[32];
	const char *options[] = {option};
	if (!linker_open(&l)) {
		text_put(why, "; there is no libnvJitLink");
		return NULL;
	}
	snprintf(option, sizeof option, "-arch=%s", arch);
	char *cubin = NULL;
	if (l.create(&handle, 1, options) != 0) {
		text_printf(why, "; nvJitLink does not know %s", arch);
	} else {
		if (l.add(handle, LINKER_PTX, a->bytes, a->size, a->kernel) == 0)
			cubin = take_cubin(&l, handle, size);
		if (!cubin)
			take_log(&l, handle, why);
		l.destroy(&handle);
	}
	return cubin;
}

/* ---- ptxas ---- */

/* False: it is not there. */
static bool
spawn_wait(const char *program, char *const argv[], const char *log, int *status)
{
	pid_t pid;
	posix_spawn_file_actions_t files;
	*status = -1;
	if (posix_spawn_file_actions_init(&files) != 0)
		return false;
	posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	bool ok = posix_spawnp(&pid, program, &files, NULL, argv, environ) == 0 &&
		  waitpid(pid, status, 0) == pid;
	posix_spawn_file_actions_destroy(&files);
	return ok && !(WIFEXITED(*status) && WEXITSTATUS(*status) == 127);
}

static bool
write_file(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");
	if (!f)
		return false;
	bool ok = fwrite(bytes, 1, n, f) == n;
	return fclose(f) == 0 && ok;
}

/* The first line of what ptxas said. */
static void
add_complaint(const char *log, Text *why)
{
	Text t = {0};
	bool ok = file_read(log, INT32_MAX, &t);
	text_printf(why, "; ptxas: %.*s", ok ? (int)strcspn(t.at, "\n") : 0, ok ? t.at : "");
	text_close(&t);
}

static char *
by_ptxas(const Artefact *a, const char *arch, size_t *size, Text *why)
{
	const char *tmp = getenv("TMPDIR");
	char folder[256], in[288], out[288], log[288], option[32];
	char *argv[] = {"ptxas", option, in, "-o", out, NULL};
	Text cubin = {0};
	int status;
	snprintf(folder, sizeof folder, "%s/tegulaXXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(folder)) {
		text_printf(why, "; no folder for ptxas can be made: %s", folder);
		return NULL;
	}
	snprintf(in, sizeof in, "%s/in.ptx", folder);
	snprintf(out, sizeof out, "%s/out.cubin", folder);
	snprintf(log, sizeof log, "%s/log", folder);
	snprintf(option, sizeof option, "-arch=%s", arch);
	if (!write_file(in, a->bytes, strlen(a->bytes)))
		text_printf(why, "; %s cannot be written", in);
	else if (!spawn_wait("ptxas", argv, log, &status) &&
		 !spawn_wait("/usr/local/cuda/bin/ptxas", argv, log, &status))
		text_put(why, "; there is no ptxas");
	else if (status != 0)
		add_complaint(log, why);
	else if (!file_read(out, INT32_MAX, &cubin) || cubin.n == 0)
		text_put(why, "; ptxas wrote nothing");
	unlink(in);
	unlink(out);
	unlink(log);
	rmdir(folder);
	*size = cubin.n;
	if (cubin.n == 0)
		text_close(&cubin);
	return cubin.at;
}

/* ---- the driver ---- */

static void
add_log(Device *d, const char *log)
{
	size_t n = strlen(d->error.text);
	int line = (int)strcspn(log, "\n");
	if (line > 0)
		snprintf(d->error.text + n, sizeof d->error.text - n, "; %.*s", line, log);
}

/* Several threads compile at once, each with a Device of its own and one CudaState: nothing is kept there. */
static bool
went_well(Device *d, CudaResult r, const char *call, CudaResult *last)
{
	*last = r;
	if (r != 0)
		cuda_explain(&CUDA_STATE(d)->cuda, r, call, &d->error);
	return r == 0;
}

/* NULL: d->error, with the compiler's first complaint, and *last. */
static char *
by_driver(Device *d, const Artefact *a, size_t *size, CudaResult *last)
{
	const Cuda *c = &CUDA_STATE(d)->cuda;
	char log[LOG_BYTES] = "";
	int option[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE, JIT_LINES};
	void *value[] = {log, (void *)(uintptr_t)LOG_BYTES, (void *)(uintptr_t)1};
	void *linker = NULL, *code = NULL;
	char *copy = NULL;
	if (!went_well(d, c->cuLinkCreate_v2(LEN(option), option, value, &linker), "cuLinkCreate_v2", last))
		return NULL;
	CudaResult r = c->cuLinkAddData_v2(linker, JIT_PTX, a->bytes, strlen(a->bytes) + 1, a->kernel, 0, NULL, NULL);
	bool ok = went_well(d, r, "cuLinkAddData_v2", last) &&
		  went_well(d, c->cuLinkComplete(linker, &code, size), "cuLinkComplete", last);
	if (ok && !(copy = malloc(*size)))
		device_fail(d, DEVICE_NO_MEMORY, "", "no memory");
	if (copy)
		memcpy(copy, code, *size);
	if (!ok)
		add_log(d, log);
	c->cuLinkDestroy(linker);
	return copy;
}

/* What the GPU's machine code is called: kernels for one chip alone keep their name. */
static void
machine_name(const CudaState *s, const Artefact *a, char out[16])
{
	const Target *t = target_named(a->target);
	bool one_chip = t && t->name[strlen(t->name) - 1] == 'a';
	if (one_chip)
		snprintf(out, 16, "%s", t->name);
	else
		snprintf(out, 16, "sm_%d", s->capability);
}

/* The driver's compiler is missing, switched off or too old. */
static char *
by_tools(Device *d, const Artefact *a, size_t *size)
{
	char arch[16];
	Text why = {0};
	size_t n = strlen(d->error.text);
	machine_name(CUDA_STATE(d), a, arch);
	char *code = by_linker(a, arch, size, &why);
	if (!code)
		code = by_ptxas(a, arch, size, &why);
	if (!code)
		snprintf(d->error.text + n, sizeof d->error.text - n, "%s", why.at);
	text_close(&why);
	return code;
}

static void
take_code(Artefact *a, char *code, size_t size)
{
	free(a->bytes);
	a->bytes = code;
	a->size = size;
	a->form = FORM_CUBIN;
}

static bool
is_whole_program(const Artefact *a)
{
	return a->parts_registers || strstr(a->bytes, "wgmma.");
}

/* As a whole program; what ptxas does not take stays PTX for the driver. */
static void
finish_whole(Device *d, Artefact *a)
{
	char arch[16];
	size_t size = 0;
	Text why = {0};
	machine_name(CUDA_STATE(d), a, arch);
	char *code = by_ptxas(a, arch, &size, &why);
	if (code)
		take_code(a, code, size);
	text_close(&why);
}

bool
cuda_load_text(Device *d, const Artefact *a, void **module)
{
	char log[LOG_BYTES] = "";
	int option[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE, JIT_LINES};
	void *value[] = {log, (void *)(uintptr_t)LOG_BYTES, (void *)(uintptr_t)1};
	bool ok = CUDA_CALL(d, cuModuleLoadDataEx, module, a->bytes, LEN(option), option, value);
	if (!ok)
		add_log(d, log);
	return ok;
}

bool
cuda_finish(Device *d, Artefact *a)
{
	const CudaState *s = CUDA_STATE(d);
	size_t size = 0;
	CudaResult last = 0;
	void *ours;
	if (a->form != FORM_PTX)
		return true;
	if (is_whole_program(a)) {
		finish_whole(d, a);
		return true;
	}
	s->cuda.cuCtxPushCurrent_v2(s->context);
	char *code = by_driver(d, a, &size, &last);
	if (!code && (last == CUDA_OLD_PTX || last == CUDA_NO_PTX_COMPILER || last == CUDA_PTX_DISABLED)) {
		code = by_tools(d, a, &size);
		if (code)
			d->error = (DeviceError){0};
	}
	s->cuda.cuCtxPopCurrent_v2(&ours);
	if (code)
		take_code(a, code, size);
	return code;
}
