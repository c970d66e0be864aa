/* Messages over standard input and output: a header with Content-Length, an empty line, that many bytes of JSON. */
#include "tool/lsp/lsp.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGE_MOST = 128 << 20, DIGITS_MOST = 18 };

static bool
begins(const char *line, const char *word)
{
	while (*word && char_lower(*line) == char_lower(*word)) {
		line++;
		word++;
	}
	return !*word;
}

enum { AT_END = -1, NO_LENGTH = -2 };

/* "  42\r\n": decimal digits alone, of which a long holds all. */
static long
length_of(const char *text)
{
	text += strspn(text, " \t");
	size_t digits = strspn(text, "0123456789");
	bool ends = text[digits + strspn(text + digits, " \t\r\n")] == '\0';
	return digits > 0 && digits < DIGITS_MOST && ends ? strtol(text, NULL, 10) : NO_LENGTH;
}

/* Header lines up to the empty one; the length, AT_END where the input ends, NO_LENGTH without one. */
static long
read_header(void)
{
	static const char word[] = "Content-Length:";
	char line[256];
	long n = NO_LENGTH;
	for (bool starts = true; fgets(line, sizeof line, stdin); starts = strchr(line, '\n')) {
		if (starts && (strcmp(line, "\r\n") == 0 || strcmp(line, "\n") == 0))
			return n;
		if (starts && begins(line, word))
			n = length_of(line + sizeof word - 1);
	}
	return AT_END;
}

json_t *
connection_read(bool *broken)
{
	long n = read_header();
	*broken = n == NO_LENGTH || n > MESSAGE_MOST || n == 0;
	if (*broken || n == AT_END)
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

void
connection_reply(const json_t *id, json_t *take)
{
	connection_send(json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", take));
}

void
connection_refuse(const json_t *id, int code, const char *text)
{
	connection_send(json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", code, "message",
	    text));
}
