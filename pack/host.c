/* ---- kernels on the host: what their code calls, and how it is launched; in packs with the target cpu ----
 *
 * NAME_open_cpu opens a context whose kernels run in the calling thread, program after program, and are done when the call
 * returns; addresses are the host's. Floats below f32 are held as float in tiles, and rounded by what computes them. */

#define TGH TGP_ARITHMETIC

TGH uint32_t tgh_bits_f32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
TGH uint64_t tgh_bits_f64(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
TGH float tgh_wide_f32(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
TGH double tgh_wide_f64(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }

/* ---- narrow floats ---- */

/* The fields moved to where f32 has them, then scaled to make up for the bias; subnormals come out right. */
TGH float
tgh_widen(uint32_t magnitude, uint32_t sign, int mantissa, int bias, uint32_t special)
{
	float x = tgh_wide_f32(magnitude << (23 - mantissa)) * tgh_wide_f32((uint32_t)(254 - bias) << 23);
	uint32_t u = tgh_bits_f32(x);
	return tgh_wide_f32((magnitude >= special ? u | 0x7f800000 : u) | sign);
}

TGH float tgh_wide_f16(uint32_t h) { return tgh_widen(h & 0x7fff, (h & 0x8000) << 16, 10, 15, 0x7c00); }
TGH float tgh_wide_bf16(uint32_t h) { return tgh_wide_f32(h << 16); }
TGH float
tgh_wide_f8e4m3(uint32_t h)
{
	return (h & 0x7f) == 0x7f ? NAN : tgh_widen(h & 0x7f, (h & 0x80) << 24, 3, 7, 0xff);
}
TGH float tgh_wide_f8e5m2(uint32_t h) { return tgh_widen(h & 0x7f, (h & 0x80) << 24, 2, 15, 0x7c); }
TGH float tgh_wide_f4e2m1(uint32_t h) { return tgh_widen(h & 7, (h & 8) << 28, 1, 1, 0xff); }

/* To nearest even, at most `most`. */
TGH uint32_t
tgh_narrow(uint32_t u, int mantissa, int bias, uint32_t most, uint32_t nan)
{
	int cut = 23 - mantissa;
	uint32_t normal = ((u + ((1u << (cut - 1)) - 1) + ((u >> cut) & 1)) >> cut) - ((uint32_t)(127 - bias) << mantissa);
	/* a unit in the last place of this power of two is the format's least number */
	uint32_t power = (uint32_t)(127 + (1 - bias - mantissa) + 23) << 23;
	uint32_t small = tgh_bits_f32(tgh_wide_f32(u) + tgh_wide_f32(power)) - power;
	uint32_t r = u < (uint32_t)(128 - bias) << 23 ? small : normal;
	return u > 0x7f800000 ? nan : r > most ? most : r;
}

#define TGH_NARROW(type, T, expr) \
	TGH T tgh_bits_##type(float x) { uint32_t v = tgh_bits_f32(x), u = v & 0x7fffffff; return (T)(expr); }
#define TGH_ROUND(type, x) TGH float tgh_round_##type(float a) { return tgh_wide_##type(tgh_bits_##type(x)); }
TGH_NARROW(f16, uint16_t, tgh_narrow(u, 10, 15, 0x7c00, 0x7e00) | (v >> 16 & 0x8000))
TGH_NARROW(bf16, uint16_t, u > 0x7f800000 ? (v >> 16) | 0x40 : (v + 0x7fff + ((v >> 16) & 1)) >> 16)
TGH_NARROW(f8e4m3, uint8_t, tgh_narrow(u, 3, 7, 0x7e, 0x7f) | (v >> 24 & 0x80))
TGH_NARROW(f8e5m2, uint8_t, (u == 0x7f800000 ? 0x7c : tgh_narrow(u, 2, 15, 0x7b, 0x7f)) | (v >> 24 & 0x80))
TGH_NARROW(f4e2m1, uint8_t, tgh_narrow(u, 1, 1, 7, 7) | (u > 0x7f800000 ? 0 : v >> 28 & 8))
TGH_ROUND(f16, a)
TGH_ROUND(bf16, a)
TGH_ROUND(f8e4m3, a)
TGH_ROUND(f8e5m2, a > 57344    ? 57344
		  : a < -57344 ? -57344
			       : a) /* what is computed saturates; an infinity is moved */
TGH_ROUND(f4e2m1, a)

/* x to `bits` bits of precision, or to a multiple of 2^(least - bits + 1): f32 has it, and it is rounded once. */
TGH double
tgh_cut(double x, int bits, int least)
{
	uint64_t e = tgh_bits_f64(x) >> 52 & 2047, low = (uint64_t)(1023 + least), high = 1023 + 300;
	double magic;
	e = e < low ? low : e > high ? high : e;
	magic = tgh_wide_f64((e - (uint64_t)(bits - 1) + 52) << 52 | UINT64_C(1) << 51);
	return copysign((x + magic) - magic, x);
}
#define TGH_CUT(type, bits, least) \
	TGH float tgh_cut_##type(double x) { return tgh_round_##type((float)tgh_cut(x, bits, least)); }
TGH_CUT(f16, 11, -14)
TGH_CUT(bf16, 8, -126)
TGH_CUT(f8e4m3, 4, -6)
TGH_CUT(f8e5m2, 3, -14)
TGH_CUT(f4e2m1, 2, 0)

/* Magnitudes of more than 53 bits lose eleven, of which the last kept bit remembers whether any was set. */
TGH uint64_t tgh_odd(uint64_t a) { return a >> 53 ? (a & ~UINT64_C(2047)) | (uint64_t)((a & 2047) != 0) << 11 : a; }
TGH double tgh_odd_u64(uint64_t a) { return (double)tgh_odd(a); }
TGH double tgh_odd_i64(int64_t a) { return a < 0 ? -(double)tgh_odd(0 - (uint64_t)a) : (double)tgh_odd((uint64_t)a); }

TGH float
tgh_tf32(float x)
{
	uint32_t u = tgh_bits_f32(x);
	return (u & 0x7f800000) == 0x7f800000 ? x : tgh_wide_f32((u + 0x1000) & ~UINT32_C(0x1fff));
}

TGH float tgh_e8m0(unsigned x) { return x == 255 ? NAN : (float)ldexp(1.0, (int)x - 127); }

/* ---- elements in memory ---- */

#define TGH_PLAIN(type, T) \
	TGH T tgh_get_##type(const void *at, int64_t i) { return ((const T *)at)[i]; } \
	TGH void tgh_put_##type(void *at, int64_t i, T v) { ((T *)at)[i] = v; }
TGH_PLAIN(bool, uint8_t)
TGH_PLAIN(i8, int8_t)
TGH_PLAIN(i16, int16_t)
TGH_PLAIN(i32, int32_t)
TGH_PLAIN(i64, int64_t)
TGH_PLAIN(u8, uint8_t)
TGH_PLAIN(u16, uint16_t)
TGH_PLAIN(u32, uint32_t)
TGH_PLAIN(u64, uint64_t)
TGH_PLAIN(f32, float)
TGH_PLAIN(f64, double)

#define TGH_ROUNDED(type, T) \
	TGH float tgh_get_##type(const void *at, int64_t i) { return tgh_wide_##type(((const T *)at)[i]); } \
	TGH void tgh_put_##type(void *at, int64_t i, float v) { ((T *)at)[i] = tgh_bits_##type(v); }
TGH_ROUNDED(f16, uint16_t)
TGH_ROUNDED(bf16, uint16_t)
TGH_ROUNDED(f8e4m3, uint8_t)
TGH_ROUNDED(f8e5m2, uint8_t)

/* Two in a byte, the lower half first. */
TGH int tgh_half(const void *at, int64_t i) { return ((const uint8_t *)at)[i >> 1] >> (i & 1) * 4 & 15; }
TGH void
tgh_put_half(void *at, int64_t i, int v)
{
	uint8_t *byte = (uint8_t *)at + (i >> 1);
	int shift = (int)(i & 1) * 4;
	*byte = (uint8_t)((*byte & ~(15 << shift)) | (v & 15) << shift);
}
TGH int8_t tgh_wrap_i4(uint64_t v) { return (int8_t)((int)((v & 15) ^ 8) - 8); }
TGH int8_t tgh_get_i4(const void *at, int64_t i) { return tgh_wrap_i4((uint64_t)tgh_half(at, i)); }
TGH uint8_t tgh_get_u4(const void *at, int64_t i) { return (uint8_t)tgh_half(at, i); }
TGH float tgh_get_f4e2m1(const void *at, int64_t i) { return tgh_wide_f4e2m1((uint32_t)tgh_half(at, i)); }
TGH void tgh_put_i4(void *at, int64_t i, int8_t v) { tgh_put_half(at, i, v); }
TGH void tgh_put_u4(void *at, int64_t i, uint8_t v) { tgh_put_half(at, i, v); }
TGH void tgh_put_f4e2m1(void *at, int64_t i, float v) { tgh_put_half(at, i, tgh_bits_f4e2m1(v)); }

/* The part of 0 .. extent - 1 that start + i keeps inside 0 .. size - 1. */
TGH void
tgh_clip(int64_t start, int extent, int64_t size, int *lo, int *hi)
{
	*lo = *hi = 0;
	if (start >= size || start <= -(int64_t)extent)
		return;
	*lo = start < 0 ? (int)-start : 0;
	*hi = size - start < extent ? (int)(size - start) : extent;
}

TGH int
tgh_inside(int64_t start, int i, int64_t size)
{
	return start < size && start >= -(int64_t)i && start + i < size;
}

TGH int tgh_start(int64_t start, int most) { return start < 0 ? 0 : start > most ? most : (int)start; }

/* ---- numbers ---- */

#define TGH_TO(type, T, low, high, end) \
	TGH T tgh_to_##type(double x) { return x != x ? 0 : x >= (end) ? (T)(high) : x < (double)(low) ? (T)(low) : (T)x; }
TGH_TO(i4, int8_t, -8, 7, 8.0)
TGH_TO(u4, uint8_t, 0, 15, 16.0)
TGH_TO(i8, int8_t, INT8_MIN, INT8_MAX, 128.0)
TGH_TO(i16, int16_t, INT16_MIN, INT16_MAX, 32768.0)
TGH_TO(i32, int32_t, INT32_MIN, INT32_MAX, 2147483648.0)
TGH_TO(i64, int64_t, INT64_MIN, INT64_MAX, 9223372036854775808.0)
TGH_TO(u8, uint8_t, 0, UINT8_MAX, 256.0)
TGH_TO(u16, uint16_t, 0, UINT16_MAX, 65536.0)
TGH_TO(u32, uint32_t, 0, UINT32_MAX, 4294967296.0)
TGH_TO(u64, uint64_t, 0, UINT64_MAX, 18446744073709551616.0)

/* A NaN gives way to a number; of zeros the lesser is -0. */
#define TGH_ORDER(type, T) \
	TGH T tgh_min_##type(T a, T b) { return b != b ? a : a != a ? b : a == b ? (signbit(a) ? a : b) : a < b ? a : b; } \
	TGH T tgh_max_##type(T a, T b) { return b != b ? a : a != a ? b : a == b ? (signbit(a) ? b : a) : a > b ? a : b; } \
	TGH T tgh_min_nan_##type(T a, T b) { return a != a ? a : b != b ? b : tgh_min_##type(a, b); } \
	TGH T tgh_max_nan_##type(T a, T b) { return a != a ? a : b != b ? b : tgh_max_##type(a, b); }
TGH_ORDER(f32, float)
TGH_ORDER(f64, double)

/* By 0 quotients are 0 and remainders the dividend; the least integer over -1 wraps. */
TGH uint64_t tgh_abs(int64_t a) { return a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }
TGH int64_t tgh_div(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b; }
TGH uint64_t tgh_divu(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
TGH int64_t tgh_rem(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
TGH uint64_t tgh_remu(uint64_t a, uint64_t b) { return b == 0 ? a : a % b; }
TGH int64_t tgh_floor(int64_t a, int64_t b) { return tgh_div(a, b) - (b != 0 && tgh_rem(a, b) != 0 && (a < 0) != (b < 0)); }
TGH uint64_t tgh_flooru(uint64_t a, uint64_t b) { return tgh_divu(a, b); }
TGH int64_t tgh_ceil(int64_t a, int64_t b) { return tgh_div(a, b) + (b != 0 && tgh_rem(a, b) != 0 && (a < 0) == (b < 0)); }
TGH uint64_t tgh_ceilu(uint64_t a, uint64_t b) { return tgh_divu(a, b) + (b != 0 && a % b != 0); }
TGH uint64_t tgh_shl(uint64_t a, uint64_t b, int bits) { return b < (uint64_t)bits ? a << b : 0; }
TGH int64_t tgh_shr(int64_t a, uint64_t b, int bits) { return b < (uint64_t)bits ? a >> b : a < 0 ? -1 : 0; }
TGH uint64_t tgh_shru(uint64_t a, uint64_t b, int bits) { return b < (uint64_t)bits ? a >> b : 0; }
TGH int tgh_clz(uint64_t a, int bits) { return a ? __builtin_clzll(a) - (64 - bits) : bits; }

TGH uint64_t
tgh_mulhi(uint64_t a, uint64_t b, int bits)
{
	uint64_t low = (a & 0xffffffff) * (b & 0xffffffff), m = (a >> 32) * (b & 0xffffffff) + (low >> 32);
	uint64_t n = (a & 0xffffffff) * (b >> 32) + (m & 0xffffffff);
	return bits < 64 ? a * b >> bits : (a >> 32) * (b >> 32) + (m >> 32) + (n >> 32);
}

/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011). */
TGH void
tgh_philox(uint64_t seed, uint64_t offset, uint32_t c[4])
{
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	int round;
	c[0] = (uint32_t)offset, c[1] = (uint32_t)(offset >> 32), c[2] = c[3] = 0;
	for (round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
		c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k0;
		c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k1;
		c[1] = (uint32_t)b;
		c[3] = (uint32_t)a;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
}

/* ---- order ---- */

typedef struct TghKey {
	uint64_t key;                           /* orders as the element does */
	int from;
} TghKey;

/* Both zeros are one, and all NaNs, which are the greatest. */
TGH uint64_t
tgh_key_float(double x)
{
	uint64_t u = tgh_bits_f64(x + 0.0);
	return x != x ? UINT64_MAX : u >> 63 ? ~u : u | UINT64_C(1) << 63;
}
TGH uint64_t tgh_key_signed(int64_t x) { return (uint64_t)x ^ UINT64_C(1) << 63; }
TGH uint64_t tgh_key_unsigned(uint64_t x) { return x; }

static __attribute__((unused)) int
tgh_compare(const void *a, const void *b)
{
	const TghKey *x = (const TghKey *)a, *y = (const TghKey *)b;
	return x->key != y->key ? x->key < y->key ? -1 : 1 : x->from - y->from;
}

TGH void tgh_sort(TghKey *key, int n) { qsort(key, (size_t)n, sizeof *key, tgh_compare); }

/* ---- a launch ---- */

static TgpContext *
tgp_open_host(const TgpPack *pack)
{
	TgpContext *cx = tgp_make(pack);
	TgpDevice *d = cx ? tgp_make_device(pack) : NULL;
	int i, j;
	if (!d)
		return tgp_close(&cx), (TgpContext *)NULL;
	cx->is_host = 1;
	cx->devices = d;
	d->target = tgp_target(pack, 0);
	for (i = 0; i < pack->nkernels; i++)
		for (j = 0; j < pack->kernel[i].nforms; j++) {
			TgpLoaded *l = (TgpLoaded *)calloc(1, sizeof *l);
			if (!l)
				return tgp_close(&cx), (TgpContext *)NULL;
			l->form = &pack->kernel[i].form[j];
			d->loaded[pack->kernel[i].first + j] = l;
		}
	return cx;
}

static TgpStatus
tgp_no_gpu(TgpContext *cx)
{
	char *text = tgp_text(cx);
	size_t n = strlen(text);
	snprintf(text + n, TGP_ROOM - n, "; %s_open_cpu() opens it for the host", cx->pack->name);
	return TGP_ERROR_DRIVER;
}

static void
tgp_fill_host(void *to, const TgpParam *q, int64_t bytes)
{
	int64_t i;
	for (i = 0; i + q->fill_bytes <= bytes; i += q->fill_bytes)
		memcpy((char *)to + i, &q->fill, (size_t)q->fill_bytes);
}

static TgpStatus
tgp_run_host(TgpContext *cx, const TgpKernel *k, const TgpCall *call, const TgpPlan *p)
{
	const TgpForm *f = p->loaded->form;
	TgpCall with = *call;
	char *all = (char *)malloc(p->scratch + f->room);
	size_t next = f->room;
	int64_t at[3];
	int i, wrong;
	if (!all)
		return tgp_fail(cx, TGP_ERROR_MEMORY, "%s needs %zu bytes to work in", k->name, p->scratch + f->room);
	for (i = 0; i < k->nparams; i++) {
		const TgpParam *q = &k->param[i];
		if (q->what & TGP_SCRATCH) {
			with.address[i] = all + next;
			next += ((size_t)p->bytes[i] + 255) / 256 * 256;
		}
		if (q->fill_bytes && p->bytes[i] && p->given[i])
			return free(all),
			       tgp_fail(cx, TGP_ERROR_USAGE,
				   "%s: %s begins as one value throughout, which takes a "
				   "contiguous tensor",
				   k->name, q->name);
		if (q->fill_bytes)
			tgp_fill_host((void *)(uintptr_t)with.address[i], q, p->bytes[i]);
	}
	wrong = p->is_empty ? 0 : f->host(&with, p, all, at);
	free(all);
	return wrong ? tgp_fail(cx, TGP_ERROR_KERNEL, "%s: an assert was false in program (%lld, %lld, %lld): %s", k->name,
	    (long long)at[0], (long long)at[1], (long long)at[2], f->asserts[wrong - 1]) : TGP_OK;
}
