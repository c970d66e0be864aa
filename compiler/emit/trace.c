/* The emitter that prints: one line a call, structured control indented.  It needs no LLVM and no GPU, so what lowering
 * asks for is compared as text.
 *
 *     kernel @k(r1: global readonly align 16 x, r2: i32 n) threads 128 shared 0 {
 *         r3: i32 = thread
 *         r4: i32 = mul r3, 4
 *         r5, r6: f32 = load.global [r1 + r4 + 16] align 8 where r7
 *         r8: i32, r9: f32 = loop 0 .. r2 step 1 (r5) {
 *             r10: f32 = fadd r9, r6
 *         } r11: f32 = next (r10)
 *     }
 *
 * Constants stand where they are used and take no number, so that numbers change only with what is computed. */
#include "emit/emit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct TraceReg {
	RegType type;
	int number;                                     /* as printed; 0: a constant */
	const char *text;                               /* of a constant */
} TraceReg;

typedef struct Trace {
	Text *out;
	int indent, numbers;
	VEC(TraceReg) reg;                              /* by Reg - 1 */
	VEC(RegType) carried;                           /* types of what open loops carry, innermost last */
	VEC(int) ncarried;
	int line, col;
} Trace;

static const char *const cast_text[] = {
    "sext", "zext", "trunc", "s2f", "u2f", "f2s", "f2u", "fext", "ftrunc", "bits"};
static const char *const cache_text[] = {"", " stream", " keep", " readonly", " volatile"};
static const char *const space_text[] = {"global", "shared", "param"};
static const char *const atomic_text[] = {
    "add", "min", "max", "umin", "umax", "and", "or", "xor", "exchange", "cas"};
static const char *const order_text[] = {"relaxed", "acquire", "release", "acq_rel"};
static const char *const scope_text[] = {"gpu", "cta", "cluster", "sys"};

static Trace *
state(const Emitter *e)
{
	return e->state;
}

static Reg
add(Emitter *e, RegType type, const char *constant)
{
	Trace *t = state(e);
	vec_push(e->mem, &t->reg, ((TraceReg){type, constant ? 0 : ++t->numbers, constant}));
	return t->reg.n;
}

static void
start(Trace *t)
{
	for (int i = 0; i < t->indent; i++)
		text_put(t->out, "    ");
}

/* A use. */
static void
use(Trace *t, Reg r)
{
	if (r <= 0 || r > t->reg.n)
		die("register %d was never given out", r);
	const TraceReg *reg = &t->reg.at[r - 1];
	if (reg->number)
		text_printf(t->out, "r%d", reg->number);
	else
		text_put(t->out, reg->text);
}

static void
uses(Trace *t, const Reg *v, int n)
{
	for (int i = 0; i < n; i++) {
		text_put(t->out, i ? ", " : "");
		use(t, v[i]);
	}
}

/* New registers with their types: "r5, r6: f32". */
static void
results(Trace *t, const Reg *v, int n)
{
	for (int i = 0; i < n; i++) {
		bool last = i + 1 == n || t->reg.at[v[i + 1] - 1].type != t->reg.at[v[i] - 1].type;
		use(t, v[i]);
		if (last)
			text_printf(t->out, ": %s", reg_type_text[t->reg.at[v[i] - 1].type]);
		text_put(t->out, i + 1 < n ? ", " : "");
	}
}

static void
put_lower(Trace *t, const char *s)
{
	for (; *s; s++)
		text_printf(t->out, "%c", char_lower(*s));
}

/* kernels */

static void
kernel_begin(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared)
{
	Trace *t = state(e);
	e->kernel = *k;
	text_printf(t->out, "kernel @%s(", k->name);
	for (int i = 0; i < k->nparam; i++) {
		const EmitParam *p = &k->param[i];
		param[i] = add(e, p->type, NULL);
		text_put(t->out, i ? ", " : "");
		results(t, &param[i], 1);
		text_put(t->out, p->is_read_only ? " readonly" : "");
		text_put(t->out, p->is_aliased ? " aliased" : "");
		if (p->align)
			text_printf(t->out, " align %d", p->align);
		text_printf(t->out, " %s", p->name);
	}
	text_printf(t->out, ") threads %d", k->threads);
	if (k->min_blocks)
		text_printf(t->out, " resident %d", k->min_blocks);
	*shared = add(e, REG_SHARED, "shared");
	text_printf(t->out, " shared %d {\n", k->shared_bytes);
	t->indent++;
}

static void
kernel_end(Emitter *e)
{
	Trace *t = state(e);
	if (--t->indent != 0)
		die("kernel_end inside a region");
	text_put(t->out, "}\n");
}

static void
place(Emitter *e, Place at)
{
	Trace *t = state(e);
	if (at.file < 0 || (at.line == t->line && at.col == t->col))
		return;
	t->line = at.line;
	t->col = at.col;
	start(t);
	text_printf(t->out, "@%d:%d\n", at.line, at.col);
}

static void
name(Emitter *e, Reg r, const char *hint)
{
	(void)e, (void)r, (void)hint;                   /* numbers do */
}

/* values */

static Reg
int_const(Emitter *e, RegType type, int64_t v)
{
	if (type == REG_PRED)
		return add(e, type, v & 1 ? "true" : "false");
	return add(e, type, arena_printf(e->mem, "%lld", (long long)v));
}

static Reg
float_const(Emitter *e, RegType type, double v)
{
	if (isnan(v) || isinf(v))
		return add(e, type, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
	char *s = arena_printf(e->mem, "%.9g", v);
	if (type == REG_F64)
		s = arena_printf(e->mem, "%.17g", v);
	return add(e, type, strpbrk(s, ".e") ? s : arena_printf(e->mem, "%s.0", s));
}

static RegType
type(Emitter *e, Reg r)
{
	return state(e)->reg.at[r - 1].type;
}

static RegType
result_type(Emitter *e, EmitOp op, Reg a, Reg b)
{
	if (op >= EMIT_EQ && op <= EMIT_FUNO)
		return REG_PRED;
	if (op == EMIT_SELECT)
		return type(e, b);
	return type(e, a);
}

static Reg
emit_op(Emitter *e, EmitOp op, Reg a, Reg b, Reg c)
{
	Trace *t = state(e);
	const Reg in[3] = {a, b, c};
	Reg r = add(e, result_type(e, op, a, b), NULL);
	start(t);
	results(t, &r, 1);
	text_put(t->out, " = ");
	put_lower(t, emit_op_text[op]);
	text_put(t->out, " ");
	uses(t, in, emit_op_operands[op]);
	text_put(t->out, "\n");
	return r;
}

static Reg
cast(Emitter *e, EmitCast c, RegType to, Reg a)
{
	Trace *t = state(e);
	Reg r = add(e, to, NULL);
	start(t);
	results(t, &r, 1);
	text_printf(t->out, " = %s ", cast_text[c]);
	use(t, a);
	text_put(t->out, "\n");
	return r;
}

static Reg
pack(Emitter *e, const Reg *v, int n)
{
	Trace *t = state(e);
	Reg r = add(e, REG_I32, NULL);
	start(t);
	results(t, &r, 1);
	text_put(t->out, " = pack ");
	uses(t, v, n);
	text_put(t->out, "\n");
	return r;
}

static void
unpack(Emitter *e, Reg word, RegType to, Reg *out, int n)
{
	Trace *t = state(e);
	for (int i = 0; i < n; i++)
		out[i] = add(e, to, NULL);
	start(t);
	results(t, out, n);
	text_put(t->out, " = unpack ");
	use(t, word);
	text_put(t->out, "\n");
}

static Reg
lookup(Emitter *e, RegType to, const int64_t *bits, int n, Reg index)
{
	Trace *t = state(e);
	Reg r = add(e, to, NULL);
	start(t);
	results(t, &r, 1);
	text_put(t->out, " = lookup ");
	use(t, index);
	text_put(t->out, " {");
	for (int i = 0; i < n; i++)
		text_printf(t->out, "%s%lld", i ? ", " : "", (long long)bits[i]);
	text_put(t->out, "}\n");
	return r;
}

/* memory */

static void
address(Trace *t, const EmitAccess *at)
{
	text_put(t->out, "[");
	use(t, at->base);
	if (at->offset) {
		text_put(t->out, " + ");
		use(t, at->offset);
	}
	if (at->constant)
		text_printf(t->out, " %c %lld", at->constant < 0 ? '-' : '+', llabs((long long)at->constant));
	text_put(t->out, "]");
	if (at->align)
		text_printf(t->out, " align %d", at->align);
	text_put(t->out, cache_text[at->cache]);
	if (at->mask) {
		text_put(t->out, " where ");
		use(t, at->mask);
	}
	text_put(t->out, "\n");
}

static void
load(Emitter *e, const EmitAccess *at, Reg *out)
{
	Trace *t = state(e);
	for (int i = 0; i < at->n; i++)
		out[i] = add(e, at->type, NULL);
	start(t);
	results(t, out, at->n);
	text_printf(t->out, " = load.%s ", space_text[at->space]);
	address(t, at);
}

static void
store(Emitter *e, const EmitAccess *at, const Reg *v)
{
	Trace *t = state(e);
	start(t);
	text_printf(t->out, "store.%s.%s ", space_text[at->space], reg_type_text[at->type]);
	uses(t, v, at->n);
	text_put(t->out, ", ");
	address(t, at);
}

static Reg
atomic(Emitter *e, AtomicKind k, const EmitAccess *at, Reg v, Reg compare)
{
	Trace *t = state(e);
	Reg r = add(e, at->n == 1 ? at->type : REG_I32, NULL);
	start(t);
	results(t, &r, 1);
	text_printf(t->out, " = atomic.%s.%s.%s.%s ", atomic_text[k], order_text[at->order],
	    scope_text[at->scope], space_text[at->space]);
	if (compare) {
		use(t, compare);
		text_put(t->out, ", ");
	}
	use(t, v);
	text_put(t->out, ", ");
	address(t, at);
	return r;
}

static Reg
pointer(Emitter *e, Reg base, Reg offset)
{
	Trace *t = state(e);
	Reg r = add(e, type(e, base), NULL);
	start(t);
	results(t, &r, 1);
	text_put(t->out, " = pointer ");
	uses(t, (Reg[]){base, offset}, 2);
	text_put(t->out, "\n");
	return r;
}

/* control */

static void
open_carried(Emitter *e, const Reg *init, int n)
{
	Trace *t = state(e);
	for (int i = 0; i < n; i++)
		vec_push(e->mem, &t->carried, type(e, init[i]));
	vec_push(e->mem, &t->ncarried, n);
}

static void
close_carried(Emitter *e, Reg *after, int n)
{
	Trace *t = state(e);
	if (t->ncarried.n == 0 || vec_pop(&t->ncarried) != n)
		die("a region ends with %d carried values, but began with another number", n);
	t->carried.n -= n;
	for (int i = 0; i < n; i++)
		after[i] = add(e, t->carried.at[t->carried.n + i], NULL);
}

static void
list(Trace *t, const char *word, const Reg *v, int n)
{
	text_printf(t->out, "%s(", word);
	uses(t, v, n);
	text_put(t->out, ")");
}

static Reg
loop_begin(Emitter *e, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n)
{
	Trace *t = state(e);
	Reg index = add(e, type(e, lo), NULL);
	open_carried(e, init, n);
	for (int i = 0; i < n; i++)
		inside[i] = add(e, type(e, init[i]), NULL);
	start(t);
	results(t, &index, 1);
	text_put(t->out, n ? ", " : "");
	results(t, inside, n);
	text_put(t->out, " = loop ");
	use(t, lo);
	text_put(t->out, " .. ");
	use(t, hi);
	text_put(t->out, " step ");
	use(t, step);
	list(t, " ", init, n);
	text_put(t->out, " {\n");
	t->indent++;
	return index;
}

/* "} r11: f32 = next (r10)" */
static void
region_end(Emitter *e, const char *word, const Reg *v, Reg *after, int n)
{
	Trace *t = state(e);
	close_carried(e, after, n);
	t->indent--;
	start(t);
	text_put(t->out, n ? "} " : "}");
	results(t, after, n);
	if (n)
		list(t, word, v, n);
	text_put(t->out, "\n");
}

static void
loop_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	region_end(e, " = next ", next, after, n);
}

static void
while_begin(Emitter *e, const Reg *init, Reg *inside, int n)
{
	Trace *t = state(e);
	open_carried(e, init, n);
	for (int i = 0; i < n; i++)
		inside[i] = add(e, type(e, init[i]), NULL);
	start(t);
	results(t, inside, n);
	text_put(t->out, n ? " = " : "");
	list(t, "while ", init, n);
	text_put(t->out, " {\n");
	t->indent++;
}

static void
while_test(Emitter *e, Reg pred)
{
	Trace *t = state(e);
	t->indent--;
	start(t);
	text_put(t->out, "} test ");
	use(t, pred);
	text_put(t->out, " {\n");
	t->indent++;
}

static void
while_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	region_end(e, " = next ", next, after, n);
}

static void
if_begin(Emitter *e, Reg pred)
{
	Trace *t = state(e);
	start(t);
	text_put(t->out, "if ");
	use(t, pred);
	text_put(t->out, " {\n");
	t->indent++;
}

static void
if_else(Emitter *e, const Reg *then, int n)
{
	Trace *t = state(e);
	open_carried(e, then, n);
	t->indent--;
	start(t);
	text_put(t->out, "} ");
	if (n)
		list(t, "gives ", then, n);
	text_put(t->out, n ? " else {\n" : "else {\n");
	t->indent++;
}

static void
if_end(Emitter *e, const Reg *otherwise, Reg *after, int n)
{
	region_end(e, " = gives ", otherwise, after, n);
}

static void
trap(Emitter *e)
{
	start(state(e));
	text_put(state(e)->out, "trap\n");
}

/* warps and blocks */

static void
prim(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	Trace *t = state(e);
	const PrimInfo *info = &prim_info[k];
	if (nin != info->nin || nout != info->nout)
		die("%s takes %d and gives %d, not %d and %d", info->text, info->nin, info->nout, nin, nout);
	Reg *from = NEW_ARRAY(e->mem, Reg, nin);        /* a result may stand where an operand stood */
	for (int i = 0; i < nin; i++)
		from[i] = in[i];
	for (int i = 0; i < nout; i++)
		out[i] = add(e, prim_result(k), NULL);
	start(t);
	results(t, out, nout);
	text_printf(t->out, "%s%s", nout ? " = " : "", info->text);
	for (int i = 0; i < nimm; i++)
		text_printf(t->out, ".%lld", (long long)imm[i]);
	text_put(t->out, nin ? " " : "");
	uses(t, from, nin);
	text_put(t->out, "\n");
}

static void
inline_ptx(Emitter *e, const char *text, const Reg *in, int nin, const RegType *types, Reg *out, int nout)
{
	Trace *t = state(e);
	for (int i = 0; i < nout; i++)
		out[i] = add(e, types[i], NULL);
	start(t);
	results(t, out, nout);
	text_put(t->out, nout ? " = ptx " : "ptx ");
	text_json(t->out, text);
	text_put(t->out, nin ? " " : "");
	uses(t, in, nin);
	text_put(t->out, "\n");
}

static void
print(Emitter *e, const char *format, const Reg *v, int n)
{
	Trace *t = state(e);
	start(t);
	text_put(t->out, "print ");
	text_json(t->out, format);
	text_put(t->out, n ? " " : "");
	uses(t, v, n);
	text_put(t->out, "\n");
}

static void
mma(Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out)
{
	Trace *t = state(e);
	MmaWords w = mma_words(i);
	Reg *from = NEW_ARRAY(e->mem, Reg, w.c);        /* out may be c */
	for (int k = 0; k < w.c; k++)
		from[k] = c[k];
	for (int k = 0; k < w.c; k++)
		out[k] = add(e, i->acc == TY_F32 ? REG_F32 : REG_I32, NULL);
	start(t);
	results(t, out, w.c);
	text_printf(t->out, " = mma.%s ", i->name);
	list(t, "", a, w.a);
	list(t, ", ", b, w.b);
	list(t, ", ", from, w.c);
	text_put(t->out, "\n");
}

static void
wgmma(Emitter *e, const WgmmaInfo *i, Reg a, Reg b, unsigned turned, const Reg *c, Reg *out)
{
	Trace *t = state(e);
	int n = i->n / 2;
	Reg *from = NEW_ARRAY(e->mem, Reg, n);
	for (int k = 0; k < n; k++)
		from[k] = c[k];
	Reg in[] = {a, b};
	for (int k = 0; k < n; k++)
		out[k] = add(e, i->acc == TY_F32 ? REG_F32 : REG_I32, NULL);
	start(t);
	results(t, out, n);
	text_printf(t->out, " = %s%s%s ", i->name, turned & TURN_A ? ".turn_a" : "", turned & TURN_B ? ".turn_b" : "");
	list(t, "", in, 2);
	list(t, ", ", from, n);
	text_put(t->out, "\n");
}

static void
settle(Emitter *e, const Reg *v, Reg *out, int n)
{
	Trace *t = state(e);
	Reg *from = NEW_ARRAY(e->mem, Reg, n);
	for (int k = 0; k < n; k++)
		from[k] = v[k];
	for (int k = 0; k < n; k++)
		out[k] = add(e, type(e, from[k]), NULL);
	start(t);
	results(t, out, n);
	list(t, " = settle ", from, n);
	text_put(t->out, "\n");
}

Emitter *
emit_trace_open(Arena *mem, const Target *target, Text *out)
{
	Emitter *e = NEW(mem, Emitter);
	Trace *t = NEW(mem, Trace);
	t->out = out;
	*e = (Emitter){
	    .target = target, .mem = mem, .state = t,
	    .kernel_begin = kernel_begin, .kernel_end = kernel_end, .place = place, .name = name,
	    .int_const = int_const, .float_const = float_const, .op = emit_op, .cast = cast, .type = type,
	    .pack = pack, .unpack = unpack, .lookup = lookup,
	    .load = load, .store = store, .atomic = atomic, .pointer = pointer,
	    .loop_begin = loop_begin, .loop_end = loop_end,
	    .while_begin = while_begin, .while_test = while_test, .while_end = while_end,
	    .if_begin = if_begin, .if_else = if_else, .if_end = if_end, .trap = trap,
	    .prim = prim, .inline_ptx = inline_ptx, .print = print, .mma = mma,
	    .wgmma = wgmma, .settle = settle,
	};
	return e;
}
