/* What the files of the tile IR's reader share: lex.c cuts tokens, parse_name.c knows values by name,
 * parse_op.c reads types, ops and regions, parse.c functions and modules.  Private to them. */
#ifndef TEGULA_IR_PARSE_H
#define TEGULA_IR_PARSE_H

#include "ir/ir.h"

/* lex.c */

typedef enum Token {
	TOK_END,
	TOK_WORD,                                       /* kernel, f32, axis */
	TOK_VALUE,                                      /* %v.1; the text is without % */
	TOK_INT,
	TOK_FLOAT,                                      /* 1.5, inf, -inf, nan, nan(0x…) */
	TOK_STRING,
	TOK_PUNCT,                                      /* one character, in Lexer.punct */
	TOK_BAD,                                        /* reported already */
} Token;

typedef struct Lexer {
	Compile *cx;
	int file;
	const char *at, *end;
	const char *line_start;
	int line;
	/* the token read last */
	Token token;
	char punct;
	Place place;
	const char *text;                               /* interned: WORD, VALUE, STRING; as written: INT, FLOAT */
	int64_t i;
	double f;
} Lexer;

void lex_open(Lexer *l, Compile *cx, int file);
void lex_next(Lexer *l);
/* What the token is, for a message: "'kernel'", "the end of the file". */
const char *lex_describe(const Lexer *l);
/* What is left of the token's line after it, without a comment; the next token is then on another line. */
const char *lex_line(Lexer *l);
/* Goes on from the next line that begins with `kernel` or `reference`, or to the end. */
void lex_resync(Lexer *l);

/* The reader */

enum { MAX_NESTING = 1000 };                            /* of regions: the walkers over them recurse */

/* A value's name.  Once the value is out of sight another may take the name. */
typedef struct Binding {
	const char *name;                               /* interned */
	Value *value;
	Place place;
	bool visible;
} Binding;

typedef struct OpPlace {
	const Op *op;
	Place place;
} OpPlace;

typedef struct Reader {
	Lexer l;
	Compile *cx;
	Module *m;
	Func *f;
	HashTable names;                                /* bindings */
	VEC(Place) func_place;                          /* of each Module.funcs in this text */
	VEC(OpPlace) ops;
	VEC(int) files;                                 /* `file N`: Compile.files index */
	VEC(const Layout *) layouts;                    /* `layout #N = …` */
	int depth;
	int rank;                                       /* the most of a tile in this function */
} Reader;

typedef struct Name {
	const char *text;
	Place place;
} Name;
typedef VEC(Name) Names;

/* parse_name.c: what is next, and values by name */

bool read_is_punct(const Reader *r, char c);
bool read_is_word(const Reader *r, const char *word);
bool read_expected(Reader *r, const char *what);        /* reports; always false, for `return read_expected(…)` */
bool read_take(Reader *r, char c);                      /* if it is next */
bool read_take_word(Reader *r, const char *word);
bool read_need(Reader *r, char c);                      /* or reports */
bool read_need_name(Reader *r, const char **name, const char *what);
bool read_need_int(Reader *r, int64_t low, int64_t high, int64_t *v, const char *what);
Binding *read_binding(Reader *r, const char *name);     /* of a name; NULL: there is none */
bool read_bind(Reader *r, const char *name, Place at, Value *v);
Value *read_resolve(Reader *r, const char *name, Place at);

/* parse_op.c */

bool read_dtype(Reader *r, DType *t);
bool read_type(Reader *r, const Type **out);
bool read_place(Reader *r, Place *out);                 /* @line:col, @file:line:col, or nothing */
bool read_block(Reader *r, Block *b);                   /* ops up to the closing brace */

#endif
