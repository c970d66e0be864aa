/* A candidate of choose_blocks.c: compiled, billed and compared by choose_form.c. */
#ifndef TEGULA_CHOOSE_FORM_H
#define TEGULA_CHOOSE_FORM_H

#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"

enum { VALUES_MOST = TILE_SIZES + 9, LISTS_MOST = 24, SHRUNK_MOST = 16 };

/* A candidate; 0: as it is. */
typedef struct Form {
	int warps;
	int programs;                                   /* that a block runs together; 1: blocks stay */
	int batch;                                      /* that it computes for as for one of a larger tile */
	int strip, unroll, split, keep;
	int share;                                      /* programs of one warp that share a block */
} Form;

typedef struct Blocks {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	Candidates apart;
	Bill bill, least;                               /* of what the passes take; of the best so far */
	double own, best;                               /* cycles; of the best so far, with what its distance costs */
	bool any;                                       /* something is better than what the passes take */
	int rule;                                       /* warps by the passes */
	bool tallies;                                   /* its programs add to the same places */
	bool merges;                                    /* only neighbours do */
	bool warps_open;                                /* they are not said, but may be listed: */
	const TuneName *warps;                          /* the header's list; NULL: there is none */
	bool is_fitted, multiplies;                     /* loops or products, of which estimates are rougher; products */
	bool shares, several;                           /* programs of one warp may share a block; a warp may run several */
	bool joins;                                     /* neighbours have parts of the same sectors */
	bool loops, picks;                              /* it has loops; takes the greatest few of a row */
	int full;                                       /* bits: warps that read too many trips at once */
	Form form;                                      /* of that */
	ChooseTile tile[TILES_MOST + STEPS_MOST + LISTS_MOST + SHRUNK_MOST];
	int with, now;                                  /* the tile of the best, of what is tried, from 1 on; 0: as it is */
} Blocks;

/* Did neither the header nor the caller say that? */
bool blocks_is_open(const Blocks *s, ScheduleName name);
/* May blocks have so many warps: by the header's list, if it has one? */
bool blocks_may_have(const Blocks *s, int warps);
/* Where candidates' warps begin: at a part of the rule's, or at one. */
int blocks_fewest_warps(const Blocks *s, int below);
/* The function after all passes, in s->apart, and what it is bound to; NULL: it does not compile. */
Func *compile_form(Blocks *s, const Bound *first, Form x, Bound *b);
/* What to take the bill's cycles times, as its registers are likely to spill; 1: they are not. */
double blocks_overfull(const Blocks *s, const Bill *bill, const Func *f);
/* Compiles and bills a candidate beside the values of `first`; kept if its cycles, with what its distance from the rule
 * costs, are fewer than s->best. */
void try_form(Blocks *s, const Bound *first, Form x);
/* The same with its programs of one warp sharing blocks, and whether that may be faster than apart. */
bool may_share(const Blocks *s, const Func *f, const Bill *bill, Form x);
void try_shares(Blocks *s, const Bound *first, Form x);
/* choose_blocks.c: with what a row's first loop reads kept for the others, by so many warps. */
void try_kept(Blocks *s, const Bound *first, Form form, int least, int most);
/* choose_batch.c: several programs as one tile; do they have parts of the same sectors? */
void try_batches(Blocks *s, const Bound *first);
bool batches_join(const Func *f, const Bill *b);
/* The same of smaller tiles, by sizes that only cut a grid or that tune(...) lists. */
void try_batches_smaller(Blocks *s, const Bound *first, Arena *apart, const TuneName *all, int n);
/* The values that a candidate is, at most VALUES_MOST.  Returns how many. */
int form_values(const Blocks *s, int tile, Form x, NamedConst *out);

#endif
