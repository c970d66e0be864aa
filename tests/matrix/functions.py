"""Mathematical functions of floats: values of Python's math, which are libm's in f64, within the errors of docs/math.md."""
import math
import random

from dtypes import DTYPES, FLOATS, columns
from kernels import SIZES, Rows


def guarded(f, poles=()):
    """f with what IEEE 754 gives in place of Python's exceptions; poles: arguments where it is infinite, and its sign."""
    def g(*v):
        if any(a != a for a in v):
            return math.nan
        for at, sign in poles:
            if v[0] == at:
                return sign * math.inf
        try:
            return float(f(*v))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan
    return g


def odd(f):
    """An odd function whose magnitude may overflow."""
    return lambda a: math.copysign(guarded(f)(abs(a)), a) if a == a else a


def expm1(a):
    return -1.0 if a == -math.inf else guarded(math.expm1)(a)


def exp2(a):
    return guarded(lambda a: 2.0 ** a)(a) if a > -1080 or a != a else 0.0


def rsqrt(a):
    if a == 0:
        return math.copysign(math.inf, a)
    return guarded(lambda a: 0.0 if a == math.inf else 1 / math.sqrt(a))(a)


def sigmoid(a):
    if a != a:
        return a
    return 1 / (1 + math.exp(-a)) if a > 0 else guarded(math.exp)(a) / (1 + guarded(math.exp)(a))


def power(a, b):
    """C's pow: Python's raises where it has a pole, and where it is not a number."""
    try:
        return math.pow(a, b)
    except OverflowError:
        odd_whole = b % 2 == 1
        return -math.inf if a < 0 and odd_whole else math.inf
    except ValueError:
        if a != 0:
            return math.nan
        return math.copysign(math.inf, a) if b % 2 == 1 else math.inf


NAMED = {
    "exp": guarded(math.exp), "exp2": exp2, "expm1": expm1, "log": guarded(math.log, [(0, -1)]),
    "log2": guarded(math.log2, [(0, -1)]), "log1p": guarded(math.log1p, [(-1, -1)]), "rsqrt": rsqrt,
    "sqrt": guarded(math.sqrt), "sin": guarded(math.sin), "cos": guarded(math.cos), "tan": guarded(math.tan),
    "tanh": guarded(math.tanh), "sinh": odd(math.sinh), "cosh": lambda a: guarded(math.cosh)(a), "asin": guarded(math.asin),
    "acos": guarded(math.acos), "atan": guarded(math.atan), "erf": guarded(math.erf), "sigmoid": sigmoid,
}
TWO = {"atan2": guarded(math.atan2), "pow": power}
POSITIVE = {"log", "log2", "sqrt", "rsqrt", "pow"}


def spread(t, n):
    """Edges, any, and what functions are used with."""
    rng = random.Random("math %s %d" % (t, n))
    x, y = columns([t, t], n, "math")
    for i in range(n // 2, n):
        x[i] = t.round(rng.uniform(-1, 1) if i % 3 == 0 else rng.uniform(-12, 12) if i % 3 == 1 else rng.uniform(-100, 100))
        y[i] = t.round(rng.uniform(-4, 4))
        x[i] = abs(x[i]) if i % 2 else x[i]
    return [x, y]


def near_two(t, n):
    rng = random.Random("fast %s %d" % (t, n))
    return [[t.round(rng.uniform(0.25, 4)) for _ in range(n)], [t.round(rng.uniform(-2, 2)) for _ in range(n)]]


def units(t):
    return 1 if t.is_narrow else 5


def kernels():
    out = []
    for t in FLOATS:
        tolerance = (t.least * units(t), units(t) * 2.0 ** -t.mantissa)
        k = Rows("math_" + t.name, {"x": t, "y": t}, lambda n, t=t: spread(t, n), metal=t.name != "f64", tolerance=tolerance)
        for name, f in NAMED.items():
            k.add(name, name + "(a)", t, lambda a, b, f=f, t=t: t.round(f(a)))
        for name, f in TWO.items():
            k.add(name, name + "(a, b)", t, lambda a, b, f=f, t=t: t.round(f(a, b)))
        out.append(k)
        rough = (2.0 ** -10, max(2.0 ** -9, 2.0 ** (1 - t.mantissa)))
        k = Rows("fast_" + t.name, {"x": t, "y": t}, lambda n, t=t: near_two(t, n), metal=t.name != "f64", tolerance=rough)
        for name in "exp exp2 log log2 sqrt rsqrt sin cos tan tanh sigmoid".split():
            k.add("fast::" + name, "fast::%s(a)" % name, t, lambda a, b, f=NAMED[name], t=t: t.round(f(a)))
        k.add("fast::pow", "fast::pow(a, b)", t, lambda a, b, t=t: t.round(power(a, b)))
        k.add("fast::div", "fast::div(b, a)", t, lambda a, b, t=t: t.round(b / a))
        out.append(k)
    return out
