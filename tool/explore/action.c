/* What the page may ask for.  A request becomes a command line of this same program; nothing of it goes through a shell,
 * and every word is looked at before. */
#define _GNU_SOURCE
#include "tool/explore/explore.h"
#include "sema/sema.h"
#include "target/target.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Action {
	const char *name, *command;
	bool join;                                          /* standard error among the output */
	double limit;                                       /* seconds */
	bool json, target, device, trace, seed, sanitize;   /* which options it takes */
} Action;

static const Action actions[] = {
	{"report", "report", .limit = 30, .json = true, .target = true},
	{"run", "run", .join = true, .limit = 300, .device = true, .seed = true, .sanitize = true},
	{"trace", "run", .join = true, .limit = 60, .device = true, .trace = true, .seed = true},
	{"race", "race", .join = true, .limit = 300, .target = true},
	{"bench", "bench", .join = true, .limit = 300, .device = true},
};

/* ---- files ---- */

static bool
is_source(const char *name)
{
	size_t n = strlen(name);
	return name[0] != '.' && n > 4 && strcmp(name + n - 4, ".tgl") == 0;
}

static void
list_folder(const Explorer *x, const char *beneath, int depth, json_t *out)
{
	Text path = {0};
	text_printf(&path, "%s%s%s", x->folder, *beneath ? "/" : "", beneath);
	struct dirent **entry;
	int n = scandir(path.at, &entry, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		struct stat s;
		Text name = {0}, full = {0};
		text_printf(&name, "%s%s%s", beneath, *beneath ? "/" : "", entry[i]->d_name);
		text_printf(&full, "%s/%s", x->folder, name.at);
		if (entry[i]->d_name[0] != '.' && lstat(full.at, &s) == 0) {
			if (S_ISDIR(s.st_mode) && depth < FOLDER_DEPTH)
				list_folder(x, name.at, depth + 1, out);
			else if (S_ISREG(s.st_mode) && is_source(entry[i]->d_name) && json_array_size(out) < MOST_FILES)
				json_array_append_new(out, json_string(name.at));
		}
		text_close(&name);
		text_close(&full);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
	text_close(&path);
}

json_t *
explorer_files(const Explorer *x)
{
	json_t *all = json_array();
	list_folder(x, "", 0, all);
	return all;
}

char *
explorer_path(const Explorer *x, const char *name)
{
	Text path = {0};
	char *real = NULL;
	size_t n = strlen(x->folder);
	if (!name || !is_source(strrchr(name, '/') ? strrchr(name, '/') + 1 : name))
		return NULL;
	text_printf(&path, "%s/%s", x->folder, name);
	real = realpath(path.at, NULL);
	if (real && (strncmp(real, x->folder, n) != 0 || real[n] != '/')) {
		free(real);                         /* outside: by "..", or by a link */
		real = NULL;
	}
	text_close(&path);
	return real;
}

/* ---- words ---- */

static bool
is_name(const char *s)
{
	return s && *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(s);
}

static bool
is_device(const char *s)
{
	return s && *s && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789:_") == strlen(s);
}

typedef struct Words {
	Arena *mem;
	const json_t *request;
	const char *at[MOST_ARGS + 1];
	int n;
	const char *why;
} Words;

static const char *
text_of(const Words *w, const char *key)
{
	const char *s = json_string_value(json_object_get(w->request, key));
	return s && *s ? s : NULL;
}

static void
add(Words *w, const char *word)
{
	if (w->n == MOST_ARGS)
		w->why = "too many options";
	else
		w->at[w->n++] = word;
}

/* --KEY=VALUE, if the request has the key. */
static void
add_option(Words *w, const char *key)
{
	const char *s = text_of(w, key);
	if (s)
		add(w, arena_printf(w->mem, "--%s=%s", key, s));
}

static void
add_defines(Words *w)
{
	const json_t *e;
	size_t i;
	json_array_foreach(json_object_get(w->request, "define"), i, e) {
		const char *s = json_string_value(e), *is = s ? strchr(s, '=') : NULL;
		const char *name = is ? arena_strndup(w->mem, s, (size_t)(is - s)) : "";
		int strided = strides_named(name);
		if (!is_name(strided ? arena_strndup(w->mem, name, (size_t)strided) : name)) {
			w->why = "an option is NAME=VALUE";
			return;
		}
		add(w, "-D");
		add(w, s);
	}
}

static void
add_words(Words *w, const Action *a, const char *file)
{
	const char *kernel = text_of(w, "kernel"), *target = text_of(w, "target"), *device = text_of(w, "device");
	add(w, a->command);
	add(w, arena_printf(w->mem, "--as=%s", file));
	if (a->json)
		add(w, "--json");
	if (a->target && target && !target_named(target))
		w->why = "there is no such target";
	else if (a->target)
		add_option(w, "target");
	if (a->device && device && !is_device(device))
		w->why = "there is no such device";
	else if (a->device)
		add_option(w, "device");
	if (a->trace)
		add_option(w, "trace");
	if (a->seed)
		add_option(w, "seed");
	if (a->sanitize && json_is_true(json_object_get(w->request, "sanitize")))
		add(w, "--sanitize");
	add_option(w, "example");
	add_defines(w);
	add(w, "-");
	if (kernel && !is_name(kernel))
		w->why = "there is no such kernel";
	else if (kernel)
		add(w, kernel);
}

static Child *
start(Explorer *x, Words *w, const Action *a, const char *text, size_t size, const char **why)
{
	char *path = explorer_path(x, text_of(w, "file")), *slash = path ? strrchr(path, '/') : NULL;
	Child *c = NULL;
	*why = "there is no such file in the folder";
	if (slash) {
		const char *folder = arena_strndup(w->mem, path, (size_t)(slash - path));
		add(w, x->program);
		add_words(w, a, slash + 1);
		w->at[w->n] = NULL;
		*why = w->why;
		if (!w->why) {
			c = child_start(x, w->at, folder, text, size, a->join, a->limit);
			*why = "too much runs already";
		}
	}
	free(path);
	return c;
}

Child *
action_start(Explorer *x, const json_t *request, const char **why)
{
	const json_t *text = json_object_get(request, "text");
	Words w = {.mem = arena_open(), .request = request};
	const char *name = text_of(&w, "action");
	Child *c = NULL;
	*why = "there is no such action";
	for (int i = 0; i < LEN(actions) && name; i++)
		if (strcmp(actions[i].name, name) == 0)
			c = start(x, &w, &actions[i], json_string_value(text) ? json_string_value(text) : "",
			    json_string_length(text), why);
	arena_close(w.mem);
	return c;
}
