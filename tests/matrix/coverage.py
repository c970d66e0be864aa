"""What the rules cover, held against the compiler's own tables: every builtin of sema/builtin/builtins.def and every operator of
ast/ast.h has a rule; and what a rule leaves out of the types, the compiler refuses."""
import os
import re
import subprocess
import tempfile

from dtypes import DTYPES, TOP

# A use of each with tiles a and b of eight elements of the type T; None: no type of elements has a say in it.
USES = {
    "arange": None, "zeros": "zeros([4], T)", "ones": "ones([4], T)", "full": "full([4], a[0])", "iota": "iota([4], 0, T)",
    "reshape": "reshape(a, [2, 4])", "permute": "permute(a[new, :], [1, 0])", "trans": "trans(a[new, :])",
    "broadcast_to": "broadcast_to(a, [2, 8])", "expand_dims": "expand_dims(a, 0)", "cat": "cat(a, b)", "join": "join(a, b)",
    "split": "split(join(a, b))", "flip": "flip(a)", "roll": "roll(a, 1)", "shift": "shift(a, 1)",
    "where": "where(iota([8], 0) < 3, a, b)", "fma": "fma(a, b, a)", "clamp": "clamp(a, b, b)", "bitcast": "bitcast(a, T)",
    "pow2ceil": None, "dot": "dot(a[:, new], b[new, :])",
    "dot_scaled": "dot_scaled(a[new, :], full([1, 1], 127, u8), reshape(b, [8, 1]), full([1, 1], 127, u8))",
    "reduce": "reduce(a, 0, fn(p, q) => p)", "scan": "scan(a, 0, fn(p, q) => p)", "topk": "topk(a, 2)",
    "histogram": "histogram(a, 4)", "gather": "gather(a, iota([8], 0), 0)",
    "scatter": "scatter(a, iota([8], 0), b)", "load": "load(p + iota([8], 0))", "store": "store(p + iota([8], 0), a)",
    "prefetch": "prefetch(p + iota([8], 0))", "atomic_cas": "atomic_cas(p, a[0], b[0])",
    "rand": "rand(0, a)", "randn": "randn(0, a)", "randint": "randint(0, a)", "philox": "philox(0, a)",
    "program_id": None, "num_programs": None, "assert": None, "static_assert": None, "print": None, "inline_ptx": None,
    "normal": None, "uniform": None, "integers": None, "permutation": None, "file": None,
}
ONE = ("argsort abs exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan erf sigmoid floor ceil round "
       "trunc popcount clz sum prod mean argmax argmin any all xor_sum cumsum cumprod sort").split()
TWO = "atan2 pow div cdiv floordiv umulhi max min".split()
USES.update({name: name + "(a)" for name in ONE})
USES.update({name: name + "(a, b)" for name in TWO})
USES.update({"atomic_" + op: "atomic_%s(p, a[0])" % op for op in "add min max and or xor exchange".split()})


def builtins():
    with open(os.path.join(TOP, "compiler/sema/builtin/builtins.def")) as f:
        return re.findall(r'^BUILTIN\("(\w+)"', f.read(), re.M)


def operators():
    with open(os.path.join(TOP, "compiler/ast/ast.h")) as f:
        text = f.read()
    binary = text[text.index("#define BINARY_OPS") : text.index("typedef enum UnaryOp")]
    unary = text[text.index("#define UNARY_OPS") : text.index("#define BINARY_OPS")]
    return re.findall(r'X\(\w+, "([^"]+)"\)', unary), re.findall(r'X\(\w+, "([^"]+)", \d+\)', binary)


def covered(kernels):
    """(name, type) of what the rows compute; (name, None) of what is written anywhere."""
    out = set()
    for k in kernels:
        for t, expr in k.uses():
            names = re.findall(r"(?<![:\w])(\w+)\(", expr) + re.findall(r"^\(*a (\S{1,2}) b\b", expr) + \
                ["u" + op for op in re.findall(r"^([-+!~])a$", expr)]
            out |= {(n, t) for n in names} | {(n, None) for n in names}
    return out


def misuses(seen):
    """For each type a kernel with a line for each use that no rule has: (type, [(name, text)])."""
    unary, binary = operators()
    uses = {n: u for n, u in USES.items() if u}
    uses.update({op: "a %s b" % op for op in binary if op != "@"})
    uses["@"] = "a[:, new] @ b[new, :]"
    uses.update({"u" + op: op + "a" for op in unary})
    for t in DTYPES.values():
        yield t, [(n, u) for n, u in uses.items() if (n, t.name) not in seen]


def missing(seen):
    names = builtins()
    unary, binary = operators()
    say = ["%s has no rule: add one to tests/matrix" % n for n in names if n not in USES or (n, None) not in seen]
    say += ["the operator %s has no rule" % op for op in binary if (op, None) not in seen]
    say += ["the operator %s has no rule" % op for op in unary if ("u" + op, None) not in seen]
    say += ["%s is in coverage.py, but no builtin" % n for n in USES if n not in names]
    return say


def taken(tegula, seen):
    """Uses without a rule that the compiler takes nonetheless."""
    say = []
    for t, lines in misuses(seen):
        pointer = "p: *mut %s, " % t if not t.is_packed else ""
        text = "kernel k(%sx: in %s[8], z: in %s[8]) {\n    let a = x[:]; let b = z[:];\n" % (pointer, t, t)
        text += "".join("    %s%s;\n" % ("" if u.startswith(("store", "prefetch")) else "let v%d = " % i, re.sub(r"\bT\b", t.name, u))
                        for i, (_, u) in enumerate(lines)) + "}\n"
        with tempfile.NamedTemporaryFile("w", suffix=".tgl") as f:
            f.write(text)
            f.flush()
            r = subprocess.run([tegula, "build", "--emit=tir", "--max-errors=0", f.name], capture_output=True, text=True)
        wrong = {int(n) for n in re.findall(r":(\d+):\d+: error", r.stderr)}
        say += ["%s takes %s, but no rule does" % (n, t) for i, (n, _) in enumerate(lines) if i + 3 not in wrong]
    return say
