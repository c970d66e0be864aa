/* References that are kept: the same kernel with the same inputs has the same one on every device.
 *
 * `check` and `race` run an example on one device after another, and each has its own program, case and tensors.  A
 * reference is made from the module that it runs, from sizes and scalars, from what tensors hold before the kernel runs,
 * and from the precision that the kernel calculates in, which a device's passes may change: two with one hash of all
 * this are the same, and its outputs are not changed any more.  Only small ones are kept: of large ones inputs and outputs
 * would take the memory that checking needs. */
#include "runtime/case/case.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_BYTES = 64 << 20 };         /* of inputs that are read for a key; of all outputs that a context keeps */

static uint64_t
kept_bytes(const Reference *r)
{
	uint64_t n = 0;
	for (int i = 0; i < r->n; i++)
		n += (uint64_t)r->out[i].bytes + (r->out[i].deviation ? 8 * (uint64_t)r->out[i].count : 0);
	return n;
}

/* A parameter's name and type are in the module; what fills an output, and its shape, are not. */
static bool
put_tensor(const TglCase *c, int i, uint64_t *left, Text *out)
{
	const TglTensor *t = c->b.tensor[i];
	uint64_t bytes = tgl_tensor_bytes(t);
	char *copy = NULL, name[2 * HASH_BYTES + 1];
	text_printf(out, " %s", extents_text(t->rank, t->dim, c->b.mem));
	if (c->b.bound.param[i].has_fill)
		const_text(&c->b.bound.param[i].fill, out);
	if (param_is_output(&c->k->k->params.at[i]) && !c->first[i])
		return true;
	if (bytes > *left || (!c->first[i] && (!(copy = malloc(bytes + 1)) || !tensor_copy_out(t, copy)))) {
		free(copy);
		return false;
	}
	Hash h = hash_bytes(c->first[i] ? c->first[i] : copy, bytes);
	free(copy);
	hash_text(&h, HASH_BYTES, name);
	text_printf(out, " %s", name);
	*left -= bytes;
	return true;
}

bool
reference_key(const TglCase *c, const Module *m, Reference *r)
{
	const Kernel *k = c->k->k;
	const Bound *b = &c->b.bound;
	uint64_t left = KEPT_BYTES;
	bool ok = true;
	Text text = {0};
	module_print(m, &text);
	text_printf(&text, "%a %a %lld", r->roundoff, r->least, (long long)r->narrow);
	for (int i = 0; i < b->nsymbol; i++)
		const_text(&b->symbol[i].value, &text), text_put(&text, " ");
	for (int i = 0; i < k->params.n && ok; i++) {
		text_printf(&text, "\n%s %d ", k->params.at[i].name, (int)k->params.at[i].kind);
		if (c->b.tensor[i])
			ok = put_tensor(c, i, &left, &text);
		else
			const_text(&c->b.info[i].scalar, &text);
	}
	r->key = hash_bytes(text.at, text.n);
	text_close(&text);
	return ok;
}

Reference *
reference_find(const TglContext *cx, const Hash *key)
{
	for (Reference *r = cx->references; r; r = r->next)
		if (memcmp(&r->key, key, sizeof *key) == 0) {
			r->refs++;
			return r;
		}
	return NULL;
}

void
reference_keep(TglContext *cx, Reference *r)
{
	uint64_t bytes = kept_bytes(r);
	for (const Reference *other = cx->references; other; other = other->next)
		bytes += kept_bytes(other);
	if (bytes > KEPT_BYTES)
		return;
	r->refs++;
	r->next = cx->references;
	cx->references = r;
}

void
references_close(Reference *r)
{
	for (Reference *next; r; r = next) {
		next = r->next;
		reference_unref(r);
	}
}
