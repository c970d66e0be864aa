"""Conversions of every type to every other, by `as` and by bitcast."""
import math
import random

from dtypes import DTYPES, PLAIN
from kernels import Rows


def values(t, n):
    """Every value of a small type; of others edges of all types as far as t has them, halves between neighbours of
    narrower floats, and any."""
    if t.width <= 8:
        return [[t.value(i % (1 << t.width)) for i in range(n)]]
    rng = random.Random("cast %s %d" % (t, n))
    some = list(t.edges())
    for other in DTYPES.values():
        if other.is_float:
            for _ in range(4 if other is not t else 0):
                v = other.draw(rng)
                if v == v and abs(v) != math.inf:
                    e = math.ldexp(1, math.frexp(v)[1] - 2 - other.mantissa) if v else other.least / 2
                    some += [v + e, v + e * (1 + 2.0 ** -20), v - e]
            some += [other.most, other.most * (1 + 2.0 ** -(other.mantissa + 2)), other.least / 2, -other.least * 0.75]
        else:
            some += [v + d for v in (other.low, other.high) for d in (-1, 0, 1)] + [other.high + 0.5, other.low - 0.5]
    if t.is_float:
        some = [t.round(float(v) if v in (0, math.inf, -math.inf) or v != v else v, False) for v in some]
    else:
        some = [int(v) for v in some if v == v and abs(v) != math.inf and t.low <= int(v) <= t.high]
    rng.shuffle(some)
    some = (t.edges() + some)[: n - n // 8]
    return [some + [t.draw(rng) for _ in range(n - len(some))]]


def casts(t, wide):
    """To all types but f64, which Metal has not, or to that alone."""
    name = "cast_%s%s" % (t, "_f64" if wide else "")
    k = Rows(name, {"x": t}, lambda n: values(t, n), metal=not wide and t.name != "f64")
    for to in DTYPES.values():
        if (to.name == "f64") != wide or t.is_packed and to is t:
            continue
        k.add("as " + to.name, "a as " + to.name, to, lambda a, to=to: to.of(a, t))
    if not t.is_packed and not t.is_bool:
        for to in PLAIN:
            if to.width == t.width and not (to.is_float and t.is_float) and (to.name == "f64") == wide:
                k.add("bitcast " + to.name, "bitcast(a, %s)" % to.name, to, lambda a, to=to: to.value(t.bits(a)))
    return k


def kernels():
    return [casts(t, wide) for t in DTYPES.values() for wide in (False, True)]
