/* SHA-256 (FIPS 180-4), for the names of things on disk.
 *
 * What is found under a key is run as it is, without a look at what it was made from; so no two sources may have one key,
 * not even if one is made to collide.  That takes a cryptographic hash, and this one is 60 lines with published test
 * vectors.  A key is some kilobytes, which takes less than the file system does. */
#include <string.h>

#include "runtime/cache/hash.h"

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t
rotate_right(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static uint32_t
load_word(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void
schedule(const unsigned char block[64], uint32_t w[64])
{
	for (int i = 0; i < 16; i++)
		w[i] = load_word(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
	}
}

static void
add_block(uint32_t state[8], const unsigned char block[64])
{
	uint32_t w[64], s[8];
	schedule(block, w);
	memcpy(s, state, sizeof s);
	for (int i = 0; i < 64; i++) {
		uint32_t a = s[0], e = s[4];
		uint32_t t = s[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
			     ((e & s[5]) ^ (~e & s[6])) + round_constant[i] + w[i];
		uint32_t u = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) +
			     ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += t;
		s[0] = t + u;
	}
	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

Hash
hash_bytes(const void *bytes, size_t size)
{
	uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
	    0x1f83d9ab, 0x5be0cd19};
	const unsigned char *p = bytes;
	size_t left = size;
	for (; left >= 64; left -= 64, p += 64)
		add_block(state, p);
	unsigned char last[128] = {0};
	size_t n = left < 56 ? 64 : 128;
	if (left)
		memcpy(last, p, left);
	last[left] = 0x80;
	for (int i = 0; i < 8; i++)
		last[n - 1 - (size_t)i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
	for (size_t i = 0; i < n; i += 64)
		add_block(state, last + i);
	Hash h;
	for (int i = 0; i < HASH_BYTES; i++)
		h.byte[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
	return h;
}

void
hash_text(const Hash *h, int bytes, char *out)
{
	const char digits[] = "0123456789abcdef";
	for (int i = 0; i < bytes; i++) {
		out[2 * i] = digits[h->byte[i] >> 4];
		out[2 * i + 1] = digits[h->byte[i] & 15];
	}
	out[2 * bytes] = 0;
}
