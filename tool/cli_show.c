/* Values as people read them: tensors the way NumPy prints, times with a unit. */
#include "layout/layout.h"
#include "tool/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EDGE = 3, SHORT = 6 };

static void
show_element(TglTensor *t, int64_t at, Text *out)
{
	double f = 0;
	int64_t i = 0;
	tgl_tensor_element(t, at, &f, &i);
	TglDType type = tgl_tensor_dtype(t);
	if (type == TGL_BOOL)
		text_put(out, i ? "true" : "false");
	else if (tgl_dtype_name(type)[0] == 'i' || type == TGL_U8 || type == TGL_U16 || type == TGL_U32 || type == TGL_U4)
		text_printf(out, "%lld", (long long)i);
	else if (type == TGL_U64)
		text_printf(out, "%llu", (unsigned long long)(uint64_t)i);
	else if (isnan(f))
		text_put(out, "nan");
	else
		text_printf(out, "%.5g", f);
}

/* Dimension d from linear element `at`; `step` elements lie between neighbours of it. */
static void
show_dim(TglTensor *t, int d, int64_t at, int64_t step, Text *out)
{
	int rank = tgl_tensor_rank(t);
	if (d == rank) {
		show_element(t, at, out);
		return;
	}
	int64_t n = tgl_tensor_dim(t, d);
	step = n > 0 ? step / n : 0;
	text_put(out, "[");
	for (int64_t i = 0; i < n; i++) {
		if (i > 0 && d + 1 < rank)
			text_printf(out, "\n%*s", d + 5, "");
		else if (i > 0)
			text_put(out, " ");
		if (n > SHORT && i == EDGE) {
			text_put(out, "...");
			i = n - EDGE - 1;
			continue;
		}
		show_dim(t, d + 1, at + i * step, step, out);
	}
	text_put(out, "]");
}

void
cli_show_tensor(TglTensor *t, Text *out)
{
	if (tgl_tensor_count(t) == 0)
		text_put(out, "[]");
	else
		show_dim(t, 0, 0, tgl_tensor_count(t), out);
}

void
cli_show_seconds(double s, Text *out)
{
	if (s < 1e-3)
		text_printf(out, "%.1f us", s * 1e6);
	else if (s < 1)
		text_printf(out, "%.2f ms", s * 1e3);
	else
		text_printf(out, "%.2f s", s);
}

void
cli_print_index(const TglCheck *r)
{
	for (int d = 0; d < r->rank; d++)
		printf("%s%lld", d ? ", " : "[", (long long)r->index[d]);
	fputs(r->rank ? "]" : "[]", stdout);
}

json_t *
cli_json_resources(const TglResources *u)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:f}", "threads", u->threads, "registers", u->registers,
	    "local_bytes", u->local_bytes, "shared_bytes", u->shared_bytes, "resident_blocks", u->resident_blocks,
	    "occupancy", u->occupancy);
}

const char *
cli_shape(Arena *mem, TglTensor *t)
{
	Text text = {0};
	text_put(&text, tgl_dtype_name(tgl_tensor_dtype(t)));
	for (int d = 0; d < tgl_tensor_rank(t); d++)
		text_printf(&text, "%s%lld", d ? ", " : "[", (long long)tgl_tensor_dim(t, d));
	if (tgl_tensor_rank(t))
		text_put(&text, "]");
	return text_take(&text, mem);
}

double
cli_unsigned_nan(double v)
{
	return isnan(v) ? (double)NAN : v;
}

json_t *
cli_json_path(const char *path)
{
	Text t = {0};
	text_json(&t, path);
	json_t *j = json_loads(t.at, JSON_DECODE_ANY, NULL);
	text_close(&t);
	return j;
}

json_t *
cli_json_number(double v)
{
	if (isfinite(v))
		return json_real(v);
	return json_string(isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

void
cli_print_json(json_t *take)
{
	json_dumpf(take, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(take);
}

/* ---- layouts ---- */

/* Who holds the element at a packed position: the least place, and how many places do. */
static int
holders(const Layout *l, uint64_t element, uint32_t first[IN_DIMS])
{
	uint64_t x, ker[F2_MAX];
	if (!f2_solve(&l->map, element, &x))
		return 0;
	for (int d = 0; d < IN_DIMS; d++)
		first[d] = (uint32_t)(x >> layout_in_at(l, (InDim)d) & ((UINT64_C(1) << l->in[d]) - 1));
	return 1 << f2_kernel(&l->map, ker);
}

void
cli_draw_layout(const Layout *l, Text *out)
{
	int fast = l->rank > 0 ? l->out[l->rank - 1] : 0;
	uint64_t rows = UINT64_C(1) << (layout_out_bits(l) - fast), cols = UINT64_C(1) << fast;
	for (uint64_t y = 0; y < rows; y++) {
		text_printf(out, "%4llu:", (unsigned long long)y);
		for (uint64_t x = 0; x < cols; x++) {
			uint32_t p[IN_DIMS] = {0};
			int n = holders(l, y << fast | x, p);
			text_put(out, " ");
			if (l->in[IN_BLOCK])
				text_printf(out, "b%u", p[IN_BLOCK]);
			if (l->in[IN_WARP])
				text_printf(out, "w%u", p[IN_WARP]);
			if (l->in[IN_LANE])
				text_printf(out, "l%02u", p[IN_LANE]);
			text_printf(out, "r%-2u", p[IN_REGISTER]);
			if (n > 1)
				text_printf(out, "*%d", n);
		}
		text_put(out, "\n");
	}
}
