/* A stand-in for NVRTC: libnvrtc.so.13 beside the stand-in driver.
 *
 * It compiles nothing.  The lines of a source that begin with "//ptx " are what the stand-in driver gets as the code;
 * each ".entry NAME" in them has a section, as in a cubin.  A source with "#error" in it is refused with a log, and one
 * with an #include whose file is in none of the folders of -I.  MOCK_CUDA_LOG gets a line for each option.
 * MOCK_NVRTC_FAIL: the result of every compilation. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, INVALID = 4, COMPILATION = 6 };

typedef struct Program {
	char *text, *name;
	char log[2048];
	char *code;
	size_t size;
} Program;

static const char elf[] = "\177ELFmock";

EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcCreateProgram(Program **out, const char *text, const char *name, int n, const char *const *headers,
    const char *const *names);
EXPORT int nvrtcCompileProgram(Program *p, int n, const char *const *options);
EXPORT int nvrtcGetCUBINSize(Program *p, size_t *size);
EXPORT int nvrtcGetCUBIN(Program *p, char *to);
EXPORT int nvrtcGetProgramLogSize(Program *p, size_t *size);
EXPORT int nvrtcGetProgramLog(Program *p, char *to);
EXPORT int nvrtcDestroyProgram(Program **p);

int
nvrtcVersion(int *major, int *minor)
{
	*major = 13;
	*minor = 0;
	return OK;
}

int
nvrtcCreateProgram(Program **out, const char *text, const char *name, int n, const char *const *headers,
    const char *const *names)
{
	(void)headers, (void)names;
	if (n)
		return INVALID;
	*out = calloc(1, sizeof **out);
	(*out)->text = strdup(text);
	(*out)->name = strdup(name);
	return OK;
}

static void
note_option(const char *option)
{
	const char *log = getenv("MOCK_CUDA_LOG");
	FILE *f = log && *log ? fopen(log, "a") : NULL;
	if (!f)
		return;
	fprintf(f, "nvrtc %s\n", option);
	fclose(f);
}

/* Whether what the source includes is found. */
static int
is_found(const char *text, int n, const char *const *options, char *name, size_t size)
{
	const char *at = strstr(text, "#include \"");
	char path[1024];
	if (!at)
		return 1;
	snprintf(name, size, "%.*s", (int)strcspn(at + 10, "\""), at + 10);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%s", options[i] + 2, name);
		if (strncmp(options[i], "-I", 2) == 0 && access(path, R_OK) == 0)
			return 1;
	}
	return 0;
}

static void
put(Program *p, const char *s, size_t n)
{
	p->code = realloc(p->code, p->size + n);
	memcpy(p->code + p->size, s, n);
	p->size += n;
}

static void
make_code(Program *p)
{
	put(p, elf, sizeof elf - 1);
	for (const char *s = p->text; s; s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
		if (strncmp(s, "//ptx ", 6) == 0)
			put(p, s + 6, strcspn(s + 6, "\n") + 1);
	put(p, "", 1);
	for (const char *s = p->text; (s = strstr(s, ".entry ")); s++) {
		put(p, ".text.", 6);
		put(p, s + 7, strcspn(s + 7, "( \n"));
		put(p, "", 1);
	}
}

int
nvrtcCompileProgram(Program *p, int n, const char *const *options)
{
	char name[200];
	const char *fail = getenv("MOCK_NVRTC_FAIL"), *error = strstr(p->text, "#error");
	for (int i = 0; i < n; i++)
		note_option(options[i]);
	if (fail && *fail)
		return atoi(fail);
	if (error || !is_found(p->text, n, options, name, sizeof name)) {
		if (error)
			snprintf(p->log, sizeof p->log, "%s(1): error: %.*s\n\n1 error detected in the compilation of \"%s\".\n",
			    p->name, (int)strcspn(error, "\n"), error, p->name);
		else
			snprintf(p->log, sizeof p->log, "%s(1): catastrophic error: cannot open source file \"%s\"\n", p->name, name);
		return COMPILATION;
	}
	make_code(p);
	return OK;
}

int
nvrtcGetCUBINSize(Program *p, size_t *size)
{
	*size = p->size;
	return OK;
}

int
nvrtcGetCUBIN(Program *p, char *to)
{
	memcpy(to, p->code, p->size);
	return OK;
}

int
nvrtcGetProgramLogSize(Program *p, size_t *size)
{
	*size = strlen(p->log) + 1;
	return OK;
}

int
nvrtcGetProgramLog(Program *p, char *to)
{
	strcpy(to, p->log);
	return OK;
}

int
nvrtcDestroyProgram(Program **p)
{
	free((*p)->text);
	free((*p)->name);
	free((*p)->code);
	free(*p);
	*p = NULL;
	return OK;
}
