"""Operators, and builtins that work element by element: what each gives, said in Python's exact numbers."""
import math
from fractions import Fraction

from dtypes import DTYPES, FLOATS, INTS, PLAIN, columns
from kernels import Rows

BOOL = DTYPES["bool"]
F32 = DTYPES["f32"]


# ---- integers ----

def trunc_div(a, b):
    q = abs(a) // abs(b) if b else 0
    return q if (a < 0) == (b < 0) else -q


def unsigned(t, v):
    return v & (1 << t.width) - 1


INT_ROWS = {
    "+": lambda t, a, b: a + b, "-": lambda t, a, b: a - b, "*": lambda t, a, b: a * b,
    "/": lambda t, a, b: trunc_div(a, b), "%": lambda t, a, b: a - b * trunc_div(a, b) if b else a,
    "&": lambda t, a, b: a & b, "|": lambda t, a, b: a | b, "^": lambda t, a, b: a ^ b,
    "<<": lambda t, a, b: a << unsigned(t, b) if unsigned(t, b) < t.width else 0,
    ">>": lambda t, a, b: a >> min(unsigned(t, b), t.width),
}
INT_CALLS = {
    "cdiv(a, b)": lambda t, a, b: -(-a // b) if b else 0, "floordiv(a, b)": lambda t, a, b: a // b if b else 0,
    "div(a, b)": lambda t, a, b: trunc_div(a, b), "umulhi(a, b)": lambda t, a, b: unsigned(t, a) * unsigned(t, b) >> t.width,
    "max(a, b)": lambda t, a, b: max(a, b), "min(a, b)": lambda t, a, b: min(a, b),
    "-a": lambda t, a, b: -a, "+a": lambda t, a, b: a, "~a": lambda t, a, b: ~a, "abs(a)": lambda t, a, b: abs(a),
    "popcount(a)": lambda t, a, b: bin(unsigned(t, a)).count("1"), "clz(a)": lambda t, a, b: t.width - unsigned(t, a).bit_length(),
    "clamp(a, b, 5)": lambda t, a, b: min(max(a, b), 5),
    "clamp(a, 1, b)": lambda t, a, b: min(max(a, 1), b),
    "where(a < b, a, b)": lambda t, a, b: a if a < b else b,
    "where(a, b, 3)": lambda t, a, b: b if a else 3,
}
COMPARE = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
           ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}


def constants(t):
    """Operands known to the compiler, which has other code for them."""
    return [0, 1, 2, 3, 7, 10, t.width - 1, t.high] + ([-1, -3, -8, t.low + 1] if t.is_signed else [])


def literal(v):
    return str(v) if v >= 0 else "(%d)" % v


def integers(t):
    k = Rows("int_" + t.name, {"x": t, "y": t}, lambda n: columns([t, t], n, "int"))
    for op, f in INT_ROWS.items():
        k.add(op, "a %s b" % op, t, lambda a, b, f=f: t.wrap(f(t, a, b)))
    for call, f in INT_CALLS.items():
        k.add(call, call, t, lambda a, b, f=f: t.wrap(f(t, a, b)))
    for op, f in COMPARE.items():
        k.add(op, "a %s b" % op, BOOL, lambda a, b, f=f: int(f(a, b)))
    c = Rows("const_" + t.name, {"x": t}, lambda n: columns([t], n, "const"))
    for v in constants(t):
        for op, f in INT_ROWS.items():
            if op in "/ %" or op in ("<<", ">>") and v >= 0 or v in (3, 7):
                c.add("%s %d" % (op, v), "a %s %s" % (op, literal(v)), t, lambda a, f=f, v=v: t.wrap(f(t, a, v)))
                c.add("%d %s" % (v, op), "(%s as %s) %s a" % (literal(v), t, op), t, lambda a, f=f, v=v: t.wrap(f(t, v, a)))
        for call in ("cdiv", "floordiv"):
            f = INT_CALLS[call + "(a, b)"]
            c.add("%s by %d" % (call, v), "%s(a, %s)" % (call, literal(v)), t, lambda a, f=f, v=v: t.wrap(f(t, a, v)))
    return [k, c]


def bools():
    k = Rows("bools", {"x": BOOL, "y": BOOL}, lambda n: columns([BOOL, BOOL], n, "bool"))
    for op, f in {"&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "&&": lambda a, b: a & b,
                  "||": lambda a, b: a | b, **COMPARE}.items():
        k.add(op, "a %s b" % op, BOOL, lambda a, b, f=f: int(f(a, b)))
    for text, f in {"!a": lambda a, b: 1 - a, "~a": lambda a, b: 1 - a, "max(a, b)": max, "min(a, b)": min, "where(a, b, !b)": lambda a, b: b if a else 1 - b}.items():
        k.add(text, text, BOOL, f)
    i32 = DTYPES["i32"]
    for op in "+-*/%":
        k.add(op, "a %s b" % op, i32, lambda a, b, op=op: INT_ROWS[op](i32, a, b))
    for op in ("<<", ">>"):
        k.add(op, "a %s b" % op, i32, lambda a, b, op=op: INT_ROWS[op](i32, a, b))
    k.add("-a", "-a", i32, lambda a, b: -a)
    k.add("+a", "+a", i32, lambda a, b: a)
    k.add("div", "div(a, b)", i32, lambda a, b: a if b else 0)
    return [k]


# ---- floats ----

def divide(a, b):
    if b:
        return a / b
    return math.nan if a != a or a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)


def remainder(a, b):
    if math.isinf(a) or b == 0 or a != a or b != b:
        return math.nan
    return math.fmod(a, b)


def exact(t, special, f):
    """f of fractions, rounded once to t, narrow types by way of f32; `special` of floats where there is none."""
    work = F32 if t.is_narrow else t

    def g(*v):
        if all(map(math.isfinite, v)):
            try:
                q = f(*map(Fraction, v))
            except ZeroDivisionError:
                q = 0
            if q:
                return t.round(work.round(q) if work is not t else q)
        return t.round(special(*v))
    return g


def fma(a, b, c):
    try:
        return a * b + c
    except OverflowError:
        return math.nan


def order(pick, a, b, nan=False):
    if nan and (a != a or b != b):
        return math.nan
    if a != a or b != b:
        return b if a != a else a
    if a == b:                                      # -0 is below 0
        return pick(a, b, key=lambda v: math.copysign(1, v))
    return pick(a, b)


def whole(f):
    """f(x) as a float: the sign of x stays on zeros, infinities and NaN come through."""
    return lambda a: math.copysign(float(f(a)), a) if math.isfinite(a) else a


UNARY = {
    "-a": lambda a: -a, "+a": lambda a: a, "abs(a)": abs, "floor(a)": lambda a: whole(math.floor)(a) if a else a,
    "ceil(a)": whole(math.ceil), "round(a)": whole(round), "trunc(a)": whole(math.trunc),
}


def floor_(a):
    return float(math.floor(a)) if math.isfinite(a) and a else a


UNARY["floor(a)"] = floor_


def root(t):
    """The square root, rounded once: of the integer that holds three bits more than are kept."""
    def g(a):
        if a != a or a < 0:
            return math.nan
        if a == 0 or a == math.inf:
            return t.round(a)
        q = Fraction(a)
        shift = 2 * (t.mantissa + 4 + max(0, -math.frexp(a)[1]))
        n = q.numerator * (1 << shift) // q.denominator
        r = math.isqrt(n)
        left = r * r * q.denominator != q.numerator << shift
        return t.round(Fraction(2 * r + left, 2 << shift // 2))
    return g


def floats(t):
    kinds = {"x": t, "y": t, "z": t}
    k = Rows("float_" + t.name, kinds, lambda n: columns([t, t, t], n, "float"), metal=t.name != "f64")
    for op, special, f in (("+", lambda a, b: a + b, lambda a, b: a + b), ("-", lambda a, b: a - b, lambda a, b: a - b),
                           ("*", lambda a, b: a * b, lambda a, b: a * b), ("/", divide, lambda a, b: a / b)):
        k.add(op, "a %s b" % op, t, lambda a, b, c, g=exact(t, special, f): g(a, b))
    k.add("div", "div(a, b)", t, lambda a, b, c, g=exact(t, divide, lambda a, b: a / b): g(a, b))
    k.add("%", "a % b", t, lambda a, b, c: t.round(remainder(a, b)))
    k.add("fma", "fma(a, b, c)", t, exact(t, fma, lambda a, b, c: a * b + c))
    for text, f in UNARY.items():
        k.add(text, text, t, lambda a, b, c, f=f: f(a))
    k.add("sqrt", "sqrt(a)", t, lambda a, b, c, f=root(t): f(a))
    for name, pick in (("max", max), ("min", min)):
        k.add(name, name + "(a, b)", t, lambda a, b, c, pick=pick: order(pick, a, b))
        k.add(name + " nan", name + "(a, b, propagate_nan = true)", t, lambda a, b, c, pick=pick: order(pick, a, b, True))
    k.add("clamp", "clamp(a, b, c)", t, lambda a, b, c: order(min, order(max, a, b), c))
    k.add("clamp nan", "clamp(a, b, c, propagate_nan = true)", t,
          lambda a, b, c: order(min, order(max, a, b, True), c, True))
    for op, f in COMPARE.items():
        k.add(op, "a %s b" % op, BOOL, lambda a, b, c, f=f: int(f(a, b)))
    k.add("where", "where(a < b, b, c)", t, lambda a, b, c: b if a < b else c)
    for v in (2.0, 3.0, -0.5):
        k.add("* %g" % v, "a * (%g)" % v, t, lambda a, b, c, v=v, g=exact(t, lambda a, b: a * b, lambda a, b: a * b): g(a, v))
        k.add("%g -" % v, "(%g) - a" % v, t, lambda a, b, c, v=v, g=exact(t, lambda a, b: b - a, lambda a, b: b - a): g(a, v))
        k.add("max %g" % v, "max(a, %g)" % v, t, lambda a, b, c, v=v: order(max, a, v))
    return [k]


def kernels():
    out = bools()
    for t in INTS:
        out += integers(t)
    for t in FLOATS:
        out += floats(t)
    return out
