/* A .metal file becomes a library of this machine: the signatures of its kernels are read from the text, an entry that
 * calls each with its arguments is put behind it, clang compiles that with a call before each access to memory, and the
 * linker's symbols say where the arrays in threadgroup memory lie.  Arrays are set far apart, so that running over the end
 * of one does not reach the next. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
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

static const char *const builtin_name[] = {"thread_position_in_grid", "threadgroup_position_in_grid",
	"thread_position_in_threadgroup", "threads_per_threadgroup", "threadgroups_per_grid", "threads_per_grid",
	"thread_index_in_threadgroup", "thread_index_in_simdgroup", "simdgroup_index_in_threadgroup",
	"simdgroups_per_threadgroup", "threads_per_simdgroup"};
enum { POSITIONS = 6, BUILTINS = 11 };                      /* the first have up to three components */

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

static void
fail(MslProgram *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
fail(MslProgram *p, const char *fmt, ...)
{
	va_list ap;
	if (p->error)
		return;
	va_start(ap, fmt);
	if (vasprintf(&p->error, fmt, ap) < 0)
		p->error = NULL;
	va_end(ap);
}

/* ---- reading signatures ---- */

/* Comments and strings become blanks, so that the rest can be searched; lines stay. */
static void
blank(char *s)
{
	while (*s) {
		if (s[0] == '/' && s[1] == '/') {
			for (; *s && *s != '\n'; s++)
				*s = ' ';
		} else if (s[0] == '/' && s[1] == '*') {
			for (; *s && !(s[0] == '*' && s[1] == '/'); s++)
				if (*s != '\n')
					*s = ' ';
			if (*s)
				s[0] = s[1] = ' ';
		} else if (*s == '"') {
			for (s++; *s && *s != '"' && *s != '\n'; s++)
				*s = ' ';
			if (*s)
				s++;
		} else
			s++;
	}
}

static bool
is_name(int c)
{
	return isalnum(c) || c == '_';
}

static const char *
word_in(const char *s, const char *end, const char *word)
{
	size_t n = strlen(word);
	for (; s + n <= end; s++)
		if (strncmp(s, word, n) == 0 && !is_name(s[n]) && (s[-1] == 0 || !is_name(s[-1])))
			return s;
	return NULL;
}

static int
line_at(const char *text, const char *at)
{
	int n = 1;
	for (; text < at; text++)
		n += *text == '\n';
	return n;
}

static void
copy_trimmed(char *to, size_t room, const char *from, const char *end)
{
	while (from < end && isspace((unsigned char)*from))
		from++;
	while (end > from && isspace((unsigned char)end[-1]))
		end--;
	size_t n = (size_t)(end - from) < room - 1 ? (size_t)(end - from) : room - 1;
	memcpy(to, from, n);
	to[n] = 0;
	for (char *c = to; *c; c++)
		if (isspace((unsigned char)*c))
			*c = ' ';
}

static void
parse_builtin(MslProgram *p, MslParam *to, const char *name, int line)
{
	static const char *const type[] = {"ushort", "uint", "ushort2", "uint2", "ushort3", "uint3"};
	to->kind = MSL_BUILTIN;
	for (to->index = 0; to->index < BUILTINS; to->index++)
		if (strcmp(builtin_name[to->index], name) == 0)
			break;
	if (to->index == BUILTINS) {
		fail(p, "%d: error: [[%s]] is no attribute of a compute kernel's parameter that the checker knows", line, name);
		return;
	}
	for (int i = 0; i < 6; i++)
		if (strcmp(type[i], to->type) == 0)
			to->components = i / 2 + 1;
	if (!to->components)
		fail(p, "%d: error: type '%s' is not valid for attribute '%s'", line, to->type, name);
	else if (to->index >= POSITIONS && to->components > 1)
		fail(p, "%d: error: type '%s' is not valid for attribute '%s'", line, to->type, name);
}

static void
parse_memory(MslProgram *p, MslParam *to, int line)
{
	const char *end = to->type + strlen(to->type);
	char last = end > to->type ? end[-1] : 0;
	to->is_constant = word_in(to->type, end, "constant");
	to->is_const = to->is_constant || word_in(to->type, end, "const");
	if (last != '*' && last != '&')
		fail(p, "%d: error: '%s' is neither a pointer nor a reference, as a buffer has to be", line, to->name);
	else if (!to->is_constant && !word_in(to->type, end, "device") && !word_in(to->type, end, "threadgroup"))
		fail(p, "%d: error: '%s' has no address space", line, to->name);
	to->kind = last == '&' ? MSL_REFERENCE : word_in(to->type, end, "threadgroup") ? MSL_SHARED_POINTER : MSL_POINTER;
}

/* One parameter: its type, its name, its attribute. */
static void
parse_param(MslProgram *p, MslKernel *k, const char *s, const char *end, int line)
{
	MslParam *to = &k->param[k->nparam++];
	char attribute[96];
	const char *open = memmem(s, (size_t)(end - s), "[[", 2), *close = open ? memmem(open,
	    (size_t)(end - open), "]]", 2) : NULL;
	if (!close) {
		char text[96];
		copy_trimmed(text, sizeof text, s, end);
		fail(p, "%d: error: parameter '%s' has no attribute", line, text);
		return;
	}
	copy_trimmed(attribute, sizeof attribute, open + 2, close);
	const char *name_end = open;
	while (name_end > s && !is_name(name_end[-1]))
		name_end--;
	const char *name = name_end;
	while (name > s && is_name(name[-1]))
		name--;
	copy_trimmed(to->name, sizeof to->name, name, name_end);
	copy_trimmed(to->type, sizeof to->type, s, name);
	if (sscanf(attribute, "buffer ( %d )", &to->index) == 1) {
		parse_memory(p, to, line);
		if (to->index < 0 || to->index >= MSL_BUFFERS)
			fail(p, "%d: error: 'buffer' attribute parameter is out of bounds: must be between 0 and 30", line);
		for (int i = 0; i < k->nparam - 1; i++)
			if ((k->param[i].kind == MSL_POINTER || k->param[i].kind == MSL_REFERENCE) &&
			    k->param[i].index == to->index)
				fail(p, "%d: error: buffer(%d) is '%s' already", line, to->index, k->param[i].name);
	} else if (sscanf(attribute, "threadgroup ( %d )", &to->index) == 1) {
		parse_memory(p, to, line);
		to->kind = MSL_SHARED_POINTER;
		to->index = MSL_BUFFERS;
	} else
		parse_builtin(p, to, attribute, line);
}

static void
parse_params(MslProgram *p, MslKernel *k, const char *text, const char *s, const char *end)
{
	int depth = 0;
	const char *from = s;
	for (; s <= end; s++) {
		depth += *s == '(' || *s == '<' || *s == '[';
		depth -= s < end && (*s == ')' || *s == '>' || *s == ']');
		if (s == end || (*s == ',' && depth == 0)) {
			const char *word = from;
			while (word < s && isspace((unsigned char)*word))
				word++;
			if (k->nparam == (int)(sizeof k->param / sizeof *k->param))
				fail(p, "%d: error: too many parameters", line_at(text, word));
			else if (word < s)
				parse_param(p, k, from, s, line_at(text, word));
			from = s + 1;
		}
	}
	int components = 0;
	for (int i = 0; i < k->nparam; i++) {
		const MslParam *a = &k->param[i];
		if (a->kind != MSL_BUILTIN || a->index >= POSITIONS)
			continue;
		if (components && a->components != components)
			fail(p, "%d: error: position attributes of kernel '%s' differ in their number of components", k->line, k->name);
		components = a->components;
	}
}

static const char *
closing(const char *s)
{
	for (int depth = 0; *s; s++) {
		depth += *s == '(';
		depth -= *s == ')';
		if (depth == 0)
			return s;
	}
	return NULL;
}

/* `text` has a 0 before it. */
static void
parse_kernels(MslProgram *p, const char *text)
{
	const char *end = text + strlen(text), *s = text;
	p->names_elements = word_in(text, end, "thread_elements");
	p->has_atomics = strstr(text, "atomic_");
	while ((s = word_in(s, end, "kernel"))) {
		const char *name = s + 6, *from = s;
		s += 6;
		while (isspace((unsigned char)*name))
			name++;
		if (strncmp(name, "void", 4) != 0 || is_name(name[4]))
			continue;
		for (name += 4; isspace((unsigned char)*name); name++)
			;
		const char *open = name;
		while (is_name(*open))
			open++;
		MslKernel *k = &p->kernel[p->nkernel];
		copy_trimmed(k->name, sizeof k->name, name, open);
		k->line = line_at(text, name);
		open = strchr(open, '(');
		const char *close = open ? closing(open) : NULL;
		if (!close || p->nkernel == MSL_MAX_KERNELS)
			return;
		while (from > text && from[-1] != ';' && from[-1] != '}')
			from--;
		const char *most = word_in(from, s, "max_total_threads_per_threadgroup");
		if (!most || sscanf(most, "max_total_threads_per_threadgroup ( %d )", &k->threads) != 1)
			k->threads = -1;
		if (strcmp(k->name, "main") == 0)
			fail(p, "%d: error: a kernel cannot be named 'main'", k->line);
		p->nkernel++;
		parse_params(p, k, text, open + 1, close);
		s = close;
	}
}

/* ---- compiling ---- */

static void
put_argument(FILE *f, const MslParam *a)
{
	static const char axis[] = "xyz";
	char bare[96];
	copy_trimmed(bare, sizeof bare, a->type, a->type + strlen(a->type) - (a->kind == MSL_REFERENCE));
	switch (a->kind) {
	case MSL_POINTER:
	case MSL_SHARED_POINTER: fprintf(f, "(%s)b[%d]", a->type, a->index); break;
	case MSL_REFERENCE: fprintf(f, "*(%s *)b[%d]", bare, a->index); break;
	case MSL_BUILTIN:
		fprintf(f, "%s(", a->type);
		for (int i = 0; i < a->components; i++)
			fprintf(f, "%si[%d /* %c */]", i ? ", " : "", a->index < POSITIONS ? 3 * a->index + i
			    : 18 + a->index - POSITIONS,
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
 * a read of what cannot change, such as arrays in constant memory: these can, as far as its pass knows. */
#define CLANG "-O1 -fPIC -ffp-contract=off -fsanitize=thread -Wno-unused-command-line-argument "
#define FEW_EXTENSIONS "-Xclang -cl-ext=+all,-cl_khr_fp64,-__opencl_c_fp64,-__opencl_c_program_scope_global_variables," \
	"-__opencl_c_device_enqueue,-__opencl_c_pipes "

static void
compile(MslProgram *p)
{
	char clang[512], command[4096], log[128];
	if (!msl_compiler(clang, sizeof clang)) {
		fail(p, "error: there is no clang here");
		return;
	}
	snprintf(log, sizeof log, "%s/log", p->folder);
	snprintf(command, sizeof command,
	    "cd '%s' && '%s' " CLANG FEW_EXTENSIONS "-x cl -cl-std=clc++2021 -cl-no-stdinc -fno-inline -gline-tables-only -gdwarf-4 "
	    "-Werror=uninitialized -Wno-unknown-attributes -Wno-double-promotion -isystem '%s' "
	    "-Xclang -disable-llvm-passes -S -emit-llvm k.cl -o k.ll >log 2>&1 && "
	    "sed '/^@[A-Za-z_0-9]* = /s/ constant \\[/ global [/' k.ll >k2.ll && "
	    "'%s' " CLANG "-x ir -fdata-sections -mllvm -tsan-instrument-func-entry-exit=0 "
	    "-mllvm -tsan-instrument-read-before-write=1 -mllvm -tsan-instrument-atomics=0 -c k2.ll -o k.o >>log 2>&1 && "
	    "objcopy --set-section-alignment '.bss.*=65536' --set-section-alignment '.data.*=65536' k.o k2.o >>log 2>&1 && "
	    "cc -shared k2.o -o k.so >>log 2>&1",
	    p->folder, clang, MSL_INCLUDE, clang);
	if (system(command) != 0) {
		char *said = read_all(log, NULL);
		fail(p, "%s", said && *said ? said : "error: the compiler failed");
		free(said);
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
			fail(p, "%d: error: too many arrays in threadgroup memory", k->line);
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
			fail(p, "error: too many arrays in constant memory");
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
	struct link_map *map;
	Dl_info own;
	if (dladdr(&builtin_name,
	    &own))                /* so that kernels find what they call in a library that is hidden */
		dlopen(own.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
	p->handle = dlopen(p->library, RTLD_NOW | RTLD_LOCAL);
	if (!p->handle || dlinfo(p->handle, RTLD_DI_LINKMAP, &map) != 0) {
		fail(p, "error: %s", dlerror());
		return;
	}
	p->base = (uint8_t *)map->l_addr;
	read_symbols(p);
}

MslProgram *
msl_open(const char *path)
{
	MslProgram *p = calloc(1, sizeof *p);
	char entries[128], *text;
	if (!p)
		return NULL;
	snprintf(p->folder, sizeof p->folder, "/tmp/msl.XXXXXX");
	if (!mkdtemp(p->folder)) {
		p->folder[0] = 0;
		fail(p, "error: no folder for temporary files");
		return p;
	}
	char *real = realpath(path, NULL);
	text = real ? read_all(real, NULL) : NULL;
	snprintf(p->text_path, sizeof p->text_path, "%s", real ? real : path);
	free(real);
	if (!text) {
		fail(p, "error: cannot read %s", path);
		return p;
	}
	char *guarded = calloc(1, strlen(text) + 2);
	strcpy(guarded + 1, text);
	blank(guarded + 1);
	parse_kernels(p, guarded + 1);
	free(guarded);
	free(text);
	snprintf(entries, sizeof entries, "%s/k.cl", p->folder);
	snprintf(p->library, sizeof p->library, "%s/k.so", p->folder);
	if (!p->error && !write_entries(p, entries))
		fail(p, "error: cannot write %s", entries);
	if (!p->error)
		compile(p);
	if (!p->error)
		load(p);
	return p;
}

void
msl_close(MslProgram *p)
{
	static const char *const name[] = {"k.cl", "k.o", "k2.o", "k.so", "log"};
	char path[128];
	if (!p)
		return;
	if (p->handle)
		dlclose(p->handle);
	for (int i = 0; p->folder[0] && i < 5; i++) {
		snprintf(path, sizeof path, "%s/%s", p->folder, name[i]);
		unlink(path);
	}
	if (p->folder[0])
		rmdir(p->folder);
	free(p->error);
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

/* The innermost place of the chain of inlined calls that is in the file itself. */
int
msl_line(const MslProgram *p, uint64_t offset)
{
	char command[512], row[1024];
	int line = 0;
	snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%llx 2>/dev/null", p->library,
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
