/* What the compiler chooses for a launch for which nothing was tuned (compile/choose/choose.h), once for each size.
 *
 * A dimension that grows from launch to launch is looked at again where it passes one of eight steps from a power of two to
 * the next: tiles that fill the multiprocessors at 1536 leave a third of them idle at 2048.  Values that the call gives
 * have choices of their own. */
#include <string.h>

#include "compile/choose/choose.h"
#include "runtime/tune/tune.h"

struct Chosen {
	Chosen *next;
	const char *dtypes, *sizes, *target;
	const char *given;                              /* by the call, as `values` */
	const ExampleItem *ex;
	int threads;                                    /* of the cpu device; 0 */
	const char *values;                             /* "BM = 128, warps = 8"; "default" */
};

typedef struct Launch {
	TglKernel *k;
	const Binding *b;
	const ExampleItem *ex;
} Launch;

static bool
is_fixed(void *user, const char *name)
{
	const Launch *l = user;
	return tune_is_fixed(l->b, l->ex, name);
}

static bool
bind(void *user, const NamedConst *given, int n, Bound *out)
{
	const Launch *l = user;
	Arena *mem = l->k->program->compile->mem;
	int m;
	NamedConst *all = bound_values(l->k->k, &l->b->bound, l->b, l->ex, mem, n, &m);
	if (n > 0)
		memcpy(all + m, given, sizeof *given * (size_t)n);
	if (!bind_quietly(l->k, l->b, all, m + n, mem, out, NULL))
		return false;
	for (int i = 0; i < l->k->k->params.n; i++)
		if (l->k->k->params.at[i].kind == PARAM_SCALAR)
			out->param[i].scalar = l->b->info[i].scalar;
	return true;
}

/* Of the cpu device; 0: another one's, or none. */
static int
threads_of(const Binding *b)
{
	TglDeviceInfo info = {0};
	if (!b->dev || !b->dev->dev.target || strcmp(b->dev->dev.target, cpu_row.target.name) != 0)
		return 0;
	b->dev->dev.info(&b->dev->dev, &info);
	return info.threads;
}

const char *
tune_choice(TglKernel *k, const Binding *b, const ExampleItem *ex, const char *target, Arena *mem)
{
	Launch l = {k, b, ex};
	const ChooseBinding how = {is_fixed, bind, &l, NULL, .launches_both = b->dev != NULL};
	NamedConst *values;
	Text t = {0};
	int n;
	bool chooses = strcmp(target, cpu_row.target.name) == 0
	    ? choose_cpu(k->k, &b->bound, threads_of(b), &how, mem, &values, &n)
	    : choose_values(k->k, &b->bound, target_named(target), &how, mem, &values, &n);
	if (!chooses)
		return "default";
	values_print(values, n, &t);
	return text_take(&t, mem);
}

const char *
tune_chosen(TglKernel *k, const Binding *b, const ExampleItem *ex, const TuneKey *key)
{
	const char *target = b->dev->dev.target;
	Arena *mem = k->program->compile->mem;
	int threads = threads_of(b);
	bool is_cpu = target && strcmp(target, cpu_row.target.name) == 0;
	if (!is_cpu && (!b->dev->dev.load_artefact || !target || !target_named(target)))
		return "default";
	Text given = {0};
	values_print(b->value, b->nvalue, &given);
	const char *text = text_take(&given, mem);
	for (const Chosen *c = k->chosen; c; c = c->next) {
		bool is_same = strcmp(c->sizes, key->close_sizes) == 0 && strcmp(c->dtypes, key->dtypes) == 0 &&
		    strcmp(c->given, text) == 0 && c->ex == ex;
		if (is_same && strcmp(c->target, target) == 0 && c->threads == threads)
			return c->values;
	}
	Chosen *c = NEW(mem, Chosen);
	*c = (Chosen){k->chosen, arena_strdup(mem, key->dtypes), arena_strdup(mem, key->close_sizes), target, text, ex,
	    threads, tune_choice(k, b, ex, target, mem)};
	k->chosen = c;
	return c->values;
}
