/* What a compile hands over: bytes for a device and all that a launch must know of them. */
#ifndef TEGULA_ARTEFACT_H
#define TEGULA_ARTEFACT_H

#include "model/model.h"

enum { MAP_BYTES = 128 };

/* What the runtime passes for each parameter of the compiled kernel. */
typedef enum AbiKind {
#define ABI(id, word, meaning) ABI_##id,
#include "lower/abi.def"
#undef ABI
} AbiKind;

/* n / d is (n + (n m >> 32)) >> s for every n below 2^31 and d from 1 to 2^31, s being the bits of d - 1 and
 * m = (2^s - d) 2^32 / d + 1 rounded down (Granlund and Montgomery, "Division by invariant integers using
 * multiplication", 1994): m | s << 32. */
static inline uint64_t
grid_inverse(int64_t programs)
{
	uint64_t d = programs > 1 ? (uint64_t)programs : 1, s = (uint64_t)MIN(log2_ceil(programs), 31);
	return ((((UINT64_C(1) << s) - d) << 32) / d + 1) | s << 32;
}

typedef struct AbiParam {
	AbiKind kind;
	int param, dim;
	int bytes;
} AbiParam;

/* What a kernel leaves behind ABI_FAULTS when an assert is false: the first thread to find one claims the record by a
 * compare-and-swap of `number` from 0, then fills the rest; the host looks once the launch is over. */
enum { FAULT_BYTES = 64, FAULT_VALUES = 3 };

typedef enum FaultValueKind {
	FAULT_VALUE_NONE,
	FAULT_VALUE_INT,
	FAULT_VALUE_UNSIGNED,
	FAULT_VALUE_FLOAT,
	FAULT_VALUE_BOOL
} FaultValueKind;

typedef struct FaultRecord {
	uint32_t number;                                /* which assert, from 1: Artefact.asserts[number - 1] */
	uint32_t element;                               /* index of the false element plus 1; 0: a scalar */
	int64_t program[MAX_AXES];
	uint8_t kind[4];                                /* FaultValueKind of the first values printed */
	uint32_t unused;
	uint64_t value[FAULT_VALUES];                   /* i64, u64, the bits of an f64, or 0 and 1 */
} FaultRecord;
_Static_assert(sizeof(FaultRecord) == FAULT_BYTES, "as lowering addresses it");

typedef enum ArtefactForm { FORM_PTX, FORM_CUBIN, FORM_MSL } ArtefactForm;

/* Plain malloc throughout, the caller's: artefact_close frees it. */
/* The numbers of an artefact, in the order of a cache file. The last three are what the text or the driver says, -1 for
 * not known. */
#define ARTEFACT_FIGURES(X)                                                                                           \
	X(int, threads)                         /* of a block */                                                      \
	X(int, warps)                           /* of a block */                                                      \
	X(int64_t, shared_bytes)                /* dynamic shared memory of a block */                                \
	X(int, naxis)                           /* of the grid */                                                     \
	X(int, added)                           /* programs along the last axis, which no header says; or 0 */        \
	X(bool, persistent)                     /* the grid is min(programs, what fits), each block walks on */       \
	X(bool, waits)                          /* its code waits for the grid before it: it may start early */       \
	X(int, cluster)                         /* blocks of a cluster; 1 */                                          \
	X(int, cluster_axis)                    /* of the grid, along which they run neighbours; or -1 */             \
	X(int, cluster_beside)                  /* of these as many along the other of the first two axes; 1 */      \
	X(int, split)                           /* blocks of a program; 1 */                                          \
	X(int, share)                           /* programs of a block, of a warp each; 1 */                           \
	X(int64_t, part_bytes)                  /* that each of those leaves behind ABI_PARTS; 0 */                   \
	X(int, parts_registers)                 /* a thread's at its start, of which roles take shares; or 0 */       \
	X(int, registers) X(int, spill_bytes) X(int, stack_bytes)

typedef struct Artefact {
	ArtefactForm form;
	char *bytes;                                    /* PTX text with its final 0, or a cubin */
	size_t size;
	char *kernel;                                   /* the entry's name */
	char target[16];                                /* "sm_90a" */
	AbiParam *abi;
	int nabi;
	TensorMap *map;                                 /* of its parameters ABI_TENSOR_MAP */
	int nmaps;
	struct MadeTensor *made;                        /* Func.made: arguments behind the kernel's and its dimensions */
	int nmade;
#define X(type, name) type name;
	ARTEFACT_FIGURES(X)
#undef X
	char **asserts;                                 /* of each assert, in text order: "FILE:LINE:COL: its text" */
	int nasserts;
} Artefact;

/* abi.c */

/* The kernel's parameters for a function: in order of its own parameters (a strided tensor's strides behind it), then
 * what is derived. */
AbiParam *artefact_abi(const Func *f, const Target *t, Arena *mem, int *n);
/* The tensor maps of its copies and sends, each once. */
TensorMap *artefact_maps(const Func *f, const Target *t, Arena *mem, int *n);
/* Both name dimensions as the function has them; afterwards as its arguments do (FuncParam.last), for those who launch. */
void artefact_by_argument(const Func *f, AbiParam *abi, int nabi, TensorMap *map, int nmaps);
/* The same of the formulas of tensors that a kernel before makes. */
void artefact_made_by_argument(const Func *f, struct MadeTensor *made, int n);
/* Does each block run one program after the other, in a loop over programs that pass persist made? */
bool artefact_is_persistent(const Func *f);
/* Words of zeros behind ABI_ARRIVALS for a launch of so many blocks: one for each program; of a persistent kernel one for
 * each warp that a block can have, where blocks share programs, or those of a counter that they fetch programs from. */
size_t artefact_arrivals(const Artefact *a, size_t blocks);
int artefact_ranks(const Artefact *a, int axis);        /* blocks of a cluster along that axis of the grid; 1 */
void artefact_close(Artefact *a);                       /* of what it holds; a zeroed one is fine */
/* One block of bytes that artefact_read takes back, for a cache; false if the bytes are not whole. */
void artefact_write(const Artefact *a, Text *out);
bool artefact_read(const char *bytes, size_t size, Artefact *out);

#endif
