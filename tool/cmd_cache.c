/* cache: what compiled kernels are kept on disk, and getting rid of them. */
#include "tool/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void
show_bytes(uint64_t n, char out[16])
{
	const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double v = (double)n;
	int u = 0;
	for (; v >= 1024 && u + 1 < LEN(unit); u++)
		v /= 1024;
	number_format(out, 16, v < 10 && u ? "%.1f %s" : "%.0f %s", v, unit[u]);
}

static void
show_day(int64_t t, char out[24])
{
	time_t at = (time_t)t;
	struct tm tm;
	if (!localtime_r(&at, &tm) || !strftime(out, 24, "%Y-%m-%d %H:%M", &tm))
		snprintf(out, 24, "?");
}

/* ---- list ---- */

typedef struct Rows {
	json_t *json;                                       /* NULL: for people */
	int n;
} Rows;

static bool
list_row(void *user, const TglCacheEntry *e)
{
	Rows *r = user;
	r->n++;
	if (r->json) {
		json_array_append_new(r->json, json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I}", "key", e->key,
		    "kernel", e->kernel, "file", e->file, "target", e->target, "values", e->values, "current", e->current,
		    "bytes", (json_int_t)e->bytes, "made", (json_int_t)e->made, "used", (json_int_t)e->used));
		return true;
	}
	char bytes[16], used[24];
	show_bytes(e->bytes, bytes);
	show_day(e->used, used);
	if (r->n == 1)
		printf("%-16s  %9s  %-9s  %s\n", "used", "size", "target", "kernel");
	printf("%-16s  %9s  %-9s  %s%s%s  (%s)%s\n", used, bytes, e->target, e->kernel, *e->values ? ": " : "", e->values,
	    e->file, e->current ? "" : "  of another version");
	return true;
}

static int
list(Session *s)
{
	TglCacheInfo info;
	Rows r = {.json = s->cli->json ? json_array() : NULL};
	tgl_cache_list(s->cx, list_row, &r);
	session_warnings(s);
	tgl_cache_info(s->cx, &info);
	session_warnings(s);
	if (r.json) {
		cli_print_json(json_pack("{s:s?, s:o, s:I, s:I, s:I}", "path", info.path, "entries", r.json, "bytes",
		    (json_int_t)info.bytes, "limit", (json_int_t)info.limit, "tunings", (json_int_t)info.tunings));
		return EXIT_GOOD;
	}
	char bytes[16], limit[16];
	show_bytes(info.bytes, bytes);
	show_bytes(info.limit, limit);
	printf("%lld compiled kernels, %s of %s; %lld tuning results\n", (long long)info.entries, bytes, limit,
	    (long long)info.tunings);
	return EXIT_GOOD;
}

/* ---- the others ---- */

static int
path(Session *s)
{
	TglCacheInfo info;
	tgl_cache_info(s->cx, &info);
	session_warnings(s);
	if (s->cli->json)
		cli_print_json(json_pack("{s:s?}", "path", info.path));
	else if (info.path)
		puts(info.path);
	else
		return cli_wrong("there is no cache: it is off, or there is no home folder");
	return EXIT_GOOD;
}

static int
report_removed(Session *s, TglStatus status, int64_t n)
{
	if (status != TGL_OK)
		return session_error(s);
	session_warnings(s);
	if (s->cli->json)
		cli_print_json(json_pack("{s:I}", "removed", (json_int_t)n));
	else
		printf("%lld removed\n", (long long)n);
	return EXIT_GOOD;
}

/* "100M" */
static bool
read_size(const char *text, uint64_t *out)
{
	char *end;
	long long v = strtoll(text, &end, 10);
	const char *units = "KMG", *u = *end ? strchr(units, *end) : NULL;
	int shift = u ? 10 * (int)(u - units + 1) : 0;
	bool ok = end != text && v > 0 && v <= INT64_MAX >> shift && (u ? !end[1] : !*end);
	*out = ok ? (uint64_t)v << shift : 0;
	if (!ok)
		cli_misuse("--limit takes a size such as 100M, found '%s'", text);
	return ok;
}

static int
prune(Session *s)
{
	uint64_t limit = 0;
	int64_t n;
	if (cli_has(s->cli, OPT_LIMIT) && !read_size(s->cli->value[OPT_LIMIT], &limit))
		return EXIT_MISUSE;
	TglStatus status = tgl_cache_prune(s->cx, limit, &n);
	return report_removed(s, status, n);
}

static int
clear(Session *s)
{
	int64_t n;
	TglStatus status = tgl_cache_clear(s->cx, cli_has(s->cli, OPT_TUNING), &n);
	return report_removed(s, status, n);
}

/* Another folder's cache, which may have come from another host or go there. */
static int
copy(Session *s, TglStatus (*run)(TglContext *, const char *, int64_t *), const char *word)
{
	int64_t n;
	if (run(s->cx, s->cli->args.at[1], &n) != TGL_OK)
		return session_error(s);
	session_warnings(s);
	if (s->cli->json)
		cli_print_json(json_pack("{s:I}", word, (json_int_t)n));
	else
		printf("%lld %s\n", (long long)n, word);
	return EXIT_GOOD;
}

/* What kept it from writing is said as a warning, as it would be of the cache that a run uses. */
static int
export_to(Session *s)
{
	int status = copy(s, tgl_cache_export, "exported");
	return status == EXIT_GOOD && tgl_error(s->cx)->nwarnings > 0 ? EXIT_WRONG : status;
}

static int
import_from(Session *s)
{
	const char *folder = s->cli->args.at[1];
	DIR *d = opendir(folder);
	if (!d)
		return cli_wrong("cannot read '%s': %s", folder, strerror(errno));
	closedir(d);
	return copy(s, tgl_cache_import, "imported");
}

int
cmd_cache(const Cli *cli)
{
	const struct {
		const char *name;
		int (*run)(Session *s);
		int operands;
	} what[] = {{"list", list, 1}, {"prune", prune, 1}, {"clear", clear, 1}, {"path", path, 1},
	    {"export", export_to, 2}, {"import", import_from, 2}};
	Session s;
	int i = 0;
	if (!cli_operands(cli, 1, 2))
		return EXIT_MISUSE;
	while (i < LEN(what) && strcmp(cli->args.at[0], what[i].name) != 0)
		i++;
	if (i == LEN(what))
		return cli_misuse("cache takes list, prune, clear, path, export or import, found '%s'", cli->args.at[0]);
	if (cli->args.n != what[i].operands)
		return cli_misuse(
		    what[i].operands == 2 ? "cache %s takes a folder" : "cache %s takes nothing",
		    what[i].name);
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	int status = what[i].run(&s);
	session_close(&s);
	return status;
}
