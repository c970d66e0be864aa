/* From arguments to a launch: arguments bound to a kernel's header (bind.c) and validated (validate.c), the compiled form
 * that they need (specialise.c, instance.c), the launch (launch.c), and the last ones kept (launch_cache.c). */
#ifndef TEGULA_LAUNCH_H
#define TEGULA_LAUNCH_H

#include "model/digits/digits.h"
#include "runtime/tensor/tensor.h"

/* ---- parameters ---- */

static inline bool
param_is_scratch(const KernelParam *p)
{
	return p->kind == PARAM_TENSOR && p->access == ACCESS_SCRATCH;
}

/* Whether the caller sees what the kernel writes there. */
static inline bool
param_is_output(const KernelParam *p)
{
	return p->kind == PARAM_TENSOR ? p->access == ACCESS_OUT || p->access == ACCESS_INOUT
				       : p->kind == PARAM_POINTER && p->ptr == PTR_MUT;
}

/* Whether a launch finds there what the one before it wrote. */
static inline bool
param_is_inout(const KernelParam *p)
{
	return param_is_output(p) && !(p->kind == PARAM_TENSOR && p->access == ACCESS_OUT);
}

/* ---- bind.c: from arguments as the user gives them to a bound header ---- */

typedef struct Binding {
	Arena *mem;                     /* of the arrays here and of what sema makes, reports too */
	Bound bound;
	/* in order of Kernel.params; NULL: not given, or a scalar */
	TglTensor **tensor;
	const TglArg **arg;             /* the argument that set each parameter, or NULL */
	ArgInfo *info;
	NamedConst *value;              /* given by name, and no parameter */
	int nvalue;
	TglDevice *dev;                 /* that tuning results are looked up for; NULL: they are not */
	bool untuned;                   /* they are not in any case */
} Binding;

/* Sorts arguments to parameters and names; to be closed, also when it failed. */
bool binding_collect(TglKernel *k, const TglArg *args, int nargs, bool texts, Binding *out);
/* Sets scalar parameter i. */
bool binding_scalar(TglKernel *k, int i, const TglArg *a, Binding *b);
bool binding_bind(TglKernel *k, Binding *b);
/* Gives the bound header what only the arguments know (pointers' buffers, scalars), in a copy
 * of its own. */
void binding_pointers(TglKernel *k, Binding *b);
void binding_close(Binding *b);

/* ---- validate.c: what only a launch asks ---- */

/* Whether tensor `t` fits what the header says of parameter i. */
bool binding_fits(TglKernel *k, const Binding *b, int i, const TglTensor *t);
/* Every argument is given, as a launch asks; else reports those that are not. */
bool binding_complete(TglKernel *k, const Binding *b);
/* Tensors lie on this device, are contiguous, and what is written overlaps nothing. */
bool binding_check(TglKernel *k, TglDevice *dev, const Binding *b);

/* ---- values.c: compile-time values, dimensions and schedule values by name ---- */

/* The value that a bound kernel has for a compile-time parameter, dimension or schedule name; false: it is left to the
 * compiler, or there is no such name. */
bool bound_value(const Bound *b, const char *name, Const *out);
/* "BLOCK = 1024, warps = 4": compile-time values and what is set of the schedule. */
void bound_text(const Bound *b, Text *out);

/* ---- specialise.c ---- */

/* What code may assume of a launch's arguments; arrays in `mem`. */
void specialise(const TglKernel *k, const Binding *b, Arena *mem, ArgAssumptions *out);
/* A form's name within its kernel and device; assumptions NULL: none are used. */
void specialise_key(const TglKernel *k, const Bound *b, const ArgAssumptions *assumptions, Text *key);
/* Its name on disk. */
Hash artefact_hash(const TglKernel *k, const char *target, const char *key, size_t nkey);

/* ---- instance.c: compiled forms ---- */

struct Instance {
	Instance *next;
	TglDevice *dev;
	Func *func;                     /* NULL until asked for, where `loaded` is an artefact */
	Artefact artefact;
	Loaded *loaded;
	int pins;                       /* graphs that have it: it must stay */
	bool is_recorded;               /* in a graph that is not ours: it stays as long as the kernel */
	Arena *mem;                     /* of the module */
	int spilled;                    /* bytes a thread beyond those that its code asks for */
	bool warned;                    /* that --trace names a program that the grid does not have */
	char *key;
	size_t nkey;
	Scratch *scratch;
	Instance *first, *last;         /* launched before: it computes operands of this one's products; behind; or NULL */
};

/* Scratch tensors: launches on one stream come one after the other and share them; a recording of it has its own. */
struct Scratch {
	Scratch *next;
	void *stream;
	uint64_t recording;             /* 0: none */
	TglTensor *tensor[];            /* in order of Kernel.params, then those of the form's Func.made */
};

Instance *instance_find(TglKernel *k, const Binding *b, TglDevice *dev, TglStatus *status);
/* The same for a GPU's artefact that was made elsewhere (NULL: it is made here); it is taken unless there is such a form
 * already. */
Instance *instance_adopt(TglKernel *k, const Binding *b, TglDevice *dev, Artefact *take, TglStatus *status);
/* The kernel after the pipeline of the device's target; NULL after errors. */
Module *instance_compile(TglKernel *k, const Bound *b, Device *dev, const ArgAssumptions *assumptions);
/* The tile IR: what the device runs, or, of an artefact, simplified; NULL after errors. */
Func *instance_func(TglKernel *k, Instance *in, const Binding *b);
Func *instance_source(TglKernel *k, Instance *in, const Binding *b);    /* simplified, made anew */
void instance_close_all(TglKernel *k);

/* ---- launch_cache.c: a launch like an earlier one, with other pointers ---- */

/* False: there is none like it, and nothing happened. */
bool launch_cache_run(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, TglStatus *status);
/* Keeps a launch that succeeded; `tensor` in order of instance_tensors. */
void launch_cache_add(TglKernel *k, Instance *in, const TglArg *args, int nargs, const Binding *b,
    TglTensor *const *tensor);
void launch_cache_drop(TglKernel *k, const Instance *in); /* those of a compiled form; NULL: all */

/* ---- launch.c ---- */

/* A form that is launched into a recording of another library stays loaded as long as the kernel lives. */
void instance_keep_recorded(Instance *in);
/* Runs with everything checked: fills, scratch, the grid.  Puts the tensors of the launch, scratch
 * ones too, into `tensor`, which instance_tensors made. */
TglStatus instance_launch(
    TglKernel *k, Instance *in, const Binding *b, TglTensor **tensor, double *seconds);
TglTensor **instance_tensors(TglKernel *k);
/* What a kernel before this one computes; *n: how many. */
const MadeTensor *instance_made(const Instance *in, int *n);
/* Both kernels, with the arguments of either. */
bool instance_start(Instance *in, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault);
void launch_hooks(TglDevice *dev);      /* gives the device the context's print function as it is now */
/* How many programs the grid has; the header was refused if they pass 2^63 - 1. */
int64_t grid_count(const Bound *b, int64_t grid[MAX_AXES]);
/* Arguments of a function by its parameters' names: tensors, scalars and dimensions of a bound
 * kernel. */
PlanArg *func_args(Arena *mem, const Func *f, const Kernel *k, const Bound *b,
    TglTensor *const *tensor, const ArgInfo *info);
/* The same for a form that has no function at hand: a kernel's parameters, then its dimensions. */
PlanArg *kernel_args(Arena *mem, const Kernel *k, const Bound *b, TglTensor *const *tensor, const ArgInfo *info);
/* One or the other, as the form's device takes them; *n: how many. */
PlanArg *instance_args(TglKernel *k, Instance *in, const Binding *b, TglTensor *const *tensor, int *n);
bool fill_outputs(TglKernel *k, const Bound *b, TglTensor *const *tensor);
/* Reports NULL arguments and objects of another context. */
bool launch_handles(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, const char *f);
void fault_report(Compile *cx, const Fault *fault, const Kernel *k);

#endif
