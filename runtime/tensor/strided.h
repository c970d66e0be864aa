/* Which indices of strided dimensions reach an offset. */
#ifndef TEGULA_STRIDED_H
#define TEGULA_STRIDED_H

#include "runtime/tgl.h"

typedef struct StridedSearch {
	int rank;
	int64_t low[TGL_MAX_RANK], high[TGL_MAX_RANK];  /* of d[i] */
	int64_t stride[TGL_MAX_RANK];                   /* 0 and up */
	int64_t width;                                  /* the sum may be off by less; 1: not at all */
	bool nonzero;                                   /* d = 0 does not count */
	int64_t at[TGL_MAX_RANK];                       /* what was found */
} StridedSearch;

/* Is there a d with sum of d[i] * stride[i] = offset?  May say yes where no is true, if there are too many to try. */
bool strided_search(StridedSearch *s, int64_t offset);
/* The indices of the element at an offset; false: there is none. */
bool strided_find(int rank, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t *at);
/* Whether two different indices reach elements, each `width` wide, that overlap. */
bool strided_overlaps(int rank, const int64_t *dim, const int64_t *stride, int64_t width);

#endif
