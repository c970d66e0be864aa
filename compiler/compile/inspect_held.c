/* Whose tiles shared memory holds: slots of a ring of buffers or of mbarriers are named by the tensors that copies bring
 * into them or take from them, "a, b". */
#include "compile/inspect.h"

#include <string.h>

static void
put_tensor(const Op *moves, Text *out)
{
	const char *name = inspect_tensor(moves), *had = out->n ? strstr(out->at, name) : NULL;
	size_t n = strlen(name);
	for (; had; had = strstr(had + 1, name))
		if ((had == out->at || had[-1] == ' ') && (had[n] == '\0' || had[n] == ','))
			return;
	text_printf(out, "%s%s", out->n ? ", " : "", name);
}

bool
inspect_held(const Func *f, const Op *owner, Text *out)
{
	const Op *awaits = NULL;
	Text freed = {0};
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool copies = op->kind == OP_COPY;
		if ((copies || op->kind == OP_SEND) && op_takes_buffer(op, owner))
			put_tensor(op, out);
		else if (op->kind == OP_AWAIT)
			awaits = op_takes_buffer(op, owner) ? op : NULL;
		else if (copies && awaits && op->home == awaits->home)
			put_tensor(op, &freed);
	}
	bool fills = out->n > 0;
	text_put(out, fills || !freed.n ? "" : freed.at);
	text_close(&freed);
	return fills;
}

const char *
inspect_held_by(const Op *owner, Arena *mem)
{
	Text tensors = {0};
	inspect_held(owner->home->func, owner, &tensors);
	return tensors.n ? text_take(&tensors, mem) : NULL;
}

bool
inspect_orders_groups(const Op *mbarrier)
{
	const Block *body = mbarrier->home->func->body;
	return ANY_OP(op, body, op->kind == OP_AWAIT && op->in[0] == &mbarrier->out[0] && !op->in[1]->def &&
	    op->in[1]->block->parent && op->in[1]->block->parent->kind == OP_ROLES);
}

/* "w" of "w.2" and "w_1"; "": the compiler's own. */
static const char *
own_name(const Value *v)
{
	return v->name && !char_is_digit(*v->name) ? v->name : "";
}

const char *
inspect_name(const Value *v)
{
	enum { DEPTH = 16 };
	Text tensors = {0};
	for (int i = 0; i < DEPTH; i++) {
		const Op *op = v->def, *owner = v->type->kind == TYPE_BUFFER ? buffer_owner(v) : NULL;
		if (owner && owner->kind == OP_ALLOC) {
			inspect_held(owner->home->func, owner, &tensors);
			const char *name = text_take(&tensors, owner->home->func->module->cx->mem);
			return strchr(name, ',') ? "" : name;
		}
		if (*own_name(v) || !op)
			return own_name(v);
		if (op_is_access(op) && access_is_tensor(op))
			return inspect_tensor(op);
		if (op->nin == 0 || op_is_control(op) || op->kind == OP_CONST)
			return "";
		v = op->in[op->kind == OP_SELECT ? 1 : 0];      /* what pass pad masked */
	}
	return "";
}
