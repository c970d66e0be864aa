/* What words mean: those of the schedule and of the model, each in a line, which the page shows as one of its pictures;
 * and ops in a text. */
#include "tool/report/explain/explain.h"

#include <string.h>

json_t *
explain_words(void)
{
	static const char *const word[][2] = {
	    {"program", "what the grid counts: the body of the kernel, executed once for each of its points"},
	    {"block", "what the hardware starts: the warps of one program, or of several (share), or of a part of one "
		      "(split)"},
	    {"warp", "32 threads (on Apple's chips a simdgroup) that execute an instruction together; warps = N of a "
		     "program"},
	    {"place", "room for a program on a multiprocessor, by what its block needs of registers, shared memory "
		      "and warps"},
	    {"round", "programs that run at once, when there are more than places"},
	    {"turn", "the time in which one warp's access or instruction takes the unit; an access of more than four "
		     "sectors takes several"},
	    {"pass", "a walk through the 32 banks of shared memory; two lanes that want other words of one bank take two"},
	    {"sectors 16/16", "of 32 bytes, of one access of a warp: how many it touches, and the fewest that "
			      "hold its bytes"},
	    {"trip", "an iteration of a loop"},
	    {"slot", "one of the buffers of a ring, into which copies bring a trip's tiles while others are computed with"},
	    {"stages", "how many slots a ring has, or fewer where shared memory has no room for as many"},
	    {"box", "what a tensor map copies at once, rows x columns"},
	    {"dot MxNxK", "a product of a tile of M rows and N columns, over K, for a program: what instructions multiply, "
			   "without what wgmma leaves out of padding"},
	    {"specialize", "roles: one warp copies, the others compute, and wait for each other at mbarriers"},
	    {"pingpong", "two groups of warps take a block's programs in turn: one multiplies while the other does what "
			 "follows from its products"},
	    {"ctas", "blocks of a cluster, each of which copies a part of what all of them read"},
	    {"split", "blocks that share a program's loop, and add up their results"},
	    {"share", "programs of one warp each that share a block, as a multiprocessor has at most 32 blocks"},
	    {"batch", "programs that a block computes as one of a larger tile"},
	    {"coarsen", "programs that a block which stays reads for before it computes for the first"},
	    {"unroll", "trips of a loop that the code reads for before it computes for the first; trips that are left "
		       "have code of their own"},
	    {"persistent", "blocks stay, and each runs programs one after the other"},
	    {"the header's own", "the schedule that the kernel's text gives, with nothing chosen"},
	    {"ranked as", "the time by which schedules are ordered: a hundredth or some "
			  "more is added for values away from the "
			  "rules of tiles' sizes"}};
	json_t *all = json_array();
	for (int i = 0; i < LEN(word); i++)
		json_array_append_new(all, json_pack("{s:s, s:s}", "word", word[i][0], "means", word[i][1]));
	return all;
}

/* What ops are of which the source says nothing. */
const char *
explain_ops_named(const Explain *s, const char *text)
{
	static const struct {
		const char *name, *is;
	} op[] = {{"arrive", "a warp tells an mbarrier that it is done with a slot"},
	    {"expect", "a thread tells an mbarrier what copies will bring"},
	    {"await", "waits at an mbarrier"}, {"send", "a copy from shared to device memory"},
	    {"sent", "waits until such copies have read"},
	    {"put", "threads write to shared memory"}, {"get", "threads read it"},
	    {"tally", "threads add to a table in shared memory"},
	    {"split_put",
		"blocks of a cluster put the parts of what they share out where others read them"},
	    {"dot_start", "a product begins"}, {"dot_wait", "and is over"},
	    {"convert", "another distribution of elements over threads"}};
	static const struct {
		const char *text, *is;
	} phrase[] = {{"before this for", "for, a loop; where the text has none, that over the programs of a block"},
	    {"before roles part", "roles part, from there on some warps copy and others compute"},
	    {"slots of", "slots, the parts of a ring of buffers, one or more"}};
	TextList parts = {0};
	for (int i = 0; i < LEN(phrase); i++)
		explain_add(s, &parts, strstr(text, phrase[i].text) ? phrase[i].is : "");
	for (int i = 0; i < LEN(op); i++) {
		const char *of = arena_printf(s->mem, "%s of ", op[i].name),
			   *this = arena_printf(s->mem, "this %s", op[i].name),
			   *at = strstr(text, of);
		bool whole = at && (at == text || !(char_is_letter(at[-1]) || at[-1] == '_'));
		if (whole || strstr(text, this))
			explain_add(
			    s, &parts, arena_printf(s->mem, "%s, %s", op[i].name, op[i].is));
	}
	return explain_join(s, &parts, "; ");
}
