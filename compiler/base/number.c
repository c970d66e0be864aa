/* Numbers as text, the same in every locale.  A program that embeds the compiler may have called setlocale, and then the C
 * library reads "0.5" as 0 and prints "0,5".  So every function of the C library that reads or prints a float is called
 * here alone, with the thread's locale set to "C" meanwhile; tests/house forbids them elsewhere.  The C library hands out
 * its own object for "C", so that entering it allocates nothing. */
#include "base/base.h"

#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

typedef struct Locale {
	locale_t plain, before;
} Locale;

static Locale
enter(void)
{
	Locale l = {.plain = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
	l.before = uselocale(l.plain);
	return l;
}

static void
leave(Locale l)
{
	uselocale(l.before);
	if (l.plain)
		freelocale(l.plain);
}

double
number_read(const char *s, char **end)
{
	Locale l = enter();
	double v = strtod(s, end);
	leave(l);
	return v;
}

int
number_vformat(char *out, size_t size, const char *fmt, va_list ap)
{
	Locale l = enter();
	int n = vsnprintf(out, size, fmt, ap);
	leave(l);
	return n;
}

int
number_format(char *out, size_t size, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = number_vformat(out, size, fmt, ap);
	va_end(ap);
	return n;
}
