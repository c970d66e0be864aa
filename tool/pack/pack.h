/* Inside `tegula pack`: kernels compiled ahead of time, as C.
 *
 * pack_sizes.c says for which sizes, pack_forms.c compiles a kernel for each of them and each target, in forms that
 * take more or less for granted, pack_assemble.c makes machine code of them, pack_formula.c writes the header's formulas as
 * C, pack_table.c the tables that the launcher reads (pack/launcher.c), pack_function.c what a user calls, host.c and its
 * like kernels as C for the host, and cmd_pack.c puts the two files together.
 */
#ifndef TEGULA_PACK_H
#define TEGULA_PACK_H

#include "ast/print.h"
#include "tool/cli_build.h"

/* Sizes that code is made for: values by name, of dimensions, compile-time parameters, scalars and the schedule. */
typedef struct PackSizes {
	NamedConst *given;
	int n;
	bool is_asked;                                  /* of --sizes, --tuned or an example: code for just these, too */
	const char *device;                             /* of --tuned: where it was measured; NULL: any */
	int line;                                       /* of the file of --tuned or --sizes; 0: none */
} PackSizes;

typedef VEC(PackSizes) PackSizesList;

/* What code takes for granted: the sizes' own multiples; rows of whole 16 elements at 16 bytes; nothing. */
typedef enum PackLevel { PACK_EXACT, PACK_WIDE, PACK_GENERAL } PackLevel;

typedef struct PackWork PackWork;                       /* PTX to be assembled */

enum { PACK_DENSE = 255 };                              /* TGP_DENSE of pack/tables.h */

typedef struct PackForm {
	const Target *target;
	Bound bound;
	int64_t *assumed;                               /* of each symbol: multiples, negated numbers */
	unsigned char *align, *rows;                    /* of each parameter, as TgpForm has them */
	unsigned char *derived;                         /* of each compile-time value: it follows from the dimensions */
	PackLevel level;
	Artefact code;
	const char *about;                              /* "sm_90a: BLOCK = 512, warps = 2" */
	int ptx, cubin;                                 /* of Pack.blob; -1: none */
	PackWork *work;                                 /* what becomes the cubin; or NULL */
	bool must;                                      /* without it there is no pack */
	const char *host, *host_name;                   /* of the target cpu: its C, and in the names there; or NULL */
	const char *const *asserts;                     /* of host */
	int nasserts;
	const char *metal, *json;                       /* of Apple's targets: its text, and how to launch it */
} PackForm;

typedef VEC(PackForm) PackForms;

/* A kernel for one choice of dtypes and of values that results follow from: one function of the pack. */
typedef struct PackKernel {
	Kernel *k;
	const char *function;                           /* its name in C */
	const char *variant;                            /* "f32, f32; CAUSAL = true" */
	Bound bound;                                    /* of its first sizes, but for what the compiler chooses */
	PackForms forms, metal;
	bool is_partial;                                /* code is of the values of these forms alone */
	VEC(const Expr *) opaque;                       /* formulas that stand as numbers */
	bool *fixes; /* symbols that such formulas name: code is for these values alone */
} PackKernel;

typedef struct PackBlob {
	char *bytes;                                    /* in malloc */
	size_t n;
	bool is_text;                                   /* PTX, its NUL among the bytes */
} PackBlob;

typedef struct Pack {
	const Cli *cli;
	Compile *cx;
	const char *name, *folder;
	bool assembles;                                 /* there is a ptxas, and it is asked */
	bool has_host;                                  /* the target cpu is among the targets */
	bool *defined;                                  /* of each -D: a kernel has the name */
	VEC(const Target *) targets;                    /* NVIDIA's, by capability */
	VEC(const Target *) apples;
	VEC(Kernel *) found;                            /* in all files */
	VEC(PackKernel *) kernels;
	VEC(PackBlob) blobs;
	VEC(PackWork *) works;
	int nhosts;                                     /* functions for the host */
} Pack;

/* pack_sizes.c */

typedef struct PackLine {                           /* of --sizes or --tuned */
	const char *kernel;
	const char *device, *dtypes;                    /* of --tuned */
	NamedConst *value;
	int n, used;
	int line;
} PackLine;

typedef VEC(PackLine) PackLines;

/* False after printing. */
bool pack_read_lines(Pack *p, PackLines *out);
/* Those of a kernel: what it is asked for, else its examples, and powers of two where code is of one size.  *is_partial:
 * other sizes may have no code.  False after errors. */
bool pack_sizes(Pack *p, Kernel *k, PackLines *lines, PackSizesList *out, bool *is_partial);
/* Whether a compile-time parameter's default follows from dimensions or scalars. */
bool pack_is_derived(const Kernel *k, int ct);
/* Whether each value of a compile-time parameter makes a function of its own, because results may follow from it: it is
 * none that follows from dimensions, that tune(...) lists, that divides the grid, or of the schedule. */
bool pack_makes_function(const Kernel *k, int ct);
/* Whether that default speaks of a symbol, or of a parameter whose default does. */
bool pack_default_names(const Kernel *k, int ct, const char *symbol);

/* pack_forms.c */

/* Compiles all forms of a kernel for some sizes.  False after errors. */
bool pack_add_forms(Pack *p, Kernel *k, const PackSizes *s, bool is_only);
/* PackKernel.variant of a kernel so bound. */
const char *pack_variant(Pack *p, const Kernel *k, const Bound *b);
int pack_blob(Pack *p, const char *bytes, size_t n, bool is_text);
extern const Target pack_host;                          /* "cpu": the host, by C */

/* pack_assemble.c */

PackWork *pack_assemble_later(Pack *p, const Target *t, const Text *ptx, bool must);
bool pack_assemble(Pack *p);                            /* all of it; false after printing */

/* pack_formula.c */

/* Appends a formula as C; false: it cannot be one, and *out has what came before. */
bool pack_formula(const PackKernel *k, const Expr *e, Text *out);
/* Finds those that cannot.  False after printing, of one that names a scalar. */
bool pack_find_opaque(Pack *p, PackKernel *k);
/* The function that evaluates them. */
void pack_put_header(const PackKernel *k, Text *out);

/* pack_table.c */

void pack_put_kernels(const Pack *p, Text *out);
void pack_put_driver(const char *launcher, Text *out);  /* what `launcher` uses of cuda.def */
void pack_put_limits(const Pack *p, Text *out);

/* pack_names.c */

bool pack_is_reserved(const char *name);                /* as a function's */
/* The C name of a parameter or dimension, and of the strides of one. */
const char *pack_c_name(const Kernel *k, const char *name, Arena *mem);
/* The name of a parameter or an operator in a schema of PyTorch's; python/tegula/torch.py does the same. */
const char *pack_python_name(const Kernel *k, const char *name, Arena *mem);
const char *pack_strides_name(const Kernel *k, const char *name, Arena *mem);

/* pack_function.c */

/* The type of an element behind an address; "void" where C has none. */
const char *pack_c_type(DType t);
bool pack_is_one_value(const PackKernel *k, int ct);    /* all forms have one value of a compile-time parameter */
void pack_put_prototypes(const Pack *p, Text *out);
void pack_put_functions(const Pack *p, Text *out);

/* pack_torch.c, pack_torch_shape.c */

bool pack_is_given(const KernelParam *q);               /* to an operator of PyTorch */
bool pack_is_output(const KernelParam *q);
DType pack_dtype(const PackKernel *k, int param);
const char *pack_torch_dtype(DType t);                  /* "at::kFloat" */
/* Why a kernel makes no operator; NULL: it does. */
const char *pack_torch_lacks(const Pack *p, const PackKernel *k);
/* Dimensions, tests of shapes, and outputs without contents. */
void pack_torch_put_shapes(const Pack *p, const PackKernel *k, Text *out);
void pack_put_torch(const Pack *p, Text *out);

/* pack_text.c, made by cmake/pack_text.cmake */
extern const char pack_text_header[], pack_text_types[], pack_text_tables[], pack_text_launcher[], pack_text_host[],
    pack_text_torch[];

#endif
