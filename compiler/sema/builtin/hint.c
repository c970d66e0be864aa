/* Names of other languages, and what they are called here: names of C, CUDA, NumPy, PyTorch and
 * Triton that are not near enough in spelling to be offered as a correction. */
#include "sema/elab.h"

#include <string.h>

typedef struct Hint {
	const char *name, *help;
} Hint;

static const Hint hints[] = {
	{"float", "write 'f32'"}, {"float32", "write 'f32'"}, {"fp32", "write 'f32'"}, {"double", "write 'f64'"},
	{"float64", "write 'f64'"}, {"fp64", "write 'f64'"}, {"half", "write 'f16'"}, {"float16", "write 'f16'"},
	{"fp16", "write 'f16'"}, {"bfloat16", "write 'bf16'"}, {"float8", "write 'f8e4m3' or 'f8e5m2'"},
	{"fp8", "write 'f8e4m3' or 'f8e5m2'"}, {"float8e4nv", "write 'f8e4m3'"}, {"float8e5", "write 'f8e5m2'"},
	{"float8_e4m3fn", "write 'f8e4m3'"}, {"float8_e5m2", "write 'f8e5m2'"},
	{"int", "write 'i32'"}, {"int8", "write 'i8'"}, {"int16", "write 'i16'"}, {"int32", "write 'i32'"},
	{"int64", "write 'i64'"}, {"long", "write 'i64'"}, {"char", "write 'i8'"}, {"short", "write 'i16'"},
	{"uint", "write 'u32'"}, {"uint8", "write 'u8'"}, {"uint16", "write 'u16'"}, {"uint32", "write 'u32'"},
	{"uint64", "write 'u64'"}, {"unsigned", "write 'u32'"}, {"size_t", "write 'i64'"}, {"int4", "write 'i4'"},
	{"uint4", "write 'u4'"}, {"boolean", "write 'bool'"}, {"int1", "write 'bool'"},
	{"True", "write 'true'"}, {"False", "write 'false'"}, {"INFINITY", "write 'inf'"}, {"NAN", "write 'nan'"},
	{"tl", "operations stand alone: load(p, mask), exp(x)"}, {"triton", "operations stand alone: cdiv(n, BLOCK)"},
	{"np", "operations stand alone: exp(x)"}, {"torch", "operations stand alone: exp(x)"},
	{"math", "operations stand alone: exp(x)"},
	{"maximum", "max(a, b) is elementwise; max(x, axis = 0) reduces"},
	{"fmax", "max(a, b)"}, {"fmaxf", "max(a, b)"},
	{"minimum", "min(a, b) is elementwise; min(x, axis = 0) reduces"}, {"fmin", "min(a, b)"}, {"fminf", "min(a, b)"},
	{"fabs", "abs(x)"}, {"fabsf", "abs(x)"}, {"expf", "exp(x); fast::exp(x) is the approximation"},
	{"__expf", "fast::exp(x)"}, {"logf", "log(x)"}, {"sqrtf", "sqrt(x)"}, {"powf", "pow(x, y)"}, {"rsqrtf", "rsqrt(x)"},
	{"relu", "max(x, 0)"},
	{"softmax", "let e = exp(x - max(x)); e / sum(e)"},
	{"silu", "x * sigmoid(x)"}, {"square", "x * x"},
	{"logsumexp", "let m = max(x); m + log(sum(exp(x - m)))"}, {"var", "let d = x - mean(x); mean(d * d)"},
	{"std", "let d = x - mean(x); sqrt(mean(d * d))"}, {"norm", "sqrt(sum(x * x))"}, {"hypot", "sqrt(x * x + y * y)"},
	{"isnan", "x != x"}, {"isinf", "abs(x) == inf"}, {"isfinite", "abs(x) < inf"},
	{"sign", "(x > 0 ? 1.0 : 0.0) - (x < 0 ? 1.0 : 0.0)"}, {"copysign", "where(y < 0, -abs(x), abs(x))"},
	{"log10", "log(x) * 0.43429448190325176"}, {"exp10", "exp2(x * 3.3219280948873626)"},
	{"fmod", "a % b"}, {"cbrt", "pow(x, 1 / 3.0), of x >= 0"}, {"ldexp", "x * exp2(n as f32)"},
	{"erfc", "1 - erf(x)"}, {"softplus", "log1p(exp(-abs(x))) + max(x, 0)"}, {"reciprocal", "1 / x"},
	{"outer", "a[:, new] * b[new, :]"}, {"einsum", "a @ b over tiles, or sum(a[:, :, new] * b, axis = 1)"},
	{"tril", "where(iota([M, N], 0) >= iota([M, N], 1), x, 0)"},
	{"triu", "where(iota([M, N], 0) <= iota([M, N], 1), x, 0)"},
	{"eye", "(iota([N, N], 0) == iota([N, N], 1)) as f32"}, {"linspace", "start + arange(0, N) * step"},
	{"stack", "join(x, y), or cat(x[new, :], y[new, :])"}, {"flatten", "reshape(x, [N])"},
	{"interleave", "reshape(join(x, y), [N])"}, {"tile", "broadcast_to(x[new, :], [M, N])"},
	{"zeros_like", "zeros([M, N], x.dtype)"}, {"ones_like", "ones([M, N], x.dtype)"},
	{"empty_like", "zeros([M, N], x.dtype)"}, {"full_like", "full([M, N], value, x.dtype)"},
	{"not", "write !x, of bits ~x"}, {"None", "write none, or leave the argument out"},
	{"nullptr", "tensors are never absent"},
	{"astype", "write 'x as f32'"}, {"item", "a tile of one element: x[0]"},
	{"select", "where(c, a, b), or c ? a : b"}, {"concat", "cat(a, b, axis = 0)"},
	{"concatenate", "cat(a, b, axis = 0)"},
	{"transpose", "trans(x), or x.T of a tensor"}, {"view", "reshape(x, [M, N])"},
	{"squeeze", "reshape(x, [N])"}, {"unsqueeze", "x[:, new], or expand_dims(x, 1)"},
	{"repeat", "broadcast_to(x, [M, N])"}, {"expand", "broadcast_to(x, [M, N])"}, {"empty", "zeros([M, N], f32)"},
	{"cast", "write 'x as f32'"}, {"convert", "write 'x as f32'"}, {"to", "write 'x as f32'"},
	{"matmul", "a @ b, or dot(a, b, acc)"}, {"mma", "a @ b, or dot(a, b, acc)"}, {"dot_product", "sum(a * b)"},
	{"reduce_sum", "sum(x, axis = 0)"}, {"reduce_max", "max(x, axis = 0)"}, {"logical_and", "a && b"},
	{"logical_or", "a || b"}, {"logical_not", "!a"}, {"ceildiv", "cdiv(a, b)"}, {"ceil_div", "cdiv(a, b)"},
	{"next_power_of_2", "pow2ceil(n), in the header: <BLOCK = pow2ceil(N)>"}, {"mod", "a % b"}, {"idiv", "a / b"},
	{"static_range", "write 'static for i in range(0, N)'"}, {"len", "a dimension has a name: x: in f32[N]"},
	{"printf", "print(\"text\", values)"}, {"device_print", "print(\"text\", values)"},
	{"device_assert", "assert(condition, \"text\")"},
	{"associative_scan", "scan(x, axis, fn)"}, {"erff", "erf(x)"}, {"tanhf", "tanh(x)"},
	{"gelu", "0.5 * x * (1.0 + erf(x * 0.70710678))"},
	{"threadIdx", "a kernel works on tiles; there are no threads to name"},
	{"blockIdx", "name the grid's axes: grid(row: R)"},
	{"blockDim", "a kernel works on tiles; there are no threads to name"},
	{"shared", "the compiler places tiles; there is no shared memory to declare"},
	{"syncthreads", "programs have no threads to wait for"}, {"__syncthreads", "programs have no threads to wait for"},
};

const char *
name_hint(const char *name)
{
	return VALUE_OF(i, LEN(hints), strcmp(hints[i].name, name) == 0, hints[i].help, NULL);
}
