/* Words of the thread IR's text, and what type an operand has. */
#include "thread/words.h"

#include <string.h>

const char *const thread_cast_text[THREAD_CASTS] = {
	"sext", "zext", "trunc", "s2f", "u2f", "f2s", "f2u", "fpext", "fptrunc", "bits"};
const char *const thread_cache_text[THREAD_CACHES] = {"", "stream", "keep", "readonly", "volatile"};
const char *const thread_space_text[THREAD_SPACES] = {"global", "shared"};
const char *const thread_atomic_text[THREAD_ATOMICS] = {
	"add", "min", "max", "umin", "umax", "and", "or", "xor", "exchange", "cas"};
const char *const thread_order_text[THREAD_ORDERS] = {"relaxed", "acquire", "release", "acq_rel"};
const char *const thread_scope_text[THREAD_SCOPES] = {"gpu", "cta", "cluster", "sys"};

const char *const thread_kind_text[NODE_KINDS] = {
#define X(name, text) [NODE_##name] = text,
	THREAD_KINDS(X)
#undef X
};

RegType
thread_atomic_type(const ThreadAccess *at)
{
	return at->n != 2 ? at->type : thread_type_bytes(at->type) == 4 ? REG_I64 : REG_I32;
}

static RegType
access_type(const ThreadNode *n)
{
	return n->kind == NODE_ATOMIC ? thread_atomic_type(n->at) : n->at->type;
}

static RegType
operation(const ThreadModule *m, const ThreadNode *n, int i)
{
	if (n->op == THREAD_SELECT && i == 0)
		return REG_PRED;
	return thread_is_comparison((ThreadOp)n->op) ? thread_type(m, n->in[0]) : n->type;
}

static RegType
wgmma_operand(const ThreadNode *n, int i)
{
	int words = wgmma_words((unsigned)n->op);
	if (i < words)
		return words > 1 ? REG_I32 : REG_I64;
	return i == words ? REG_I64 : i < words + 1 + n->wgmma->n / 2 ? n->type : REG_PRED;
}

RegType
thread_operand_type(const ThreadModule *m, const ThreadNode *n, int i)
{
	MmaWords w;
	switch (n->kind) {
	case NODE_OP: return operation(m, n, i);
	case NODE_UNPACK: case NODE_LOOKUP: return REG_I32;
	case NODE_POINTER: return i == 0 ? n->type : REG_TYPES;
	case NODE_STORE: case NODE_ATOMIC: return access_type(n);
	case NODE_MMA:
		w = mma_words(n->mma);
		return i < w.a + w.b ? w.word : w.acc;
	case NODE_WGMMA: return wgmma_operand(n, i);
	case NODE_CALL: return n->function ? n->function->param[i] : REG_F32;
	case NODE_TEST: case NODE_IF: return REG_PRED;
	case NODE_LOOP: return i < 3 ? thread_type(m, n->region[0]->arg[0]) : thread_type(m, n->region[0]->arg[i - 2]);
	case NODE_WHILE: return thread_type(m, n->region[0]->arg[i]);
	default: return REG_TYPES;
	}
}

bool
thread_is_text(const char *text, size_t size)
{
	const char *end = text + size, *kernel = NULL;
	for (const char *s = text; s < end && !kernel; s = memchr(s, '\n', (size_t)(end - s)), s = s ? s + 1 : end)
		kernel = end - s > 8 && memcmp(s, "kernel @", 8) == 0 ? s : NULL;
	const char *eol = kernel ? memchr(kernel, '\n', (size_t)(end - kernel)) : NULL;
	for (const char *s = kernel; s && s + 9 < (eol ? eol : end); s++)
		if (memcmp(s, ") target ", 9) == 0)
			return true;
	return false;
}
