/* Makes every tile's extents powers of two.
 *
 *     %v = read %x, %i {extents = [100]} : f32[100]        %v = read %x, %i {extents = [128], valid = [100]} : f32[128]
 *     %s = reduce %v {fn = "sum"} : f32                =>  %0 = select (iota < 100), %v, -0.0
 *                                                          %s = reduce %0 {fn = "sum"} : f32
 *
 * Added elements hold anything.  Only ops that combine elements or touch memory mask them: reductions, scans from the
 * end, sorts, a dot's K and histograms get what changes nothing there; accesses to tensors get `valid`, unless what
 * was added lies behind the tensor's own end; loads, stores and atomics through pointers get masks; and ops that move
 * elements about (pad_shape.c) are made of gathers where the gaps would get in their way.  dot_scaled is spelled out
 * here too (expand.c). */
#include "ir/derive.h"
#include "pass/shape/pad.h"

#include "pass/layout/dot.h"

#include <string.h>

const Type *
pad_was(const Pad *p, const Value *v)
{
	return v->id < p->n && p->of[v->id] == v ? p->was[v->id] : v->type;
}

void
pad_replace(const Pad *p, Value *from, Value *to)
{
	to->name = from->name;
	to->id = from->id;
	if (from->id < p->n && p->of[from->id] == from)
		p->of[from->id] = to;
	value_replace(from, to);
}

static int64_t
padded(int64_t n)
{
	return n <= 0 ? 1 : INT64_C(1) << log2_ceil(n);
}

static const Type *
padded_type(Module *m, const Type *t, const int64_t *least)
{
	int64_t extent[MAX_RANK];
	for (int d = 0; d < t->rank; d++)
		extent[d] = MAX(padded(t->extent[d]), least[d]);
	return type_with_shape(m, t, t->rank, extent);
}


Value *
pad_iota(Builder *b, const Type *t, DType elem, int d)
{
	return build_iota(b, type_tile(b->m, elem, t->rank, t->extent), d);
}

Value *
pad_below(Builder *b, const Type *t, int d, int64_t valid)
{
	Value *i = pad_iota(b, t, TY_I32, d);
	return build2(b, OP_LT, i, build_int(b, i->type, valid));
}

/* Which were there before, by all dimensions of `was`; NULL: all. */
static Value *
valid_of(Builder *b, const Type *t, const Type *was)
{
	Value *all = NULL;
	for (int d = 0; d < t->rank; d++) {
		if (was->extent[d] == t->extent[d])
			continue;
		Value *below = pad_below(b, t, d, was->extent[d]);
		all = all ? build2(b, OP_AND, all, below) : below;
	}
	return all;
}

void
pad_fill(const Pad *p, Op *op, int i, int d, Value *other)
{
	Builder b = build_before(op);
	Value *v = op->in[i];
	op_set_in(op, i, build3(&b, OP_SELECT, pad_below(&b, v->type, d, pad_was(p, v)->extent[d]), v, other));
}

void
pad_outside(const Pad *p, Op *op, int i, DType wide)
{
	Builder b = build_before(op);
	Value *v = op->in[i], *valid = valid_of(&b, v->type, pad_was(p, v));
	DType t = v->type->elem;
	if (!valid)
		return;
	if (dtype_info[t].bits < 32 || (wide == TY_I64 && dtype_is_unsigned(t)))
		v = build1(&b, OP_CAST, v, type_with_elem(p->m, v->type, wide));
	op_set_in(op, i, build3(&b, OP_SELECT, valid, v, build_int(&b, v->type, -1)));
}

/* Does what was added along each dimension lie outside of the tensor, behind its whole extent?  Then bounds tell as much
 * as {valid} would, and a tensor map needs no more. */
static bool
ends_with_tensor(const Op *op, const Value *tile, const Type *was)
{
	const char *index = attr_index(op);
	int at = 0;
	for (int i = 0; index[i]; i++) {
		if (index[i] == 'g')
			return false;
		if (index[i] != 'p')
			continue;
		bool added = was->extent[at] != tile->type->extent[at];
		if (added && (op->in[0]->type->extent[i] != was->extent[at] || !value_is_int(op->in[1 + i], 0)))
			return false;
		at++;
	}
	return at == was->rank;
}

/* {extents} and {valid} of an access to a tensor, from the tile that it moves. */
static void
pad_access(const Pad *p, Op *op, const Value *tile)
{
	const Type *was = pad_was(p, tile);
	const char *index = attr_index(op);
	int64_t to[MAX_RANK];
	int at = 0, n = 0;
	bool gathers = false;
	for (int i = 0; index[i]; i++) {
		if (index[i] == 'p')
			to[n++] = tile->type->extent[at++];
		else if (index[i] == 'g' && !gathers)
			at += op->in[1 + i]->type->rank;
		gathers |= index[i] == 'g';
	}
	if (attr_extents(op))
		attr_set_extents(p->m, op, to, n);
	if (gathers)                                    /* one of the indices that were added points outside */
		pad_outside(p, op, 1 + (int)strcspn(index, "g"), TY_I64);
	if (was != tile->type && !attr_valid(op) && !ends_with_tensor(op, tile, was))
		attr_set_valid(p->m, op, was->extent, was->rank);
}

static void
pad_prefetch(const Pad *p, Op *op)
{
	const IntList *extents = attr_extents(op);
	int64_t to[MAX_RANK];
	for (int i = 0; extents && i < extents->n; i++)
		to[i] = padded(extents->at[i]);
	if (extents)
		attr_set_extents(p->m, op, to, extents->n);
}

/* Masks an access through pointers: operand `at` is the mask, if there is one, else a new one is put there. */
static void
pad_pointers(const Pad *p, Op *op, int at, bool had)
{
	Builder b = build_before(op);
	Value *in[8], *mask = valid_of(&b, op->in[0]->type, pad_was(p, op->in[0]));
	const Type *want = op->nout ? op->out[0].type : NULL;
	int n = 0;
	if (!mask)
		return;
	if (had) {
		op_set_in(op, at, build2(&b, OP_AND, mask, op->in[at]));
		return;
	}
	for (int i = 0; i < op->nin; i++)
		in[n++] = op->in[i];
	memmove(&in[at + 1], &in[at], sizeof *in * (size_t)(n - at));
	in[at] = mask;
	if (op->kind == OP_ATOMIC_PTR)
		attr_set_masked(p->m, op, true);
	Op *masked = op_make(&b, op->kind, in, n + 1, op->attr, op->nattr, want ? &want : NULL, want ? 1 : 0);
	if (op->nout)
		pad_replace(p, &op->out[0], &masked->out[0]);
	op_erase(op);
}

static void
pad_assert(const Pad *p, Op *op)
{
	Builder b = build_before(op);
	Value *c = op->in[0], *valid = valid_of(&b, c->type, pad_was(p, c));
	if (valid)
		op_set_in(op, 0, build2(&b, OP_OR, c, build1(&b, OP_NOT, valid, NULL)));
}

/* The extents of all its tiles, one after the other: what was added is not shown, nor put. */
static void
pad_shown(const Pad *p, Op *op)
{
	int64_t *extent = NEW_ARRAY(p->m->cx->tmp, int64_t, op->nin * MAX_RANK);
	bool any = false;
	int n = 0;
	for (int i = 0; i < op->nin; i++) {
		const Type *was = pad_was(p, op->in[i]);
		any |= was != op->in[i]->type;
		for (int d = 0; d < was->rank; d++)
			extent[n++] = was->extent[d];
	}
	if (any)
		attr_set_valid(p->m, op, extent, n);
}

static void
pad_op(const Pad *p, Op *op)
{
	switch (op->kind) {
	case OP_READ:
		if (pad_gap(p, &op->out[0]))
			pad_read_gaps(p, op);
		else
			pad_access(p, op, &op->out[0]);
		break;
	case OP_WRITE: case OP_ATOMIC: pad_access(p, op, op->in[access_data(op)]); break;
	case OP_PREFETCH:
		if (op->in[0]->type->kind == TYPE_TENSOR)
			pad_prefetch(p, op);
		else
			pad_pointers(p, op, 1, op->nin > 1);
		break;
	case OP_LOAD: pad_pointers(p, op, 1, op->nin > 1); break;
	case OP_STORE: pad_pointers(p, op, 2, op->nin > 2); break;
	case OP_ATOMIC_PTR: {
		bool masked = attr_masked(op);
		pad_pointers(p, op, masked ? op->nin - 1 : op->nin, masked);
		break;
	}
	case OP_RESHAPE: pad_reshape(p, op); break;
	case OP_CAT: pad_cat(p, op); break;
	case OP_FLIP: pad_flip(p, op); break;
	case OP_EXTRACT: pad_extract(p, op); break;
	case OP_GATHER: pad_gather(p, op); break;
	case OP_SCATTER: pad_scatter(p, op); break;
	case OP_REDUCE: pad_reduce(p, op); break;
	case OP_REDUCE_FN: case OP_SCAN_FN: pad_reduce_fn(p, op); break;
	case OP_SCAN: pad_scan(p, op); break;
	case OP_SORT: case OP_TOPK: pad_order(p, op); break;
	case OP_HISTOGRAM: pad_histogram(p, op); break;
	case OP_DOT: pad_dot(p, op); break;
	case OP_ASSERT: pad_assert(p, op); break;
	case OP_PRINT: case OP_SPLIT_PUT: pad_shown(p, op); break;
	default: break;
	}
}

/* What an op is replaced by stands before it or has been seen to. */
static void
pad_block(const Pad *p, Block *b)
{
	for (EACH_OP_HERE(op, b)) {
		if (!op_is_control(op))
			pad_op(p, op);
		else
			for (int r = 0; r < op->nregion; r++)
				pad_block(p, op->region[r]);
	}
}

static bool
widen(Pad *p, Value *v)
{
	if (v->type->kind != TYPE_TILE)
		return false;
	const Type *to = padded_type(p->m, v->type, p->least + p->first[v->id]);
	p->was[v->id] = v->type;
	p->of[v->id] = v;
	if (to == v->type)
		return false;
	v->type = to;
	return true;
}

/* All types at once, so that every op sees its operands and results as they will be. */
static bool
widen_all(Pad *p)
{
	ValueList all = func_values(p->f, p->m->cx->tmp);
	bool any = false;
	for (int i = p->f->body->narg; i < all.n; i++)
		any |= widen(p, all.at[i]);
	return any;
}

static void
note_padded(const Pad *p)
{
	ValueList all = func_values(p->f, p->m->cx->tmp);
	for (int i = p->f->body->narg; i < all.n; i++) {
		const Value *v = all.at[i];
		PaddedTile tile = {v->def ? v->def->place : NOWHERE, p->was[v->id], v->type};
		if (v->type->kind == TYPE_TILE)
			vec_push(p->m->cx->mem, &p->m->padded, tile);
	}
}

static void
put_extents(const Type *t, Text *out)
{
	for (int d = 0; d < t->rank; d++)
		text_printf(out, "%s%lld", d ? " x " : "", (long long)t->extent[d]);
}

/* By the op's place; else by its shape, where that came of one shape alone. */
const char *
pad_text(const Module *m, Place at, const Type *t)
{
	const Type *here = NULL, *same = NULL;
	bool is_unique = true;
	Text text = {0};
	for (int i = 0; i < m->padded.n; i++) {
		const PaddedTile *p = &m->padded.at[i];
		if (!type_same_shape(p->is, t))
			continue;
		is_unique = is_unique && (!same || type_same_shape(same, p->was));
		same = p->was;
		if (at.file >= 0 && p->place.file == at.file && p->place.line == at.line && p->place.col == at.col)
			here = p->was;
	}
	const Type *was = here ? here : is_unique ? same : NULL;
	if (!was || type_same_shape(was, t))
		return "";
	text_put(&text, " (");
	put_extents(was, &text);
	text_put(&text, ", padded to ");
	put_extents(t, &text);
	text_put(&text, ")");
	return text_take(&text, m->cx->tmp);
}

void
pass_pad(Func *f, const Target *t)
{
	Module *m = f->module;
	Pad p = {.m = m, .f = f, .t = t};
	for (EACH_OP(op, f->body))
		if (op->kind == OP_DOT_SCALED)
			expand_dot_scaled(op);
	func_number(f);
	p.n = f->nvalues;
	p.was = NEW_ARRAY(m->cx->tmp, const Type *, p.n);
	p.of = NEW_ARRAY(m->cx->tmp, const Value *, p.n);
	p.gap = NEW_ARRAY(m->cx->tmp, PadGap, p.n);
	p.least = pad_needs(f, t, &p.first);
	if (widen_all(&p)) {
		note_padded(&p);
		for (const Op *op = f->body->first; op; op = op_after(op, f->body))
			if (op->kind == OP_DOT)
				pad_find_gaps(&p, op);
		pad_block(&p, f->body);
	}
	func_number(f);
}

const char *
check_padded(Func *f, const Target *t, const Op **at)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; i < op->nout; i++) {
			const Type *type = op->out[i].type;
			*at = op;
			for (int d = 0; type->kind == TYPE_TILE && d < type->rank; d++)
				if (padded(type->extent[d]) != type->extent[d])
					return "an extent that is no power of two, though the module claims PADDED";
		}
	return NULL;
}
