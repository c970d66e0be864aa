/* Names of things on disk: SHA-256 of what they were made from. */
#ifndef TEGULA_HASH_H
#define TEGULA_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_BYTES = 32 };

typedef struct Hash {
	unsigned char byte[HASH_BYTES];
} Hash;

Hash hash_bytes(const void *bytes, size_t size);
/* The first `bytes` of it in hexadecimal, 2 * bytes characters and a 0. */
void hash_text(const Hash *h, int bytes, char *out);

/* Of the compiler's own sources and its LLVM, 32 hexadecimal digits; the build makes it. */
extern const char build_id[];

#endif
