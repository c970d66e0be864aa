/* How to launch PTX or a cubin, in lines that a person reads and checks: build writes them at the head of PTX and beside a
 * cubin.  The runtime knows all of it from the Artefact and reads nothing here.
 *
 *     parameters, in order: index, offset, bytes, kind, what is passed
 *       0    0  8  tensor  x: address of in f32[R, C] (32 x 512)
 *       1    8  8  dim     R
 *     assumes:
 *       x: the address is a multiple of 16 bytes; contiguous, row-major
 *       R is a multiple of 16
 *
 * Assumptions are those of FuncParam, which code may rely on wherever it reads the parameter or leaves out a test of
 * bounds; which of them it does rely on is not known. */
#include "compile/describe.h"

#include "ast/print.h"
#include "ir/derive.h"

#include <string.h>

/* The name of a file without its folders, so that the text is the same wherever it lies. */
static void
put_place(const Compile *cx, Place at, Text *out)
{
	if (at.file < 0)
		return;
	const char *path = cx->files.at[at.file].path, *slash = strrchr(path, '/');
	text_printf(out, "%s:%d", slash ? slash + 1 : path, at.line);
}

static void
put_value(const NamedConst *c, const char *before, Text *out)
{
	text_printf(out, "%s%s = ", before, c->name);
	if (c->value.kind == CONST_DTYPE)
		text_put(out, dtype_info[c->value.dtype].text);
	else
		describe_const(&c->value, out);
}

/* Those of the file that the header's formulas name. */
static int
put_file_constants(const Bound *b, int shown, Text *out)
{
	const Program *p = b->kernel->program;
	const Expr *e;
	for (int i = 0; i < p->items.n; i++) {
		NamedConst c = {.name = p->items.at[i]->name};
		bool is_named = false, is_hidden = false;
		for (int k = 0; (e = described_formula(b, k)); k++)
			is_named |= p->items.at[i]->kind == ITEM_CONST && expr_mentions(e, c.name);
		is_hidden |= ANY_OF(k, b->nct + b->nsymbol,
		    (k < b->nct ? b->ct[k].name : b->symbol[k - b->nct].name) == c.name);
		if (is_named && !is_hidden && program_constant(p, c.name, &c.value))
			put_value(&c, shown++ ? ", " : "values: ", out);
	}
	return shown;
}

static void
put_values(const Func *f, const Bound *b, Text *out)
{
	int shown = 0;
	for (int i = 0; b && i < b->nct; i++)
		put_value(&b->ct[i], shown++ ? ", " : "values: ", out);
	shown = b ? put_file_constants(b, shown, out) : 0;
	text_put(out, shown ? "\n" : "");
	shown = 0;
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (f->schedule.at[i])
			text_printf(out, "%s%s = %d", shown++ ? ", " : "schedule: ", schedule_info[i].text,
			    f->schedule.at[i]);
	text_put(out, shown ? "\n" : "");
	shown = 0;
	for (int i = 0; b && i < b->nsymbol; i++)
		put_value(&b->symbol[i], shown++ ? ", " : "sizes: ", out);
	text_put(out, shown ? "\n" : "");
}

/* ---- the launch ---- */

static void
put_grid(const Func *f, const Bound *b, Text *out)
{
	int64_t n = 1;
	bool fits = true;
	text_put(out, "  grid: ");
	for (int i = 0; i < f->naxis; i++) {
		text_printf(out, "%s%s", i ? ", " : "", f->axis[i]);
		if (!b)
			continue;
		text_put(out, " = ");
		expr_put(b->kernel->item->grid.at[i].count, 0, out);
		text_printf(out, " (%lld)", (long long)b->grid[i]);
		fits &= !__builtin_mul_overflow(n, b->grid[i], &n);
	}
	text_put(out, f->naxis ? "\n  blocks: the product" : "1 block\n");
	if (f->naxis && f->schedule.split > 1)
		text_printf(out, " times the %d of a cluster", f->schedule.split);
	if (f->naxis && f->stream > 1)
		text_printf(out, " times up to %d that share one", f->stream);
	if (f->naxis && f->schedule.share > 1)
		text_printf(out, " divided by the %d programs that share one, rounded up", f->schedule.share);
	n *= MAX(MAX(f->schedule.split, f->stream), 1);
	n = (n + MAX(f->schedule.share, 1) - 1) / MAX(f->schedule.share, 1);
	if (b && f->naxis && fits)
		text_printf(out, ", %lld", (long long)n);
	if (func_stays(f))
		text_put(out, ", or any number from 1 to that, since each block walks on");
	text_put(out, f->naxis ? ", along x; where it is 0, no launch\n" : "");
}

static void
put_launch(const Func *f, const Bound *b, const Artefact *a, Text *out)
{
	text_printf(out, "launch:\n  threads of a block: %d along x\n", a->threads);
	put_grid(f, b, out);
	if (a->cluster > 1)
		text_printf(out, "  cluster: %d blocks along x\n", a->cluster);
	else
		text_put(out, "  cluster: none\n");
	text_printf(out, "  shared memory of a block: %lld bytes, dynamic; static: %s\n", (long long)a->shared_bytes,
	    block_find(f->body, OP_INLINE_PTX) ? "what inline_ptx declares" : "none");
	if (a->shared_bytes > 48 * 1024)
		text_put(out, "    over 49152 bytes: set CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES first\n");
	text_printf(out, "  programmatic stream serialization: %s\n", a->waits
	    ? "may be set, need not: the code waits for the grid before it"
	    : "must not be set: the code does not wait for the grid before it");
}

/* ---- parameters ---- */

static void
put_shape(const Func *f, const Bound *b, int param, Text *out)
{
	const KernelParam *p = &b->kernel->params.at[param];
	const BoundParam *bound = &b->param[param];
	bool is_open = false;
	text_printf(out, "%s[", dtype_info[f->body->arg[param].type->elem].text);
	for (int d = 0; d < bound->rank; d++) {
		const Expr *e = described_dim(p, d);
		is_open |= e && e->kind != EX_INT;
		text_put(out, d ? ", " : "");
		if (e)
			expr_put(e, 0, out);
		else
			text_printf(out, "%lld", (long long)bound->dim[d]);
	}
	text_put(out, "]");
	for (int d = 0; is_open && d < bound->rank; d++)
		text_printf(out, "%s%lld", d ? " x " : " (", (long long)bound->dim[d]);
	text_put(out, is_open ? ")" : "");
}

static void
put_tensor(const Func *f, const Bound *b, int param, Text *out)
{
	const FuncParam *p = &f->param[param];
	const Type *t = f->body->arg[param].type;
	if (p->kind == PARAM_POINTER) {
		text_printf(out, "address of %s", t->ptr == PTR_CONST ? "" : "mut ");
		text_put(out, dtype_info[t->elem].text);
		if (b)
			text_printf(out, ", of %lld elements here", (long long)b->param[param].dim[0]);
		return;
	}
	text_printf(out, "address of %s %s", access_text[p->access], p->strided ? "strided " : "");
	if (b)
		put_shape(f, b, param, out);
	else
		type_print(t, out);
	if (p->access == ACCESS_SCRATCH)
		text_put(out, "; memory to work in, whose contents before and after mean nothing");
	if (b && b->param[param].has_fill) {
		text_put(out, "; every element is ");
		describe_const(&b->param[param].fill, out);
		text_put(out, " before the launch");
	}
}

static void
put_faults(const Func *f, Text *out)
{
	int n = 0;
	text_printf(out, "address of %d bytes, 0 before the launch; then its first u32 is the assert that failed:",
	    FAULT_BYTES);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind != OP_ASSERT)
			continue;
		text_printf(out, "\n      %d: ", ++n);
		put_place(f->module->cx, op->place, out);
		text_printf(out, ": %s", attr_text(op));
	}
}

/* ", 0 x 1": dimensions that are one in the map. */
static void
put_map_dim(const TensorMap *m, int d, Text *out)
{
	for (int i = m->merged[d]; i >= 0; i--)
		text_printf(out, "%s %d", i < m->merged[d] ? " x" : d ? "," : "", m->dim[d] - i);
}

/* " -1 + 2 * pad + extent 1 of y" */
static void
put_sum(const Func *f, const LaunchSum *s, Text *out)
{
	text_printf(out, " %lld", (long long)s->number);
	for (int i = 0; i < s->n; i++) {
		text_printf(out, " + %lld * ", (long long)s->term[i].factor);
		if (s->term[i].dim >= 0)
			text_printf(out, "extent %d of ", s->term[i].dim);
		text_put(out, f->param[s->term[i].param].name);
	}
}

static void
put_map(const Func *f, const char *name, const TensorMap *m, Text *out)
{
	text_printf(out, "%s: tensor map of %d-byte elements, dimensions", name, m->elem_bytes);
	for (int d = 0; d < m->rank; d++)
		put_map_dim(m, d, out);
	text_put(out, ", box");
	for (int d = 0; d < m->rank; d++)
		text_printf(out, "%s %d", d ? " x" : "", m->box[d]);
	text_printf(out, ", swizzle %d, 0 outside", m->swizzle);
	for (int i = 0; i < m->windows; i++) {
		text_printf(out, ";\n      im2col: along dimension %d steps of %d, lower corner", m->dim[1 + i],
		    m->window[i].step);
		put_sum(f, &m->window[i].lower, out);
		text_put(out, ", upper corner lower + step * (n - 1) + 1 - extent, n =");
		put_sum(f, &m->window[i].count, out);
	}
	text_put(out, ";\n      at an address that is a multiple of 64");
}

static void
put_param(const Func *f, const Bound *b, const AbiParam *a, const TensorMap *map, Text *out)
{
	const char *name = described_name(f, a);
	bool is_pointer = a->kind == ABI_POINTER && f->param[a->param].kind == PARAM_POINTER;
	text_printf(out, "%-8s", is_pointer ? "pointer" : described_kind(a));
	switch (a->kind) {
	case ABI_POINTER:
		text_printf(out, "%s: ", name);
		put_tensor(f, b, a->param, out);
		break;
	case ABI_STRIDE: text_printf(out, "%s: stride of dimension %d, in elements", name, a->dim); break;
	case ABI_EXTENT: text_printf(out, "%s: extent of dimension %d", name, a->dim); break;
	case ABI_SCALAR: text_put(out, name); break;
	case ABI_DIM: text_printf(out, "%s%s", name, f->param[a->param].is_fixed ? ", not read" : ""); break;
	case ABI_GRID: text_printf(out, "programs along %s", name); break;
	case ABI_INVERSE:
		text_printf(out, "of d programs along %s: m | s << 32, where s is the number of bits of d - 1\n"
		    "      and m = (2^s - d) 2^32 / d + 1, rounded down", name);
		break;
	case ABI_TENSOR_MAP: put_map(f, name, &map[a->dim], out); break;
	case ABI_FAULTS: put_faults(f, out); break;
	case ABI_COUNTER: text_put(out, "address of 8 bytes, 0 before the launch"); break;
	case ABI_ARRIVALS:
		text_printf(out, "address of %d bytes%s, 0 before the launch and after it",
		    func_is_dynamic(f) ? 4 * COUNTER_WORDS : f->stream ? 4 * STREAM_FLAGS : 4,
		    func_is_dynamic(f) ? "" : f->stream ? " for each block" : " for each program");
		break;
	case ABI_PARTS:
		text_printf(out, "address of %lld bytes for each %s, of any value, aligned to 128",
		    (long long)(split_part_bytes(f) * MAX(f->schedule.split, 1)), f->stream ? "block" : "program");
		break;
	}
	text_put(out, "\n");
}

static void
put_params(const Func *f, const Bound *b, const Artefact *a, Text *out)
{
	int at = 0;
	text_put(out, "parameters, in order: index, offset, bytes, type, kind, what is passed\n");
	for (int i = 0; i < a->nabi; i++) {
		const AbiParam *p = &a->abi[i];
		bool is_address = p->kind == ABI_POINTER || p->kind == ABI_FAULTS || p->kind == ABI_COUNTER ||
		    p->kind == ABI_ARRIVALS || p->kind == ABI_PARTS;
		int align = MIN(p->bytes, 64);
		at = (at + align - 1) / align * align;
		text_printf(out, "  %2d %4d  %d  %-7s ", i, at, p->bytes,
		    is_address ? "address" : p->kind == ABI_TENSOR_MAP ? "bytes" : dtype_info[described_dtype(f, p)].text);
		put_param(f, b, p, a->map, out);
		at += p->bytes;
	}
}

/* ---- what is taken for granted ---- */

static bool
is_written(const Func *f, int i)
{
	const FuncParam *p = &f->param[i];
	return (p->kind == PARAM_TENSOR && p->access != ACCESS_IN) ||
	       (p->kind == PARAM_POINTER && f->body->arg[i].type->ptr == PTR_MUT);
}

static void
put_memory(const Func *f, int i, Text *out)
{
	const FuncParam *p = &f->param[i];
	const Type *t = f->body->arg[i].type;
	int64_t bytes = MAX(p->multiple, MAX(dtype_info[t->elem].bits / 8, 1));
	text_printf(out, "  %s: the address is a multiple of %lld bytes", p->name, (long long)bytes);
	if (p->kind == PARAM_TENSOR && !p->strided)
		text_put(out, "; contiguous, row-major");
	if (p->strided && p->unit)
		text_printf(out, "; dimension %d has stride 1, the strides of others are multiples of %lld",
		    param_dim(p, t->rank, t->rank - 1), (long long)MAX(p->apart, 1));
	if (p->strided && is_written(f, i))
		text_put(out, "; no two elements share memory");
	text_put(out, "\n");
	for (int d = 0; p->kind == PARAM_TENSOR && d < t->rank; d++)
		if (t->extent[d] < 0 && p->dim[d] < 0 && p->dim_multiple[d] > 1)
			text_printf(out, "  %s: dimension %d is a multiple of %lld\n", p->name, d,
			    (long long)p->dim_multiple[d]);
}

static void
put_number(const Func *f, const Bound *b, int i, Text *out)
{
	const FuncParam *p = &f->param[i];
	if (p->is_fixed && b)
		text_printf(out, "  %s is %lld, which the code has as a number\n", p->name,
		    (long long)b->symbol[i - b->kernel->params.n].value.i);
	else if (p->multiple > 1)
		text_printf(out, "  %s is a multiple of %lld\n", p->name, (long long)p->multiple);
	if (p->least > 0)
		text_printf(out, "  %s is %lld to %lld\n", p->name, (long long)p->least, (long long)p->most);
}

static void
put_wheres(const Bound *b, Text *out)
{
	for (int i = 0; i < b->kernel->item->where.n; i++) {
		text_put(out, "  ");
		expr_put(b->kernel->item->where.at[i], 0, out);
		text_put(out, "\n");
	}
}

/* What the language asks of every launch, and the runtime tests. */
static void
put_rules(const Func *f, Text *out)
{
	int n = 0, strided = 0;
	for (int i = 0; i < f->nparam; i++) {
		strided += f->param[i].strided;
		if (is_written(f, i))
			text_printf(out, "%s%s", n++ ? ", " : "  what is written overlaps no other tensor: ",
			    f->param[i].name);
	}
	text_put(out, n ? "\n" : "");
	text_put(out, "  nothing else writes what the kernel reads while it runs\n"
		      "  shapes are as written above, a name being one number throughout, 0 to 2^40\n");
	text_put(out, strided ? "  strides are from -2^40 to 2^40\n" : "");
	text_put(out, f->naxis ? "  programs along an axis are what its formula gives, blocks at most 2147483647\n" : "");
	if (f->few_programs && f->schedule.persistent)
		text_put(out, "  programs are less than 2^30 in all\n");
}

static void
put_assumptions(const Func *f, const Bound *b, Text *out)
{
	text_put(out, "assumes:\n");
	for (int i = 0; i < f->nparam; i++)
		if (f->param[i].kind == PARAM_TENSOR || f->param[i].kind == PARAM_POINTER)
			put_memory(f, i, out);
		else
			put_number(f, b, i, out);
	if (b)
		put_wheres(b, out);
	put_rules(f, out);
	if (b)
		text_put(out, "for other sizes: build with --example or -D NAME=NUMBER; "
			      "of an odd number no multiple is assumed\n");
}

void
describe_launch(const Func *f, const Bound *b, const Artefact *a, Text *out)
{
	text_printf(out, "kernel %s", f->name);
	if (strcmp(f->name, a->kernel) != 0)
		text_printf(out, ", as entry %s", a->kernel);
	if (f->place.file >= 0) {
		text_put(out, " of ");
		put_place(f->module->cx, f->place, out);
	}
	text_printf(out, ", for %s\n", a->target);
	put_values(f, b, out);
	put_launch(f, b, a, out);
	put_params(f, b, a, out);
	put_assumptions(f, b, out);
}
