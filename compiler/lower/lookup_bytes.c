/* Tables of up to 16 elements that fields of four bits index, by permutes of bytes.
 *
 * A permute (prmt) takes four bytes of two words, each by four bits of a third word: three bits say which byte.  So a
 * word of indices is looked up in a table of 16 bytes, which is four words t0 to t3, four elements at a time:
 *
 *     r1: i32 = and r0, 0x77777777                       r0: eight indices
 *     r2: i32 = and_xor (lshr r0, 1), 0x44444444, 0x32103210       byte i of the first word, or of the second
 *     r3: i32 = byte_permute t0, t1, r1                  the elements 0 to 7 that indices 0 to 3 mean
 *     r4: i32 = byte_permute t2, t3, r1                  8 to 15
 *     r5: i32 = byte_permute r3, r4, r2                  the one or the other
 *
 * Elements of two bytes are two such tables, whose results are joined, two elements a permute: 2.9 instructions an element,
 * of which a multiprocessor of an H200 begins two a cycle.  A shuffle, the other way (lookup.c), takes a cycle, and one
 * and a half instructions beside it.  Floats that are integers of a byte are looked up as bytes, two instructions an
 * element, and converted by multiply-adds, which have another pipe.
 *
 * Registers whose elements are four apart in a word, as operands of products are, come out as one word: the word's bytes
 * are put in the order 0, 2, 1, 3 first. */
#include "lower/lower.h"
#include "model/turn.h"
#include "num/num.h"

#include <math.h>
#include <string.h>

enum { BITS = 4, ENTRIES = LOOKUP_ENTRIES, HALF = 8, FIELDS = 8, FIELDS_LEAST = 5, PLANES = 2 };

typedef struct Table {
	RegType type;
	int planes;                                     /* bytes of an element */
	bool has_high;                                  /* elements beyond 8 */
	Reg word[PLANES][4];
	Reg both, fourth, order;                        /* constants: masks, and numbers of bytes without the fourth bit */
} Table;

/* A register's index: four bits of a word. */
typedef struct FieldPlace {
	Reg word;
	int field;
} FieldPlace;

static Table
make_table(Lower *l, RegType t, int n, int planes)
{
	return (Table){.type = t, .planes = planes, .has_high = n > HALF, .both = lower_i32(l, 0x77777777),
	    .fourth = lower_i32(l, 0x44444444), .order = lower_i32(l, 0x32103210)};
}

/* A constant that the assembler does not know: it takes one of a permute's words of a table for an immediate, and moves
 * the other to a register each time. */
static Reg
in_register(Lower *l, int32_t word)
{
	const int64_t twice[] = {word, word};
	return thread_lookup(l->b, REG_I32, twice, 2, lower_op2(l, THREAD_AND, l->lane, lower_i32(l, 1)));
}

static Table
table_of_constants(Lower *l, RegType t, const int64_t *bits, int n, int planes)
{
	Table table = make_table(l, t, n, planes);
	for (int p = 0; p < planes; p++)
		for (int w = 0; w < (table.has_high ? 4 : 2); w++) {
			uint32_t word = 0;
			for (int i = 0; i < 4; i++)
				word |= (uint32_t)(bits[(4 * w + i) % n] >> 8 * p & 255) << 8 * i;
			table.word[p][w] = in_register(l, (int32_t)word);
		}
	return table;
}

/* Of n registers. */
static Table
table_of_registers(Lower *l, RegType t, const Reg *entry, int n)
{
	Table table = make_table(l, t, n, thread_type_bytes(t));
	for (int w = 0; w < (table.has_high ? 4 : 2); w++) {
		const Reg four[] = {
		    entry[4 * w % n], entry[(4 * w + 1) % n], entry[(4 * w + 2) % n], entry[(4 * w + 3) % n]};
		if (table.planes == 1) {
			table.word[0][w] = thread_pack(l->b, four, 4);
			continue;
		}
		Reg low = thread_pack(l->b, four, 2), high = thread_pack(l->b, four + 2, 2);
		table.word[0][w] = lower_byte_permute(l, low, high, lower_i32(l, 0x6420));
		table.word[1][w] = lower_byte_permute(l, low, high, lower_i32(l, 0x7531));
	}
	return table;
}

/* Bytes of plane p of the elements that eight indices mean, four in a word. */
static void
look_up_eight(Lower *l, const Table *t, Reg indices, Reg out[PLANES][2])
{
	Reg low = lower_op2(l, THREAD_AND, indices, t->both), second = 0;
	if (t->has_high) {
		Reg in[] = {lower_op2(l, THREAD_LSHR, indices, lower_i32(l, 1)), t->fourth, t->order};
		thread_prim(l->b, PRIM_AND_XOR, in, 3, NULL, 0, &second, 1);
	}
	for (int h = 0; h < 2; h++) {
		Reg by = h ? lower_i32(l, 16) : 0, which = h ? lower_op2(l, THREAD_LSHR, low, by) : low;
		Reg either = h && second ? lower_op2(l, THREAD_LSHR, second, by) : second;
		for (int p = 0; p < t->planes; p++) {
			const Reg *w = t->word[p];
			Reg a = lower_byte_permute(l, w[0], w[1], which);
			Reg b = second ? lower_byte_permute(l, w[2], w[3], which) : 0;
			out[p][h] = second ? lower_byte_permute(l, a, b, either) : a;
		}
	}
}

/* Two of the bytes as halves: 128 is taken off on the way (cast.c, bytes_to_halves). */
static Reg
integers(Lower *l, RegType t, Reg bytes, int first, int second)
{
	bool is_half = t == REG_F16;
	Reg above = lower_i32(l, is_half ? 0x64646464 : 0), which = lower_i32(l, 0x4040 | second << 8 | first);
	Reg x[] = {lower_byte_permute(l, bytes, above, which), lower_i32(l, (int32_t)0xe480e480), 0};
	if (is_half) {
		thread_prim(l->b, PRIM_ADD_F16X2, x, 2, NULL, 0, &x[0], 1);
		return x[0];
	}
	x[1] = lower_i32(l, 0x7f007f00);
	x[2] = lower_i32(l, (int32_t)0xc000c000);
	thread_prim(l->b, PRIM_FMA_BF16X2, x, 3, NULL, 0, &x[0], 1);
	x[1] = lower_i32(l, 0x42804280);
	x[2] = lower_i32(l, (int32_t)0x80008000);
	thread_prim(l->b, PRIM_FMA_BF16X2, x, 3, NULL, 0, &x[0], 1);
	return x[0];
}

static Reg
integer_f32(Lower *l, Reg bytes, int i)
{
	Reg word = lower_byte_permute(l, bytes, lower_i32(l, 0x4b000000), lower_i32(l, 0x7440 + i));
	Reg less = thread_float_const(l->b, REG_F32, -8388608 - 128);
	return lower_op2(l, THREAD_FADD, lower_as(l, CAST_BITS, REG_F32, word), less);
}

/* The elements of eight indices; `apart`: two of a word's result are elements i and i + 2 of its four, else neighbours. */
static void
elements_of_eight(Lower *l, const Table *t, Reg indices, bool apart, Reg out[FIELDS])
{
	Reg byte[PLANES][2];
	look_up_eight(l, t, indices, byte);
	for (int h = 0; h < 2; h++) {
		Reg *to = out + 4 * h, two[2];
		if (thread_type_bytes(t->type) == 1)
			thread_unpack(l->b, byte[0][h], t->type, to, 4);
		for (int i = 0; i < 4 && t->type == REG_F32; i++)
			to[i] = integer_f32(l, byte[0][h], i);
		for (int i = 0; i < 2 && thread_type_bytes(t->type) == 2; i++) {
			int first = apart ? i : 2 * i, second = apart ? i + 2 : 2 * i + 1;
			Reg which = lower_i32(l, 0x4040 | second << 12 | second << 8 | first << 4 | first);
			Reg both = t->planes == 1 ? integers(l, t->type, byte[0][h], first, second)
			                          : lower_byte_permute(l, byte[0][h], byte[1][h], which);
			thread_unpack(l->b, both, t->type, two, 2);
			to[first] = two[0];
			to[second] = two[1];
		}
	}
}

/* ---- fields at places that are known when compiling ---- */

static bool
find_places(Lower *l, const Reg *in, int n, int bits, FieldPlace *place)
{
	for (int i = 0; i < n; i++)
		if (!lower_field(l, in[i], bits, &place[i].word, &place[i].field))
			return false;
	for (int i = 0; i < n; i++) {
		unsigned used = 0;
		for (int k = 0; k < n; k++)
			used |= place[k].word == place[i].word ? 1u << place[k].field : 0;
		if (__builtin_popcount(used) < FIELDS_LEAST)
			return false;
	}
	return true;
}

static void
look_up_places(Lower *l, const Table *t, const FieldPlace *place, int n, Reg *out)
{
	bool apart = false;
	for (int i = 0; i + 1 < n; i += 2)
		apart |= place[i].word == place[i + 1].word && place[i + 1].field == place[i].field + 4;
	for (int i = 0; i < n; i++)
		out[i] = 0;
	for (int i = 0; i < n; i++) {
		Reg word = place[i].word, all[FIELDS];
		if (out[i])
			continue;
		Reg indices = apart ? lower_byte_permute(l, word, word, lower_i32(l, 0x3120)) : word;
		elements_of_eight(l, t, indices, apart, all);
		for (int k = i; k < n; k++) {
			static const int reordered[FIELDS] = {0, 1, 4, 5, 2, 3, 6, 7};
			if (place[k].word == word)
				out[k] = all[apart ? reordered[place[k].field] : place[k].field];
		}
	}
}

/* ---- fields of bytes that depend on the thread ---- */

static bool
find_pairs(Lower *l, const Reg *in, int n, LowerPair *pair)
{
	if (n % FIELDS)
		return false;
	return ALL_OF(i, n / 2, lower_pair(l, in[2 * i], in[2 * i + 1], &pair[i]) && pair[i].byte);
}

static Reg
two_bytes(Lower *l, const LowerPair *pair)
{
	Reg high = lower_op2(l, THREAD_SHL, pair[1].byte, lower_i32(l, BITS));
	Reg which = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_ADD, pair[0].byte, high), lower_i32(l, 0x40));
	return lower_byte_permute(l, pair[0].word, pair[1].word, which);
}

static void
look_up_pairs(Lower *l, const Table *t, const LowerPair *pair, int n, Reg *out)
{
	for (int i = 0; i < n; i += FIELDS) {
		const LowerPair *p = &pair[i / 2];
		Reg low = two_bytes(l, p), high = two_bytes(l, p + 2);
		elements_of_eight(l, t, lower_byte_permute(l, low, high, lower_i32(l, 0x5410)), false, out + i);
	}
}

/* ---- which tables ---- */

/* Floats that are integers of a byte: as such, 128 more. */
static bool
as_bytes(const Lower *l, RegType t, const int64_t *bits, int n, int64_t *byte)
{
	DType elem = t == REG_F32 ? TY_F32 : t == REG_F16 ? TY_F16 : TY_BF16;
	PrimKind halves = t == REG_F16 ? PRIM_ADD_F16X2 : PRIM_FMA_BF16X2;
	if ((t != REG_F32 && t != REG_F16 && t != REG_BF16) || (t != REG_F32 && prim_info[halves].needs & ~l->t->has))
		return false;
	for (int i = 0; i < n; i++) {
		uint32_t u = (uint32_t)bits[i];
		double v = dtype_load_f64(elem, &u, 0);
		if (!(v >= -128 && v <= 127) || v != (double)(int)v || (v == 0 && signbit(v)))
			return false;
		byte[i] = (int)v + 128;
	}
	return true;
}

static bool
permutes(const Lower *l)
{
	unsigned needs = prim_info[PRIM_BYTE_PERMUTE].needs | prim_info[PRIM_AND_XOR].needs;
	return l->t->kind == TARGET_PTX && !(needs & ~l->t->has);
}

/* Where the indices are, n of them; false: elsewhere. */
typedef struct Indices {
	FieldPlace *place;                              /* NULL: of pairs */
	LowerPair *pair;
	int n;
} Indices;

static bool
find_indices(Lower *l, const Reg *in, int n, int bits, Indices *x)
{
	*x = (Indices){.place = NEW_ARRAY(l->mem, FieldPlace, n), .pair = NEW_ARRAY(l->mem, LowerPair, n / 2 + 1), .n = n};
	if (find_places(l, in, n, bits, x->place))
		return true;
	x->place = NULL;
	return find_pairs(l, in, n, x->pair);
}

static void
look_up(Lower *l, const Table *t, const Indices *x, Reg *out)
{
	if (x->place)
		look_up_places(l, t, x->place, x->n, out);
	else
		look_up_pairs(l, t, x->pair, x->n, out);
}

bool
lower_lookup_bytes(Lower *l, RegType t, const int64_t *bits, int n, const Reg *in, int count, Reg *out)
{
	int64_t byte[ENTRIES];
	Indices x;
	if (!permutes(l) || n > ENTRIES || t == REG_PRED || count < FIELDS)
		return false;
	bool counts = as_bytes(l, t, bits, n, byte);
	int planes = counts ? 1 : thread_type_bytes(t);
	if (planes > PLANES || !find_indices(l, in, count, log2_ceil(n), &x) || (planes > 1 && x.place))
		return false;                           /* two tables for products of few rows: shuffles are as good */
	const Table table = table_of_constants(l, t, counts ? byte : bits, n, planes);
	look_up(l, &table, &x, out);
	return true;
}

/* ---- rows that threads have ---- */

/* By each bit of the index, one half of what is left. */
static Reg
chosen(Lower *l, DType t, Reg index, const Reg *entry, int n)
{
	Reg left[ENTRIES], zero;
	memcpy(left, entry, sizeof *entry * (size_t)n);
	if (dtype_info[t].bits < 32)
		index = lower_as(l, CAST_ZEXT, REG_I32, index);
	index = dtype_info[t].bits == 64 ? lower_as(l, CAST_TRUNC, REG_I32, index) : index;
	zero = lower_i32(l, 0);
	for (int bit = 1; bit < n; bit *= 2) {
		Reg is = lower_op2(l, THREAD_NE, lower_op2(l, THREAD_AND, index, lower_i32(l, bit)), zero);
		for (int i = 0; i < n / bit / 2; i++)
			left[i] = lower_op3(l, THREAD_SELECT, is, left[2 * i + 1], left[2 * i]);
	}
	return left[0];
}

/* Registers of the result's row r is of, in the layout of rows: the number of the first. */
static int
row_of(const Op *op, const Layout *rows, int r)
{
	const Layout *to = op->out[0].layout;
	int axis = (int)attr_axis(op), n = 1 << (rows->in[IN_REGISTER] - rows->out[axis]);
	return FIRST_OF(q, n, ALL_OF(d, rows->rank, d == axis ||
	    lower_register_coordinate(rows, q, d) == lower_register_coordinate(to, r, d)));
}

void
lower_gather_rows(Lower *l, Op *op, const Layout *rows)
{
	Value *v = &op->out[0];
	int count = lower_count(v), n = 1 << rows->out[attr_axis(op)], nrows = 1 << (rows->in[IN_REGISTER] - log2_ceil(n));
	const Reg *table = lower_operand(l, op, 0, rows), *index = lower_operand(l, op, 1, v->layout);
	RegType type = lower_type(v->type);
	Reg *out = lower_new(l, v), *in = NEW_ARRAY(l->mem, Reg, count), *found = NEW_ARRAY(l->mem, Reg, count);
	int *row = MAP_OF(l->mem, int, r, count, row_of(op, rows, r));
	for (int q = 0; q < nrows; q++) {
		Reg entry[ENTRIES];
		Indices x;
		int k = 0;
		for (int i = 0; i < n; i++)
			entry[i] = table[q + i * nrows];
		for (int r = 0; r < count; r++)
			if (row[r] == q)
				in[k++] = index[r];
		bool permuted = permutes(l) && k >= FIELDS && find_indices(l, in, k, log2_ceil(n), &x);
		if (permuted) {
			Table t = table_of_registers(l, type, entry, n);
			look_up(l, &t, &x, found);
		}
		for (int r = 0, i = 0; r < count; r++)
			if (row[r] == q) {
				out[r] = permuted ? found[i] : chosen(l, op->in[1]->type->elem, index[r], entry, n);
				i++;
			}
	}
}
