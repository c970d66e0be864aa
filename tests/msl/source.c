/* A .metal file becomes a library of this machine: an entry that calls each kernel with its arguments is put behind the
 * text (signature.c), clang compiles that with a call before each access to memory, and the linker's symbols are the
 * addresses of the arrays in threadgroup memory.  Arrays are far apart, so that an overrun of one does not reach the next. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/msl/msl.h"

#ifndef MSL_INCLUDE
#define MSL_INCLUDE "tests/msl/include"
#endif

/* ---- small help ---- */

static char *
read_all(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	size_t n = 0, room = 0, got;
	if (!f)
		return NULL;
	do {
		text = realloc(text, room += 1 << 16);
		got = fread(text + n, 1, room - n - 1, f);
		n += got;
	} while (got);
	fclose(f);
	text[n] = 0;
	if (size)
		*size = n;
	return text;
}

void
msl_refuse(MslProgram *p, const char *fmt, ...)
{
	va_list ap;
	if (p->error)
		return;
	va_start(ap, fmt);
	if (vasprintf(&p->error, fmt, ap) < 0)
		p->error = NULL;
	va_end(ap);
}

/* ---- compiling ---- */

static void
put_argument(FILE *f, const MslParam *a)
{
	static const char axis[] = "xyz";
	char bare[96];
	msl_copy_trimmed(bare, sizeof bare, a->type, a->type + strlen(a->type) - (a->kind == MSL_REFERENCE));
	switch (a->kind) {
	case MSL_POINTER:
	case MSL_SHARED_POINTER: fprintf(f, "(%s)b[%d]", a->type, a->index); break;
	case MSL_REFERENCE: fprintf(f, "*(%s *)b[%d]", bare, a->index); break;
	case MSL_BUILTIN:
		fprintf(f, "%s(", a->type);
		for (int i = 0; i < a->components; i++)
			fprintf(f, "%si[%d /* %c */]", i ? ", " : "", a->index < MSL_POSITIONS ? 3 * a->index + i
			    : 18 + a->index - MSL_POSITIONS,
			    axis[i]);
		fprintf(f, ")");
	}
}

static bool
write_entries(const MslProgram *p, const char *path)
{
	FILE *f = fopen(path, "w");
	if (!f)
		return false;
	fprintf(f, "#include \"%s\"\n", p->text_path);
	for (int i = 0; i < p->nkernel; i++) {
		const MslKernel *k = &p->kernel[i];
		fprintf(f, "extern \"C\" void\nmsl_entry_%s(const ulong *b, const uint *i)\n{\n\t%s(",
		    k->name, k->name);
		for (int j = 0; j < k->nparam; j++) {
			fprintf(f, j ? ",\n\t    " : "");
			put_argument(f, &k->param[j]);
		}
		fprintf(f, ");\n}\n");
	}
	return fclose(f) == 0;
}

static bool
in_path(const char *name, char *out, size_t room)
{
	const char *s = getenv("PATH");
	while (s && *s) {
		size_t n = strcspn(s, ":");
		snprintf(out, room, "%.*s/%s", (int)n, s, name);
		if (access(out, X_OK) == 0)
			return true;
		s += n + (s[n] == ':');
	}
	return false;
}

bool
msl_compiler(char *path, size_t room)
{
	static const char *const name[] = {"clang-22", "clang", "clang-14"};
	char tool[512];
	const char *own = getenv("MSL_CLANG");
	if (!in_path("objcopy", tool, sizeof tool) || !in_path("addr2line", tool, sizeof tool) || !in_path("cc",
	    tool, sizeof tool))
		return false;
	if (own && *own)
		return snprintf(path, room, "%s", own) < (int)room && access(own, X_OK) == 0;
	for (int i = 0; i < 3; i++)
		if (in_path(name[i], path, room))
			return true;
	return false;
}

/* -O1 turns variables into registers; it makes no access that the text does not have.  ThreadSanitizer has no call before
 * a read of what cannot change, such as arrays in constant memory: where a text has some, they can, as far as its pass
 * knows.  Machine code is made by -O0, in half the time: it runs a moment. */
#define CLANG "-O1 -fPIC -ffp-contract=off -fsanitize=thread -Wno-unused-command-line-argument "
#define CALLS "-mllvm -tsan-instrument-func-entry-exit=0 -mllvm -tsan-instrument-read-before-write=1 " \
	"-mllvm -tsan-instrument-atomics=0 "
#define FEW_EXTENSIONS "-Xclang -cl-ext=+all,-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_program_scope_global_variables," \
	"-__opencl_c_device_enqueue,-__opencl_c_pipes "

#define LANGUAGE FEW_EXTENSIONS "-cl-std=clc++2021 -cl-no-stdinc -fno-inline -gdwarf-4 -gline-tables-only " \
	"-Werror=uninitialized -Wno-unknown-attributes -Wno-double-promotion -isystem '" MSL_INCLUDE "' "

/* The headers as clang keeps them once it has read them, which is most of the work on a short text: made by a process that
 * compiles a second text, for those from there on.  A text that does not include them gets none. */
typedef struct Headers {
	int texts;
	pid_t of;                                       /* the process that made it, and takes it away */
	char folder[256];
	bool ready;
} Headers;

enum { LINES = 251 };
struct MslLine {
	uint64_t offset;
	int line;                                       /* 0: not known */
};
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t headers_lock = PTHREAD_MUTEX_INITIALIZER;
static Headers headers;

static void
remove_headers(void)
{
	static const char *const name[] = {"h.cl", "h.pch"};
	char path[300];
	for (int i = 0; i < 2 && headers.of == getpid(); i++) {
		snprintf(path, sizeof path, "%s/%s", headers.folder, name[i]);
		unlink(path);
	}
	if (headers.of == getpid())
		rmdir(headers.folder);
}

static void
make_headers(const char *clang)
{
	char command[4096];
	const char *tmp = getenv("TMPDIR");
	snprintf(headers.folder, sizeof headers.folder, "%s/msl.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(headers.folder))
		return;
	headers.of = getpid();
	atexit(remove_headers);
	snprintf(command, sizeof command, "cd '%s' && echo '#include <metal_stdlib>' >h.cl && "
	    "'%s' " CLANG "-x cl-header " LANGUAGE "-Xclang -emit-pch h.cl -o h.pch >/dev/null 2>&1", headers.folder, clang);
	headers.ready = system(command) == 0;
}

/* Options that have a text's headers read already, if they are. */
static void
known_headers(const MslProgram *p, const char *clang, char *option, size_t room)
{
	*option = 0;
	if (!p->has_headers)
		return;
	pthread_mutex_lock(&headers_lock);
	if (++headers.texts == 2)
		make_headers(clang);
	if (headers.ready)
		snprintf(option, room, "-Xclang -include-pch -Xclang '%s/h.pch'", headers.folder);
	pthread_mutex_unlock(&headers_lock);
}

/* May the text have arrays in constant memory?  Attributes of parameters begin with two brackets. */
static bool
may_have_tables(const char *text)
{
	for (const char *s = text; (s = strstr(s, "constant ")); s++)
		for (const char *c = s; *c && *c != ';' && *c != ')'; c++)
			if (*c == '[' && c[1] != '[' && c[-1] != '[')
				return true;
	return false;
}

static void
compile(MslProgram *p)
{
	char clang[512], command[4096], log[256], known[400];
	if (!msl_compiler(clang, sizeof clang)) {
		msl_refuse(p, "error: there is no clang here");
		return;
	}
	snprintf(log, sizeof log, "%s/log", p->folder);
	known_headers(p, clang, known, sizeof known);
	int n = snprintf(command, sizeof command, "cd '%s' && ", p->folder);
	n += snprintf(command + n, sizeof command - (size_t)n, p->has_tables
	    ? "'%s' " CLANG "-x cl " LANGUAGE "%s -Xclang -disable-llvm-passes -S -emit-llvm k.cl -o k.ll >log 2>&1 && "
	      "sed '/^@[A-Za-z_0-9]* = /s/ constant \\[/ global [/' k.ll >k2.ll && "
	      "'%s' " CLANG "-x ir " CALLS "-emit-llvm -c k2.ll -o k.bc >>log 2>&1 && "
	    : "'%s' " CLANG "-x cl " LANGUAGE "%s " CALLS "-emit-llvm -c k.cl -o k.bc >log 2>&1 && ", clang, known, clang);
	snprintf(command + n, sizeof command - (size_t)n,
	    "'%s' -O0 -fPIC -x ir -fdata-sections -c k.bc -o k.o >>log 2>&1 && "
	    "objcopy --set-section-alignment '.bss.*=65536' --set-section-alignment '.data.*=65536' k.o k2.o >>log 2>&1 && "
	    "exec cc -shared k2.o -o k.so >>log 2>&1", clang);
	if (system(command) != 0) {
		char *messages = read_all(log, NULL);
		msl_refuse(p, "%s", messages && *messages ? messages : "error: the compiler failed");
		free(messages);
	}
}

/* ---- what the library has where ---- */

static void
find_arrays(MslProgram *p, MslKernel *k, const Elf64_Sym *symbol, size_t n, const char *names)
{
	char prefix[160];
	int len = snprintf(prefix, sizeof prefix, "_ZZ%zu%sE", strlen(k->name), k->name);
	for (size_t i = 0; i < n; i++) {
		const char *name = names + symbol[i].st_name;
		if (ELF64_ST_TYPE(symbol[i].st_info) != STT_OBJECT || strncmp(name, prefix, (size_t)len) != 0)
			continue;
		if (k->narray == MSL_MAX_ARRAYS) {
			msl_refuse(p, "%d: error: too many arrays in threadgroup memory", k->line);
			return;
		}
		MslArray *a = &k->array[k->narray++];
		a->offset = symbol[i].st_value;
		a->size = symbol[i].st_size;
		name += len;
		snprintf(a->name, sizeof a->name, "%s", name + strspn(name, "0123456789"));
	}
}

/* Arrays in constant memory are the only variables that other files could see. */
static void
find_tables(MslProgram *p, const Elf64_Sym *symbol, size_t n, const char *names)
{
	for (size_t i = 0; i < n; i++) {
		if (ELF64_ST_TYPE(symbol[i].st_info) != STT_OBJECT || ELF64_ST_BIND(symbol[i].st_info) != STB_GLOBAL ||
		    symbol[i].st_shndx == SHN_UNDEF)
			continue;
		if (p->ntable == MSL_MAX_ARRAYS) {
			msl_refuse(p, "error: too many arrays in constant memory");
			return;
		}
		MslArray *a = &p->table[p->ntable++];
		a->offset = symbol[i].st_value;
		a->size = symbol[i].st_size;
		snprintf(a->name, sizeof a->name, "%s", names + symbol[i].st_name);
	}
}

static void
read_symbols(MslProgram *p)
{
	size_t size;
	char *image = read_all(p->library, &size);
	const Elf64_Ehdr *e = (const void *)image;
	const Elf64_Shdr *section = (const void *)(image + e->e_shoff);
	for (int i = 0; i < e->e_shnum; i++)
		if (section[i].sh_type == SHT_SYMTAB) {
			const Elf64_Sym *symbol = (const void *)(image + section[i].sh_offset);
			size_t n = section[i].sh_size / sizeof *symbol;
			const char *text = image + section[section[i].sh_link].sh_offset;
			for (int k = 0; k < p->nkernel; k++)
				find_arrays(p, &p->kernel[k], symbol, n, text);
			find_tables(p, symbol, n, text);
		}
	const char *names = image + section[e->e_shstrndx].sh_offset;
	for (int i = 0; i < e->e_shnum; i++) {
		const Elf64_Shdr *s = &section[i];
		if (strncmp(names + s->sh_name, ".rodata", 7) != 0)
			continue;
		if (!p->constants_end)
			p->constants = s->sh_addr;
		p->constants_end = s->sh_addr + s->sh_size;
	}
	free(image);
}

static void
load(MslProgram *p)
{
	static const char here;
	struct link_map *map;
	Dl_info own;
	if (dladdr(&here, &own))                        /* kernels call functions of this library, which may be hidden */
		dlopen(own.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
	p->handle = dlopen(p->library, RTLD_NOW | RTLD_LOCAL);
	if (!p->handle || dlinfo(p->handle, RTLD_DI_LINKMAP, &map) != 0) {
		msl_refuse(p, "error: %s", dlerror());
		return;
	}
	p->base = (uint8_t *)map->l_addr;
	read_symbols(p);
}

MslProgram *
msl_open(const char *path)
{
	MslProgram *p = calloc(1, sizeof *p);
	char entries[256], *text;
	if (p)
		p->line = calloc(LINES, sizeof *p->line);
	if (!p || !p->line) {
		free(p);
		return NULL;
	}
	const char *tmp = getenv("TMPDIR");
	snprintf(p->folder, sizeof p->folder, "%s/msl.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(p->folder)) {
		p->folder[0] = 0;
		msl_refuse(p, "error: no folder for temporary files");
		return p;
	}
	char *real = realpath(path, NULL);
	text = real ? read_all(real, NULL) : NULL;
	snprintf(p->text_path, sizeof p->text_path, "%s", real ? real : path);
	free(real);
	if (!text) {
		msl_refuse(p, "error: cannot read %s", path);
		return p;
	}
	msl_signatures(p, text);
	p->has_headers = strstr(text, "#include <metal_stdlib>\n") != NULL;
	p->has_tables = may_have_tables(text);
	free(text);
	snprintf(entries, sizeof entries, "%s/k.cl", p->folder);
	snprintf(p->library, sizeof p->library, "%s/k.so", p->folder);
	if (!p->error && !write_entries(p, entries))
		msl_refuse(p, "error: cannot write %s", entries);
	if (!p->error)
		compile(p);
	if (!p->error)
		load(p);
	return p;
}

void
msl_close(MslProgram *p)
{
	static const char *const name[] = {"k.cl", "k.ll", "k2.ll", "k.bc", "k.o", "k2.o", "k.so", "log"};
	char path[256];
	if (!p)
		return;
	if (p->handle)
		dlclose(p->handle);
	for (size_t i = 0; p->folder[0] && i < sizeof name / sizeof *name; i++) {
		snprintf(path, sizeof path, "%s/%s", p->folder, name[i]);
		unlink(path);
	}
	if (p->folder[0])
		rmdir(p->folder);
	free(p->error);
	free(p->line);
	free(p);
}

const MslKernel *
msl_kernel(const MslProgram *p, const char *name)
{
	for (int i = 0; i < p->nkernel; i++)
		if (!name || strcmp(p->kernel[i].name, name) == 0)
			return &p->kernel[i];
	return NULL;
}

/* The innermost line of the chain of inlined calls that is in the file itself. */
static int
ask_line(const MslProgram *p, uint64_t offset)
{
	char command[512], row[1024];
	int line = 0;
	snprintf(command, sizeof command, "exec addr2line -i -e '%s' 0x%llx 2>/dev/null", p->library,
	    (unsigned long long)offset);
	FILE *f = popen(command, "r");
	while (f && !line && fgets(row, sizeof row, f)) {
		char *colon = strrchr(row, ':');
		if (!colon)
			continue;
		*colon = 0;
		if (strcmp(row, p->text_path) == 0)
			line = atoi(colon + 1);
	}
	if (f)
		pclose(f);
	return line;
}

/* Reports of one access are many, and each process takes longer than the report. */
int
msl_line(const MslProgram *p, uint64_t offset)
{
	pthread_mutex_lock(&lines_lock);
	struct MslLine *known = &p->line[offset % LINES];
	if (!known->line || known->offset != offset)
		*known = (struct MslLine){offset, ask_line(p, offset)};
	int line = known->line;
	pthread_mutex_unlock(&lines_lock);
	return line;
}
