"""Pointers, gathers, fills and atomics."""
import random

from dtypes import DTYPES, PLAIN, columns
from kernels import Kernel, Rows, store

ATOMIC = [DTYPES[n] for n in "i32 i64 u32 u64 f16 bf16 f32 f64".split()]


# The places that the rows of one kernel stand for are its indices, of which i32 has enough.
class Pointers(Rows):
    """Rows of what is read through a pointer to x's elements, and a copy of x through another."""

    def uses(self):
        t = self.inputs["x"].name
        return [(t, expr) for _, expr, _, _ in self.rows] + [(t, "store()"), (t, "prefetch()")]

    def text(self, folder):
        t = self.inputs["x"].name
        s = super().text(folder)
        s = s.replace("(x: in", "(p: *%s, q: *mut %s, n: i32, x: in" % (t, t), 1)
        s = s.replace("    let a = ", "    let at = i + arange(0, B);\n    let m = at < n;\n    prefetch(x[i +: B]);\n    prefetch(p + at);\n"
                      "    store(q + at, load(p + at, m), m);\n    let a = ", 1)
        s = s.replace("reference %s {\n" % self.name, "reference %s {\n    q[:] = x[:];\n" % self.name)
        for label, (n, _) in self.sizes.items():
            file = 'file("%s_%s_x.npy")' % (self.name, label)
            s = s.replace("    x = %s;" % file, "    p = %s; q = zeros([%d]%s); n = %d;\n    x = %s;" % (
                file, n, "" if self.inputs["x"].is_float else ", " + t, n, file))
        return s


def pointers(t):
    place = DTYPES["i32"]

    def data(n):
        return [columns([t], n, "memory")[0], list(range(n))]

    k = Pointers("pointer_" + t.name, {"x": t, "y": place}, data, metal=t.name != "f64")
    zero, one = (0.0, 1.0) if t.is_float else (0, 1)
    fill = "true" if t.is_bool else "1"
    # b is a's place
    k.add("load", "load(p + at, m)", t, lambda a, b: a)
    k.add("load mask", "load(p + at, m && at % 3 == 1)", t, lambda a, b: a if b % 3 == 1 else zero)
    k.add("load other", "load(p + at, m && at %% 3 == 1, %s)" % fill, t, lambda a, b: a if b % 3 == 1 else one)
    k.add("load cache", "load(p + at, m, cache_modifier = cg, eviction_policy = evict_first)", t, lambda a, b: a)
    k.add("gather", "x[at]", t, lambda a, b: a)
    k.add("gather some", "x[where(at % 5 == 2, at, -1)]", t, lambda a, b: a if b % 5 == 2 else zero)
    k.add("gather else", "x[where(at %% 5 == 2, at, -1)] else %s" % fill, t, lambda a, b: a if b % 5 == 2 else one)
    k.add("else", "x[i +: B] else %s" % fill, t, lambda a, b: a)
    return k


class Atomics(Kernel):
    """One program of B elements; eight places take them all, or each element has its own."""
    COUNT = {"friendly": 64, "odd": 45}
    PLACES = 8

    def __init__(self, t, label):
        super().__init__("atomic_%s_%s" % (t, label), t.width < 64)
        self.t, self.label, self.rows = t, label, []
        rng = random.Random("atomic %s" % t)
        n = self.COUNT[label]
        self.x = [float(rng.randint(-4, 4)) for _ in range(n)] if t.is_float else columns([t], n, "atomic")[0]

    def add(self, op, start, f):
        self.rows.append((op, start, f))

    def text(self, folder):
        t, n = self.t, len(self.x)
        params, lines, reference, example = ["x: in %s[%d]" % (t, n)], [], [], []
        example.append("    x = %s;" % store(folder, self.name, "", "x", t, (n,), self.x))
        for op, start, f in self.rows:
            shared = f is not None
            size = self.PLACES if shared else n
            name = "s_" + op
            params.append("%s: out %s[%d] = %s" % (name, t, size, start))
            if shared:
                lines.append("    atomic_%s(%s[at %% %d], a, order = relaxed);" % (op, name, size))
                want = [t.value(t.bits(start if not t.is_float else float(start)))] * size
                for i, v in enumerate(self.x):
                    want[i % size] = f(want[i % size], v)
            else:
                # old values are the fill, the new ones stay where they were asked for
                compare = "a, where(at % 2 == 0, {0}, {1})" if op == "cas" else "a"
                args = "full([%d], %d, %s), a" % (n, start, t) if op == "cas" else "a"
                params.append("old_%s: out %s[%d]" % (op, t, n))
                lines.append("    old_%s[:] = atomic_%s(%s[where(at %% 3 == 1, -1, at)], %s, scope = cta);" % (op, op, name, args))
                one = t.value(t.bits(float(start) if t.is_float else start))
                want = [one if i % 3 == 1 else v for i, v in enumerate(self.x)]
                old = [t.of(0, DTYPES["i32"]) if i % 3 == 1 else one for i in range(n)]
                params.append("want_old_%s: in %s[%d]" % (op, t, n))
                reference.append("    old_%s[:] = want_old_%s[:];" % (op, op))
                example.append("    want_old_%s = %s;" % (op, store(folder, self.name, "old", op, t, (n,), old)))
            params.append("want_%s: in %s[%d]" % (op, t, size))
            reference.append("    %s[:] = want_%s[:];" % (name, op))
            example.append("    want_%s = %s;" % (op, store(folder, self.name, "want", op, t, (size,), want)))
        return "\n".join(["kernel %s(%s) {" % (self.name, ", ".join(params)), "    let a = x[:];",
                          "    let at = arange(0, %d);" % n] + lines + ["}", "reference %s {" % self.name] + reference +
                         ["}", "example %s {" % self.name] + example + ["}"]) + "\n"

    def uses(self):
        return [(self.t.name, "atomic_%s()" % op) for op, *_ in self.rows]


def atomics(t, label):
    k = Atomics(t, label)
    fit = t.round if t.is_float else t.wrap
    k.add("add", 0, lambda a, b: fit(a + b))
    k.add("min", 2, min)
    k.add("max", 1, max)
    if t.is_int:
        k.add("and", 255, lambda a, b: a & b)
        k.add("or", 1, lambda a, b: a | b)
        k.add("xor", 3, lambda a, b: a ^ b)
    k.add("exchange", 5, None)
    if t.name not in ("f16", "bf16"):
        k.add("cas", 6, None)
    return k


def kernels():
    return [pointers(t) for t in PLAIN] + [atomics(t, label) for t in ATOMIC for label in Atomics.COUNT]
