/* What a line computes in f64: what the text asks for, and a division's few elements that f32 is not enough for; products
 * and sums that are two instructions. */
#include "tool/report/explain/explain.h"

static const char *const product[] = {"mul"}, *const sum[] = {"add", "sub"};

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

/* Products beside sums in PTX, which one instruction could be. */
static int
pairs(const Explain *s, int line)
{
	return MIN(explain_count_code(s, line, product, LEN(product), ".f64"),
	    explain_count_code(s, line, sum, LEN(sum), ".f64"));
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
	if (has_own(s, line) && pairs(s, line))
		explain_add(s, &all,
		    arena_printf(s->mem,
			"as values are; %d products and %d sums are two instructions, since the compiler makes one of "
			"both in f32 alone: fma(x, y, z) is one",
			explain_count_code(s, line, product, LEN(product), ".f64"),
			explain_count_code(s, line, sum, LEN(sum), ".f64")));
	return explain_join(s, &all, ", ");
}

void
explain_double_suggestions(const Explain *s, Suggestions *all)
{
	static const double LITTLE = .1; /* of instructions */
	SpentLines spent = explain_lines_by(s, BILL_ISSUE);
	TextList lines = {0};
	double less = 0;
	for (int i = 0; i < spent.n; i++) {
		int line = spent.at[i]->line, n = has_own(s, line) ? pairs(s, line) : 0,
		    of = explain_count_code(s, line, NULL, 0, NULL);
		if (n == 0)
			continue;
		less += MIN((double)n / of, .5) * explain_spent_us(s, spent.at[i], BILL_ISSUE);
		explain_add(s, &lines, arena_printf(s->mem, "%d", line));
	}
	if (less > LITTLE * explain_part(s, BILL_ISSUE))
		explain_suggest(s, all, explain_with(s, BILL_ISSUE, less), BILL_ISSUE,
		    arena_printf(s->mem,
			"fma for a product and its sum in %s, which is rounded once: in f64 the compiler leaves the two "
			"as instructions of their own",
			explain_line_list(s, &lines)));
}
