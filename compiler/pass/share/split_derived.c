/* Writes the op merge of a loop of which split_derive.c found how states join: what each column comes to of two parts. */
#include "ir/derive.h"
#include "pass/share/split_derive.h"

#include <float.h>
#include <math.h>

/* v with what `map` says in place of the keys; it is computed from these and from what stands outside of the loop. */
static Value *
computed(const Derive *d, Builder *b, Value *v, Value **map)
{
	if (map[v->id] || !value_inside(v, d->body))
		return value_mapped(map, v);
	for (int i = 0; i < v->def->nin; i++)
		map[v->def->in[i]->id] = computed(d, b, v->def->in[i], map);
	op_clone(b, v->def, map);
	return map[v->id];
}

/* The path of column i, where the key before is `was` and what it becomes, or is compared with, `now`. */
static Value *
path(const Derive *d, Builder *b, int i, Value *was, Value *now)
{
	const Column *c = &d->column[i];
	Value **map = NEW_ARRAY(b->m->cx->tmp, Value *, d->body->func->nvalues);
	map[before(d, c->key)->id] = was;
	map[(c->kind == PICK ? split_offered(d, c->key) : after(d, c->key))->id] = now;
	return computed(d, b, (Value *)c->path, map);
}

/* Do parts but the first begin the column with the lowest finite number in place of -inf? */
static bool
is_lowered(const Derive *d, int i)
{
	const Attr *begin = value_const(d->loop->in[3 + i]);
	return begin && begin->kind == KIND_FLOAT && isinf(begin->f) &&
	    ANY_OF(k, d->loop->nout, d->column[k].kind == SCALED && d->column[k].key == i);
}

static Value *
lowest(Builder *b, const Type *t, double begin)
{
	return build_float(b, t, copysign((double)FLT_MAX, begin));
}

/* The key counts where an element gave it, not what parts but the first begin with: of nothing but -inf it stays -inf. */
static Value *
lowered_key(const Derive *d, Builder *b, int i, Value *x, Value *y)
{
	OpKind fold = d->column[i].fold;
	Value *key = build2(b, fold, x, y), *other = build2(b, fold == OP_MAX ? OP_MIN : OP_MAX, x, y);
	Value *finite = lowest(b, y->type, value_const(d->loop->in[3 + i])->f);
	return build3(b, OP_SELECT, build2(b, fold == OP_MAX ? OP_GT : OP_LT, key, finite), key, other);
}

static Value *
joined(const Derive *d, Builder *b, int i, Value *x, Value *y, Value *const *both)
{
	const Column *c = &d->column[i];
	Value *key_x = &b->block->arg[c->key], *key_y = &b->block->arg[d->loop->nout + c->key];
	if (c->kind == FOLD)
		return is_lowered(d, i) ? lowered_key(d, b, i, x, y) : build2(b, c->fold, x, y);
	if (c->kind == PICK)
		return build3(b, OP_SELECT, path(d, b, i, key_x, key_y), y, x);
	Value *of_x = build2(b, OP_MUL, x, path(d, b, i, key_x, both[c->key]));
	return build2(b, OP_ADD, of_x, build2(b, OP_MUL, y, path(d, b, i, key_y, both[c->key])));
}

/* Of parts but the first a key that scales begins with the lowest finite number in place of -inf. */
static void
begin_keys(const Derive *d, Op *loop, Value *rank)
{
	Builder b = build_before(loop);
	Value *first = build2(&b, OP_EQ, rank, build_index(&b, 0));
	for (int i = 0; i < loop->nout; i++) {
		Value *begin = loop->in[3 + i];
		const Type *t = begin->type;
		if (!is_lowered(d, i))
			continue;
		Value *is_first = t->rank ? build1(&b, OP_BROADCAST, first, type_with_elem(b.m, t, TY_BOOL)) : first;
		op_set_in(loop, 3 + i, build3(&b, OP_SELECT, is_first, begin, lowest(&b, t, value_const(begin)->f)));
	}
}

/* Which ones those are, for the warps of a block (slice_k.c). */
static void
note_lowered(const Derive *d, Module *m, Op *merge)
{
	int n = d->loop->nout;
	int64_t *sign = NEW_ARRAY(m->cx->tmp, int64_t, n);
	for (int i = 0; i < n; i++)
		sign[i] = !is_lowered(d, i) ? 0 : value_const(d->loop->in[3 + i])->f < 0 ? -1 : 1;
	if (ANY_OF(i, n, sign[i] != 0))
		attr_set_lowered(m, merge, sign, n);
}

Value *
split_lowered(Builder *b, const Op *merge, int i, const Type *t)
{
	const IntList *sign = attr_lowered(merge);
	return sign && sign->at[i] ? lowest(b, t, (double)sign->at[i]) : NULL;
}

Op *
split_derive(Func *f, Op *loop, Value *rank)
{
	Derive d;
	int n = loop->nout;
	Arena *tmp = f->module->cx->tmp;
	if (!split_find_columns(f, loop, &d))
		die("a loop does not say how its states join");
	const Type **type = NEW_ARRAY(tmp, const Type *, 2 * n);
	for (int i = 0; i < n; i++)
		type[i] = type[i + n] = loop->out[i].type;
	Builder b = build_before(loop->next);
	b.place = loop->place;
	Value **in = MAP_OF(tmp, Value *, i, n, &loop->out[i]), **out = NEW_ARRAY(tmp, Value *, n);
	Op *merge = op_make_regions(&b, OP_MERGE, in, n, NULL, 0, NULL, 0, 1);
	Block *body = merge->region[0] = block_make(f, merge, type, 2 * n);
	Builder by = build_inside(merge, 0);
	for (int scaled = 0; scaled < 2; scaled++)      /* keys first */
		for (int i = 0; i < n; i++)
			if ((d.column[i].kind == SCALED) == scaled)
				out[i] = joined(&d, &by, i, &body->arg[i], &body->arg[n + i], out);
	build_yield(&by, out, n);
	for (int i = 0; i < n; i++) {
		merge->out[i].name = loop->out[i].name;
		value_replace_from(merge->next, &loop->out[i], &merge->out[i]);
	}
	note_lowered(&d, b.m, merge);
	if (rank)
		begin_keys(&d, loop, rank);
	return merge;
}
