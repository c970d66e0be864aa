/* Reads the text that print.c writes: a line a node, through the builder, which adds nothing of its own here.
 *
 * Bad text is the user's: the first mistake of a kernel is reported at its position, and no module is handed out.  What a
 * node's operands must be is the verifier's to say (verify.c). */
#include "thread/read.h"

#include <string.h>

bool
thread_read_word(ThreadReader *r, const char *const *words, int n, int *out, const char *what)
{
	for (*out = 0; r->r.l.token == TOK_WORD && *out < n; ++*out)
		if (words[*out] && strcmp(words[*out], r->r.l.text) == 0) {
			lex_next(&r->r.l);
			return true;
		}
	return read_expected(&r->r, what);
}

/* ---- registers ---- */

bool
thread_read_number(ThreadReader *r, int *number)
{
	const char *s = r->r.l.text;
	if (r->r.l.token != TOK_WORD || s[0] != 'r' || !char_is_digit(s[1]) || strlen(s) > 9)
		return false;
	for (*number = 0, s++; char_is_digit(*s); s++)
		*number = *number * 10 + (*s - '0');
	return *s == '\0';
}

bool
thread_read_fail(ThreadReader *r, const char *what)
{
	return diag_error(r->r.cx, r->r.l.place, DIAG_THREAD_TEXT, what);
}

/* "0", "0.0", "true", "0:i64": of the expected type where none is said. */
static bool
read_constant(ThreadReader *r, RegType expected, Reg *out)
{
	Lexer *l = &r->r.l;
	Token token = l->token;
	bool is_pred = read_is_word(&r->r, "true") || read_is_word(&r->r, "false"), is_true = read_is_word(&r->r, "true");
	double f = token == TOK_INT ? (double)l->i : l->f;
	int64_t i = l->i;
	int plain = token == TOK_INT ? (int)REG_I32 : (int)REG_F32;
	int type = is_pred ? (int)REG_PRED : expected != REG_TYPES ? (int)expected : plain;
	if (!is_pred && token != TOK_INT && token != TOK_FLOAT)
		return read_expected(&r->r, "a register or a constant");
	lex_next(l);
	if (read_take(&r->r, ':') && !thread_read_word(r, reg_type_text, REG_TYPES, &type, "a register's type"))
		return false;
	if (token == TOK_FLOAT && !thread_is_float((RegType)type))
		return thread_read_fail(r, "an integer is expected, not a float");
	*out = thread_is_float((RegType)type) ? thread_float_const(r->b, (RegType)type, f)
	                                      : thread_int_const(r->b, (RegType)type, is_pred ? is_true : i);
	return true;
}

bool
thread_read_use(ThreadReader *r, RegType expected, Reg *out)
{
	int number;
	if (read_take_word(&r->r, "shared")) {
		*out = r->b->m->shared;
		return *out || thread_read_fail(r, "there is no shared memory in a function");
	}
	if (!thread_read_number(r, &number))
		return read_constant(r, expected, out);
	if (number >= r->reg.n || !r->reg.at[number])
		return thread_read_fail(r, arena_printf(r->r.cx->tmp, "register r%d is not defined above", number));
	*out = r->reg.at[number];
	lex_next(&r->r.l);
	return true;
}

bool
thread_read_uses(ThreadReader *r, RegType expected, ThreadRegs *out)
{
	do {
		Reg v;
		if (!thread_read_use(r, expected, &v))
			return false;
		vec_push(r->mem, out, v);
	} while (read_take(&r->r, ','));
	return true;
}

bool
thread_read_list(ThreadReader *r, RegType expected, ThreadRegs *out)
{
	if (!read_need(&r->r, '('))
		return false;
	if (read_take(&r->r, ')'))
		return true;
	return thread_read_uses(r, expected, out) && read_need(&r->r, ')');
}

/* "r5, r6: f32, r7: i32", up to '='. */
static bool
read_results(ThreadReader *r, ThreadNames *out)
{
	int untyped = 0, type;
	do {
		ThreadName n = {.type = REG_I32, .place = r->r.l.place};
		if (!thread_read_number(r, &n.number))
			return read_expected(&r->r, "a register");
		if (n.number < r->reg.n && r->reg.at[n.number])
			return thread_read_fail(r, arena_printf(r->r.cx->tmp, "register r%d is defined twice", n.number));
		if (n.number > r->r.l.end - r->r.l.at + r->reg.n + 1)
			return thread_read_fail(r, "registers are numbered from 1 in the order in which they are defined");
		lex_next(&r->r.l);
		vec_push(r->mem, out, n);
		untyped++;
		if (read_take(&r->r, ':')) {
			if (!thread_read_word(r, reg_type_text, REG_TYPES, &type, "a register's type"))
				return false;
			for (; untyped; untyped--)
				out->at[out->n - untyped].type = (RegType)type;
		}
	} while (read_take(&r->r, ','));
	return untyped == 0 || read_need(&r->r, ':');
}

bool
thread_read_bind(ThreadReader *r, const ThreadNames *names, const Reg *v, int n)
{
	if (names->n != n)
		return thread_read_fail(r, arena_printf(r->r.cx->tmp, "%d results are expected, found %d", n, names->n));
	for (int i = 0; i < n; i++) {
		RegType t = thread_type_of(r->b, v[i]);
		while (r->reg.n <= names->at[i].number)
			vec_push(r->mem, &r->reg, 0);
		r->reg.at[names->at[i].number] = v[i];
		if (t != names->at[i].type) {
			const char *why = arena_printf(r->r.cx->tmp, "r%d is of type %s, not %s", names->at[i].number,
			    reg_type_text[t], reg_type_text[names->at[i].type]);
			return diag_error(r->r.cx, names->at[i].place, DIAG_THREAD_TEXT, why);
		}
	}
	return true;
}

/* ---- regions ---- */

static bool read_region(ThreadReader *r, ThreadKind kind, int n);
static bool read_node(ThreadReader *r);

/* "(r1, 0)" with the types of names from `first` on. */
static bool
read_carried(ThreadReader *r, const ThreadNames *names, int first, ThreadRegs *out)
{
	if (!read_need(&r->r, '('))
		return false;
	for (int i = first; i < names->n; i++) {
		Reg v;
		if ((i > first && !read_need(&r->r, ',')) || !thread_read_use(r, names->at[i].type, &v))
			return false;
		if (thread_type_of(r->b, v) != names->at[i].type)
			return thread_read_fail(r, "what goes into a region is of another type than what is carried");
		vec_push(r->mem, out, v);
	}
	return read_need(&r->r, ')');
}

static bool
read_loop(ThreadReader *r, const ThreadNames *names)
{
	Reg in[3];
	ThreadRegs init = {0};
	RegType t = names->n ? names->at[0].type : REG_I32;
	if (!names->n)
		return read_expected(&r->r, "the loop's index before '='");
	if (!thread_read_use(r, t, &in[0]) || !read_need(&r->r, '.') || !read_need(&r->r, '.') ||
	    !thread_read_use(r, t, &in[1]) || (!read_take_word(&r->r, "step") && !read_expected(&r->r, "'step'")) ||
	    !thread_read_use(r, t, &in[2]) || !read_carried(r, names, 1, &init) || !read_need(&r->r, '{'))
		return false;
	if (thread_type_of(r->b, in[0]) != t || thread_type_of(r->b, in[1]) != t || thread_type_of(r->b, in[2]) != t)
		return thread_read_fail(r, "a loop's limits and step are of its index's type");
	Reg *inside = NEW_ARRAY(r->mem, Reg, init.n + 1);
	inside[0] = thread_loop(r->b, in[0], in[1], in[2], init.at, inside + 1, init.n);
	return thread_read_bind(r, names, inside, init.n + 1) && read_region(r, NODE_LOOP, init.n);
}

static bool
read_while(ThreadReader *r, const ThreadNames *names)
{
	ThreadRegs init = {0};
	if (!read_carried(r, names, 0, &init) || !read_need(&r->r, '{'))
		return false;
	Reg *inside = NEW_ARRAY(r->mem, Reg, init.n);
	thread_while(r->b, init.at, inside, init.n);
	return thread_read_bind(r, names, inside, init.n) && read_region(r, NODE_WHILE, init.n);
}

/* Of a loop that ends: "} r11: f32 = next (r10)", or "}". */
static bool
read_end(ThreadReader *r, const char *word, int n, ThreadNames *names, ThreadRegs *yield)
{
	if (!read_need(&r->r, '}'))
		return false;
	if (n == 0)
		return true;
	if (!read_results(r, names) || !read_need(&r->r, '=') ||
	    (!read_take_word(&r->r, word) && !read_expected(&r->r, arena_printf(r->r.cx->tmp, "'%s'", word))))
		return false;
	if (names->n != n)
		return thread_read_fail(r, "a region gives another number of values than it carries");
	return read_carried(r, names, 0, yield);
}

static bool
read_region(ThreadReader *r, ThreadKind kind, int n)
{
	ThreadNames names = {0};
	ThreadRegs yield = {0};
	bool tests = kind == NODE_WHILE;
	if (r->depth >= MAX_NESTING)
		return diag_error(r->r.cx, r->r.l.place, DIAG_TIR_NESTING, MAX_NESTING);
	r->depth++;
	while (!read_is_punct(&r->r, '}') || tests) {
		if (read_take(&r->r, '}')) {
			Reg pred;
			if ((!read_take_word(&r->r, "test") && !read_expected(&r->r, "'test'")) ||
			    !thread_read_use(r, REG_PRED, &pred) || !read_need(&r->r, '{'))
				return false;
			thread_while_test(r->b, pred);
			tests = false;
		} else if (!read_node(r)) {
			return false;
		}
	}
	r->depth--;
	if (!read_end(r, "next", n, &names, &yield))
		return false;
	Reg *after = NEW_ARRAY(r->mem, Reg, n);
	(kind == NODE_LOOP ? thread_loop_end : thread_while_end)(r->b, yield.at, after, n);
	return thread_read_bind(r, &names, after, n);
}

static bool
read_nodes(ThreadReader *r)
{
	if (r->depth >= MAX_NESTING)
		return diag_error(r->r.cx, r->r.l.place, DIAG_TIR_NESTING, MAX_NESTING);
	r->depth++;
	while (!read_is_punct(&r->r, '}'))
		if (!read_node(r))
			return false;
	r->depth--;
	lex_next(&r->r.l);
	return true;
}

static bool
read_if(ThreadReader *r)
{
	ThreadRegs then = {0}, otherwise = {0};
	ThreadNames names = {0};
	Reg pred;
	if (!thread_read_use(r, REG_PRED, &pred) || !read_need(&r->r, '{'))
		return false;
	thread_if(r->b, pred);
	if (!read_nodes(r) || (read_take_word(&r->r, "gives") && !thread_read_list(r, REG_TYPES, &then)) ||
	    (!read_take_word(&r->r, "else") && !read_expected(&r->r, "'else'")) || !read_need(&r->r, '{'))
		return false;
	thread_else(r->b, then.at, then.n);
	r->depth++;
	while (!read_is_punct(&r->r, '}'))
		if (!read_node(r))
			return false;
	r->depth--;
	if (!read_end(r, "gives", then.n, &names, &otherwise))
		return false;
	Reg *after = NEW_ARRAY(r->mem, Reg, then.n);
	thread_if_end(r->b, otherwise.at, after, then.n);
	return thread_read_bind(r, &names, after, then.n);
}

/* Of nodes made since the last time. */
static void
note_places(ThreadReader *r)
{
	while (r->node.n < r->b->m->nnode)
		vec_push(r->mem, &r->node, r->start);
}

static bool
read_node(ThreadReader *r)
{
	ThreadNames names = {0};
	Place at;
	int number;
	if (read_is_punct(&r->r, '@')) {
		if (!read_place(&r->r, &at))
			return false;
		thread_place(r->b, at);
		return true;
	}
	note_places(r);
	r->start = r->r.l.place;
	if (thread_read_number(r, &number) && (!read_results(r, &names) || !read_need(&r->r, '=')))
		return false;
	if (read_take_word(&r->r, "loop"))
		return read_loop(r, &names);
	if (read_take_word(&r->r, "while"))
		return read_while(r, &names);
	if (read_take_word(&r->r, "if"))
		return names.n ? thread_read_fail(r, "a branch's results stand at its end") : read_if(r);
	return thread_read_plain(r, &names);
}

/* ---- heads ---- */

static bool
read_count(ThreadReader *r, const char *word, int64_t most, int *out)
{
	int64_t v;
	if (!read_take_word(&r->r, word))
		return read_expected(&r->r, arena_printf(r->r.cx->tmp, "'%s'", word));
	if (!read_need_int(&r->r, 0, most, &v, "a number"))
		return false;
	*out = (int)v;
	return true;
}

/* r1: global of f32 readonly aliased align 16 "x" */
static bool
read_param(ThreadReader *r, ThreadNames *names, ThreadParam *p)
{
	int n, type;
	*p = (ThreadParam){.align = 1};
	if (!thread_read_number(r, &n))
		return read_expected(&r->r, "a register");
	lex_next(&r->r.l);
	if (!read_need(&r->r, ':') || !thread_read_word(r, reg_type_text, REG_TYPES, &type, "a register's type") ||
	    (!read_take_word(&r->r, "of") && !read_expected(&r->r, "'of'")) || !read_dtype(&r->r, &p->elem))
		return false;
	p->type = (RegType)type;
	if (read_take_word(&r->r, "from") &&
	    (!read_need_int(&r->r, INT64_MIN, INT64_MAX, &p->least, "a number") ||
	    (!read_take_word(&r->r, "to") && !read_expected(&r->r, "'to'")) ||
	    !read_need_int(&r->r, INT64_MIN, INT64_MAX, &p->most, "a number")))
		return false;
	p->is_read_only = read_take_word(&r->r, "readonly");
	p->is_aliased = read_take_word(&r->r, "aliased");
	p->is_map = read_take_word(&r->r, "map");
	if (read_is_word(&r->r, "align") && !read_count(r, "align", 1 << 20, &p->align))
		return false;
	if (r->r.l.token != TOK_STRING)
		return read_expected(&r->r, "the parameter's name in quotes");
	p->name = r->r.l.text;
	lex_next(&r->r.l);
	vec_push(r->mem, names, ((ThreadName){.number = n, .type = p->type, .place = r->r.l.place}));
	return true;
}

/* function @sin_f32x2(r1, r2: f32): f32, f32 { … } gives (r3, r4) */
static bool
read_function(ThreadReader *r)
{
	ThreadNames in = {0};
	ThreadRegs out = {0};
	VEC(RegType) result = {0};
	const char *name;
	int type;
	if (!read_need(&r->r, '@') || !read_need_name(&r->r, &name, "a function's name") || !read_need(&r->r, '(') ||
	    (!read_is_punct(&r->r, ')') && !read_results(r, &in)) || !read_need(&r->r, ')') ||
	    !read_need(&r->r, ':'))
		return false;
	do {
		if (!thread_read_word(r, reg_type_text, REG_TYPES, &type, "a result's type"))
			return false;
		vec_push(r->mem, &result, (RegType)type);
	} while (read_take(&r->r, ','));
	Reg *inside = NEW_ARRAY(r->mem, Reg, in.n);
	const RegType *param = thread_read_types(r, &in);
	thread_function(r->b, &(ThreadSignature){name, result.at, param, result.n, in.n}, inside);
	if (!thread_read_bind(r, &in, inside, in.n) || !read_need(&r->r, '{') || !read_nodes(r) ||
	    (!read_take_word(&r->r, "gives") && !read_expected(&r->r, "'gives'")) ||
	    !thread_read_list(r, REG_TYPES, &out))
		return false;
	if (out.n != result.n)
		return thread_read_fail(r, "a function gives another number of values than it says");
	thread_function_end(r->b, out.at, out.n);
	return true;
}

static bool
read_kernel(ThreadReader *r)
{
	ThreadNames names = {0};
	VEC(ThreadParam) param = {0};
	ThreadKernel k = {0};
	Reg shared;
	if (!read_need(&r->r, '@') || !read_need_name(&r->r, &k.name, "a kernel's name") || !read_need(&r->r, '('))
		return false;
	while (!read_is_punct(&r->r, ')')) {
		ThreadParam p;
		if ((param.n && !read_need(&r->r, ',')) || !read_param(r, &names, &p))
			return false;
		vec_push(r->mem, &param, p);
	}
	lex_next(&r->r.l);
	if (!read_take_word(&r->r, "target") || r->r.l.token != TOK_WORD || !target_named(r->r.l.text))
		return read_expected(&r->r, "'target' and the target's name");
	r->b->m->target = target_named(r->r.l.text);
	lex_next(&r->r.l);
	if (!read_count(r, "threads", 1 << 16, &k.threads) ||
	    (read_is_word(&r->r, "resident") && !read_count(r, "resident", 1 << 16, &k.min_blocks)) ||
	    (read_is_word(&r->r, "cluster") && !read_count(r, "cluster", 16, &k.cluster)) ||
	    !read_count(r, "shared", INT32_MAX, &k.shared_bytes) || !read_count(r, "align", 1 << 20, &k.shared_align) ||
	    !read_need(&r->r, '{'))
		return false;
	k.param = param.at;
	k.nparam = param.n;
	Reg *in = NEW_ARRAY(r->mem, Reg, param.n);
	thread_kernel(r->b, &k, in, &shared);
	return thread_read_bind(r, &names, in, param.n) && read_nodes(r);
}

static bool
read_file(ThreadReader *r)
{
	int64_t n;
	if (!read_need_int(&r->r, r->r.files.n, r->r.files.n, &n, "the next file's number"))
		return false;
	if (r->r.l.token != TOK_STRING)
		return read_expected(&r->r, "a path in quotes");
	int file = source_text(r->r.cx, r->r.l.text, "", 0);
	vec_push(r->r.cx->tmp, &r->r.files, file);
	lex_next(&r->r.l);
	return file >= 0;
}

/* Up to the kernel's end; *out: it, NULL at the end of the file. */
static bool
read_module(ThreadReader *r, ThreadModule **out)
{
	*out = NULL;
	r->b = NULL;
	r->reg.n = r->node.n = r->r.files.n = 0;
	while (r->r.l.token != TOK_END) {
		if (read_take_word(&r->r, "file")) {
			if (!read_file(r))
				return false;
			continue;
		}
		if (!r->b)
			r->b = thread_open(r->mem, target_at(0), false);
		if (read_take_word(&r->r, "function")) {
			if (!read_function(r))
				return false;
		} else if (read_take_word(&r->r, "kernel")) {
			if (!read_kernel(r))
				return false;
			note_places(r);
			*out = thread_module(r->b);
			return true;
		} else {
			return read_expected(&r->r, "'file', 'function' or 'kernel'");
		}
	}
	return true;
}

bool
thread_modules_parse(Compile *cx, int file, ThreadModules *out)
{
	ThreadReader r = {.r = {.cx = cx}, .mem = cx->mem};
	ThreadModule *m;
	lex_open(&r.r.l, cx, file);
	lex_next(&r.r.l);
	while (read_module(&r, &m) && m) {
		const ThreadNode *at = NULL;
		const char *wrong = thread_module_verify(m, cx->mem, &at);
		if (wrong)
			diag_error(cx, at ? r.node.at[at->id] : r.r.l.place, DIAG_THREAD_TEXT, wrong);
		vec_push(cx->mem, out, m);
	}
	if (cx->nerrors == 0 && out->n == 0)
		read_expected(&r.r, "'kernel'");
	return cx->nerrors == 0;
}
