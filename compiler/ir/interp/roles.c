/* Runs the roles of a block: producer and consumers, each a worker of its own on a thread of its own, one at a time.
 *
 * Exactly one holds the baton.  It runs until it waits for a phase of an mbarrier that is not over, or ends; then the
 * next one round that is not done takes the baton.  If a whole round passes in which nobody ends a phase, the roles
 * wait for one another and the program is stuck, which is a fault.  So a run is the same every time, and a ring that
 * is too short or an arrival that is missing is found.
 *
 * A role's worker starts as a copy of its parent's registers and shares the parent's buffers. */
#include "ir/interp/plan.h"

#include <pthread.h>
#include <string.h>

enum { MAX_ROLES = 32 };

typedef struct Role {
	Worker *w;
	const Code *code;
	pthread_t thread;
	bool started, done, well;
} Role;

struct Roles {
	pthread_mutex_t lock;
	pthread_cond_t turned;
	Role role[MAX_ROLES];
	int n, turn;
	int idle;                                       /* waits in a row without a phase that ended */
	bool stop;                                      /* somebody failed */
};

typedef struct RolesStep {
	Step step;
	Code code[2];
	int64_t copies[2];
	Home index;                                     /* the consumers' argument */
} RolesStep;

void
roles_progress(Worker *w)
{
	if (w->roles)
		w->roles->idle = 0;
}

/* Hands the baton on; the lock is held. */
static void
pass_baton(Roles *r)
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
roles_give_way(Worker *w, const Op *op)
{
	Roles *r = w->roles;
	int own;

	if (!r)
		return fault_at(w, op, FAULT_ASSERT, "await: no phase of this mbarrier can end, nothing else runs");
	pthread_mutex_lock(&r->lock);
	own = r->turn;
	bool stuck = ++r->idle > 2 * r->n;
	if (!stuck) {
		pass_baton(r);
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
	role->well = !stop && code_run(role->w, role->code);
	pthread_mutex_lock(&r->lock);
	role->done = true;
	r->idle = 0;
	r->stop = r->stop || !role->well;
	pass_baton(r);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static bool
open_roles(Worker *w, const RolesStep *s, Roles *r)
{
	for (int k = 0; k < 2; k++)
		for (int64_t c = 0; c < s->copies[k] && r->n < MAX_ROLES; c++) {
			Role *role = &r->role[r->n];
			role->w = worker_clone(w);
			if (!role->w)
				return false;
			r->n++;
			role->w->roles = r;
			role->code = &s->code[k];
			if (k == 1 && s->index.reg >= 0)
				*(int64_t *)role->w->reg[s->index.reg] = c;
		}
	for (int i = 0; i < r->n; i++) {
		r->role[i].started = thread_start(&r->role[i].thread, run_role, &r->role[i]);
		if (!r->role[i].started)
			return false;
	}
	return true;
}

/* Those that never started are done; the others stop at the first chance if somebody failed. */
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
		pass_baton(r);
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

static bool
run_roles(Worker *w, const Step *step)
{
	const RolesStep *s = (const RolesStep *)step;
	Roles r = {.turn = -1};

	pthread_mutex_init(&r.lock, NULL);
	pthread_cond_init(&r.turned, NULL);
	bool opened = open_roles(w, s, &r);
	bool well = close_roles(&r, opened);
	pthread_cond_destroy(&r.turned);
	pthread_mutex_destroy(&r.lock);
	if (!opened)
		return fault_at(w, step->op, FAULT_MEMORY, "no memory or no thread for a role");
	return well;
}

Step *
roles_emit(Plan *p, const Node *n)
{
	RolesStep *s = STEP(p, n->op, RolesStep, run_roles);
	const IntList *copies = attr_copies(n->op);

	if (copies->at[0] + copies->at[1] > MAX_ROLES)
		p->why = "roles: more than 32 run here at once";
	s->index = value_home(p, &n->op->region[1]->arg[0]);
	for (int i = 0; i < 2; i++) {
		s->copies[i] = copies->at[i];
		code_emit(p, &s->code[i], n->region[i]);
	}
	return &s->step;
}
