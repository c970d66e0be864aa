/* Figures of a kernel, as numbers and as `inspect --explain` prints them: what limits its blocks, the bill of its
 * launch, its roofline. */
#include "tool/report/report.h"

#include <math.h>

/* How many blocks of the kernel each of a multiprocessor's means suffices for; registers only where they are known. */
static json_t *
limits_json(const Inspection *x)
{
	const Target *t = x->t;
	int share = MAX(x->f->schedule.share, 1), warps = MAX(func_warps(x->f), 1) * share;
	json_t *all = json_array();
	json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:s}", "of", "warps", "has", t->max_warps, "needs", warps,
					 "unit", "warps"));
	if (t->kind == TARGET_PTX)
		json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:s}", "of", "blocks", "has", INSPECT_BLOCKS, "needs",
						 1, "unit", "blocks"));
	if (t->shared_bytes_unit > 0)
		json_array_append_new(all, json_pack("{s:s, s:i, s:I, s:s}", "of", "shared memory", "has",
						 t->shared_bytes_unit, "needs",
						 (json_int_t)(x->f->shared_bytes ? share * x->f->shared_bytes + 1024 : 0),
						 "unit", "bytes"));
	if (x->registers > 0)
		json_array_append_new(all, json_pack("{s:s, s:i, s:i, s:s}", "of", "registers", "has", t->registers,
						 "needs", (x->registers + 7) / 8 * 8 * t->lanes * warps,
						 "unit", "registers"));
	if (inspect_grid(x) > 0)
		json_array_append_new(all, json_pack("{s:s, s:f, s:i, s:s, s:i}", "of", "grid",
						 "has", ceil(x->grid / share), "needs",
						 t->rates->multiprocessors, "unit", "blocks", "blocks",
						 (inspect_grid(x) + share - 1) / share));
	return all;
}

/* The roofline of the fullest multiprocessor, by the bill: what it multiplies, or without products the instructions of its
 * warps, a byte of device memory and a cycle.  Null where it uses no device memory. */
static json_t *
roofline_json(const Inspection *x)
{
	const Bill *b = &x->bill;
	const TargetRates *r = x->t->rates;
	bool multiplies = b->part[BILL_PRODUCTS] > 0;
	double product_rate = x->all_wgmma ? r->products_warpgroup : r->products_warp;
	double peak = multiplies ? 2 * product_rate : 4 * r->issue_rate;
	double work = b->part[multiplies ? BILL_PRODUCTS : BILL_ISSUE] * peak;
	double bytes_cycle = r->memory_rate / r->multiprocessors, bytes = b->part[BILL_MEMORY] * bytes_cycle;
	if (bytes <= 0 || work <= 0)
		return json_null();
	return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "of", bill_part_names[multiplies ? BILL_PRODUCTS : BILL_ISSUE],
	    "unit", multiplies ? "FLOP of 16 bits" : "instructions of warps", "per_byte", work / bytes, "reached",
	    work * b->programs / (b->cycles - x->other), "peak", peak, "bytes", bytes_cycle);
}

/* What all products would take by the instruction of warpgroups, where those of warps make them; null elsewhere. */
static json_t *
wgmma_json(const Inspection *x)
{
	const TargetRates *r = x->t->rates;
	double us = bill_us(&x->bill, x->t, x->bill.part[BILL_PRODUCTS]);
	bool slower = x->all_mma && !x->all_wgmma && (x->t->has & HAS_WGMMA) && r->products_warpgroup > 0;
	return slower ? json_real(us * r->products_warp / r->products_warpgroup) : json_null();
}

/* Bytes of device memory for a microsecond of the bill's part, which is of the fullest multiprocessor; of products it has a
 * share of what the others leave (bill.c). */
static double
memory_bytes(const Inspection *x)
{
	const Bill *b = &x->bill;
	const TargetRates *r = x->t->rates;
	double share = b->launched / r->multiprocessors, all = b->programs;
	if (b->launched <= 0 || share >= all)
		return r->memory_rate * r->clock;
	return r->memory_rate * r->clock * share / (b->part[BILL_PRODUCTS] > 0 ? MAX(share, all / 2) : all);
}

/* What the model says of a launch: microseconds that each of a multiprocessor's means is busy.  Null without rates. */
static json_t *
bill_json(const Inspection *x)
{
	const Bill *b = &x->bill;
	json_t *parts = json_array();
	if (b->cycles <= 0) {
		json_decref(parts);
		return json_null();
	}
	for (int i = 0; i < BILL_PARTS; i++)
		json_array_append_new(parts, json_pack("[s, f]", bill_part_names[i],
						 bill_us(b, x->t, b->part[i])));
	return json_pack("{s:f, s:f, s:f, s:f, s:i, s:o, s:o, s:o}", "us", b->cycles / x->t->rates->clock, "other_us",
	    x->other / x->t->rates->clock, "compared_us", x->compared / x->t->rates->clock, "memory_bytes_us",
	    memory_bytes(x), "blocks", b->blocks, "parts", parts,
	    "roofline", roofline_json(x), "wgmma_products_us", wgmma_json(x));
}

/* As `inspect --explain` prints it. */
static json_t *
summary_json(const Inspection *x, const ChooseWhy *why)
{
	Text t = {0}, chosen = {0};
	Inspection all = *x;
	text_put(&chosen, x->chosen ? x->chosen : "");
	why_print(why, x->t, &chosen);
	all.chosen = chosen.at;
	inspect_print(&all, &t);
	json_t *j = json_string(t.at);
	text_close(&chosen);
	text_close(&t);
	return j;
}

void
report_add_figures(json_t *kernel, const Inspection *x, const ChooseWhy *why)
{
	json_object_set_new(kernel, "limits", limits_json(x));
	json_object_set_new(kernel, "bill", bill_json(x));
	json_object_set_new(kernel, "summary", summary_json(x, why));
}
