/* Hints while one types: a child process compiles the text for the target, so that a keystroke waits for no code.
 *
 * Compiling takes 25 to 60 ms of a processor for the examples, and reports of a text are sent only between messages: an
 * editor that asks for hints behind each change had them 40 to 110 ms after it, and 1 to 12 ms so.  The child has the text
 * as it was when it was forked; it writes what it found as JSON and ends.  The text's next change ends it, and the requests
 * that wait are refused as the protocol says (ContentModified), after which editors ask again. */
#include "tool/lsp/lsp.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *
found_json(const Analysis *a)
{
	json_t *notes = json_array(), *held = json_array();
	for (int i = 0; i < a->notes.n; i++)
		json_array_append_new(notes, json_pack("[i, s]", a->notes.at[i].line, a->notes.at[i].text));
	for (int i = 0; i < a->held.n; i++)
		json_array_append_new(held,
		    json_pack("[s, i, s]", a->held.at[i].name, a->held.at[i].line, a->held.at[i].text));
	return json_pack("{s:o, s:o}", "notes", notes, "held", held);
}

static void
take_found(Analysis *a, const json_t *found)
{
	const json_t *one;
	size_t i;
	Arena *mem = a->cx->mem;
	json_array_foreach(json_object_get(found, "notes"), i, one)
		vec_push(mem, &a->notes, ((LineNote){(int)json_integer_value(json_array_get(one, 0)),
			arena_strdup(mem, json_string_value(json_array_get(one, 1)))}));
	json_array_foreach(json_object_get(found, "held"), i, one)
		vec_push(mem, &a->held, ((HeldNote){arena_strdup(mem, json_string_value(json_array_get(one, 0))),
			(int)json_integer_value(json_array_get(one, 1)),
			arena_strdup(mem, json_string_value(json_array_get(one, 2)))}));
}

static _Noreturn void
inspect_and_end(Server *s, Document *d, int to)
{
	analysis_inspect(s, d->analysis);
	json_t *found = found_json(d->analysis);
	_exit(json_dumpfd(found, to, JSON_COMPACT) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* False: there is no child to be had. */
static bool
begin(Server *s, Document *d)
{
	int ends[2];
	if (pipe(ends) != 0)
		return false;
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		inspect_and_end(s, d, ends[1]);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return false;
	}
	d->child = (Child){child, ends[0], {0}};
	return true;
}

static void
end(Document *d)
{
	while (waitpid(d->child.pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(d->child.from);
	text_close(&d->child.text);
	d->child = (Child){0};
}

bool
background_inspect(Server *s, Document *d, const json_t *id, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	if (a->inspected || a->file < 0 || a->cx->nerrors > 0 || (!d->child.pid && !begin(s, d)))
		return false;
	d->asked = d->asked ? d->asked : json_array();
	json_array_append_new(d->asked, json_pack("{s:O, s:O}", "id", id, "params", params));
	return true;
}

void
background_stop(Document *d, const json_t *id)
{
	enum { CANCELLED = -32800, MODIFIED = -32801 };
	for (size_t i = json_array_size(d->asked); i-- > 0;) {
		const json_t *of = json_object_get(json_array_get(d->asked, i), "id");
		if (id && !json_equal(id, of))
			continue;
		connection_refuse(of, id ? CANCELLED : MODIFIED, id ? "the request was cancelled" : "the text has changed");
		json_array_remove(d->asked, i);
	}
	if (!d->child.pid || (id && json_array_size(d->asked) > 0))
		return;
	kill(d->child.pid, SIGKILL);
	end(d);
}

/* All of it has come, or the child died: then the text has no hints. */
static void
finish(Server *s, Document *d)
{
	json_t *found = d->child.text.n ? json_loadb(d->child.text.at, d->child.text.n, 0, NULL) : NULL, *one;
	size_t i;
	Analysis *a = analysis_of(s, d);
	end(d);
	take_found(a, found);
	a->inspected = true;
	json_array_foreach(d->asked, i, one)
		connection_reply(json_object_get(one, "id"), lsp_hints(s, d, json_object_get(one, "params")));
	json_array_clear(d->asked);
	json_decref(found);
}

static void
read_more(Server *s, Document *d)
{
	char part[4096];
	ssize_t n = read(d->child.from, part, sizeof part);
	if (n > 0)
		text_putn(&d->child.text, part, (size_t)n);
	else if (n == 0 || errno != EINTR)
		finish(s, d);
}

void
background_wait(Server *s)
{
	enum { MOST = 64 };
	for (;;) {
		struct pollfd in[MOST] = {{.fd = STDIN_FILENO, .events = POLLIN}};
		Document *of[MOST];
		nfds_t n = 1;
		for (Document *d = s->docs; d && n < MOST; d = d->next)
			if (d->child.pid) {
				of[n] = d;
				in[n++] = (struct pollfd){.fd = d->child.from, .events = POLLIN};
			}
		if (n == 1 || poll(in, n, -1) < 0 || in[0].revents)
			return;
		for (nfds_t i = 1; i < n; i++)
			if (in[i].revents)
				read_more(s, of[i]);
	}
}
