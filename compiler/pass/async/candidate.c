/* Which reads of a loop are made in an earlier iteration.
 *
 * A read is staged if a dot of its own loop uses it, through converts, permutes and whatever else computes; if its
 * indices follow from the loop's index and what the loop leaves alone, or are read at such from tensors that nothing writes
 * (rows that K's indices name); if nothing in the loop may write its tensor; and if its layout moves 4, 8 or 16 bytes at
 * once, which is what cp.async copies.  Elements of 4 bits are copied and held in shared memory as they are, two in a byte.
 * In a loop that waits for memory, as products of few rows do, what is done with the product waits too: scales that it is
 * multiplied by are staged alike.
 *
 * Records whose parts begin at odd bytes, as weights in blocks of a scale and some nibbles, are read two bytes at a time.
 * Where an iteration reads whole 16 bytes of each row, of one record or several, these are staged as they are, and each
 * read is a get of its part of them:
 *
 *     %d = read %q, %r, %g, 0 {index = "ppi", extents = [64, 8]} : u8[64, 8]                     %q: u8[N, G, 18]
 *     %c = read %q, %r, %g, 2 {index = "ppp", extents = [64, 8, 16]} : u8[64, 8, 16]
 *  =>
 *     (copied: read %q, %r, 0, 18 %g {index = "pip", merged = [0, 0, 1], extents = [64, 256], valid = [64, 144]})
 *     %d = get %slot {steps = [0, 144, 18]} : u8[64, 8]
 *     %c = get %slot {steps = [2, 144, 18, 1]} : u8[64, 8, 16]
 */
#include "pass/async/pipeline.h"

#include "model/model.h"

#include <string.h>

enum { SLICE_MAX = 4096, FEW_ROWS = 32, CHUNK = 16, RECORDS_BYTES = 64 * 1024 };

bool
pipeline_is_search(const Func *f, const Op *loop, const Block *b)
{
	bool is_search = loop->kind == OP_WHILE;
	for (int r = 0; r < loop->nregion && is_search; r++)
		for (const Op *op = loop->region[r]->first; op; op = op_after(op, loop->region[r])) {
			bool reads = op->kind == OP_READ && !tensor_may_be_written(f, op->in[0], f->body);
			is_search &= op_has(op, PURE) || reads || op->kind == OP_IF || op->kind == OP_YIELD;
			is_search = is_search && ALL_OF(i, op->nin,
						     !value_inside(op->in[i], b) ||
							 value_inside(op->in[i], loop->region[r]));
		}
	return is_search;
}

/* Pure, or a scalar read of what the loop does not write: page tables hold starts. */
static bool
may_run_ahead(const Pipeline *p, const Op *op)
{
	if (op->kind == OP_READ)
		return !tensor_may_be_written(p->f, op->in[0], p->body);
	if (op->nregion)
		return p->f->schedule.specialize == 1 && pipeline_is_search(p->f, op, p->body);
	return op_has(op, PURE);
}

static bool can_shift(const Pipeline *p, const Value *v, int depth);

/* Columns of integers that follow from each other and from what the loop leaves alone, the largest set of them. */
static void
find_counters(Pipeline *p)
{
	bool again = true;
	p->counts = NEW_ARRAY(p->tmp, bool, p->columns);
	for (int i = 0; i < p->columns; i++)
		p->counts[i] = p->loop->out[i].type->kind == TYPE_TILE && p->loop->out[i].type->rank == 0 &&
		    dtype_is_int(p->loop->out[i].type->elem);
	while (again) {
		again = false;
		for (int i = 0; i < p->columns; i++)
			if (p->counts[i] && !can_shift(p, p->body->last->in[i], 16)) {
				p->counts[i] = false;
				again = true;
			}
	}
}

static bool
can_shift(const Pipeline *p, const Value *v, int depth)
{
	if (!value_inside(v, p->body) || v == &p->body->arg[0])
		return true;
	if (!v->def)
		return v->block == p->body && p->counts && p->counts[v->index - 1];
	bool runs = op_has(v->def, PURE) || v->def->kind == OP_READ;
	bool is_tile = v->type->rank > 0 && !(p->counts && runs);
	if (v->def->home != p->body || is_tile || depth == 0 || !may_run_ahead(p, v->def))
		return false;
	return !ANY_OF(i, v->def->nin,
	    v->def->in[i]->type->kind == TYPE_TILE && !can_shift(p, v->def->in[i], depth - 1));
}

int
pipeline_access_bytes(const Op *op)
{
	const Value *v = &op->out[0];
	int64_t n = attr_vector(op), bits = dtype_info[v->type->elem].bits;

	while (n > 1 && (n * bits > 128 || n > INT64_C(1) << v->layout->in[IN_REGISTER]))
		n /= 2;
	return (int)(n * bits / 8);
}

/* Of elements of 4 bits those are staged that each thread reads as whole bytes. */
static bool
has_whole_bytes(const Op *op)
{
	Layout bytes;

	return !dtype_is_packed(op->out[0].type->elem) ||
	    (pipeline_access_bytes(op) > 0 && layout_bytes(op->out[0].layout, &bytes));
}

static bool
is_staged(const Pipeline *p, const Op *op)
{
	const Value *v = &op->out[0];

	if (op->kind != OP_READ || op->home != p->body || !v->layout || !has_whole_bytes(op) ||
	    (v->type->elem == TY_BOOL && p->f->schedule.specialize != 1) ||
	    !access_fill_is_zero(op) || tensor_may_be_written(p->f, op->in[0], p->body))
		return false;
	return ALL_OF(i, op->in[0]->type->rank, can_shift(p, op->in[1 + i], 16)) &&
	    (!p->is_async || pipeline_access_bytes(op) >= COPY_LEAST);
}

/* Adds what v is computed from within the body. */
static void
add_slice(Pipeline *p, Value *v)
{
	if (!v->def || v->def->home != p->body || p->slice.n > SLICE_MAX || v->type->rank == 0)
		return;
	for (int i = 0; i < p->slice.n; i++)
		if (p->slice.at[i] == v->def)
			return;
	vec_push(p->tmp, &p->slice, v->def);
	if (v->def->kind == OP_READ || op_family(v->def) == FAMILY_DOT)
		return;
	for (int i = 0; i < v->def->nin; i++)
		add_slice(p, v->def->in[i]);
}

bool
pipeline_is_stream(const Pipeline *p)
{
	bool has_dot = false;

	for (const Op *op = p->body->first; op; op = op->next) {
		const int64_t *side = op->kind == OP_DOT ? op->out[0].type->extent + op->out[0].type->rank - 2 : NULL;
		if (side && (side[0] == side[1] || MIN(side[0], side[1]) > FEW_ROWS))
			return false;
		has_dot |= side != NULL;
	}
	return has_dot;
}

static bool
in_slice(const Pipeline *p, const Op *op)
{
	return ANY_OF(i, p->slice.n, p->slice.at[i] == op);
}

/* In roles threads read what no tensor map brings for them, rows and gathered elements; other copies would keep the kernel
 * whole. */
static bool
stays_read(const Pipeline *p, const Op *op)
{
	if (p->f->schedule.specialize != 1 || !(p->t->has & HAS_TMA) || warpgroup_reads(p->body, &op->out[0]))
		return false;
	const Type *tile = op->out[0].type;
	bool is_scattered = tile->rank == 1 || strchr(attr_index(op), 'g');
	return is_scattered && (access_map_reason(op, p->t) || (tile->rank == 1 && !pipeline_has_row_slots(tile)));
}

static void
find_slice(Pipeline *p)
{
	for (Op *op = p->body->first; op; op = op->next)
		for (int i = 0; i < (op->kind == OP_DOT ? 2 : op->kind == OP_DOT_SCALED ? 4 : 0); i++)
			add_slice(p, op->in[i]);
}

/* What sums begin with: in roles a tensor map may bring that too, else threads wait for it before each product. */
static void
find_begins(Pipeline *p)
{
	for (Op *op = p->body->first; op; op = op->next)
		if (op->kind == OP_DOT && p->f->schedule.specialize == 1)
			add_slice(p, op->in[2]);
}

void
pipeline_find_reads(Pipeline *p)
{
	bool all = p->is_async && pipeline_is_stream(p);
	Pipeline begins = *p;

	p->columns = p->loop->nout;
	if (p->is_async && p->t->has & HAS_WGMMA)
		find_counters(p);
	find_slice(p);
	find_begins(&begins);
	for (Op *op = p->body->first; op; op = op->next) {
		bool is_tile = op->nout > 0 && op->out[0].type->rank > 0;
		if ((!in_slice(p, op) && !(all && is_tile) && !in_slice(&begins, op)) || !is_staged(p, op))
			continue;
		if (!in_slice(p, op) && !all && (op->out[0].type->rank != 2 || access_map_reason(op, p->t)))
			continue;
		if (stays_read(p, op))
			continue;
		Staged s = {.read = op};
		vec_push(p->tmp, &p->reads, s);
	}
}

/* ---- records ---- */

/* Is the first byte of the records that are read a number of 64 bits, wherever they lie? */
static bool
counts_bytes(const Op *op)
{
	int rank = op->in[0]->type->rank;
	const AxisInfo *x = axis_of(op->in[rank - 1]);
	int64_t far = (INT64_C(1) << 61) / MAX(op->in[0]->type->extent[rank - 1], 1);
	return x->lo >= -far && x->hi <= far;
}

/* Reads of each row's records of the tensor's last dimension, or one of them, and there of some bytes, or one. */
static bool
reads_record(const Pipeline *p, const Op *op)
{
	const Value *tensor = op->kind == OP_READ ? op->in[0] : NULL;
	int rank = tensor ? tensor->type->rank : 0, rows = 0;
	int64_t at;

	if (rank < 3 || op->home != p->body || !op->out[0].layout || dtype_info[op->out[0].type->elem].bits != 8 ||
	    tensor->def || tensor->block->parent || p->f->param[tensor->index].strided || attr_merged(op) ||
	    attr_valid(op) || strchr(attr_index(op), 'g') || !access_fill_is_zero(op) ||
	    tensor_may_be_written(p->f, tensor, p->body))
		return false;
	const char *index = attr_index(op);
	const Type *t = op->out[0].type;
	for (int d = 0; d < rank - 2; d++)
		rows += index[d] == 'p';
	int64_t bytes = index[rank - 1] == 'p' ? t->extent[t->rank - 1] : 1;
	return rows == 1 && counts_bytes(op) && value_int(op->in[rank], &at) && at >= 0 &&
	    at + bytes <= tensor->type->extent[rank - 1] &&
	    ALL_OF(i, rank, can_shift(p, op->in[1 + i], 16));
}

/* Of the same records of the same rows? */
static bool
reads_same_records(const Op *a, const Op *b)
{
	int rank = a->in[0]->type->rank;
	return a->in[0] == b->in[0] && strncmp(attr_index(a), attr_index(b), (size_t)rank - 1) == 0 &&
	    ALL_OF(i, rank - 1, a->in[1 + i] == b->in[1 + i]) &&
	    a->out[0].type->extent[0] == b->out[0].type->extent[0] &&
	    (attr_index(a)[rank - 2] != 'p' || a->out[0].type->extent[1] == b->out[0].type->extent[1]);
}

/* The whole rows of what `op` reads parts of, or NULL: they are not of 16 bytes each that are aligned. */
static Op *
read_rows(Pipeline *p, Op *op, int64_t *pitch)
{
	const Type *tensor = op->in[0]->type;
	int last = tensor->rank - 1;
	const char *letters = attr_index(op);
	bool several = letters[last - 1] == 'p';
	int64_t record = tensor->extent[last], rows = op->out[0].type->extent[0];
	int64_t bytes = record * (several ? op->out[0].type->extent[1] : 1);
	int64_t extent[2] = {rows, INT64_C(1) << log2_ceil(bytes)}, valid[2] = {rows, bytes};
	int64_t merged[MAX_RANK] = {0}, inside[MAX_RANK] = {0};
	char index[MAX_RANK + 1] = {0};
	Value *in[1 + MAX_RANK];
	const IntList *known = attr_inside(op);

	*pitch = bytes / CHUNK % 2 ? bytes : bytes + CHUNK;     /* eight rows' equal bytes are in different banks */
	if (bytes % CHUNK || rows * *pitch > RECORDS_BYTES)
		return NULL;
	Builder b = build_before(op);
	memcpy(in, op->in, sizeof *in * (size_t)(1 + last));
	memcpy(index, letters, (size_t)last);
	in[last] = build_index(&b, 0);
	in[last + 1] = build2(&b, OP_MUL, op->in[last], build_index(&b, record));
	index[last - 1] = 'i';
	index[last] = 'p';
	merged[last] = 1;
	for (int d = 0; d <= last && known; d++)
		inside[d] = d == last - 1 || known->at[d == last ? last - 1 : d];
	Attr attr[] = {attr_new_index(p->m, intern(p->m->cx->names, index)), attr_new_extents(p->m, extent, 2),
	    attr_new_merged(p->m, merged, tensor->rank), attr_new_valid(p->m, valid, 2),
	    attr_new_inside(p->m, inside, tensor->rank)};
	Op *all = op_make(&b, OP_READ, in, 1 + tensor->rank, attr, LEN(attr), NULL, 0);
	int shape[LAYOUT_RANK] = {log2_ceil(rows), log2_ceil(extent[1])}, order[LAYOUT_RANK] = {1, 0};
	Layout l = layout_coalesced(2, shape, order, log2_ceil(CHUNK), log2_ceil(p->t->lanes),
	    log2_ceil(MAX(p->f->schedule.warps, 1)));
	all->out[0].layout = layout_intern(p->m, &l);
	attr_set_vector(p->m, all, access_vector(all, all->out[0].layout, p->t));
	if (pipeline_access_bytes(all) == CHUNK)
		return all;
	op_erase(all);
	return NULL;
}

/* What reads parts of the records that `first` does: their rows, and each as a part of them. */
static void
stage_records(Pipeline *p, Op *first)
{
	int rank = first->in[0]->type->rank;
	int64_t record = first->in[0]->type->extent[rank - 1], pitch;
	Op *rows = read_rows(p, first, &pitch);

	if (!rows)
		return;
	int n = 0;
	for (int i = 0; i < p->reads.n; i++)
		if (!reads_same_records(p->reads.at[i].read, first))
			p->reads.at[n++] = p->reads.at[i];
	p->reads.n = n++;
	vec_push(p->tmp, &p->reads, ((Staged){.read = rows, .pitch = pitch}));
	for (Op *op = first; op; op = op->next) {
		if (!reads_record(p, op) || !reads_same_records(op, first))
			continue;
		Staged s = {.read = op, .of = n, .step = {[1] = pitch}};
		int k = 2;
		value_int(op->in[rank], &s.step[0]);
		if (attr_index(op)[rank - 2] == 'p')
			s.step[k++] = record;
		if (attr_index(op)[rank - 1] == 'p')
			s.step[k] = 1;
		vec_push(p->tmp, &p->reads, s);
	}
}

/* Reads of products' operands by fewer than 4 bytes, with whatever else reads of the same records. */
void
pipeline_find_records(Pipeline *p)
{
	bool all = pipeline_is_stream(p);

	if (!p->is_async || p->f->schedule.specialize == 1)
		return;
	for (Op *op = p->body->first; op; op = op->next)
		if ((all || in_slice(p, op)) && reads_record(p, op) && pipeline_access_bytes(op) < COPY_LEAST &&
		    !ANY_OF(i, p->reads.n, p->reads.at[i].read == op)) {
			Op *first = op;
			for (Op *at = p->body->first; first == op && at != op; at = at->next)
				if (reads_record(p, at) && reads_same_records(at, op))
					first = at;
			stage_records(p, first);
		}
}

void
pipeline_drop_records(Pipeline *p)
{
	int n = 0;
	for (int i = 0; i < p->reads.n; i++) {
		const Staged *s = &p->reads.at[i];
		if (s->pitch)
			op_erase(s->read);
		else if (!s->of)
			p->reads.at[n++] = *s;
	}
	p->reads.n = n;
}

/* ---- tensors that stay ---- */

bool
pipeline_is_fixed(const Pipeline *p, const Staged *s)
{
	return p->f->param[s->read->in[0]->index].is_constant;
}

/* Are the indices computed without memory, for any iteration? */
static bool
is_computed(const Pipeline *p, const Value *v, int depth)
{
	if (v->type->kind != TYPE_TILE || !v->def || v == &p->body->arg[0])
		return true;
	if (depth == 0 || !op_has(v->def, PURE) || v->def->nregion)
		return false;
	return ALL_OF(i, v->def->nin, is_computed(p, v->def->in[i], depth - 1));
}

bool
pipeline_starts_early(const Pipeline *p)
{
	bool any = false;

	if (!(p->t->has & HAS_GRID_WAIT) || p->bulk_bytes || p->loop->home != p->f->body || !pipeline_is_stream(p))
		return false;
	if (p->counts && ANY_OF(i, p->columns, p->counts[i]))
		return false;
	for (const Op *op = p->f->body->first; op != p->loop; op = op_after(op, p->f->body))
		if (op->kind != OP_ALLOC && op_has(op, READS | WRITES | EFFECT))
			return false;
	for (int i = 0; i < p->reads.n; i++) {
		const Op *read = p->reads.at[i].read;
		bool fixed = pipeline_is_fixed(p, &p->reads.at[i]);
		any |= fixed;
		for (int k = 1; k < read->nin && fixed; k++)
			if (!is_computed(p, read->in[k], 16))
				return false;
	}
	return any;
}
