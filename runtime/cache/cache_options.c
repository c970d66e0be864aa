/* Where the cache lies and how much it may hold: what the caller, the environment and the system say. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cache/cache.h"

static const char *
system_folder(Arena *mem)
{
	const char *home = getenv("HOME");
	const char *xdg = getenv("XDG_CACHE_HOME");
	if (xdg && xdg[0] == '/')
		return arena_printf(mem, "%s/tegula", xdg);
	if (!home || home[0] != '/')
		return NULL;
#ifdef __APPLE__
	return arena_printf(mem, "%s/Library/Caches/tegula", home);
#else
	return arena_printf(mem, "%s/.cache/tegula", home);
#endif
}

static bool
is_one_of(const char *s, const char *const *words, int n)
{
	return ANY_OF(i, n, text_same(s, words[i]));
}

/* "512M"; 0 if that is no size. */
static int64_t
read_size(const char *s)
{
	char *end;
	errno = 0;
	long long v = strtoll(s, &end, 10);
	int shift = 0;
	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	bool ok = end != s && !errno && v > 0 && v <= INT64_MAX >> shift && (!shift ? !*end : !end[1]);
	return ok ? v << shift : 0;
}

/* A value that is not heeded, said once: who names a folder by TEGULA_CACHE would not learn that it lies elsewhere. */
static const char *
wrong_value(Arena *mem)
{
	const char *on = getenv("TEGULA_CACHE"), *limit = getenv("TEGULA_CACHE_LIMIT"), *tune = getenv("TEGULA_TUNE");
	if (on && *on && !is_one_of(on, (const char *[]){"off", "0", "on", "1"}, 4))
		return arena_printf(mem, "TEGULA_CACHE is '%s', which is not heeded: 'off' is to keep nothing, and "
		    "TEGULA_CACHE_DIR names the folder", on);
	if (limit && *limit && !read_size(limit))
		return arena_printf(mem, "TEGULA_CACHE_LIMIT is '%s', which is not heeded: it is a size above 0, such "
		    "as 200M", limit);
	if (tune && *tune && !is_one_of(tune, (const char *[]){"off", "ignore", "on", "1"}, 4))
		return arena_printf(mem, "TEGULA_TUNE is '%s', which is not heeded: 'off' is to measure nothing, "
		    "'ignore' to use nothing that was found", tune);
	return NULL;
}

CacheOptions
cache_options(const CacheOptions *given, Arena *mem)
{
	CacheOptions o = *given;
	const char *on = getenv("TEGULA_CACHE"), *folder = getenv("TEGULA_CACHE_DIR");
	const char *limit = getenv("TEGULA_CACHE_LIMIT");
	if (on && (text_same(on, "off") || strcmp(on, "0") == 0))
		o.off = true;
	if (!o.folder)
		o.folder = folder && *folder ? arena_strdup(mem, folder) : system_folder(mem);
	if (!o.limit && limit)
		o.limit = read_size(limit);
	o.wrong = wrong_value(mem);
	return o;
}
