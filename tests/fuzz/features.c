/* What of the language random kernels are made of: every operation of the compiler's table, every dtype, and the forms of
 * docs/language.md, each with the share of kernels that have it, of those of the first seeds until ENOUGH do: to look further
 * took ten times as long.  One that no kernel has is a failure. */
#include "gen_tgl.h"
#include "features.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDS = 1, FAST = 2, KERNEL = 4, EXAMPLE = 8 };

typedef struct Feature {
	const char *name, *pattern;
} Feature;

typedef struct Operation {
	const char *name;
	int flags;
} Operation;

static const Operation operations[] = {
#define BUILTIN(name, group, signature, make, data, flags, meaning) {name, flags},
#include "sema/builtin/builtins.def"
#undef BUILTIN
};

/* Left out: PTX that this machine cannot run, a file beside the text, a distribution that integers stand for. */
static const char *const left_out[] = {"inline_ptx", "file", "uniform", "permutation"};

/* "WORD": the beginning of a name. */
#define WORD "(^|[^A-Za-z0-9_:])"
#define NAME "[a-zA-Z][a-zA-Z0-9_]*"

static const Feature forms[] = {
	{"a scalar parameter", "[(,] ?c[0-9]+: (i|u|f|bf)[0-9]+"},
	{"a scalar parameter of bool", "[(,] ?c[0-9]+: bool"},
	{"a tensor of rank 0", "c[0-9]+: in [a-z0-9]+\\[\\]"},
	{"a tile of pointers by an index", "load\\(\\(p[0-9]+ [^\n]*\\)\\[[^]]*new[^]]*\\] \\+ "},
	{"a scalar that is 1", "c[0-9]+ = 1;"},
	{"a scalar of 16", "c[0-9]+ = 16;"},
	{"a pointer that is read", ": \\*[a-z]"},
	{"a pointer that is written", ": \\*mut"},
	{"an inout tensor", ": inout"},
	{"a scratch tensor", ": scratch"},
	{"a strided tensor", ": in strided"},
	{"a tensor filled before the launch", "\\] = 5[,)]"},
	{"a tensor of five dimensions", ": in [a-z0-9]+\\[[^],]*(,[^],]*){4}\\]"},
	{"a tensor without a dimension's name", ": in [a-z0-9]+\\[E[0-9]"},
	{"a list that is a tile", "\\(\\[[^]]*, [^]]*\\] as "},
	{"a table", "\\(\\[[^]]*\\]\\["}, {"a table with else", "\\(\\[[^]]*\\]\\[[^\n]* else "}, {"a table of rows", "\\(\\[\\["},
	{"a tile without elements", "\\[\\] as |full\\(\\[0\\]"},
	{"elements of a variable", "\n *m[0-9]+\\[[^\n]*\\] ([-+*^&|/%]|<<|>>)?= "},
	{"a compile-time parameter", "k<[^>]*E[0-9] = [0-9]"},
	{"a parameter that follows from a size", "= pow2ceil\\(N"},
	{"a parameter that is a dtype", ": dtype = "},
	{"a parameter that is a switch", "B[0-9]+(: bool)? = (true|false)"},
	{"a constant of the file", "const E[0-9] = "},
	{"a grid of no axes", "\\)\n( +(tune|where)[^\n]*\n)*\\{"},
	{"a grid of three axes", "grid\\(i: .*, j: .*, k: "},
	{"tune", " tune\\("},
	{"tune of a parameter", " tune\\(E"},
	{"tune of persistent", "tune\\(persistent"},
	{"tune of group", "tune\\(group"},
	{"tune of stages", "tune\\(stages"},
	{"tune of specialize and ctas", "specialize = .*ctas"},
	{"where of the header", "\n +where E"},
	{"a function", "fn f[0-9]+\\([^\n]*=> "},
	{"a function with statements", "fn f[0-9]+\\([^\n]*\\{"},
	{"a function with a constant parameter and a default", "const c = 2, d = 1"},
	{"a function that calls a function", "fn f[0-9]+\\([^}]*(=>|let)[^}]*" WORD "f[0-9]+\\("},
	{"a named argument", "f[0-9]+\\(b = "},
	{"a function by name", "fn = greater"},
	{"a function literal", "fn\\(a, b\\) =>"},
	{"a function of tuples", "fn\\(a, b, c, d\\)|later"},
	{"a tuple", "let " NAME " = \\("},
	{"an item of a tuple", "= v[0-9]+\\[1\\]\\[0\\];"},
	{"a tuple within a tuple", "let \\(\\("},
	{"a variable", "var m"},
	{"an assignment", "\n +m[0-9]+ = "},
	{"+=", " \\+= "}, {"-=", " -= "}, {"*=", " \\*= "}, {"/=", " /= "}, {"%=", " %= "}, {"&=", " &= "}, {"|=", " \\|= "},
	{"^=", " \\^= "}, {"<<=", " <<= "}, {">>=", " >>= "},
	{"a tensor's element changed in place", "\\] (\\+|-|\\*)= "},
	{"a loop up to", "for n[0-9]+ in range\\([^,]*\\) \\{"},
	{"a merge", "\\} merge \\(p[0-9]+\\) \\{"},
	{"a loop down", ", -1, -"},
	{"a loop with a step that is known when it runs", "\\), clamp\\(.*, -2, 2\\)\\) \\{"},
	{"while", "\n +while "},
	{"if", "\n +if "},
	{"else", "\\} else \\{"},
	{"static for", "static for n"},
	{"a static loop's counter", "\\(n[0-9]+ as i64\\)"},
	{"static if of a switch", "static if B"},
	{"static if of a dtype and of the target", "static if T[0-9]+ != f32 && target"},
	{"return in the middle", "\n {8,}return;"},
	{"a block", "\n +\\{"},
	{"a loop in a loop", "\n    (for|while)[^\n]*\\{(\n {8}[^\n]*)*\n {8}(for|while)"},
	{"a part of a tensor", " \\+: "},
	{"the whole of a dimension", "[[ ]:[],]"},
	{"a read with else", " else "},
	{"a gather from a tensor", "x[0-9]+\\[(iota|where|arange|v[0-9])"},
	{"a view by letters", "[xt][0-9]+\\.T\\["},
	{"a view in a name", "let t[0-9]+ = (permute|x[0-9]+\\.T)"},
	{"a view of a view", "permute\\(t[0-9]+, \\[|t[0-9]+\\.T"},
	{"new", "\\[[^]]*new"},
	{"a part of a tile", "\\)\\[[^]]*\\+:"},
	{"a shape", "\\.shape\\("},
	{"a stride", "\\.stride\\("},
	{"@", " @ "},
	{"? :", " \\? .* : "},
	{"&&", " && "}, {"||", " \\|\\| "}, {"<<", " << "}, {">>", " >> "}, {"/ of integers", " / "}, {"%", " % "},
	{"~", "\\(~"}, {"!", "\\(!"},
	{"inf", "inf\\) as"}, {"nan", "nan\\) as"},
	{"a number in base 16", "0x[0-9a-fA-F]"},
	{"precision = tf32", "precision = tf32\\)"}, {"precision = tf32x3", "precision = tf32x3"},
	{"a dot with an accumulator", "dot\\(.*, m[0-9]+\\)"},
	{"a loop of products", "\\+= .* @ "},
	{"a tile that a kernel of products has", "E[0-9] = 128"},
	{"dot_scaled with an accumulator", "dot_scaled\\(.*, block = "},
	{"keep_dims", "keep_dims = true"},
	{"an axis from the end", "axis = -"},
	{"a reduction of all", "(sum|max|any|prod|xor_sum)\\([^()]*\\)"},
	{"propagate_nan", "propagate_nan = true"},
	{"reverse", "reverse = true"},
	{"descending", "descending = true"},
	{"an order of memory", "order = (relaxed|acquire|release|acq_rel)"},
	{"a scope", "scope = sys"}, {"the scope of a block", "scope = cta"},
	{"an atomic through a pointer", "atomic_[a-z]+\\(q[0-9]+ \\+"},
	{"an atomic on a part", "atomic_[a-z]+\\(h[0-9]+\\[[^,]*\\+:"},
	{"old values of an atomic", "let v[0-9]+ = atomic_"},
	{"a cache modifier", "cache_modifier = "}, {"an eviction policy", "eviction_policy = "},
	{"a cast to a parameter's dtype", " as T[0-9]"},
	{"a packed tensor written", ": out (i4|u4|f4e2m1)"},
};

typedef struct Count {
	char name[64];
	char pattern[160];
	regex_t regex;
	int n;
	uint64_t looked;                                /* kernels */
} Count;

static void
count_add(Count *c, int *n, const char *name, const char *pattern)
{
	snprintf(c[*n].name, sizeof c->name, "%s", name);
	snprintf(c[*n].pattern, sizeof c->pattern, "%s", pattern);
	c[*n].n = 0;
	c[*n].looked = 0;
	if (regcomp(&c[*n].regex, pattern, REG_EXTENDED | REG_NOSUB))
		die("a feature's pattern: %s", pattern);
	++*n;
}

static bool
is_left_out(const char *name)
{
	for (int i = 0; i < LEN(left_out); i++)
		if (strcmp(left_out[i], name) == 0)
			return true;
	return false;
}

static int
counts_open(Count *c)
{
	char pattern[160], name[64];
	int n = 0;
	for (int i = 0; i < LEN(operations); i++) {
		const Operation *o = &operations[i];
		snprintf(pattern, sizeof pattern, WORD "%s\\(", o->name);
		if (!is_left_out(o->name))
			count_add(c, &n, o->name, pattern);
		snprintf(name, sizeof name, "fast::%s", o->name);
		snprintf(pattern, sizeof pattern, "fast::%s\\(", o->name);
		if (o->flags & FAST)
			count_add(c, &n, name, pattern);
	}
	for (int t = 0; t < DTYPE_COUNT; t++) {
		snprintf(name, sizeof name, "a tensor of %s", dtype_info[t].text);
		snprintf(pattern, sizeof pattern, ": (in|out|inout|in strided|scratch) %s\\[", dtype_info[t].text);
		count_add(c, &n, name, pattern);
		snprintf(name, sizeof name, "as %s", dtype_info[t].text);
		snprintf(pattern, sizeof pattern, " as %s\\)", dtype_info[t].text);
		if (!dtype_is_packed((DType)t))
			count_add(c, &n, name, pattern);
	}
	for (int i = 0; i < LEN(forms); i++)
		count_add(c, &n, forms[i].name, forms[i].pattern);
	return n;
}

int
features_count(uint64_t seed, uint64_t count)
{
	enum { ENOUGH = 20, MOST = 2 * LEN(operations) + 2 * DTYPE_COUNT + LEN(forms) };
	Count *c = calloc(MOST, sizeof *c);
	int none = 0, n = c ? counts_open(c) : 0;
	for (uint64_t i = 0; i < count; i++) {
		Arena *mem = arena_open();
		Text text = {0};
		source_print(source_make(mem, seed + i), &text);
		for (int k = 0; k < n; k++)
			if (c[k].n < ENOUGH) {
				c[k].n += regexec(&c[k].regex, text.at, 0, NULL, 0) == 0;
				c[k].looked++;
			}
		text_close(&text);
		arena_close(mem);
	}
	for (int k = 0; k < n; k++) {
		printf("%6.1f %%  %s\n", 100.0 * c[k].n / (double)MAX(c[k].looked, 1), c[k].name);
		if (c[k].n == 0)
			fprintf(stderr, "fuzz_diff: no kernel has: %s\n", c[k].name), none++;
		regfree(&c[k].regex);
	}
	free(c);
	printf("fuzz_diff: %d of %d features in %llu kernels from %llu\n", n - none, n, (unsigned long long)count,
	    (unsigned long long)seed);
	return none > 0;
}
