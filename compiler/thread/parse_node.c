/* Nodes without regions, by their first word. */
#include "thread/read.h"

#include <string.h>

/* ".word" */
static bool
dotted(ThreadReader *r, const char *const *words, int n, int *out, const char *what)
{
	return read_need(&r->r, '.') && thread_read_word(r, words, n, out, what);
}

static bool
reg_type(ThreadReader *r, RegType *out)
{
	int t;
	if (!dotted(r, reg_type_text, REG_TYPES, &t, "a register's type"))
		return false;
	*out = (RegType)t;
	return true;
}

static bool
expect_count(ThreadReader *r, int n, int want)
{
	return n == want || thread_read_fail(r, arena_printf(r->r.cx->tmp, "%d operands are expected, found %d", want, n));
}

/* [base + offset + 16] align 8 readonly where r7 changes r8 */
static bool
read_address(ThreadReader *r, ThreadAccess *at)
{
	int64_t v;
	if (!read_need(&r->r, '[') ||
	    !thread_read_use(r, at->space == SPACE_SHARED ? REG_SHARED : REG_GLOBAL, &at->base))
		return false;
	while (!read_is_punct(&r->r, ']')) {
		bool minus = read_is_punct(&r->r, '-');
		if (!minus && !read_is_punct(&r->r, '+'))
			return read_expected(&r->r, "'+', '-' or ']'");
		lex_next(&r->r.l);
		int number;
		v = r->r.l.i;
		bool is_constant = r->r.l.token == TOK_INT && *r->r.l.at != ':';
		if (is_constant) {
			at->constant = minus ? (int64_t)(0 - (uint64_t)v) : v;
			lex_next(&r->r.l);
		} else if (minus || at->offset || (!thread_read_number(r, &number) && r->r.l.token != TOK_INT)) {
			return read_expected(&r->r, "a number of bytes");
		} else if (!thread_read_use(r, REG_TYPES, &at->offset)) {
			return false;
		}
	}
	lex_next(&r->r.l);
	if (read_take_word(&r->r, "align")) {
		if (!read_need_int(&r->r, 1, 1 << 20, &v, "an alignment"))
			return false;
		at->align = (int)v;
	}
	for (int i = 1; i < THREAD_CACHES; i++)
		if (read_take_word(&r->r, thread_cache_text[i]))
			at->cache = (CacheHint)i;
	if (read_take_word(&r->r, "where") && !thread_read_use(r, REG_PRED, &at->mask))
		return false;
	if (at->mask && read_take_word(&r->r, "else") && !thread_read_use(r, at->type, &at->fill))
		return false;
	return !read_take_word(&r->r, "changes") || thread_read_use(r, REG_GLOBAL, &at->changes);
}

static bool
is_power(int n)
{
	return n > 0 && n <= 64 && (n & (n - 1)) == 0;
}

static bool
read_load(ThreadReader *r, const ThreadNames *names)
{
	int space;
	if (!dotted(r, thread_space_text, THREAD_SPACES, &space, "a space"))
		return false;
	ThreadAccess at = {.space = (Space)space, .n = names->n};
	if (!is_power(names->n))
		return thread_read_fail(r, "a load gives 1, 2, 4 … registers");
	at.type = names->at[0].type;
	if (!read_address(r, &at))
		return false;
	Reg *out = NEW_ARRAY(r->mem, Reg, at.n);
	thread_load(r->b, &at, out);
	return thread_read_bind(r, names, out, at.n);
}

static bool
read_store(ThreadReader *r)
{
	int space;
	ThreadAccess at = {0};
	ThreadRegs v = {0};
	if (!dotted(r, thread_space_text, THREAD_SPACES, &space, "a space") || !reg_type(r, &at.type))
		return false;
	at.space = (Space)space;
	do {
		Reg one;
		if (read_is_punct(&r->r, '['))
			break;
		if (!thread_read_use(r, at.type, &one))
			return false;
		vec_push(r->mem, &v, one);
	} while (read_take(&r->r, ','));
	at.n = v.n;
	if (!is_power(v.n))
		return thread_read_fail(r, "a store takes 1, 2, 4 … registers");
	if (!read_address(r, &at))
		return false;
	thread_store(r->b, &at, v.at);
	return true;
}

static bool
read_atomic(ThreadReader *r, const ThreadNames *names)
{
	int k, order, scope, space;
	ThreadAccess at = {.n = 1};
	Reg v, compare = 0;
	if (!dotted(r, thread_atomic_text, THREAD_ATOMICS, &k, "an atomic operation") ||
	    !dotted(r, thread_order_text, THREAD_ORDERS, &order, "an order") ||
	    !dotted(r, thread_scope_text, THREAD_SCOPES, &scope, "a scope") ||
	    !dotted(r, thread_space_text, THREAD_SPACES, &space, "a space") || !reg_type(r, &at.type))
		return false;
	if (read_take(&r->r, '.')) {
		if (!read_take_word(&r->r, "x2"))
			return read_expected(&r->r, "'x2'");
		at.n = 2;
	}
	at.order = (AtomicOrder)order;
	at.scope = (AtomicScope)scope;
	at.space = (Space)space;
	RegType t = thread_atomic_type(&at);
	if ((k == ATOMIC_CAS && (!thread_read_use(r, t, &compare) || !read_need(&r->r, ','))) ||
	    !thread_read_use(r, t, &v) || !read_need(&r->r, ',') || !read_address(r, &at))
		return false;
	Reg out = thread_atomic(r->b, (AtomicKind)k, &at, v, compare);
	return thread_read_bind(r, names, &out, 1);
}

static bool
read_op(ThreadReader *r, ThreadOp op, const ThreadNames *names)
{
	RegType t = names->n ? names->at[0].type : REG_I32;
	Reg in[3] = {0};
	int n = thread_op_operands[op];
	if (thread_is_comparison(op) && !reg_type(r, &t))
		return false;
	for (int i = 0; i < n; i++)
		if ((i > 0 && !read_need(&r->r, ',')) ||
		    !thread_read_use(r, op == THREAD_SELECT && i == 0 ? REG_PRED : t, &in[i]))
			return false;
	Reg out = thread_op(r->b, op, in[0], in[1], in[2]);
	return thread_read_bind(r, names, &out, 1);
}

static bool
read_cast(ThreadReader *r, ThreadCast c, const ThreadNames *names)
{
	Reg in, out;
	if (names->n != 1)
		return thread_read_bind(r, names, NULL, 1);
	if (!thread_read_use(r, REG_TYPES, &in))
		return false;
	out = thread_cast(r->b, c, names->at[0].type, in);
	return thread_read_bind(r, names, &out, 1);
}

static bool
read_prim(ThreadReader *r, PrimKind k, const ThreadNames *names)
{
	const PrimInfo *info = &prim_info[k];
	VEC(int64_t) imm = {0};
	ThreadRegs in = {0};
	Reg out[8];
	while (read_take(&r->r, imm.n ? ':' : '.')) {
		int64_t v;
		if (!read_need_int(&r->r, INT64_MIN, INT64_MAX, &v, "a number"))
			return false;
		vec_push(r->mem, &imm, v);
	}
	if (info->nin && !thread_read_uses(r, REG_TYPES, &in))
		return false;
	if (!expect_count(r, in.n, info->nin))
		return false;
	thread_prim(r->b, k, in.at, in.n, imm.at, imm.n, out, info->nout);
	return thread_read_bind(r, names, out, info->nout);
}

static bool
read_lookup(ThreadReader *r, const ThreadNames *names)
{
	Reg index, out;
	VEC(int64_t) bits = {0};
	if (names->n != 1)
		return thread_read_bind(r, names, NULL, 1);
	if (!thread_read_use(r, REG_I32, &index) || !read_need(&r->r, '{'))
		return false;
	do {
		int64_t v;
		if (!read_need_int(&r->r, INT64_MIN, INT64_MAX, &v, "a number"))
			return false;
		vec_push(r->mem, &bits, v);
	} while (read_take(&r->r, ','));
	out = thread_lookup(r->b, names->at[0].type, bits.at, bits.n, index);
	return read_need(&r->r, '}') && thread_read_bind(r, names, &out, 1);
}

/* "m16n8k16.f16" up to the blank, with words behind it taken off. */
static const char *
dotted_name(ThreadReader *r, const char *first)
{
	const char *name = first;
	while (read_take(&r->r, '.')) {
		if (r->r.l.token != TOK_WORD)
			return name;
		name = *name ? arena_printf(r->mem, "%s.%s", name, r->r.l.text) : r->r.l.text;
		lex_next(&r->r.l);
	}
	return name;
}

static bool
read_lists(ThreadReader *r, const RegType *type, const int *count, int n, ThreadRegs *in)
{
	return !ANY_OF(i, n,
	    (i > 0 && !read_need(&r->r, ',')) || !thread_read_list(r, type[i], &in[i]) ||
		!expect_count(r, in[i].n, count[i]));
}

static bool
read_mma(ThreadReader *r, const ThreadNames *names)
{
	const char *name = dotted_name(r, "");
	const MmaInfo *i = NULL;
	ThreadRegs in[3] = {0};
	for (int k = 0; k < mma_count && !i; k++)
		i = strcmp(mma_info[k].name, name) == 0 ? &mma_info[k] : NULL;
	if (!i)
		return thread_read_fail(r, arena_printf(r->r.cx->tmp, "there is no matrix instruction '%s'", name));
	MmaWords w = mma_words(i);
	const RegType type[] = {w.word, w.word, w.acc};
	if (!read_lists(r, type, (const int[]){w.a, w.b, w.c}, 3, in))
		return false;
	Reg *out = NEW_ARRAY(r->mem, Reg, w.c);
	thread_mma(r->b, i, in[0].at, in[1].at, in[2].at, out);
	return thread_read_bind(r, names, out, w.c);
}

static bool
ends_in(const char *name, const char *end, size_t *n)
{
	size_t length = strlen(end);
	if (*n <= length || memcmp(name + *n - length, end, length) != 0)
		return false;
	*n -= length;
	return true;
}

/* A descriptor, or a list of words. */
static bool
read_operand_a(ThreadReader *r, Wgmma *w)
{
	ThreadRegs words = {0};
	Reg *one = NEW_ARRAY(r->mem, Reg, 1);
	w->a = one;
	if (!read_is_punct(&r->r, '('))
		return thread_read_use(r, REG_I64, one);
	if (!thread_read_list(r, REG_I32, &words) || !expect_count(r, words.n, WGMMA_WORDS))
		return false;
	w->a = words.at;
	w->flags |= WGMMA_REGISTERS;
	return true;
}

static bool
read_wgmma(ThreadReader *r, const ThreadNames *names)
{
	const char *name = dotted_name(r, "wgmma");
	size_t n = strlen(name);
	Wgmma w = {.flags = ends_in(name, ".transpose_b", &n) ? TRANSPOSE_B : 0};
	w.flags |= ends_in(name, ".transpose_a", &n) ? TRANSPOSE_A : 0;
	w.info = wgmma_named(arena_printf(r->r.cx->tmp, "%.*s", (int)n, name));
	ThreadRegs acc = {0};
	if (!w.info)
		return thread_read_fail(r, arena_printf(r->r.cx->tmp, "there is no matrix instruction '%s'", name));
	RegType t = w.info->acc == TY_F32 ? REG_F32 : REG_I32;
	if (!read_operand_a(r, &w) || !read_need(&r->r, ',') || !thread_read_use(r, REG_I64, &w.b) ||
	    !read_need(&r->r, ',') || !thread_read_list(r, t, &acc) || !expect_count(r, acc.n, w.info->n / 2) ||
	    (read_take_word(&r->r, "scale") && !thread_read_use(r, REG_PRED, &w.scale)))
		return false;
	w.c = acc.at;
	Reg *out = NEW_ARRAY(r->mem, Reg, acc.n);
	thread_wgmma(r->b, &w, out);
	return thread_read_bind(r, names, out, acc.n);
}

const RegType *
thread_read_types(ThreadReader *r, const ThreadNames *names)
{
	return MAP_OF(r->mem, RegType, i, names->n, names->at[i].type);
}

static bool
read_call(ThreadReader *r, const ThreadNames *names)
{
	const char *name;
	ThreadRegs in = {0};
	if (!read_need(&r->r, '@') || !read_need_name(&r->r, &name, "a function's name") ||
	    !thread_read_list(r, REG_F32, &in))
		return false;
	const RegType *type = thread_read_types(r, names);
	Reg *out = NEW_ARRAY(r->mem, Reg, names->n);
	if (names->n == 0 || !thread_call(r->b, name, in.at, in.n, type, out, names->n))
		return thread_read_fail(r, arena_printf(r->r.cx->tmp, "there is no function '%s' above", name));
	return thread_read_bind(r, names, out, names->n);
}

/* ptx "text" operands, print "text" operands */
static bool
read_quoted(ThreadReader *r, bool prints, const ThreadNames *names)
{
	ThreadRegs in = {0};
	Place line = r->r.l.place;
	if (r->r.l.token != TOK_STRING)
		return read_expected(&r->r, "a text in quotes");
	const char *text = r->r.l.text;
	lex_next(&r->r.l);
	if (r->r.l.place.line == line.line && !read_is_punct(&r->r, '}') && !thread_read_uses(r, REG_TYPES, &in))
		return false;
	if (prints) {
		thread_print(r->b, text, in.at, in.n);
		return thread_read_bind(r, names, NULL, 0);
	}
	const RegType *type = thread_read_types(r, names);
	Reg *out = NEW_ARRAY(r->mem, Reg, names->n);
	thread_ptx(r->b, text, in.at, in.n, type, out, names->n);
	return thread_read_bind(r, names, out, names->n);
}

static bool
read_few(ThreadReader *r, ThreadKind kind, const ThreadNames *names)
{
	ThreadRegs in = {0};
	Reg one, two, *out = NEW_ARRAY(r->mem, Reg, names->n);
	int64_t number;
	switch (kind) {
	case NODE_PACK:
		if (!thread_read_uses(r, REG_TYPES, &in))
			return false;
		one = thread_pack(r->b, in.at, in.n);
		return thread_read_bind(r, names, &one, 1);
	case NODE_UNPACK:
		if (names->n == 0 || names->n > 8 || !thread_read_use(r, REG_I32, &one))
			return thread_read_fail(r, "a word is unpacked to 1, 2, 4 or 8 registers");
		thread_unpack(r->b, one, names->at[0].type, out, names->n);
		return thread_read_bind(r, names, out, names->n);
	case NODE_POINTER:
		if (!thread_read_use(r, names->n ? names->at[0].type : REG_GLOBAL, &one) || !read_need(&r->r, ',') ||
		    !thread_read_use(r, REG_TYPES, &two))
			return false;
		one = thread_pointer(r->b, one, two);
		return thread_read_bind(r, names, &one, 1);
	case NODE_SETTLE:
		if (!thread_read_list(r, REG_F32, &in) || !expect_count(r, in.n, names->n) || in.n == 0)
			return false;
		thread_settle(r->b, in.at, out, in.n);
		return thread_read_bind(r, names, out, in.n);
	default:
		if (!read_need_int(&r->r, 0, INT32_MAX, &number, "a print's number") ||
		    !thread_read_list(r, REG_TYPES, &in))
			return false;
		thread_trace(r->b, (int)number, in.at, in.n);
		return thread_read_bind(r, names, NULL, 0);
	}
}

bool
thread_read_plain(ThreadReader *r, const ThreadNames *names)
{
	int i;
	if (r->r.l.token != TOK_WORD)
		return read_expected(&r->r, "an operation");
	const char *word = r->r.l.text;
	Place at = r->r.l.place;
	static const ThreadKind few[] = {NODE_PACK, NODE_UNPACK, NODE_POINTER, NODE_SETTLE, NODE_TRACE};
	lex_next(&r->r.l);
	for (i = 0; i < LEN(few); i++)
		if (strcmp(word, thread_kind_text[few[i]]) == 0)
			return read_few(r, few[i], names);
	for (i = 0; i < THREAD_OPS_COUNT; i++)
		if (strcmp(word, thread_op_text[i]) == 0)
			return read_op(r, (ThreadOp)i, names);
	for (i = 0; i < THREAD_CASTS; i++)
		if (strcmp(word, thread_cast_text[i]) == 0)
			return read_cast(r, (ThreadCast)i, names);
	for (i = 0; i < PRIM_COUNT; i++)
		if (strcmp(word, prim_info[i].text) == 0)
			return read_prim(r, (PrimKind)i, names);
	if (strcmp(word, "load") == 0)
		return read_load(r, names);
	if (strcmp(word, "store") == 0)
		return names->n ? thread_read_bind(r, names, NULL, 0) : read_store(r);
	if (strcmp(word, "atomic") == 0)
		return read_atomic(r, names);
	if (strcmp(word, "lookup") == 0)
		return read_lookup(r, names);
	if (strcmp(word, "mma") == 0)
		return read_mma(r, names);
	if (strcmp(word, "wgmma") == 0)
		return read_wgmma(r, names);
	if (strcmp(word, "call") == 0)
		return read_call(r, names);
	if (strcmp(word, "ptx") == 0 || strcmp(word, "print") == 0)
		return read_quoted(r, word[1] == 'r', names);
	return diag_error(r->r.cx, at, DIAG_THREAD_TEXT, arena_printf(r->r.cx->tmp, "unknown operation '%s'", word));
}
