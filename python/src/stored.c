/* Arrays whose bytes stand for elements that their library has not: u8 for fp8 and packed 4-bit
 * ones, u16 for bf16.  Which they are the header says, or a dtype given by name (T="i4"); how many
 * lie in a packed row, whose last byte may hold one, the other arguments say. */
#include "ext.h"

/* Two elements a byte: dimensions and strides of bytes become those of elements. */
void
array_unpack(Array *a)
{
	for (int d = 0; d < a->rank - 1; d++)
		a->stride[d] *= 2;
	if (a->rank) {
		a->dim[a->rank - 1] *= 2;
		a->stride[a->rank - 1] = 1;
	}
}

static void
array_as(Array *a, int dtype)
{
	int bits = dtype == TGL_DTYPE_UNKNOWN ? 0 : tgl_dtype_bits((TglDType)dtype);
	bool bytes = a->dtype == TGL_U8 || a->dtype == TGL_I8;
	if (a->dtype == dtype)
		return;
	if (bits == 4 && bytes &&
	    (a->rank == 0 || a->dim[a->rank - 1] <= 1 || a->stride[a->rank - 1] == 1)) {
		array_unpack(a);
		a->dtype = dtype;
	} else if ((dtype == TGL_F8E4M3 || dtype == TGL_F8E5M2) && bytes) {
		a->dtype = dtype;
	} else if (dtype == TGL_BF16 && a->dtype == TGL_U16) {
		a->dtype = dtype;
	}
}

/* ---- words of a type as it is written: "in strided T[M, cdiv(K, 2)] = 0" ---- */

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static bool
is_word(const char *s, size_t n, const char *name)
{
	return n > 0 && strlen(name) == n && memcmp(s, name, n) == 0;
}

static const char *
elem_word(const char *text, size_t *n)
{
	const char *end = text + strcspn(text, "["), *s = end;
	while (s > text && is_letter(s[-1]))
		s--;
	*n = (size_t)(end - s);
	return s;
}

/* Dimension d if it is a word alone; *n = 0: it is a formula, or there is none. */
static const char *
dim_word(const char *text, int d, size_t *n)
{
	const char *s = text + strcspn(text, "[");
	int depth = 0;
	*n = 0;
	for (s += *s != 0; *s && d > 0; s++) {
		depth += (*s == '(' || *s == '[') - (*s == ')' || *s == ']');
		d -= *s == ',' && depth == 0;
	}
	s += strspn(s, " ");
	const char *end = s;
	while (is_letter(*end))
		end++;
	if (d == 0 && (*end == ',' || *end == ']'))
		*n = (size_t)(end - s);
	return s;
}

/* ---- what the arguments say ---- */

static const TglArg *
value_named(const Call *c, const char *s, size_t n)
{
	for (int i = 0; i < c->nvalues; i++)
		if (is_word(s, n, c->value[i].name))
			return &c->value[i];
	return NULL;
}

void
call_stored(Call *c, int i)
{
	const TglParam *p = &c->k->param[i].p;
	size_t n;
	int dtype = p->dtype;
	if (dtype == TGL_DTYPE_UNKNOWN && c->nvalues) {
		const char *s = elem_word(p->text, &n);
		const TglArg *v = value_named(c, s, n);
		dtype = v && v->kind == TGL_ARG_DTYPE ? (int)v->i : dtype;
	}
	array_as(&c->array[i], dtype);
}

static bool
is_packed(const Call *c, int i)
{
	return c->is_array[i] && c->array[i].rank > 0 && c->array[i].dtype != TGL_DTYPE_UNKNOWN &&
	       tgl_dtype_bits((TglDType)c->array[i].dtype) == 4;
}

/* Whether a value or an array that is not packed gives the dimension `size`. */
static bool
is_given(const Call *c, const char *s, size_t n, int64_t size)
{
	size_t m;
	const TglArg *v = value_named(c, s, n);
	if (v)
		return v->kind == TGL_ARG_INT && v->i == size;
	for (int i = 0; i < c->n; i++)
		for (int d = 0; c->is_array[i] && c->k->param[i].p.kind == TGL_PARAM_TENSOR &&
				d < c->array[i].rank;
		     d++) {
			const char *t = dim_word(c->k->param[i].p.text, d, &m);
			bool counts = !is_packed(c, i) || d < c->array[i].rank - 1;
			if (counts && m == n && memcmp(s, t, n) == 0 && c->array[i].dim[d] == size)
				return true;
		}
	return false;
}

void
call_settle(Call *c)
{
	size_t n;
	for (int i = 0; i < c->n; i++) {
		Array *a = &c->array[i];
		if (!is_packed(c, i) || c->k->param[i].p.kind != TGL_PARAM_TENSOR)
			continue;
		const char *s = dim_word(c->k->param[i].p.text, a->rank - 1, &n);
		if (n && is_given(c, s, n, a->dim[a->rank - 1] - 1))
			a->dim[a->rank - 1]--;
	}
}
