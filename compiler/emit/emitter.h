/* What a writer of the thread IR implements: a call for each kind of node. */
#ifndef TEGULA_EMITTER_H
#define TEGULA_EMITTER_H

#include "thread/thread.h"

typedef struct Emitter Emitter;

struct Emitter {
	const Target *target;
	Arena *mem;
	void *state;
	EmitKernel kernel;                              /* the one begun last, by the name that the device knows */

	/* kernels */
	void (*kernel_begin)(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared);
	void (*kernel_end)(Emitter *e);
	void (*place)(Emitter *e, Place at);            /* of everything until the next one */
	void (*name)(Emitter *e, Reg r, const char *name);      /* a hint for text */

	/* values */
	Reg (*int_const)(Emitter *e, RegType t, int64_t v);
	Reg (*float_const)(Emitter *e, RegType t, double v);
	Reg (*op)(Emitter *e, EmitOp op, Reg a, Reg b, Reg c);
	Reg (*cast)(Emitter *e, EmitCast c, RegType to, Reg a);
	RegType (*type)(Emitter *e, Reg r);
	/* A function without effects, by its name.  False: it must be given first, between function_begin, which gives
	 * its parameters, and function_end; then it can be called.  NULL: all is spelled out where it is wanted. */
	bool (*call)(Emitter *e, const char *name, const Reg *in, int nin, const RegType *type, Reg *out, int nout);
	void (*function_begin)(Emitter *e, const EmitFunction *f, Reg *inside);
	void (*function_end)(Emitter *e, const Reg *result, int n);
	bool calls_math;                                /* functions of f32, by the name of lowering's op; one result */
	Reg (*pack)(Emitter *e, const Reg *v, int n);   /* one REG_I32 of n elements of 32 / n bits, the first lowest */
	void (*unpack)(Emitter *e, Reg word, RegType t, Reg *out, int n);       /* and back */
	/* the index-th (REG_I32, 0 .. n - 1) of constants with these bits, which the code brings along; not of REG_PRED */
	Reg (*lookup)(Emitter *e, RegType t, const int64_t *bits, int n, Reg index);

	/* memory */
	void (*load)(Emitter *e, const EmitAccess *at, Reg *out);       /* where the mask is false: 0 */
	void (*store)(Emitter *e, const EmitAccess *at, const Reg *v);
	/* the old value, where the mask is false 0; ADD of two F16 or BF16 (n is 2): v and the result are packed REG_I32 */
	Reg (*atomic)(Emitter *e, AtomicKind k, const EmitAccess *at, Reg v, Reg compare);
	Reg (*pointer)(Emitter *e, Reg base, Reg offset);       /* base moved by bytes */

	/* control: carried values go in at begin, come out as registers inside, and out of end.  A loop's index goes
	 * from lo up to hi by a positive step, down by a negative one, and not at all by 0.  A while's registers of its
	 * test are good in its body and after it; `after` is what was carried into the test that ended it. */
	/* the index */
	Reg (*loop_begin)(Emitter *e, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n);
	void (*loop_end)(Emitter *e, const Reg *next, Reg *after, int n);
	void (*while_begin)(Emitter *e, const Reg *init, Reg *inside, int n);
	void (*while_test)(Emitter *e, Reg pred);
	void (*while_end)(Emitter *e, const Reg *next, Reg *after, int n);
	void (*if_begin)(Emitter *e, Reg pred);
	void (*if_else)(Emitter *e, const Reg *then, int n);
	void (*if_end)(Emitter *e, const Reg *otherwise, Reg *after, int n);
	void (*trap)(Emitter *e);

	/* warps and blocks */
	void (*prim)(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout);
	/* a line of PTX as the source gives it: $0 $1 … are results, then operands; has effects; NULL: the target takes
	 * none */
	void (*inline_ptx)(Emitter *e, const char *text, const Reg *in, int nin, const RegType *type, Reg *out, int nout);
	/* printf's format and values (REG_I32, REG_I64, REG_F64; %s: REG_PRED, as true or false) to the device's output;
	 * NULL: there is none */
	void (*print)(Emitter *e, const char *format, const Reg *v, int n);
	/* an element of a tile that a print with {trace} shows, the print being of that number among its function's,
	 * from 1: v[0] is the element's number in the tile (REG_I32), v[1] its bits (REG_I64), then the program; of one
	 * with {watch}: how many threads come here, the program, and of each tile the count of the thread's elements and
	 * each one's number (-1: padding) and bits; NULL: there is none */
	void (*trace)(Emitter *e, int number, const Reg *v, int n);
	/* operands as the PTX instruction takes them: a and b packed in REG_I32 words (f32 bits for tf32), c and out one
	 * REG_F32 or REG_I32 an element, all in the order of the fragment's registers */
	void (*mma)(Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out);
	/* begins a warpgroup's instruction; NULL: not on this target */
	void (*wgmma)(Emitter *e, const Wgmma *w, Reg *out);
	/* after their wait: the values of registers that such instructions were writing; NULL: v itself */
	void (*settle)(Emitter *e, const Reg *v, Reg *out, int n);
};

#endif
