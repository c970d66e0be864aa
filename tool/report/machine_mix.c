/* What the machine code's instructions are for, by lines of the source: kinds, as NVIDIA's tables of the instruction set
 * group them, and names of those that go through the special function unit.
 *
 *     FFMA R4, R5, R6, R4         floating-point arithmetic
 *     LOP3.LUT R7, R8, 0xf, …     shifts and logic
 *     MUFU.RCP R9, R10            special functions; by name MUFU.RCP */
#include "tool/report/machine.h"

#include <string.h>

static const char *const of_float[] = {"FADD", "FMUL", "FFMA", "HADD2", "HMUL2", "HFMA2", "DADD", "DMUL", "DFMA"};
static const char *const of_integers[] = {"IADD3", "VIADD", "IMAD", "LEA", "IABS", "IDP", "UIADD3", "UIMAD", "ULEA"};
static const char *const of_choice[] = {"ISETP", "FSETP", "HSETP2", "DSETP", "SEL", "FSEL", "FMNMX", "IMNMX", "VIMNMX",
    "HMNMX2", "PLOP3", "FCHK", "P2R", "R2P", "UISETP", "USEL", "UPLOP3"};
static const char *const of_bits[] = {"SHF", "LOP3", "PRMT", "BMSK", "SGXT", "USHF", "ULOP3", "UPRMT", "USGXT"};
static const char *const of_casts[] = {"F2F", "F2I", "I2F", "F2FP", "I2FP", "I2IP", "FRND"};
static const char *const of_functions[] = {"MUFU", "POPC", "FLO", "BREV"};
static const char *const of_warp[] = {"SHFL", "VOTE", "MATCH", "REDUX"};
static const char *const of_memory[] = {"LDG", "STG", "LDS", "STS", "LDSM", "STSM", "LDL", "STL", "LD", "ST", "ATOM",
    "ATOMG", "ATOMS", "RED", "LDC", "ULDC", "LDGSTS", "UTMALDG", "UTMASTG", "UBLKCP"};
static const char *const of_products[] = {"HMMA", "IMMA", "DMMA", "QMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"};

static const struct {
	const char *kind;
	const char *const *name;
	int n;
} kinds[] = {
    {"floating-point arithmetic", of_float, LEN(of_float)},
    {"integers and addresses", of_integers, LEN(of_integers)},
    {"comparisons and selections", of_choice, LEN(of_choice)},
    {"shifts and logic", of_bits, LEN(of_bits)},
    {"conversions", of_casts, LEN(of_casts)},
    {"special functions", of_functions, LEN(of_functions)},
    {"exchanges within a warp", of_warp, LEN(of_warp)},
    {"accesses of memory", of_memory, LEN(of_memory)},
    {"products of matrices", of_products, LEN(of_products)},
};

static const char *
kind_of(const char *op)
{
	if (strncmp(op, "IMAD.MOV", 8) == 0)            /* by the pipe of multiplications, but no arithmetic */
		return "moves and branches";
	if (strncmp(op, "IMAD.SHL", 8) == 0)
		return "shifts and logic";
	if (strncmp(op, "IMAD.U32", 8) == 0 && strstr(op, ", 0x10000, RZ"))     /* a shift by 16: bf16 to f32 */
		return "conversions";
	int k = FIRST_OF(i, LEN(kinds), code_is_one_of(op, kinds[i].name, kinds[i].n));
	return k < 0 ? "moves and branches" : kinds[k].kind;
}

static void
count(json_t *all, int source, const char *name, double times)
{
	char line[16];
	snprintf(line, sizeof line, "%d", source);
	json_t *of = json_object_get(all, line);
	if (!of)
		json_object_set_new(all, line, of = json_object());
	json_object_set_new(of, name, json_real(json_number_value(json_object_get(of, name)) + times));
}

/* {"12": {"floating-point arithmetic": 40}} */
json_t *
code_mix(const Code *c, int lines)
{
	json_t *all = json_object();
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		if (in->times > 0)
			count(all, in->source <= lines ? in->source : 0, kind_of(in->op), in->times);
	}
	return all;
}

/* {"12": {"MUFU.RCP": 8, "F2I": 8}} */
json_t *
code_specials(const Code *c, int lines)
{
	json_t *all = json_object();
	for (int i = 0; i < c->at.n; i++) {
		const Instruction *in = &c->at.at[i];
		Pipe p;
		code_pipe(in->op, &p);
		if (p != PIPE_SPECIAL || in->times <= 0)
			continue;
		size_t n = code_is(in->op, "MUFU") ? strcspn(in->op, " ;") : strcspn(in->op, " .;");
		count(all, in->source <= lines ? in->source : 0, arena_strndup(c->mem, in->op, n), in->times);
	}
	return all;
}
