/* From a process's start to the first result of a kernel on a GPU, by this library: a warm cache has the kernel's code.
 *
 *     bench_first FILE.tgl [STARTED]
 *
 * Doubles 4096 numbers, reads one back and prints a line: how many milliseconds had gone by after each step since STARTED.
 * first_raw.c does the same with the driver alone; bench/host starts both in turns. */
#include "bench/first.h"
#include "runtime/tgl.h"

static int
failed(TglContext *cx)
{
	fprintf(stderr, "%s\n", tgl_error(cx)->text);
	return 1;
}

static int
run_tegula(Steps *s, const char *path)
{
	static float in[N];
	const int64_t n = N;
	double got;
	for (int i = 0; i < N; i++)
		in[i] = (float)i;
	TglContext *cx = tgl_context_open();
	TglDevice *dev = tgl_device_open(cx, "cuda", NULL);
	if (!dev)
		return failed(cx);
	step(s, "context");
	TglProgram *p = tgl_program_file(cx, path);
	TglKernel *k = p ? tgl_program_kernel(p, 0) : NULL;
	if (!k)
		return failed(cx);
	step(s, "source");
	TglTensor *x = tgl_tensor(dev, TGL_F32, 1, &n), *y = tgl_tensor(dev, TGL_F32, 1, &n);
	if (!x || !y || tgl_tensor_write(x, in, sizeof in) != TGL_OK)
		return failed(cx);
	step(s, "tensors");
	TglArg args[] = {tgl_arg_tensor("x", x), tgl_arg_tensor("y", y)};
	if (tgl_launch(dev, k, args, 2, NULL) != TGL_OK)
		return failed(cx);
	step(s, "launch");
	if (tgl_tensor_element(y, N - 1, &got, NULL) != TGL_OK)
		return failed(cx);
	step(s, "result");
	int status = finish(s, got, 2.0 * (N - 1));
	tgl_tensor_close(&x);
	tgl_tensor_close(&y);
	tgl_program_close(&p);
	tgl_device_close(&dev);
	tgl_context_close(&cx);
	return status;
}

int
main(int argc, char **argv)
{
	Steps s = begin(argc > 2 ? argv[2] : NULL);
	if (argc < 2) {
		fputs("usage: bench_first FILE.tgl [STARTED]\n", stderr);
		return 2;
	}
	return run_tegula(&s, argv[1]);
}
