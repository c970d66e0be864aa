/* What the parts of pass assign share: the unknowns (layouts to choose), the edges between them, and what a choice
 * costs.  See assign.c. */
#ifndef TEGULA_ASSIGN_H
#define TEGULA_ASSIGN_H

#include "pass/layout/axis.h"
#include "pass/layout/anchor.h"

/* An unknown: the place of an op, or (op NULL) the one layout of a carried value or of a branch's result. */
typedef struct Var {
	Op *op;
	const Layout *layout;
	const Layout *preferred;                        /* of memory ops: coalesced; of dots: fixed */
	const Layout *record;                           /* of a read of whole records: a thread has one */
	bool hard;                                      /* may not be changed */
	bool drains;                                    /* a write that pass drain can serve */
	bool defers;                                    /* pass defer_reduce takes it out of its loop */
	double weight;                                  /* how often it runs */
	int first, nedge;                               /* edges to its operands */
	int mark;                                       /* of the flood that reached it last */
	struct { const Layout *of; double cost; } costed[2]; /* what the last layout costs, and the one before */
} Var;

/* Operand `index` of `op` must lie as var `user` says. */
typedef struct Edge {
	Value *value;
	Op *op;
	int index, user;
	bool tie;                                       /* user is a carried value: its layout is asked for as it is */
	int next;                                       /* another edge of the same value, or -1 */
	const Layout *place, *required;                 /* what was asked last, and what followed */
} Edge;

typedef struct CostEntry {
	const Layout *src, *dst;
	int bits;
	double cost;
} CostEntry;

typedef struct ValueNote {
	int var;                                        /* its own unknown, or -1: rematerialised, or no tile */
	int cheap;                                      /* > 0: operations that rematerialise it */
	int edges;                                      /* first of its list, or -1 */
	double weight;                                  /* how often it is defined */
	bool is_staged;                                 /* a copy brings it to shared memory, whence any layout takes it */
	const Layout *place, *layout;                   /* what was asked last, and what followed */
	int *ties;                                      /* of a loop's or branch's first result: the unknowns of all */
} ValueNote;

typedef struct Assign {
	Module *m;
	Func *f;
	const Target *t;
	Arena *tmp;
	VEC(Var) vars;
	VEC(Edge) edges;
	ValueNote *note;                                /* by Value.id */
	int lanes, warps;                               /* log2 */
	int flood;                                      /* number of the last flood */
	CostEntry *cache;
	bool warpgroups;                                /* there is a product of such */
	bool has_rings;                                 /* and its rings are there as long as blocks stay */
	bool only_unset;                                /* floods reach only what has no layout yet */
} Assign;

/* assign_graph.c: unknowns and edges of a function, which it numbers */
void assign_collect(Assign *a);
const Layout *assign_value_layout(const Assign *a, const Value *v);
const Layout *assign_required(const Assign *a, Edge *e);
const Layout *default_layout(const Assign *a, const Type *t);
/* Which ways a choice spreads from an op to its neighbours. */
enum { FLOOD_BACK = 1, FLOOD_FORWARD = 2 };
void assign_flood(Assign *a, int var, const Layout *l, int ways);
/* The same from the uses of what a read gives as if it lay so; it stays as it is, and so do writes. */
void assign_flood_uses(Assign *a, int var, const Layout *l);

/* assign_cost.c */
double assign_cost(Assign *a);

/* defer_reduce.c: will the pass take what the reduction exchanges out of its loop, or is the op computed with what
 * lanes have of such a one? */
bool defer_serves(const Op *op);

/* assign_write.c: layouts and conversions into the module */
void assign_write(Assign *a);

#endif
