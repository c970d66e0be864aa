/* The command line: what main.c and the cmd_*.c share. */
#ifndef TEGULA_CLI_H
#define TEGULA_CLI_H

#include "pass/pass.h"
#include "target/target.h"
#include "runtime/tgl.h"

#include <jansson.h>

enum { EXIT_GOOD = 0, EXIT_WRONG = 1, EXIT_MISUSE = 2 };

typedef enum CommandId {
#define COMMAND(id, name, args, summary, more) CMD_##id,
#include "tool/commands.def"
	CMD_COUNT
} CommandId;

typedef enum OptionId {
#define OPTION(id, name, letter, value, commands, meaning) OPT_##id,
#include "tool/commands.def"
	OPT_COUNT
} OptionId;

typedef struct CommandInfo {
	const char *name, *args, *summary, *more;
} CommandInfo;

typedef struct OptionInfo {
	const char *name;
	char letter;
	const char *value;
	unsigned commands;
	const char *meaning;
} OptionInfo;

extern const CommandInfo command_info[CMD_COUNT];
extern const OptionInfo option_info[OPT_COUNT];

typedef struct Pair {                                       /* NAME=VALUE, in the order given */
	const char *name, *value;
} Pair;

/* A command line, parsed.  Strings point into argv or mem. */
typedef struct Cli {
	Arena *mem;
	CommandId command;
	VEC(const char *) args;                             /* operands */
	const char *value[OPT_COUNT];                       /* last value given; flags: "" */
	VEC(Pair) define, arg, out, strides;               /* strides: -D x.strides=[...], the name whole */
	int max_errors;
	bool color, json;
	bool progress;                                      /* standard error is a terminal */
	bool from_input;                                    /* the first operand was '-': its text is `input` */
	Text input;
} Cli;

/* cli.c */

/* False after a misuse, which has been printed. */
bool cli_parse(Cli *cli, int argc, char **argv);
static inline bool cli_has(const Cli *cli, OptionId o) { return cli->value[o] != NULL; }
/* A whole number option; `absent` if it was not given.  False after printing what is wrong. */
bool cli_number(const Cli *cli, OptionId o, int64_t absent, int64_t *out);
/* A number from 0 on, of seconds or, of --rest, milliseconds; `absent` if it was not given.  False after printing. */
bool cli_positive(const Cli *cli, OptionId o, double absent, double *out);
int cli_misuse(const char *fmt, ...) PRINTF(1, 2);          /* prints, returns EXIT_MISUSE */
int cli_wrong(const char *fmt, ...) PRINTF(1, 2);           /* prints, returns EXIT_WRONG */
/* The value of a -D as an argument of the library: a number, true, false or a dtype; false after printing. */
bool cli_value(const Pair *pair, TglArg *out);
/* The operands of a command are between least and most; false after printing. */
bool cli_operands(const Cli *cli, int least, int most);
PassOptions cli_passes(const Cli *cli);
/* The path of this program, to run again: what it starts is of the same build, wherever it stands.  NULL: not known. */
const char *cli_program(const Cli *cli);
/* Reads standard input where the operand is '-', which then has the name of --as; false after printing. */
bool cli_read_input(Cli *cli);
/* The nearest command to a word that is none: prints, returns EXIT_MISUSE. */
int cli_no_command(const char *name);

/* cli_out.c */

/* Writes a file whole or not at all (a temporary beside it, renamed); devices and pipes are written to directly. False
 * after printing why not. */
bool cli_write_file(const char *path, const char *text, size_t size);
bool cli_to_file(const Cli *cli);                           /* is there a -o, and is it not -, which is standard output? */
/* To -o FILE, or standard output. */
int cli_emit(const Cli *cli, const Text *text);
/* Standard output flushed; EXIT_WRONG with a message if it could not take everything. */
int cli_finish(int status);
/* One line of progress on a terminal, rewritten in place; NULL clears it. */
void cli_progress(const Cli *cli, const char *fmt, ...) PRINTF(2, 3);
void cli_progress_end(const Cli *cli);

/* cli_cuda.c */

/* PTX as a cubin, or its instructions as text, by the tools of a CUDA toolkit, and the bytes that were spilled; false after
 * printing. */
bool cli_machine_code(const Target *t, const Text *ptx, bool as_text, Text *out, int *spills);

/* PTX of a kernel, which no other beside it is named as, and what the tools made of it. */
typedef struct CliCode {
	const char *name;
	Text ptx;
	Text listing, control;                          /* empty: not known */
	bool has_resources;
	int registers, spills, stack;
	bool is_late;                                   /* a tool was stopped, as it took too long */
	double seconds;                                 /* of a processor, that ptxas took for it */
} CliCode;

/* The instructions of kernels as `nvdisasm` prints them, each run of them below a line that says which line of the source
 * it is for; `control`: six digits for each, which say when it goes; and what ptxas says that a thread takes.  Nothing is
 * printed where there is no ptxas or no nvdisasm.  Each tool is stopped after so many seconds of a processor.  To be
 * closed. */
void cli_assemble(const Target *t, CliCode *all, int n, int seconds);
/* Seconds of a processor that this process and those that it has waited for took. */
double cli_processor_seconds(void);
void cli_code_close(CliCode *c);

/* Is there a ptxas that runs? */
bool cli_has_assembler(void);

/* What ptxas says that a thread takes: registers, bytes of spills and of stack.  False, and nothing printed, where there is
 * no ptxas, it refuses the PTX, or it takes more than `seconds` of processor time (0: as long as it wants). */
bool cli_resources(const Target *t, const Text *ptx, int seconds, int *registers, int *spills, int *stack);

/* cli_show.c: values for people */

/* A tensor as NumPy prints one: [[1.  2.] ... [3.  4.]], long dimensions cut to their ends. */
void cli_show_tensor(TglTensor *t, Text *out);
/* For rank 1 or 2: each cell says warp, lane and register ("w1 l03 r2") of its first holder, with the number of holders
 * where there are several. */
void cli_draw_layout(const Layout *l, Text *out);
void cli_show_seconds(double s, Text *out);                 /* 12.3 us */
void cli_print_index(const TglCheck *r);                    /* the worst element: "[2, 0]" */
json_t *cli_json_resources(const TglResources *u);
const char *cli_shape(Arena *mem, TglTensor *t);            /* "f32[100, 1000]" */
double cli_unsigned_nan(double v);                         /* for printf, which would show a NaN's sign */
json_t *cli_json_path(const char *path);                    /* bytes that are not UTF-8 as \u00xx */
json_t *cli_json_number(double v);                          /* what JSON has no number for as "nan", "inf", "-inf" */
void cli_print_json(json_t *take);                          /* to standard output */

/* cli_case.c: what run and check share */

typedef struct Session {
	const Cli *cli;
	TglContext *cx;
	TglDevice *dev;
	int status;                                         /* what to exit with once a session_ function failed */
	VEC(const char *) printed;                          /* messages: an equal one of another device is left out */
} Session;

/* A context with the options of the command line; false after printing. */
bool session_open(Session *s, const Cli *cli);
bool session_device(Session *s, const char *name);          /* opens (another) device */
void session_close(Session *s);
/* A program, with its warnings printed; NULL after printing what is wrong. */
TglProgram *session_program(Session *s, const char *path);
/* The device of --device, and the program of the first operand; NULL after printing. */
TglProgram *session_operand(Session *s);
/* Each output of a case that ran, compared with the reference; false after printing. */
bool session_checks(Session *s, TglCase *c, void (*each)(void *user, const TglCheck *r), void *user);
/* Prints what the last call reported, as text or JSON; returns EXIT_WRONG, which is also the session's status. */
int session_error(Session *s);
void session_warnings(Session *s);                          /* prints warnings of a call that went well */
/* Is it a kernel of the file, or of a file without kernels one that it imports? */
bool session_is_chosen(TglProgram *p, TglKernel *k, const char *path);
/* The kernel named, or the only one of the file; NULL after printing. */
TglKernel *session_kernel(Session *s, TglProgram *p, const char *path, const char *name);
/* -D and --arg as arguments for a case; false after printing.  Tensors read from files end up in *opened. */
typedef VEC(TglTensor *) TensorList;
bool session_args(Session *s, TglKernel *k, TglArg **args, int *n, TensorList *opened);

/* cmd_*.c */

#define COMMAND(id, name, args, summary, more) int cmd_##id(const Cli *cli);
#include "tool/commands.def"

#endif
