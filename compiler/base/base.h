/* What every stage uses and what depends on no compiler: arenas, interned
 * strings, growable arrays, source files with places, and collected diagnostics.
 *
 * `Compile` is the context of one compilation.  It owns everything that the
 * compilation makes: nothing inside is freed one by one and nothing inside points
 * out, so closing it frees it all.  Two contexts share nothing and may be used by
 * two threads at once. */
#ifndef TEGULA_BASE_H
#define TEGULA_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Over i from 0 below n: does `test` hold for any, for all; for how many; the first for which it does, or -1; a sum. */
#define ANY_OF(i, n, test) (FIRST_OF(i, n, test) >= 0)
#define ALL_OF(i, n, test) (FIRST_OF(i, n, !(test)) < 0)
#define FIRST_OF(i, n, test) FIRST_FROM(i, 0, n, test)
#define ANY_FROM(i, from, n, test) (FIRST_FROM(i, from, n, test) >= 0)
#define ALL_FROM(i, from, n, test) (FIRST_FROM(i, from, n, !(test)) < 0)
#define FIRST_FROM(i, from, n, test) \
	__extension__({ int i = (from); while (i < (n) && !(test)) i++; i < (n) ? i : -1; })
/* `of` the first i for which it does, else `none`. */
#define VALUE_OF(i, n, test, of, none) \
	__extension__({ int i = 0; while (i < (n) && !(test)) i++; i < (n) ? (of) : (none); })
#define COUNT_OF(i, n, test) SUM_OF(int, i, n, (test) ? 1 : 0)
#define SUM_OF(T, i, n, of) __extension__({ T sum_##i = 0; for (int i = 0; i < (n); i++) sum_##i += (of); sum_##i; })
/* Over a chain, of which `next` is that of x: the first for which it does, or NULL; for how many. */
#define FIND_NEXT(x, from, next, test) \
	__extension__({ __typeof__((from) + 0) x = (from); while (x && !(test)) x = next; x; })
#define COUNT_NEXT(x, from, next, test) __extension__({ \
	int n_##x = 0; __typeof__((from) + 0) x = (from); while (x) n_##x += (test) ? 1 : 0, x = next; n_##x; })

#if defined(__GNUC__)
#define PRINTF(f, a) __attribute__((format(printf, f, a)))
#define NORETURN __attribute__((noreturn))
#else
#define PRINTF(f, a)
#define NORETURN
#endif

static inline int
log2_floor(int64_t n)                                   /* of less than 2: 0 */
{
	return n < 2 ? 0 : 63 - __builtin_clzll((unsigned long long)n);
}

static inline int
log2_ceil(int64_t n)                                    /* likewise; of a power of two: log2 */
{
	return n < 2 ? 0 : 64 - __builtin_clzll((unsigned long long)n - 1);
}

static inline bool
is_power_of_two(int64_t n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

/* Our own mistake: prints file, line and text to stderr and aborts.  Never for
 * anything that a user can type or a file can contain. */
NORETURN void die_at(const char *file, int line, const char *fmt, ...) PRINTF(3, 4);
#define die(...) die_at(__FILE__, __LINE__, __VA_ARGS__)
#define unreachable() die("unreachable")

void *memory_new(size_t n, size_t size);         /* zeroed, for free(); without memory the process ends */

/* arena.c: memory freed whole */

typedef struct Arena Arena;

Arena *arena_open(void);
void arena_close(Arena *a);
void arena_reset(Arena *a);                         /* frees what is in it, keeps it open */
void *arena_alloc(Arena *a, size_t size);           /* zeroed, aligned to 16; never NULL */
void *arena_copy(Arena *a, const void *from, size_t size);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) PRINTF(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);

#define NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define NEW_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)((n) > 0 ? (n) : 1)))
/* n of them, each as `of` is for i from 0 on. */
#define MAP_OF(a, T, i, n, of) \
	__extension__({ T *map_##i = NEW_ARRAY(a, T, n); for (int i = 0; i < (n); i++) map_##i[i] = (of); map_##i; })
#define NEW_COPY(a, from, n) arena_copy((a), (from), sizeof *(from) * (size_t)(n))   /* n elements; NULL: of none */

/* vec: one growable array; `VEC(Op *) ops;` starts zeroed and grows in an arena */

#define VEC(T)                                                                                     \
	struct {                                                                                   \
		T *at;                                                                             \
		int n, cap;                                                                        \
	}
#define vec_push(a, v, x)                                                                          \
	((v)->n == (v)->cap ? vec_grow((a), (void **)&(v)->at, &(v)->cap, sizeof *(v)->at)         \
			    : (void)0,                                                             \
	 (v)->at[(v)->n++] = (x))
#define vec_pop(v) ((v)->at[--(v)->n])
#define vec_last(v) ((v)->at[(v)->n - 1])
void vec_grow(Arena *a, void **at, int *cap, size_t size);

/* table.c: things by a hash of what they are, the newest first; starts zeroed and grows in an arena */

typedef struct HashEntry {
	uint64_t hash;
	void *of;
	int tag;                                    /* whatever else is to be kept */
	int before;                                 /* the older one in the bucket, 1 …; 0: none */
} HashEntry;

typedef struct HashTable {
	VEC(HashEntry) all;                         /* in the order in which they were added */
	int *bucket, nbucket;
} HashTable;

void table_add(Arena *a, HashTable *t, uint64_t hash, void *of, int tag);
/* The newest entry of that hash, or the next one older than `than`; NULL. */
const HashEntry *table_next(const HashTable *t, uint64_t hash, const HashEntry *than);
/* The newest of that hash for which `test` holds of e. */
#define TABLE_FIND(e, t, hash, test) FIND_NEXT(e, table_next(t, hash, NULL), table_next(t, hash, e), test)
void table_leave(HashTable *t, int n);              /* takes out all but the first n */
uint64_t hash_mix(uint64_t h, uint64_t v);

static inline uint64_t
hash_pointer(const void *p)
{
	return hash_mix(0, (uint64_t)(uintptr_t)p);
}

/* text: a string that grows in malloc'ed memory; for printers */

typedef struct Text {
	char *at;                                   /* always ends in NUL once written to */
	size_t n, cap;
} Text;

void text_put(Text *t, const char *s);
void text_putn(Text *t, const char *s, size_t n);
void text_printf(Text *t, const char *fmt, ...) PRINTF(2, 3);
/* s in quotes: newline, tab and return as the letters given for them, other control characters by a format. */
void text_quoted(Text *t, const char *s, const char *letters, const char *other);
void text_json(Text *t, const char *s);             /* s as a quoted JSON string */
bool words_have(const char *words, const char *word);   /* is it one of these, each between blanks?  NULL: none */
char *text_trim(char *s);                           /* without blanks at its ends, in place */
bool text_same(const char *a, const char *b);       /* but for upper and lower case of ASCII */
void text_close(Text *t);
char *text_take(Text *t, Arena *mem);               /* a copy in mem; t is closed */

/* number.c: floats as text, whatever locale the embedding program has set.  strtod and the formats of printf, and no
 * other function of the C library that depends on the locale, are called there. */

double number_read(const char *s, char **end);      /* as strtod */
int number_format(char *out, size_t size, const char *fmt, ...) PRINTF(3, 4);       /* as snprintf */
int number_vformat(char *out, size_t size, const char *fmt, va_list ap) PRINTF(3, 0);

/* Letters of ASCII, whatever the locale. */
static inline bool
char_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
char_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool
char_is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline char
char_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* intern.c: equal strings become one pointer, compared by == */

typedef struct Intern Intern;

Intern *intern_open(Arena *a);                      /* lives and dies with the arena */
const char *intern(Intern *in, const char *s);
uint64_t checksum(const char *s, size_t n);               /* FNV-1a */
const char *intern_n(Intern *in, const char *s, size_t n);

/* The candidate nearest to `name` by edit distance, of equals one that begins with it, or NULL if none is near enough to
 * be worth offering (more than a third of its letters differ). */
const char *nearest_name(const char *name, const char *const *candidates, int n);
/* "did you mean 'sm_90a'? there are 'sm_75', 'sm_80', 'sm_90a'", the first part only if one is near. */
const char *name_advice(Arena *mem, const char *name, const char *const *known, int n);

/* file.c: files read whole, and written whole or not at all; false and NULL leave errno */

/* Appends a file's bytes, to its end whatever it says of its size (pipes, /proc), or until there are more than `most`. */
bool file_read(const char *path, size_t most, Text *out);
typedef bool FileWriter(int fd, void *of);
bool file_write(const char *path, FileWriter *write, void *of);
bool file_put(int fd, const void *bytes, size_t n);             /* all of them */
bool file_same(const char *a, const char *b);       /* whether writing to both would write one regular file */

/* thread.c: threads that leave a process's signals to the threads of whoever uses the library */

bool thread_start(pthread_t *thread, void *(*run)(void *), void *of);

/* source.c: files and places */

typedef struct Place {
	int file;                                   /* index into Compile.files; -1: nowhere */
	int line, col;                              /* 1-based; columns count bytes */
	int end_line, end_col;                      /* one past the last byte */
	const struct CallSite *call;                /* of the fn that was inlined there; NULL: not known, or none */
} Place;

#define NOWHERE ((Place){.file = -1})
typedef struct CallSite {
	Place at;                                   /* its own `call`: that of the fn that it stands in */
	const char *fn;
} CallSite;

Place place_join(Place from, Place to);             /* from the start of one to the end of the other */
int place_compare(const Place *p, const Place *q);              /* by file, line and column; nowhere comes first */

typedef struct SourceFile {
	const char *path;                           /* as the user gave it, or "<text>" */
	const char *text;                           /* NUL after size bytes */
	size_t size;
} SourceFile;

typedef struct Compile Compile;

/* The file's index, or -1 with an error reported (missing, unreadable, too large, not UTF-8, NUL byte). */
int source_open(Compile *cx, const char *path, Place from);
int source_text(Compile *cx, const char *name, const char *text, size_t size);
/* A file as code names it: its path, or where code is shipped the name without folders. */
const char *source_named(const Compile *cx, int file);
/* Line `line` of a file without its newline; false if there is no such line. */
bool source_line(const SourceFile *f, int line, const char **start, size_t *size);

/* diag.c: errors are values; they are collected and the driver prints them */

typedef enum DiagCode {
#define DIAG(name, code, text) DIAG_##name,
#include "base/diag.def"
#undef DIAG
	DIAG_COUNT
} DiagCode;

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_NOTE } Severity;

typedef struct Diag {
	DiagCode code;
	Severity severity;
	Place place;
	const char *text;                           /* the message, formatted */
	const char *label;                          /* words after the caret, or NULL */
	const char *help;                           /* how to correct it, or NULL */
	struct Diag *notes;                         /* other places, each a SEV_NOTE, linked by next */
	struct Diag *next;
} Diag;

struct Compile {
	Arena *mem;                                 /* source, tree, IR, strings: to the end */
	Arena *tmp;                                 /* one pass or stage; reset by the driver */
	Intern *names;
	Arena *sources;                             /* the files: to the end, even while mem is another's */
	VEC(SourceFile) files;
	Diag *first, *last;                         /* in order of report */
	int nerrors;
	int muted;                                  /* > 0: reports are dropped and only counted in nmuted */
	int nmuted;
	const struct TraceRequest *trace;           /* which name's values elaboration prints (sema.h); NULL: none */
	const struct NameObserver *observer;        /* sees what elaboration gives names (sema.h); NULL: none */
	bool verifies;                              /* passes and lowering check the module that they leave */
	bool ships;                                 /* code goes to other machines: without lines, files without folders */
};

Compile *compile_open(void);
void compile_close(Compile *cx);

/* Reports a row of diag.def; the arguments fill its printf text.  Label, help and note then attach to the report just
 * made (and are dropped with it when muted).  An error and what attaches to it return false, for a check to end in. */
bool diag_error(Compile *cx, Place at, DiagCode code, ...);
void diag_warning(Compile *cx, Place at, DiagCode code, ...);
bool diag_label(Compile *cx, const char *fmt, ...) PRINTF(2, 3);
bool diag_help(Compile *cx, const char *fmt, ...) PRINTF(2, 3);
bool diag_note(Compile *cx, Place at, const char *fmt, ...) PRINTF(3, 4);
/* Takes back all that was reported behind `last` (NULL: all); the one report. */
void diag_cut(Compile *cx, Diag *last);
void diag_drop(Compile *cx, const Diag *d);
void diag_calls(Compile *cx, Place at);             /* a note for each call of a fn that brought it there */

const char *diag_code(DiagCode code);               /* "E0201" */
const char *diag_text(DiagCode code);               /* the row's printf text */

/* All reports as text with the source line and a caret, or as a JSON array; at most
 * `max` errors (0: all), then a count.  Sorted by file and place. */
void diag_print(Compile *cx, Text *out, int max, bool color);
void diag_json(Compile *cx, Text *out, int max);

#endif
