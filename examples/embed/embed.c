/* A program that embeds Tegula: it compiles a kernel from text, runs it on its own numbers, and
 * shows what a mistake looks like.
 *
 *     cc embed.c $(pkg-config --cflags --libs tegula) -o embed && ./embed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tgl.h>

static const char source[] =
    "// Each row of x becomes probabilities.\n"
    "kernel softmax<BLOCK = pow2ceil(C)>(x: in f32[R, C], y: out f32[R, C]) grid(row: R) {\n"
    "    let v = x[row, 0 +: BLOCK] else -inf;\n"
    "    let e = exp(v - max(v));\n"
    "    y[row, 0 +: BLOCK] = e / sum(e);\n"
    "}\n";

enum { ROWS = 4, COLUMNS = 10 };

int
main(int argc, char **argv)
{
	static float x[ROWS][COLUMNS], y[ROWS][COLUMNS];
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < COLUMNS; c++)
			x[r][c] = (float)((r + 1) * c) / COLUMNS;

	/* tgl_error tells of the call before it: each result is looked at before the next call. */
	TglContext *cx = tgl_context_open();
	TglDevice *dev = tgl_device_open(cx, argc > 1 ? argv[1] : "cpu", NULL);
	TglProgram *p = dev ? tgl_program_text(cx, "softmax.tgl", source, strlen(source)) : NULL;
	TglKernel *softmax = p ? tgl_kernel(p, "softmax") : NULL;
	if (!softmax) {
		fputs(tgl_error(cx)->text, stderr);
		return EXIT_FAILURE;
	}

	/* Tensors over this program's own memory: nothing is copied. */
	const int64_t shape[] = {ROWS, COLUMNS};
	TglTensor *tx = tgl_tensor_wrap(dev, TGL_F32, 2, shape, NULL, x, sizeof x);
	TglTensor *ty = tgl_tensor_wrap(dev, TGL_F32, 2, shape, NULL, y, sizeof y);
	TglArg args[] = {tgl_arg_tensor("x", tx), tgl_arg_tensor("y", ty)};
	double seconds;
	if (tgl_launch(dev, softmax, args, 2, &seconds) != TGL_OK) {
		fputs(tgl_error(cx)->text, stderr);
		return EXIT_FAILURE;
	}
	double worst = 0;
	for (int r = 0; r < ROWS; r++) {
		double sum = 0;
		for (int c = 0; c < COLUMNS; c++)
			sum += y[r][c];
		double off = sum > 1 ? sum - 1 : 1 - sum;
		worst = off > worst ? off : worst;
	}
	printf("softmax of %d rows: %s\n", ROWS, worst < 1e-6 ? "each sums to 1" : "wrong");

	/* Arguments that do not fit are refused before anything runs. */
	TglArg same[] = {tgl_arg_tensor("x", tx), tgl_arg_tensor("y", tx)};
	if (tgl_launch(dev, softmax, same, 2, NULL) != TGL_OK)
		printf("%s: %s\n", tgl_error(cx)->code, tgl_error(cx)->message);

	tgl_tensor_close(&tx);
	tgl_tensor_close(&ty);
	tgl_program_close(&p);
	tgl_device_close(&dev);
	tgl_context_close(&cx);
	return worst < 1e-6 ? EXIT_SUCCESS : EXIT_FAILURE;
}
