/* Fills: what an output is set to before its kernel runs, and what tgl_tensor_fill asks for.
 *
 * Where kernels may start before what comes before them is over, a fill of the driver's would be a wall between two of
 * them, longer than the fill itself (1 us).  So small ones are done by a kernel of ours that starts early and waits like
 * all others; it is written in PTX, as starting the compiler for it would take longer than all fills of most programs.
 * Large ones, those at odd addresses, and all on older GPUs are the driver's. */
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { FILL_THREADS = 256, FILL_UNIT = 16, FILL_MOST = 16 << 20 };

/* Each thread stores 16 bytes of the word over and over; the last one what is left, byte by byte. */
static const char text[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry tegula_fill(.param .u64 to, .param .u64 word, .param .u64 bytes)\n"
    ".maxntid 256\n"
    "{\n"
    "\t.reg .pred %p;\n\t.reg .b32 %r<4>;\n\t.reg .b64 %to, %word, %left, %offset, %high;\n"
    "\tmov.u32 %r1, %ctaid.x;\n"
    "\tmov.u32 %r2, %nctaid.x;\n"
    "\tadd.u32 %r3, %r1, 1024;\n"
    "\tsetp.ge.u32 %p, %r3, %r2;\n"
    "\t@%p griddepcontrol.launch_dependents;\n"         /* of the last blocks alone: see lower.c */
    "\tgriddepcontrol.wait;\n"
    "\tld.param.u64 %to, [to];\n"
    "\tld.param.u64 %word, [word];\n"
    "\tld.param.u64 %left, [bytes];\n"
    "\tmov.u32 %r2, %tid.x;\n"
    "\tmad.lo.u32 %r3, %r1, 256, %r2;\n"
    "\tmul.wide.u32 %offset, %r3, 16;\n"
    "\tsetp.ge.u64 %p, %offset, %left;\n"
    "\t@%p ret;\n"
    "\tadd.u64 %to, %to, %offset;\n"
    "\tsub.u64 %left, %left, %offset;\n"
    "\tsetp.lt.u64 %p, %left, 16;\n"
    "\t@%p bra $rest;\n"
    "\tst.global.v2.b64 [%to], {%word, %word};\n"
    "\tret;\n"
    "$rest:\n"
    "\tst.global.u8 [%to], %word;\n"
    "\tshl.b64 %high, %word, 56;\n"
    "\tshr.u64 %word, %word, 8;\n"
    "\tor.b64 %word, %word, %high;\n"
    "\tadd.u64 %to, %to, 1;\n"
    "\tsub.u64 %left, %left, 1;\n"
    "\tsetp.ne.u64 %p, %left, 0;\n"
    "\t@%p bra $rest;\n"
    "\tret;\n"
    "}\n";

/* ---- the kernel ---- */

static bool
describe(Artefact *a)
{
	*a = (Artefact){.form = FORM_PTX, .bytes = strdup(text), .size = sizeof text, .kernel = strdup("tegula_fill"),
	    .target = "sm_90", .abi = calloc(3, sizeof *a->abi), .nabi = 3, .threads = FILL_THREADS,
	    .warps = FILL_THREADS / 32, .naxis = 1, .waits = true, .cluster = 1, .split = 1, .share = 1};
	for (int i = 0; a->abi && i < a->nabi; i++)
		a->abi[i] = (AbiParam){.kind = ABI_DIM, .bytes = 8};
	return a->bytes && a->kernel && a->abi;
}

/* A stream under capture must not take part in loading. */
static bool
is_recorded(const Device *d)
{
	CudaState *s = CUDA_STATE(d);
	int status = 0;
	return s->cuda.cuStreamIsCapturing(d->stream, &status) != 0 || status != 0;
}

/* It is tried once; without it the driver fills. */
static bool
find_kernel(Device *d)
{
	CudaState *s = CUDA_STATE(d);
	if (s->fill || s->fill_tried || is_recorded(d))
		return s->fill != NULL;
	s->fill_tried = true;
	DeviceError before = d->error;
	if (describe(&s->fill_code) && cuda_finish(d, &s->fill_code))
		s->fill = cuda_load(d, &s->fill_code);
	if (!s->fill)
		d->error = before;
	return s->fill != NULL;
}

void
cuda_fill_close(Device *d)
{
	CudaState *s = CUDA_STATE(d);
	if (s->fill)
		cuda_unload(d, s->fill);
	artefact_close(&s->fill_code);
	s->fill = NULL;
}

/* ---- filling ---- */

static bool
by_kernel(Device *d, CudaPointer to, uint64_t word, size_t bytes)
{
	Loaded *l = CUDA_STATE(d)->fill;
	l->value[0] = to;
	l->value[1] = word;
	l->value[2] = bytes;
	return cuda_launch_values(d, l, (unsigned)((bytes + FILL_THREADS * FILL_UNIT - 1) / (FILL_THREADS * FILL_UNIT)));
}

/* Elements of 8 bytes whose halves differ are two columns of words. */
static bool
fill_words(Device *d, CudaPointer to, const uint32_t half[2], size_t n)
{
	if (half[0] == half[1])
		return CUDA_CALL(d, cuMemsetD32Async, to, half[0], 2 * n, d->stream);
	return CUDA_CALL(d, cuMemsetD2D32Async, to, 8, half[0], 1, n, d->stream) &&
	       CUDA_CALL(d, cuMemsetD2D32Async, to + 4, 8, half[1], 1, n, d->stream);
}

static bool
by_driver(Device *d, CudaPointer to, const void *one, size_t size, size_t n)
{
	uint32_t half[2] = {0, 0};
	memcpy(half, one, size);
	switch (size) {
	case 1: return CUDA_CALL(d, cuMemsetD8Async, to, (unsigned char)half[0], n, d->stream);
	case 2: return CUDA_CALL(d, cuMemsetD16Async, to, (unsigned short)half[0], n, d->stream);
	case 4: return CUDA_CALL(d, cuMemsetD32Async, to, half[0], n, d->stream);
	case 8: return fill_words(d, to, half, n);
	default: unreachable();
	}
}

bool
cuda_fill(Device *d, void *to, const void *one, size_t size, size_t n)
{
	CudaPointer p = (CudaPointer)(uintptr_t)to;
	uint64_t word = 0;
	if (n == 0)
		return true;
	for (size_t at = 0; at < sizeof word; at += size)
		memcpy((char *)&word + at, one, size);
	void *before = cuda_enter(d);
	bool ours = CUDA_STATE(d)->starts_early && find_kernel(d) && size * n <= FILL_MOST && p % FILL_UNIT == 0;
	bool ok = ours ? by_kernel(d, p, word, size * n) : by_driver(d, p, one, size, n);
	cuda_leave(d, before);
	return ok;
}
