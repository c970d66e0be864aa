/* HTTP on the loopback interface, beneath a path that holds a random token, for requests of the page itself.  Each
 * connection has a thread, which may wait for a child.
 *
 *     GET  /TOKEN/             the page
 *     GET  /TOKEN/report       the report's page, without a kernel
 *     GET  /TOKEN/file?name=F  the text of a file
 *     POST /TOKEN/do           {"action": ...}: its output as it comes (action.c, child.c)
 *     POST /TOKEN/save         {"file": F, "text": ...}
 *     POST /TOKEN/stop         ends all that runs
 *
 * A page of another origin cannot ask: it does not know the token; Host has to name this machine, so that a name made to
 * point at 127.0.0.1 is of no use; Origin, where there is one, has to be ours. */
#define _GNU_SOURCE
#include "tool/explore/explore.h"
#include "tool/report/report.h"

#include <errno.h>
#include <arpa/inet.h>
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BODY = 8 << 20, MOST_CONNECTIONS = 32, BLOCK = 1 << 16 };
enum { STATUS_OK = 200, STATUS_BAD = 400, STATUS_FORBIDDEN = 403, STATUS_NONE = 404,
	STATUS_METHOD = 405, STATUS_LARGE = 413, STATUS_BUSY = 503, STATUS_FAILED = 500 };

typedef struct Api {
#define HTTP(name) __typeof__(name) *name;
#include "tool/explore/microhttpd.def"
#undef HTTP
} Api;

struct Server {
	Explorer *x;
	Api api;
	struct MHD_Daemon *daemon;
};

typedef struct Request {                                    /* of one call: its body as it arrives */
	Text body;
	bool too_large;
} Request;

typedef struct MHD_Connection Connection;

/* ---- answers ---- */

static enum MHD_Result
queue(const Server *s, Connection *c, int status, const char *type, struct MHD_Response *r)
{
	static const char *const header[][2] = {
		{"Cache-Control", "no-store"}, {"Referrer-Policy", "no-referrer"}, {"X-Content-Type-Options", "nosniff"},
		{"X-Frame-Options", "SAMEORIGIN"}, {"Cross-Origin-Resource-Policy", "same-origin"},
		{"Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
					    "connect-src 'self'; frame-src 'self'; img-src data:; base-uri 'none'; "
					    "form-action 'none'; frame-ancestors 'self'"},
	};
	if (!r)
		return MHD_NO;
	s->api.MHD_add_response_header(r, "Content-Type", type);
	for (int i = 0; i < LEN(header); i++)
		s->api.MHD_add_response_header(r, header[i][0], header[i][1]);
	enum MHD_Result ok = s->api.MHD_queue_response(c, (unsigned)status, r);
	s->api.MHD_destroy_response(r);
	return ok;
}

static enum MHD_Result
answer(const Server *s, Connection *c, int status, const char *type, const char *text, size_t n)
{
	return queue(s, c, status, type, s->api.MHD_create_response_from_buffer(n, (void *)text, MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result
say(const Server *s, Connection *c, int status, const char *text)
{
	return answer(s, c, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* ---- what is asked ---- */

static json_t *
settings(const Explorer *x)
{
	json_t *targets = json_array();
	const Target *t;
	for (int i = 0; (t = target_at(i)); i++)
		json_array_append_new(targets, json_string(t->name));
	return json_pack("{s:s, s:s, s:s, s:o, s:o}", "version", tgl_version(), "folder", x->folder, "file",
	    x->first, "files", explorer_files(x), "targets", targets);
}

static enum MHD_Result
page(const Server *s, Connection *c, const unsigned char *head, json_t *take, const unsigned char *tail)
{
	Text out = {0};
	text_put(&out, (const char *)head);
	report_put_json(take, &out);
	text_put(&out, (const char *)tail);
	enum MHD_Result ok = answer(s, c, STATUS_OK, "text/html; charset=utf-8", out.at, out.n);
	text_close(&out);
	json_decref(take);
	return ok;
}

static enum MHD_Result
get_file(const Server *s, Connection *c)
{
	Text t = {0};
	const char *name = NULL;
	size_t n = 0;
	bool is_word = s->api.MHD_lookup_connection_value_n(c, MHD_GET_ARGUMENT_KIND, "name", 4, &name, &n) == MHD_YES &&
	    name && strlen(name) == n;              /* no %00 */
	char *path = explorer_path(s->x, is_word ? name : NULL);
	bool ok = path && file_read(path, MOST_BODY, &t);
	enum MHD_Result r = ok ? answer(s, c, STATUS_OK, "text/plain; charset=utf-8", t.n ? t.at : "", t.n)
			       : say(s, c, STATUS_NONE, "there is no such file in the folder");
	text_close(&t);
	free(path);
	return r;
}

static enum MHD_Result
get(const Server *s, Connection *c, const char *what)
{
	if (strcmp(what, "") == 0)
		return page(s, c, explore_page_head, settings(s->x), explore_page_tail);
	if (strcmp(what, "report") == 0)
		return page(s, c, report_page_head, json_array(), report_page_tail);
	if (strcmp(what, "file") == 0)
		return get_file(s, c);
	return say(s, c, STATUS_NONE, "there is no such page");
}

static ssize_t
read_child(void *child, uint64_t at, char *out, size_t n)
{
	size_t got = child_read(child, out, n);
	return got ? (ssize_t)got : MHD_CONTENT_READER_END_OF_STREAM;
}

static void
end_child(void *child)
{
	child_end(child);
}

static enum MHD_Result
post_do(const Server *s, Connection *c, const json_t *request)
{
	const char *why;
	Child *child = action_start(s->x, request, &why);
	if (!child)
		return say(s, c, strcmp(why, "too much runs already") == 0 ? STATUS_BUSY : STATUS_BAD, why);
	const union MHD_ConnectionInfo *info = s->api.MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	child->reader = info ? info->connect_fd : -1;
	return queue(s, c, STATUS_OK, "text/plain; charset=utf-8",
	    s->api.MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_child, child, end_child));
}

static enum MHD_Result
post_save(const Server *s, Connection *c, const json_t *request)
{
	const json_t *text = json_object_get(request, "text");
	char *path = explorer_path(s->x, json_string_value(json_object_get(request, "file")));
	enum MHD_Result r;
	if (!path || !json_is_string(text))
		r = say(s, c, STATUS_NONE, "there is no such file in the folder");
	else if (!cli_write_file(path, json_string_value(text), json_string_length(text)))
		r = say(s, c, STATUS_FAILED, "the file cannot be written");
	else
		r = say(s, c, STATUS_OK, "saved");
	free(path);
	return r;
}

static enum MHD_Result
post(const Server *s, Connection *c, const char *what, const Request *q)
{
	if (q->too_large)
		return say(s, c, STATUS_LARGE, "that is too large");
	if (strcmp(what, "stop") == 0) {
		children_kill(s->x);
		return say(s, c, STATUS_OK, "stopped");
	}
	json_t *request = q->body.n ? json_loadb(q->body.at, q->body.n, JSON_ALLOW_NUL, NULL) : NULL;
	enum MHD_Result r;
	if (!json_is_object(request))
		r = say(s, c, STATUS_BAD, "the body is no JSON object");
	else if (strcmp(what, "do") == 0)
		r = post_do(s, c, request);
	else if (strcmp(what, "save") == 0)
		r = post_save(s, c, request);
	else
		r = say(s, c, STATUS_NONE, "there is no such page");
	json_decref(request);
	return r;
}

/* ---- who asks ---- */

/* "127.0.0.1:PORT" or "localhost:PORT". */
static bool
is_here(const Explorer *x, const char *host)
{
	char name[64];
	static const char *const of[] = {"127.0.0.1", "localhost"};
	for (int i = 0; i < LEN(of); i++) {
		snprintf(name, sizeof name, "%s:%d", of[i], x->port);
		if (host && strcmp(host, name) == 0)
			return true;
	}
	return false;
}

static bool
may_ask(const Server *s, Connection *c)
{
	static const char scheme[] = "http://";
	const char *host = s->api.MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host");
	const char *origin = s->api.MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Origin");
	size_t n = sizeof scheme - 1;
	bool ours = !origin || (strncmp(origin, scheme, n) == 0 && is_here(s->x, origin + n));
	return is_here(s->x, host) && ours;
}

/* What follows "/TOKEN/"; NULL: another path.  Takes as long for every wrong token. */
static const char *
beneath_token(const Explorer *x, const char *url)
{
	unsigned differs = 0;
	if (strlen(url) < TOKEN_DIGITS + 2 || url[0] != '/' || url[TOKEN_DIGITS + 1] != '/')
		return NULL;
	for (int i = 0; i < TOKEN_DIGITS; i++)
		differs |= (unsigned)(url[1 + i] ^ x->token[i]);
	return differs ? NULL : url + TOKEN_DIGITS + 2;
}

static enum MHD_Result
serve(void *user, Connection *c, const char *url, const char *method, const char *version, const char *data,
    size_t *size, void **state)
{
	const Server *s = user;
	Request *q = *state;
	if (!q) {
		*state = calloc(1, sizeof *q);
		return *state ? MHD_YES : MHD_NO;
	}
	if (*size) {
		q->too_large = q->too_large || q->body.n + *size > MOST_BODY;
		if (!q->too_large)
			text_putn(&q->body, data, *size);
		*size = 0;
		return MHD_YES;
	}
	const char *what = beneath_token(s->x, url);
	if (!may_ask(s, c))
		return say(s, c, STATUS_FORBIDDEN, "only the page that this server gave out may ask");
	if (!what)
		return say(s, c, STATUS_NONE, "there is nothing here: open the address that tegula explore printed");
	if (strcmp(method, "GET") == 0)
		return get(s, c, what);
	return strcmp(method, "POST") == 0 ? post(s, c, what, q) : say(s, c, STATUS_METHOD, "GET or POST");
}

static void
forget(void *user, Connection *c, void **state, enum MHD_RequestTerminationCode how)
{
	Request *q = *state;
	if (!q)
		return;
	text_close(&q->body);
	free(q);
	*state = NULL;
}

/* ---- open and close ---- */

/* It stays open, as libraries that start threads had better. */
static bool
find_library(Api *api)
{
	static const char *const names[] = {"libmicrohttpd.so.12", "libmicrohttpd.so.14", "libmicrohttpd.so",
		"libmicrohttpd.dylib", "/opt/homebrew/lib/libmicrohttpd.dylib", "/usr/local/lib/libmicrohttpd.dylib"};
	void *lib = NULL;
	bool all = true;
	for (int i = 0; i < LEN(names) && !lib; i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		cli_wrong("explore needs GNU libmicrohttpd: install libmicrohttpd12 (Debian, Ubuntu) or "
			  "'brew install libmicrohttpd'");
		return false;
	}
#define HTTP(name)                                                                                 \
	*(void **)&api->name = dlsym(lib, #name);                                                  \
	all &= api->name != NULL;
#include "tool/explore/microhttpd.def"
#undef HTTP
	if (!all)
		cli_wrong("this libmicrohttpd lacks a function that is needed: install 0.9.71 or later");
	return all;
}

Server *
server_open(Explorer *x)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)x->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	Server *s = calloc(1, sizeof *s);
	if (!s)
		return cli_wrong("out of memory"), NULL;
	s->x = x;
	if (find_library(&s->api)) {
		s->daemon = s->api.MHD_start_daemon(
		    MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, serve, s,
		    MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&at, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
		    MHD_OPTION_NOTIFY_COMPLETED, forget, NULL, MHD_OPTION_END);
		if (!s->daemon)
			cli_wrong("cannot listen on port %d of 127.0.0.1: %s", x->port, strerror(errno));
	}
	if (!s->daemon) {
		free(s);
		return NULL;
	}
	const union MHD_DaemonInfo *info = s->api.MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
	x->port = info ? info->port : x->port;
	return s;
}

void
server_close(Server *s)
{
	if (!s)
		return;
	children_kill(s->x);
	s->api.MHD_stop_daemon(s->daemon);
	free(s);
}
