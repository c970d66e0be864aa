/* Tables that are read by an index: constant arrays above the kernel.
 *
 *     constant float dequant_table[16] = {-1.0f, -0.696f, …};        …  dequant_table[q & 15u]
 */
#include "emit/msl/msl.h"

#include "num/num.h"

#include <string.h>

static const MslTable *
table_of(const Msl *m, const ThreadNode *n)
{
	for (int i = 0; i < m->tables.n; i++) {
		const MslTable *at = &m->tables.at[i];
		if (at->n == n->nimm && at->type == n->type &&
		    memcmp(at->bits, n->imm, sizeof *n->imm * (size_t)n->nimm) == 0)
			return at;
	}
	return NULL;
}

void
msl_table_name(Msl *m, const ThreadNode *n)
{
	const char *name = arena_printf(m->mem, "%s_table", m->made->kernel.name);
	if (!table_of(m, n))
		vec_push(m->mem, &m->tables, ((MslTable){msl_fresh(m, name), n->type, n->imm, n->nimm}));
}

Expr
msl_lookup_expr(Msl *m, const MslNode *n)
{
	const char *text = arena_printf(m->mem, "%s[%s]", table_of(m, n->t)->name, msl_expr(m, n->in, 1).text);
	return (Expr){text, P_NAME, 1, c_plain(n->type), false, 0};
}

/* An element as C writes it. */
static const char *
element_text(Msl *m, RegType t, int64_t bits)
{
	static const DType of[REG_TYPES] = {[REG_F16] = TY_F16, [REG_BF16] = TY_BF16, [REG_F32] = TY_F32};
	ThreadNode n = {.kind = NODE_CONST, .type = t, .i = bits};
	if (thread_is_float(t))
		n.f = dtype_load_f64(of[t], &bits, 0);
	return msl_as(m, msl_literal(m, &n), c_plain(t), 1).text;
}

void
msl_tables_text(Msl *m, Text *out)
{
	for (int i = 0; i < m->tables.n && m->errors->nerrors == 0; i++) {
		const MslTable *t = &m->tables.at[i];
		text_printf(out, "constant %s %s[%d] = {", c_text[c_plain(t->type)], t->name, t->n);
		for (int k = 0; k < t->n; k++)
			text_printf(out, "%s%s", k == 0 ? "" : k % 8 ? ", " : ",\n    ",
			    element_text(m, t->type, t->bits[k]));
		text_put(out, "};\n");
	}
	if (m->tables.n)
		text_put(out, "\n");
}
