/* The emulator's bulk copies of a tensor's boxes, and clusters: shared memory of other blocks, multicast. */
#include "simt_help.h"

enum { BAR = 0, BOX = 1024, MOST = 1 << 15 };

typedef struct Boxes {
	_Alignas(64) SimtTensorMap map;
	SimtTensor tensor;
	int32_t first[SIMT_TENSOR_RANK];
	uint64_t mask;
	_Alignas(16) uint8_t global[1 << 17];
	uint8_t in[MOST], out[2][MOST];                 /* shared memory: to store; by block, what was loaded */
	uint32_t seen[2][8];
	int bytes, room;                                /* what is moved; what rows of the swizzle's length take */
	bool adds;
} Boxes;

/* ---- by the definition ---- */

static uint8_t
byte_at(uint64_t k)
{
	return (uint8_t)(k * 29 + k / 251 + 5);
}

/* Bytes from a row to the next, which a swizzle has for itself (measured on an H200). */
static int
pitch(const SimtTensor *t)
{
	return t->swizzle ? 16 << t->swizzle : t->box[0] * dtype_info[t->dtype].bits / 8;
}

/* The place of element i[] of the box, in bytes from the box's begin, which is a multiple of 1024. */
static int
place(const SimtTensor *t, const int *i)
{
	int size = dtype_info[t->dtype].bits / 8, row = 0;
	for (int d = t->rank - 1; d > 0; d--)
		row = row * t->box[d] + i[d];
	int linear = row * pitch(t) + i[0] * size;
	int chunk = linear / 16, line = linear / 128;
	switch (t->swizzle) {
	case SIMT_SWIZZLE_32: chunk ^= line % 2; break;
	case SIMT_SWIZZLE_64: chunk ^= line % 4; break;
	case SIMT_SWIZZLE_128: chunk ^= line % 8; break;
	default: break;
	}
	return 16 * chunk + linear % 16;
}

static bool
next_index(const SimtTensor *t, int *i)
{
	for (int d = 0; d < t->rank; d++) {
		if (++i[d] < t->box[d])
			return true;
		i[d] = 0;
	}
	return false;
}

/* Bytes into the allocation of the tensor's element, -1: outside. */
static int64_t
source(const Boxes *x, const int *i)
{
	int64_t at = (int64_t)(x->tensor.address - (uintptr_t)x->global);
	for (int d = 0; d < x->tensor.rank; d++) {
		int64_t k = (int64_t)x->first[d] + i[d];
		if (k < 0 || k >= x->tensor.extent[d])
			return -1;
		at += k * (d ? x->tensor.stride[d] : dtype_info[x->tensor.dtype].bits / 8);
	}
	return at;
}

static void
begin(Boxes *x, SimtTensor t)
{
	*x = (Boxes){.tensor = t};
	for (int k = 0; k < LEN(x->global); k++)
		x->global[k] = byte_at((uint64_t)k);
	for (int k = 0; k < MOST; k++)
		x->in[k] = byte_at((uint64_t)k * 5 + 3);
	x->tensor.address += (uintptr_t)x->global;
	x->bytes = dtype_info[t.dtype].bits / 8;
	x->room = pitch(&t);
	for (int d = 0; d < t.rank; d++) {
		x->bytes *= t.box[d];
		x->room *= d ? t.box[d] : 1;
	}
	const char *why = simt_tensor_encode(&x->map, &x->tensor);
	if (why)
		fail_msg("%s", why);
}

/* ---- loads ---- */

static void
tensor_call(SimtThread *t, PrimKind kind, const Boxes *x, const uint64_t *before, int n)
{
	uint64_t in[9];
	memcpy(in, before, sizeof *in * (size_t)n);
	for (int d = 0; d < x->tensor.rank; d++)
		in[n + d] = (uint32_t)x->first[d];
	call(t, (PrimKind)((int)kind + x->tensor.rank - 1), in);
}

static void
body_load(SimtThread *t, void *user)
{
	Boxes *x = user;
	if (t->thread == 0) {
		call(t, PRIM_TENSOR_MAP, IN((uintptr_t)&x->map));
		call(t, PRIM_MBAR_INIT, IN(BAR, 1));
		call(t, PRIM_FENCE_MBAR, NOTHING);
		tensor_call(t, PRIM_TENSOR_LOAD_1, x, IN(BOX, (uintptr_t)&x->map, BAR), 3);
		call(t, PRIM_MBAR_EXPECT, IN(BAR, (uint64_t)x->bytes));
		call(t, PRIM_MBAR_WAIT, IN(BAR, 0));
		memcpy(x->out[0], t->shared + BOX, (size_t)x->room);
	}
}

static void
judge_load(const Boxes *x, const uint8_t *got)
{
	int size = dtype_info[x->tensor.dtype].bits / 8, i[SIMT_TENSOR_RANK] = {0};
	do {
		int64_t from = source(x, i);
		for (int b = 0; b < size; b++) {
			int want = from >= 0 ? byte_at((uint64_t)from + (uint64_t)b) : x->tensor.fills_nan ? 255 : 0;
			if (got[place(&x->tensor, i) + b] != want)
				fail_msg("rank %d, swizzle %d: wrong at [%d, %d, …]", x->tensor.rank, x->tensor.swizzle, i[0], i[1]);
		}
	} while (next_index(&x->tensor, i));
}

static void
body_store(SimtThread *t, void *user)
{
	Boxes *x = user;
	if (t->thread == 0) {
		memcpy(t->shared + BOX, x->in, (size_t)x->room);
		call(t, PRIM_FENCE_ASYNC, NOTHING);
		tensor_call(t, x->adds ? PRIM_TENSOR_ADD_1 : PRIM_TENSOR_STORE_1, x, IN(BOX, (uintptr_t)&x->map), 2);
		call(t, PRIM_BULK_COMMIT, NOTHING);
		call_imm(t, PRIM_BULK_WAIT, NOTHING, 0, 0);
	}
}

/* What is inside is written, and nothing else. */
static void
judge_store(const Boxes *x)
{
	int size = dtype_info[x->tensor.dtype].bits / 8, i[SIMT_TENSOR_RANK] = {0};
	uint8_t *want = malloc(sizeof x->global);
	assert_non_null(want);
	for (int k = 0; k < LEN(x->global); k++)
		want[k] = byte_at((uint64_t)k);
	do {
		int64_t to = source(x, i);
		for (int b = 0; b < size && to >= 0; b++)
			want[to + b] = x->in[place(&x->tensor, i) + b];
	} while (next_index(&x->tensor, i));
	assert_memory_equal(want, x->global, sizeof x->global);
	free(want);
}

static SimtTensor
tensor_of(int rank, SimtSwizzle swizzle, DType t)
{
	static const int64_t extent[] = {40, 11, 5, 4, 3};
	static const int box[] = {1, 6, 3, 2, 2};
	SimtTensor x = {.dtype = t, .rank = rank, .address = 64, .swizzle = swizzle, .fills_nan = swizzle == SIMT_SWIZZLE_64};
	int size = dtype_info[t].bits / 8;
	int64_t stride = size;
	for (int d = 0; d < rank; d++) {
		x.extent[d] = extent[d];
		x.stride[d] = stride;
		x.box[d] = d ? box[d] : (swizzle ? 16 << swizzle : 48) / size;
		stride = (stride * extent[d] + 15 + 32) / 16 * 16;
	}
	return x;
}

static void
boxes(void **state)
{
	static const DType types[] = {TY_BF16, TY_F32, TY_F8E4M3};
	static const int32_t firsts[][5] = {{0, 0, 0, 0, 0}, {-16, 7, -1, 3, 2}, {32, -2, 4, -1, -1}, {96, 0, 0, 0, 0},
		{INT32_MIN, INT32_MAX, 0, 0, 0}, {16, 4, 1, 1, 0}};
	Boxes *x = aligned_alloc(64, sizeof *x);
	assert_non_null(x);
	for (int rank = 1; rank <= 5; rank++)
		for (SimtSwizzle swizzle = SIMT_SWIZZLE_NONE; swizzle <= SIMT_SWIZZLE_128; swizzle++)
			for (int k = 0; k < LEN(firsts); k++) {
				SimtTensor t = tensor_of(rank, swizzle, types[(k + rank) % LEN(types)]);
				t.box[0] = swizzle == SIMT_SWIZZLE_128 && k % 2 ? t.box[0] * 3 / 8 : t.box[0];
				begin(x, t);
				memcpy(x->first, firsts[k], sizeof x->first);
				runs(body_load, x, (SimtLaunch){.seed = (uint64_t)(k % 2)});
				judge_load(x, x->out[0]);
				int32_t least = 0;
				for (int d = 0; d < rank; d++)
					least = MIN(least, x->first[d]);
				if (least < 0) {
					fails(body_store, x, (SimtLaunch){0}, "elements before the tensor");
					continue;
				}
				runs(body_store, x, (SimtLaunch){0});
				judge_store(x);
			}
	free(x);
}

/* Of floats in memory `k` of their number each, four blocks add 3 k to what is inside of the tensor. */
static void
judge_sums(const Boxes *x)
{
	int i[SIMT_TENSOR_RANK] = {0};
	float *want = malloc(sizeof x->global), in;
	assert_non_null(want);
	for (int k = 0; k < LEN(x->global) / 4; k++)
		want[k] = (float)k;
	do {
		int64_t to = source(x, i);
		memcpy(&in, x->in + place(&x->tensor, i), sizeof in);
		if (to >= 0)
			want[to / 4] += 4 * in;
	} while (next_index(&x->tensor, i));
	assert_memory_equal(want, x->global, sizeof x->global);
	free(want);
}

static void
sums(void **state)
{
	Boxes *x = aligned_alloc(64, sizeof *x);
	assert_non_null(x);
	for (int rank = 1; rank <= 5; rank++)
		for (SimtSwizzle swizzle = SIMT_SWIZZLE_NONE; swizzle <= SIMT_SWIZZLE_128; swizzle++) {
			begin(x, tensor_of(rank, swizzle, TY_F32));
			x->adds = true;
			x->first[0] = rank % 2 ? 4 : 32;
			for (int k = 0; k < LEN(x->global) / 4; k++)
				memcpy(x->global + 4 * k, &(float){(float)k}, 4);
			for (int k = 0; k < MOST / 4; k++)
				memcpy(x->in + 4 * k, &(float){(float)(3 * k)}, 4);
			runs(body_store, x, (SimtLaunch){.nblocks = 4});
			judge_sums(x);
		}
	free(x);
}

/* ---- windows ---- */

/* Walks from place to place as PTX ISA 9.0, 5.5.4, says: along the row, to the next one at the bounding box's end, and so on. */
static void
next_place(const SimtTensor *t, int64_t at[SIMT_TENSOR_RANK])
{
	for (int w = 0; w < t->windows; w++) {
		at[1 + w] += t->step[w];
		if (at[1 + w] < t->extent[1 + w] + t->upper[w])
			return;
		at[1 + w] = t->lower[w];
	}
	at[1 + t->windows]++;
}

static void
body_windows(SimtThread *t, void *user)
{
	Boxes *x = user;
	uint64_t in[11] = {BOX, (uintptr_t)&x->map, BAR};
	int rank = x->tensor.rank;
	if (t->thread != 0)
		return;
	for (int d = 0; d < rank; d++)
		in[3 + d] = (uint32_t)x->first[d];
	for (int w = 0; w < x->tensor.windows; w++)
		in[3 + rank + w] = (uint64_t)(2 - w);
	call(t, PRIM_MBAR_INIT, IN(BAR, 1));
	call(t, PRIM_FENCE_MBAR, NOTHING);
	call(t, (PrimKind)(PRIM_WINDOW_LOAD_3 + rank - 3), in);
	call(t, PRIM_MBAR_EXPECT, IN(BAR, (uint64_t)x->bytes));
	call(t, PRIM_MBAR_WAIT, IN(BAR, 0));
	memcpy(x->out[0], t->shared + BOX, (size_t)x->bytes);
}

static void
judge_windows(const Boxes *x)
{
	const SimtTensor *t = &x->tensor;
	int64_t at[SIMT_TENSOR_RANK];
	for (int d = 0; d < t->rank; d++)
		at[d] = x->first[d];
	for (int row = 0; row < t->box[1]; row++, next_place(t, at))
		for (int c = 0; c < t->box[0]; c++) {
			int64_t from = (int64_t)(t->address - (uintptr_t)x->global) + 2 * (at[0] + c);
			bool inside = at[0] + c >= 0 && at[0] + c < t->extent[0];
			for (int d = 1; d < t->rank; d++) {
				int64_t i = at[d] + (d <= t->windows ? 3 - d : 0);
				inside = inside && i >= 0 && i < t->extent[d];
				from += i * t->stride[d];
			}
			int i[SIMT_TENSOR_RANK] = {c, row};
			for (int b = 0; b < 2; b++)
				if (x->out[0][place(t, i) + b] != (inside ? byte_at((uint64_t)(from + b)) : 0))
					fail_msg("rank %d: wrong at place %d, channel %d", t->rank, row, c);
		}
}

static void
windows(void **state)
{
	static const int cases[][6] = {{-1, -1, -1, -1, 1, 1}, {0, 0, 0, 0, 2, 3}, {-3, -2, 4, 3, 1, 1}, {1, 1, -3, -1, 2, 2},
		{-2, -1, -5, 0, 1, 2}};
	Boxes *x = aligned_alloc(64, sizeof *x);
	assert_non_null(x);
	for (int rank = 3; rank <= 5; rank++)
		for (int k = 0; k < LEN(cases); k++) {
			const int *c = cases[k];
			SimtTensor t = tensor_of(rank, k % 2 ? SIMT_SWIZZLE_128 : SIMT_SWIZZLE_32, TY_F16);
			t.fills_nan = false;
			t.windows = rank - 2;
			for (int w = 0; w < t.windows; w++) {
				t.lower[w] = w < 2 ? c[w] : 0;
				t.upper[w] = w < 2 ? c[2 + w] : 0;
				t.step[w] = w < 2 ? c[4 + w] : 1;
			}
			t.box[1] = 50;
			for (int d = 2; d < rank; d++)
				t.box[d] = 1;
			begin(x, t);
			x->first[0] = 16;
			for (int w = 0; w < t.windows; w++)
				x->first[1 + w] = t.lower[w] + t.step[w];
			runs(body_windows, x, (SimtLaunch){0});
			judge_windows(x);
		}
	free(x);
}

static void
maps(void **state)
{
	SimtTensorMap m;
	const SimtTensor good = {.dtype = TY_F16, .rank = 2, .extent = {64, 8}, .stride = {2, 128}, .box = {32, 4},
		.swizzle = SIMT_SWIZZLE_64};
	assert_true(sizeof m <= 128);
	assert_null(simt_tensor_encode(&m, &good));
	SimtTensor t = good;
	t.rank = 6;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "1 to 5 dimensions"));
	t = good;
	t.address = 8;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "address"));
	t = good;
	t.stride[1] = 130;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "a stride"));
	t = good;
	t.box[0] = 64;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "longer than the swizzle's"));
	t.box[0] = 12;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "multiple of 16 bytes"));
	t = good;
	t.box[1] = 257;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "256"));
	t = good;
	t.extent[1] = 0;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "an extent of the tensor"));
	t = good;
	t.dtype = TY_I16;
	t.fills_nan = true;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "only floats"));
	const SimtTensor images = {.dtype = TY_F16, .rank = 4, .extent = {64, 8, 8, 2}, .stride = {2, 128, 1024, 8192},
		.box = {64, 1024, 1, 1}, .swizzle = SIMT_SWIZZLE_128, .windows = 2, .lower = {-128, -1}, .upper = {127, -1},
		.step = {1, 8}};
	assert_null(simt_tensor_encode(&m, &images));
	t = images;
	t.lower[0] = -129;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "a corner"));
	t = images;
	t.upper[1] = -9;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "empty"));
	t = images;
	t.step[1] = 9;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "a step"));
	t = images;
	t.windows = 1;
	assert_non_null(strstr(simt_tensor_encode(&m, &t), "two dimensions more"));
}

static void
body_bad(SimtThread *t, void *user)
{
	Boxes *x = user;
	call(t, PRIM_MBAR_INIT, IN(8 * (uint64_t)t->thread, 1));
	uint64_t bar = 8 * (uint64_t)t->thread, map = (uintptr_t)&x->map;
	switch (x->mask) {
	case 0: call(t, PRIM_TENSOR_LOAD_2, IN(BOX + 64, map, bar, 0, 0)); break;
	case 1: call(t, PRIM_TENSOR_LOAD_3, IN(BOX, map, bar, 0, 0, 0)); break;
	case 2: call(t, PRIM_TENSOR_LOAD_2, IN(BOX, (uintptr_t)x->global, bar, 0, 0)); break;
	case 3: call(t, PRIM_TENSOR_MULTI_2, IN(BOX, map, bar, 2, 0, 0)); break;
	case 4: call(t, PRIM_CLUSTER_ADDRESS, IN(BOX, 1)); break;
	case 5: call(t, PRIM_TENSOR_LOAD_2, IN(BOX, map, bar, 4, 0)); break;
	default: break;
	}
}

static void
refused(void **state)
{
	static const char *const words[] = {"not a multiple of 128", "2 dimensions, not 3", "no tensor map",
		"no block of rank 1", "no block of rank 1", "begins 4 elements into a row"};
	Boxes *x = aligned_alloc(64, sizeof *x);
	assert_non_null(x);
	for (int i = 0; i < LEN(words); i++) {
		begin(x, tensor_of(2, SIMT_SWIZZLE_128, TY_F16));
		x->mask = (uint64_t)i;
		fails(body_bad, x, (SimtLaunch){0}, words[i]);
	}
	free(x);
}

/* ---- clusters ---- */

/* Block 1 has boxes sent to both blocks or to itself alone; each block waits at its own mbarrier. */
static void
body_multi(SimtThread *t, void *user)
{
	Boxes *x = user;
	int rank = (int)call(t, PRIM_CLUSTER_RANK, NOTHING);
	if (t->thread == 0) {
		call(t, PRIM_MBAR_INIT, IN(BAR, 1));
		call(t, PRIM_FENCE_MBAR, NOTHING);
		memset(t->shared + BOX, 1, (size_t)x->bytes);
	}
	call(t, PRIM_CLUSTER_ARRIVE, NOTHING);
	call(t, PRIM_CLUSTER_WAIT, NOTHING);
	if (t->thread == 0 && rank == 1)
		tensor_call(t, PRIM_TENSOR_MULTI_1, x, IN(BOX, (uintptr_t)&x->map, BAR, x->mask), 4);
	if (t->thread == 0 && (x->mask >> rank & 1)) {
		call(t, PRIM_MBAR_EXPECT, IN(BAR, (uint64_t)x->bytes));
		call(t, PRIM_MBAR_WAIT, IN(BAR, 0));
	}
	if (t->thread == 0)
		memcpy(x->out[rank], t->shared + BOX, (size_t)x->bytes);
	call(t, PRIM_CLUSTER_ARRIVE, NOTHING);
	call(t, PRIM_CLUSTER_WAIT, NOTHING);
}

static void
multicast(void **state)
{
	Boxes *x = aligned_alloc(64, sizeof *x);
	assert_non_null(x);
	for (int rank = 1; rank <= 5; rank++)
		for (uint64_t mask = 1; mask <= 3; mask++) {
			begin(x, tensor_of(rank, SIMT_SWIZZLE_128, TY_BF16));
			x->mask = mask;
			x->first[0] = 8;
			runs(body_multi, x, (SimtLaunch){.cluster = 2, .nblocks = 2, .seed = mask - 1});
			for (int block = 0; block < 2; block++) {
				if (mask >> block & 1)
					judge_load(x, x->out[block]);
				else
					assert_true(x->out[block][0] == 1 && x->out[block][x->bytes - 1] == 1);
			}
		}
	free(x);
}

/* Each block writes a word into the other, tells it so, and reads one back; bytes are sent and sent to both. */
static void
body_cluster(SimtThread *t, void *user)
{
	Boxes *x = user;
	uint32_t rank = (uint32_t)call(t, PRIM_CLUSTER_RANK, NOTHING), other = rank ^ 1;
	if (t->thread == 0) {
		call(t, PRIM_MBAR_INIT, IN(BAR, 1));
		memset(t->shared + BOX, (int)rank + 40, 256);
	}
	call(t, PRIM_CLUSTER_ARRIVE, NOTHING);
	call(t, PRIM_CLUSTER_WAIT, NOTHING);
	if (t->thread == 0) {
		uint64_t there = call(t, PRIM_CLUSTER_ADDRESS, IN(512, other));
		uint64_t bar = call(t, PRIM_CLUSTER_ADDRESS, IN(BAR, other));
		call(t, PRIM_CLUSTER_STORE_4, IN(there, 0x1234 + rank, 0, 0, 0));
		call(t, PRIM_CLUSTER_STORE_4, IN(there + 16, rank, rank + 2, rank + 4, rank + 6));
		call(t, PRIM_CLUSTER_SIGNAL, IN(bar));
		call(t, PRIM_MBAR_WAIT, IN(BAR, 0));
		memcpy(&x->seen[rank][0], t->shared + 512, 4);
		x->seen[rank][1] = (uint32_t)call(t, PRIM_CLUSTER_LOAD, IN(call(t, PRIM_CLUSTER_ADDRESS, IN(BOX, other))));
		x->seen[rank][3] = (uint32_t)call(t, PRIM_CLUSTER_LOAD, IN(512));       /* one's own */
		memcpy(&x->seen[rank][4], t->shared + 528, 12);
		x->seen[rank][7] = (uint32_t)call(t, PRIM_CLUSTER_LOAD_4, IN(528));
	}
	call(t, PRIM_CLUSTER_ARRIVE, NOTHING);
	call(t, PRIM_CLUSTER_WAIT, NOTHING);
}

static void
clusters(void **state)
{
	Boxes *x = aligned_alloc(64, sizeof *x);
	assert_non_null(x);
	for (uint64_t seed = 0; seed < 4; seed++) {
		begin(x, tensor_of(1, SIMT_SWIZZLE_NONE, TY_F32));
		runs(body_cluster, x, (SimtLaunch){.cluster = 2, .nblocks = 2, .seed = seed});
		for (uint32_t rank = 0; rank < 2; rank++) {
			uint32_t byte = 40 + (rank ^ 1);
			assert_int_equal(x->seen[rank][0], 0x1234 + (rank ^ 1));
			assert_int_equal(x->seen[rank][1], byte * 0x01010101u);
			assert_int_equal(x->seen[rank][3], 0x1234 + (rank ^ 1));
			for (uint32_t i = 0; i < 3; i++)
				assert_int_equal(x->seen[rank][4 + i], (rank ^ 1) + 2 * i);
			assert_int_equal(x->seen[rank][7], rank ^ 1);
		}
	}
	free(x);
	all_called(PRIM_CLUSTER_RANK, PRIM_CLUSTER_RANK);
	all_called(PRIM_CLUSTER_ARRIVE, PRIM_CLUSTER_WAIT);
	all_called(PRIM_CLUSTER_ADDRESS, PRIM_CLUSTER_SIGNAL);
	all_called(PRIM_TENSOR_MAP, PRIM_TENSOR_ADD_5);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(boxes), cmocka_unit_test(sums), cmocka_unit_test(windows), cmocka_unit_test(maps), cmocka_unit_test(refused),
		cmocka_unit_test(multicast), cmocka_unit_test(clusters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
