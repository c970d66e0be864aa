"""What works on whole tiles: shapes, making, reductions, scans, order.  Each kernel is one program with one tile of two
dimensions, friendly or odd; a row of an output has the elements of one result, then zeros."""
import itertools
import math
import random
from fractions import Fraction

from dtypes import BITS, DTYPES, INTS, PLAIN, columns
from elementwise import exact, order
from kernels import Kernel, as_bits, bits_of, shown, store

I32, F32, BOOL = DTYPES["i32"], DTYPES["f32"], DTYPES["bool"]
TILES = {"friendly": (8, 32), "odd": (5, 23)}


class Array:
    """Row-major values of a shape."""

    def __init__(self, shape, values):
        self.shape, self.values = tuple(shape), list(values)
        assert len(self.values) == math.prod(self.shape), (shape, len(self.values))

    @staticmethod
    def make(shape, f):
        return Array(shape, [f(*i) for i in itertools.product(*map(range, shape))])

    def __getitem__(self, index):
        at = 0
        for n, i in zip(self.shape, index):
            at = at * n + i
        return self.values[at]

    def lines(self, axis):
        """The lists along the axis, and the shape of the others."""
        rest = [n for d, n in enumerate(self.shape) if d != axis]
        return rest, [[self[i[:axis] + (j,) + i[axis:]] for j in range(self.shape[axis])]
                      for i in itertools.product(*map(range, rest))]

    def fold(self, axis, f):
        """f of each list along the axis, of all elements if there is none."""
        if axis is None:
            return Array((), [f(self.values)])
        rest, lines = self.lines(axis)
        return Array(rest, map(f, lines))

    def along(self, axis, f):
        """f gives a list for each list along the axis, in its stead."""
        rest, lines = self.lines(axis)
        lines = list(map(f, lines))
        shape = rest[:axis] + [len(lines[0])] + rest[axis:]
        at = dict(zip(itertools.product(*map(range, rest)), lines))
        return Array.make(shape, lambda *i: at[i[:axis] + i[axis + 1 :]][i[axis]])


class Tiles(Kernel):
    def __init__(self, name, label, t, x, y, metal=True, tolerance=None):
        super().__init__("%s_%s_%s" % (name, t.name, label), metal and t.name != "f64")
        self.t, self.x, self.y, self.rows, self.lets, self.tolerance = t, x, y, [], [], tolerance

    def add(self, label, expr, t, want):
        self.rows.append((label, expr, t, want))
        if t.name == "f64":
            self.metal = False

    def uses(self):
        return [(self.t.name, expr) for _, expr, _, _ in self.rows] + [(self.t.name, line) for line in self.lets]

    def text(self, folder):
        outs = {}
        for row in self.rows:
            u = shown(row[2]) if self.tolerance else BITS[shown(row[2]).width]
            outs.setdefault("r%s" % u.name, (u, []))[1].append(row)
        params, lines = ["%s: in %s[%d, %d]" % (n, self.t, *v.shape) for n, v in (("x", self.x), ("y", self.y))], []
        example = ["example %s {" % self.name]
        put = lambda p, t, shape, values: example.append("    %s = %s;" % (p, store(folder, self.name, "", p, t, shape, values)))
        put("x", self.t, self.x.shape, self.x.values)
        put("y", self.t, self.y.shape, self.y.values)
        for name, (u, rows) in outs.items():
            most = max(len(want.values) for *_, want in rows)
            sizes = "%s[%d, %d]" % (u.name, len(rows), most)
            params += ["want_%s: in %s" % (name, sizes), "%s: out %s = 0" % (name, sizes)]
            flat = []
            for k, (label, expr, t, want) in enumerate(rows):
                self.labels[name, k] = label
                n = len(want.values)
                value = expr if self.tolerance else as_bits(expr, t)
                place = "%s[%d, 0 +: %d] = reshape(%s, [%d])" % (name, k, n, value, n) if want.shape else "%s[%d, 0] = %s" % (name, k, value)
                lines.append("    %s;    // %s" % (place, label))
                flat += (want.values if self.tolerance else [bits_of(t, expr, v) for v in want.values]) + [0] * (most - n)
            put("want_" + name, u, (len(rows), most), flat)
        if self.tolerance:
            example.append("    tolerance(%g, %g);" % self.tolerance)
        head = ["kernel %s(%s) {" % (self.name, ", ".join(params)), "    let a = x[:, :];", "    let b = y[:, :];"]
        end = ["}", "reference %s {" % self.name] + ["    %s[:, :] = want_%s[:, :];" % (n, n) for n in outs] + ["}"]
        return "\n".join(head + self.lets + lines + end + example + ["}"]) + "\n"


def tile(t, shape, seed, source=None):
    n = math.prod(shape)
    if source:
        rng = random.Random("%s %s %s" % (t, shape, seed))
        return Array(shape, [source(rng) for _ in range(n)])
    v = columns([t], n, seed)[0]
    random.Random("%s %s" % (t, seed)).shuffle(v)
    return Array(shape, v)


# ---- shapes ----

def shapes(t, label):
    p, q = TILES[label]
    a, b = tile(t, (p, q), "a"), tile(t, (p, q), "b")
    k = Tiles("shape", label, t, a, b)
    flip = lambda axis: a.along(axis, lambda v: v[::-1])
    turned = Array.make((q, p), lambda i, j: a[j, i])
    k.add("reshape", "reshape(a, [%d, %d])" % (q, p), t, Array((q, p), a.values))
    k.add("reshape", "reshape(a, [-1])", t, Array((p * q,), a.values))
    k.add("permute", "permute(a, [1, 0])", t, turned)
    k.add("trans", "trans(a)", t, turned)
    k.add(".T", "a.T", t, turned)
    k.add("broadcast_to", "broadcast_to(a, [2, %d, %d])" % (p, q), t, Array((2, p, q), a.values * 2))
    k.add("expand_dims", "expand_dims(a, 1)", t, Array((p, 1, q), a.values))
    k.add("cat", "cat(a, b)", t, Array((2 * p, q), a.values + b.values))
    k.add("cat", "cat(a, b, axis = 1)", t, Array.make((p, 2 * q), lambda i, j: a[i, j] if j < q else b[i, j - q]))
    k.add("flip", "flip(a)", t, flip(1))
    k.add("flip", "flip(a, axis = 0)", t, flip(0))
    k.add("row", "a[1, :]", t, Array((q,), [a[1, j] for j in range(q)]))
    k.add("part", "a[:, 3 +: 5]", t, Array.make((p, 5), lambda i, j: a[i, j + 3]))
    k.add("full", "full([%d, 3], a[2, 1])" % p, t, Array((p, 3), [a[2, 1]] * (3 * p)))
    k.add("scatter", "scatter(a, 2, b[0, :])", t, Array.make((p, q), lambda i, j: b[0, j] if i == 2 else a[i, j]))
    k.add("zeros", "zeros([%d], %s)" % (q, t), t, Array((q,), [0.0 if t.is_float else 0] * q))
    k.add("ones", "ones([%d], %s)" % (q, t), t, Array((q,), [1.0 if t.is_float else 1] * q))
    k.add("full", "full([%d], %s, %s)" % (q, "true" if t.is_bool else 3, t), t, Array((q,), [t.of(1 if t.is_bool else 3, I32)] * q))
    if t.is_packed:
        return [k]
    k.lets.append("    let (left, right) = split(join(a, b));")
    zero, one = (0.0, 1.0) if t.is_float else (0, 1)
    k.add("roll", "roll(a, 3)", t, a.along(1, lambda v: v[-3:] + v[:-3]))
    k.add("roll", "roll(a, -2, axis = 0)", t, a.along(0, lambda v: v[2:] + v[:2]))
    k.add("shift", "shift(a, 3)", t, a.along(1, lambda v: [zero] * 3 + v[:-3]))
    k.add("shift fill", "shift(a, -1, axis = 0, fill = %s)" % ("true" if t.is_bool else 1), t, a.along(0, lambda v: v[1:] + [one]))
    k.add("join", "join(a, b)", t, Array.make((p, q, 2), lambda i, j, s: (b if s else a)[i, j]))
    k.add("split", "left", t, a)
    k.add("split", "right", t, b)
    k.add("where", "where(iota([%d, %d], 1) %% 3 == 0, a, b)" % (p, q), t,
          Array.make((p, q), lambda i, j: a[i, j] if j % 3 == 0 else b[i, j]))
    if t.is_int:
        k.add("iota", "iota([%d, %d], 1, %s)" % (p, q, t), t, Array.make((p, q), lambda i, j: j))
        k.add("arange", "arange(0, %d) as %s" % (q, t), t, Array((q,), range(q)))
    return [k]


# ---- reductions and scans ----

def sum_type(t):
    if t.is_float:
        return t if t.width >= 32 else F32
    return t if t.width >= 32 else I32


def product(values):
    r = 1
    for v in values:
        r *= v
    return r


def running(f, reverse=False):
    def g(values):
        out, values = [], values[::-1] if reverse else values
        for i, v in enumerate(values):
            out.append(v if i == 0 else f(out[-1], v))
        return out[::-1] if reverse else out
    return g


def small(t):
    """Numbers whose sums are exact in any order."""
    if t.is_float:
        return lambda rng: rng.choice((0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -3.0))
    return None


def units(t):
    """Numbers whose products are."""
    if t.is_float:
        return lambda rng: rng.choice((1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.5))
    return None


AXES = {"0": 0, "1": 1}


def sums(t, label):
    p, q = TILES[label]
    s = sum_type(t)
    a, b = tile(t, (p, q), "a", small(t)), tile(t, (p, q), "b", units(t))
    k = Tiles("sum", label, t, a, b)
    fit = (lambda v: float(v) + 0.0) if t.is_float else s.wrap
    add, multiply = lambda v: fit(sum(v)), lambda v: fit(product(v))
    for text, axis in [("", None)] + [(", axis = %d" % d, d) for d in (0, 1)]:
        k.add("sum" + text, "sum(a%s)" % text, s, a.fold(axis, add))
        k.add("prod" + text, "prod(b%s)" % text, s, b.fold(axis, multiply))
        m = s if t.is_float else F32
        n = p * q if axis is None else (p, q)[axis]
        if t.is_float:                              # of great integers a sum of floats depends on its order
            k.add("mean" + text, "mean(a%s)" % text, m, a.fold(axis, lambda v: m.round(math.fsum(v) / n)))
        if axis is None:
            continue
        k.add("keep_dims" + text, "sum(a%s, keep_dims = true)" % text, s, a.fold(axis, add))
        k.add("cumsum" + text, "cumsum(a%s)" % text, s, a.along(axis, lambda v: [fit(r) for r in running(lambda c, d: c + d)(v)]))
        k.add("cumprod" + text, "cumprod(b%s)" % text, s, b.along(axis, lambda v: [fit(r) for r in running(lambda c, d: c * d)(v)]))
        k.add("cumsum reverse" + text, "cumsum(a%s, reverse = true)" % text, s,
              a.along(axis, lambda v: [fit(r) for r in running(lambda c, d: c + d, True)(v)]))
    if not t.is_float and t.width <= 16:
        k.add("mean", "mean(a, axis = 1)", F32, a.fold(1, lambda v: F32.round(sum(v) / q)))
    if t.is_int:
        k.add("mean", "mean(a % 5, axis = 0)", F32, a.fold(0, lambda v: F32.round(Fraction(sum((c - 5 * (abs(c) // 5) * (1 if c > 0 else -1)) for c in v), p))))
    if not (t.is_float and t.width < 32):
        for axis in (0, 1):
            total = a.fold(axis, lambda v: t.round(math.fsum(v)) + 0.0 if t.is_float else sum(v) % 2 if t.is_bool else t.wrap(sum(v)))
            op = "c ^ d" if t.is_bool else "c + d"
            k.add("reduce", "reduce(a, %d, fn(c, d) => %s)" % (axis, op), t, total)
            step = (lambda c, d: c ^ d) if t.is_bool else (lambda c, d: c + d)
            scan = a.along(axis, lambda v: [r if t.is_bool else t.wrap(r) if t.is_int else r + 0.0 for r in running(step)(v)])
            k.add("scan", "scan(a, %d, fn(c, d) => %s)" % (axis, op), t, scan)
    if not t.is_float:
        xor = lambda v: t.wrap(__import__("functools").reduce(lambda c, d: c ^ d, v))
        for text, axis in (("", None), (", axis = 0", 0), (", axis = 1", 1)):
            k.add("xor_sum" + text, "xor_sum(a%s)" % text, t, a.fold(axis, xor))
    return [k]


def extremes(t, label):
    """max, min, argmax, argmin, any, all, and functions that choose; -0 is below 0, NaN loses unless it is asked for."""
    p, q = TILES[label]
    a = tile(t, (p, q), "a")
    b = tile(t, (p, q), "b", lambda rng: rng.choice(t.edges()) if rng.random() < 0.1 else 0.0 if t.is_float else 0)
    k = Tiles("extreme", label, t, a, b)
    loop = lambda pick, nan=False: lambda v: running(lambda c, d: order(pick, c, d, nan))(v)[-1]
    truth = lambda f: lambda v: int(f(c != 0 for c in v))
    for text, axis in (("", None), (", axis = 0", 0), (", axis = 1", 1)):
        k.add("any" + text, "any(b%s)" % text, BOOL, b.fold(axis, truth(any)))
        k.add("all" + text, "all(a%s)" % text, BOOL, a.fold(axis, truth(all)))
        for name, pick in (("max", max), ("min", min)):
            k.add(name + text, "%s(a%s)" % (name, text), t, a.fold(axis, loop(pick)))
            k.add("arg" + name + text, "arg%s(a%s)" % (name, text), I32, a.fold(axis, first(pick)))
            if t.is_float:
                nan = ", propagate_nan = true"
                k.add(name + nan + text, "%s(a%s%s)" % (name, text, nan), t, a.fold(axis, loop(pick, True)))
                k.add("arg" + name + nan + text, "arg%s(a%s%s)" % (name, text, nan), I32, a.fold(axis, first(pick, True)))
    if not t.is_bool:                               # of bool a function has `|` and `&`
        for axis in (0, 1):
            for name, pick in (("max", max), ("min", min)):
                f = "fn(c, d) => %s(c, d)" % name
                k.add("reduce", "reduce(a, %d, %s)" % (axis, f), t, a.fold(axis, loop(pick)))
                steps = running(lambda c, d: order(pick, c, d))
                k.add("scan", "scan(a, %d, %s)" % (axis, f), t, a.along(axis, steps))
    return [k]


def first(pick, nan=False):
    """The index of the greatest or least; zeros are equal; without numbers the first."""
    def f(v):
        if nan and any(c != c for c in v):
            return next(i for i, c in enumerate(v) if c != c)
        numbers = [c for c in v if c == c]
        return v.index(pick(numbers)) if numbers else 0
    return f


def sort_key(v):
    return (v != v, v if v == v else 0)


def ordered(t, label):
    p, q = TILES[label]
    a = tile(t, (p, q), "a")
    i = tile(t, (p, q), "b", lambda rng: rng.randint(max(t.low, -2), 9)) if t.is_int else a
    k = Tiles("order", label, t, a, i, metal=t.width < 64)      # scatter is an atomic, of which Metal has none of 64 bits
    for axis in (0, 1):
        k.add("sort", "sort(a, axis = %d)" % axis, t, a.along(axis, lambda v: sorted(v, key=sort_key)))
        falling = a.along(axis, lambda v: [c for _, c in sorted(enumerate(v), key=lambda e: (sort_key(e[1]), -e[0]), reverse=True)])
        k.add("sort descending", "sort(a, axis = %d, descending = true)" % axis, t, falling)
    rise = lambda v: [j for j, _ in sorted(enumerate(v), key=lambda e: sort_key(e[1]))]
    for axis in (0, 1):
        k.add("argsort", "argsort(a, axis = %d)" % axis, I32, a.along(axis, rise))
    if not t.is_bool:
        k.lets.append("    let (top, places) = topk(a, 3);")
        places = a.along(1, lambda v: [j for j, _ in sorted(enumerate(v), key=lambda e: (sort_key(e[1]), -e[0]), reverse=True)][:3])
        k.add("topk", "top", t, Array.make((p, 3), lambda r, c: a[r, places[r, c]]))
        k.add("topk", "places", I32, places)
    turn = Array.make((p, q), lambda r, c: a[r, (c * 5 + r) % q])
    k.add("gather", "gather(a, (iota([%d, %d], 1) * 5 + iota([%d, %d], 0)) %% %d, 1)" % (p, q, p, q, q), t, turn)
    scattered(k, t, a, p, q)
    if t.is_int:
        bins = [sum(v == n for v in i.values) for n in range(7)]
        k.add("histogram", "histogram(b, 7)", I32, Array((7,), bins))
        k.add("histogram mask", "histogram(b, 7, mask = b != 2)", I32, Array((7,), [0 if n == 2 else c for n, c in enumerate(bins)]))
        picked = Array.make((p, q), lambda r, c: a[i[r, c], c] if 0 <= i[r, c] < p else 0)
        k.add("gather by " + t.name, "gather(a, b, 0)", t, picked)
    return [k]


def scattered(k, t, a, p, q):
    """Values at indices along the last axis, one of which is outside; the index is the same for all rows."""
    n = 7
    at = lambda j: (j * 5 + 1) % q if j else -1
    values = tile(t, (p, n), "v", small(t))
    k.lets.append("    let places_of = where(iota([%d, %d], 1) == 0, -1, (iota([%d, %d], 1) * 5 + 1) %% %d);" % (p, n, p, n, q))
    source = "b[:, 0 +: %d]" % n
    for op in ("set", "add", "max", "min"):
        def put(r, c, op=op):
            old = a[r, c]
            for j in range(n):
                if at(j) == c:
                    v = k.y[r, j]
                    old = v if op == "set" else plus(t, old, v) if op == "add" else order(max if op == "max" else min, old, v)
            return old
        if op == "set" or not t.is_bool:
            expr = "scatter(a, places_of, %s, axis = 1, op = %s)" % (source, op)
            # of the two zeros either may be the greatest
            k.add("scatter " + op, "positive_zero(%s)" % expr if t.is_float else expr, t,
                  Array.make((p, q), lambda r, c: put(r, c) + 0.0 if t.is_float else put(r, c)))


def plus(t, a, b):
    if not t.is_float:
        return t.wrap(a + b)
    return a if math.isinf(a) else exact(t, lambda a, b: a + b, lambda a, b: a + b)(a, b)


def kernels():
    out = []
    for label in TILES:
        for t in DTYPES.values():
            out += shapes(t, label)
        for t in PLAIN:
            out += sums(t, label) + extremes(t, label) + ordered(t, label)
    return out
