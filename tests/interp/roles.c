/* Runs the roles of a block: producer and consumers, each a worker of its own on a thread of its own, one at a time,
 * round robin.
 *
 * A role runs until it waits for a phase of an mbarrier that is not over, or ends; then the next role that is not done
 * runs.  If a whole round passes in which no phase ends, the program is in a deadlock, which is a fault.  So a run is the
 * same every time, and a ring that is too short or an arrival that is missing is found.
 *
 * A role's worker starts as a copy of its parent's slots and shares the parent's buffers. */
#include "tests/interp/gpu.h"

#include <pthread.h>
#include <string.h>

typedef struct Role {
	Worker *w;
	const Block *body;
	pthread_t thread;
	bool started, done, well;
} Role;

struct Roles {
	pthread_mutex_t lock;
	pthread_cond_t turned;
	Role role[MAX_ROLES];
	int n, turn;
	int idle;                                       /* waits in a row without a phase that ended */
	bool stop;                                      /* a role failed */
};

void
roles_progress(Worker *w)
{
	if (w->roles)
		w->roles->idle = 0;
}

/* The next role that is not done takes its turn; the lock is held. */
static void
next_role(Roles *r)
{
	for (int i = 1; i <= r->n; i++) {
		int next = (r->turn + i) % r->n;
		if (r->role[next].done)
			continue;
		r->turn = next;
		break;
	}
	pthread_cond_broadcast(&r->turned);
}

bool
roles_yield(Worker *w, const Op *op)
{
	Roles *r = w->roles;
	int own;

	if (!r)
		return fault_at(w, op, FAULT_ASSERT, "await: no phase of this mbarrier can end, nothing else runs");
	pthread_mutex_lock(&r->lock);
	own = r->turn;
	bool stuck = ++r->idle > 2 * r->n;
	if (!stuck) {
		next_role(r);
		while (r->turn != own)
			pthread_cond_wait(&r->turned, &r->lock);
	}
	bool stop = r->stop;
	pthread_mutex_unlock(&r->lock);
	if (stop)
		return false;
	return !stuck || fault_at(w, op, FAULT_ASSERT, "await: the roles wait for one another, none can go on");
}

static void *
run_role(void *user)
{
	Role *role = user;
	Roles *r = role->w->roles;
	int own = (int)(role - r->role);

	pthread_mutex_lock(&r->lock);
	while (r->turn != own)
		pthread_cond_wait(&r->turned, &r->lock);
	bool stop = r->stop;
	pthread_mutex_unlock(&r->lock);
	role->well = !stop && block_run(role->w, role->body);
	pthread_mutex_lock(&r->lock);
	role->done = true;
	r->idle = 0;
	r->stop = r->stop || !role->well;
	next_role(r);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Slots as they are now; shares memory; NULL: none left. */
static Worker *
worker_clone(const Worker *w)
{
	const Plan *p = w->plan;
	Worker *c = worker_open(p);

	if (!c)
		return NULL;
	memcpy(c->block, w->block, (size_t)p->bytes);
	for (int s = 0; s < p->slot_bytes.n; s++) {
		bool is_own = w->at[s] >= w->block && w->at[s] < w->block + w->mapped;
		c->at[s] = is_own ? c->block + (w->at[s] - w->block) : w->at[s];
	}
	c->shared = w->shared;
	c->has_constants = w->has_constants;
	c->args = w->args;
	c->shadow = w->shadow;
	c->fault = w->fault;
	memcpy(c->grid, w->grid, sizeof c->grid);
	memcpy(c->program, w->program, sizeof c->program);
	c->linear = w->linear;
	c->rng = w->rng;
	return c;
}

static bool
open_roles(Worker *w, const Op *op, Roles *r)
{
	const int64_t *copies = attr_copies(op)->at;

	if (copies[0] + copies[1] > MAX_ROLES)
		return false;
	for (int k = 0; k < 2; k++)
		for (int64_t c = 0; c < copies[k]; c++) {
			Role *role = &r->role[r->n];
			role->w = worker_clone(w);
			if (!role->w)
				return false;
			r->n++;
			role->w->roles = r;
			role->body = op->region[k];
			if (k == 1)
				memcpy(value_at(role->w, &op->region[1]->arg[0]), &c, sizeof c);
		}
	for (int i = 0; i < r->n; i++) {
		r->role[i].started = thread_start(&r->role[i].thread, run_role, &r->role[i]);
		if (!r->role[i].started)
			return false;
	}
	return true;
}

/* Roles that never started are done; the others stop at their next turn if one failed. */
static bool
close_roles(Roles *r, bool opened)
{
	bool well = opened;

	if (!opened) {
		pthread_mutex_lock(&r->lock);
		r->stop = true;
		for (int i = 0; i < r->n; i++)
			r->role[i].done = r->role[i].done || !r->role[i].started;
		pthread_mutex_unlock(&r->lock);
	}
	pthread_mutex_lock(&r->lock);
	if (opened || r->role[r->turn < 0 ? 0 : r->turn].done) {
		r->turn = opened ? r->n - 1 : MAX(r->turn, 0);
		next_role(r);
	}
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < r->n; i++) {
		if (r->role[i].started)
			pthread_join(r->role[i].thread, NULL);
		well = well && r->role[i].well;
		worker_close(r->role[i].w);
	}
	return well;
}

DEFINE(ROLES)
{
	Roles r = {.turn = -1};

	pthread_mutex_init(&r.lock, NULL);
	pthread_cond_init(&r.turned, NULL);
	bool opened = open_roles(w, op, &r);
	bool well = close_roles(&r, opened);
	pthread_cond_destroy(&r.turned);
	pthread_mutex_destroy(&r.lock);
	if (!opened)
		return fault_at(w, op, FAULT_MEMORY, "no memory or no thread for a role, or more than %d", MAX_ROLES);
	return well;
}
