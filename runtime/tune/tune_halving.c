/* Which of several is the fastest.
 *
 * All are measured in turn, a round at a time, each round beginning with another one, so that a change of clocks or load
 * affects all.  After a few rounds those that are slower beyond doubt go: their
 * median, less its noise, is above the best one's with its noise.  Then the slower half of the rest goes too
 * (successive halving), until a few are left, which are measured until they differ beyond noise or there
 * are enough samples.  One sample of more than thrice the best median is reason enough to go at once.
 *
 * Noise is half of the interval that holds the true median 99 times of 100, from the samples' median
 * deviation (1.4826 of it is a normal distribution's sigma; the median's own is 1.2533 sigma / sqrt n), and
 * never below 0.2 %.  Of up to six samples it is half of their range, if that is more: all of four lie on
 * one side of the true median once in eight times.  A difference within the noise is none: then the favourite
 * wins, which is the default. */
#include <math.h>
#include <string.h>

#include "runtime/tune/tune.h"

enum { FIRST_ROUNDS = 4, FINALISTS = 4, FEW = 6 };
static const double HOPELESS = 3, LEAST_NOISE = 0.002;

static double
half_range(const Arm *r)
{
	double low = r->sample[0], high = low;
	for (int i = 1; i < r->n; i++) {
		low = MIN(low, r->sample[i]);
		high = MAX(high, r->sample[i]);
	}
	return (high - low) / 2;
}

void
arm_statistics(Arm *r)
{
	double v[MAX_SAMPLES];
	memcpy(v, r->sample, sizeof *v * (size_t)r->n);
	r->median = median_of(v, r->n);
	for (int i = 0; i < r->n; i++)
		v[i] = fabs(r->sample[i] - r->median);
	double spread = 1.4826 * median_of(v, r->n);
	double noise = MAX(2.58 * 1.2533 * spread / sqrt(r->n), LEAST_NOISE * r->median);
	r->noise = r->n <= FEW ? MAX(noise, half_range(r)) : noise;
}

static int
alive(const Halving *r)
{
	return SUM_OF(int, i, r->n, !r->arm[i].out);
}

/* The least median of those that are measured still, or of those that were only slower; -1: there is none. */
static int
least(const Halving *r, bool slower)
{
	int b = -1;
	for (int i = 0; i < r->n; i++) {
		const Arm *x = &r->arm[i];
		bool counts = slower ? x->slower : !x->out;
		if (counts && x->n && (b < 0 || x->median < r->arm[b].median))
			b = i;
	}
	return b;
}

static int
best(const Halving *r)
{
	return least(r, false);
}

static void
drop_slow(Arm *x, const char *why)
{
	x->out = x->slower = true;
	x->why = why;
}

static void
sample(Halving *r, int i)
{
	Arm *x = &r->arm[i];
	double s;
	if (!r->measure(r->user, i, &s)) {
		x->out = true;
		return;
	}
	x->sample[x->n++] = s;
	arm_statistics(x);
	int b = best(r);
	if (b >= 0 && b != i && s > HOPELESS * r->arm[b].median && x->median > HOPELESS * r->arm[b].median)
		drop_slow(x, "more than three times the time of the best");
}

/* Every one once; false: the time is up. */
static bool
one_round(Halving *r, int number, int of)
{
	for (int k = 0; k < r->n; k++) {
		int i = (k + number) % r->n;
		if (r->arm[i].out || r->arm[i].n == MAX_SAMPLES)
			continue;
		if (r->now(r->user) >= r->deadline) {
			r->spent = true;
			return false;
		}
		sample(r, i);
	}
	r->stopped = r->progress && !r->progress(r->user, alive(r), number + 1, of);
	return !r->stopped;
}

static bool
is_slower(const Arm *slow, const Arm *fast)
{
	return slow->median - slow->noise > fast->median + fast->noise;
}

static void
drop_slower(Halving *r)
{
	int b = best(r);
	for (int i = 0; b >= 0 && i < r->n; i++)
		if (!r->arm[i].out && i != b && is_slower(&r->arm[i], &r->arm[b]))
			drop_slow(&r->arm[i], "slower");
}

/* All but the better half go, never fewer than the finalists. */
static void
halve(Halving *r)
{
	int keep = MAX((alive(r) + 1) / 2, FINALISTS);
	while (alive(r) > keep) {
		int worst = -1;
		for (int i = 0; i < r->n; i++)
			if (!r->arm[i].out && (worst < 0 || r->arm[i].median >= r->arm[worst].median))
				worst = i;
		drop_slow(&r->arm[worst], "in the slower half");
	}
}

/* The best, or the favourite if that is not slower beyond noise. */
static int
winner(const Halving *r)
{
	int b = best(r), f = r->favourite;
	if (b < 0)
		return least(r, true); /* all the others failed on the way */
	if (f >= 0 && !r->arm[f].out && r->arm[f].n && !is_slower(&r->arm[f], &r->arm[b]))
		return f;
	return b;
}

void
halving_run(Halving *r)
{
	int rounds = 0, until = FIRST_ROUNDS;
	for (int i = 0; i < r->n; i++)
		r->arm[i].sample = NEW_ARRAY(r->mem, double, MAX_SAMPLES);
	r->winner = -1;
	for (bool going = alive(r) > 0; going;) {
		while (going && rounds < until) {
			going = one_round(r, rounds, MAX_SAMPLES);
			rounds++;
		}
		if (!going)
			break;
		drop_slower(r);
		halve(r);
		going = alive(r) > 1 && rounds < MAX_SAMPLES;
		until = MIN(rounds + MAX(rounds / 2, 2), MAX_SAMPLES);
	}
	r->winner = winner(r);
	if (r->winner >= 0)
		r->arm[r->winner].why = NULL;
	for (int i = 0; i < r->n; i++)
		if (!r->arm[i].out && i != r->winner && r->winner >= 0)
			r->arm[i].why =
			    is_slower(&r->arm[i], &r->arm[r->winner]) ? "slower" : "as fast, within noise";
}
