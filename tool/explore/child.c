/* A command in a process of its own.  Its process group is killed at its limit of time, or when the reader goes away. */
#define _GNU_SOURCE
#include "tool/explore/explore.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef POLLRDHUP
#define POLLRDHUP POLLHUP                                   /* elsewhere than on Linux */
#endif

enum { MOST_ERRORS = 1 << 20 };                             /* bytes of standard error that are handed on */

static double
now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A file without a name that holds `text`, to be read from its start; -1: none. */
static int
nameless(const char *text, size_t size)
{
	char path[] = "/tmp/tegula-XXXXXX";
	int fd = mkstemp(path);
	if (fd < 0)
		return -1;
	unlink(path);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	while (size > 0) {
		ssize_t n = write(fd, text, size);
		if (n <= 0) {
			close(fd);
			return -1;
		}
		text += n;
		size -= (size_t)n;
	}
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* Between fork and exec: only what is safe in a child of a process with threads. */
static void
become(const char *const *argv, const char *folder, int in, int out, int error)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0);
	if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(error, 2) >= 0 && chdir(folder) == 0)
		execv(argv[0], (char *const *)argv);
	_exit(127);
}

static int
take_slot(Explorer *x)
{
	for (int i = 0; i < MOST_CHILDREN; i++) {
		if (x->child[i] == 0) {
			x->child[i] = -1;
			return i;
		}
	}
	return -1;
}

static void
free_slot(Explorer *x, int slot)
{
	pthread_mutex_lock(&x->lock);
	x->child[slot] = 0;
	pthread_mutex_unlock(&x->lock);
}

static pid_t
start(Child *c, const char *const *argv, const char *folder, int in)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0)
		become(argv, folder, in, ends[1], c->error >= 0 ? c->error : ends[1]);
	close(ends[1]);
	c->out = ends[0];
	if (pid > 0)
		setpgid(pid, pid);                  /* whoever of both comes first */
	return pid;
}

Child *
child_start(Explorer *x, const char *const *argv, const char *folder, const char *input, size_t size, bool join,
    double limit)
{
	pthread_mutex_lock(&x->lock);
	int slot = take_slot(x);
	pthread_mutex_unlock(&x->lock);
	if (slot < 0)
		return NULL;
	Child *c = calloc(1, sizeof *c);
	int in = c ? nameless(input, size) : -1;
	if (c)
		*c = (Child){.x = x, .slot = slot, .out = -1, .reader = -1, .error = join ? -1 : nameless("", 0),
			.started = now(), .limit = limit};
	pid_t pid = in >= 0 && (join || c->error >= 0) ? start(c, argv, folder, in) : -1;
	if (in >= 0)
		close(in);
	if (pid > 0) {
		c->pid = x->child[slot] = pid;
		return c;
	}
	free_slot(x, slot);
	if (c && c->out >= 0)
		close(c->out);
	if (c && c->error >= 0)
		close(c->error);
	free(c);
	return NULL;
}

static void
wait_for(Child *c)
{
	int status = 0;
	if (c->ended)
		return;
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {}
	free_slot(c->x, c->slot);
	c->ended = true;
	c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What it wrote to standard error: an array of messages if that is what it is, else text. */
static json_t *
errors_of(const Child *c)
{
	char part[4096];
	Text t = {0};
	ssize_t n;
	if (c->error < 0)
		return json_null();
	lseek(c->error, 0, SEEK_SET);
	while (t.n < MOST_ERRORS && (n = read(c->error, part, sizeof part)) > 0)
		text_putn(&t, part, (size_t)n);
	json_t *j = t.n ? json_loadb(t.at, t.n, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	if (!json_is_array(j)) {
		json_decref(j);
		j = json_stringn_nocheck(t.n ? t.at : "", t.n);
	}
	text_close(&t);
	return j;
}

static void
write_trailer(Child *c)
{
	double seconds = now() - c->started;
	wait_for(c);
	json_t *j = json_pack("{s:i, s:f, s:b, s:o}", "exit", c->status, "seconds", seconds, "late", c->late, "errors",
	    errors_of(c));
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	text_printf(&c->trailer, "\x1e%s", text ? text : "{}");
	free(text);
	json_decref(j);
}

/* Waits until there is something to read, the time is up, or the reader has closed the connection: while there is no
 * output, nothing else would tell. */
static void
await(Child *c)
{
	struct pollfd p[] = {{.fd = c->out, .events = POLLIN}, {.fd = c->reader, .events = POLLRDHUP}};
	double left = c->started + c->limit - now();
	if (c->late)
		return;
	int n = poll(p, LEN(p), left > 0 ? (int)(left * 1000) + 1 : 0);
	c->late = n == 0;
	if (n == 0 || (n > 0 && p[1].revents))
		kill(-c->pid, SIGKILL);
	if (n > 0 && p[1].revents)
		c->reader = -1;                     /* poll() leaves negative ones out */
}

size_t
child_read(Child *c, char *at, size_t n)
{
	if (!c->trailer.n) {
		await(c);
		ssize_t got;
		while ((got = read(c->out, at, n)) < 0 && errno == EINTR) {}
		if (got > 0)
			return (size_t)got;
		write_trailer(c);
	}
	n = MIN(n, c->trailer.n - c->sent);
	memcpy(at, c->trailer.at + c->sent, n);
	c->sent += n;
	return n;
}

void
child_end(Child *c)
{
	if (!c)
		return;
	if (!c->ended)
		kill(-c->pid, SIGKILL);
	wait_for(c);
	close(c->out);
	if (c->error >= 0)
		close(c->error);
	text_close(&c->trailer);
	free(c);
}

void
children_kill(Explorer *x)
{
	pthread_mutex_lock(&x->lock);
	for (int i = 0; i < MOST_CHILDREN; i++)
		if (x->child[i] > 0)
			kill(-x->child[i], SIGKILL);
	pthread_mutex_unlock(&x->lock);
}
