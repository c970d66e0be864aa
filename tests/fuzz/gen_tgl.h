/* Random kernels as source text: what the makers, the printer and the shrinker share.
 *
 * A Source is a small tree beside its text: Steps are statements, Terms are expressions.  Each holds its text with
 * holes, $0 … for its operands and #N# for extent number N, so that printing is filling in, and so that a part can be
 * replaced by another of its form.  A Term has a Form (element type and extents) and a ValueRange, the magnitude and
 * precision of its elements, by which a maker decides whether a sum of them is exact in every order. */
#ifndef GEN_TGL_H
#define GEN_TGL_H

#include "ir/ir.h"

enum { FORM_RANK = 5, TERM_KIDS = 6, MAX_EXTENTS = 64, MAX_SIZES = 4, MAX_AXES_MADE = 3, FRAC_ANY = 1000 };

/* ---- extents of tiles ---- */

typedef enum ExtentKind { EXTENT_NUMBER, EXTENT_NAMED, EXTENT_SUM, EXTENT_PRODUCT } ExtentKind;

typedef struct Extent {
	ExtentKind kind;
	int a, b;                               /* of what it is the sum or product; named: its number, and -1 or i: pow2ceil(N<i>) */
	int value;                              /* numbers and named ones */
	bool is_const;                          /* named: a `const` of the file, else a parameter <E0 = 5> */
} Extent;

typedef struct Form {
	DType elem;
	int rank;
	int extent[FORM_RANK];                  /* indices of Source.extent */
} Form;

/* Elements are multiples of 2^-frac, at most `most` in magnitude; infinite: they may be NaN and infinite too.  Devices
 * may differ by `err`; 0: they agree to the last bit. */
typedef struct ValueRange {
	double most;
	int frac;
	double err;
} ValueRange;

static inline ValueRange
range_make(double most, int frac, double err)
{
	return (ValueRange){most, frac, err};
}

typedef struct Term {
	const char *text;
	Form form;
	ValueRange range;
	int nkid;
	struct Term *kid[TERM_KIDS];
} Term;

typedef struct Step Step;
typedef VEC(Step *) Steps;

struct Step {
	const char *text;                       /* without ';' and '{' */
	int nkid;
	Term *kid[TERM_KIDS];
	bool has_body, has_else, fixed;         /* fixed: what stands around it relies on it */
	Steps body, orelse;
	const char *part;                       /* of a loop: orelse is its merge */
};

typedef enum ParamUse {
	USE_READ, USE_BLOCK, USE_OWN, USE_ATOMIC, USE_LOAD, USE_STORE, USE_COUNT, USE_VALUE,
	USE_ONE,                                /* a tensor of rank 0 */
	USE_SCRATCH,
	USE_LOOP,                               /* a loop's own input */
} ParamUse;

typedef struct Param {
	const char *name, *decl, *init;         /* "x0: in f16[N0, 4]", "x0 = integers(-4, 5);" or NULL; views have no decl */
	ParamUse use;
	DType elem;
	int rank;
	ValueRange range;
	const char *fixed[FORM_RANK];           /* what a dimension is indexed with, or NULL: anything */
	int extent[FORM_RANK];                  /* of a dimension of known extent, else -1 */
	Form form;                              /* of what one program has of it: USE_BLOCK, USE_OWN */
	const char *op;                         /* USE_ATOMIC, USE_COUNT */
	double err;                             /* outputs: how far devices may be apart */
	int length;                             /* pointers: elements, of one program */
} Param;

typedef struct Axis {
	const char *name, *count;
	int size, extent;                       /* cdiv(N<size>, extent); extent -1: N<size>; size -1: a number */
	int number;
} Axis;

typedef struct Helper {
	const char *name;
	DType elem;
	int nresult;                            /* 3: ((r0, r1), r0) */
	Term *result[2];
	const char *body;                       /* what stands before `return`, or NULL: `=>` */
} Helper;

/* A compile-time parameter that is no extent. */
typedef struct Head {
	const char *name, *decl;                /* "T5", "T5: dtype = f16" */
	DType elem;                             /* TY_BOOL: a switch */
} Head;

typedef struct Source {
	Arena *mem;
	Extent extent[MAX_EXTENTS];
	int nextent;
	int size[MAX_SIZES];                    /* values of N0 … */
	VEC(Param *) params;
	VEC(Helper *) helpers;
	VEC(Head) heads;
	Axis axis[MAX_AXES_MADE];
	int naxis;
	const char *tune, *where;               /* with holes; or NULL */
	Steps body;
} Source;

int extent_value(const Source *s, int id);
int axis_count(const Source *s, const Axis *a);

/* print_tgl.c */
void source_print(const Source *s, Text *out);

/* shrink_tgl.c: changes `s` as long as `fails` says that it still fails */
void source_shrink(Source *s, bool (*fails)(void *user, const Source *s), void *user);

/* ---- making ---- */

typedef struct Named {
	const char *name;
	Form form;
	ValueRange range;
	bool is_var;
} Named;

typedef struct Maker {
	Source *s;
	uint64_t state;
	VEC(Named) scope;
	int names;                              /* given so far */
	int nesting;
	int most_elements;                      /* of a tile */
	bool large;                             /* tiles as kernels of products have them */
	bool plain;                             /* elementwise terms over what is in scope, and nothing else */
} Maker;

/* gen_tgl.c */
Source *source_make(Arena *mem, uint64_t seed);
int pick(Maker *g, int n);                      /* 0 .. n - 1 */
bool chance(Maker *g, int percent);
const char *new_name(Maker *g, const char *prefix);
int extent_number(Maker *g, int value);
int extent_named(Maker *g);
int extent_both(Maker *g, ExtentKind kind, int a, int b); /* -1: too many */
DType pick_elem(Maker *g);                      /* one that can be computed with */
Form pick_form(Maker *g, DType elem, int least, int most);
int64_t form_count(const Maker *g, Form f);
bool form_equal(Form a, Form b);
Form form_elem(Form f, DType elem);
Form form_scalar(DType elem);
Form form_insert(Form f, int axis, int extent);
Form form_remove(Form f, int axis);
Form form_narrow(Maker *g, Form f);             /* one that broadcasts to f */
bool form_fits(const Maker *g, Form f);
const char *form_shape(Maker *g, Form f);       /* "[#0#, #3#]" */
void name_push(Maker *g, const char *name, Form f, ValueRange w, bool is_var);

/* gen_range.c */
int type_mantissa(DType t);                     /* bits of a float's significand */
double type_largest(DType t);
ValueRange range_of_type(DType t);                   /* anything at all */
ValueRange range_settle(DType t, ValueRange w);           /* after an operation whose exact result is w */
ValueRange range_both(ValueRange a, ValueRange b);             /* either */
ValueRange range_add(ValueRange a, ValueRange b);
ValueRange range_mul(ValueRange a, ValueRange b);
ValueRange range_cast(DType from, DType to, ValueRange w);
bool range_within(ValueRange a, ValueRange b);            /* a's elements are in b's range, no less precise */

/* gen_term.c.  With `exact` the devices must agree on it. */
Term *term_make(Maker *g, Form f, bool exact, int depth);
Term *term_scalar(Maker *g, DType elem, int depth);
Term *term_literal(Maker *g, Form f);
const char *number_text(Maker *g, DType t, ValueRange *w);        /* "-2" */
Term *term_fit(Maker *g, Term *t, double most, int frac);   /* kept within, if it is not */
Term *term_node(Maker *g, Form f, ValueRange w, Term *const *kid, int nkid, const char *fmt, ...) PRINTF(6, 7);
#define term0(g, f, w, ...) term_node(g, f, w, NULL, 0, __VA_ARGS__)
#define term1(g, f, w, a, ...) term_node(g, f, w, (Term *[]){a}, 1, __VA_ARGS__)
#define term2(g, f, w, a, b, ...) term_node(g, f, w, (Term *[]){a, b}, 2, __VA_ARGS__)
#define term3(g, f, w, a, b, c, ...) term_node(g, f, w, (Term *[]){a, b, c}, 3, __VA_ARGS__)

/* A way to make a term of a form; NULL: it has none this time. */
typedef Term *TermRule(Maker *g, Form f, bool exact, int depth);

TermRule rule_elementwise, rule_cast, rule_math, rule_helper;    /* gen_elem.c */
TermRule rule_shape, rule_cut, rule_gather, rule_scatter, rule_join; /* gen_shape.c */
TermRule rule_table;                                             /* gen_table.c */
TermRule rule_reduce, rule_mean, rule_scan, rule_order, rule_random;        /* gen_reduce.c */
TermRule rule_dot, rule_dot_scaled;                              /* gen_product.c */
TermRule rule_read, rule_load, rule_read_own;                    /* gen_memory.c */
TermRule rule_value, rule_one, rule_asked;                                 /* gen_header.c */

/* gen_shape.c: "[:, :, X, :]" with X at `axis` of n */
const char *index_at(Maker *g, int n, int axis, const char *what);

/* gen_header.c: scalars and compile-time parameters */
const Head *head_make(Maker *g, DType elem);    /* of a dtype, or a switch (TY_BOOL) */
void clauses_make(Maker *g);

/* gen_product.c */
bool is_exact_sum(DType t, double n, double most, int frac);
bool is_sum_type(DType t);
void step_dot_loop(Maker *g, Steps *to);
void step_sum_loop(Maker *g, Steps *to);
void step_merge_loop(Maker *g, Steps *to);

/* gen_fn.c: functions and tuples */
void step_tuple(Maker *g, Steps *to);
void helpers_make(Maker *g);

/* gen_tensor.c: views, scratch, atomics, hints, what is printed */
void step_tensor(Maker *g, Steps *to);

/* gen_index.c: the grid, parameters, indexing */
enum { MOST_PARAMS = 14, MOST_KEPT = 26 };
typedef struct Index {
	const char *text; /* "x3[$0 +: #2#, 4]" */
	Term *kid[TERM_KIDS];
	int nkid;
} Index;
void index_term(Index *x, Term *t);
Term *index_start(Maker *g, int extent, int depth);
/* Indexes p so that its free dimensions give f's in order; the dimensions left over are scalars. */
Index index_make(Maker *g, const Param *p, Form f, bool writes, int depth);
Param *input_make(Maker *g, DType elem, int rank, Form wanted);
Param *param_add(Maker *g, ParamUse use, DType elem, const char *prefix);
Param *find_param(Maker *g, ParamUse use, DType elem, int least, int most);
const char *make_init(Maker *g, const char *name, DType t, const char *shape, ValueRange *w);
Term *make_distinct(Maker *g, int extent);
void axes_make(Maker *g);

/* gen_memory.c */
Param *output_make(Maker *g, ParamUse use, DType elem);
void step_memory(Maker *g, Steps *to);
void step_outputs(Maker *g, Steps *to);
void step_keep(Maker *g, Steps *to, const Named *v); /* writes it to an output, so that it is not dead code */

/* gen_step.c */
void steps_make(Maker *g, Steps *to, int n);
void body_make(Maker *g, Step *s, Steps *body, int n); /* n statements under s, with names of their own */
Step *step_add(Maker *g, Steps *to, Term *const *kid, int nkid, const char *fmt, ...) PRINTF(5, 6);
#define step0(g, to, ...) step_add(g, to, NULL, 0, __VA_ARGS__)
#define step1(g, to, a, ...) step_add(g, to, (Term *[]){a}, 1, __VA_ARGS__)
#define step2(g, to, a, b, ...) step_add(g, to, (Term *[]){a, b}, 2, __VA_ARGS__)

#endif
