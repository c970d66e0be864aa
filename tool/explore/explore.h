/* `tegula explore`: the report of a kernel as one types it, in a browser, with runs, traces and comparisons.
 *
 *     cmd_explore.c   options, the folder's files, until Ctrl-C
 *     server.c        HTTP on the loopback interface: who may ask, what is answered
 *     action.c        what the page asks for, as a command line of `tegula`
 *     child.c         that command in a process of its own, with a limit of time
 *     explore.html    the page, with a hole for its settings; built into the command
 *
 * Compilation, runs and races happen in child processes: one that crashes or never ends costs the server nothing. */
#ifndef TEGULA_EXPLORE_H
#define TEGULA_EXPLORE_H

#include "tool/cli.h"

#include <pthread.h>
#include <sys/types.h>

enum { MOST_FILES = 1000, MOST_CHILDREN = 8, MOST_ARGS = 64, TOKEN_DIGITS = 32, FOLDER_DEPTH = 4 };

typedef struct Explorer {
	Arena *mem;
	const char *program;                                /* path of this executable */
	const char *folder;                                 /* real path: no file outside of it is served */
	const char *first;                                  /* the file to open, beneath it */
	char token[TOKEN_DIGITS + 1];
	int port;
	pthread_mutex_t lock;                               /* of child[] */
	pid_t child[MOST_CHILDREN];                         /* running; 0: free */
} Explorer;

/* ---- child.c ---- */

typedef struct Child {
	Explorer *x;
	pid_t pid;
	int slot;
	int out;                                            /* its standard output (and error, if joined) to read from */
	int reader;                                         /* the connection that its output goes to; -1: not known */
	int error;                                          /* a file without a name with its standard error; -1: joined */
	double started, limit;                              /* seconds */
	bool ended, late;
	int status;                                         /* exit status, 128 + the signal that ended it */
	Text trailer;                                       /* what is still to be sent after its output */
	size_t sent;
} Child;

/* Starts argv[0] in `folder` with `input` as its standard input; NULL: it cannot be started, or there are
 * MOST_CHILDREN. */
Child *child_start(Explorer *x, const char *const *argv, const char *folder, const char *input, size_t size, bool join,
    double limit);
/* Up to n bytes of output, then of the trailer (a record separator, 0x1e, and JSON: {"exit", "seconds", "late",
 * "errors"}); 0: that was all.  Blocks. */
size_t child_read(Child *c, char *at, size_t n);
void child_end(Child *c);                                   /* kills it if it runs, and frees */
void children_kill(Explorer *x);

/* ---- action.c ---- */

/* Does what {"action": ..., "file": ..., "text": ..., ...} says, in a child; NULL, and *why, if it cannot. */
Child *action_start(Explorer *x, const json_t *request, const char **why);
/* The files beneath the folder, sorted: ["dsl_examples/softmax.tgl", ...]. */
json_t *explorer_files(const Explorer *x);
/* Is it one of those?  Its path, to be freed; NULL: no. */
char *explorer_path(const Explorer *x, const char *name);

/* ---- server.c ---- */

typedef struct Server Server;

/* Listens on 127.0.0.1 (x->port, 0: any that is free, which it then holds); NULL after printing why not. */
Server *server_open(Explorer *x);
void server_close(Server *s);

/* explore.html and the report's page.html up to their holes, and behind them. */
extern const unsigned char explore_page_head[], explore_page_tail[];

#endif
