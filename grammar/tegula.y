/* The grammar.  Every action makes one node or list; names, types and shapes are sema's.
 *
 * Words that matter only in their place are names elsewhere (`word`).  `else` binds directly to the index
 * before it and gives an operand.  Comparisons are parsed as a chain so that chaining can be reported.
 *
 * After an error, recover.c skips tokens, balanced, to where the construct ends, and errors that follow are
 * reported again: the rules that hold `error` do nothing but call it.  States take their default reductions
 * first, so that what was complete before a missing ';' is kept and the list of what was expected is short. */
%code requires {
#include "ast/parser.h"
#define YYMAXDEPTH 40000
#define YYLLOC_DEFAULT(now, rhs, n)                                                                \
	((now) = (n) ? place_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n)) : place_after(YYRHSLOC(rhs, 0)))
}
%code {
#include <string.h>
static int yylex(YYSTYPE *value, Place *place, Parser *p);
static void yyerror(Place *place, Parser *p, const char *text);

/* The lookahead becomes the token to go on with. */
#define RECOVER(how)                                                                               \
	do {                                                                                       \
		if (parser_recover(p, how, yychar, &yylval, &yylloc))                             \
			yyerrok;                                                                   \
		yychar = p->resume;                                                                \
	} while (0)

/* Lists: `to` becomes empty, one element, or `from` with one more. */
#define NONE(to) memset(&(to), 0, sizeof(to))
#define ONE(to, x) (NONE(to), vec_push(p->cx->mem, &(to), (x)))
#define MORE(to, from, x) ((to) = (from), vec_push(p->cx->mem, &(to), (x)))

#define EXPR(kind, at, ...) ast_expr(p, (Expr){EX_##kind, .place = at, __VA_ARGS__})
#define BINARY(op_, at, op_at, x, y) EXPR(BINARY, at, .bin = BIN_##op_, .op_place = op_at, .a = x, .b = y)
#define UNARY(op_, at, x) EXPR(UNARY, at, .un = UN_##op_, .a = x)
#define STMT(kind, at, ...) ast_stmt(p, (Stmt){ST_##kind, .place = at, __VA_ARGS__})
#define NAMED(id) (id).name, (id).place
#define LABEL(id) .label = (id).name, .label_place = (id).place
#define FOR_IN(at, i, called, args, block, unrolled)                                               \
	ast_for(p, (Stmt){ST_FOR, .place = at, .is_static = unrolled, .index = i, .range = args, BODY(block)}, called)
#define BODY(block) .body = (block).stmts, .body_place = (block).place
#define ITEM(kind_, at, id, ...)                                                                   \
	ast_item(p, (Item){.kind = ITEM_##kind_, .place = at, .name = (id).name, .name_place = (id).place, __VA_ARGS__})
#define TYPE(at, text, text_at, ...)                                                               \
	ast_type(p, (TypeExpr){.place = at, .elem = ast_name(p, (Name){text, text_at}), __VA_ARGS__})
/* One of the types that a fn gives, as a parameter without a name of its own. */
#define RESULT(t) ((Param){.name = "result", .name_place = (t)->place, .place = (t)->place, .type = (t)})
#define LOST(at, id) ITEM(ERROR, at, id, .e = NULL)   /* its name keeps its reference and examples from being blamed */

static void
add_stmt(Parser *p, StmtList *list, Stmt *s)
{
	if (!s)                                     /* it did not parse */
		return;
	stmt_note_returns(s);
	vec_push(p->cx->mem, list, s);
}

static Block
else_if(Parser *p, Stmt *s)
{
	Block without_braces = {0};
	add_stmt(p, &without_braces.stmts, s);
	return without_braces;
}

static Item *
arrow(Item *fn, Place at, Expr *result)
{
	fn->place = at;
	fn->e = result;
	fn->is_arrow = true;
	return fn;
}

static Expr *
tuple(Parser *p, Place at, Expr *first, ExprList rest)
{
	Expr e = {EX_TUPLE, .place = at};
	vec_push(p->cx->mem, &e.items, first);
	for (int i = 0; i < rest.n; i++)
		vec_push(p->cx->mem, &e.items, rest.at[i]);
	return ast_expr(p, e);
}
}

%define api.pure full
%define api.prefix {tegula_yy}
%define api.location.type {Place}
%define parse.error custom
%define api.value.type {TokenValue}
%locations
%param {Parser *p}
%expect 0

%initial-action { @$ = (Place){p->file, 1, 1, 1, 1}; }

%token KERNEL "kernel" FN "fn" REFERENCE "reference" EXAMPLE "example" IMPORT "import" CONST "const"
%token LET "let" VAR "var" FOR "for" WHILE "while" IF "if" ELSE "else" RETURN "return" STATIC "static" AS "as"
%token BREAK "break" CONTINUE "continue"
%token <name> IN "in" OUT "out" INOUT "inout" SCRATCH "scratch" FIXED "fixed" STRIDED "strided" MUT "mut"
%token <name> WHERE "where" GRID "grid" TUNE "tune" BENCH "bench" EXPECT "expect" MERGE "merge"
%token <name> NAME "a name"
%token <expr> INT "an integer" FLOAT "a number"
%token <expr> STRING "a string"
%token <op> ASSIGN_OP "an assignment"
%token SCOPE "::" ARROW "=>" GIVES "->" PLUSCOLON "+:" LOR "||" LAND "&&" EQ "==" NE "!=" LE "<=" GE ">=" SHL "<<" SHR ">>"
%token START_FILE START_EXPR
%token END 0 "the end of the file"

/* `merge` behind a loop is its clause, not a name that begins a statement */
%precedence LOOP
%precedence MERGE

%type <name> word
%type <id> name arg_name pattern_name
%type <pattern> pattern nested
%type <patterns> patterns
%type <expr> expr cond lor land rel bor bxor band shift sum product cast cast_type unary postfix index primary value_opt
%type <exprs> exprs expr_list expr_square facts
%type <arg> arg
%type <args> args arg_list
%type <sub> subscript
%type <subs> subscripts
%type <stmt> stmt if_stmt if_head
%type <stmts> stmts
%type <block> block
%type <item> item kernel_head fn_head
%type <ctparam> ctparam
%type <param> param fn_param
%type <params> results params param_list fn_params fn_param_list
%type <type> type fn_type
%type <ctparams> ctparams ctparams_opt
%type <mode> mode
%type <flag> strided_opt mut_opt bench_opt
%type <id> string_opt
%type <tune> tune_name
%type <tunes> tunes
%type <axis> axis
%type <axes> axes
%type <op> relop

%%

start:
  START_FILE items                      { (void)yynerrs; }
| START_EXPR expr                       { p->expr = $2; }
;

items:
  %empty
| items item                            { vec_push(p->cx->mem, &p->ast->items, $2); }
;

end: ';' | error                        { RECOVER(RECOVER_END); };
lost_stmt: error                        { RECOVER(RECOVER_STMT); };
lost_head: error                        { RECOVER(RECOVER_HEAD); };
lost_clause: error                      { RECOVER(RECOVER_CLAUSE); };
lost_list: error                        { RECOVER(RECOVER_LIST); };
lost_item: error                        { RECOVER(RECOVER_ITEM); };

item:
  IMPORT STRING end
                                        {
                                          $$ = ITEM(IMPORT, @$, ((Name){"import", @$}), .label_place = $2->place);
                                          $$->label = $2->name ? $2->name : "";
                                        }
| CONST name '=' expr end               { $$ = ITEM(CONST, @$, $2, .e = $4); }
| CONST name '=' lost_stmt              { $$ = ITEM(CONST, @$, $2, .e = ast_error(p, @4)); }
| fn_head block                         { $$ = ast_body($1, @$, $2); }
| fn_head ARROW expr end                { $$ = arrow($1, @$, $3); }
| fn_head ARROW lost_stmt
                                        { $$ = arrow($1, @$, ast_error(p, @3)); }
| fn_head lost_head block               { $$ = LOST(@$, ((Name){$1->name, $1->name_place})); }
| FN name '(' lost_list block           { $$ = LOST(@$, $2); }
| kernel_head block                     { $$ = ast_body($1, @$, $2); }
| REFERENCE name block                  { $$ = ITEM(REFERENCE, @$, $2, BODY($3)); }
| EXAMPLE name string_opt bench_opt block

                                        { $$ = ITEM(EXAMPLE, @$, $2, LABEL($3), .is_bench = $4, BODY($5)); }
| EXPECT name '{' facts '}'             { $$ = ITEM(EXPECT, @$, $2, .facts = $4, .body_place = place_join(@3, @5)); }
| lost_item                             { $$ = LOST(@$, ((Name){NULL, @1})); }
;

string_opt: %empty { $$ = (Name){0}; } | STRING { $$ = (Name){$1->name, $1->place}; };
bench_opt: %empty { $$ = false; } | BENCH { $$ = true; };

facts:
  %empty                                { NONE($$); }
| facts expr end                        { MORE($$, $1, $2); }
| facts lost_stmt
;

fn_head:
  FN name fn_param_list                 { $$ = ITEM(FN, @$, $2, .params = $3); }
| FN name fn_param_list GIVES type      { $$ = ITEM(FN, @$, $2, .params = $3); ONE($$->results, RESULT($5)); }
| FN name fn_param_list GIVES '(' results ')'
                                        { $$ = ITEM(FN, @$, $2, .params = $3, .results = $6, .gives_tuple = true); }
;
results:
  type                                  { ONE($$, RESULT($1)); }
| results ',' type                      { MORE($$, $1, RESULT($3)); }
;

kernel_head:
  KERNEL name ctparams_opt param_list
                                        { $$ = ITEM(KERNEL, @$, $2, .ctparams = $3, .params = $4); }
| KERNEL name ctparams_opt '(' lost_list
                                        { $$ = LOST(@$, $2); }
| KERNEL name lost_clause               { $$ = LOST(@$, $2); }
| kernel_head GRID '(' axes ')'         { $$ = ast_kernel_grid(p, $1, @$, place_join(@2, @5), $4); }
| kernel_head TUNE '(' tunes ')'        { $$ = ast_kernel_tune(p, $1, @$, place_join(@2, @5), $4); }
| kernel_head WHERE expr                { $$ = $1; $$->place = @$; vec_push(p->cx->mem, &$$->where, $3); }
| kernel_head lost_clause               { $$ = LOST(@$, ((Name){$1->name, $1->name_place})); }
;

ctparams_opt: %empty { NONE($$); } | '<' ctparams '>' { $$ = $2; } | '<' ctparams ',' '>' { $$ = $2; };
ctparams:
  ctparam                               { ONE($$, $1); }
| ctparams ',' ctparam                  { MORE($$, $1, $3); }
;

ctparam:
  name                                  { $$ = (CtParam){NAMED($1), @$, {0}, NULL}; }
| name ':' name                         { $$ = (CtParam){NAMED($1), @$, $3, NULL}; }
| name '=' bor                          { $$ = (CtParam){NAMED($1), @$, {0}, $3}; }
| name ':' name '=' bor                 { $$ = (CtParam){NAMED($1), @$, $3, $5}; }
;

param_list: '(' ')' { NONE($$); } | '(' params ')' { $$ = $2; } | '(' params ',' ')' { $$ = $2; };
params:
  param                                 { ONE($$, $1); }
| params ',' param                      { MORE($$, $1, $3); }
;

param:
  name ':' type value_opt               { $$ = (Param){NAMED($1), @$, false, $3, $4}; }
;

value_opt: %empty { $$ = NULL; } | '=' expr { $$ = $2; };

type:
  mode strided_opt NAME expr_square
                                        { $$ = TYPE(@$, $3, @3, .mode = $1, .strided = $2, .has_dims = true, .dims = $4); }
| IN FIXED strided_opt NAME expr_square
                                        { $$ = TYPE(@$, $4, @4, .mode = MODE_IN, .fixed = true, .strided = $3,
                                              .has_dims = true, .dims = $5); }
| NAME                                  { $$ = TYPE(@$, $1, @1, .has_dims = false); }
| NAME expr_square                      { $$ = TYPE(@$, $1, @1, .has_dims = true, .dims = $2); }
| '*' mut_opt NAME                      { $$ = TYPE(@$, $3, @3, .pointer = true, .mut = $2); }
;

mode: IN { $$ = MODE_IN; } | OUT { $$ = MODE_OUT; } | INOUT { $$ = MODE_INOUT; } | SCRATCH { $$ = MODE_SCRATCH; };
strided_opt: %empty { $$ = false; } | STRIDED { $$ = true; };
mut_opt: %empty { $$ = false; } | MUT { $$ = true; };

fn_param_list: '(' ')' { NONE($$); } | '(' fn_params ')' { $$ = $2; } | '(' fn_params ',' ')' { $$ = $2; };
fn_params:
  fn_param                              { ONE($$, $1); }
| fn_params ',' fn_param                { MORE($$, $1, $3); }
;

fn_param:
  name fn_type value_opt                { $$ = (Param){NAMED($1), @$, false, $2, $3}; }
| CONST name fn_type value_opt          { $$ = (Param){NAMED($2), @$, true, $3, $4}; }
;

fn_type: %empty { $$ = NULL; } | ':' type { $$ = $2; };

axes: axis { ONE($$, $1); } | axes ',' axis { MORE($$, $1, $3); };
axis: name ':' expr                     { $$ = (Axis){NAMED($1), $3}; };

tunes: tune_name { ONE($$, $1); } | tunes ',' tune_name { MORE($$, $1, $3); };
tune_name: name '=' '{' exprs '}'       { $$ = (Tune){NAMED($1), $4}; };

block:
  '{' stmts '}'                         { $$ = (Block){$2, @$}; }
;

stmts:
  %empty                                { NONE($$); }
| stmts stmt                            { $$ = $1; add_stmt(p, &$$, $2); }
;

stmt:
  LET pattern '=' expr end              { $$ = STMT(LET, @$, .pattern = $2, .e = $4); }
| VAR pattern '=' expr end              { $$ = STMT(VAR, @$, .pattern = $2, .e = $4); }
| LET pattern '=' lost_stmt             { $$ = STMT(LET, @$, .pattern = $2, .e = ast_error(p, @4)); }
| VAR pattern '=' lost_stmt             { $$ = STMT(VAR, @$, .pattern = $2, .e = ast_error(p, @4)); }
| expr end                              { $$ = STMT(EXPR, @$, .e = $1); }
| expr '=' lost_stmt                    { $$ = ast_assign(p, @$, $1, BIN_NONE, ast_error(p, @3)); }
| expr ASSIGN_OP lost_stmt              { $$ = ast_assign(p, @$, $1, $2, ast_error(p, @3)); }
| expr '=' expr end                     { $$ = ast_assign(p, @$, $1, BIN_NONE, $3); }
| expr ASSIGN_OP expr end               { $$ = ast_assign(p, @$, $1, $2, $3); }
| FOR name IN name expr_list block %prec LOOP
                                        { $$ = FOR_IN(@$, $2, $4, $5, $6, false); }
| FOR name IN name expr_list block MERGE '(' name ')' block
                                        { $$ = ast_merge(p, FOR_IN(@$, $2, $4, $5, $6, false), $9, $11); }
| FOR name IN lost_head block
                                        { $$ = STMT(FOR, @$, .index = $2, BODY($5)); ONE($$->range, ast_error(p, @4)); }
| FOR lost_head block                   { $$ = STMT(BLOCK, @$, BODY($3)); }
| STATIC FOR name IN name expr_list block
                                        { $$ = FOR_IN(@$, $3, $5, $6, $7, true); }
| WHILE expr block                      { $$ = STMT(WHILE, @$, .e = $2, BODY($3)); }
| WHILE lost_head block                 { $$ = STMT(WHILE, @$, .e = ast_error(p, @2), BODY($3)); }
| if_stmt                               { $$ = $1; }
| STATIC if_stmt                        { $$ = ast_static_if(@$, $2); }
| RETURN end                            { $$ = STMT(RETURN, @$, .e = NULL); }
| RETURN expr end                       { $$ = STMT(RETURN, @$, .e = $2); }
| block                                 { $$ = STMT(BLOCK, @$, BODY($1)); }
| BREAK end                             { $$ = ast_no_jump(p, @1, "break"); }
| CONTINUE end                          { $$ = ast_no_jump(p, @1, "continue"); }
| lost_stmt                             { $$ = NULL; }
;

if_head:
  IF expr block                         { $$ = STMT(IF, @$, .e = $2, BODY($3)); }
| IF lost_head block                    { $$ = STMT(IF, @$, .e = ast_error(p, @2), BODY($3)); }
;
if_stmt:
  if_head                               { $$ = $1; }
| if_head ELSE block                    { $$ = ast_else(p, @$, $1, $3); }
| if_head ELSE if_stmt                  { $$ = ast_else(p, @$, $1, else_if(p, $3)); }
| if_head ELSE STATIC if_stmt
                                        { $$ = ast_else(p, @$, $1, else_if(p, ast_static_if(place_join(@3, @4), $4))); }
;

pattern:
  pattern_name                          { $$ = ast_pattern(p, (Pattern){NAMED($1), {0}}); }
| '(' patterns ')'                      { $$ = ast_pattern(p, (Pattern){NULL, @$, $2}); }
| '(' patterns ',' ')'                  { $$ = ast_pattern(p, (Pattern){NULL, @$, $2}); }
;
pattern_name: name;
patterns:
  nested                                { ONE($$, $1); }
| patterns ',' nested                   { MORE($$, $1, $3); }
;
nested:
  name                                  { $$ = ast_pattern(p, (Pattern){NAMED($1), {0}}); }
| '(' patterns ')'                      { $$ = ast_pattern(p, (Pattern){NULL, @$, $2}); }
| '(' patterns ',' ')'                  { $$ = ast_pattern(p, (Pattern){NULL, @$, $2}); }
;

name: word                              { $$ = (Name){parser_intern(p, $1, strlen($1)), @1}; };
word: NAME | IN | OUT | INOUT | SCRATCH | FIXED | STRIDED | MUT | WHERE | GRID | TUNE | BENCH | EXPECT | MERGE;

expr_list: '(' ')' { NONE($$); } | '(' exprs ')' { $$ = $2; } | '(' exprs ',' ')' { $$ = $2; };
expr_square: '[' ']' { NONE($$); } | '[' exprs ']' { $$ = $2; } | '[' exprs ',' ']' { $$ = $2; };
exprs:
  expr                                  { ONE($$, $1); }
| exprs ',' expr                        { MORE($$, $1, $3); }
;

expr: cond;
cond: lor | lor '?' expr ':' cond       { $$ = EXPR(COND, @$, .a = $1, .b = $3, .c = $5); };
lor: land | lor LOR land                { $$ = BINARY(LOR, @$, @2, $1, $3); };
land: rel | land LAND rel               { $$ = BINARY(LAND, @$, @2, $1, $3); };
rel: bor | rel relop bor
                                        { $$ = ast_compare(p, (Expr){EX_BINARY, @$, @2, .bin = $2, .a = $1, .b = $3}); };
relop:
  EQ { $$ = BIN_EQ; } | NE { $$ = BIN_NE; } | '<' { $$ = BIN_LT; } | LE { $$ = BIN_LE; } | '>' { $$ = BIN_GT; }
| GE { $$ = BIN_GE; }
;
bor: bxor | bor '|' bxor                { $$ = BINARY(OR, @$, @2, $1, $3); };
bxor: band | bxor '^' band              { $$ = BINARY(XOR, @$, @2, $1, $3); };
band: shift | band '&' shift            { $$ = BINARY(AND, @$, @2, $1, $3); };
shift:
  sum
| shift SHL sum                         { $$ = BINARY(SHL, @$, @2, $1, $3); }
| shift SHR sum                         { $$ = BINARY(SHR, @$, @2, $1, $3); }
;
sum:
  product
| sum '+' product                       { $$ = BINARY(ADD, @$, @2, $1, $3); }
| sum '-' product                       { $$ = BINARY(SUB, @$, @2, $1, $3); }
;
product:
  cast
| product '*' cast                      { $$ = BINARY(MUL, @$, @2, $1, $3); }
| product '/' cast                      { $$ = BINARY(DIV, @$, @2, $1, $3); }
| product '%' cast                      { $$ = BINARY(REM, @$, @2, $1, $3); }
| product '@' cast                      { $$ = BINARY(MATMUL, @$, @2, $1, $3); }
;
cast: unary | cast AS cast_type         { $$ = EXPR(AS, @$, .a = $1, .b = $3); };
cast_type:
  name                                  { $$ = ast_name(p, $1); }
| cast_type '.' name                    { $$ = EXPR(MEMBER, @$, .a = $1, .name = $3.name, .op_place = $3.place); }
| cast_type '[' subscripts ']'          { $$ = EXPR(INDEX, @$, .a = $1, .subs = $3); }
;
unary:
  postfix
| index ELSE unary                      { $$ = EXPR(INDEX, @$, .a = $1->a, .subs = $1->subs, .b = $3); }
| '-' unary                             { $$ = UNARY(NEG, @$, $2); }
| '+' unary                             { $$ = UNARY(PLUS, @$, $2); }
| '!' unary                             { $$ = UNARY(NOT, @$, $2); }
| '~' unary                             { $$ = UNARY(INVERT, @$, $2); }
;
postfix:
  primary
| index
| postfix arg_list                      { $$ = ast_call(p, (Expr){EX_CALL, .place = @$, .a = $1, .args = $2}); }
| postfix '.' name                      { $$ = EXPR(MEMBER, @$, .a = $1, .name = $3.name, .op_place = $3.place); }
;
index:
  postfix '[' subscripts ']'            { $$ = EXPR(INDEX, @$, .a = $1, .subs = $3); }
| postfix '[' ']'                       { $$ = EXPR(INDEX, @$, .a = $1); }
;
primary:
  INT | FLOAT | STRING
| name                                  { $$ = ast_name(p, $1); }
| name SCOPE name
                                        { $$ = EXPR(NAME, @$, .scope = $1.name, .name = $3.name, .op_place = $3.place); }
| '(' expr ')'                          { $$ = $2; $$->parens = true; $$->place = @$; }
| '(' expr ',' ')'                      { $$ = tuple(p, @$, $2, (ExprList){0}); }
| '(' expr ',' exprs ')'                { $$ = tuple(p, @$, $2, $4); }
| '(' expr ',' exprs ',' ')'            { $$ = tuple(p, @$, $2, $4); }
| expr_square                           { $$ = EXPR(LIST, @$, .items = $1); }
;

subscripts:
  subscript                             { ONE($$, $1); }
| subscripts ',' subscript              { MORE($$, $1, $3); }
;
subscript:
  ':'                                   { $$ = ast_subscript(SUB_ALL, @$, NULL, NULL); }
| expr                                  { $$ = ast_subscript(SUB_INDEX, @$, $1, NULL); }
| expr PLUSCOLON expr                   { $$ = ast_subscript(SUB_PART, @$, $1, $3); }
;

arg_list: '(' ')' { NONE($$); } | '(' args ')' { $$ = $2; } | '(' args ',' ')' { $$ = $2; };
args:
  arg                                   { ONE($$, $1); }
| args ',' arg                          { MORE($$, $1, $3); }
;
arg:
  expr                                  { $$ = (Arg){.e = $1}; }
| arg_name '=' expr                     { $$ = (Arg){NAMED($1), $3}; }
| FN fn_param_list ARROW expr           { $$ = (Arg){.e = EXPR(FN, @$, .params = $2, .a = $4)}; }
| arg_name '=' FN fn_param_list ARROW expr

                                        { $$ = (Arg){NAMED($1), EXPR(FN, place_join(@3, @6), .params = $4, .a = $6)}; }
;
arg_name: name | FN                     { $$ = (Name){parser_intern(p, "fn", 2), @1}; };

%%

static int
yylex(YYSTYPE *value, Place *place, Parser *p)
{
	return parser_next(p, value, place);
}

static void
yyerror(Place *place, Parser *p, const char *text)
{
	(void)text;                                 /* only memory exhaustion comes here: too deep */
	parser_too_deep(p, *place);
}

static int
yyreport_syntax_error(const yypcontext_t *context, Parser *p)
{
	yysymbol_kind_t expected[PARSER_EXPECTED];
	const char *names[PARSER_EXPECTED];
	int n = yypcontext_expected_tokens(context, expected, PARSER_EXPECTED);
	for (int i = 0; i < n; i++)
		names[i] = yysymbol_name(expected[i]);
	parser_syntax_error(p, *yypcontext_location(context), yysymbol_name(yypcontext_token(context)), names, MAX(n, 0));
	return 0;
}
