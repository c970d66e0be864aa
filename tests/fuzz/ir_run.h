/* Running the kernels of gen.c: their memory, a run on the interpreter, and what two runs left. */
#ifndef TEGULA_FUZZ_IR_RUN_H
#define TEGULA_FUZZ_IR_RUN_H

#include "gen.h"
#include "ir/interp/interp.h"

enum { MAX_BYTES = 3000, CELLS = GEN_ROWS * GEN_COLS };

typedef struct Rng {
	uint64_t state;
} Rng;

uint64_t rng_next(Rng *r);
int rng_below(Rng *r, int n);

/* Bytes for gen_module, by a seed. */
typedef struct Input {
	uint8_t bytes[MAX_BYTES];
	int n;
	uint64_t seed;
} Input;

void input_make(Input *in, uint64_t seed);

typedef struct Memory {
	_Alignas(64) uint8_t tensor[GEN_TENSORS][CELLS * 8];
	_Alignas(64) uint8_t pointed[GEN_POINTERS][GEN_POINTED * 4];
	Text lines;                                     /* printed; faults too */
} Memory;

void memory_fill(Memory *mem, uint64_t seed);

/* Runs a plan of the kernel over the memory. */
void memory_run(const Plan *plan, Memory *mem);
/* False if the module cannot be run; faults are part of what is compared. */
bool run(Module *m, Memory *mem, PlanOptions opt);

/* To the bit, but that NaNs are equal. */
bool same_elements(DType t, const void *a, const void *b, int n);
bool same_memory(Memory *a, Memory *b);
/* To the bit, NaNs too. */
bool same_bits(const Memory *a, const Memory *b);
void on_print(void *user, const char *line);            /* appends to a Text */

#endif
