/* Element types, and interned tile, pointer and tensor types and layouts.
 *
 * A module keeps each distinct type once, in an open-addressed hash table, so that types are
 * compared by address everywhere else.  The table holds pointers into Compile.mem and never
 * shrinks; it is at most half full. */
#include "ir/derive.h"

#include <string.h>

const DTypeInfo dtype_info[DTYPE_COUNT] = {
#define DTYPE(name, text, bits, class, ctype) [TY_##name] = {text, bits, #class[0]},
#include "ir/dtypes.def"
#undef DTYPE
};

int
dtype_tile_size(DType t)
{
	switch (t) {
#define DTYPE(name, text, bits, class, ctype)                                                      \
	case TY_##name:                                                                            \
		return (int)sizeof(ctype);
#include "ir/dtypes.def"
#undef DTYPE
	case DTYPE_COUNT:
		break;
	}
	unreachable();
}

/* Split so that the product cannot overflow while the answer itself fits. */
int64_t
dtype_bytes(DType t, int64_t n)
{
	int bits = dtype_info[t].bits;

	return bits >= 8 ? n * (bits / 8) : n / (8 / bits) + (n % (8 / bits) != 0);
}

bool
dtype_named(const char *text, DType *out)
{
	for (int t = 0; t < DTYPE_COUNT; t++) {
		if (strcmp(dtype_info[t].text, text) != 0)
			continue;
		*out = (DType)t;
		return true;
	}
	return false;
}

bool
int_fits(DType t, int64_t v)
{
	return int_wrap(t, v) == v;
}

int64_t
int_wrap(DType t, int64_t v)
{
	int bits = t == TY_BOOL ? 1 : dtype_info[t].bits;

	if (bits == 64)
		return v;
	uint64_t low = (uint64_t)v & ((UINT64_C(1) << bits) - 1);
	if (dtype_is_signed(t) && low >> (bits - 1))
		low |= ~((UINT64_C(1) << bits) - 1);
	return (int64_t)low;
}

static uint64_t
hash(const Type *t)
{
	uint64_t h = (uint64_t)t->kind * 31 + (uint64_t)t->elem * 7 + (uint64_t)t->ptr * 131 +
	    (uint64_t)t->rank * 1031 + (uint64_t)t->slots * 8191;

	for (int i = 0; i < t->rank; i++) {
		h = (h ^ (uint64_t)t->extent[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

static bool
equal(const Type *a, const Type *b)
{
	return a->kind == b->kind && a->elem == b->elem && a->ptr == b->ptr && a->slots == b->slots &&
	    type_same_shape(a, b);
}

static const Type *
make_slots(Module *m, TypeKind kind, DType elem, PtrKind ptr, int rank, const int64_t *extent, int slots)
{
	Type t = {.kind = kind, .elem = elem, .ptr = ptr, .rank = rank, .slots = slots};

	if (rank < 0 || rank > MAX_RANK)
		die("type of rank %d", rank);
	for (int i = 0; i < rank; i++) {
		if (extent[i] < (kind == TYPE_TENSOR ? -1 : 0))
			die("type with extent %lld", (long long)extent[i]);
		t.extent[i] = extent[i];
	}
	uint64_t h = hash(&t);
	const HashEntry *is = TABLE_FIND(e, &m->types, h, equal(e->of, &t));
	if (is)
		return is->of;
	Type *kept = NEW_COPY(m->cx->mem, &t, 1);
	table_add(m->cx->mem, &m->types, h, kept, 0);
	return kept;
}

static const Type *
make(Module *m, TypeKind kind, DType elem, PtrKind ptr, int rank, const int64_t *extent)
{
	return make_slots(m, kind, elem, ptr, rank, extent, 0);
}

const Type *
type_tile(Module *m, DType elem, int rank, const int64_t *extent)
{
	return make(m, TYPE_TILE, elem, PTR_NONE, rank, extent);
}

const Type *
type_scalar(Module *m, DType elem)
{
	return make(m, TYPE_TILE, elem, PTR_NONE, 0, NULL);
}

const Type *
type_ptr(Module *m, DType elem, bool mut, int rank, const int64_t *extent)
{
	return make(m, TYPE_TILE, elem, mut ? PTR_MUT : PTR_CONST, rank, extent);
}

const Type *
type_tensor(Module *m, DType elem, int rank, const int64_t *extent)
{
	return make(m, TYPE_TENSOR, elem, PTR_NONE, rank, extent);
}

const Type *
type_buffer(Module *m, DType elem, int slots, int rank, const int64_t *extent)
{
	return make_slots(m, TYPE_BUFFER, elem, PTR_NONE, rank, extent, slots);
}

const Type *
type_token(Module *m)
{
	return make(m, TYPE_TOKEN, TY_I64, PTR_NONE, 0, NULL);
}

const Type *
type_mbarrier(Module *m, int slots)
{
	return make_slots(m, TYPE_MBARRIER, TY_I64, PTR_NONE, 0, NULL, slots);
}

const Type *
type_with_elem(Module *m, const Type *t, DType elem)
{
	return make(m, t->kind, elem, PTR_NONE, t->rank, t->extent);
}

const Type *
type_with_shape(Module *m, const Type *t, int rank, const int64_t *extent)
{
	return make(m, t->kind, t->elem, t->ptr, rank, extent);
}

/* Saturates: INT64_MAX stands for any count that does not fit. */
int64_t
type_count(const Type *t)
{
	int64_t n = 1;

	if (ANY_OF(i, t->rank, t->extent[i] == 0))
		return 0;
	if (ANY_OF(i, t->rank, __builtin_mul_overflow(n, t->extent[i], &n)))
		return INT64_MAX;
	return n;
}

bool
type_same_shape(const Type *a, const Type *b)
{
	return a->rank == b->rank &&
	    memcmp(a->extent, b->extent, sizeof a->extent[0] * (size_t)a->rank) == 0;
}

bool
type_same_but_ones(const Type *a, const Type *b)
{
	int i = 0, j = 0;
	for (;;) {
		while (i < a->rank && a->extent[i] == 1)
			i++;
		while (j < b->rank && b->extent[j] == 1)
			j++;
		if (i == a->rank || j == b->rank)
			return i == a->rank && j == b->rank;
		if (a->extent[i++] != b->extent[j++])
			return false;
	}
}

void
type_print(const Type *t, Text *out)
{
	if (t->kind == TYPE_TOKEN || t->kind == TYPE_MBARRIER) {
		if (t->kind == TYPE_TOKEN)
			text_put(out, "token");
		else
			text_printf(out, "mbarrier<%d>", t->slots);
		return;
	}
	if (t->kind == TYPE_TENSOR)
		text_put(out, "tensor<");
	if (t->kind == TYPE_BUFFER)
		text_printf(out, "buffer<%d x ", t->slots);
	if (t->ptr != PTR_NONE)
		text_put(out, t->ptr == PTR_MUT ? "*mut " : "*");
	text_put(out, dtype_info[t->elem].text);
	for (int i = 0; i < t->rank; i++) {
		text_put(out, i ? ", " : "[");
		if (t->extent[i] < 0)
			text_put(out, "?");
		else
			text_printf(out, "%lld", (long long)t->extent[i]);
	}
	if (t->rank)
		text_put(out, "]");
	if (t->kind == TYPE_TENSOR || t->kind == TYPE_BUFFER)
		text_put(out, ">");
}

const char *
type_text(const Type *t, Arena *mem)
{
	Text text = {0};

	type_print(t, &text);
	return text_take(&text, mem);
}

const char *
extents_text(int rank, const int64_t *extent, Arena *mem)
{
	Text text = {0};

	text_put(&text, "[");
	for (int d = 0; d < rank; d++)
		text_printf(&text, "%s%lld", d ? ", " : "", (long long)extent[d]);
	text_put(&text, "]");
	return text_take(&text, mem);
}

const Layout *
layout_intern(Module *m, const Layout *l)
{
	for (int i = 0; i < m->nlayouts; i++)
		if (layout_equal(m->layouts[i], l))
			return m->layouts[i];
	if (m->nlayouts == m->caplayouts) {
		int cap = m->caplayouts ? m->caplayouts * 2 : 16;
		const Layout **grown = arena_alloc(m->cx->mem, sizeof *grown * (size_t)cap);
		for (int i = 0; i < m->nlayouts; i++)
			grown[i] = m->layouts[i];
		m->layouts = grown;
		m->caplayouts = cap;
	}
	Layout *copy = arena_alloc(m->cx->mem, sizeof *copy);
	*copy = *l;
	m->layouts[m->nlayouts++] = copy;
	return copy;
}
