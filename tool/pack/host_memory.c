/* Reads, writes and atomics, of tensors and through pointers.
 *
 *     read %x, %row, %0, %1 {index = "ip", extents = [512]} : f32[512]
 *
 *     int64_t lo3, hi3;                                       of the last dimension, what is inside
 *     tgh_clip(INT64_C(0), 512, p->extent[0][1], &lo3, &hi3);
 *     ...                                                     loops over the other dimensions, and
 * whether a row is inside for (int64_t j = 0; j < lo3; j++) ... = fill for (int64_t j = lo3; j <
 * hi3; j++) ... = tgh_get_f32(x, at + j)
 *
 * Starts are a program's and may be anything: offsets are computed modulo 2^64, and those outside
 * are not used.  Programs run one after the other, so an atomic is a read and a write. */
#include "tool/pack/host.h"

#include <string.h>

typedef struct Rows {
	const Op *op;
	const Type *tile;
	int param, nd, inner;                           /* inner: the tensor's dimension that a row walks along; -1: none */
	const char *letter;
	int gather_at, gather_rank;
	const char *start[KERNEL_RANK], *lo, *hi, *stride;
	const char *row, *at;                           /* of the row: its first element in the tile, and in the tensor */
	int length, opened;
} Rows;

/* The tensor's dimension of a dimension of the result; -1: of the gather. */
static int
tensor_dimension(const Rows *r, int at)
{
	int k = 0;
	bool gathered = false;
	for (int d = 0; d < r->nd; d++) {
		if (r->letter[d] == 'g') {
			if (!gathered && at >= k && at < k + r->gather_rank)
				return -1;
			k += gathered ? 0 : r->gather_rank;
			gathered = true;
		} else if (r->letter[d] == 'p' && k++ == at) {
			return d;
		}
	}
	return -1;
}

static void
find_gather(Rows *r)
{
	int k = 0;
	r->gather_at = -1;
	for (int d = 0; d < r->nd; d++) {
		if (r->letter[d] == 'g' && r->gather_at < 0) {
			r->gather_at = k;
			r->gather_rank = r->op->in[1 + d]->type->rank;
		}
		k += r->letter[d] == 'p';
	}
}

static void
clip_inner(Host *h, Rows *r)
{
	const IntList *valid = attr_valid(r->op);
	r->inner = r->tile->rank > 0 ? tensor_dimension(r, r->tile->rank - 1) : -1;
	r->length = r->inner < 0 ? 1 : (int)r->tile->extent[r->tile->rank - 1];
	r->lo = "0";
	r->hi = "1";
	r->stride = "0";
	if (r->inner < 0)
		return;
	int64_t most = valid ? MIN(valid->at[r->tile->rank - 1], r->length) : r->length;
	r->lo = host_fresh(h, "lo");
	r->hi = host_fresh(h, "hi");
	host_line(h, "int %s, %s;", r->lo, r->hi);
	host_line(h, "tgh_clip(%s, %d, p->extent[%d][%d], &%s, &%s);", r->start[r->inner],
	    (int)most, r->param, r->inner, r->lo, r->hi);
	r->stride = "1";
	if (h->f->param[r->param].strided || r->inner + 1 < r->nd) {
		r->stride = host_fresh(h, "s");
		host_line(h, "const int64_t %s = p->stride[%d][%d];", r->stride, r->param, r->inner);
	}
}

/* What is outside by indices that are the same for all rows, and where the tensor's part begins. */
static const char *
put_base(Host *h, const Rows *r, const char *ok)
{
	const char *base = host_fresh(h, "b");
	host_line(h, "int %s = 1;", ok);
	host_line(h, "uint64_t %s = 0;", base);
	for (int d = 0; d < r->nd; d++) {
		if (r->letter[d] == 'g')
			continue;
		host_line(h, "%s += (uint64_t)(%s) * (uint64_t)p->stride[%d][%d];", base, r->start[d], r->param, d);
		if (r->letter[d] == 'i')
			host_line(h, "%s &= (%s) >= 0 && (%s) < p->extent[%d][%d];", ok,
			    r->start[d], r->start[d], r->param, d);
	}
	return base;
}

static void
put_gathers(Host *h, const Rows *r, const char *g, const char *at, const char *inside)
{
	for (int d = 0; d < r->nd; d++) {
		if (r->letter[d] != 'g')
			continue;
		const char *q = host_fresh(h, "q"), *e = host_at(h, r->op->in[1 + d], g);
		host_line(h, "const int64_t %s = (int64_t)(%s);", q, e);
		host_line(h, "%s &= %s >= 0 && %s < p->extent[%d][%d];", inside, q, q, r->param, d);
		host_line(h, "%s += (uint64_t)%s * (uint64_t)p->stride[%d][%d];", at, q, r->param, d);
	}
}

/* Opens the loops over rows; gives the name of what says whether the row is inside. */
static const char *
open_rows(Host *h, Rows *r, const Op *op, const Type *tile)
{
	const IntList *valid = attr_valid(op);
	*r = (Rows){.op = op,
	    .tile = tile,
	    .param = op->in[0]->index,
	    .nd = op->in[0]->type->rank,
	    .letter = attr_index(op)};
	find_gather(r);
	for (int d = 0; d < r->nd; d++)
		r->start[d] = r->letter[d] == 'g' ? ""
						  : arena_printf(h->mem, "(int64_t)(%s)",
							host_scalar(h, op->in[1 + d]));
	clip_inner(h, r);
	const char *all = host_fresh(h, "ok"), *base = put_base(h, r, all),
		   *inside = host_fresh(h, "ok"), *at = host_fresh(h, "at");
	Text row = {0}, g = {0};
	text_put(&row, "0");
	text_put(&g, "0");
	int outer = tile->rank - (r->inner >= 0);
	const char *i[MAX_RANK];
	for (int k = 0; k < outer; k++) {
		i[k] = host_fresh(h, "i");
		host_open(h, "for (int %s = 0; %s < %d; %s++)", i[k], i[k], (int)tile->extent[k], i[k]);
		char *was = text_take(&row, h->mem), *before = text_take(&g, h->mem);
		text_printf(&row, "(%s) * %d + %s", was, (int)tile->extent[k], i[k]);
		if (tensor_dimension(r, k) < 0)
			text_printf(&g, "(%s) * %d + %s", before, (int)tile->extent[k], i[k]);
		else
			text_put(&g, before);
	}
	r->opened = outer;
	host_line(h, "int %s = %s;", inside, all);
	host_line(h, "uint64_t %s = %s;", at, base);
	for (int k = 0; k < outer; k++) {
		int d = tensor_dimension(r, k);
		if (valid)
			host_line(h, "%s &= %s < %d;", inside, i[k], (int)valid->at[k]);
		if (d < 0)
			continue;
		host_line(h, "%s &= tgh_inside(%s, %s, p->extent[%d][%d]);", inside, r->start[d], i[k], r->param, d);
		host_line(h, "%s += (uint64_t)%s * (uint64_t)p->stride[%d][%d];", at, i[k], r->param, d);
	}
	if (r->gather_at >= 0) {
		const char *index = host_fresh(h, "g");
		host_line(h, "const int %s = %s;", index, g.at);
		host_line(h, "(void)%s;", index);       /* not read where every index is one value */
		put_gathers(h, r, index, at, inside);
	}
	r->row = host_fresh(h, "r");
	r->at = at;
	host_line(h, "const int %s = (%s) * %d;", r->row, row.at, r->length);
	if (tile->rank == 0 || op->kind == OP_WRITE)
		host_line(h, "(void)%s;", r->row);      /* not read where the tile is one value */
	text_close(&row);
	text_close(&g);
	return inside;
}

static void
close_rows(Host *h, const Rows *r)
{
	for (int k = 0; k < r->opened; k++)
		host_close(h);
}

static const char *
in_tensor(Host *h, const Rows *r)
{
	return arena_printf(h->mem, "a->address[%d], (int64_t)(%s + (uint64_t)j * (uint64_t)%s)",
	    r->param, r->at, r->stride);
}

/* A braced part of its own, so that names of C end with the op. */
static void
open_part(Host *h, const char *what)
{
	host_open(h, "/* %s */", what);
}

static void
read_tensor(Host *h, const Op *op)
{
	const Value *out = &op->out[0], *fill = op->nin > 1 + op->in[0]->type->rank
						    ? op->in[1 + op->in[0]->type->rank]
						    : NULL;
	const char *dtype = dtype_info[out->type->elem].text;
	Rows r;
	host_declare(h, out);
	open_part(h, "read");
	const char *inside = open_rows(h, &r, op, out->type);
	const char *to = host_to(h, out, arena_printf(h->mem, "%s + j", r.row));
	host_line(h, "const int from = %s ? %s : 0, end = %s ? %s : 0;", inside, r.lo, inside, r.hi);
	const char *const bounds[2][2] = {{"0", "from"}, {"end", arena_printf(h->mem, "%d", r.length)}};
	for (int part = 0; part < 2; part++) {
		host_open(h, "for (int j = %s; j < %s; j++)", bounds[part][0], bounds[part][1]);
		const char *e =
		    fill ? host_at(h, fill,
			       fill->type->rank > 0 ? arena_printf(h->mem, "(%s + j)", r.row) : "0")
			 : "0";
		host_line(h, "%s = %s;", to, e);
		host_close(h);
	}
	host_open(h, "for (int j = from; j < end; j++)");
	host_line(h, "%s = tgh_get_%s(%s);", to, dtype, in_tensor(h, &r));
	host_close(h);
	close_rows(h, &r);
	host_close(h);
}

static void
write_tensor(Host *h, const Op *op)
{
	const Value *tile = op->in[op->nin - 1];
	Rows r;
	open_part(h, "write");
	const char *inside = open_rows(h, &r, op, tile->type);
	host_open(h, "for (int j = %s; %s && j < %s; j++)", r.lo, inside, r.hi);
	const char *e = host_at(h, tile, arena_printf(h->mem, "(%s + j)", r.row));
	host_line(h, "tgh_put_%s((void *)(uintptr_t)%s, %s);", dtype_info[tile->type->elem].text, in_tensor(h, &r), e);
	host_close(h);
	close_rows(h, &r);
	host_close(h);
}

/* ---- atomics ---- */

/* What is in memory afterwards; a compare-and-swap compares bits. */
static const char *
combined(Host *h, const Op *op, DType t, const char *x, const char *y)
{
	static const struct {
		const char *fn;
		OpKind op;
	} ops[] = {{"add", OP_ADD}, {"min", OP_MIN}, {"max", OP_MAX}, {"and", OP_AND}, {"or", OP_OR}, {"xor", OP_XOR}};
	for (int i = 0; i < LEN(ops); i++)
		if (strcmp(ops[i].fn, attr_fn(op)) == 0)
			return host_binary(h, ops[i].op, t, false, "old", x);
	if (strcmp(attr_fn(op), "exchange") == 0)
		return x;
	const char *bits = dtype_is_float(t) ? arena_printf(h->mem, "tgh_bits_%s", dtype_info[t].text) : "";
	return arena_printf(h->mem, "%s(old) == %s(%s) ? (%s) : old", bits, bits, x, y);
}

static void
change(Host *h, const Op *op, const char *where, const char *to, const Value *x, const Value *y, const char *at)
{
	const Type *t = op->out[0].type;
	const char *first = host_at(h, x, at), *second = host_at(h, y, at), *dtype = dtype_info[t->elem].text;
	host_line(h, "const %s old = tgh_get_%s(%s);", host_type(t), dtype, where);
	host_line(h, "tgh_put_%s((void *)(uintptr_t)%s, %s);", dtype, where, combined(h, op, t->elem, first, second));
	host_line(h, "%s = old;", to);
}

static void
atomic(Host *h, const Op *op)
{
	const Value *x = op->in[1 + op->in[0]->type->rank], *y = op->in[op->nin - 1], *out = &op->out[0];
	Rows r;
	host_declare(h, out);
	open_part(h, "atomic");
	const char *inside = open_rows(h, &r, op, out->type);
	host_open(h, "for (int j = 0; j < %d; j++)", r.length);
	const char *at = arena_printf(h->mem, "(%s + j)", r.row), *to = host_to(h, out, at);
	host_open(h, "if (%s && j >= %s && j < %s)", inside, r.lo, r.hi);
	change(h, op, in_tensor(h, &r), to, x, y, at);
	host_close(h);
	host_open(h, "else");
	host_line(h, "%s = 0;", to);
	host_close(h), host_close(h);
	close_rows(h, &r);
	host_close(h);
}

/* ---- pointers ---- */

static const char *
pointer(Host *h, const Value *v, const char *at)
{
	return arena_printf(h->mem, "(void *)(%s), 0", host_at(h, v, at));
}

static void
load(Host *h, const Op *op)
{
	const Value *out = &op->out[0];
	host_declare(h, out);
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(out->type));
	const char *mask = op->nin > 1 ? host_at(h, op->in[1], "i") : "1",
		   *other = op->nin > 2 ? host_at(h, op->in[2], "i") : "0";
	const char *p = pointer(h, op->in[0], "i");
	host_line(h, "%s = (%s) ? tgh_get_%s(%s) : (%s);", host_to(h, out, "i"), mask,
	    dtype_info[out->type->elem].text, p, other);
	host_close(h);
}

static void
store(Host *h, const Op *op)
{
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(op->in[0]->type));
	const char *mask = op->nin > 2 ? host_at(h, op->in[2], "i") : "1", *p = pointer(h, op->in[0], "i");
	const char *e = host_at(h, op->in[1], "i");
	host_open(h, "if (%s)", mask);
	host_line(h, "tgh_put_%s(%s, %s);", dtype_info[op->in[1]->type->elem].text, p, e);
	host_close(h), host_close(h);
}

static void
atomic_pointer(Host *h, const Op *op)
{
	const Value *out = &op->out[0];
	int last = op->nin - 1, masked = attr_masked(op);
	host_declare(h, out);
	host_open(h, "for (int i = 0; i < %d; i++)", (int)type_count(out->type));
	const char *mask = masked ? host_at(h, op->in[last], "i") : "1", *p = pointer(h, op->in[0], "i");
	host_open(h, "if (%s)", mask);
	change(h, op, p, host_to(h, out, "i"), op->in[1], op->in[last - masked], "i");
	host_close(h);
	host_open(h, "else");
	host_line(h, "%s = 0;", host_to(h, out, "i"));
	host_close(h), host_close(h);
}

bool
host_memory(Host *h, const Op *op)
{
	switch (op->kind) {
	case OP_READ: read_tensor(h, op); return true;
	case OP_WRITE: write_tensor(h, op); return true;
	case OP_ATOMIC: atomic(h, op); return true;
	case OP_LOAD: load(h, op); return true;
	case OP_STORE: store(h, op); return true;
	case OP_ATOMIC_PTR: atomic_pointer(h, op); return true;
	default: return false;
	}
}
