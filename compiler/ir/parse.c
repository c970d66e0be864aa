/* Reads the text that print.c writes (the form is drawn at the top of ir.h).
 *
 * Bad text is the user's: every mistake is reported at its place, reading goes on with the next
 * function, and no module is handed out.  Nesting is bounded because the walkers over regions
 * recurse.  What inference and the verifier say about the ops is reported at the op's place in
 * this text, which a side table keeps; the `@line:col` of an op is data. */
#include "ir/parse.h"

#include <string.h>

enum { MAX_FILES = 4096 };

/* A parameter as read: dimensions name dims that may come later in the list. */
typedef struct ParamText {
	FuncParam param;
	const Type *type;
	Name name;
	Name dim[KERNEL_RANK];
} ParamText;
typedef VEC(ParamText) ParamTexts;

/* (K, 128) of a dimension that is cdiv(K, 128) */
static bool
parse_part(Reader *r, ParamText *p, int d)
{
	if (!read_need(r, '(') || r->l.token != TOK_WORD)
		return read_expected(r, "the name of a dim");
	p->dim[d] = (Name){r->l.text, r->l.place};
	lex_next(&r->l);
	return read_need(r, ',') && read_need_int(r, 1, INT64_MAX, &p->param.part[d], "a number of 1 or more") &&
	    read_need(r, ')');
}

/* [R, 1000, C = 64, cdiv(R, 16), ?] */
static bool
parse_dims(Reader *r, ParamText *p, DType elem)
{
	int64_t extent[KERNEL_RANK];
	int rank = 0;

	if (read_take(r, '[')) {
		do {
			if (rank == KERNEL_RANK)
				return diag_error(r->cx, r->l.place, DIAG_TIR_RANK, KERNEL_RANK);
			bool is_named = r->l.token == TOK_WORD;
			extent[rank] = -1;
			if (is_named) {
				p->dim[rank] = (Name){r->l.text, r->l.place};
				lex_next(&r->l);
			}
			if (is_named && strcmp(p->dim[rank].text, "cdiv") == 0 && read_is_punct(r, '(')) {
				if (!parse_part(r, p, rank))
					return false;
			} else if (!is_named || read_is_punct(r, '=')) {
				read_take(r, '=');
				if (!read_take(r, '?') &&
				    !read_need_int(r, 0, INT64_MAX, &extent[rank], "an extent, a dim's name or '?'"))
					return false;
			}
			rank++;
		} while (read_take(r, ','));
		if (!read_need(r, ']'))
			return false;
	}
	p->type = type_tensor(r->m, elem, rank, extent);
	return true;
}

/* strided rows(8) last(0): the last dimension's stride is 1, the others' are multiples of 8; and it is the argument's
 * dimension 0. */
static bool
parse_strides(Reader *r, FuncParam *p)
{
	int64_t last = 0;
	p->strided = read_take_word(r, "strided");
	p->unit = p->strided && read_take_word(r, "rows");
	if (p->unit && (!read_need(r, '(') || !read_need_int(r, 1, INT64_MAX, &p->apart, "a number of 1 or more") ||
			   !read_need(r, ')')))
		return false;
	if (!p->unit || !read_take_word(r, "last"))
		return true;
	if (!read_need(r, '(') || !read_need_int(r, 0, KERNEL_RANK - 1, &last, "a dimension"))
		return false;
	p->last = (int)last + 1;
	return read_need(r, ')');
}

static bool
parse_param_type(Reader *r, ParamText *p)
{
	DType elem;

	for (int a = 0; a < LEN(access_text); a++) {
		if (!read_take_word(r, access_text[a]))
			continue;
		Place at = r->l.place;
		p->param.kind = PARAM_TENSOR;
		p->param.access = (Access)a;
		p->param.is_constant = p->param.access == ACCESS_IN && read_take_word(r, "fixed");
		return parse_strides(r, &p->param) && read_dtype(r, &elem) && parse_dims(r, p, elem) &&
		    (p->param.last <= p->type->rank || diag_error(r->cx, at, DIAG_TIR_RANK, p->type->rank));
	}
	if (read_take_word(r, "dim")) {
		p->param.kind = PARAM_DIM;
		p->type = type_scalar(r->m, TY_I64);
		return true;
	}
	p->param.kind = read_is_punct(r, '*') ? PARAM_POINTER : PARAM_SCALAR;
	Place at = r->l.place;
	if (!read_type(r, &p->type))
		return false;
	if (p->type->rank == 0 && p->type->kind == TYPE_TILE)
		return true;
	return diag_error(r->cx, at, DIAG_TIR_PARAM);
}

/* least(897, 1024): a dimension is no less, and no more. */
static bool
parse_least(Reader *r, ParamText *p)
{
	if (!read_take_word(r, "least"))
		return true;
	return read_need(r, '(') && read_need_int(r, 1, INT64_MAX, &p->param.least, "a number of 1 or more") &&
	    (!read_take(r, ',') || read_need_int(r, 1, INT64_MAX, &p->param.most, "a number of 1 or more")) &&
	    read_need(r, ')');
}

/* multiple(16): what the address or the integer is known to be a multiple of; then, maybe, a tensor's dimensions. */
static bool
parse_multiple(Reader *r, ParamText *p)
{
	if (!read_take_word(r, "multiple"))
		return true;
	int rank = p->param.kind == PARAM_TENSOR ? p->type->rank : 0;
	if (!read_need(r, '(') || !read_need_int(r, 1, INT64_MAX, &p->param.multiple, "a number of 1 or more"))
		return false;
	for (int d = 0; d < rank && read_take(r, ','); d++)
		if (!read_need_int(r, 1, INT64_MAX, &p->param.dim_multiple[d], "a number of 1 or more"))
			return false;
	return read_need(r, ')');
}

static bool
parse_params(Reader *r, ParamTexts *params)
{
	if (read_is_punct(r, ')'))
		return true;
	do {
		ParamText p = {.name = {r->l.text, r->l.place}};
		if (r->l.token != TOK_VALUE)
			return read_expected(r, "a parameter");
		lex_next(&r->l);
		if (!read_need(r, ':') || !parse_param_type(r, &p) || !parse_multiple(r, &p) || !parse_least(r, &p))
			return false;
		vec_push(r->cx->tmp, params, p);
	} while (read_take(r, ','));
	return true;
}

static bool
resolve_dims(Reader *r, ParamTexts *params, ParamText *p)
{
	for (int d = 0; d < KERNEL_RANK; d++) {
		p->param.dim[d] = -1;
		if (!p->dim[d].text)
			continue;
		int64_t found = -1;
		for (int i = 0; i < params->n; i++)
			if (params->at[i].param.kind == PARAM_DIM && params->at[i].name.text == p->dim[d].text)
				found = i;
		if (p->param.part[d] > 0)
			p->param.part_of[d] = found;
		else
			p->param.dim[d] = (int)found;
		if (found >= 0)
			continue;
		return diag_error(r->cx, p->dim[d].place, DIAG_TIR_DIM, p->dim[d].text);
	}
	return true;
}

static bool
make_func(Reader *r, const char *name, Place at, ParamTexts *params)
{
	FuncParam *param = NEW_ARRAY(r->cx->tmp, FuncParam, params->n);
	const Type **type = NEW_ARRAY(r->cx->tmp, const Type *, params->n);

	for (int i = 0; i < params->n; i++) {
		ParamText *p = &params->at[i];
		if (!resolve_dims(r, params, p))
			return false;
		if (!name_is_valid(p->name.text))
			return diag_error(r->cx, p->name.place, DIAG_TIR_NAME, p->name.text);
		param[i] = p->param;
		param[i].name = p->name.text;
		type[i] = p->type;
	}
	r->f = func_make(r->m, name, param, type, params->n);
	vec_push(r->cx->tmp, &r->func_place, at);
	r->names = (HashTable){0};
	r->depth = 0;
	return ALL_OF(i, params->n,
	    read_bind(r, params->at[i].name.text, params->at[i].name.place, &r->f->body->arg[i]));
}

static bool
parse_grid(Reader *r)
{
	Func *f = r->f;

	if (!read_take_word(r, "grid"))
		return true;
	if (!read_need(r, '('))
		return false;
	do {
		if (f->naxis == MAX_AXES)
			return read_expected(r, "')': a grid has at most 3 axes");
		if (!read_need_name(r, &f->axis[f->naxis], "the name of a grid axis"))
			return false;
		f->naxis++;
	} while (read_take(r, ','));
	return read_need(r, ')');
}

/* warps(4) stages(3) shared(12288) */
static bool
parse_schedule(Reader *r)
{
	int64_t n;

	for (int i = 0; i < SCHEDULE_COUNT; i++) {
		if (!read_take_word(r, schedule_info[i].text))
			continue;
		if (!read_need(r, '(') || !read_need_int(r, 1, 1 << 20, &n, "a number of 1 or more") ||
		    !read_need(r, ')'))
			return false;
		r->f->schedule.at[i] = (int)n;
	}
	if (read_take_word(r, "shared"))
		return read_need(r, '(') && read_need_int(r, 1, INT64_MAX, &r->f->shared_bytes, "bytes, 1 or more") &&
		    read_need(r, ')');
	return true;
}

static bool
parse_func(Reader *r)
{
	ParamTexts params = {0};
	bool is_reference = read_is_word(r, "reference");
	const char *name;
	Place at;

	r->rank = is_reference ? MAX_RANK : KERNEL_RANK;
	lex_next(&r->l);
	if (!read_need(r, '@'))
		return diag_help(r->cx, "this is read as tile IR; `tegula build --emit=tir` makes that of a .tgl file");
	at = r->l.place;
	if (!read_need_name(r, &name, "a function's name"))
		return false;
	if (ANY_OF(i, r->m->funcs.n, r->m->funcs.at[i]->name == name))
		return diag_error(r->cx, at, DIAG_TIR_FUNC, name);
	if (!read_need(r, '(') || !parse_params(r, &params) || !read_need(r, ')') ||
	    !make_func(r, name, at, &params))
		return false;
	r->f->is_reference = is_reference;
	return parse_grid(r) && parse_schedule(r) && read_place(r, &r->f->place) && read_need(r, '{') &&
	    read_block(r, r->f->body) && read_need(r, '}');
}

/* file 0 "softmax.tgl" */
static bool
parse_file(Reader *r)
{
	int64_t n;

	if (!read_need_int(r, r->files.n, r->files.n, &n,
		arena_printf(r->cx->tmp, "file number %d", r->files.n)))
		return false;
	if (r->l.token != TOK_STRING || n >= MAX_FILES)
		return read_expected(r, "a path in quotes");
	int file = source_text(r->cx, r->l.text, "", 0);
	vec_push(r->cx->tmp, &r->files, file);
	lex_next(&r->l);
	return file >= 0;
}

static bool
parse_fact(Reader *r)
{
	Text all = {0};

	for (int i = 0; i < FACT_COUNT; i++)
		if (read_take_word(r, fact_info[i].text)) {
			r->m->facts |= 1u << i;
			return true;
		}
	facts_print(~0u, " ", &all);
	read_expected(r, arena_printf(r->cx->tmp, "a fact (%s)", all.at));
	text_close(&all);
	return false;
}

static bool
parse_facts(Reader *r)
{
	r->m->facts = 0;
	if (!read_need(r, '('))
		return false;
	if (read_take(r, ')'))
		return true;
	do {
		if (!parse_fact(r))
			return false;
	} while (read_take(r, ','));
	return read_need(r, ')');
}

/* layout #0 = layout(shape = [4, 8], …), to the end of the line */
static bool
parse_layout(Reader *r)
{
	int64_t n;
	int at;
	Layout l;

	if (!read_need(r, '#') ||
	    !read_need_int(r, r->layouts.n, r->layouts.n, &n,
		arena_printf(r->cx->tmp, "layout number %d", r->layouts.n)))
		return false;
	if (!read_is_punct(r, '='))
		return read_expected(r, "'='");
	Place place = r->l.place;
	const char *why = layout_parse(lex_line(&r->l), &l, &at);
	if (why) {
		place.col = place.end_col + at;
		place.end_col = place.col + 1;
		return diag_error(r->cx, place, DIAG_TIR_LAYOUT, why);
	}
	vec_push(r->cx->tmp, &r->layouts, layout_intern(r->m, &l));
	lex_next(&r->l);
	return true;
}

static bool
parse_item(Reader *r)
{
	if (read_is_word(r, "kernel") || read_is_word(r, "reference"))
		return parse_func(r);
	if (r->m->funcs.n == 0 && read_take_word(r, "file"))
		return parse_file(r);
	if (r->m->funcs.n == 0 && read_take_word(r, "facts"))
		return parse_facts(r);
	if (r->m->funcs.n == 0 && read_take_word(r, "layout"))
		return parse_layout(r);
	return read_expected(r, "'kernel' or 'reference'");
}

/* What only the whole module shows: scopes of regions, terminators, what is written to. */
static void
verify(Reader *r)
{
	const Op *at;
	const char *why = module_check(r->m, &at);
	Place place = r->func_place.n ? r->func_place.at[0] : NOWHERE;

	if (!why)
		return;
	for (int i = 0; at && i < r->ops.n; i++)
		if (r->ops.at[i].op == at)
			place = r->ops.at[i].place;
	diag_error(r->cx, place, DIAG_TIR_INFER, at ? op_info[at->kind].text : "module", why);
}

Module *
module_parse(Compile *cx, int file)
{
	Reader r = {.cx = cx, .m = module_open(cx)};
	int before = cx->nerrors;

	lex_open(&r.l, cx, file);
	lex_next(&r.l);
	while (r.l.token != TOK_END)
		if (!parse_item(&r))
			lex_resync(&r.l);
	if (cx->nerrors == before && r.m->funcs.n == 0)
		read_expected(&r, "'kernel' or 'reference'");
	if (cx->nerrors == before)
		verify(&r);
	return cx->nerrors == before ? r.m : NULL;
}
