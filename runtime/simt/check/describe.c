/* Findings in the words of the source: the program, warp and lane of an access, which element of which tensor or tile.
 * Programs are numbered as lowering deals them out (lower.c's find_program). */
#include "runtime/simt/check/check.h"

#include "model/model.h"
#include "runtime/tensor/strided.h"

#include <inttypes.h>

/* ---- programs and accesses ---- */

static void
find_program(const SimtLaunch *l, int64_t at, int64_t program[MAX_AXES])
{
	int n = l->func->naxis;
	int64_t group = l->func->schedule.group;
	const int64_t *grid = l->grid;
	if (group > 1 && n >= 2) {
		int64_t rows = MIN(group, grid[0]), plane = grid[0] * grid[1], inside = at % plane, whole = rows * grid[1];
		int64_t first = inside / whole * rows, height = MIN(grid[0] - first, rows), rest = inside % whole;
		program[0] = first + rest % height;
		program[1] = rest / height;
		program[2] = at / plane;
		return;
	}
	for (int d = 0; d < n; d++) {
		program[d] = d + 1 < n ? at % grid[d] : at;
		at /= MAX(grid[d], 1);
	}
}

/* "program (1, 0)" */
static void
program_words(const SimtLaunch *l, int64_t block, char *out, size_t size)
{
	int64_t at[MAX_AXES] = {0};
	bool is_one = l->func && !l->func->schedule.persistent && l->func->schedule.share <= 1;
	if (!is_one || l->func->naxis == 0 || l->grid[0] <= 0) {
		snprintf(out, size, "block %" PRId64, block);
		return;
	}
	find_program(l, block / MAX(l->func->schedule.split, 1), at);
	if (l->func->naxis == 1)
		snprintf(out, size, "program %" PRId64, at[0]);
	else if (l->func->naxis == 2)
		snprintf(out, size, "program (%" PRId64 ", %" PRId64 ")", at[0], at[1]);
	else
		snprintf(out, size, "program (%" PRId64 ", %" PRId64 ", %" PRId64 ")", at[0], at[1], at[2]);
}

static const char *
verb(unsigned access, bool past)
{
	if (access & SIMT_ATOMIC)
		return past ? "updated it atomically" : "updates it atomically";
	if ((access & SIMT_ASYNC) && (access & SIMT_WRITE))
		return past ? "had it copied" : "has it copied";
	if (access & SIMT_WRITE)
		return past ? "wrote it" : "writes it";
	if (access & SIMT_TENSOR)
		return past ? "had it read" : "has it read";
	return past ? "read it" : "reads it";
}

const char *
access_noun(unsigned access)
{
	if (access & SIMT_ATOMIC)
		return "an atomic operation";
	if ((access & SIMT_ASYNC) && (access & SIMT_WRITE))
		return access & SIMT_TENSOR ? "a bulk copy" : "an asynchronous copy";
	if (access & SIMT_WRITE)
		return "a write";
	if (access & SIMT_ASYNC)
		return "a matrix instruction's or copy's read";
	return "a read";
}

/* "program (0, 1), warp 2, lane 5 writes it here" */
void
describe_access(const SimtLaunch *l, const CheckAccess *p, bool past, char *out, size_t size)
{
	char program[64];
	program_words(l, p->block, program, sizeof program);
	if (p->thread < 0)
		snprintf(out, size, "%s: a copy %s here", program, past ? "wrote it" : "writes it");
	else
		snprintf(out, size, "%s, warp %d, lane %d %s here", program, p->thread / SIMT_LANES, p->thread % SIMT_LANES,
		    verb(p->access, past));
}

/* ---- memory ---- */

int
describe_index(const int64_t *at, int rank, char *out, size_t size)
{
	int n = snprintf(out, size, "[");
	for (int d = 0; d < rank; d++)
		n += snprintf(out + n, (size_t)MAX((int)size - n, 0), "%s%" PRId64, d ? ", " : "", at[d]);
	return n + snprintf(out + n, (size_t)MAX((int)size - n, 0), "]");
}

static int64_t
smem_bytes(const Op *op, const Target *t)
{
	if (!op_attr(op, ATTR_SMEM))
		return 0;
	bool is_buffer = op->kind == OP_ALLOC || op->kind == OP_MBARRIER;
	return is_buffer ? buffer_slot_bytes(op) * op->out[0].type->slots : plan_op(op, t).scratch;
}

/* The op that owns the shared memory: one at one of the two places in the source, before one that merely has room there. */
static const Op *
owner(const SimtLaunch *l, uint32_t offset, Place a, Place b)
{
	const Op *found = NULL;
	for (const Op *op = l->func ? l->func->body->first : NULL; op; op = op_after(op, l->func->body)) {
		int64_t from = attr_smem(op), n = smem_bytes(op, l->target);
		if (n == 0 || offset < from || offset >= from + n)
			continue;
		if (same_place(op->place, a) || same_place(op->place, b))
			return op;
		if (!found || op->kind == OP_ALLOC)
			found = op;
	}
	return found;
}

/* What the copies into a buffer are of, or the tile that is put there. */
static const char *
buffer_name(const Value *buffer)
{
	const Func *f = buffer->block->func;
	if (buffer->name)
		return buffer->name;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Value *slot = op->kind == OP_COPY ? op->in[1 + op->in[0]->type->rank]
		    : op->kind == OP_PUT ? op->in[0] : NULL;
		if (slot && slot->def && slot->def->kind == OP_SLOT)
			slot = slot->def->in[0];
		if (slot != buffer)
			continue;
		const Value *v = op->kind == OP_COPY ? op->in[0] : op->in[1];
		return !v->def && !v->block->parent ? f->param[v->index].name : v->name;
	}
	return NULL;
}

static const char *
op_name(const Op *op)
{
	if (op->nout && op->out[0].name)
		return op->out[0].name;
	return VALUE_OF(i, op->nin, op->in[i]->name, op->in[i]->name, NULL);
}

static void
buffer_words(const Op *op, int64_t byte, char *out, size_t room)
{
	const Value *v = &op->out[0];
	const Type *t = v->type;
	const char *name = buffer_name(v);
	int64_t count = MAX(type_count(t), 1), size = t->elem == TY_BOOL ? 1 : dtype_bytes(t->elem, 1);
	int64_t i = byte / MAX(size, 1), at[KERNEL_RANK];
	uint64_t index = (uint64_t)(i % count);
	char element[64];
	if (v->layout)
		index = f2_apply(&v->layout->map, index);
	for (int d = t->rank - 1; d >= 0; d--) {
		at[d] = (int64_t)index % t->extent[d];
		index /= (uint64_t)t->extent[d];
	}
	describe_index(at, t->rank, element, sizeof element);
	const char *format = name ? "the tile of '%s', element %s" : "a tile%s, element %s";
	int n = snprintf(out, room, format, name ? name : "", element);
	if (t->slots > 1 && n < (int)room)
		snprintf(out + n, room - (size_t)n, " of slot %" PRId64, i / count);
}

void
describe_shared(const SimtLaunch *l, uint32_t offset, Place a, Place b, char *out, size_t size)
{
	const Op *op = owner(l, offset, a, b);
	if (!op) {
		snprintf(out, size, "byte %u", offset);
		return;
	}
	int64_t byte = offset - attr_smem(op);
	if (op->kind == OP_ALLOC) {
		buffer_words(op, byte, out, size);
		return;
	}
	if (op->kind == OP_MBARRIER) {
		snprintf(out, size, "mbarrier %" PRId64, byte / 8);
		return;
	}
	const char *name = op_name(op);
	const char *format = name ? "byte %" PRId64 " of what %s of '%s' keeps there"
				  : "byte %" PRId64 " of what %s%s keeps there";
	snprintf(out, size, format, byte, op_info[op->kind].text, name ? name : "");
}

/* The element at an address, which may be anything. */
int64_t
element_of(const SimtRange *r, uint64_t address)
{
	int64_t byte = (int64_t)(address - r->first), width = dtype_info[r->dtype].bits / 8;
	if (width == 0) /* two in a byte; so far off that doubling overflows, any number will do */
		return byte > INT64_MAX / 2 ? INT64_MAX : byte < INT64_MIN / 2 ? INT64_MIN : 2 * byte;
	return byte / width - (byte % width < 0);
}

void
describe_global(const SimtRange *r, uint64_t address, char *out, size_t size)
{
	int64_t at[KERNEL_RANK] = {0}, element = element_of(r, address);
	char index[64];
	if (r->rank && strided_find(r->rank, r->dim, r->stride, element, at)) {
		describe_index(at, r->rank, index, sizeof index);
		snprintf(out, size, "'%s', element %s", r->name ? r->name : "memory", index);
	} else {
		snprintf(out, size, "'%s', element %" PRId64, r->name ? r->name : "memory", element);
	}
}
