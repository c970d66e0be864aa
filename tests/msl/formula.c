/* A recursive descent over formulas; all values are doubles, which hold the integers that occur. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/msl/formula.h"

typedef struct Reader { const Formula *f; const char *at; bool bad; } Reader;

static double sum(Reader *r);

static bool
take(Reader *r, char c)
{
	while (isspace((unsigned char)*r->at))
		r->at++;
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static double
call(Reader *r, const char *name, size_t n)
{
	double a = sum(r), b = take(r, ',') ? sum(r) : 0, p = 1;
	if (!take(r, ')'))
		r->bad = true;
#define IS(s) (n == strlen(s) && memcmp(name, s, n) == 0)
	if (IS("cdiv"))
		return b ? ceil(a / b) : (r->bad = true);
	if (IS("min"))
		return a < b ? a : b;
	if (IS("max"))
		return a > b ? a : b;
	if (IS("floor"))
		return floor(a);
	if (IS("sin"))
		return sin(a);
	if (IS("exp"))
		return exp(a);
	if (IS("pow2ceil")) {
		while (p < a)
			p *= 2;
		return p;
	}
#undef IS
	r->bad = true;
	return 0;
}

static double
factor(Reader *r)
{
	double v = 0;
	if (take(r, '-'))
		return -factor(r);
	if (take(r, '(')) {
		v = sum(r);
		r->bad |= !take(r, ')');
		return v;
	}
	if (isdigit((unsigned char)*r->at)) {
		char *end;
		v = strtod(r->at, &end);
		r->at = end;
		return v;
	}
	const char *name = r->at;
	while (isalnum((unsigned char)*r->at) || *r->at == '_')
		r->at++;
	size_t n = (size_t)(r->at - name);
	if (n && take(r, '('))
		return call(r, name, n);
	if (!n || !r->f->name || !r->f->name(r->f->user, name, n, &v))
		r->bad = true;
	return v;
}

static double
product(Reader *r)
{
	double v = factor(r);
	while (!r->bad) {
		if (take(r, '*'))
			v *= factor(r);
		else if (take(r, '/')) {
			v /= factor(r);
			v = r->f->whole ? trunc(v) : v;
		} else if (take(r, '%'))
			v = fmod(v, factor(r));
		else
			break;
	}
	return v;
}

static double
sum(Reader *r)
{
	double v = product(r);
	while (!r->bad) {
		if (take(r, '+'))
			v += product(r);
		else if (take(r, '-'))
			v -= product(r);
		else
			break;
	}
	return v;
}

bool
formula_value(const Formula *f, const char *text, double *value)
{
	Reader r = {f, text, false};
	*value = sum(&r);
	take(&r, 0);
	return !r.bad && r.at[-1] == 0 && isfinite(*value);
}
