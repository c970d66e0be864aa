/* Stages as the page has them: LLVM IR, PTX and SASS are some 20,000 lines of few kinds, which
 * differ in their numbers.
 *
 *     fma.rn.f32 %r35, %r49, %r3;         `templates`: "fma.rn.f32 %r?, %r?, %r?;", …
 *     fma.rn.f32 %r37, %r51, %r3;         `packed`: "7,2,2;" of the second line
 *
 * A line is the number of its template, then what each of its numbers is beyond the one in the same
 * position of the line before with that template (nothing for 0), then, where it is another than
 * that of the line before, `/` and the line of the source. Numbers with zeros in front and long
 * ones stay in the template; of an address of SASS, in base 16, that has the digits.  page.html
 * (unpack) makes the text of it again. */
#include "tool/report/report.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 64, DIGITS = 9, SLOTS = 1 << 18 };

static const char HOLE = '\x7f'; /* which no text has, and JSON writes as it is */

typedef struct Template {
	const char *text;
	long last[NUMBERS]; /* of the line before that has it */
	int n;              /* numbers */
} Template;

typedef struct Packer {
	Arena *mem;
	VEC(Template) all;
	int *slot; /* one more than a template's number, by its hash; 0: free */
} Packer;

static int
find(Packer *p, const char *text, size_t length, int n)
{
	size_t at = (size_t)(checksum(text, length) % SLOTS);
	for (; p->slot[at]; at = (at + 1) % SLOTS) {
		const Template *t = &p->all.at[p->slot[at] - 1];
		if (strlen(t->text) == length && memcmp(t->text, text, length) == 0)
			return p->slot[at] - 1;
	}
	if (p->all.n >= SLOTS / 2)
		return -1;
	Template new = {arena_strndup(p->mem, text, length), {0}, n};
	vec_push(p->mem, &p->all, new);
	p->slot[at] = p->all.n;
	return p->all.n - 1;
}

/* Digits of the address that a line of SASS begins with, of so many; 0: none is there. */
static size_t
address_digits(const char *at, size_t length)
{
	static const char hex[] = "0123456789abcdef";
	size_t n = length > 2 && strncmp(at, "/*", 2) == 0 ? strspn(at + 2, hex) : 0;
	return n >= 4 && n <= 7 && n + 4 <= length && strncmp(at + 2 + n, "*/", 2) == 0 ? n : 0;
}

/* A line's template and its numbers; how many. */
static int
split(const char *at, size_t length, Text *template, long *number)
{
	int n = 0;
	template->n = 0;
	text_put(template, "");
	for (size_t i = 0; i < length;) {
		size_t digits = 0, address = n < NUMBERS ? address_digits(at + i, length - i) : 0;
		if (address) {
			number[n++] = strtol(at + i + 2, NULL, 16);
			text_printf(template, "/*%c%c%zu*/", HOLE, HOLE, address);
			i += address + 4;
			continue;
		}
		while (i + digits < length && char_is_digit(at[i + digits]))
			digits++;
		bool plain =
		    digits > 0 && digits <= DIGITS && (digits == 1 || at[i] != '0') && n < NUMBERS;
		if (plain) {
			number[n++] = strtol(at + i, NULL, 10);
			text_putn(template, &HOLE, 1);
		} else {
			text_putn(template, at + i, MAX(digits, 1));
		}
		i += MAX(digits, 1);
	}
	return n;
}

/* False: there are too many templates. */
static bool
pack_stage(Packer *p, json_t *stage)
{
	const char *at = json_string_value(json_object_get(stage, "text"));
	const json_t *lines = json_object_get(stage, "lines");
	Text out = {0}, template = {0};
	long number[NUMBERS], source = 0;
	size_t count = json_array_size(lines), i = 0;
	bool ok = true;
	text_put(&out, "");
	for (; *at && ok; at += strcspn(at, "\n"), at += *at == '\n', i++) {
		int n = split(at, strcspn(at, "\n"), &template, number),
		    k = find(p, template.at, template.n, n);
		long now = i < count ? (long)json_integer_value(json_array_get(lines, i)) : source;
		ok = k >= 0;
		text_printf(&out, "%d", k);
		for (int d = 0, commas = 0; d < n && ok; d++) {
			long beyond = number[d] - p->all.at[k].last[d];
			p->all.at[k].last[d] = number[d];
			for (commas++; beyond && commas; commas--)
				text_put(&out, ",");
			if (beyond)
				text_printf(&out, "%ld", beyond);
		}
		if (now != source)
			text_printf(&out, "/%ld", now);
		text_put(&out, ";");
		source = now;
	}
	ok = ok && i == count; /* one for each line of the text */
	if (ok) {
		json_object_set_new(stage, "packed", json_string(out.at));
		json_object_del(stage, "text");
		json_object_del(stage, "lines");
	}
	text_close(&out);
	text_close(&template);
	return ok;
}

json_t *
report_pack(const json_t *kernels)
{
	json_t *all = json_deep_copy(kernels), *kernel, *stage;
	size_t i, k;
	json_array_foreach(all, i, kernel) {
		Packer p = {.mem = arena_open()};
		p.slot = NEW_ARRAY(p.mem, int, SLOTS);
		json_t *templates = json_array();
		json_array_foreach(json_object_get(kernel, "stages"), k, stage)
		    pack_stage(&p, stage);
		for (int t = 0; t < p.all.n; t++)
			json_array_append_new(templates, json_string(p.all.at[t].text));
		json_object_set_new(kernel, "templates", templates);
		arena_close(p.mem);
	}
	return all;
}
