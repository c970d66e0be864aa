/* devices, ops, passes, layout: what there is, from the tables that define it. */
#include "tool/cli.h"

#include "layout/layout.h"

#include <string.h>

int
cmd_devices(const Cli *cli)
{
	Session s;
	TglDeviceInfo info;
	if (!cli_operands(cli, 0, 0))
		return EXIT_MISUSE;
	if (!session_open(&s, cli))
		return EXIT_WRONG;
	json_t *all = json_array();
	for (int i = 0; tgl_device_list(s.cx, i, &info); i++) {
		if (cli->json)
			json_array_append_new(all, json_pack("{s:s, s:s, s:b, s:i}", "name", info.name, "text",
			    info.available ? info.text : info.why_not, "available", info.available, "threads",
			    info.threads));
		else
			printf("%-8s %s\n", info.name, info.available ? info.text : info.why_not);
	}
	if (cli->json)
		cli_print_json(all);
	else
		json_decref(all);
	session_close(&s);
	return EXIT_GOOD;
}

static void
count_text(int n, char out[8])
{
	if (n == VAR)
		snprintf(out, 8, "any");
	else
		snprintf(out, 8, "%d", n);
}

/* A cell of a Markdown table: bars would end it. */
static void
cell(const char *s)
{
	for (; *s; s++) {
		if (*s == '|')
			putchar('\\');
		putchar(*s);
	}
}

static const struct {
	unsigned bit;
	const char *word;
} traits[] = {
	{PURE, "pure"},     {ELEM, "elementwise"}, {COMM, "commutes"},     {READS, "reads"}, {WRITES, "writes"},
	{EFFECT, "effect"}, {REGION, "regions"},   {TERM, "ends a block"}, {ANYF, "floats"}, {ANYI, "integers"},
	{BOOLS, "bools"},
};

/* Columns of ops.def as they are written there. */
static const struct {
	const char *cost, *family, *rounding;
} op_words[] = {
#define OP(name, text, in, out, infer, traits, cost, family, rounding, meaning) {#cost, #family, #rounding},
#include "ir/ops.def"
#undef OP
};

/* `fn` (sum prod …), `axis`, [`reverse`]: what stands in brackets may be left out. */
static void
put_attrs(OpKind op)
{
	for (int i = 0, n = 0; i < nattr_use; i++) {
		const AttrUse *a = &attr_use[i];
		if (a->op != op)
			continue;
		printf(a->required ? "%s`%s`" : "%s[`%s`", n++ ? ", " : "", attr_info[a->name].text);
		if (a->choices)
			printf(" (%.*s)", (int)strlen(a->choices) - 2, a->choices + 1);
		fputs(a->required ? "" : "]", stdout);
	}
}

/* What the words in an op's braces are, and those behind a function's grid. */
static void
put_words(void)
{
	static const char *const kind[] = {[KIND_INT] = "integer", [KIND_FLOAT] = "float", [KIND_BOOL] = "bool",
	    [KIND_INTS] = "integers", [KIND_TEXT] = "text", [KIND_ANY] = "constant"};
	static const char *const on[] = {"as above", "elementwise ops that take floats", "any, noted by passes for a GPU"};

	printf("\n| attribute | kind | ops | meaning |\n| --- | --- | --- | --- |\n");
	for (int i = 0; i < NATTRS; i++)
		printf("| `%s` | %s | %s | %s |\n", attr_info[i].text, kind[attr_info[i].kind], on[attr_info[i].on],
		    attr_info[i].meaning);
	printf("\n| schedule | values | meaning |\n| --- | --- | --- |\n");
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		printf("| `%s` | %s | %s |\n", schedule_info[i].text, schedule_info[i].range, schedule_info[i].meaning);
}

int
cmd_ops(const Cli *cli)
{
	bool markdown = cli_has(cli, OPT_MARKDOWN);
	if (!cli_operands(cli, 0, 0))
		return EXIT_MISUSE;
	if (markdown)
		printf("| op | operands | results | attributes | traits | cost | family | rounding | meaning |\n"
		       "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
	for (int i = 0; i < OP_COUNT; i++) {
		const OpInfo *op = &op_info[i];
		char in[8], out[8];
		count_text(op->nin, in);
		count_text(op->nout, out);
		printf(markdown ? "| `%s` | %s | %s | " : "%-13s %3s in %3s out  ", op->text, in, out);
		if (markdown) {
			put_attrs((OpKind)i);
			fputs(" | ", stdout);
		}
		for (int t = 0, n = 0; markdown && t < LEN(traits); t++)
			if (op->traits & traits[t].bit)
				printf("%s%s", n++ ? ", " : "", traits[t].word);
		if (markdown) {
			printf(" | %s | %s | %s | ", op_words[i].cost, op_words[i].family, op_words[i].rounding);
			cell(op->meaning);
			puts(" |");
		} else {
			puts(op->meaning);
		}
	}
	if (markdown)
		put_words();
	return EXIT_GOOD;
}

static void
facts_text(unsigned facts, Text *out)
{
	facts_print(facts, ", ", out);
	text_put(out, facts ? "" : "-");
}

int
cmd_passes(const Cli *cli)
{
	bool markdown = cli_has(cli, OPT_MARKDOWN);
	if (!cli_operands(cli, 0, 0))
		return EXIT_MISUSE;
	if (markdown)
		printf("| pass | needs | adds | drops | meaning |\n| --- | --- | --- | --- | --- |\n");
	for (int i = 0; i < PASS_COUNT; i++) {
		const PassInfo *p = &pass_info[i];
		Text t[3] = {{0}, {0}, {0}};
		facts_text(p->needs, &t[0]);
		facts_text(p->adds, &t[1]);
		facts_text(p->drops, &t[2]);
		if (markdown)
			printf("| `%s` | %s | %s | %s | %s |\n", p->name, t[0].at, t[1].at, t[2].at, p->meaning);
		else
			printf("%-12s needs %-8s %s\n", p->name, t[0].at, p->meaning);
		for (int k = 0; k < 3; k++)
			text_close(&t[k]);
	}
	if (markdown)
		printf("\n| fact | meaning |\n| --- | --- |\n");
	for (int i = 0; markdown && i < FACT_COUNT; i++)
		printf("| %s | %s |\n", fact_info[i].text, fact_info[i].meaning);
	return EXIT_GOOD;
}

int
cmd_layout(const Cli *cli)
{
	Layout l;
	Text t = {0};
	int at;
	if (!cli_operands(cli, 1, 1))
		return EXIT_MISUSE;
	const char *why = layout_parse(cli->args.at[0], &l, &at);
	if (why) {
		fprintf(stderr, "tegula: layout: %s\n  %s\n  %*s^\n", why, cli->args.at[0], at, "");
		return EXIT_WRONG;
	}
	layout_print(&l, &t);
	text_put(&t, "\n");
	cli_draw_layout(&l, &t);
	fwrite(t.at, 1, t.n, stdout);
	text_close(&t);
	return EXIT_GOOD;
}
