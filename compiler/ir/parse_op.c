/* Reads types, places, ops and their regions. */
#include "ir/parse.h"

bool
read_dtype(Reader *r, DType *t)
{
	const char *text[DTYPE_COUNT], *name = r->l.text;
	Place at = r->l.place;

	if (r->l.token != TOK_WORD)
		return read_expected(r, "an element type");
	lex_next(&r->l);
	if (dtype_named(name, t))
		return true;
	for (int i = 0; i < DTYPE_COUNT; i++)
		text[i] = dtype_info[i].text;
	const char *best = nearest_name(name, text, DTYPE_COUNT);
	diag_error(r->cx, at, DIAG_TIR_TYPE, name);
	if (best)
		diag_help(r->cx, "did you mean '%s'?", best);
	return false;
}

/* f32[64, 32], *mut f32[128] */
static bool
read_tile(Reader *r, const Type **out)
{
	int64_t extent[MAX_RANK];
	Place at = r->l.place;
	int64_t bound = MAX_ELEMENTS;
	bool is_ptr = read_take(r, '*'), mut = is_ptr && read_take_word(r, "mut");
	int rank = 0;
	DType elem;

	if (!read_dtype(r, &elem))
		return false;
	if (read_take(r, '[')) {
		do {
			if (rank == r->rank)
				return diag_error(r->cx, at, DIAG_TIR_RANK, r->rank);
			if (!read_need_int(r, 0, INT64_MAX, &extent[rank++], "an extent of 0 or more"))
				return false;
		} while (read_take(r, ','));
		if (!read_need(r, ']'))
			return false;
	}
	*out = is_ptr ? type_ptr(r->m, elem, mut, rank, extent) : type_tile(r->m, elem, rank, extent);
	return type_count(*out) <= bound || diag_error(r->cx, at, DIAG_TIR_LARGE);
}

/* buffer<3 x f16[64, 32]>, mbarrier<3> */
static bool
read_ring(Reader *r, const Type **out)
{
	bool is_buffer = read_is_word(r, "buffer");
	const Type *slot;
	int64_t n;

	lex_next(&r->l);
	if (!read_need(r, '<') || !read_need_int(r, 1, 1 << 16, &n, "a number of slots, 1 to 65536"))
		return false;
	if (!is_buffer) {
		*out = type_mbarrier(r->m, (int)n);
		return read_need(r, '>');
	}
	if (!read_take_word(r, "x"))
		return read_expected(r, "'x' and the type of a slot");
	Place at = r->l.place;
	if (!read_type(r, &slot) || !read_need(r, '>'))
		return false;
	if (slot->kind != TYPE_TILE || slot->ptr != PTR_NONE || slot->rank == 0)
		return diag_error(r->cx, at, DIAG_TIR_SLOT);
	*out = type_buffer(r->m, slot->elem, (int)n, slot->rank, slot->extent);
	return true;
}

/* f32[64, 32], *mut f32[128], buffer<3 x f16[64, 32]>, token */
bool
read_type(Reader *r, const Type **out)
{
	if (read_is_word(r, "buffer") || read_is_word(r, "mbarrier"))
		return read_ring(r, out);
	if (read_take_word(r, "token")) {
		*out = type_token(r->m);
		return true;
	}
	return read_tile(r, out);
}

/* #N of a layout declared above, or nothing: NULL. */
static bool
read_layout(Reader *r, const Layout **out)
{
	int64_t n;
	Place at = r->l.place;

	*out = NULL;
	if (!read_take(r, '#'))
		return true;
	if (!read_need_int(r, 0, INT32_MAX, &n, "the number of a layout"))
		return false;
	if (n < r->layouts.n) {
		*out = r->layouts.at[n];
		return true;
	}
	return diag_error(r->cx, at, DIAG_TIR_LAYOUT, arena_printf(r->cx->tmp,
	    "#%lld is not declared: expected a line 'layout #%lld = ...' above", (long long)n, (long long)n));
}

/* @line:col, @file:line:col, or nothing */
bool
read_place(Reader *r, Place *out)
{
	const char *what = "a number from 1 to 2^31 - 1";
	int64_t n[3];
	int count = 0;
	Place at = r->l.place;

	*out = NOWHERE;
	if (!read_take(r, '@'))
		return true;
	do {
		if (!read_need_int(r, count ? 1 : 0, INT32_MAX - 1, &n[count], what))
			return false;
		count++;
	} while (count < 3 && read_take(r, ':'));
	int64_t file = count == 3 ? n[0] : 0;
	if (count < 2 || n[count - 2] < 1)
		return read_expected(r, "a place, @line:col or @file:line:col");
	if (file >= r->files.n)
		return diag_error(r->cx, at, DIAG_TIR_FILE, (long long)file);
	int line = (int)n[count - 2], col = (int)n[count - 1];
	*out = (Place){r->files.at[file], line, col, line, col + 1, NULL};
	return true;
}

typedef VEC(Value *) Values;
typedef VEC(Attr) Attrs;
typedef VEC(const Type *) Types;
typedef VEC(const Layout *) Layouts;

static bool
parse_ints(Reader *r, Attr *a)
{
	VEC(int64_t) ints = {0};
	int64_t v;

	if (!read_is_punct(r, ']'))
		do {
			if (!read_need_int(r, INT64_MIN, INT64_MAX, &v, "an integer"))
				return false;
			vec_push(r->cx->tmp, &ints, v);
		} while (read_take(r, ','));
	a->kind = KIND_INTS;
	a->ints = ints_copy(r->m, ints.at, ints.n);
	return read_need(r, ']');
}

static bool
parse_attr(Reader *r, OpKind kind, Attr *a)
{
	const char *name;
	Place at = r->l.place;

	*a = (Attr){0};
	if (!read_need_name(r, &name, "an attribute's name"))
		return false;
	if (!attr_named(name, &a->name))
		return diag_error(r->cx, at, DIAG_TIR_INFER, op_info[kind].text, attr_unknown(r->m, kind, name));
	if (!read_need(r, '='))
		return false;
	if (read_take(r, '['))
		return parse_ints(r, a);
	if (r->l.token == TOK_INT)
		a->kind = KIND_INT, a->i = r->l.i;
	else if (r->l.token == TOK_FLOAT)
		a->kind = KIND_FLOAT, a->f = r->l.f;
	else if (r->l.token == TOK_STRING)
		a->kind = KIND_TEXT, a->text = r->l.text;
	else if (read_is_word(r, "true") || read_is_word(r, "false"))
		a->kind = KIND_BOOL, a->i = read_is_word(r, "true");
	else
		return read_expected(r, "an attribute's value");
	lex_next(&r->l);
	return true;
}

static bool
parse_attrs(Reader *r, OpKind kind, Attrs *attrs)
{
	Attr a;

	if (!read_take(r, '{') || read_take(r, '}'))
		return true;
	do {
		if (!parse_attr(r, kind, &a))
			return false;
		vec_push(r->cx->tmp, attrs, a);
	} while (read_take(r, ','));
	return read_need(r, '}');
}

/* %a, %b = */
static bool
parse_results(Reader *r, Names *names)
{
	if (r->l.token != TOK_VALUE)
		return true;
	do {
		Name n = {r->l.text, r->l.place};
		if (r->l.token != TOK_VALUE)
			return read_expected(r, "a value");
		vec_push(r->cx->tmp, names, n);
		lex_next(&r->l);
	} while (read_take(r, ','));
	return read_need(r, '=');
}

static bool
parse_kind(Reader *r, OpKind *kind)
{
	const char *text[OP_COUNT];

	if (r->l.token != TOK_WORD)
		return read_expected(r, "an op");
	if (op_named(r->l.text, kind)) {
		lex_next(&r->l);
		return true;
	}
	for (int k = 0; k < OP_COUNT; k++)
		text[k] = op_info[k].text;
	const char *best = nearest_name(r->l.text, text, OP_COUNT);
	diag_error(r->cx, r->l.place, DIAG_TIR_OP, r->l.text);
	if (best)
		diag_help(r->cx, "did you mean '%s'?", best);
	return false;
}

static bool
parse_operands(Reader *r, OpKind kind, Values *in)
{
	if (r->l.token != TOK_VALUE || op_info[kind].nin == 0)
		return true;
	do {
		if (r->l.token != TOK_VALUE)
			return read_expected(r, "a value");
		Value *v = read_resolve(r, r->l.text, r->l.place);
		if (!v)
			return false;
		vec_push(r->cx->tmp, in, v);
		lex_next(&r->l);
	} while (read_take(r, ','));
	return true;
}

static bool
parse_types(Reader *r, Types *types, Layouts *layouts)
{
	const Type *t;
	const Layout *l;

	if (!read_take(r, ':'))
		return true;
	do {
		if (!read_type(r, &t) || !read_layout(r, &l))
			return false;
		vec_push(r->cx->tmp, types, t);
		vec_push(r->cx->tmp, layouts, l);
	} while (read_take(r, ','));
	return true;
}

static void
hide_block(Reader *r, const Block *b, const char *const *arg_name)
{
	for (int i = 0; i < b->narg; i++)
		read_binding(r, arg_name[i])->visible = false;
}

/* (%i: i64, %acc: f32[64]) { … } */
static bool
parse_region(Reader *r, Op *op, int i)
{
	VEC(const char *) names = {0};
	Names args = {0};
	Types types = {0};
	Layouts layouts = {0};
	const Type *t;
	const Layout *l;

	if (read_take(r, '(')) {
		do {
			Name n = {r->l.text, r->l.place};
			if (r->l.token != TOK_VALUE)
				return read_expected(r, "a value");
			lex_next(&r->l);
			if (!read_need(r, ':') || !read_type(r, &t) || !read_layout(r, &l))
				return false;
			vec_push(r->cx->tmp, &args, n);
			vec_push(r->cx->tmp, &names, n.text);
			vec_push(r->cx->tmp, &types, t);
			vec_push(r->cx->tmp, &layouts, l);
		} while (read_take(r, ','));
		if (!read_need(r, ')'))
			return false;
	}
	Block *b = op->region[i] = block_make(r->f, op, types.at, types.n);
	for (int k = 0; k < args.n; k++) {
		b->arg[k].layout = layouts.at[k];
		if (!read_bind(r, args.at[k].text, args.at[k].place, &b->arg[k]))
			return false;
	}
	if (!read_need(r, '{') || !read_block(r, b) || !read_need(r, '}'))
		return false;
	hide_block(r, b, names.at);
	return true;
}

static bool
parse_regions(Reader *r, Op *op)
{
	for (int i = 0; i < op->nregion; i++) {
		const char *word = region_word(op->kind, i);
		if (!read_take_word(r, word))
			return read_expected(r, arena_printf(r->cx->tmp, "'%s' and a region", word));
		if (!parse_region(r, op, i))
			return false;
	}
	return true;
}

/* Makes the op, or reports why it cannot be. */
static Op *
make_op(Reader *r, Block *b, Place at, Place said, OpKind kind, const Values *in, const Attrs *attrs,
    const Types *types)
{
	const Type **out = NEW_ARRAY(r->cx->tmp, const Type *, MAX(4, MAX(in->n, types->n)));
	Builder build = {.m = r->m, .block = b, .place = said};
	const char *why = NULL;
	int nout;

	Op op_read = {.kind = kind, .in = in->at, .nin = in->n, .attr = attrs->at, .nattr = attrs->n};
	if (!infer_types(r->m, &op_read, types->at, types->n, out, &nout, &why)) {
		diag_error(r->cx, at, DIAG_TIR_INFER, op_info[kind].text, why);
		return NULL;
	}
	Op *op = op_make_regions(&build, kind, in->at, in->n, attrs->at, attrs->n, types->at, types->n,
	    op_regions(kind));
	OpPlace place = {op, at};
	vec_push(r->cx->tmp, &r->ops, place);
	return op;
}

static bool
bind_results(Reader *r, Op *op, const Names *names, Place at)
{
	if (names->n != op->nout)
		return diag_error(r->cx, at, DIAG_TIR_RESULTS, op_info[op->kind].text, op->nout, names->n);
	return ALL_OF(i, names->n, read_bind(r, names->at[i].text, names->at[i].place, &op->out[i]));
}

/* The result is visible only after the op's regions, so it is bound last. */
static bool
parse_op(Reader *r, Block *b, Names *defined)
{
	Names names = {0};
	Values in = {0};
	Attrs attrs = {0};
	Types types = {0};
	Layouts layouts = {0};
	Place at = r->l.place, said;
	OpKind kind;

	if (!parse_results(r, &names))
		return false;
	at = names.n ? place_join(at, r->l.place) : r->l.place;
	if (!parse_kind(r, &kind) || !parse_operands(r, kind, &in) || !parse_attrs(r, kind, &attrs) ||
	    !parse_types(r, &types, &layouts) || !read_place(r, &said))
		return false;
	Op *op = make_op(r, b, at, said, kind, &in, &attrs, &types);
	for (int i = 0; op && i < op->nout && i < layouts.n; i++)
		op->out[i].layout = layouts.at[i];
	if (!op || !parse_regions(r, op) || !bind_results(r, op, &names, at))
		return false;
	for (int i = 0; i < names.n; i++)
		vec_push(r->cx->tmp, defined, names.at[i]);
	return true;
}

bool
read_block(Reader *r, Block *b)
{
	Names defined = {0};

	if (r->depth >= MAX_NESTING)
		return diag_error(r->cx, r->l.place, DIAG_TIR_NESTING, MAX_NESTING);
	r->depth++;
	while (!read_is_punct(r, '}'))
		if (!parse_op(r, b, &defined))
			return false;
	r->depth--;
	for (int i = 0; i < defined.n; i++)
		read_binding(r, defined.at[i].text)->visible = false;
	return true;
}
