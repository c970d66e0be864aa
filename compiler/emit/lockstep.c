/* The emitter that keeps what it is told, and the walk over it: instructions in order, and for each the threads that are
 * active.  A branch narrows the active threads and widens them again; a loop goes on while any thread does.
 *
 * Values are 64-bit words: integers and pointers with zeros above their width, floats their bits, truth 0 or 1; a pointer
 * into shared memory is an offset. */
#include "emit/lockstep.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- recording ---- */

static Lockstep *
state(const Emitter *e)
{
	return e->state;
}

static Reg
make_reg(Lockstep *s, RegType t)
{
	vec_push(s->mem, &s->type, t);
	return s->type.n;
}

static RegType
type_of(Emitter *e, Reg r)
{
	if (r <= 0 || r > state(e)->type.n)
		die("register %d was never given out", r);
	return state(e)->type.at[r - 1];
}

static Reg *
copy_regs(Lockstep *s, const Reg *v, int n)
{
	Reg *all = NEW_ARRAY(s->mem, Reg, n);
	if (n)
		memcpy(all, v, sizeof *all * (size_t)n);
	return all;
}

static Ins *
add(Emitter *e, InsKind kind, int sub, const Reg *in, int nin, int nout)
{
	Lockstep *s = state(e);
	vec_push(s->mem, &s->code, ((Ins){.kind = kind, .sub = sub, .nin = nin, .nout = nout, .place = s->place}));
	Ins *i = &vec_last(&s->code);
	i->in = copy_regs(s, in, nin);
	i->out = NEW_ARRAY(s->mem, Reg, nout);
	i->partner = -1;
	return i;
}

static void
kernel_begin(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared)
{
	Lockstep *s = state(e);
	s->threads = k->threads;
	s->shared_bytes = k->shared_bytes;
	s->nparam = k->nparam;
	for (int i = 0; i < k->nparam; i++)
		param[i] = make_reg(s, k->param[i].type);
	s->param = copy_regs(s, param, k->nparam);
	*shared = s->shared = make_reg(s, REG_SHARED);
}

static void
kernel_end(Emitter *e)
{
	if (state(e)->open.n)
		die("kernel_end inside a region");
}

static void
set_place(Emitter *e, Place at)
{
	if (at.file >= 0)
		state(e)->place = at;
}

static void
set_name(Emitter *e, Reg r, const char *name)
{
}

static uint64_t
cut(RegType t, uint64_t v)
{
	int w = lockstep_width(t);
	return w == 64 ? v : v & ((UINT64_C(1) << w) - 1);
}

static Reg
make_const(Emitter *e, RegType t, uint64_t v)
{
	Ins *i = add(e, INS_CONST, 0, NULL, 0, 1);
	i->value = v;
	return i->out[0] = make_reg(state(e), t);
}

static Reg
int_const(Emitter *e, RegType t, int64_t v)
{
	return make_const(e, t, cut(t, (uint64_t)v));
}

static Reg
float_const(Emitter *e, RegType t, double v)
{
	return make_const(e, t, lockstep_bits(t, v));
}

static Reg
record_op(Emitter *e, EmitOp op, Reg a, Reg b, Reg c)
{
	Reg in[3] = {a, b, c};
	int n = emit_op_operands[op];
	for (int i = 0; i < n; i++)
		(void)type_of(e, in[i]);
	RegType t = op >= EMIT_EQ && op <= EMIT_FUNO ? REG_PRED : type_of(e, op == EMIT_SELECT ? b : a);
	for (int i = op == EMIT_SELECT ? 2 : 1; i < n; i++)
		if (type_of(e, in[i]) != type_of(e, in[op == EMIT_SELECT ? 1 : 0]))
			die("%s of different types", emit_op_text[op]);
	Ins *i = add(e, INS_OP, op, in, n, 1);
	return i->out[0] = make_reg(state(e), t);
}

static Reg
record_cast(Emitter *e, EmitCast c, RegType to, Reg a)
{
	Ins *i = add(e, INS_CAST, c, &a, 1, 1);
	if (c == CAST_BITS && lockstep_width(to) != lockstep_width(type_of(e, a)))
		die("a cast of bits between widths");
	return i->out[0] = make_reg(state(e), to);
}

static Reg
record_pack(Emitter *e, const Reg *v, int n)
{
	Ins *i = add(e, INS_PACK, 0, v, n, 1);
	return i->out[0] = make_reg(state(e), REG_I32);
}

static void
record_unpack(Emitter *e, Reg word, RegType t, Reg *out, int n)
{
	Ins *i = add(e, INS_UNPACK, 0, &word, 1, n);
	for (int k = 0; k < n; k++)
		out[k] = i->out[k] = make_reg(state(e), t);
}

static void
record_load(Emitter *e, const EmitAccess *at, Reg *out)
{
	Ins *i = add(e, INS_LOAD, 0, NULL, 0, at->n);
	i->at = *at;
	for (int k = 0; k < at->n; k++)
		out[k] = i->out[k] = make_reg(state(e), at->type);
}

static void
record_store(Emitter *e, const EmitAccess *at, const Reg *v)
{
	for (int k = 0; k < at->n; k++)
		if (type_of(e, v[k]) != at->type)
			die("a store of another type");
	Ins *i = add(e, INS_STORE, 0, v, at->n, 0);
	i->at = *at;
}

static Reg
record_atomic(Emitter *e, AtomicKind k, const EmitAccess *at, Reg v, Reg compare)
{
	Reg in[2] = {v, compare};
	Ins *i = add(e, INS_ATOMIC, (int)k, in, k == ATOMIC_CAS ? 2 : 1, 1);
	i->at = *at;
	return i->out[0] = make_reg(state(e), at->type);
}

static Reg
record_pointer(Emitter *e, Reg base, Reg offset)
{
	Reg in[2] = {base, offset};
	Ins *i = add(e, INS_POINTER, 0, in, 2, 1);
	return i->out[0] = make_reg(state(e), type_of(e, base));
}

/* Opens a region: what goes in, and registers of those types inside. */
static Ins *
begin(Emitter *e, InsKind kind, const Reg *in, int nin, const Reg *init, Reg *inside, int n)
{
	Lockstep *s = state(e);
	Reg *all = NEW_ARRAY(s->mem, Reg, nin + n);
	if (nin)
		memcpy(all, in, sizeof *all * (size_t)nin);
	if (n)
		memcpy(all + nin, init, sizeof *all * (size_t)n);
	vec_push(s->mem, &s->open, s->code.n);
	Ins *i = add(e, kind, 0, all, nin + n, n + 1);
	for (int k = 0; k < n; k++)
		inside[k] = i->out[k + 1] = make_reg(s, type_of(e, init[k]));
	return i;
}

/* Closes the innermost one. */
static void
end(Emitter *e, InsKind kind, const Reg *next, Reg *after, int n)
{
	Lockstep *s = state(e);
	int first = vec_pop(&s->open), here = s->code.n;
	Ins *i = add(e, kind, 0, next, n, n);
	i->partner = first;
	for (int k = 0; k < n; k++)
		i->out[k] = make_reg(s, type_of(e, next[k]));
	if (n)
		memcpy(after, i->out, sizeof *after * (size_t)n);
	s->code.at[first].partner = here;
}

static Reg
loop_begin(Emitter *e, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n)
{
	Reg in[3] = {lo, hi, step};
	Ins *i = begin(e, INS_LOOP, in, 3, init, inside, n);
	return i->out[0] = make_reg(state(e), type_of(e, lo));
}

static void
loop_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	end(e, INS_LOOP_END, next, after, n);
}

static void
while_begin(Emitter *e, const Reg *init, Reg *inside, int n)
{
	begin(e, INS_WHILE, NULL, 0, init, inside, n);
}

static void
while_test(Emitter *e, Reg pred)
{
	Ins *i = add(e, INS_TEST, 0, &pred, 1, 0);
	i->partner = vec_last(&state(e)->open);
}

static void
while_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	end(e, INS_WHILE_END, next, after, n);
}

static void
if_begin(Emitter *e, Reg pred)
{
	begin(e, INS_IF, &pred, 1, NULL, NULL, 0);
}

static void
if_else(Emitter *e, const Reg *then, int n)
{
	Lockstep *s = state(e);
	int first = vec_pop(&s->open), here = s->code.n;
	Ins *i = add(e, INS_ELSE, 0, then, n, 0);
	i->partner = first;
	s->code.at[first].partner = here;
	vec_push(s->mem, &s->open, here);
}

static void
if_end(Emitter *e, const Reg *otherwise, Reg *after, int n)
{
	end(e, INS_IF_END, otherwise, after, n);
}

static void
record_trap(Emitter *e)
{
	add(e, INS_TRAP, 0, NULL, 0, 0);
}

static void
record_prim(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	Lockstep *s = state(e);
	Ins *i = add(e, INS_PRIM, (int)k, in, nin, nout);
	i->nimm = nimm;
	i->imm = NEW_ARRAY(s->mem, int64_t, nimm);
	if (nimm)
		memcpy(i->imm, imm, sizeof *imm * (size_t)nimm);
	for (int n = 0; n < nout; n++)
		out[n] = i->out[n] = make_reg(s, prim_result(k));
}

static void
record_print(Emitter *e, const char *format, const Reg *v, int n)
{
	add(e, INS_PRINT, 0, v, n, 0)->text = arena_strdup(state(e)->mem, format);
}

static void
record_mma(Emitter *e, const MmaInfo *info, const Reg *a, const Reg *b, const Reg *c, Reg *out)
{
	Lockstep *s = state(e);
	int per = 32 / MAX(dtype_info[info->a].bits, 1);
	int na = (1 << info->fragment_a->reg_bits) / per, nb = (1 << info->fragment_b->reg_bits) / per;
	int nc = 1 << info->fragment_c->reg_bits, n = 0;
	Reg *all = NEW_ARRAY(s->mem, Reg, na + nb + nc);
	for (int i = 0; i < na; i++)
		all[n++] = a[i];
	for (int i = 0; i < nb; i++)
		all[n++] = b[i];
	for (int i = 0; i < nc; i++)
		all[n++] = c[i];
	Ins *i = add(e, INS_MMA, 0, all, n, nc);
	i->mma = info;
	for (int k = 0; k < nc; k++)
		out[k] = i->out[k] = make_reg(s, type_of(e, c[k]));
}

Lockstep *
emit_lockstep_open(Arena *mem, const Target *t)
{
	Lockstep *s = NEW(mem, Lockstep);
	s->mem = mem;
	s->target = t;
	s->place = NOWHERE;
	s->emitter = (Emitter){.target = t, .mem = mem, .state = s, .kernel_begin = kernel_begin,
		.kernel_end = kernel_end, .place = set_place, .name = set_name, .int_const = int_const,
		.float_const = float_const, .op = record_op, .cast = record_cast, .type = type_of, .pack = record_pack,
		.unpack = record_unpack, .load = record_load, .store = record_store, .atomic = record_atomic,
		.pointer = record_pointer, .loop_begin = loop_begin, .loop_end = loop_end, .while_begin = while_begin,
		.while_test = while_test, .while_end = while_end, .if_begin = if_begin, .if_else = if_else,
		.if_end = if_end, .trap = record_trap, .prim = record_prim, .print = record_print, .mma = record_mma};
	return s;
}

Emitter *
emit_lockstep_emitter(Lockstep *s)
{
	return &s->emitter;
}

void
emit_lockstep_bounds(Lockstep *s, const char *low, const char *high)
{
	/* single halves of packed bytes go through the aligned word around them */
	uintptr_t from = (uintptr_t)low & ~(uintptr_t)3, to = ((uintptr_t)high + 3) & ~(uintptr_t)3;
	vec_push(s->mem, &s->ranges, ((LockstepRange){from, to}));
}

void
emit_lockstep_clear_bounds(Lockstep *s)
{
	s->ranges.n = 0;
}

/* ---- running ---- */

bool
lockstep_fail(Machine *m, const char *fmt, ...)
{
	va_list ap;
	if (m->why[0])
		return false;
	va_start(ap, fmt);
	vsnprintf(m->why, m->why_size, fmt, ap);
	va_end(ap);
	size_t n = strlen(m->why);
	snprintf(m->why + n, m->why_size - n, " (line %d)", m->at->place.line);
	return false;
}

static bool
any_active(const Machine *m)
{
	return memchr(m->active, 1, (size_t)m->s->threads) != NULL;
}

static void
push_mask(Machine *m)
{
	if (m->depth == m->depth_most) {
		m->depth_most = m->depth_most ? 2 * m->depth_most : 16;
		m->saved = realloc(m->saved, sizeof *m->saved * (size_t)m->depth_most);
		if (!m->saved)
			die("no memory");
	}
	m->saved[m->depth] = malloc((size_t)m->s->threads);
	if (!m->saved[m->depth])
		die("no memory");
	memcpy(m->saved[m->depth++], m->active, (size_t)m->s->threads);
}

static void
pop_mask(Machine *m)
{
	memcpy(m->active, m->saved[--m->depth], (size_t)m->s->threads);
	free(m->saved[m->depth]);
}

/* to[i] = from[i] for the threads of `mask`, all at once. */
static void
move(Machine *m, const Reg *from, const Reg *to, int n, const uint8_t *mask)
{
	int threads = m->s->threads;
	uint64_t *all = malloc(sizeof *all * (size_t)MAX(n, 1) * (size_t)threads);
	if (!all)
		die("no memory");
	for (int i = 0; i < n; i++)
		memcpy(all + (size_t)i * (size_t)threads, lockstep_at(m, from[i]), sizeof *all * (size_t)threads);
	for (int i = 0; i < n; i++)
		for (int t = 0; t < threads; t++)
			if (mask[t])
				lockstep_at(m, to[i])[t] = all[(size_t)i * (size_t)threads + (size_t)t];
	free(all);
}

/* Leaves the threads active whose index is below the end; where none is, the next place is past the loop. */
static int
loop_head(Machine *m, int first)
{
	const Ins *b = &m->s->code.at[first], *e = &m->s->code.at[b->partner];
	bool narrow = m->s->type.at[b->out[0] - 1] == REG_I32;
	for (int t = 0; t < m->s->threads; t++) {
		int64_t i = (int64_t)lockstep_at(m, b->out[0])[t], hi = (int64_t)lockstep_at(m, b->in[1])[t];
		m->active[t] = m->active[t] && (narrow ? (int32_t)i < (int32_t)hi : i < hi);
	}
	if (any_active(m))
		return first + 1;
	pop_mask(m);
	move(m, b->out + 1, e->out, e->nout, m->active);
	return b->partner + 1;
}

static int
run_loop(Machine *m, const Ins *i, int at)
{
	push_mask(m);
	move(m, i->in, i->out, 1, m->active);
	move(m, i->in + 3, i->out + 1, i->nout - 1, m->active);
	return loop_head(m, at);
}

static int
run_loop_end(Machine *m, const Ins *i)
{
	const Ins *b = &m->s->code.at[i->partner];
	move(m, i->in, b->out + 1, i->nin, m->active);
	for (int t = 0; t < m->s->threads; t++)
		if (m->active[t])
			lockstep_at(m, b->out[0])[t] = cut(m->s->type.at[b->out[0] - 1],
			    lockstep_at(m, b->out[0])[t] + lockstep_at(m, b->in[2])[t]);
	return loop_head(m, i->partner);
}

static int
run_test(Machine *m, const Ins *i, int at)
{
	const Ins *b = &m->s->code.at[i->partner], *e = &m->s->code.at[b->partner];
	for (int t = 0; t < m->s->threads; t++)
		m->active[t] = m->active[t] && lockstep_at(m, i->in[0])[t];
	if (any_active(m))
		return at + 1;
	pop_mask(m);
	move(m, b->out + 1, e->out, e->nout, m->active);
	return b->partner + 1;
}

static int
run_if(Machine *m, const Ins *i, int at)
{
	push_mask(m);
	for (int t = 0; t < m->s->threads; t++)
		m->active[t] = m->active[t] && lockstep_at(m, i->in[0])[t];
	return any_active(m) ? at + 1 : i->partner;
}

static int
run_else(Machine *m, const Ins *i, int at)
{
	const Ins *e = &m->s->code.at[i->partner];
	const uint8_t *all = m->saved[m->depth - 1];
	/* i->partner was the if until the end was recorded, which stands there now */
	move(m, i->in, e->out, i->nin, m->active);
	for (int t = 0; t < m->s->threads; t++)
		m->active[t] = all[t] && !m->active[t];
	return any_active(m) ? at + 1 : i->partner;
}

static int
run_if_end(Machine *m, const Ins *i, int at)
{
	move(m, i->in, i->out, i->nin, m->active);
	pop_mask(m);
	return at + 1;
}

static bool
run_print(Machine *m, const Ins *i)
{
	for (int t = 0; t < m->s->threads; t++) {
		Text line = {0};
		int next = 0;
		if (!m->active[t])
			continue;
		for (const char *p = i->text; *p; p++) {
			if (*p != '%' || p[1] == '%') {
				text_printf(&line, "%c", *p);
				p += *p == '%';
				continue;
			}
			uint64_t v = lockstep_at(m, i->in[next++])[t];
			while (!strchr("gdux", *++p))
				;
			if (*p == 'g') {
				double d;
				memcpy(&d, &v, sizeof d);
				text_printf(&line, "%.9g", d);
			} else if (*p == 'd') {
				text_printf(&line, "%lld", (long long)v);
			} else {
				text_printf(&line, *p == 'x' ? "%llx" : "%llu", (unsigned long long)v);
			}
		}
		if (line.n && line.at[line.n - 1] == '\n')
			line.at[--line.n] = 0;
		if (m->print)
			m->print(m->print_user, line.at ? line.at : "");
		text_close(&line);
	}
	return true;
}

static bool
run_plain(Machine *m, const Ins *i)
{
	const RegType *type = m->s->type.at;
	for (int t = 0; t < m->s->threads; t++) {
		uint64_t v[4] = {0};
		if (!m->active[t])
			continue;
		for (int k = 0; k < i->nin && k < 4; k++)
			v[k] = lockstep_at(m, i->in[k])[t];
		if (i->kind == INS_CONST) {
			v[0] = i->value;
		} else if (i->kind == INS_OP) {
			v[0] = lockstep_op((EmitOp)i->sub, type[i->in[i->sub == EMIT_SELECT] - 1], v[0], v[1], v[2]);
		} else if (i->kind == INS_CAST) {
			v[0] = lockstep_cast((EmitCast)i->sub, type[i->in[0] - 1], type[i->out[0] - 1], v[0]);
		} else if (i->kind == INS_POINTER) {
			if (type[i->in[1] - 1] == REG_I32)
				v[1] = (uint64_t)(int64_t)(int32_t)v[1];
			v[0] = cut(type[i->out[0] - 1], v[0] + v[1]);
		} else if (i->kind == INS_PACK) {
			uint64_t word = 0;
			for (int k = 0; k < i->nin; k++)
				word |= lockstep_at(m, i->in[k])[t] << (32 / i->nin * k);
			v[0] = word;
		}
		if (i->kind == INS_UNPACK) {
			int bits = 32 / i->nout;
			for (int k = 0; k < i->nout; k++)
				lockstep_at(m, i->out[k])[t] = bits == 32 ? v[0]
				    : v[0] >> (bits * k) & ((UINT64_C(1) << bits) - 1);
		} else {
			lockstep_at(m, i->out[0])[t] = v[0];
		}
	}
	return true;
}

static bool
run_ins(Machine *m, const Ins *i)
{
	switch (i->kind) {
	case INS_LOAD: case INS_STORE: case INS_ATOMIC:
		return lockstep_access(m, i);
	case INS_PRIM:
		return lockstep_prim(m, i);
	case INS_MMA:
		return lockstep_mma(m, i);
	case INS_TRAP:
		return !any_active(m) || lockstep_fail(m, "trap");
	case INS_PRINT:
		return run_print(m, i);
	default:
		return run_plain(m, i);
	}
}

static bool
run_code(Machine *m)
{
	for (int at = 0; at < m->s->code.n;) {
		const Ins *i = m->at = &m->s->code.at[at];
		switch (i->kind) {
		case INS_LOOP: at = run_loop(m, i, at); break;
		case INS_LOOP_END: at = run_loop_end(m, i); break;
		case INS_WHILE:
			push_mask(m);
			move(m, i->in, i->out + 1, i->nout - 1, m->active);
			at++;
			break;
		case INS_TEST: at = run_test(m, i, at); break;
		case INS_WHILE_END:
			move(m, i->in, m->s->code.at[i->partner].out + 1, i->nin, m->active);
			at = i->partner + 1;
			break;
		case INS_IF: at = run_if(m, i, at); break;
		case INS_ELSE: at = run_else(m, i, at); break;
		case INS_IF_END: at = run_if_end(m, i, at); break;
		default:
			if (!run_ins(m, i))
				return false;
			at++;
		}
	}
	return true;
}

bool
emit_lockstep_run(const Lockstep *s, const uint64_t *param, int64_t block, int64_t nblocks,
    void (*print)(void *user, const char *line), void *user, char *why, size_t why_size)
{
	Machine m = {.s = s, .block = block, .nblocks = nblocks, .why = why, .why_size = why_size, .print = print,
		.print_user = user, .tick = 1, .block_met = 1};
	size_t threads = (size_t)s->threads;
	m.value = calloc((size_t)(s->type.n + 1) * threads, sizeof *m.value);
	m.active = malloc(threads);
	m.shared = calloc(1, (size_t)s->shared_bytes + 1);
	m.touch = calloc((size_t)s->shared_bytes + 1, TOUCH_BYTES);
	m.warp_met = calloc(threads, sizeof *m.warp_met);
	why[0] = 0;
	if (!m.warp_met || !m.value || !m.active || !m.shared || !m.touch)
		die("no memory");
	m.copies = lockstep_copies_open(s->threads);
	memset(m.active, 1, threads);
	for (int i = 0; i < s->nparam; i++)
		for (size_t t = 0; t < threads; t++)
			lockstep_at(&m, s->param[i])[t] = cut(s->type.at[s->param[i] - 1], param[i]);
	bool ok = run_code(&m);
	while (m.depth)
		free(m.saved[--m.depth]);
	free(m.saved);
	free(m.value);
	free(m.active);
	free(m.shared);
	free(m.warp_met);
	lockstep_copies_close(m.copies);
	free(m.touch);
	return ok;
}
