/* Values as people read them: tensors the way NumPy prints, times with a unit. */
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
