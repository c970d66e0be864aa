/* One change of a kernel's thread IR, by which something that matters is missing or wrong. */
#ifndef TEGULA_TESTS_MUTANT_H
#define TEGULA_TESTS_MUTANT_H

#include "thread/thread.h"

typedef enum MutantKind {
#define MUTANT(id, name, meaning, in_table) MUTANT_##id,
#include "tests/mutate/mutants.def"
#undef MUTANT
	MUTANT_KINDS
} MutantKind;

typedef struct MutantInfo {
	const char *name;
	bool in_table;                                  /* tried where no kinds are asked for */
} MutantInfo;

extern const MutantInfo mutant_info[MUTANT_KINDS];

enum { MUTANTS_MOST = 16384 };                          /* of a kernel; what comes later stays as it is */

typedef struct MutantNote {
	MutantKind kind;
	const char *what;                               /* "cp_wait", "store" */
	Place place;
} MutantNote;

typedef struct Mutant {
	int n;                                          /* which of all mutants it is; -1: none */
	int count;                                      /* how many there are */
	uint64_t code;                                  /* of all nodes: the same code has the same */
	MutantNote *note;                               /* NULL, or of each, with n = -1 */
	unsigned char *was_false;                       /* NULL, or bytes that the code sets where a bounds check is false */
} Mutant;

/* goes_on: the mutants of this code count behind those of the code before, with which it is launched. */
void mutant_apply(ThreadModule *m, Mutant *o, bool goes_on);

#endif
