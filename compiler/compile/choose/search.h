/* The search among combinations of values for a kernel's products: what choose.c and choose_shares.c have in common. */
#ifndef TEGULA_SEARCH_H
#define TEGULA_SEARCH_H

#include "compile/choose/choose.h"

enum { NAMES_MOST = 16, CLUSTER = 2, CLUSTER_MOST = 4 };        /* blocks of a cluster */

typedef struct Search {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	const Bound *first;
	TuneName name[NAMES_MOST];
	int n, parameters;                                      /* the first ones are compile-time parameters */
	int more;                                               /* of the present values, that no header lists */
	bool divides;                                           /* blocks can share a program's loop */
	bool joins;                                             /* … that carries other states than sums */
	bool in_memory;                                         /* whose blocks join through memory, never as a cluster */
	bool products;                                          /* the kernel multiplies matrices */
	bool is_one;                                            /* of one product */
	bool is_whole;                                          /* so many that choose_whole.c chooses */
	bool adds_roles, adds_split, adds_groups;               /* specialize, split, pingpong: no header lists them */
	bool is_nest;                                           /* one product in a loop within another */
	bool is_merged;                                         /* few rows of a loop whose states join: all passes judge */
	bool is_lone;                                           /* one product of warpgroups, with tiles to choose */
	bool leaves;                                            /* programs return early, before their products */
	bool decodes;                                           /* threads decode weights of its products */
	bool tries_clusters;                                    /* of two blocks, for what is parted */
	bool header_of_schedule;                                /* the header speaks of the others, as in `where` */
	NamedConst value[NAMES_MOST];
	Bound bound;                                            /* for the present parameters */
	Func *f;                                                /* of that; NULL: not made, or not to be had */
	Candidates apart;
	Bill bill;                                              /* of the header's defaults */
	double best, least[2];                                  /* of programs as they are; shared by blocks, by two */
	double paired, shared;                                  /* in clusters; few, shared by blocks that stay … */
	int nshares;                                            /* … in clusters too, with a value more */
	NamedConst *chosen, *divided[2], *in_pairs, *in_shares;
} Search;

/* choose_shares.c: can blocks share a loop of sums, or whose updates say how its states join, or a merge around a product
 * in an inner loop?  What parts of others with `merge` cost is choose_split's.  *s: is it none of sums? */
bool search_divides(Search *s);
/* Do blocks that stay share the last programs?  They share no loop that joins otherwise than by sums. */
bool search_shares_last(const Search *s, const Bound *b);
/* How many blocks share a program's loop, one with `merge` or, unless `merged`, of a kernel without
 * products. */
int search_split(Search *s, bool merged);
/* The greatest of a name's values. */
Const search_greatest(const TuneName *name);
/* Of few rows in a loop without merge: are they few in the greatest tile, too? */
bool search_stays_few(Search *s, const TuneName *all, int n);
/* Adds that to the values, unless blocks stay.  False: they stay as they are. */
bool search_add_split(Search *s, Arena *mem, NamedConst **values, int *n);
/* Takes what was divided over blocks in place of what was not, where that is clearly better. */
void search_take_divided(Search *s);
/* The share of clusters' blocks that must have programs.  Of clusters of four, which run at once, the rest only wait. */
double search_share_least(int ranks);
/* May clusters of two be added to what is chosen?  Attention with heads of 128, 8 warps, b4 h16 s4096, takes 781 us in them
 * on an H200 and 791 alone; with heads of 64 and 16 warps, whose producer has 32 registers and spills, 584 and 553.  Not
 * programs as long as data says, which blocks fetch from a counter when they are alone: keys of eight lengths up to 2048
 * 292 us in pairs and 235 alone, of one length 550 and 419, heads of 96 381 and 307, of 3000 and 4096 354 and 342. */
double search_pairs_share(const Search *s, double share);
bool search_may_pair(Search *s, const Bound *b);
/* Does a launch of what is chosen wait for device memory for more than a small part of its time? */
bool search_waits_for_memory(Search *s, const Bound *b);
/* The first n of the present values, of blocks that stay and share few programs, if they are better than others such. */
void search_keep_shared(Search *s, double cycles, int n);
/* Takes those in place of what is chosen, where they take no longer than `least`, in cycles. */
bool search_take_shared(Search *s, double least);
/* With what is chosen, after the whole pipeline; NULL if it stayed whole, or its blocks alone, or they share nothing, for a
 * reason that the estimate does not see. */
Func *search_parted(Search *s, Bound *b);
/* choose_shares.c: takes slots from what is chosen until its block fits. */
void search_fit_stages(Search *s);

#endif
