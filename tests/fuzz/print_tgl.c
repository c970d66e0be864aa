/* Prints a Source as a .tgl file.  Parameters, extents, sizes and helpers that nothing mentions are
 * left out, so that the shrinker need only make statements and terms disappear. */
#include "gen_tgl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void
print_extent(const Source *s, int id, Text *out)
{
	const Extent *x = &s->extent[id];
	if (x->kind == EXTENT_NUMBER) {
		text_printf(out, "%d", x->value);
	} else if (x->kind == EXTENT_NAMED) {
		text_printf(out, "E%d", x->a);
	} else {
		text_put(out, "(");
		print_extent(s, x->a, out);
		text_put(out, x->kind == EXTENT_SUM ? " + " : " * ");
		print_extent(s, x->b, out);
		text_put(out, ")");
	}
}

static void
print_filled(const Source *s, const char *text, Term *const *kid, Text *out)
{
	for (const char *p = text; *p; p++) {
		if (*p == '#') {
			char *end;
			print_extent(s, (int)strtol(p + 1, &end, 10), out);
			p = end;
		} else if (*p == '$') {
			const Term *k = kid[*++p - '0'];
			print_filled(s, k->text, k->kid, out);
		} else {
			text_putn(out, p, 1);
		}
	}
}

static void
print_steps(const Source *s, const Steps *list, int indent, Text *out)
{
	for (int i = 0; i < list->n; i++) {
		const Step *step = list->at[i];
		text_printf(out, "%*s", indent * 4, "");
		print_filled(s, step->text, step->kid, out);
		if (!step->has_body) {
			text_put(out, ";\n");
			continue;
		}
		text_put(out, " {\n");
		print_steps(s, &step->body, indent + 1, out);
		if (step->has_else) {
			text_printf(out, "%*s} ", indent * 4, "");
			if (step->part)
				text_printf(out, "merge (%s) {\n", step->part);
			else
				text_put(out, "else {\n");
			print_steps(s, &step->orelse, indent + 1, out);
		}
		text_printf(out, "%*s}\n", indent * 4, "");
	}
}

static bool
mentions(const char *text, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = text; p && (p = strstr(p, name)); p += n) {
		bool begins = p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
		if (begins && !(isalnum((unsigned char)p[n]) || p[n] == '_'))
			return true;
	}
	return false;
}

int
axis_count(const Source *s, const Axis *a)
{
	int size = a->size >= 0 ? s->size[a->size] : a->number;
	int by = a->extent >= 0 ? extent_value(s, a->extent) : 1;
	return (size + by - 1) / by;
}

static void
print_helpers(const Source *s, const char *body, Text *out)
{
	for (int i = s->helpers.n - 1; i >= 0; i--) { /* they call those before them */
		const Helper *h = s->helpers.at[i];
		if (!mentions(body, h->name) && !mentions(out->at, h->name))
			continue;
		text_printf(out, "fn %s(a, b%s", h->name, h->body ? ", const c = 2, d = 1) {\n" : ") => ");
		if (h->body) { /* results by name, which the body speaks of */
			for (int r = 0; r < MIN(h->nresult, 2); r++) {
				text_printf(out, "    let r%d = ", r);
				print_filled(s, h->result[r]->text, h->result[r]->kid, out);
				text_put(out, ";\n");
			}
			text_printf(out, "%s}\n", h->body);
			continue;
		}
		text_put(out, h->nresult > 1 ? "(" : "");
		for (int r = 0; r < h->nresult; r++) {
			text_put(out, r ? ", " : "");
			print_filled(s, h->result[r]->text, h->result[r]->kid, out);
		}
		text_printf(out, "%s;\n", h->nresult > 1 ? ")" : "");
	}
	static const char *const fixed[][2] = {{"greater", "fn greater(a, b) => max(a, b);\n"},
	    {"later", "fn later(a, i, b, j) => (a >= b ? a : b, a >= b ? i : j);\n"}};
	for (int i = 0; i < LEN(fixed); i++)
		if (mentions(body, fixed[i][0]))
			text_put(out, fixed[i][1]);
}

/* Does a grid of N<i> need a tensor that says what it is? */
static bool
needs_tensor(const Source *s, int i, const char *params)
{
	char first[16], other[16];
	bool asked = false;
	for (int a = 0; a < s->naxis; a++)
		asked |= s->axis[a].size == i;
	for (int e = 0; e < s->nextent; e++)
		asked |= s->extent[e].kind == EXTENT_NAMED && s->extent[e].b == i;
	snprintf(first, sizeof first, "[N%d", i);
	snprintf(other, sizeof other, ", N%d", i);
	for (const char *p = params; asked && *p; p++)
		if ((strncmp(p, first, 3) == 0 && strchr(",]", p[3])) ||
		    (strncmp(p, other, 4) == 0 && strchr(",]", p[4])))
			return false;
	return asked;
}

static void
print_params(const Source *s, const char *body, Text *out)
{
	const char *comma = "";
	for (int i = 0; i < s->params.n; i++) {
		if (!s->params.at[i]->decl || !mentions(body, s->params.at[i]->name))
			continue;
		text_put(out, comma);
		print_filled(s, s->params.at[i]->decl, NULL, out);
		comma = ", ";
	}
	for (int i = 0; i < MAX_SIZES; i++)
		if (needs_tensor(s, i, out->at ? out->at : ""))
			text_printf(out, "%ss%d: in u8[N%d]", out->n ? ", " : "", i, i);
	if (!out->n)
		text_put(out, "nothing: i32");
}

static void
print_grid(const Source *s, Text *out)
{
	if (s->naxis == 0)
		return;
	text_put(out, "    grid(");
	for (int i = 0; i < s->naxis; i++) {
		text_printf(out, "%s%s: ", i ? ", " : "", s->axis[i].name);
		print_filled(s, s->axis[i].count, NULL, out);
	}
	text_put(out, ")\n");
}

static void
print_example(const Source *s, const char *above, const char *body, Text *out)
{
	int64_t programs = 1;
	for (int i = 0; i < s->naxis; i++)
		programs *= axis_count(s, &s->axis[i]);
	text_put(out, "example k {\n");
	for (int i = 0; i < MAX_SIZES; i++) {
		char name[16];
		snprintf(name, sizeof name, "N%d", i);
		if (mentions(above, name))
			text_printf(out, "    %s = %d;\n", name, s->size[i]);
	}
	for (int i = 0; i < MAX_SIZES; i++) {
		char name[16];
		snprintf(name, sizeof name, "s%d", i);
		if (mentions(above, name))
			text_printf(out, "    %s = zeros;\n", name);
	}
	if (mentions(above, "nothing"))
		text_put(out, "    nothing = 0;\n");
	for (int i = 0; i < s->params.n; i++) {
		const Param *p = s->params.at[i];
		if (!mentions(body, p->name))
			continue;
		text_put(out, p->init || p->use == USE_STORE ? "    " : "");
		if (p->use == USE_STORE)
			text_printf(out, "%s = full([%lld], 3, %s);\n", p->name,
			    (long long)(programs * p->length), dtype_info[p->elem].text);
		else if (p->init)
			text_printf(out, "%s\n", p->init);
	}
	text_put(out, "}\n");
}

/* Names are looked for in what was printed before: the body first, then the header. */
void
source_print(const Source *s, Text *out)
{
	Text body = {0}, head = {0}, fns = {0};
	print_steps(s, &s->body, 1, &body);
	text_put(&body, "");
	print_params(s, body.at, &head);
	text_put(&head, ")\n");
	print_grid(s, &head);
	for (int i = 0; i < 2; i++) {
		const char *clause = i ? s->where : s->tune;
		text_put(&head, clause ? "    " : "");
		print_filled(s, clause ? clause : "", NULL, &head);
		text_put(&head, clause ? "\n" : "");
	}
	text_printf(&head, "{\n%s}\n", body.at);
	print_helpers(s, body.at, &fns);
	const char *comma = "<";
	for (int i = 0; i < s->params.n; i++)
		if (s->params.at[i]->err > 0 && mentions(body.at, s->params.at[i]->name))
			text_printf(
			    out, "// bound %s %.3g\n", s->params.at[i]->name, s->params.at[i]->err);
	for (int i = 0; i < s->nextent; i++) {
		char name[16];
		snprintf(name, sizeof name, "E%d", s->extent[i].a);
		if (s->extent[i].kind == EXTENT_NAMED && s->extent[i].is_const &&
		    mentions(head.at, name))
			text_printf(out, "const %s = %d;\n", name, s->extent[i].value);
	}
	text_printf(out, "%skernel k", fns.at ? fns.at : "");
	for (int i = 0; i < s->nextent; i++) {
		char name[16];
		snprintf(name, sizeof name, "E%d", s->extent[i].a);
		if (s->extent[i].kind != EXTENT_NAMED || s->extent[i].is_const ||
		    !mentions(head.at, name))
			continue;
		if (s->extent[i].b >= 0)
			text_printf(out, "%s%s = pow2ceil(N%d)", comma, name, s->extent[i].b);
		else
			text_printf(out, "%s%s = %d", comma, name, s->extent[i].value);
		comma = ", ";
	}
	for (int i = 0; i < s->heads.n; i++)
		if (mentions(head.at, s->heads.at[i].name)) {
			text_printf(out, "%s%s", comma, s->heads.at[i].decl);
			comma = ", ";
		}
	text_printf(out, "%s(%s", *comma == ',' ? ">" : "", head.at);
	print_example(s, head.at, body.at, out);
	text_close(&body);
	text_close(&head);
	text_close(&fns);
}
