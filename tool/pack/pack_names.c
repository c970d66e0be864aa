/* Names of C and C++ that a pack's own must not be.
 *
 * A function of a kernel, or of the pack, is declared beside those of the headers that NAME.c includes, and
 * linked beside those of libc: a name of theirs is refused, as the caller has to spell it.  A parameter only
 * hides such a function.  One that is a keyword, a macro, or a name that the function's body uses gets a `_`. */
#include "tool/pack/pack.h"

#include <string.h>

static const char keywords[] =
    " auto break case char const continue default do double else enum extern float for goto if inline int long register"
    " restrict return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool _Complex"
    " _Imaginary _Alignas _Alignof _Atomic _Generic _Noreturn _Static_assert _Thread_local typeof typeof_unqual"
    " bool true false asm class catch constexpr consteval constinit const_cast delete dynamic_cast explicit export friend"
    " mutable namespace new noexcept nullptr operator private protected public reinterpret_cast static_cast template this"
    " throw try typeid typename using virtual wchar_t and or not xor and_eq or_eq not_eq xor_eq bitand bitor compl alignas"
    " alignof char8_t char16_t char32_t decltype static_assert thread_local concept requires co_await co_return co_yield ";

/* Python's keyword.kwlist */
static const char python_keywords[] =
    " False None True and as assert async await break class continue def del elif else except finally for from global if"
    " import in is lambda nonlocal not or pass raise return try while with yield ";

/* Of the headers that programs include before NAME.h most. */
static const char macros[] =
    " NULL EOF BUFSIZ NAN INFINITY HUGE_VAL SNAN I complex imaginary errno stdin stdout stderr assert offsetof alloca unix"
    " linux major minor CHAR_BIT M_PI M_E TRUE FALSE isnan isinf isfinite isnormal signbit va_arg va_end va_start va_copy"
    " memcpy cx stream call ";

/* Of the headers of NAME.c, less those of floats and long doubles (sinf, sinl). */
static const char functions[] =
    " main abs labs llabs div ldiv atexit atof atoi atol bsearch calloc malloc realloc free exit abort getenv setenv system"
    " qsort rand srand random srandom drand48 mktemp mkstemp realpath reallocarray valloc strtod strtol strtoul"
    " acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1 fabs fdim floor fma"
    " fmax fmin fmod frexp gamma lgamma tgamma hypot ilogb ldexp llrint llround log log10 log1p log2 logb lrint lround modf"
    " nan nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalb scalbn scalbln significand sin"
    " sincos sinh sqrt tan tanh trunc drem finite j0 j1 jn y0 y1 yn fadd fsub fmul fdiv ffma fsqrt totalorder canonicalize"
    " fclose fdopen feof ferror fflush fgetc fgets fopen fprintf fputc fputs fread freopen fscanf fseek ftell fwrite getc"
    " getchar getline getw pclose perror popen printf putc putchar puts putw remove rename rewind scanf setbuf snprintf"
    " sprintf sscanf tmpfile tmpnam ungetc vprintf asprintf dprintf"
    " memchr memcmp memmove memset memmem mempcpy bcmp bcopy bzero index rindex ffs strcat strchr strcmp strcpy strdup"
    " strlen strncat strncmp strncpy strndup strnlen strpbrk strrchr strsep strspn strcspn strstr strtok swab basename"
    " access acct alarm brk sbrk chdir chown chroot close confstr crypt daemon dup execl execv fork fsync ftruncate getcwd"
    " getpid getppid getuid isatty link lockf lseek nice open pathconf pause pipe pread profil pwrite read readlink rmdir"
    " select setsid sleep symlink sync syscall sysconf truncate ttyname ualarm unlink usleep vfork write kill wait signal"
    " clock clone time ctime gmtime localtime mktime strftime getopt unshare"
    " aio_error argp_error fts_close fts_open gai_error iconv_close iconv_open mq_close mq_open pidfd_open"
    " sem_close sem_open shm_open"
    " mmap munmap mprotect mremap msync mlock madvise mincore dlopen dlsym dlclose dlerror ";

static bool
has(const char *words, const char *name)
{
	char word[100];
	return (size_t)snprintf(word, sizeof word, " %s ", name) < sizeof word && strstr(words, word);
}

/* NAME.c's own names, and types. */
static bool
is_inner(const char *name)
{
	size_t n = strlen(name);
	return strncmp(name, "tgp", 3) == 0 || strncmp(name, "Tgp", 3) == 0 || strncmp(name, "TGP", 3) == 0 ||
	    strncmp(name, "tgh", 3) == 0 || (n > 2 && strcmp(name + n - 2, "_t") == 0) || strncmp(name, "__", 2) == 0;
}

static bool
is_variant(const char *name)
{
	char base[100];
	size_t n = strlen(name);
	if (n < 2 || n >= sizeof base || (name[n - 1] != 'f' && name[n - 1] != 'l'))
		return false;
	memcpy(base, name, n - 1);
	base[n - 1] = 0;
	return has(functions, base);
}

bool
pack_is_reserved(const char *name)
{
	return has(keywords, name) || has(macros, name) || has(functions, name) || is_variant(name) || is_inner(name);
}

static bool
is_of_kernel(const Kernel *k, const char *name)
{
	bool found = symbol_named(k, name) >= 0;
	for (int i = 0; i < k->params.n; i++)
		found |= strcmp(k->params.at[i].name, name) == 0;
	return found;
}

const char *
pack_c_name(const Kernel *k, const char *name, Arena *mem)
{
	if (!has(keywords, name) && !has(macros, name) && !is_inner(name) && strcmp(name, k->name) != 0)
		return name;
	do
		name = arena_printf(mem, "%s_", name);
	while (is_of_kernel(k, name));
	return name;
}

const char *
pack_python_name(const Kernel *k, const char *name, Arena *mem)
{
	bool is_other = has(python_keywords, name);
	while (is_other) {
		name = arena_printf(mem, "%s_", name);
		is_other = false;
		for (int i = 0; i < k->params.n; i++)
			is_other |= pack_is_given(&k->params.at[i]) && strcmp(k->params.at[i].name, name) == 0;
	}
	return name;
}

const char *
pack_strides_name(const Kernel *k, const char *name, Arena *mem)
{
	name = arena_printf(mem, "%s_strides", name);
	while (is_of_kernel(k, name))
		name = arena_printf(mem, "%s_", name);
	return name;
}
