/* What LLVM's archives name and the compiler never reaches: compressing the debug sections of object files.  Linked
 * only where there are no static libz and libzstd. */
#include <stdlib.h>

#define UNREACHED(name)                                                                            \
	void name(void);                                                                           \
	void name(void)                                                                            \
	{                                                                                          \
		abort();                                                                           \
	}

UNREACHED(ZSTD_CCtx_setParameter)
UNREACHED(ZSTD_compress2)
UNREACHED(ZSTD_compressBound)
UNREACHED(ZSTD_createCCtx)
UNREACHED(ZSTD_decompress)
UNREACHED(ZSTD_freeCCtx)
UNREACHED(ZSTD_getErrorName)
UNREACHED(ZSTD_isError)
UNREACHED(compress2)
UNREACHED(compressBound)
UNREACHED(crc32)
UNREACHED(uncompress)
