/* Tiles of which rows lie outside of the tensor, of products with weights that warpgroups decode.
 *
 * Tensor maps take long for such rows, and products as long as for others: 33 x 8192 x 8192 in int4 takes 39.6 us on an
 * H200 in a tile of 64 rows, 22.4 in one of 40; 50 rows 25.9 in one of 64 and 25.0 in one of 56; 100 rows 46.0 in one of
 * 128 and 30.0 in one of 104. */
#include "compile/choose/choose.h"
#include "compile/compile.h"

#include <string.h>

enum { ROWS_LEAST = 17, ROWS_STEP = 8 };

typedef struct Trim {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	const NamedConst *value;
	int n;
} Trim;

/* By all passes, or by those of opt; NULL: the header refuses the values, or they do not compile. */
static Module *
built(const Trim *x, const PassOptions *opt)
{
	Bound b;
	if (!x->how->bind(x->how->user, x->value, x->n, &b))
		return NULL;
	ArgAssumptions a = assumptions_of_sizes(x->k->program->cx->mem, &b);
	return compile_kernel(x->k, &b, x->t->name, &a, opt);
}

static bool
has_warpgroups(const Trim *x)
{
	const Module *m = built(x, NULL);
	return m && block_find(m->funcs.at[0]->body, OP_DOT_START);
}

static bool
decodes(const Trim *x)
{
	const PassOptions opt = {.only = CHOOSE_PASSES};
	const Module *m = built(x, &opt);
	return m && choose_decodes(m->funcs.at[0]);
}

void
choose_trim(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, NamedConst *values, int n)
{
	Compile *cx = k->program->cx;
	Arena *keep = cx->mem, *mem = arena_open();
	Program before = *k->program;                   /* `called` grows in that memory */
	Trim x = {k, t, how, values, n};
	cx->mem = mem;
	for (int i = 0; i < n; i++) {
		int64_t *tile = &values[i].value.i, was = *tile, rows = choose_divided(k, b, values[i].name);
		if (rows < ROWS_LEAST || was - rows < ROWS_STEP || !decodes(&x) || !has_warpgroups(&x))
			continue;
		*tile = (rows + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP;
		*tile = has_warpgroups(&x) ? *tile : was;
	}
	cx->mem = keep;
	k->program->called = before.called;
	arena_close(mem);
}
