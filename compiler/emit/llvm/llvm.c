/* LLVM 22 through its C interface: a context, a module and a target machine for one kernel; then
 * the passes and PTX.
 *
 * The passes are few: lowering already emits what it wants, so equal expressions are merged,
 * address arithmetic is tidied and what loops repeat is moved out of them; LLVM's own code
 * generator does the rest.  Loops are not unrolled here.
 *
 * LLVM reports most errors to the context's handler and goes on, so that errors are counted; a few
 * ("cannot select") end the process unless a handler of the process leaves by longjmp.  That
 * handler and the thread's place to return to are the only state that outlives a compilation
 * (tests/house knows them by name).  After such an error what LLVM holds is left alone: it may be
 * in any state. */
#include "emit/llvm/llvm.h"
#include "num/num.h"

#include <pthread.h>
#include <setjmp.h>
#include <string.h>

static const char triple[] = "nvptx64-nvidia-cuda";
static const char pipeline[] =
    "function(early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse<memssa>)";

typedef struct Escape {
	jmp_buf to;
	char why[512];
} Escape;

static pthread_once_t llvm_once = PTHREAD_ONCE_INIT;
static char llvm_missing[256];  /* why LLVM is not there; "": it is */
static _Thread_local Escape *llvm_escape;

static void
fatal(const char *reason)
{
	if (!llvm_escape)
		return; /* not one of ours: LLVM ends the process as it would */
	snprintf(llvm_escape->why, sizeof llvm_escape->why, "%s", reason);
	longjmp(llvm_escape->to, 1);
}

static void
once(void)
{
	if (!llvm_api_open(llvm_missing, sizeof llvm_missing))
		return;
	LLVMInitializeNVPTXTargetInfo();
	LLVMInitializeNVPTXTarget();
	LLVMInitializeNVPTXTargetMC();
	LLVMInitializeNVPTXAsmPrinter();
	LLVMInstallFatalErrorHandler(fatal);
}

static void
complain(LLVMDiagnosticInfoRef info, void *data)
{
	EmitLlvm *l = data;
	if (LLVMGetDiagInfoSeverity(info) != LLVMDSError)
		return;
	char *text = LLVMGetDiagInfoDescription(info);
	if (l->nerrors++ == 0)
		l->error = arena_strdup(l->mem, text);
	LLVMDisposeMessage(text);
}

/* lines */

/* PTX has no escape for a quote in a file's name. */
static LLVMMetadataRef
file_of(EmitLlvm *l, int file)
{
	char *path = arena_strdup(l->mem, l->opt.cx->files.at[file].path);
	for (char *p = path; (p = strchr(p, '"')) != NULL;)
		*p = '\'';
	return LLVMDIBuilderCreateFile(l->di, path, strlen(path), "", 0);
}

static void
open_lines(EmitLlvm *l, Place at)
{
	LLVMMetadataRef file = file_of(l, at.file);
	size_t n = strlen(l->kernel);
	LLVMDWARFEmissionKind directives_only = (LLVMDWARFEmissionKind)3;
	LLVMDIBuilderCreateCompileUnit(l->di, LLVMDWARFSourceLanguageC, file, "tegula", 6, true, "",
	    0, 0, "", 0, directives_only, 0, false, false, "", 0, "", 0);
	LLVMMetadataRef type =
	    LLVMDIBuilderCreateSubroutineType(l->di, file, NULL, 0, LLVMDIFlagZero);
	l->program = LLVMDIBuilderCreateFunction(l->di, file, l->kernel, n, l->kernel, n, file,
	    (unsigned)at.line, type, false, true, (unsigned)at.line, LLVMDIFlagZero, true);
	LLVMSetSubprogram(l->fn, l->program);
	l->scope = NEW_ARRAY(l->mem, LLVMMetadataRef, l->opt.cx->files.n);
	l->scope[at.file] = l->program;
	LLVMValueRef version = llvm_i32(l, LLVMDebugMetadataVersion());
	LLVMAddModuleFlag(l->m, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
	    LLVMValueAsMetadata(version));
}

void
llvm_line(EmitLlvm *l, Place at)
{
	if (!l->opt.lines || at.file < 0 || at.file >= l->opt.cx->files.n)
		return;
	if (!l->program)
		open_lines(l, at);
	if (!l->scope[at.file])
		l->scope[at.file] =
		    LLVMDIBuilderCreateLexicalBlockFile(l->di, l->program, file_of(l, at.file), 0);
	LLVMSetCurrentDebugLocation2(
	    l->b, LLVMDIBuilderCreateDebugLocation(
		      l->cx, (unsigned)at.line, (unsigned)at.col, l->scope[at.file], NULL));
}

/* opening and closing */

static void
make_types(EmitLlvm *l)
{
	LLVMContextRef cx = l->cx;
	LLVMTypeRef *t = l->type;
	t[REG_PRED] = LLVMInt1TypeInContext(cx);
	t[REG_I8] = LLVMInt8TypeInContext(cx);
	t[REG_I16] = LLVMInt16TypeInContext(cx);
	t[REG_I32] = t[REG_SHARED] = LLVMInt32TypeInContext(cx);
	t[REG_I64] = LLVMInt64TypeInContext(cx);
	t[REG_F16] = l->opt.host ? t[REG_I16] : LLVMHalfTypeInContext(cx);
	t[REG_BF16] = l->opt.host ? t[REG_I16] : LLVMBFloatTypeInContext(cx);
	t[REG_F32] = LLVMFloatTypeInContext(cx);
	t[REG_F64] = LLVMDoubleTypeInContext(cx);
	t[REG_GLOBAL] = LLVMPointerTypeInContext(cx, l->opt.host ? 0 : 1);
	l->none = LLVMVoidTypeInContext(cx);
	l->generic = LLVMPointerTypeInContext(cx, 0);
}

/* What to compile for: LLVM's names.  Code with checks is calls for the most part: it gets no passes, and instructions from
 * FastISel (llvm_simt.c). */
typedef struct Machine {
	const char *triple, *cpu, *features;
	bool host, quick;
} Machine;

static const char *
arena_message(Arena *mem, char *message)
{
	const char *s = arena_strdup(mem, message);
	LLVMDisposeMessage(message);
	return s;
}

/* This machine by the level that num's loops are compiled for: to ask for its features, and to read the list of some 150,
 * takes LLVM a seventh of the time of small kernels (tests/unit/test_lowered: 18.3 s for 15.9). */
static Machine
machine_of(Arena *mem, const Target *t, const EmitLlvmOptions *opt)
{
	if (!opt || !opt->host)
		return (Machine){triple, t->cpu, t->features, false, false};
	const char *here = arena_message(mem, LLVMGetDefaultTargetTriple());
	bool quick = opt->checks || opt->quick;
	if (cpu_level() != CPU_BASE)
		return (Machine){here, "x86-64-v3", "+f16c", true, quick};
	return (Machine){here, arena_message(mem, LLVMGetHostCPUName()), arena_message(mem, LLVMGetHostCPUFeatures()), true,
	    quick};
}

static LLVMTargetMachineRef
make_machine(Arena *mem, const Machine *m, const char **why)
{
	Escape escape;
	LLVMTargetRef target;
	LLVMTargetMachineRef machine;
	char *complaint = NULL;
	if (LLVMGetTargetFromTriple(m->triple, &target, &complaint)) {
		*why = arena_message(mem, complaint);
		return NULL;
	}
	if (setjmp(escape.to)) {
		llvm_escape = NULL;
		*why = arena_strdup(mem, escape.why);
		return NULL;
	}
	llvm_escape = &escape;
	machine = LLVMCreateTargetMachine(target, m->triple, m->cpu, m->features,
	    !m->host ? LLVMCodeGenLevelDefault : m->quick ? LLVMCodeGenLevelNone : LLVMCodeGenLevelLess,
	    m->host ? LLVMRelocPIC : LLVMRelocDefault, LLVMCodeModelDefault);
	llvm_escape = NULL;
	return machine;
}

bool
emit_llvm_there(const char **why)
{
	pthread_once(&llvm_once, once);
	*why = llvm_missing;
	return !*llvm_missing;
}

EmitLlvm *
emit_llvm_open(Arena *mem, const Target *t, const EmitLlvmOptions *opt, const char **why)
{
	if (t->kind != TARGET_PTX && !(opt && opt->host)) {
		*why = "LLVM makes no code for it";
		return NULL;
	}
	if (!emit_llvm_there(why))
		return NULL;
	const Machine to = machine_of(mem, t, opt);
	LLVMTargetMachineRef machine = make_machine(mem, &to, why);
	if (!machine)
		return NULL;
	EmitLlvm *l = NEW(mem, EmitLlvm);
	l->mem = mem;
	l->target = t;
	l->opt = opt ? *opt : (EmitLlvmOptions){0};
	l->at = NOWHERE;
	l->opt.lines = l->opt.lines && l->opt.cx && !to.host;
	l->machine = machine;
	l->cx = LLVMContextCreate();
	LLVMContextSetDiagnosticHandler(l->cx, complain, l);
	l->m = LLVMModuleCreateWithNameInContext("tegula", l->cx);
	LLVMSetTarget(l->m, to.triple);
	LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(l->machine);
	LLVMSetModuleDataLayout(l->m, layout);
	LLVMDisposeTargetData(layout);
	l->b = LLVMCreateBuilderInContext(l->cx);
	if (l->opt.lines)
		l->di = LLVMCreateDIBuilder(l->m);
	make_types(l);
	l->host.quick = to.quick;
	l->host.has_half = to.host && (strncmp(to.triple, "x86", 3) != 0 || strstr(to.features, "+f16c"));
	return l;
}

const char *
emit_llvm_kernel(const EmitLlvm *l)
{
	return l->kernel;
}

void
emit_llvm_text(EmitLlvm *l, Text *out)
{
	if (l->di)
		LLVMDIBuilderFinalize(l->di);
	char *text = LLVMPrintModuleToString(l->m);
	text_put(out, text);
	LLVMDisposeMessage(text);
}

static bool
optimise(EmitLlvm *l, const char **why)
{
	if (l->host.quick)
		return true;
	LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
	LLVMErrorRef failed = LLVMRunPasses(l->m, pipeline, l->machine, options);
	LLVMDisposePassBuilderOptions(options);
	if (!failed)
		return true;
	char *text = LLVMGetErrorMessage(failed);
	*why = arena_strdup(l->mem, text);
	LLVMDisposeErrorMessage(text);
	return false;
}

static bool
write_file(EmitLlvm *l, LLVMCodeGenFileType type, LLVMMemoryBufferRef *out, const char **why)
{
	char *complaint = NULL;
	if (LLVMTargetMachineEmitToMemoryBuffer(l->machine, l->m, type, &complaint, out)) {
		*why = arena_message(l->mem, complaint);
		return false;
	}
	if (l->nerrors) {
		*why = l->error;
		LLVMDisposeMemoryBuffer(*out);
	}
	return l->nerrors == 0;
}

static bool
is_sound(EmitLlvm *l, const char **why)
{
	char *complaint = NULL;
	bool sound = !LLVMVerifyModule(l->m, LLVMReturnStatusAction, &complaint);
	if (!sound)
		*why = arena_strdup(l->mem, complaint);
	LLVMDisposeMessage(complaint);
	return sound;
}

bool
llvm_finish(EmitLlvm *l, LLVMCodeGenFileType type, LLVMMemoryBufferRef *out, const char **why)
{
	Escape escape;
	bool ok;
	if (l->di)
		LLVMDIBuilderFinalize(l->di);
	if (setjmp(escape.to)) {
		llvm_escape = NULL;
		*why = arena_strdup(l->mem, escape.why);
		l->m = NULL; /* see above: nothing of it is touched again */
		return false;
	}
	llvm_escape = &escape;
	if (!l->opt.host)
		llvm_hold(l);
	ok = (!l->opt.verify || is_sound(l, why)) && llvm_is_defined(l, why) && optimise(l, why);
	if (ok && l->opt.host)
		llvm_cut(l);
	else if (ok)
		llvm_sums(l);
	ok = ok && write_file(l, type, out, why);
	llvm_escape = NULL;
	return ok;
}

bool
emit_llvm_ptx(EmitLlvm *l, Text *out, const char **why)
{
	LLVMMemoryBufferRef buffer;
	if (!llvm_finish(l, LLVMAssemblyFile, &buffer, why))
		return false;
	text_putn(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
	LLVMDisposeMemoryBuffer(buffer);
	return true;
}

void
emit_llvm_close(EmitLlvm *l)
{
	if (!l || !l->m)
		return;
	if (l->di)
		LLVMDisposeDIBuilder(l->di);
	LLVMDisposeBuilder(l->b);
	LLVMDisposeModule(l->m);
	LLVMDisposeTargetMachine(l->machine);
	LLVMContextDispose(l->cx);
}
