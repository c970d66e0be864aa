/* Records of accesses to shared memory: made once each, found by their contents, and thrown away together (shared.c). */
#include "runtime/simt/check/record.h"

#include <stdlib.h>
#include <string.h>

/* Marks what is still needed of a list, the first last, so that a record comes after those that it follows. */
static void
keep_list(Check *c, uint32_t *number, Record *kept, uint32_t *map, uint32_t *n)
{
	uint32_t *link = number;
	bool any = false;
	for (const Record *r = record_at(c, *number); r; r = record_at(c, r->prev))
		any |= !record_over(c, r);
	if (!any) {
		*number = 0;
		return;
	}
	while (*link >= c->floor) {
		uint32_t old = *link - c->floor;
		bool is_new = map[old] == UINT32_MAX;
		if (is_new) {
			map[old] = (*n)++;
			kept[map[old]] = c->record[old];
		}
		*link = c->next + map[old];
		if (!is_new)
			return;
		link = &kept[map[old]].prev;
	}
	*link = 0;
}

/* Keeps the records that cells need and makes room for as many again. */
void
records_collect(Check *c)
{
	uint32_t used = c->next - c->floor, n = 0;
	uint32_t *map = malloc(sizeof *map * used);
	Record *kept = malloc(sizeof *kept * used);
	if (!map || !kept)
		die("no memory for the checks of a block");
	memset(map, 0xff, sizeof *map * used);
	for (uint32_t i = 0; i < shared_cells(c); i += c->split[i / SHARED_WORD] ? 1 : SHARED_WORD) {
		keep_list(c, &cell_at(c, i)->write, kept, map, &n);
		keep_list(c, &cell_at(c, i)->touch, kept, map, &n);
	}
	while (c->record_room < 2 * n + RECORDS_FIRST)
		c->record_room *= 2;
	free(c->record);
	free(map);
	c->record = realloc(kept, sizeof *kept * c->record_room);
	if (!c->record)
		die("no memory for the checks of a block");
	c->floor = c->next;
	c->next += n;
	memset(c->hint, 0, sizeof *c->hint * RECORD_HINTS);
}

uint32_t
record_make(Check *c, const Record *r)
{
	uint32_t *hint = &c->hint[record_hash(r)];
	const Record *known = record_at(c, *hint);
	if (known && record_equal(known, r))
		return *hint;
	c->record[c->next - c->floor] = *r;
	return *hint = c->next++;
}
