/* Inside `tegula pack --target=cpu`: tile IR as C that runs on the host.
 *
 * host.c writes functions, blocks and control flow, host_elem.c elements, host_view.c values that are computed where they
 * are read, host_tile.c ops on whole tiles, and host_memory.c accesses.  What the code calls is in pack/host.c. */
#ifndef TEGULA_PACK_HOST_H
#define TEGULA_PACK_HOST_H

#include "tool/pack/pack.h"

/* Where a value is when code is written that reads it. */
typedef enum HostKind {
	HOST_NONE,   /* not asked yet: a view, or not there */
	HOST_TENSOR, /* a parameter */
	HOST_LOCAL,  /* a local variable of C: a scalar, or this element of a fused loop */
	HOST_ARRAY   /* in the room */
} HostKind;

typedef struct HostValue {
	HostKind kind;
	const char *name;
	bool is_fused;                                  /* computed by the loop that is being written */
} HostValue;

typedef struct Host {
	Arena *mem;
	Func *f;
	int nparams;                                    /* of the kernel; dimensions come behind them */
	HostValue *value;                               /* by Value.id */
	Text room, tables, body;                        /* fields of the room; constants of the file; code of a program */
	const char *name;                               /* softmax_3 */
	int depth, names;
	VEC(const char *) asserts;
	const char *lacks;                              /* why there is no such code; NULL: there is */
	Place place;                                    /* of the op that is being written, or of what is lacking */
} Host;

/* host.c */

bool host_write(Host *h, Module *m, Text *out);         /* false: h->lacks */
void host_line(Host *h, const char *fmt, ...) PRINTF(2, 3);
void host_open(Host *h, const char *fmt, ...) PRINTF(2, 3);          /* a line that ends in `{` */
void host_close(Host *h);
void host_block(Host *h, const Block *b);
const char *host_array(Host *h, const char *type, int64_t n);  /* m->t7 */
const char *host_fresh(Host *h, const char *prefix);
void host_declare(Host *h, const Value *v);
/* Where element `at` of a declared value goes. */
const char *host_to(Host *h, const Value *v, const char *at);
void host_lacks(Host *h, const char *what);

/* host_elem.c */

const char *host_type(const Type *t);
const char *host_literal(Host *h, DType t, const Attr *a);
const char *host_cast(Host *h, DType from, DType to, const char *a);
const char *host_rounded(Host *h, DType t, const char *a);      /* of what was computed in f32 or f64 */
const char *host_binary(Host *h, OpKind kind, DType t, bool nan, const char *a, const char *b);
/* An ELEM op of elements; NULL: there is none. */
const char *host_elem(Host *h, const Op *op, const char *const *in);

/* host_view.c */

bool host_is_view(const Op *op);
/* Element `at` of a value.  It may write lines that compute an index, so it goes before the line that reads the element. */
const char *host_at(Host *h, const Value *v, const char *at);
/* The same of a scalar. */
const char *host_scalar(Host *h, const Value *v);
/* A dense array that has the value. */
const char *host_dense(Host *h, const Value *v);

/* host_tile.c, host_memory.c: ops, but elementwise ones and control flow; false: not one of theirs */
bool host_tile(Host *h, const Op *op);
bool host_memory(Host *h, const Op *op);

#endif
