/* The signatures of a text's kernels: names, parameters with their attributes, and what Metal's compiler would refuse of
 * them. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/msl/msl.h"

static const char *const builtin_name[] = {"thread_position_in_grid", "threadgroup_position_in_grid",
	"thread_position_in_threadgroup", "threads_per_threadgroup", "threadgroups_per_grid", "threads_per_grid",
	"thread_index_in_threadgroup", "thread_index_in_simdgroup", "simdgroup_index_in_threadgroup",
	"simdgroups_per_threadgroup", "threads_per_simdgroup"};

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

void
msl_copy_trimmed(char *to, size_t room, const char *from, const char *end)
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
	for (to->index = 0; to->index < MSL_BUILTINS; to->index++)
		if (strcmp(builtin_name[to->index], name) == 0)
			break;
	if (to->index == MSL_BUILTINS) {
		msl_refuse(p, "%d: error: [[%s]] is no attribute of a compute kernel's parameter that the checker knows", line, name);
		return;
	}
	for (int i = 0; i < 6; i++)
		if (strcmp(type[i], to->type) == 0)
			to->components = i / 2 + 1;
	if (!to->components)
		msl_refuse(p, "%d: error: type '%s' is not valid for attribute '%s'", line, to->type, name);
	else if (to->index >= MSL_POSITIONS && to->components > 1)
		msl_refuse(p, "%d: error: type '%s' is not valid for attribute '%s'", line, to->type, name);
}

static void
parse_memory(MslProgram *p, MslParam *to, int line)
{
	const char *end = to->type + strlen(to->type);
	char last = end > to->type ? end[-1] : 0;
	to->is_constant = word_in(to->type, end, "constant");
	to->is_const = to->is_constant || word_in(to->type, end, "const");
	if (last != '*' && last != '&')
		msl_refuse(p, "%d: error: '%s' is neither a pointer nor a reference, as a buffer has to be", line, to->name);
	else if (!to->is_constant && !word_in(to->type, end, "device") && !word_in(to->type, end, "threadgroup"))
		msl_refuse(p, "%d: error: '%s' has no address space", line, to->name);
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
		msl_copy_trimmed(text, sizeof text, s, end);
		msl_refuse(p, "%d: error: parameter '%s' has no attribute", line, text);
		return;
	}
	msl_copy_trimmed(attribute, sizeof attribute, open + 2, close);
	const char *name_end = open;
	while (name_end > s && !is_name(name_end[-1]))
		name_end--;
	const char *name = name_end;
	while (name > s && is_name(name[-1]))
		name--;
	msl_copy_trimmed(to->name, sizeof to->name, name, name_end);
	msl_copy_trimmed(to->type, sizeof to->type, s, name);
	if (sscanf(attribute, "buffer ( %d )", &to->index) == 1) {
		parse_memory(p, to, line);
		if (to->index < 0 || to->index >= MSL_BUFFERS)
			msl_refuse(p, "%d: error: 'buffer' attribute parameter is out of bounds: must be between 0 and 30", line);
		for (int i = 0; i < k->nparam - 1; i++)
			if ((k->param[i].kind == MSL_POINTER || k->param[i].kind == MSL_REFERENCE) &&
			    k->param[i].index == to->index)
				msl_refuse(p, "%d: error: buffer(%d) is '%s' already", line, to->index, k->param[i].name);
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
				msl_refuse(p, "%d: error: too many parameters", line_at(text, word));
			else if (word < s)
				parse_param(p, k, from, s, line_at(text, word));
			from = s + 1;
		}
	}
	int components = 0;
	for (int i = 0; i < k->nparam; i++) {
		const MslParam *a = &k->param[i];
		if (a->kind != MSL_BUILTIN || a->index >= MSL_POSITIONS)
			continue;
		if (components && a->components != components)
			msl_refuse(p, "%d: error: position attributes of kernel '%s' differ in their number of components", k->line, k->name);
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
		msl_copy_trimmed(k->name, sizeof k->name, name, open);
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
			msl_refuse(p, "%d: error: a kernel cannot be named 'main'", k->line);
		p->nkernel++;
		parse_params(p, k, text, open + 1, close);
		s = close;
	}
}

void
msl_signatures(MslProgram *p, const char *text)
{
	char *copy = calloc(1, strlen(text) + 2);
	strcpy(copy + 1, text);
	blank(copy + 1);
	parse_kernels(p, copy + 1);
	free(copy);
}
