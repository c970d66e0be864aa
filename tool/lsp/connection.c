/* Messages over standard input and output: a header with Content-Length, an empty line, that many bytes of JSON. */
#include "tool/lsp/lsp.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_MOST = 128 << 20 };

static bool
begins(const char *line, const char *word)
{
	while (*word && char_lower(*line) == char_lower(*word)) {
		line++;
		word++;
	}
	return !*word;
}

/* Header lines up to the empty one; the length, -1 where the input ends, -2 without a length. */
static long
read_header(void)
{
	static const char word[] = "Content-Length:";
	char line[256];
	long n = -2;
	while (fgets(line, sizeof line, stdin)) {
		if (strcmp(line, "\r\n") == 0 || strcmp(line, "\n") == 0)
			return n;
		if (begins(line, word))
			n = strtol(line + sizeof word - 1, NULL, 10);
	}
	return -1;
}

json_t *
connection_read(bool *broken)
{
	long n = read_header();
	*broken = n == -2 || n > MESSAGE_MOST || n == 0;
	if (*broken || n < 0)
		return NULL;
	char *text = memory_new((size_t)n, 1);
	json_t *j = NULL;
	if (fread(text, 1, (size_t)n, stdin) == (size_t)n) {
		j = json_loadb(text, (size_t)n, JSON_ALLOW_NUL, NULL);
		*broken = !j;
	}
	free(text);
	return j;
}

/* The buffer of standard input is off (cmd_lsp), so that poll sees all there is. */
bool
connection_waiting(void)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	return poll(&in, 1, 0) > 0 && (in.revents & POLLIN);
}

void
connection_send(json_t *take)
{
	char *text = json_dumps(take, JSON_COMPACT);
	json_decref(take);
	if (!text)
		return;
	printf("Content-Length: %zu\r\n\r\n%s", strlen(text), text);
	fflush(stdout);
	free(text);
}
