/* Softmax of 3 rows on the host, by a pack of dsl_examples/softmax.tgl for the target cpu: no GPU and no driver is needed. */
#include "softmax.h"

#include <stdio.h>

int
main(void)
{
	static float x[3][1000], y[3][1000];
	TgpContext *cx = softmax_open_cpu();
	int i;
	double sum = 0;
	for (i = 0; i < 1000; i++)
		x[0][i] = (float)(i % 7);
	if (softmax(cx, NULL, &x[0][0], &y[0][0], 3, 1000) != TGP_OK) {
		fprintf(stderr, "%s\n", softmax_error(cx));
		return 1;
	}
	for (i = 0; i < 1000; i++)
		sum += y[0][i];
	printf("done; the first row sums to %g\n", sum);
	softmax_close(&cx);
	return 0;
}
