/* The plot of `tegula bench`: a roofline on the left, bars of times on the right, as SVG.
 *
 * It has no background of its own: lines and letters take the text's color of the page it stands on, which follows the
 * reader's choice of light or dark, and the kernels' two colors come in a shade for each. */
#include "tool/bench/bench.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 860, HEIGHT = 400, LEFT = 64, TOP = 84, PANEL = 400, TALL = 250, BARS = 560, BAR_ROOM = 190 };

/* A panel with logarithmic axes; bounds are decades. */
typedef struct Axes {
	int x0, x1, y0, y1;
} Axes;

static const char head[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tegula-plot\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
    "font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"";

static const char style[] =
    "<style>\n"
    ".tegula-plot { color: #1f2328; fill: currentColor; stroke: none; }\n"
    ".tegula-plot .line { stroke: currentColor; fill: none; stroke-width: 1.5; }\n"
    ".tegula-plot .grid { stroke: currentColor; stroke-opacity: 0.15; }\n"
    ".tegula-plot .k0 { fill: #0a5fb4; stroke: none; }\n"
    ".tegula-plot .k1 { fill: #b35900; stroke: none; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".tegula-plot { color: #e6edf3; }\n"
    ".tegula-plot .k0 { fill: #6cb6ff; }\n"
    ".tegula-plot .k1 { fill: #f0a050; }\n"
    "}\n"
    "</style>\n";

static void
escape(const char *s, Text *out)
{
	for (; *s; s++) {
		switch (*s) {
		case '<': text_put(out, "&lt;"); break;
		case '>': text_put(out, "&gt;"); break;
		case '&': text_put(out, "&amp;"); break;
		case '"': text_put(out, "&quot;"); break;
		default: text_putn(out, s, 1);
		}
	}
}

static void
words(double x, double y, const char *anchor, const char *s, Text *out)
{
	text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
	escape(s, out);
	text_put(out, "</text>\n");
}

static void
line(const char *class, double x0, double y0, double x1, double y1, Text *out)
{
	text_printf(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x0, y0, x1, y1);
}

/* ---- the roofline ---- */

static double
at_x(const Axes *a, double v)
{
	return LEFT + PANEL * (log10(v) - a->x0) / (a->x1 - a->x0);
}

static double
at_y(const Axes *a, double v)
{
	double y = (log10(v) - a->y0) / (a->y1 - a->y0);
	return TOP + TALL * (1 - fmin(fmax(y, 0), 1));
}

/* "0.01", "1", "100k" */
static void
decade(int e, char *out, size_t size)
{
	if (e < 0)
		number_format(out, size, "%.*f", -e, pow(10, e));
	else
		number_format(out, size, "%.0f%s", pow(10, e % 3), e >= 9 ? "G" : e >= 6 ? "M" : e >= 3 ? "k" : "");
}

static void
draw_axes(const Axes *a, Text *out)
{
	char label[40];
	for (int e = a->x0; e <= a->x1; e++) {
		double x = at_x(a, pow(10, e));
		line("grid", x, TOP, x, TOP + TALL, out);
		decade(e, label, sizeof label);
		words(x, TOP + TALL + 18, "middle", label, out);
	}
	for (int e = a->y0; e <= a->y1; e++) {
		double y = at_y(a, pow(10, e));
		line("grid", LEFT, y, LEFT + PANEL, y, out);
		decade(e, label, sizeof label);
		words(LEFT - 6, y + 4, "end", label, out);
	}
	words(LEFT + PANEL / 2, TOP + TALL + 38, "middle", "FLOP / byte", out);
	words(LEFT - 6, TOP - 12, "end", "TFLOP/s", out);
}

/* Up with the bandwidth to the products' rate, or to the edge. */
static void
draw_roof(const Bench *b, const Axes *a, Text *out)
{
	char label[80];
	double copy = b->rounds.copy.median / 1e12, top = b->products > 0 ? b->products / 1e12 : pow(10, a->y1);
	double from = fmax(pow(10, a->x0), pow(10, a->y0) / copy), knee = fmin(top / copy, pow(10, a->x1));
	if (copy <= 0 || from >= knee)
		return;
	line("line", at_x(a, from), at_y(a, copy * from), at_x(a, knee), at_y(a, copy * knee), out);
	number_format(label, sizeof label, "copy %.0f GB/s", copy * 1e3);
	double middle = sqrt(from * knee);
	words(at_x(a, middle) - 8, at_y(a, copy * middle) - 6, "end", label, out);
	if (b->products <= 0)
		return;
	line("line", at_x(a, knee), at_y(a, top), LEFT + PANEL, at_y(a, top), out);
	number_format(label, sizeof label, "products %.0f TFLOP/s", top);
	words(LEFT + PANEL, at_y(a, top) - 6, "end", label, out);
}

static void
draw_roofline(const Bench *b, Text *out)
{
	double intensity = b->flops / b->bytes, low = 1e300, high = b->rounds.copy.median * intensity / 1e12;
	if (b->flops <= 0 || b->bytes <= 0) {
		words(LEFT + PANEL / 2, TOP + TALL / 2, "middle", "no operations are counted: no roofline", out);
		return;
	}
	for (int i = 0; i < b->nrunners; i++) {
		low = fmin(low, bench_rate(b, &b->runner[i]) / 1e12);
		high = fmax(high, bench_rate(b, &b->runner[i]) / 1e12);
	}
	high = fmax(high, b->products / 1e12);
	Axes a = {.x0 = (int)floor(log10(intensity)) - 1,
	    .y0 = (int)floor(log10(low)),
	    .y1 = (int)ceil(log10(high) + 0.05)};
	a.x1 = a.x0 + 3;
	if (b->products > 0)
		a.x1 = MAX(a.x1, (int)ceil(log10(b->products / b->rounds.copy.median) + 0.3));
	if (a.y1 <= a.y0)
		a.y1 = a.y0 + 1;
	draw_axes(&a, out);
	draw_roof(b, &a, out);
	for (int i = b->nrunners - 1; i >= 0; i--)
		text_printf(out, "<circle class=\"k%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>\n", i, at_x(&a, intensity),
		    at_y(&a, bench_rate(b, &b->runner[i]) / 1e12));
}

/* ---- the bars ---- */

static void
draw_bar(const Bench *b, int i, double most, Text *out)
{
	const Runner *r = &b->runner[i];
	double y = TOP + 20 + 94 * i, scale = BAR_ROOM / most;
	Text t = {0};
	words(BARS, y, "start", r->name, out);
	text_printf(out, "<rect class=\"k%d\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"22\"/>\n", i, BARS, y + 8,
	    r->time.median * scale);
	line("line", BARS + r->time.least * scale, y + 19, BARS + r->time.most * scale, y + 19, out);
	cli_show_seconds(r->time.median, &t);
	if (bench_bandwidth(b, r) > 0)
		text_printf(&t, ", %.0f GB/s, %.1f %% of copy", bench_bandwidth(b, r) / 1e9,
		    100 * bench_bandwidth(b, r) / b->rounds.copy.median);
	words(BARS, y + 46, "start", t.at, out);
	if (b->products > 0) {
		text_close(&t);
		text_printf(&t, "%.1f TFLOP/s, %.1f %% of products", bench_rate(b, r) / 1e12,
		    100 * bench_rate(b, r) / b->products);
		words(BARS, y + 62, "start", t.at, out);
	}
	text_close(&t);
}

static void
draw_bars(const Bench *b, Text *out)
{
	double most = 0;
	char ratio[120];
	for (int i = 0; i < b->nrunners; i++)
		most = fmax(most, b->runner[i].time.most);
	words(BARS, TOP - 12, "start", "time of a launch; lines: all rounds", out);
	for (int i = 0; i < b->nrunners && most > 0; i++)
		draw_bar(b, i, most, out);
	if (b->nrunners < 2)
		return;
	number_format(ratio, sizeof ratio, "ratio %.3f (%.3f .. %.3f)", b->rounds.ratio.median, b->rounds.ratio.least,
	    b->rounds.ratio.most);
	words(BARS, TOP + 216, "start", ratio, out);
}

void
bench_plot(const Bench *b, Text *out)
{
	Text title = {0};
	const char *name, *text;
	text_printf(&title, "%s:", tgl_kernel_name(b->k));
	for (int i = 0; tgl_case_value(b->set[0], i, &name, &text); i++)
		text_printf(&title, "%s %s = %s", i ? "," : "", name, text);
	text_printf(out, head, WIDTH, HEIGHT, WIDTH, HEIGHT);
	escape(title.at, out);
	text_put(out, "\">\n");
	text_put(out, style);
	words(8, 20, "start", title.at, out);
	words(8, 40, "start", b->device_text, out);
	draw_roofline(b, out);
	draw_bars(b, out);
	text_put(out, "</svg>\n");
	text_close(&title);
}
