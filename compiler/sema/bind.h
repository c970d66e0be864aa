/* Inside sema: one header being bound.  Slots are the names that a launch may set. */
#ifndef TEGULA_BIND_H
#define TEGULA_BIND_H

#include "sema/header.h"

typedef enum SlotKind { SLOT_CT, SLOT_SYMBOL, SLOT_SCALAR, SLOT_SCHEDULE } SlotKind;

typedef struct Slot {
	const char *name;
	SlotKind kind;
	int index;                                      /* into ctparams, symbols, params or schedule_info */
	bool set, busy, is_chosen;                      /* busy: its default is being evaluated */
	bool is_refused;                                /* the argument that says it has an error, which is reported */
	Const value;
	Place place;                                    /* where it was said */
	const char *from;                               /* in words: "dimension 0 of 'x'" */
} Slot;

typedef struct Binder {
	Kernel *k;
	Compile *cx;
	Elab *e;                                        /* for header expressions; names enter its scope as they are set */
	Slot *slot;
	int nslot;
	const ArgInfo *args;                            /* or NULL */
	int combination, combinations;                  /* of values that tune(...) gives, from 0; how many there are */
	bool is_pruned;                                 /* by a `where` alone */
	bool lenient;                                   /* placeholders: values prove nothing */
	int64_t extent;                                 /* lenient: of what nothing says */
	DType dtype;                                    /* lenient: of a parameter of that kind */
	Bound *out;
} Binder;

/* launch_values.c */

void slots_make(Binder *b);
Slot *slot_find(Binder *b, const char *name);
/* Gives a slot its value; reports and returns false if the value is of the wrong kind or differs from one before. */
bool slot_set(Binder *b, Slot *s, const Const *value, Place place, const char *from);

/* header.c */

bool header_eval_int(Binder *b, const Expr *x, const char *what, int64_t *out);
const char *header_dim_words(Binder *b, const KernelParam *p, int d);  /* "dimension 0 of 'x'" */

/* bind_param.c */

bool header_bind_params(Binder *b);

/* strides.c */

/* Whether an example's line gives strides; *name is "x.strides" then.  What is wrong with the name is reported. */
bool strides_line(Kernel *k, const Stmt *s, ArgInfo *args, const char **name);
bool header_bind_strides(Binder *b, const KernelParam *p, const ArgInfo *a, BoundParam *out);

#endif
