/* What `tegula bench` found out, as a table for people, as JSON and as CSV. */
#include "tool/bench/bench.h"

#include <math.h>
#include <string.h>

double
bench_bandwidth(const Bench *b, const Runner *r)
{
	return r->time.median > 0 && b->bytes > 0 ? b->bytes / r->time.median : -1;
}

double
bench_rate(const Bench *b, const Runner *r)
{
	return r->time.median > 0 && b->flops > 0 ? b->flops / r->time.median : -1;
}

/* ---- for people ---- */

static void
print_head(const Bench *b)
{
	const char *name, *text, *label = tgl_case_label(b->set[0]);
	printf("%s%s%s on %s: %s\n", tgl_kernel_name(b->k), *label ? " " : "", label, b->device, b->device_text);
	for (int i = 0; tgl_case_value(b->set[0], i, &name, &text); i++)
		printf("%s%s = %s", i ? ", " : "  ", name, text);
	putchar('\n');
}

static void
print_checks(const Bench *b)
{
	size_t i;
	json_t *c;
	json_array_foreach(b->checks, i, c) {
		json_t *ratio = json_object_get(c, "error_over_bound");
		printf("  check %s of %s: %s, greatest error / bound ", json_string_value(json_object_get(c, "output")),
		    json_string_value(json_object_get(c, "kernel")),
		    json_is_true(json_object_get(c, "passed")) ? "good" : "WRONG");
		if (json_is_string(ratio))
			puts(json_string_value(ratio));
		else
			printf("%.3g\n", json_real_value(ratio));
	}
	if (!b->checked)
		puts(tgl_kernel_has_reference(b->k) ? "  check: left out" : "  check: the kernel has no reference");
}

static void
cell(double v, double unit, const char *fmt)
{
	if (v > 0)
		printf(fmt, v / unit);
	else
		printf("%10s", "-");
}

static int
name_width(const Bench *b)
{
	int n = 6;
	for (int i = 0; i < b->nrunners; i++)
		n = MAX(n, (int)strlen(b->runner[i].name));
	return MIN(n, 40);
}

static void
print_row(const Bench *b, const Runner *r, int width)
{
	Text time = {0}, least = {0}, most = {0};
	double bandwidth = bench_bandwidth(b, r), rate = bench_rate(b, r);
	cli_show_seconds(r->time.median, &time);
	cli_show_seconds(r->time.least, &least);
	cli_show_seconds(r->time.most, &most);
	printf("  %-*s %10s", width, r->name, time.at);
	cell(bandwidth, 1e9, "%10.1f");
	cell(rate, 1e12, "%10.3f");
	cell(bandwidth, b->rounds.copy.median / 100, "%8.1f %%");
	if (b->products > 0)
		cell(rate, b->products / 100, "%12.1f %%");
	printf("   %s .. %s\n", least.at, most.at);
	text_close(&time);
	text_close(&least);
	text_close(&most);
}

static void
print_resources(const Runner *r, int width)
{
	const TglResources *u = &r->resources;
	printf("  %-*s %d threads of %d registers and %d bytes of shared memory a block; %d at "
	       "once on a multiprocessor "
	       "(%.0f %%)",
	    width, r->name, u->threads, u->registers, u->shared_bytes, u->resident_blocks,
	    100 * u->occupancy);
	if (u->local_bytes > 0)
		printf("; %d bytes of local memory a thread", u->local_bytes);
	putchar('\n');
}

void
bench_print(const Bench *b)
{
	const Rounds *r = &b->rounds;
	int width = name_width(b);
	print_head(b);
	print_checks(b);
	printf("  %-*s %10s%10s%10s%10s%s   %s\n", width, "", "time", "GB/s", "TFLOP/s", "of copy",
	    b->products > 0 ? "   of products" : "", "rounds from .. to");
	for (int i = 0; i < b->nrunners; i++)
		print_row(b, &b->runner[i], width);
	printf("  a copy moves %.1f GB/s (%.1f .. %.1f), read and written\n", r->copy.median / 1e9, r->copy.least / 1e9,
	    r->copy.most / 1e9);
	if (b->products > 0)
		printf("  products of %s tiles alone: %.1f TFLOP/s\n", tgl_dtype_name(b->operand), b->products / 1e12);
	for (int i = 0; i < b->nrunners; i++)
		if (b->runner[i].has_resources)
			print_resources(&b->runner[i], width);
	if (b->nrunners > 1)
		printf("  ratio %.3f (%.3f .. %.3f): %s's time / tegula's\n", r->ratio.median,
		    r->ratio.least, r->ratio.most, b->runner[1].name);
	printf("  %d round%s of %d launch%s over %d input set%s\n", r->rounds, r->rounds == 1 ? "" : "s", r->launches,
	    r->launches == 1 ? "" : "es", b->nsets, b->nsets == 1 ? "" : "s");
}

/* ---- JSON ---- */

static json_t *
number_or_null(double v)
{
	return v > 0 && isfinite(v) ? json_real(v) : json_null();
}

static json_t *
spread_json(const Spread *s)
{
	return json_pack("{s:f, s:f, s:f}", "median", s->median, "least", s->least, "most", s->most);
}

static json_t *
runner_json(const Bench *b, const Runner *r)
{
	double bandwidth = bench_bandwidth(b, r), rate = bench_rate(b, r);
	json_t *j = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "name", r->name, "seconds", spread_json(&r->time),
	    "bytes_per_second", number_or_null(bandwidth), "flops_per_second", number_or_null(rate), "of_copy",
	    number_or_null(bandwidth / b->rounds.copy.median), "of_products",
	    b->products > 0 ? number_or_null(rate / b->products) : json_null());
	if (r->has_resources)
		json_object_set_new(j, "resources", cli_json_resources(&r->resources));
	return j;
}

json_t *
bench_json(const Bench *b)
{
	const char *name, *text;
	json_t *values = json_object(), *kernels = json_array();
	for (int i = 0; tgl_case_value(b->set[0], i, &name, &text); i++)
		json_object_set_new(values, name, json_string(text));
	for (int i = 0; i < b->nrunners; i++)
		json_array_append_new(kernels, runner_json(b, &b->runner[i]));
	json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:o, s:O, s:o, s:o}", "kernel", tgl_kernel_name(b->k), "example",
	    tgl_case_label(b->set[0]), "device", b->device, "device_text", b->device_text, "values", values, "checks",
	    b->checks, "bytes", number_or_null(b->bytes), "flops", number_or_null(b->flops));
	json_object_set_new(j, "copy_bytes_per_second", spread_json(&b->rounds.copy));
	json_object_set_new(j, "product_flops_per_second", number_or_null(b->products));
	json_object_set_new(j, "rounds", json_integer(b->rounds.rounds));
	json_object_set_new(j, "launches", json_integer(b->rounds.launches));
	json_object_set_new(j, "sets", json_integer(b->nsets));
	json_object_set_new(j, "kernels", kernels);
	if (b->nrunners > 1)
		json_object_set_new(j, "ratio", spread_json(&b->rounds.ratio));
	return j;
}

/* ---- CSV ---- */

static void
csv_text(const char *s, Text *out)
{
	text_put(out, "\"");
	for (; *s; s++)
		text_printf(out, *s == '"' ? "\"\"" : "%c", *s);
	text_put(out, "\"");
}

static void
csv_number(double v, Text *out)
{
	if (v > 0 && isfinite(v))
		text_printf(out, ",%.6g", v);
	else
		text_put(out, ",");
}

static void
csv_values(const Bench *b, Text *out)
{
	const char *name, *text;
	Text all = {0};
	for (int i = 0; tgl_case_value(b->set[0], i, &name, &text); i++)
		text_printf(&all, "%s%s=%s", i ? " " : "", name, text);
	csv_text(all.at ? all.at : "", out);
	text_close(&all);
}

void
bench_csv(const Bench *b, Text *out)
{
	text_put(out, "kernel,example,values,device,by,seconds,least,most,GB/s,TFLOP/"
		      "s,of_copy,of_products,ratio,ratio_least,"
		      "ratio_most\n");
	for (int i = 0; i < b->nrunners; i++) {
		const Runner *r = &b->runner[i];
		double bandwidth = bench_bandwidth(b, r), rate = bench_rate(b, r);
		bool ours = i == 0 && b->nrunners > 1;
		csv_text(tgl_kernel_name(b->k), out);
		text_put(out, ",");
		csv_text(tgl_case_label(b->set[0]), out);
		text_put(out, ",");
		csv_values(b, out);
		text_printf(out, ",%s,", b->device);
		csv_text(r->name, out);
		csv_number(r->time.median, out);
		csv_number(r->time.least, out);
		csv_number(r->time.most, out);
		csv_number(bandwidth / 1e9, out);
		csv_number(rate / 1e12, out);
		csv_number(bandwidth / b->rounds.copy.median, out);
		csv_number(b->products > 0 ? rate / b->products : 0, out);
		csv_number(ours ? b->rounds.ratio.median : 0, out);
		csv_number(ours ? b->rounds.ratio.least : 0, out);
		csv_number(ours ? b->rounds.ratio.most : 0, out);
		text_put(out, "\n");
	}
}
