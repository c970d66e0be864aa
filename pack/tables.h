/* ---- what a pack's tables hold: tool/pack/pack_table.c writes them, fields in this order, and the launcher reads them ---- */

enum { TGP_IN = 1, TGP_OUT = 2, TGP_SCRATCH = 4, TGP_STRIDED = 8, TGP_ADDRESS = 16, TGP_VALUE = 32 };

typedef struct TgpParam {
	const char *name;
	int what;                               /* TGP_IN and so on; TGP_ADDRESS: a pointer, without a shape */
	int bits, rank;                         /* of an element; of the tensor */
	int fill_bytes;                         /* 0: none */
	uint64_t fill;
} TgpParam;

typedef struct TgpAbi {
	int kind, param, dim;
} TgpAbi;

/* Of a launch's arguments: a number and multiples of scalars and dimensions (dim -1: by param) and extents. */
enum { TGP_TERMS = 6, TGP_WINDOWS = 2 };

typedef struct TgpSum {
	int64_t number;
	int n;
	struct {
		int64_t factor;
		int param, dim;
	} term[TGP_TERMS];
} TgpSum;

/* Of a map of windows (im2col), for dimensions from 1 on: corners of the bounding box, steps, and offsets. */
typedef struct TgpWindow {
	int step;
	TgpSum lower, count, reach;
} TgpWindow;

typedef struct TgpMap {
	int param, elem_bytes, rank, swizzle;
	int is_stored, is_added;                             /* boxes go to the tensor, as floats of 4 bytes that are added */
	int dim[TGP_RANK], merged[TGP_RANK], box[TGP_RANK];  /* dimensions before it that are one with it */
	int windows;
	TgpWindow window[TGP_WINDOWS];
} TgpMap;

enum { TGP_DENSE = 255 };                       /* contiguous */

struct TgpCall;
struct TgpPlan;

/* One compiled form of a kernel, and for which arguments it is right. */
typedef struct TgpForm {
	const char *entry, *about;              /* the code's name; "sm_90a: BLOCK = 512, warps = 2" */
	int target;                             /* of the pack */
	const void *cubin;                      /* or NULL */
	const void *ptx;                        /* or NULL */
	/* or NULL: of the target cpu, runs the grid; 0, or the number of an assert that was false, from 1, and its program */
	int (*host)(const struct TgpCall *a, const struct TgpPlan *p, void *room, int64_t *at);
	size_t room;                            /* bytes that it works in */
	int threads, shared, cluster;
	int ranks[3];                           /* blocks of a cluster that run neighbours along each axis of the grid */
	int persistent, early, registers;
	int split;                              /* blocks of a program */
	int share;                              /* programs of a block */
	long long part;                         /* bytes that each of those leaves for the one that joins them */
	const TgpAbi *abi;
	int nabi;
	const TgpMap *map;
	int nmaps;
	const char *const *asserts;
	const int64_t *ct;                      /* compile-time values, which the header's formulas read */
	const int64_t *size;                    /* what it was made for: dimensions */
	const int64_t *assumed;                 /* of each dimension: a multiple of it; less than 0: that number, negated */
	const unsigned char *align;             /* of each parameter, bytes */
	const unsigned char *rows;              /* strided parameters: TGP_DENSE, elements between rows, or 0: anything */
	const unsigned char *derived;           /* of each compile-time value: it follows from the dimensions of a launch */
	int farther;                            /* what is added to its distance from the sizes of a launch */
} TgpForm;

/* What the header's formulas come to. */
typedef struct TgpShape {
	int64_t grid[3], extent[TGP_MOST_PARAMS][TGP_RANK], ct[TGP_MOST_CT];
} TgpShape;

typedef struct TgpKernel {
	const char *name;
	int nparams, ndims, nct;
	const TgpParam *param;
	const char *const *dim;
	const char *const *ct;                  /* names */
	const char *const *where;               /* texts */
	/* 0; less than 0: a number beyond 64 bits or a division by 0; else the number of the `where` that is false, from 1 */
	int (*header)(const int64_t *d, const int64_t *v, const int64_t *ct, TgpShape *o);
	int reads_values;                       /* its formulas or maps take scalars */
	int naxis;
	const TgpForm *form;
	int nforms, first;                      /* its first form's number among all of the pack */
} TgpKernel;

typedef struct TgpTarget {
	const char *name;
	int capability, one_chip;               /* 90; code that no other chip takes */
} TgpTarget;

typedef struct TgpPack {
	const char *name;
	const TgpKernel *kernel;
	int nkernels, nforms;
	const TgpTarget *target;
	int ntargets;
} TgpPack;

#ifdef TGP_HOST                                 /* pack/host.c */
static TgpStatus tgp_run_host(TgpContext *cx, const TgpKernel *k, const struct TgpCall *call, const struct TgpPlan *p);
static TgpStatus tgp_no_gpu(TgpContext *cx);    /* adds to why no GPU runs the pack what does */
#else
#define tgp_run_host(cx, k, call, p) TGP_ERROR_USAGE
#define tgp_no_gpu(cx) TGP_ERROR_DRIVER
#endif
