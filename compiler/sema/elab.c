/* Opens an elaboration: a module, what is predeclared, the file's constants and functions, and the values
 * that the header gave.  The builder starts in a detached block, so that whatever a constant's expression
 * makes on its way has somewhere to be. */
#include "sema/elab.h"

#include <math.h>

/* Words that an operation's argument may be; each stands for its own text unless something else has the name. */
static const char *const words[] = {
	"ieee", "tf32", "tf32x3", "fast", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys",
	"ca", "cg", "cs", "cv", "wb", "wt", "evict_first", "evict_last", "evict_normal", "no_allocate",
};

const char *
elab_word(Compile *cx, int i, Val *out)
{
	const struct {
		const char *name;
		Val v;
	} value[] = {
		{"true", val_bool(NOWHERE, true)}, {"false", val_bool(NOWHERE, false)},
		{"inf", val_float(NOWHERE, INFINITY)}, {"nan", val_float(NOWHERE, NAN)},
		{"pi", val_float(NOWHERE, 3.14159265358979323846)},
	};
	int values = i - DTYPE_COUNT, word = values - LEN(value);

	if (word >= LEN(words))
		return NULL;
	if (word >= 0) {
		*out = (Val){.kind = VAL_TEXT, .place = NOWHERE, .text = words[word]};
		return intern(cx->names, words[word]);
	}
	if (values >= 0) {
		*out = value[values].v;
		return intern(cx->names, value[values].name);
	}
	*out = (Val){.kind = VAL_DTYPE, .place = NOWHERE, .dtype = (DType)i};
	return intern(cx->names, dtype_info[i].text);
}

static void
declare_consts(Elab *e, const NamedConst *c, int n, const char *what)
{
	for (int i = 0; i < n; i++)
		if (c[i].value.kind != CONST_NONE)
			scope_add(e, c[i].name, c[i].place, val_of_const(c[i].place, &c[i].value), false)->what = what;
}

bool
elab_fast(const Elab *e, bool said)
{
	const Place *at = &e->b.place, *fast = e->program->fast;
	return !e->whole && (said || ANY_OF(i, e->program->nfast,
	    fast[i].file == at->file && fast[i].line == at->line && fast[i].col == at->col));
}

Elab *
elab_open(Program *p, Kernel *k, const Bound *b, const char *target, bool whole)
{
	Elab *e = NEW(p->cx->mem, Elab);

	e->cx = p->cx;
	e->program = p;
	e->kernel = k;
	e->bound = b;
	e->m = module_open(p->cx);
	e->target = intern(p->cx->names, target);
	e->whole = whole;
	e->stmt = NEW(p->cx->mem, StmtState);
	Func *scratch = func_make(e->m, "", NULL, NULL, 0);
	e->m->funcs.n = 0;
	e->b = (Builder){.m = e->m, .block = scratch->body, .place = k ? k->item->place : NOWHERE};
	p->cx->muted++;                                 /* program_open reported items with one name */
	scope_push_words(e, p->names);
	scope_add(e, intern(p->cx->names, "target"), NOWHERE,
	    (Val){.kind = VAL_TEXT, .place = NOWHERE, .text = e->target}, false);
	e->stmt->file = scope_push_items(e, p->names);
	scope_push(e);
	if (b && whole)
		declare_consts(e, b->symbol, b->nsymbol, "a dimension");
	if (b)
		declare_consts(e, b->ct, b->nct, "a compile-time parameter");
	p->cx->muted--;
	Frame *f = NEW(p->cx->mem, Frame);
	f->tail = true;
	f->base = e->scope;
	e->stmt->frame = f;
	return e;
}
