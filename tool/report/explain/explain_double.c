/* What a line computes in f64: what the text asks for, and a division's few elements that f32 is not enough for. */
#include "tool/report/explain/explain.h"

/* Has the line values of f64, by its text? */
static bool
has_own(const Explain *s, int line)
{
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body)) {
		bool any = op->place.line == line && op->place.file == s->x->f->place.file;
		if (any && (ANY_OF(i, op->nin, op->in[i]->type->elem == TY_F64) ||
			       ANY_OF(i, op->nout, op->out[i].type->elem == TY_F64)))
			return true;
	}
	return false;
}

const char *
explain_doubles(const Explain *s, int line)
{
	static const char *const name[] = {
	    "add", "sub", "mul", "fma", "cvt", "max", "min", "setp", "sqrt", "div", "rcp"},
		*const divide[] = {"div", "rcp"};
	int n = explain_count_code(s, line, name, LEN(name), ".f64"),
	    divides = explain_count_code(s, line, divide, LEN(divide), ".f64");
	bool divided = ANY_OP(op, s->x->f->body,
	    op->kind == OP_DIV && op->place.line == line && op->place.file == s->x->f->place.file);
	TextList all = {0};
	if (!n)
		return "";
	explain_add(s, &all, arena_printf(s->mem, "%d of its instructions in PTX are of f64", n));
	if (divides)
		explain_add(s, &all,
		    arena_printf(s->mem, "%d of them divisions or inverses, each a routine of its own", divides));
	if (!has_own(s, line) && divided && divides)
		explain_add(s, &all,
		    "though no value is: an f32 division by one number for several elements takes them, where that number "
		    "is outside of 2^-100 to 2^100, behind a branch that others pass by; fast::div has neither");
	if (has_own(s, line))
		explain_add(s, &all, "as values are");
	return explain_join(s, &all, ", ");
}
