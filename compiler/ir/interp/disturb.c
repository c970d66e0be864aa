/* Monte Carlo arithmetic of sums: how far a device's sum may lie from the exact one.
 *
 * A reference runs in f64, so its own rounding is nothing; perturb makes it err as a kernel's arithmetic does.
 * Each term of a sum is scaled by 1 + u r by num, which is the rounding that made the term.  Here is the
 * rounding of the sum itself.  A device that adds n terms x_k one after another rounds n partial sums, each
 * by up to u times its size.  Partial sums are a share of the total y, growing linearly, plus a random walk
 * of the terms; the squares of both add up to
 *
 *     u xi sqrt(n / 3 y^2 + n / 6 (x_1^2 + … + x_n^2)),      xi uniform in -1 … 1
 *
 * Devices accumulate in f32 at least, whatever coarser type the kernel computes in besides, so u here is at
 * most 2^-24.  For a dot x_k is a_k b_k, and the sum of squares is taken as |a|^2 |b|^2 / n.
 *
 * Matrix units add 8-bit floats with 14 bits and cut off what is below.  Of c products that are added so the
 * sum loses about half of a last bit for each; over all of them, in part always in one direction,
 *
 *     2^-13 xi sqrt((c / 32 y)^2 + c / 2 (x_1^2 + ... + x_n^2)) */
#include "ir/interp/run.h"

#include <math.h>

double
accumulation_unit(const Plan *p)
{
	return MIN(p->opt.perturb, 0x1p-24);
}

void
disturb_sums(Worker *w, double *y, const double *squares, int64_t count, int64_t n)
{
	double u = accumulation_unit(w->plan), terms = (double)n;

	for (int64_t i = 0; i < count; i++) {
		double xi = 1;
		perturb_f64(w->plan->cpu, &xi, 1, 1.0, &w->rng);
		y[i] += u * (xi - 1) * sqrt(terms / 3 * y[i] * y[i] + terms / 6 * squares[i]);
	}
}

/* norm[i] = the sum of squares over k of x[i * row + k * step]. */
static void
square_norms(const double *x, int64_t rows, int64_t row, int64_t n, int64_t step, double *norm)
{
	for (int64_t i = 0; i < rows; i++)
		norm[i] = 0;
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < n; k++)
			norm[i] += x[i * row + k * step] * x[i * row + k * step];
}

void
disturb_narrow(Worker *w, double *y, const double *squares, int64_t count, int64_t chunk)
{
	for (int64_t i = 0; i < count; i++) {
		double xi = 1, c = (double)chunk, of_sum = c / 32 * y[i];
		perturb_f64(w->plan->cpu, &xi, 1, 1.0, &w->rng);
		y[i] += 0x1p-13 * (xi - 1) * sqrt(of_sum * of_sum + c / 2 * squares[i]);
	}
}

/* temp: d->m + d->n numbers. */
void
disturb_dot(Worker *w, const Dot *d, const double *a, const double *b, double *out, double *temp)
{
	double *rows = temp, *columns = temp + d->m, squares[256];

	for (int64_t i = 0; i < d->batch && d->k > 0; i++) {
		square_norms(a + i * d->a_batch, d->m, d->a_row, d->k, d->a_col, rows);
		square_norms(b + i * d->b_batch, d->n, d->b_col, d->k, d->b_row, columns);
		for (int64_t r = 0; r < d->m; r++)
			for (int64_t c = 0; c < d->n; c += LEN(squares)) {
				int64_t now = MIN(LEN(squares), d->n - c);
				for (int64_t j = 0; j < now; j++)
					squares[j] = rows[r] * columns[c + j] / (double)d->k;
				double *y = out + (i * d->m + r) * d->n + c;
				disturb_sums(w, y, squares, now, d->k);
				if (w->plan->opt.narrow)
					disturb_narrow(w, y, squares, now, MIN(w->plan->opt.narrow, d->k));
			}
	}
}
