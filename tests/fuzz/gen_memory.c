/* What a kernel reads and writes: tensors, pointers, atomics.
 *
 * Inputs are read anywhere, also outside.  An output has a part for each program: of USE_BLOCK each program writes its
 * tile at the end; of USE_OWN it reads and writes in its part at any time.  All programs may use elements of USE_ATOMIC,
 * by one atomic operation whose order has no effect. */
#include "gen_tgl.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

static Term *
read_gathered(Maker *g, const Param *p, Form f, int depth)
{
	Index x = {0};
	const char *text = "";
	int at = pick(g, p->rank);
	for (int d = 0; d < p->rank; d++) {
		Form ids = form_elem(f, chance(g, 70) ? TY_I32 : TY_I64);
		index_term(&x,
		    d == at ? term_make(g, ids, true, MIN(depth, 2)) : index_start(g, -1, depth));
		text = arena_printf(g->s->mem, "%s%s$%d", text, d ? ", " : "", d);
	}
	return term_node(
	    g, f, range_both(p->range, (ValueRange){0}), x.kid, x.nkid, "%s[%s]", p->name, text);
}

Term *
rule_read(Maker *g, Form f, bool exact, int depth)
{
	int rank = f.rank, at_least = MAX(rank, 1);
	Param *p = find_param(g, USE_READ, f.elem, at_least, MIN(at_least + 1, FORM_RANK));
	if (!p && g->s->params.n >= MOST_PARAMS)
		return NULL;
	if (!p || (chance(g, 20) && g->s->params.n < MOST_PARAMS))
		p = input_make(
		    g, f.elem, at_least < 4 && chance(g, 25) ? at_least + 1 : at_least, f);
	if (rank > 0 && chance(g, 10) && !dtype_is_packed(f.elem))
		return read_gathered(g, p, f, depth);
	Index x = index_make(g, p, f, false, depth);
	ValueRange w = range_both(p->range, (ValueRange){0});
	if (!chance(g, 25) || dtype_is_packed(f.elem))
		return term_node(g, f, w, x.kid, x.nkid, "%s", x.text);
	if (dtype_is_float(f.elem) && f.elem != TY_F8E4M3 && chance(g, 30))
		return term_node(
		    g, f, range_make(INFINITY, w.frac, 0), x.kid, x.nkid, "(%s else -inf)", x.text);
	Term *other = term_make(g, chance(g, 70) ? form_scalar(f.elem) : f, true, MIN(depth, 1));
	index_term(&x, other);
	return term_node(g, f, range_both(w, other->range), x.kid, x.nkid, "(%s else ($%d))",
	    x.text, x.nkid - 1);
}

Term *
rule_read_own(Maker *g, Form f, bool exact, int depth)
{
	Param *p = find_param(g, USE_OWN, f.elem, f.rank, FORM_RANK);
	if (!p)
		return NULL;
	Index x = index_make(g, p, f, false, depth);
	return term_node(g, f, range_of_type(f.elem), x.kid, x.nkid, "%s", x.text);
}

/* Ways to read p[clamp($0, 0, most)]. */
static const char *
pick_load(Maker *g)
{
	static const char *const way[] = {"load(%s + clamp($0, 0, %d))", "load(%s + clamp($0, 0, %d))",
	    "load(%s + clamp($0, 0, %d), cache_modifier = cg)", "load(%s + clamp($0, 0, %d), cache_modifier = ca)",
	    "load(%s + clamp($0, 0, %d), eviction_policy = evict_first)", "load(1 + %s + clamp($0, 0, %d) - 1)"};
	return way[pick(g, LEN(way))];
}

Term *
rule_load(Maker *g, Form f, bool exact, int depth)
{
	Param *p = find_param(g, USE_LOAD, f.elem, 0, 0);
	if (!p && g->s->params.n >= MOST_PARAMS)
		return NULL;
	if (!p) {
		p = param_add(g, USE_LOAD, f.elem, "p");
		p->length = 1 + pick(g, 100);
		p->decl = arena_printf(g->s->mem, "%s: *%s", p->name, dtype_info[f.elem].text);
		p->init = make_init(g, p->name, f.elem,
		    arena_printf(g->s->mem, ", shape = [%d]", p->length), &p->range);
	}
	Term *at = term_make(g, form_elem(f, chance(g, 70) ? TY_I32 : TY_I64), true, MIN(depth, 2));
	ValueRange w = range_both(p->range, (ValueRange){0});
	if (f.rank > 1 && chance(g, 20)) { /* the tile of pointers takes an index */
		int axis = pick(g, f.rank), most = p->length / 2;
		Term *row = term_make(g, form_remove(form_elem(f, TY_I32), axis), true, MIN(depth, 1));
		return term2(g, f, w, row, at, "load((%s + clamp($0, 0, %d))%s + clamp($1, 0, %d))", p->name, most,
		    index_at(g, f.rank, axis, "new"), p->length - 1 - most);
	}
	if (chance(g, 50))
		return term1(g, f, w, at, pick_load(g), p->name, p->length - 1);
	Term *mask = term_make(g, form_elem(f, TY_BOOL), true, 1),
	     *other = term_make(g, f, true, MIN(depth, 1));
	return term3(g, f, range_both(w, other->range), at, mask, other,
	    "load(%s + $0, ($0 >= 0) & ($0 < %d) & $1, $2)", p->name, p->length);
}

/* ---- outputs ---- */

/* The dimensions of an output: one for each axis of the grid, so that programs are apart, and some
 * more. */
Param *
output_make(Maker *g, ParamUse use, DType elem)
{
	Param *p = param_add(g, use, elem, use == USE_OWN ? "w" : "y");
	int axis = 0, more = pick(g, MIN(FORM_RANK - g->s->naxis, 3) + (g->s->naxis > 0)) +
			     (g->s->naxis == 0 || dtype_is_packed(elem));
	const char *dims = "";
	p->range = range_of_type(elem);
	p->form.elem = elem;
	more = MIN(more, FORM_RANK - g->s->naxis);
	while (axis < g->s->naxis || more > 0) {
		const Axis *a =
		    axis < g->s->naxis && (more == 0 || chance(g, 60)) ? &g->s->axis[axis] : NULL;
		bool last_packed = dtype_is_packed(elem) && more == 1 && axis < g->s->naxis;
		const char *dim;
		int d = p->rank++, e = -1;
		if (last_packed)
			a = &g->s->axis[axis];
		axis += a != NULL;
		more -= a == NULL;
		p->extent[d] = -1;
		if (a && use == USE_BLOCK && a->extent >= 0 && chance(g, 75)) {
			e = a->extent;
			p->fixed[d] = arena_printf(g->s->mem, "%s * #%d# +: #%d#", a->name, e, e);
			dim = arena_printf(g->s->mem, "N%d", a->size);
		} else if (a) {
			p->fixed[d] = a->name;
			dim = a->count;
		} else {
			p->extent[d] = e = extent_named(g);
			dim = arena_printf(g->s->mem, "#%d#", e);
		}
		if (e >= 0)
			p->form = form_insert(p->form, p->form.rank, e);
		dims = arena_printf(g->s->mem, "%s%s%s", dims, d ? ", " : "", dim);
	}
	p->decl = arena_printf(g->s->mem, "%s: %s %s[%s]", p->name,
	    use == USE_OWN ? "inout" : "out", dtype_info[elem].text, dims);
	p->init = use == USE_OWN ? make_init(g, p->name, elem, "", &(ValueRange){0}) : NULL;
	return p;
}

/* A value that can be stored to elements of type t. */
static Term *
make_stored(Maker *g, Form f, bool exact, int depth)
{
	DType from = f.elem;
	if (f.elem == TY_I4 || f.elem == TY_U4)
		from = chance(g, 50) ? TY_I8 : TY_I32;
	else if (f.elem == TY_F4E2M1)
		from = chance(g, 50) ? TY_F16 : TY_F32;
	else if (dtype_is_float(f.elem) && chance(g, 30))
		from = chance(g, 50) ? TY_F32 : TY_F64;
	else if (!dtype_is_float(f.elem) && f.elem != TY_BOOL && chance(g, 20))
		from = chance(g, 50) ? TY_I64 : TY_I32;
	return term_make(g, form_elem(f, from), exact, depth);
}

static void
write_own(Maker *g, Steps *to)
{
	Param *p = NULL;
	for (int i = 0; i < g->s->params.n; i++)
		if (g->s->params.at[i]->use == USE_OWN && chance(g, 50))
			p = g->s->params.at[i];
	if (!p && g->s->params.n >= MOST_PARAMS)
		return;
	if (!p)
		p = output_make(g, USE_OWN, pick_elem(g));
	Form f = p->form;
	for (int d = 0; d < f.rank; d++)
		if (chance(g, 40))
			f.extent[d] = extent_named(g);
	if (!form_fits(g, f))
		return;
	Index x = index_make(g, p, f, true, 2);
	Term *v = make_stored(g, form_narrow(g, f), true, 3);
	index_term(&x, v);
	static const char *const ops[] = {"+=", "-=", "*=", "^=", "|=", "&=", "<<=", "/=", "%="};
	bool changes = p->elem != TY_BOOL && v->form.elem == p->elem && chance(g, 25);
	const char *op = changes ? ops[pick(g, dtype_is_float(p->elem) ? 3 : LEN(ops))] : "=";
	step_add(g, to, x.kid, x.nkid, "%s %s $%d", x.text, op, x.nkid - 1);
}

/* ---- atomics ---- */

static void
add_atomic(Maker *g, Steps *to)
{
	static const DType elem[] = {
	    TY_I32, TY_I32, TY_U32, TY_I64, TY_U64, TY_F32, TY_F64, TY_F16, TY_BF16};
	static const char *const ops[] = {"add", "min", "max", "and", "or", "xor"};
	static const char *const order[] = {
	    "", "", ", order = relaxed", ", scope = cta", ", order = release"};
	DType t = elem[pick(g, LEN(elem))];
	Param *p = find_param(g, USE_ATOMIC, t, 1, 2);
	if (!p && g->s->params.n >= MOST_PARAMS)
		return;
	if (!p) {
		p = param_add(g, USE_ATOMIC, t, "h");
		p->rank = 1 + pick(g, 2);
		p->op = ops[!dtype_is_float(t)            ? pick(g, 6)
			    : t == TY_F16 || t == TY_BF16 ? 1 + pick(g, 2)
							  : pick(g, 3)];
		p->decl = arena_printf(g->s->mem, "%s: out %s[%d%s] = %d", p->name,
		    dtype_info[t].text, 1 + pick(g, 40), p->rank > 1 ? ", 3" : "", chance(g, 70) ? 0 : 5);
	}
	if (chance(g, 25)) { /* on a part, which may lie outside */
		Form part = {.elem = t, .rank = 1, .extent = {extent_named(g)}};
		Term *v = term_make(g, part, true, 2);
		if (dtype_is_float(t))
			v = term_fit(g, v, strcmp(p->op, "add") == 0 ? 2 : 1000, strcmp(p->op, "add") == 0 ? 0 : FRAC_ANY);
		step2(g, to, term_fit(g, term_scalar(g, TY_I32, 2), 20, 0), v, "atomic_%s(%s[$0 +: #%d#%s], $1)", p->op, p->name,
		    part.extent[0], p->rank > 1 ? ", 1" : "");
		return;
	}
	Form f = pick_form(g, TY_I32, 0, 2);
	Term *kid[3];
	for (int d = 0; d < p->rank; d++)
		kid[d] = term_fit(g, term_make(g, f, true, 2), 20, 0);
	Term *v = term_make(g, form_elem(f, t), true, 2);
	if (dtype_is_float(t))
		v = term_fit(g, v, strcmp(p->op, "add") == 0 ? 2 : 1000,
		    strcmp(p->op, "add") == 0 ? 0 : FRAC_ANY);
	kid[p->rank] = v;
	const char *scope = order[pick(g, LEN(order))];
	if (strstr(scope, "cta"))
		scope = ""; /* programs are apart */
	step_add(g, to, kid, p->rank + 1, "atomic_%s(%s[$0%s], $%d%s)", p->op, p->name,
	    p->rank > 1 ? ", $1" : "", p->rank, scope);
}

/* On elements of this program's part only, each once: then the old values are known. */
static void
exchange_own(Maker *g, Steps *to)
{
	static const char *const ops[] = {"add", "min", "max", "xor", "exchange", "cas"};
	static const DType elem[] = {TY_I32, TY_I64, TY_U32};
	DType t = elem[pick(g, LEN(elem))];
	Param *p = find_param(g, USE_OWN, t, 1, 1);
	int op = pick(g, LEN(ops));
	for (int tries = 0; !p && tries < 6 && g->s->params.n < MOST_PARAMS; tries++) {
		p = output_make(g, USE_OWN, t);
		if (p->form.rank == 1)
			break;
		g->s->params.n--;
		p = NULL;
	}
	if (!p)
		return;
	Form f = p->form;
	const char *index = "", *name = new_name(g, "v");
	for (int d = 0; d < p->rank; d++)
		index = arena_printf(
		    g->s->mem, "%s%s%s", index, d ? ", " : "", p->fixed[d] ? p->fixed[d] : "$0");
	Term *kid[3];
	kid[0] = make_distinct(g, f.extent[0]);
	kid[1] = term_make(g, f, true, 2);
	kid[2] = term_make(g, f, true, 2);
	step_add(g, to, kid, op == 5 ? 3 : 2, "let %s = atomic_%s(%s[%s], $1%s%s)", name, ops[op],
	    p->name, index, op == 5 ? ", $2" : "", chance(g, 20) ? ", scope = cta" : "");
	name_push(g, name, f, range_of_type(t), false);
}

static void
store_pointer(Maker *g, Steps *to)
{
	DType t = pick_elem(g);
	Param *p = find_param(g, USE_STORE, t, 0, 0);
	const char *base = "0";
	if (!p && g->s->params.n >= MOST_PARAMS)
		return;
	if (!p) {
		p = param_add(g, USE_STORE, t, "q");
		p->length = 1 + pick(g, 60);
		p->decl = arena_printf(g->s->mem, "%s: *mut %s", p->name, dtype_info[t].text);
	}
	for (int i = 0; i < g->s->naxis; i++)
		base = arena_printf(
		    g->s->mem, "(%s * num_programs(%d) + %s)", base, i, g->s->axis[i].name);
	Form f = {.elem = t, .rank = 1, .extent = {extent_named(g)}};
	Term *v = term_make(g, f, true, 3), *mask = term_make(g, form_elem(f, TY_BOOL), true, 1);
	step2(g, to, v, mask,
	    "store(%s + %s * %d + arange(0, #%d#), $0, (arange(0, #%d#) < %d) & $1%s)", p->name, base,
	    p->length, f.extent[0], f.extent[0], p->length, chance(g, 20) ? ", cache_modifier = wt" : "");
}

void
step_memory(Maker *g, Steps *to)
{
	switch (pick(g, 8)) {
	case 0:
	case 1:
	case 2: write_own(g, to); break;
	case 3:
	case 4: add_atomic(g, to); break;
	case 5: exchange_own(g, to); break;
	default: store_pointer(g, to); break;
	}
}

/* ---- the end ---- */

void
step_keep(Maker *g, Steps *to, const Named *v)
{
	const char *dims = "", *index = "";
	if (v->form.rank + g->s->naxis > FORM_RANK || v->form.rank + g->s->naxis == 0 || g->s->params.n >= MOST_KEPT)
		return;
	for (int i = 0; i < g->s->naxis; i++) {
		dims = arena_printf(g->s->mem, "%s%s%s", dims, *dims ? ", " : "", g->s->axis[i].count);
		index = arena_printf(g->s->mem, "%s%s%s", index, *index ? ", " : "", g->s->axis[i].name);
	}
	for (int d = 0; d < v->form.rank; d++) {
		dims = arena_printf(g->s->mem, "%s%s#%d#", dims, *dims ? ", " : "", v->form.extent[d]);
		index = arena_printf(g->s->mem, "%s%s:", index, *index ? ", " : "");
	}
	Param *p = param_add(g, USE_BLOCK, v->form.elem, "y");
	p->decl = arena_printf(g->s->mem, "%s: out %s[%s]", p->name, dtype_info[p->elem].text, dims);
	p->err = v->range.err;
	step1(g, to, term0(g, v->form, v->range, "%s", v->name), "%s[%s] = $0", p->name, index);
}

void
step_outputs(Maker *g, Steps *to)
{
	static const DType packed[] = {TY_I4, TY_U4, TY_F4E2M1};
	bool made = false;
	for (int n = 1 + pick(g, 3); n > 0 || (!made && n > -9); n--) {
		Param *p = output_make(
		    g, USE_BLOCK, chance(g, 5) ? packed[pick(g, LEN(packed))] : pick_elem(g));
		const char *index = "";
		bool exact = !dtype_is_float(p->elem) || chance(g, 60);
		if (!form_fits(g, p->form)) {
			g->s->params.n--;
			continue;
		}
		for (int d = 0; d < p->rank; d++)
			index = arena_printf(g->s->mem, "%s%s%s", index, d ? ", " : "",
			    p->fixed[d] ? p->fixed[d] : ":");
		Term *v = make_stored(g, p->form, exact, 4);
		p->err = range_cast(v->form.elem, p->elem, v->range).err;
		step1(g, to, v, "%s[%s] = $0", p->name, index);
		made = true;
	}
}
