/* The grammar.  Every action is one ast_ call; names, types and shapes are sema's.
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
%token <name> IN "in" OUT "out" INOUT "inout" SCRATCH "scratch" STRIDED "strided" MUT "mut"
%token <name> WHERE "where" GRID "grid" TUNE "tune" BENCH "bench" EXPECT "expect"
%token <name> NAME "a name"
%token <expr> INT "an integer" FLOAT "a number"
%token <expr> STRING "a string"
%token <op> ASSIGN_OP "an assignment"
%token SCOPE "::" ARROW "=>" GIVES "->" PLUSCOLON "+:" LOR "||" LAND "&&" EQ "==" NE "!=" LE "<=" GE ">=" SHL "<<" SHR ">>"
%token START_FILE START_EXPR
%token END 0 "the end of the file"

%type <name> word
%type <id> name arg_name pattern_name
%type <pattern> pattern patterns nested
%type <expr> expr cond lor land rel bor bxor band shift sum product cast cast_type unary postfix index primary value_opt
%type <exprs> exprs expr_list expr_square
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
%type <flag> mode strided_opt mut_opt bench_opt ctparams_opt
%type <expr> string_opt
%type <tune> tune_name
%type <axis> axis
%type <op> relop

%%

start:
  START_FILE items                      { (void)yynerrs; }
| START_EXPR expr                       { p->expr = $2; }
;

items:
  %empty
| items item                            { ast_item_add(p, $2); }
;

end: ';' | error                        { RECOVER(RECOVER_END); };
lost_stmt: error                        { RECOVER(RECOVER_STMT); };
lost_head: error                        { RECOVER(RECOVER_HEAD); };
lost_clause: error                      { RECOVER(RECOVER_CLAUSE); };
lost_list: error                        { RECOVER(RECOVER_LIST); };
lost_item: error                        { RECOVER(RECOVER_ITEM); };

item:
  IMPORT STRING end                     { $$ = ast_import_item(p, @$, $2); }
| CONST name '=' expr end               { $$ = ast_const(p, @$, $2, $4); }
| CONST name '=' lost_stmt              { $$ = ast_const(p, @$, $2, ast_error(p, @4)); }
| fn_head block                         { $$ = ast_fn_body(p, @$, $1, $2, NULL); }
| fn_head ARROW expr end                { $$ = ast_fn_body(p, @$, $1, NULL, $3); }
| fn_head ARROW lost_stmt               { $$ = ast_fn_body(p, @$, $1, NULL, ast_error(p, @3)); }
| fn_head lost_head block               { $$ = ast_lost(p, @$, (Name){$1->name, $1->name_place}); }
| FN name '(' lost_list block           { $$ = ast_lost(p, @$, $2); }
| kernel_head block                     { $$ = ast_kernel_body(p, @$, $1, $2); }
| REFERENCE name block                  { $$ = ast_block_item(p, ITEM_REFERENCE, @$, $2, NULL, 0, $3); }
| EXAMPLE name string_opt bench_opt block
                                        { $$ = ast_block_item(p, ITEM_EXAMPLE, @$, $2, $3, $4, $5); }
| EXPECT name '{' facts '}'             { $$ = ast_expect(p, @$, $2, place_join(@3, @5)); }
| lost_item                             { $$ = ast_lost(p, @$, (Name){NULL, @1}); }
;

string_opt: %empty { $$ = NULL; } | STRING;
bench_opt: %empty { $$ = 0; } | BENCH { $$ = 1; };

facts:
  %empty                                { ast_facts_open(p); }
| facts expr end                        { ast_fact(p, $2); }
| facts lost_stmt
;

fn_head:
  FN name fn_param_list                 { $$ = ast_fn(p, @$, $2, $3, NULL, 0); }
| FN name fn_param_list GIVES type      { $$ = ast_fn(p, @$, $2, $3, ast_result(p, NULL, $5), 0); }
| FN name fn_param_list GIVES '(' results ')'
                                        { $$ = ast_fn(p, @$, $2, $3, $6, 1); }
;
results:
  type                                  { $$ = ast_result(p, NULL, $1); }
| results ',' type                      { $$ = ast_result(p, $1, $3); }
;

kernel_head:
  KERNEL name ctparams_opt param_list
                                        { $$ = ast_kernel(p, @$, $2, $3, $4); }
| KERNEL name ctparams_opt '(' lost_list
                                        { $$ = ast_lost(p, @$, $2); }
| KERNEL name lost_clause               { $$ = ast_lost(p, @$, $2); }
| kernel_head GRID '(' axes ')'         { $$ = ast_kernel_grid(p, $1, @$, place_join(@2, @5)); }
| kernel_head TUNE '(' tunes ')'        { $$ = ast_kernel_tune(p, $1, @$, place_join(@2, @5)); }
| kernel_head WHERE expr                { $$ = ast_kernel_where(p, $1, @$, $3); }
| kernel_head lost_clause               { $$ = ast_lost(p, @$, (Name){$1->name, $1->name_place}); }
;

ctparams_opt: %empty { $$ = 0; } | '<' ctparams '>' { $$ = 1; } | '<' ctparams ',' '>' { $$ = 1; };
ctparams:
  ctparam                               { ast_ctparam_add(p, $1, true); }
| ctparams ',' ctparam                  { ast_ctparam_add(p, $3, false); }
;

ctparam:
  name                                  { $$ = ast_ctparam(@$, $1, NULL, NULL); }
| name ':' name                         { $$ = ast_ctparam(@$, $1, &$3, NULL); }
| name '=' bor                          { $$ = ast_ctparam(@$, $1, NULL, $3); }
| name ':' name '=' bor                 { $$ = ast_ctparam(@$, $1, &$3, $5); }
;

param_list: '(' ')' { $$ = NULL; } | '(' params ')' { $$ = $2; } | '(' params ',' ')' { $$ = $2; };
params:
  param                                 { $$ = ast_params(p, NULL, $1); }
| params ',' param                      { $$ = ast_params(p, $1, $3); }
;

param:
  name ':' type value_opt               { $$ = ast_param(p, @$, $1, 0, $3, $4); }
;

value_opt: %empty { $$ = NULL; } | '=' expr { $$ = $2; };

type:
  mode strided_opt NAME expr_square      { $$ = ast_type(p, @$, $1, $2, $3, @3, true, $4); }
| NAME                                  { $$ = ast_type(p, @$, MODE_VALUE, 0, $1, @1, false, NULL); }
| NAME expr_square                      { $$ = ast_type(p, @$, MODE_VALUE, 0, $1, @1, true, $2); }
| '*' mut_opt NAME                      { $$ = ast_pointer(p, @$, $2, $3, @3); }
;

mode: IN { $$ = MODE_IN; } | OUT { $$ = MODE_OUT; } | INOUT { $$ = MODE_INOUT; } | SCRATCH { $$ = MODE_SCRATCH; };
strided_opt: %empty { $$ = 0; } | STRIDED { $$ = 1; };
mut_opt: %empty { $$ = 0; } | MUT { $$ = 1; };

fn_param_list: '(' ')' { $$ = NULL; } | '(' fn_params ')' { $$ = $2; } | '(' fn_params ',' ')' { $$ = $2; };
fn_params:
  fn_param                              { $$ = ast_params(p, NULL, $1); }
| fn_params ',' fn_param                { $$ = ast_params(p, $1, $3); }
;

fn_param:
  name fn_type value_opt                { $$ = ast_param(p, @$, $1, 0, $2, $3); }
| CONST name fn_type value_opt          { $$ = ast_param(p, @$, $2, 1, $3, $4); }
;

fn_type: %empty { $$ = NULL; } | ':' type { $$ = $2; };

axes: axis { ast_axis_add(p, $1, true); } | axes ',' axis { ast_axis_add(p, $3, false); };
axis: name ':' expr                     { $$ = ast_axis($1, $3); };

tunes: tune_name { ast_tune_add(p, $1, true); } | tunes ',' tune_name { ast_tune_add(p, $3, false); };
tune_name: name '=' '{' exprs '}'       { $$ = ast_tune($1, $4); };

block:
  '{' stmts '}'                         { $$ = ast_braces(p, @$, $2); }
;

stmts:
  %empty                                { $$ = NULL; }
| stmts stmt                            { $$ = ast_stmts(p, $1, $2); }
;

stmt:
  LET pattern '=' expr end              { $$ = ast_bind(p, ST_LET, @$, $2, $4); }
| VAR pattern '=' expr end              { $$ = ast_bind(p, ST_VAR, @$, $2, $4); }
| LET pattern '=' lost_stmt             { $$ = ast_bind(p, ST_LET, @$, $2, ast_error(p, @4)); }
| VAR pattern '=' lost_stmt             { $$ = ast_bind(p, ST_VAR, @$, $2, ast_error(p, @4)); }
| expr end                              { $$ = ast_expr_stmt(p, @$, $1); }
| expr '=' lost_stmt                    { $$ = ast_assign(p, @$, $1, BIN_NONE, ast_error(p, @3)); }
| expr ASSIGN_OP lost_stmt              { $$ = ast_assign(p, @$, $1, $2, ast_error(p, @3)); }
| expr '=' expr end                     { $$ = ast_assign(p, @$, $1, BIN_NONE, $3); }
| expr ASSIGN_OP expr end               { $$ = ast_assign(p, @$, $1, $2, $3); }
| FOR name IN name expr_list block      { $$ = ast_for(p, @$, 0, $2, $4, $5, $6); }
| FOR name IN lost_head block           { $$ = ast_for_lost(p, @$, $2, @4, $5); }
| FOR lost_head block                   { $$ = ast_block(p, @$, $3); }
| STATIC FOR name IN name expr_list block
                                        { $$ = ast_for(p, @$, 1, $3, $5, $6, $7); }
| WHILE expr block                      { $$ = ast_while(p, @$, $2, $3); }
| WHILE lost_head block                 { $$ = ast_while(p, @$, ast_error(p, @2), $3); }
| if_stmt                               { $$ = $1; }
| STATIC if_stmt                        { $$ = ast_static_if(p, @$, $2); }
| RETURN end                            { $$ = ast_return(p, @$, NULL); }
| RETURN expr end                       { $$ = ast_return(p, @$, $2); }
| block                                 { $$ = ast_block(p, @$, $1); }
| BREAK end                             { $$ = ast_no_jump(p, @1, "break"); }
| CONTINUE end                          { $$ = ast_no_jump(p, @1, "continue"); }
| lost_stmt                             { $$ = NULL; }
;

if_head:
  IF expr block                         { $$ = ast_if(p, @$, $2, $3); }
| IF lost_head block                    { $$ = ast_if(p, @$, ast_error(p, @2), $3); }
;
if_stmt:
  if_head                               { $$ = $1; }
| if_head ELSE block                    { $$ = ast_else(p, @$, $1, $3); }
| if_head ELSE if_stmt                  { $$ = ast_else_if(p, @$, $1, $3); }
| if_head ELSE STATIC if_stmt           { $$ = ast_else_if(p, @$, $1, ast_static_if(p, place_join(@3, @4), $4)); }
;

pattern:
  pattern_name                          { $$ = ast_pattern(p, $1); }
| '(' patterns ')'                      { $$ = ast_pattern_tuple(p, @$, $2); }
| '(' patterns ',' ')'                  { $$ = ast_pattern_tuple(p, @$, $2); }
;
pattern_name: name;
patterns:
  nested                                { $$ = ast_patterns(p, NULL, $1); }
| patterns ',' nested                   { $$ = ast_patterns(p, $1, $3); }
;
nested:
  name                                  { $$ = ast_pattern(p, $1); }
| '(' patterns ')'                      { $$ = ast_pattern_tuple(p, @$, $2); }
| '(' patterns ',' ')'                  { $$ = ast_pattern_tuple(p, @$, $2); }
;

name: word                              { $$ = (Name){parser_intern(p, $1, strlen($1)), @1}; };
word: NAME | IN | OUT | INOUT | SCRATCH | STRIDED | MUT | WHERE | GRID | TUNE | BENCH | EXPECT;

expr_list: '(' ')' { $$ = NULL; } | '(' exprs ')' { $$ = $2; } | '(' exprs ',' ')' { $$ = $2; };
expr_square: '[' ']' { $$ = NULL; } | '[' exprs ']' { $$ = $2; } | '[' exprs ',' ']' { $$ = $2; };
exprs:
  expr                                  { $$ = ast_exprs(p, NULL, $1); }
| exprs ',' expr                        { $$ = ast_exprs(p, $1, $3); }
;

expr: cond;
cond: lor | lor '?' expr ':' cond       { $$ = ast_cond(p, @$, $1, $3, $5); };
lor: land | lor LOR land                { $$ = ast_binary(p, @$, BIN_LOR, @2, $1, $3); };
land: rel | land LAND rel               { $$ = ast_binary(p, @$, BIN_LAND, @2, $1, $3); };
rel: bor | rel relop bor                { $$ = ast_compare(p, @$, $2, @2, $1, $3); };
relop:
  EQ { $$ = BIN_EQ; } | NE { $$ = BIN_NE; } | '<' { $$ = BIN_LT; } | LE { $$ = BIN_LE; } | '>' { $$ = BIN_GT; }
| GE { $$ = BIN_GE; }
;
bor: bxor | bor '|' bxor                { $$ = ast_binary(p, @$, BIN_OR, @2, $1, $3); };
bxor: band | bxor '^' band              { $$ = ast_binary(p, @$, BIN_XOR, @2, $1, $3); };
band: shift | band '&' shift            { $$ = ast_binary(p, @$, BIN_AND, @2, $1, $3); };
shift:
  sum
| shift SHL sum                         { $$ = ast_binary(p, @$, BIN_SHL, @2, $1, $3); }
| shift SHR sum                         { $$ = ast_binary(p, @$, BIN_SHR, @2, $1, $3); }
;
sum:
  product
| sum '+' product                       { $$ = ast_binary(p, @$, BIN_ADD, @2, $1, $3); }
| sum '-' product                       { $$ = ast_binary(p, @$, BIN_SUB, @2, $1, $3); }
;
product:
  cast
| product '*' cast                      { $$ = ast_binary(p, @$, BIN_MUL, @2, $1, $3); }
| product '/' cast                      { $$ = ast_binary(p, @$, BIN_DIV, @2, $1, $3); }
| product '%' cast                      { $$ = ast_binary(p, @$, BIN_REM, @2, $1, $3); }
| product '@' cast                      { $$ = ast_binary(p, @$, BIN_MATMUL, @2, $1, $3); }
;
cast: unary | cast AS cast_type         { $$ = ast_as(p, @$, $1, $3); };
cast_type:
  name                                  { $$ = ast_name(p, $1, NULL); }
| cast_type '.' name                    { $$ = ast_member(p, @$, $1, $3); }
| cast_type '[' subscripts ']'          { $$ = ast_index(p, @$, $1, $3); }
;
unary:
  postfix
| index ELSE unary                      { $$ = ast_fill(p, @$, $1, $3); }
| '-' unary                             { $$ = ast_unary(p, @$, UN_NEG, $2); }
| '+' unary                             { $$ = ast_unary(p, @$, UN_PLUS, $2); }
| '!' unary                             { $$ = ast_unary(p, @$, UN_NOT, $2); }
| '~' unary                             { $$ = ast_unary(p, @$, UN_INVERT, $2); }
;
postfix:
  primary
| index
| postfix arg_list                      { $$ = ast_call(p, @$, $1, $2); }
| postfix '.' name                      { $$ = ast_member(p, @$, $1, $3); }
;
index:
  postfix '[' subscripts ']'            { $$ = ast_index(p, @$, $1, $3); }
| postfix '[' ']'                       { $$ = ast_index(p, @$, $1, NULL); }
;
primary:
  INT | FLOAT | STRING
| name                                  { $$ = ast_name(p, $1, NULL); }
| name SCOPE name                       { $$ = ast_scoped(p, @$, $1, $3); }
| '(' expr ')'                          { $$ = ast_parens(p, @$, $2); }
| '(' expr ',' ')'                      { $$ = ast_tuple(p, @$, ast_exprs(p, NULL, $2)); }
| '(' expr ',' exprs ')'                { $$ = ast_tuple(p, @$, ast_exprs_first(p, $2, $4)); }
| '(' expr ',' exprs ',' ')'            { $$ = ast_tuple(p, @$, ast_exprs_first(p, $2, $4)); }
| expr_square                           { $$ = ast_list(p, @$, $1); }
;

subscripts:
  subscript                             { $$ = ast_subscripts(p, NULL, $1); }
| subscripts ',' subscript              { $$ = ast_subscripts(p, $1, $3); }
;
subscript:
  ':'                                   { $$ = ast_subscript(@$, SUB_ALL, NULL, NULL); }
| expr                                  { $$ = ast_subscript(@$, SUB_INDEX, $1, NULL); }
| expr PLUSCOLON expr                   { $$ = ast_subscript(@$, SUB_PART, $1, $3); }
;

arg_list: '(' ')' { $$ = NULL; } | '(' args ')' { $$ = $2; } | '(' args ',' ')' { $$ = $2; };
args:
  arg                                   { $$ = ast_args(p, NULL, $1); }
| args ',' arg                          { $$ = ast_args(p, $1, $3); }
;
arg:
  expr                                  { $$ = (Arg){.e = $1}; }
| arg_name '=' expr                     { $$ = (Arg){$1.name, $1.place, $3}; }
| FN fn_param_list ARROW expr           { $$ = (Arg){.e = ast_lambda(p, @$, $2, $4)}; }
| arg_name '=' FN fn_param_list ARROW expr
                                        { $$ = (Arg){$1.name, $1.place, ast_lambda(p, place_join(@3, @6), $4, $6)}; }
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
