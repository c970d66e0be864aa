/* Builds a random kernel through the builder, so that only well-typed IR can come out.
 *
 * Values in sight are kept in a list; each step picks an op family and operands from the list, making
 * constants where no value fits.  Tiles stay small.  At the end some values are written to the output
 * tensors, so that what was computed matters.  Floats are never looked at as bits (the sign and
 * payload of a NaN are free) and loads and stores through pointers are wrapped into their buffers. */
#include "gen_value.h"

DType
gen_tensor_type(int i)
{
	static const DType type[GEN_TENSORS] = {TY_F32, TY_I32, TY_F16, TY_F32, TY_I64, TY_U8};

	return type[i];
}

Access
gen_tensor_access(int i)
{
	static const Access access[GEN_TENSORS] = {ACCESS_IN, ACCESS_IN, ACCESS_INOUT, ACCESS_OUT, ACCESS_OUT,
	    ACCESS_INOUT};

	return access[i];
}

/* Operands and attributes of an access to tensor i; returns the tile's type. */
static const Type *
access(Gen *g, int i, Value **in, Attr *attr)
{
	Value *tensor = &g->f->body->arg[i];
	int64_t extents[2];
	char index[3] = "";
	int n = 0;

	in[0] = tensor;
	for (int d = 0; d < 2; d++) {
		int what = gen_pick(g, 4);
		index[d] = what == 1 ? 'i' : 'p';
		if (what != 1)
			extents[n++] = 1 + gen_pick(g, 8);
		in[1 + d] = gen_pick(g, 2) ? gen_of_type(g, type_scalar(g->m, TY_I64)) : gen_scalar_int(g, gen_pick(g, 10) - 3);
	}
	if (gen_pick(g, 6) == 1) {
		index[0] = 'g';
		in[1] = gen_as(g, gen_any(g), TY_I32);
		if (in[1]->type->rank == 0 || in[1]->type->rank > 2)
			in[1] = gen_constant(g, type_tile(g->m, TY_I32, 1, (int64_t[]){3}));
		n = index[1] == 'p';
		extents[0] = 2;
	}
	attr[0] = attr_new_index(g->m, index);
	attr[1] = attr_new_extents(g->m, extents, n);
	int64_t shape[MAX_RANK];
	int rank = 0;
	if (index[0] == 'g')
		for (int d = 0; d < in[1]->type->rank; d++)
			shape[rank++] = in[1]->type->extent[d];
	for (int d = 0; d < n; d++)
		shape[rank++] = extents[d];
	return type_tile(g->m, tensor->type->elem, rank, shape);
}

static void
read_tensor(Gen *g)
{
	Value *in[4];
	Attr attr[2];
	int i = gen_pick(g, GEN_TENSORS);
	const Type *t = access(g, i, in, attr);
	int fill = gen_pick(g, 3);

	if (type_count(t) > MAX_TILE)
		return;
	if (fill)
		in[3] = gen_of_type(g, fill == 1 ? t : type_scalar(g->m, t->elem));
	gen_op1(g, OP_READ, in, 3 + (fill > 0), attr, 2, NULL);
}

static void
write_tensor(Gen *g)
{
	Value *in[5];
	Attr attr[3];
	int i = gen_pick(g, GEN_TENSORS);

	if (gen_tensor_access(i) == ACCESS_IN)
		i = 3;
	const Type *t = access(g, i, in, attr);
	if (type_count(t) > MAX_TILE)
		return;
	in[3] = gen_of_type(g, t);
	if (gen_pick(g, 4) == 1 && t->elem == TY_I64) {
		attr[2] = attr_new_fn(g->m, gen_pick(g, 2) ? "add" : "max");
		gen_op1(g, OP_ATOMIC, in, 4, attr, 3, NULL);
		return;
	}
	op_make(&g->b, OP_WRITE, in, 4, attr, 2, NULL, 0);
}

/* Reads a corner of a tensor, writes it changed, and may read it again: a read that merges over the write shows. */
static void
update(Gen *g)
{
	int i = 2 + gen_pick(g, GEN_TENSORS - 2);
	Value *in[4] = {&g->f->body->arg[i], gen_scalar_int(g, 0), gen_scalar_int(g, 0), NULL};
	Attr attr[] = {attr_new_index(g->m, "pp"), attr_new_extents(g->m, (int64_t[]){2, 3}, 2)};
	Value *old = gen_op1(g, OP_READ, in, 3, attr, 2, NULL);

	if (gen_pick(g, 3) == 1)
		return;
	in[3] = build2(&g->b, OP_ADD, old, build_int(&g->b, old->type, 1 + gen_pick(g, 3)));
	op_make(&g->b, OP_WRITE, in, 4, attr, 2, NULL, 0);
	if (gen_pick(g, 2))
		gen_op1(g, OP_READ, in, 3, attr, 2, NULL);
}

/* Pointers that stay in their buffer: base + (index & 63). */
static Value *
pointers(Gen *g, int which, const Type *shape)
{
	Value *base = &g->f->body->arg[GEN_TENSORS + which];
	const Type *t = type_with_elem(g->m, shape, TY_I32);
	Value *at = build2(&g->b, OP_AND, gen_of_type(g, t), build_int(&g->b, t, GEN_POINTED - 1));

	if (shape->rank)
		base = build1(&g->b, OP_BROADCAST, base, type_with_shape(g->m, base->type, shape->rank, shape->extent));
	return build2(&g->b, OP_PTR_ADD, base, at);
}

static void
load_or_store(Gen *g)
{
	int which = gen_pick(g, 2);
	const Type *shape = gen_any(g)->type;
	const Type *t = type_with_elem(g->m, shape, which ? TY_F32 : TY_I32);
	Value *p = pointers(g, which, shape), *mask = gen_of_type(g, type_with_elem(g->m, shape, TY_BOOL));
	Value *in[4] = {p, mask, gen_of_type(g, t), NULL};

	switch (gen_pick(g, 3)) {
	case 0:
		gen_op1(g, OP_LOAD, in, 1 + gen_pick(g, 3), NULL, 0, NULL);
		break;
	case 1:
		in[1] = in[2];
		in[2] = mask;
		op_make(&g->b, OP_STORE, in, 2 + gen_pick(g, 2), NULL, 0, NULL, 0);
		break;
	default: {
		Attr a[] = {attr_new_fn(g->m, "add"), attr_new_masked(g->m, true)};
		in[1] = in[2];
		in[2] = mask;
		gen_op1(g, OP_ATOMIC_PTR, in, 3, a, 2, NULL);
		break;
	}
	}
}

static void
say(Gen *g)
{
	Value *x = gen_any(g);
	Attr text = attr_new_text(g->m, "say");

	op_make(&g->b, OP_PRINT, &x, 1, &text, 1, NULL, 0);
}

/* ---- control ---- */

static void steps(Gen *g, int n);

/* Fills a region and gives it back with a yield of `lead` (if not NULL) and values of the types. */
static void
fill(Gen *g, Block *b, bool lead, const Type *const *type, int n)
{
	Builder outer = g->b;
	int mark = g->n;
	Value *out[5];

	g->b = (Builder){.m = g->m, .block = b, .place = NOWHERE};
	for (int i = 0; i < b->narg; i++)
		gen_keep(g, &b->arg[i]);
	g->depth++;
	steps(g, 1 + gen_pick(g, 6));
	if (lead)
		out[0] = gen_of_type(g, type_scalar(g->m, TY_BOOL));
	for (int i = 0; i < n; i++)
		out[lead + i] = gen_of_type(g, type[i]);
	build_yield(&g->b, out, lead + n);
	g->depth--;
	g->n = mark;
	g->b = outer;
}

static void
branch(Gen *g)
{
	Value *c = gen_of_type(g, type_scalar(g->m, TY_BOOL));
	int n = gen_pick(g, 3);
	const Type *type[2];

	for (int i = 0; i < n; i++)
		type[i] = gen_any(g)->type;
	Op *op = op_make_regions(&g->b, OP_IF, &c, 1, NULL, 0, type, n, 2);
	for (int r = 0; r < 2; r++) {
		op->region[r] = block_make(g->f, op, NULL, 0);
		fill(g, op->region[r], false, type, n);
	}
	for (int i = 0; i < n; i++)
		gen_keep(g, &op->out[i]);
}

static void
counted(Gen *g)
{
	int n = gen_pick(g, 4);
	const Type *type[4] = {type_scalar(g->m, TY_I64)};
	int64_t lo = gen_pick(g, 4) - 1, trips = gen_pick(g, 4), step = gen_pick(g, 4) == 1 ? -2 : 1 + gen_pick(g, 2);
	Value *in[6] = {gen_scalar_int(g, lo), gen_scalar_int(g, lo + trips * step), gen_scalar_int(g, step)};

	if (gen_pick(g, 3) == 1)
		in[1] = build2(&g->b, OP_MIN, gen_of_type(g, type[0]), in[1]);
	if (step < 0)
		in[1] = gen_scalar_int(g, lo + trips * step);
	if (gen_pick(g, 3) == 1 && step > 0)
		in[0] = build2(&g->b, OP_MAX, gen_of_type(g, type[0]), in[0]);
	for (int i = 0; i < n; i++) {
		in[3 + i] = gen_any(g);
		type[1 + i] = in[3 + i]->type;
	}
	Op *op = op_make_regions(&g->b, OP_FOR, in, 3 + n, NULL, 0, NULL, 0, 1);
	op->region[0] = block_make(g->f, op, type, 1 + n);
	fill(g, op->region[0], false, type + 1, n);
	for (int i = 0; i < n; i++)
		gen_keep(g, &op->out[i]);
}

/* while (count < 3) with other values carried beside; the counter makes it end. */
static void
uncounted(Gen *g)
{
	int n = 1 + gen_pick(g, 3);
	const Type *type[4] = {type_scalar(g->m, TY_I64)};
	Value *in[4] = {gen_scalar_int(g, gen_pick(g, 4)), NULL, NULL, NULL}, *out[5];

	for (int i = 1; i < n; i++) {
		in[i] = gen_any(g);
		type[i] = in[i]->type;
	}
	Op *op = op_make_regions(&g->b, OP_WHILE, in, n, NULL, 0, NULL, 0, 2);
	Builder outer = g->b;
	Block *test = op->region[0] = block_make(g->f, op, type, n);
	g->b = (Builder){.m = g->m, .block = test, .place = NOWHERE};
	out[0] = build2(&g->b, OP_LT, &test->arg[0], gen_scalar_int(g, 3));
	for (int i = 0; i < n; i++)
		out[1 + i] = &test->arg[i];
	build_yield(&g->b, out, 1 + n);
	g->b = outer;
	Block *body = op->region[1] = block_make(g->f, op, type, n);
	fill(g, body, false, type, n);
	Op *yield = body->last;
	g->b = (Builder){.m = g->m, .block = body, .before = yield, .place = NOWHERE};
	op_set_in(yield, 0, build2(&g->b, OP_ADD, &body->arg[0], gen_scalar_int(g, 1)));
	g->b = outer;
	for (int i = 0; i < n; i++)
		gen_keep(g, &op->out[i]);
}

static void
step(Gen *g)
{
	static void (*const family[])(Gen *) = {
	    gen_elementwise, gen_elementwise, gen_elementwise, gen_elementwise, gen_again,
	    gen_again, gen_casts, gen_select_or_cast, gen_select_or_cast, gen_fresh, gen_reshape,
	    gen_broadcast, gen_permute, gen_extract, gen_combine, gen_reduce, gen_reduce_fn,
	    gen_order, gen_dot, gen_packed, gen_dot_scaled, read_tensor, write_tensor, update, update, load_or_store, say,
	    branch, counted, counted, uncounted};
	int control = 4, n = g->depth < MAX_DEPTH ? LEN(family) : LEN(family) - control;

	family[gen_pick(g, n)](g);
}

static void
steps(Gen *g, int n)
{
	for (; n > 0 && g->nops < MAX_OPS; n--) {
		g->nops++;
		step(g);
	}
}

static void
make_func(Gen *g)
{
	enum { N = GEN_TENSORS + GEN_POINTERS + 4 };
	FuncParam param[N] = {0};
	const Type *type[N];
	static const char *const name[N] = {"t0", "t1", "t2", "t3", "t4", "t5", "p0", "p1", "n", "a", "R", "C"};

	for (int i = 0; i < N; i++) {
		param[i].name = name[i];
		for (int d = 0; d < KERNEL_RANK; d++)
			param[i].dim[d] = -1;
	}
	for (int i = 0; i < GEN_TENSORS; i++) {
		param[i].kind = PARAM_TENSOR;
		param[i].access = gen_tensor_access(i);
		param[i].dim[0] = N - 2;
		param[i].dim[1] = N - 1;
		type[i] = type_tensor(g->m, gen_tensor_type(i), 2, (int64_t[]){-1, i == 2 ? GEN_COLS : -1});
	}
	for (int i = 0; i < GEN_POINTERS; i++) {
		param[GEN_TENSORS + i].kind = PARAM_POINTER;
		type[GEN_TENSORS + i] = type_ptr(g->m, i ? TY_F32 : TY_I32, true, 0, NULL);
	}
	param[N - 4].kind = param[N - 3].kind = PARAM_SCALAR;
	type[N - 4] = type_scalar(g->m, TY_I32);
	type[N - 3] = type_scalar(g->m, TY_F32);
	param[N - 2].kind = param[N - 1].kind = PARAM_DIM;
	type[N - 2] = type[N - 1] = type_scalar(g->m, TY_I64);
	g->f = func_make(g->m, "f", param, type, N);
	g->f->axis[0] = "i";
	g->f->naxis = 1;
	for (int i = N - 4; i < N; i++)
		gen_keep(g, &g->f->body->arg[i]);
}

Module *
gen_module(Compile *cx, Bytes bytes)
{
	Gen g = {.bytes = bytes, .m = module_open(cx)};

	make_func(&g);
	g.b = (Builder){.m = g.m, .block = g.f->body, .place = NOWHERE};
	steps(&g, 10 + gen_pick(&g, 50));
	g.nops = 0;
	for (int i = 0; i < 6; i++)
		write_tensor(&g);
	/* What was computed last of each kind is looked at. */
	for (int i = MAX(0, g.n - 12); i < g.n; i++) {
		Attr text = attr_new_text(g.m, "end");
		op_make(&g.b, OP_PRINT, &g.value[i], 1, &text, 1, NULL, 0);
	}
	return g.m;
}
