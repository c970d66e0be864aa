/* Blocks that share a program's loop, of a kernel without products or one with a merge. */
#include "compile/choose/search.h"
#include "compile/compile.h"

int
search_split(Search *s, bool merged)
{
	int split = 1;
	Compile *cx = s->k->program->cx;
	Arena *apart = arena_open(), *keep = cx->mem;
	Program before = *s->k->program;
	cx->mem = apart;
	Module *m = search_elaborate(s, s->first);
	Func *f = m ? m->funcs.at[0] : NULL;
	s->products = f && choose_count_dots(f) > 0;
	s->is_lone_decode = s->products && choose_count_dots(f) == 1;
	s->is_whole = f && choose_is_whole(s->k, f, s->first, s->t);
	if (f && (choose_merges(f) || (!merged && !s->products)))
		split = choose_split_of(f, s->first, s->t);
	cx->mem = keep;
	s->k->program->called = before.called;
	arena_close(apart);
	return split;
}

bool
search_add_split(Search *s, Arena *mem, NamedConst **values, int *n)
{
	const char *name = schedule_info[SCHEDULE_SPLIT].text;
	for (int i = 0; i < *n; i++) {
		int which = schedule_named((*values)[i].name);
		int64_t v = (*values)[i].value.i;
		if ((which == SCHEDULE_SPLIT && v > 1) || (which == SCHEDULE_CTAS && v > 1) ||
		    ((which == SCHEDULE_PERSISTENT || which == SCHEDULE_SPECIALIZE || which == SCHEDULE_COARSEN) && v > 0))
			return false;
	}
	if (s->first->schedule.split > 0 || s->first->schedule.persistent > 0 ||
	    s->first->schedule.specialize > 0 || s->first->schedule.ctas > 1 ||
	    ctparam_named(s->k, name) >= 0 || header_mentions(s->k, name) || s->how->is_fixed(s->how->user, name))
		return false;
	int split = search_split(s, false);
	if (split <= 1)
		return false;
	NamedConst *all = NEW_ARRAY(mem, NamedConst, *n + 1);
	int kept = 0;
	for (int i = 0; i < *n; i++)
		if (schedule_named((*values)[i].name) != SCHEDULE_SPLIT)
			all[kept++] = (*values)[i];
	all[kept++] = (NamedConst){intern(s->k->program->cx->names, name), {.kind = CONST_INT, .i = split}, NOWHERE};
	*values = all;
	*n = kept;
	if (s->how->why)
		text_printf(&s->how->why->chosen,
		    "  chosen: split = %d, as few programs leave multiprocessors idle\n", split);
	return true;
}
