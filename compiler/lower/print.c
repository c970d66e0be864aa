/* print: one line by the block's first thread.
 *
 *     program (1, 2): text 3 4.5 [0, 1, 2, ..., 29, 30, 31]
 *
 * Of a tile the line shows what the cpu device shows: all of a dimension of 16 elements, of a longer one three at each
 * end.  The threads that hold those elements leave them in the op's scratch, one after the other, and the first thread
 * reads them after a barrier.  Extents are those before padding ({valid}). */
#include "lower/lower.h"

enum { SHOWN_MAX = 1024 };

/* ---- elements on their way to the first thread ---- */

/* Of register r: the element's number among those shown; *mask: whether it is shown, 0: it is. */
static Reg
number_of(Lower *l, const Op *op, int i, int r, Reg *mask)
{
	const Value *v = op->in[i];
	const int64_t *extent = print_extents(op, i);
	Reg sum = lower_i32(l, 0);
	*mask = 0;
	for (int d = 0; d < v->type->rank; d++) {
		int64_t add, n = extent[d];
		Reg c = lower_coordinate(l, v->layout, r, d, &add);
		c = lower_op2(l, THREAD_ADD, c, lower_i32(l, add));
		if (n > PRINT_SHORT) {
			Reg head = lower_op2(l, THREAD_SLT, c, lower_i32(l, PRINT_EDGE));
			Reg tail = lower_op2(l, THREAD_SLE, lower_i32(l, n - PRINT_EDGE), c);
			tail = lower_both(l, tail, lower_op2(l, THREAD_SLT, c, lower_i32(l, n)));
			*mask = lower_both(l, *mask, lower_op2(l, THREAD_OR, head, tail));
			c = lower_op3(l, THREAD_SELECT, head, c,
			    lower_op2(l, THREAD_SUB, c, lower_i32(l, n - 2 * PRINT_EDGE)));
		} else if (n != v->type->extent[d]) {
			*mask = lower_both(l, *mask, lower_op2(l, THREAD_SLT, c, lower_i32(l, n)));
		}
		sum = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, sum, lower_i32(l, print_shown_along(n))), c);
	}
	return sum;
}

static void
leave(Lower *l, const Op *op, int i, Reg scratch, int64_t at)
{
	const Value *v = op->in[i];
	RegType t = lower_type(v->type);
	uint64_t repeats = lower_repeats(v->layout);
	Reg first = lower_is_first_holder(l, v->layout);
	for (int r = 0; r < lower_count(v); r++) {
		Reg mask = 0, n = lower_i32(l, 0), x = lower_regs(l, v)[r];
		if ((uint64_t)r & repeats)
			continue;
		if (v->layout)
			n = number_of(l, op, i, r, &mask);
		x = lower_to_memory(l, t, x);
		ThreadAccess to = lower_shared_access(scratch, t);
		to.constant = at;
		to.offset = lower_op2(l, THREAD_MUL, n, lower_i32(l, to.align));
		to.mask = lower_both(l, first, mask);
		thread_store(l->b, &to, &x);
	}
}

/* ---- the line ---- */

typedef struct Line {
	Lower *l;
	const Op *op;
	Text format;
	VEC(Reg) value;
	Reg scratch;
	int64_t at;                                     /* of the next element in scratch */
} Line;

/* A text as part of a format. */
static void
put_text(Text *out, const char *s)
{
	for (; *s; s++)
		text_printf(out, *s == '%' ? "%%%%" : "%c", *s);
}

static void
put_value(Line *line, const Type *type, Reg r)
{
	Lower *l = line->l;
	DType t = type->elem;
	const char *how = dtype_is_signed(t) ? "%lld" : "%llu";
	if (type->ptr != PTR_NONE) {
		how = "0x%llx";
		r = lower_as(l, CAST_BITS, REG_I64, r);
	} else if (dtype_is_float(t)) {
		how = t == TY_F64 ? "%.17g" : t == TY_F32 ? "%.9g" : "%.5g";
		r = lower_cast_one(l, t, TY_F64, r);
	} else if (t == TY_BOOL) {
		how = "%s";
	} else {
		r = lower_cast_one(l, t, dtype_is_signed(t) ? TY_I64 : TY_U64, r);
	}
	text_put(&line->format, how);
	vec_push(l->mem, &line->value, r);
}

static void
put_element(Line *line, const Type *t)
{
	RegType r = lower_type(t);
	put_value(line, t, lower_read_element(line->l, line->scratch, r, 0, line->at));
	line->at += thread_type_bytes(r);
}

static void
put_dimension(Line *line, const Type *t, const int64_t *extent, int d)
{
	if (d == t->rank) {
		put_element(line, t);
		return;
	}
	text_put(&line->format, "[");
	for (int64_t i = 0; i < print_shown_along(extent[d]); i++) {
		text_put(&line->format, i ? ", " : "");
		text_put(&line->format, i == PRINT_EDGE && extent[d] > PRINT_SHORT ? "..., " : "");
		put_dimension(line, t, extent, d + 1);
	}
	text_put(&line->format, "]");
}

static void
put_program(Line *line)
{
	Lower *l = line->l;
	int axes = MAX(l->f->naxis, 1);
	text_put(&line->format, axes > 1 ? "program (" : "program ");
	for (int d = 0; d < axes; d++) {
		text_put(&line->format, d ? ", %lld" : "%lld");
		vec_push(l->mem, &line->value, l->program[d] ? l->program[d] : lower_i64(l, 0));
	}
	text_put(&line->format, axes > 1 ? "): " : ": ");
}

static void
put_line(Line *line)
{
	const Op *op = line->op;
	int64_t start = 0;
	put_program(line);
	put_text(&line->format, attr_text(op));
	for (int i = 0; i < op->nin; i++) {
		const Type *t = op->in[i]->type;
		text_put(&line->format, " ");
		line->at = start;
		if (t->rank > 0)
			put_dimension(line, t, print_extents(op, i), 0);
		else
			put_value(line, t, lower_regs(line->l, op->in[i])[0]);
		start += print_bytes(op, i);
	}
	text_put(&line->format, "\n");
}

static bool
can_print(Lower *l, const Op *op)
{
	int64_t n = SUM_OF(int64_t, i, op->nin, print_shown(op, i));
	if (!(l->t->has & HAS_PRINTF))
		lower_refuse(l, op, "print");
	else if (n > SHOWN_MAX)
		lower_refuse(l, op, "printing more than 1024 elements at once");
	return l->t->has & HAS_PRINTF && n <= SHOWN_MAX;
}

void
lower_print(Lower *l, Op *op)
{
	Line line = {.l = l, .op = op};
	int64_t at = 0;
	if (!can_print(l, op))
		return;
	if (plan_op(op, l->t).scratch > 0)
		line.scratch = lower_scratch(l, op);
	for (int i = 0; i < op->nin; at += print_bytes(op, i), i++)
		if (op->in[i]->type->rank > 0)
			leave(l, op, i, line.scratch, at);
	if (line.scratch)
		lower_barrier(l);
	lower_when(l, lower_is_first_holder(l, NULL));
	put_line(&line);
	thread_print(l->b, arena_strdup(l->mem, line.format.at), line.value.at, line.value.n);
	text_close(&line.format);
	lower_end_when(l);
}
