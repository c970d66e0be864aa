/* Things by a hash of what they are, in an arena: chains of equal buckets, the newest first.  What was added last leaves
 * first, so that a scope's things go when it ends. */
#include "base/base.h"

static void
enter(HashTable *t, int i)
{
	int *bucket = &t->bucket[t->all.at[i].hash & (uint64_t)(t->nbucket - 1)];
	t->all.at[i].before = *bucket;
	*bucket = i + 1;
}

void
table_add(Arena *a, HashTable *t, uint64_t hash, void *of, int tag)
{
	HashEntry e = {.hash = hash, .of = of, .tag = tag};
	bool grows = t->all.n >= t->nbucket;
	vec_push(a, &t->all, e);
	if (grows) {
		t->nbucket = t->nbucket ? t->nbucket * 2 : 16;
		t->bucket = NEW_ARRAY(a, int, t->nbucket);
	}
	for (int i = grows ? 0 : t->all.n - 1; i < t->all.n; i++)
		enter(t, i);
}

const HashEntry *
table_next(const HashTable *t, uint64_t hash, const HashEntry *than)
{
	int i = than ? than->before : t->nbucket ? t->bucket[hash & (uint64_t)(t->nbucket - 1)] : 0;
	while (i && t->all.at[i - 1].hash != hash)
		i = t->all.at[i - 1].before;
	return i ? &t->all.at[i - 1] : NULL;
}

void
table_leave(HashTable *t, int n)
{
	while (t->all.n > n) {
		HashEntry e = vec_pop(&t->all);
		t->bucket[e.hash & (uint64_t)(t->nbucket - 1)] = e.before;
	}
}

uint64_t
hash_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 31;
}
