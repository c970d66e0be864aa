/* Options of the programs among the tests. */
#ifndef TEGULA_TESTS_OPTIONS_H
#define TEGULA_TESTS_OPTIONS_H

#include <stdbool.h>
#include <string.h>

/* What follows `name`, "--seed=", in arg; NULL: arg is another. */
static inline const char *
option(const char *arg, const char *name)
{
	size_t n = strlen(name);
	return strncmp(arg, name, n) == 0 ? arg + n : NULL;
}

/* Is name in the list, "sm_75,sm_90a"? */
static inline bool
is_named(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = list; (p = strstr(p, name)); p += n)
		if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
			return true;
	return false;
}

#endif
