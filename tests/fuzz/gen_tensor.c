/* Statements about tensors: views, scratch, atomics through pointers and on parts, hints, what is printed and
 * asserted. */
#include "gen_tgl.h"

#include <string.h>

/* ---- views ---- */

/* A tensor by another name, its dimensions in another order: read like others from here on. */
static void
make_view(Maker *g, Steps *to)
{
	const Param *found = NULL;
	int n = 0, order[FORM_RANK];
	const char *list = "";
	for (int i = 0; i < g->s->params.n; i++) {
		const Param *p = g->s->params.at[i];
		if (p->use == USE_READ && p->rank > 1 && !dtype_is_packed(p->elem) && pick(g, ++n) == 0)
			found = p;
	}
	if (!found || g->nesting || g->s->params.n >= MOST_PARAMS)
		return;
	const Param whole = *found;
	Param *v = param_add(g, USE_READ, whole.elem, "t");
	const char *name = v->name;
	*v = whole;
	v->name = name;
	v->decl = v->init = NULL;
	for (int d = 0; d < v->rank; d++) {
		int j = pick(g, d + 1);
		order[d] = order[j];
		order[j] = d;
	}
	for (int d = 0; d < v->rank; d++) {
		v->extent[d] = whole.extent[order[d]];
		list = arena_printf(g->s->mem, "%s%s%d", list, d ? ", " : "", order[d]);
	}
	if (v->rank == 2 && order[0] == 1 && chance(g, 60))
		step0(g, to, "let %s = %s.T", name, whole.name);
	else
		step0(g, to, "let %s = permute(%s, [%s])", name, whole.name, list);
	if (chance(g, 40))
		make_view(g, to);
}

/* ---- scratch ---- */

/* A tile that goes through memory of the program's own, and is read in another order. */
static void
make_scratch(Maker *g, Steps *to)
{
	Form f = pick_form(g, pick_elem(g), 1, 2);
	const char *dims = "", *at = "", *name = new_name(g, "v");
	if (f.rank + g->s->naxis > FORM_RANK || g->s->params.n >= MOST_PARAMS)
		return;
	for (int i = 0; i < g->s->naxis; i++) {
		dims = arena_printf(g->s->mem, "%s%s * 1, ", dims, g->s->axis[i].count);
		at = arena_printf(g->s->mem, "%s%s, ", at, g->s->axis[i].name);
	}
	Param *p = param_add(g, USE_SCRATCH, f.elem, "s");
	const char *shape = form_shape(g, f);
	p->name = new_name(g, "scratch");
	p->decl = arena_printf(g->s->mem, "%s: scratch %s[%s%s", p->name, dtype_info[f.elem].text, dims, shape + 1);
	Term *t = term_make(g, f, true, 3);
	step1(g, to, t, "%s[%s:%s] = $0", p->name, at, f.rank > 1 ? ", :" : "")->fixed = true;
	Form read = f;
	if (f.rank == 2 && chance(g, 50)) {
		read.extent[0] = f.extent[1];
		read.extent[1] = f.extent[0];
		step0(g, to, "let %s = %s[%s:, :].T", name, p->name, at);
	} else {
		step0(g, to, "let %s = %s[%s:%s]", name, p->name, at, f.rank > 1 ? ", :" : "");
	}
	name_push(g, name, read, t->range, false);
}

/* ---- atomics ---- */

/* Memory behind a pointer in which all programs count. */
static void
count_pointer(Maker *g, Steps *to)
{
	static const DType elem[] = {TY_I32, TY_U32, TY_I64, TY_U64, TY_F32, TY_F64};
	static const char *const ops[] = {"add", "max", "min", "xor", "or", "and"};
	static const char *const how[] = {"", ", order = relaxed", ", order = acquire", ", order = acq_rel, scope = gpu",
	    ", scope = sys", ", order = release"};
	DType t = elem[pick(g, LEN(elem))];
	Param *p = find_param(g, USE_COUNT, t, 0, 0);
	if (!p && g->s->params.n >= MOST_PARAMS)
		return;
	if (!p) {
		p = param_add(g, USE_COUNT, t, "q");
		p->length = 1 + pick(g, 40);
		p->op = ops[pick(g, dtype_is_float(t) ? 3 : LEN(ops))];
		p->decl = arena_printf(g->s->mem, "%s: *mut %s", p->name, dtype_info[t].text);
		p->init = arena_printf(g->s->mem, "%s = zeros([%d], %s);", p->name, p->length, dtype_info[t].text);
	}
	Form f = pick_form(g, TY_I32, 0, 2);
	Term *at = term_make(g, f, true, 2), *v = term_make(g, form_elem(f, t), true, 2),
	     *mask = term_make(g, form_elem(f, TY_BOOL), true, 1);
	if (dtype_is_float(t))
		v = term_fit(g, v, 2, 0);
	step_add(g, to, (Term *[]){at, v, mask}, 3, "atomic_%s(%s + $0, $1, ($0 >= 0) & ($0 < %d) & $2%s)", p->op, p->name,
	    p->length, how[pick(g, LEN(how))]);
}

/* ---- hints, lines and claims ---- */

static void
make_hint(Maker *g, Steps *to)
{
	Form f = pick_form(g, pick_elem(g), 0, 2);
	Term *t = chance(g, 60) ? rule_read(g, f, true, 1) : rule_load(g, f, true, 1);
	const char *text = t ? t->text : "";
	if (strchr("xt", *text) && *text) { /* an element that can be written, not a read with `else` */
		step_add(g, to, t->kid, t->nkid, "prefetch(%s)", text);
		return;
	}
	const Param *p = find_param(g, USE_LOAD, f.elem, 0, 0);
	if (p)
		step1(g, to, term_make(g, form_elem(f, TY_I32), true, 1), "prefetch(%s + clamp($0, 0, %d))", p->name, p->length - 1);
}

/* Scalars, as a GPU can print them. */
static void
make_print(Maker *g, Steps *to)
{
	static const DType elem[] = {TY_I32, TY_I64, TY_U8, TY_I16, TY_BOOL, TY_F32, TY_F16, TY_F64, TY_U64};
	Form f = {.elem = elem[pick(g, LEN(elem))]};
	Term *t = term_make(g, f, true, 3);
	if (dtype_is_float(f.elem)) { /* as many digits on each device; the sign of a zero is not defined */
		t = term_fit(g, t, 999, 0);
		t = term1(g, f, t->range, t, "abs($0)");
	}
	if (chance(g, 50))
		step1(g, to, t, "print(\"value\", $0)");
	else
		step2(g, to, t, term_scalar(g, TY_I32, 2), "print(\"%s\", $0, $1)", chance(g, 50) ? "two values" : "");
}

static void
make_claim(Maker *g, Steps *to)
{
	Form f = pick_form(g, TY_I32, 1, 2);
	if (chance(g, 30)) {
		step0(g, to, "static_assert(#%d# > 0, \"an extent\")", extent_named(g));
		return;
	}
	Term *t = term_fit(g, term_make(g, f, true, 2), 9, 0);
	if (chance(g, 50))
		step1(g, to, t, "assert(all($0 < 100), \"too much\")");
	else
		step2(g, to, t, term_scalar(g, TY_I32, 1), "assert($0 < 100, \"too much\", $1, $0)");
}

void
step_tensor(Maker *g, Steps *to)
{
	switch (pick(g, 10)) {
	case 0:
	case 9:
	case 1: make_view(g, to); break;
	case 2:
	case 3: make_scratch(g, to); break;
	case 4:
	case 5: count_pointer(g, to); break;
	case 6: make_hint(g, to); break;
	case 7: make_print(g, to); break;
	default: make_claim(g, to); break;
	}
}
