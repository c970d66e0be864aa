/* Elements of up to four bits that a kernel takes out of bytes or words itself, as pairs of one word.
 *
 *     r9: i8 = and r5, 15                                r5 to r8: the bytes of one word
 *     r10: i8 = lshr r5, 4                        =>     pairs of what stands 16 bits apart in a word: the elements of r5
 *     r11: i8 = and r6, 15                               and r7, of r6 and r8
 *     r12: i32 = and (lshr r4, 8), 15                    the third four bits of r4
 *
 * What is known of such registers is the same as of elements of packed types, of which a cast to halves takes two at once
 * (packed.c).  Two that stand elsewhere are brought into one word by a permute of bytes first.
 *
 * Halves that a kernel puts together by bits come two at once, too, as does what is done with their fields:
 *
 *     r9: i16 = or (shl (and r5, 7), 10), (shl r6, 8)            r9: i32 = or (and (shl r7, 10), 0x1c001c00), ...
 *     r10: f16 = bits r9                                   =>    r10, r11: f16 = unpack r9 */
#include "lower/lower.h"

enum { BITS_MOST = 4, DEPTH = 8, BYTE = 8, HALF = 16, QUAD = 4 };

/* `bits` bits of a word from `shift` on. */
typedef struct Field {
	Reg word;                                       /* REG_I32 */
	int shift, bits;
	bool is_signed;                                 /* above them are copies of the highest one */
} Field;

/* A byte that was loaded with its neighbours, or taken out of a word. */
static bool
byte_of_word(Lower *l, const ThreadNode *n, int at, Field *f)
{
	*f = (Field){.shift = 8 * (at % 4), .bits = 8};
	if (n->kind == NODE_LOAD && n->nout % 4 == 0) {
		f->word = thread_pack(l->b, &n->out[at - at % 4], 4);
	} else if (n->kind == NODE_LOAD && n->nout == 2) {
		const Reg twice[] = {n->out[0], n->out[1], n->out[0], n->out[1]};
		f->word = thread_pack(l->b, twice, 4);
	}
	if (n->kind == NODE_UNPACK && n->nout == 4)
		f->word = n->in[0];
	return f->word != 0;
}

/* By a shift of the type, which brings in copies of its highest bit or zeros. */
static bool
shift_field(Field *f, RegType t, int64_t by, bool keeps_sign)
{
	if (f->is_signed && !keeps_sign)
		return false;
	f->is_signed |= keeps_sign && f->bits == 8 * thread_type_bytes(t);
	f->shift += (int)by;
	f->bits -= (int)by;
	return by >= 0 && f->bits > 0;
}

/* The lowest bits alone. */
static bool
mask_field(Field *f, int64_t mask)
{
	int bits = log2_ceil(mask + 1);
	if (mask <= 0 || mask >= INT64_C(1) << 31 || !is_power_of_two(mask + 1) || (f->is_signed && bits > f->bits))
		return false;
	f->is_signed &= bits > f->bits;
	f->bits = MIN(bits, f->bits);
	return true;
}

static bool find_field(Lower *l, Reg r, int depth, Field *f);

/* Shifted up to the type's highest bit and down again by as many: the lowest bits, with copies of the highest of those. */
static bool
extended_field(Lower *l, const ThreadNode *n, int depth, Field *f)
{
	const ThreadModule *m = thread_module_of(l->b);
	int at, bits = 8 * thread_type_bytes(n->type);
	int64_t up, down;
	const ThreadNode *high = n->op == THREAD_ASHR ? thread_node_of(l->b, n->in[0], &at) : NULL;
	if (!high || high->kind != NODE_OP || high->op != THREAD_SHL || !thread_const(m, n->in[1], &down) ||
	    !thread_const(m, high->in[1], &up) || up != down || up <= 0 || up >= bits ||
	    !find_field(l, high->in[0], depth - 1, f) || !mask_field(f, (INT64_C(1) << (bits - up)) - 1))
		return false;
	f->is_signed |= f->bits == bits - up;
	return true;
}

static bool
computed_field(Lower *l, const ThreadNode *n, int depth, Field *f)
{
	const ThreadModule *m = thread_module_of(l->b);
	int64_t c;
	if (n->op != THREAD_AND && n->op != THREAD_LSHR && n->op != THREAD_ASHR)
		return false;
	if (extended_field(l, n, depth, f))
		return true;
	for (int i = 0; i < (n->op == THREAD_AND ? 2 : 1); i++)
		if (thread_const(m, n->in[1 - i], &c) && find_field(l, n->in[i], depth - 1, f))
			return n->op == THREAD_AND ? mask_field(f, c) : shift_field(f, n->type, c, n->op == THREAD_ASHR);
	return false;
}

static bool
find_field(Lower *l, Reg r, int depth, Field *f)
{
	int at;
	const ThreadNode *n = thread_node_of(l->b, r, &at);
	RegType t = thread_type_of(l->b, r);
	if (n && depth > 0 && n->kind == NODE_OP && t <= REG_I32 && computed_field(l, n, depth, f))
		return true;
	if (n && depth > 0 && n->kind == NODE_CAST && (n->op == CAST_ZEXT || n->op == CAST_TRUNC) &&
	    find_field(l, n->in[0], depth - 1, f)) {
		if (n->op == CAST_ZEXT && f->is_signed)
			return false;
		if (n->op == CAST_TRUNC && f->bits > 8 * thread_type_bytes(t)) {
			f->bits = 8 * thread_type_bytes(t);
			f->is_signed = false;
		}
		return true;
	}
	if (n && t == REG_I8 && byte_of_word(l, n, at, f))
		return true;
	*f = (Field){.word = r, .bits = 32};
	return t == REG_I32;
}

/* At a multiple of four bits of a word that has nothing else in those four. */
static void
align_field(Lower *l, Field *f)
{
	int more = f->shift % BITS_MOST;
	if (f->bits == BITS_MOST && more == 0)
		return;
	f->word = lower_op2(l, THREAD_LSHR, f->word, lower_i32(l, more));
	f->word = lower_op2(l, THREAD_AND, f->word, lower_i32(l, (int32_t)(0x11111111u * ((1u << f->bits) - 1))));
	f->shift -= more;
}

static LowerPair
pair_of(Lower *l, const Field *a, const Field *b)
{
	if (a->word == b->word && b->shift == a->shift + HALF)
		return (LowerPair){.word = a->word, .nibble = a->shift / BITS_MOST};
	if (a->shift % HALF == b->shift % HALF) {
		int64_t low = a->shift < HALF ? 0x10 : 0x32, high = b->shift < HALF ? 0x54 : 0x76;
		Reg both = lower_byte_permute(l, a->word, b->word, lower_i32(l, low | high << 8));
		return (LowerPair){.word = both, .nibble = a->shift % HALF / BITS_MOST};
	}
	/* bytes of the words, or of those less four bits, of which other pairs take theirs too */
	Reg x = lower_op2(l, THREAD_LSHR, a->word, lower_i32(l, a->shift % BYTE));
	Reg y = lower_op2(l, THREAD_LSHR, b->word, lower_i32(l, b->shift % BYTE));
	int64_t low = a->shift / BYTE, high = 4 + b->shift / BYTE;
	return (LowerPair){.word = lower_byte_permute(l, x, y, lower_i32(l, low * 0x11 | high * 0x1100))};
}

LowerPair *
lower_field_pairs(Lower *l, DType t, const Reg *in, int n)
{
	Field *f = NEW_ARRAY(l->mem, Field, n);
	for (int i = 0; i < n; i++) {
		bool is_field = n % 2 == 0 && find_field(l, in[i], DEPTH, &f[i]);
		if (!is_field || f[i].bits > BITS_MOST || f[i].shift % BITS_MOST + f[i].bits > BITS_MOST ||
		    f[i].is_signed != f[0].is_signed || (f[i].is_signed ? f[i].bits < BITS_MOST : t == TY_I4))
			return NULL;
	}
	if (f[0].is_signed && dtype_info[t].bits > BITS_MOST && !dtype_is_signed(t))
		return NULL;                            /* the copies count */
	LowerPair *pair = NEW_ARRAY(l->mem, LowerPair, MAX(n / 2, 1));
	for (int i = 0; i < n; i++)
		align_field(l, &f[i]);
	for (int i = 0; i < n / 2; i++) {
		pair[i] = pair_of(l, &f[2 * i], &f[2 * i + 1]);
		pair[i].is_signed = f[0].is_signed;
	}
	return pair;
}

Reg
lower_field_quad(Lower *l, const Reg *in, int *bits, bool *is_signed)
{
	Field f[QUAD];
	Reg from[QUAD], which[QUAD] = {0};
	int64_t at[QUAD], order = 0;
	int n = 0;
	for (int i = 0; i < QUAD; i++) {
		if (!find_field(l, in[i], DEPTH, &f[i]) || f[i].shift % BYTE + f[i].bits > BYTE || f[i].bits != f[0].bits ||
		    f[i].is_signed != f[0].is_signed)
			return 0;
		from[i] = lower_op2(l, THREAD_LSHR, f[i].word, lower_i32(l, f[i].shift % BYTE));
		at[i] = f[i].shift / BYTE;
		int k = FIRST_OF(j, n, which[j] == from[i]);
		if (k < 0)
			which[k = n++] = from[i];
		order |= (at[i] + 4 * k) << 4 * i;
	}
	*bits = f[0].bits;
	*is_signed = f[0].is_signed;
	if (n <= 2)
		return order == 0x3210 ? which[0] : lower_byte_permute(l, which[0], which[n - 1], lower_i32(l, order));
	Reg low = lower_byte_permute(l, from[0], from[1], lower_i32(l, at[0] | (4 + at[1]) << 4));
	Reg high = lower_byte_permute(l, from[2], from[3], lower_i32(l, at[2] | (4 + at[3]) << 4));
	return lower_byte_permute(l, low, high, lower_i32(l, 0x5410));
}

bool
lower_field(Lower *l, Reg r, int bits, Reg *word, int *field)
{
	Field f;
	if (!find_field(l, r, DEPTH, &f) || f.is_signed || f.shift % BITS_MOST || f.shift >= 32)
		return false;
	*word = f.word;
	*field = f.shift / BITS_MOST;
	return f.bits == BITS_MOST || (f.bits == BITS_MOST - 1 && bits < BITS_MOST);
}

/* ---- halves of bits ---- */

/* Two fields at the bottom of either half of a word. */
static Reg
fields_in_halves(Lower *l, const Field *a, const Field *b)
{
	int64_t mask = ((INT64_C(1) << a->bits) - 1) | ((INT64_C(1) << b->bits) - 1) << HALF;
	int x = a->shift % BYTE, y = b->shift % BYTE;
	Reg both;
	if (a->word == b->word && b->shift == a->shift + HALF) {
		both = lower_op2(l, THREAD_LSHR, a->word, lower_i32(l, a->shift));
	} else if (x + a->bits <= BYTE && y + b->bits <= BYTE) {        /* of a byte each */
		int64_t low = a->shift / BYTE, high = 4 + b->shift / BYTE;
		Reg first = x == y ? a->word : lower_op2(l, THREAD_LSHR, a->word, lower_i32(l, x));
		Reg second = x == y ? b->word : lower_op2(l, THREAD_LSHR, b->word, lower_i32(l, y));
		both = lower_byte_permute(l, first, second, lower_i32(l, low * 0x11 | high * 0x1100));
		both = x == y ? lower_op2(l, THREAD_LSHR, both, lower_i32(l, x)) : both;
	} else {
		Reg first = lower_op2(l, THREAD_LSHR, a->word, lower_i32(l, a->shift));
		Reg second = lower_op2(l, THREAD_LSHR, b->word, lower_i32(l, b->shift));
		both = lower_byte_permute(l, first, second, lower_i32(l, 0x5410));
	}
	return lower_op2(l, THREAD_AND, both, lower_i32(l, (int32_t)mask));
}

static Reg halves_of_bits(Lower *l, Reg a, Reg b, int depth);

/* An op on both, of which the low 16 bits of the result follow from those of the operands. */
static Reg
op_on_halves(Lower *l, const ThreadNode *x, const ThreadNode *y, int depth)
{
	enum { ALL = 0xffff };
	const ThreadModule *m = thread_module_of(l->b);
	int64_t by, other;
	if (x->op == THREAD_AND || x->op == THREAD_OR || x->op == THREAD_XOR) {
		Reg first = halves_of_bits(l, x->in[0], y->in[0], depth - 1);
		Reg second = first ? halves_of_bits(l, x->in[1], y->in[1], depth - 1) : 0;
		return second ? lower_op2(l, (ThreadOp)x->op, first, second) : 0;
	}
	bool shifts = (x->op == THREAD_SHL || (x->op == THREAD_LSHR && x->type == REG_I16)) &&
	    thread_const(m, x->in[1], &by) && thread_const(m, y->in[1], &other) && by == other && by >= 0 && by < 16;
	Reg both = shifts ? halves_of_bits(l, x->in[0], y->in[0], depth - 1) : 0;
	if (!both)
		return 0;
	int64_t mask = x->op == THREAD_SHL ? (int64_t)ALL << by & ALL : ALL >> by;
	both = lower_op2(l, (ThreadOp)x->op, both, lower_i32(l, by));
	return lower_op2(l, THREAD_AND, both, lower_i32(l, (int32_t)(mask | mask << 16)));
}

/* The low 16 bits of two registers in one word; 0: they are made otherwise. */
static Reg
halves_of_bits(Lower *l, Reg a, Reg b, int depth)
{
	const ThreadModule *m = thread_module_of(l->b);
	int64_t c, d;
	int at;
	Field f, g;
	if (thread_const(m, a, &c) && thread_const(m, b, &d))
		return lower_i32(l, (int32_t)((c & 0xffff) | (d & 0xffff) << HALF));
	if (find_field(l, a, DEPTH, &f) && find_field(l, b, DEPTH, &g) && f.bits <= HALF && g.bits <= HALF &&
	    !f.is_signed && !g.is_signed)
		return fields_in_halves(l, &f, &g);
	const ThreadNode *x = thread_node_of(l->b, a, &at), *y = thread_node_of(l->b, b, &at);
	if (!x || !y || depth == 0 || x->kind != y->kind || x->op != y->op || x->type != y->type)
		return 0;
	if (x->kind == NODE_OP && (x->type == REG_I16 || x->type == REG_I32))
		return op_on_halves(l, x, y, depth);
	bool wide = x->kind == NODE_CAST && thread_type_of(l->b, x->in[0]) >= REG_I16 &&
	    thread_type_of(l->b, x->in[0]) <= REG_I32 && (x->op == CAST_TRUNC || x->op == CAST_ZEXT);
	return wide && x->type >= REG_I16 ? halves_of_bits(l, x->in[0], y->in[0], depth - 1) : 0;
}

bool
lower_halves_of_bits(Lower *l, const Reg *in, RegType to, Reg *out)
{
	unsigned needs = prim_info[PRIM_BYTE_PERMUTE].needs;
	Reg both = l->t->kind == TARGET_PTX && !(needs & ~l->t->has) ? halves_of_bits(l, in[0], in[1], 2 * DEPTH) : 0;
	if (both)
		thread_unpack(l->b, both, to, out, 2);
	return both;
}
