/* ---- what all packs share ---- */
#ifndef TEGULA_PACK_H
#define TEGULA_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a function of a pack returns. The reason in words is what NAME_error gives. */
typedef enum TgpStatus {
	TGP_OK = 0,
	TGP_ERROR_USAGE,        /* an argument cannot be: no context, a null or unaligned address, an overlap, a size */
	TGP_ERROR_SIZE,         /* the pack has no code for these sizes */
	TGP_ERROR_DRIVER,       /* there is no driver, no GPU, or none that this pack has code for */
	TGP_ERROR_CONTEXT,      /* this thread has no CUDA context, or the process was forked */
	TGP_ERROR_MEMORY,
	TGP_ERROR_LAUNCH,       /* the driver refused a call */
	TGP_ERROR_KERNEL        /* an assert of a kernel was false */
} TgpStatus;

/* All that an opened pack holds. Any number of threads may launch with one at once. */
typedef struct TgpContext TgpContext;

#endif
