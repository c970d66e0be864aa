/* The names and rows behind thread.h: primitives, operations and types of registers as tables. */
#include "thread/thread.h"

#include <string.h>

const PrimInfo prim_info[PRIM_COUNT] = {
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt)                                    \
	[PRIM_##id] = {text, nin, nout, needs, flags, ptx, msl, #simt},
#include "thread/prims.def"
#undef PRIM
};

const int thread_op_operands[THREAD_OPS_COUNT] = {
#define X(name, text, n) [THREAD_##name] = n,
    THREAD_OPS(X)
#undef X
};

const char *const thread_op_text[THREAD_OPS_COUNT] = {
#define X(name, text, n) [THREAD_##name] = text,
    THREAD_OPS(X)
#undef X
};

const char *const reg_type_text[REG_TYPES] = {
    [REG_PRED] = "pred",
    [REG_I8] = "i8",
    [REG_I16] = "i16",
    [REG_I32] = "i32",
    [REG_I64] = "i64",
    [REG_F16] = "f16",
    [REG_BF16] = "bf16",
    [REG_F32] = "f32",
    [REG_F64] = "f64",
    [REG_GLOBAL] = "global",
    [REG_SHARED] = "shared",
};

RegType
prim_result(PrimKind k)
{
	const char *ptx = prim_info[k].ptx;
	if (ptx && strstr(ptx, "%q"))
		return REG_PRED;
	if (k == PRIM_KEEP)
		return REG_I64;
	bool is_float = (k >= PRIM_REDUX_FADD && k <= PRIM_REDUX_FMAX) || k == PRIM_FRAGMENT_LOAD_F32;
	return is_float ? REG_F32 : REG_I32;
}

int
thread_type_bytes(RegType t)
{
	static const int bytes[REG_TYPES] = {
		[REG_PRED] = 1, [REG_I8] = 1, [REG_I16] = 2, [REG_I32] = 4, [REG_I64] = 8, [REG_F16] = 2, [REG_BF16] = 2,
		[REG_F32] = 4, [REG_F64] = 8, [REG_GLOBAL] = 8, [REG_SHARED] = 4,
	};
	return bytes[t];
}

bool
thread_const(const ThreadModule *m, Reg r, int64_t *out)
{
	const ThreadNode *n = thread_def(m, r);
	if (n->kind != NODE_CONST || thread_is_float(n->type))
		return false;
	*out = n->i;
	return true;
}

const ThreadNode *
thread_find(const ThreadRegion *r, ThreadKind kind)
{
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i], *found = n->kind == kind ? n : NULL;
		for (int k = 0; k < 2 && n->region[k] && !found; k++)
			found = thread_find(n->region[k], kind);
		if (found)
			return found;
	}
	return NULL;
}

Reg *
thread_operand(ThreadNode *n, int i)
{
	if (n->at) {
		Reg *const own[] = {&n->at->base, &n->at->offset, &n->at->mask, &n->at->fill, &n->at->changes};
		for (int k = 0; k < LEN(own); k++)
			if (*own[k] && i-- == 0)
				return own[k];
	}
	return i < n->nin ? &n->in[i] : NULL;
}

void
thread_count_uses(const ThreadRegion *r, int *uses)
{
	for (int i = 0; i < r->body.n; i++) {
		Reg *use;
		for (int k = 0; (use = thread_operand(r->body.at[i], k)); k++)
			uses[*use]++;
		for (int k = 0; k < 2 && r->body.at[i]->region[k]; k++)
			thread_count_uses(r->body.at[i]->region[k], uses);
	}
	for (int i = 0; i < r->nyield; i++)
		uses[r->yield[i]]++;
}
