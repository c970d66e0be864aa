/* Types of the driver's interface that cuda.def names.  Packs (pack/launcher.c) contain this text: it is C99. */
#ifndef TEGULA_CUDA_TYPES_H
#define TEGULA_CUDA_TYPES_H

#include <stdint.h>

typedef int CudaResult;
typedef uint64_t CudaPointer;

typedef struct CudaCluster {
	unsigned x, y, z;
} CudaCluster;

typedef struct CudaAttribute {
	int id;
	char pad[4];
	union {
		CudaCluster cluster;
		int programmatic;
		char room[64];
	} value;
} CudaAttribute;

typedef struct CudaLaunch {
	unsigned gx, gy, gz, bx, by, bz, shared;
	void *stream;
	CudaAttribute *attribute;
	unsigned nattribute;
} CudaLaunch;

#endif
