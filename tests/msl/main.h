/* What the files of the command share. */
#ifndef TEGULA_TESTS_MSL_MAIN_H
#define TEGULA_TESTS_MSL_MAIN_H

#include <stdbool.h>
#include <stddef.h>

extern bool msl_verbose;

char *msl_read_file(const char *path);                      /* NULL: it cannot be read; to be freed */

/* facts.c: how much is wrong with a file; all is printed. */
int msl_facts(const char *path);
int msl_dtype_bytes(const char *t);                         /* 0: there is none of that name */
void msl_put(const char *t, void *to, double v);
double msl_get(const char *t, const void *from);

/* kernels.c */
typedef struct KernelsOptions {
	const char *path, *target;                      /* of a file or a folder of .tgl files */
	const char *only;                               /* this kernel alone, or NULL */
	const char *document;                           /* that has the table, or NULL */
	const char *keep;                               /* a folder for texts that are not right, or NULL */
	int part, parts;                                /* of a folder: one file in `parts`, from this one on; 0: all */
	bool write, all;                                /* put the table there; all dtypes */
} KernelsOptions;

int msl_kernels(const KernelsOptions *o);

#endif
