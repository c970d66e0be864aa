"""Kernels as text, their inputs and the results that they must have as files.

A kernel of `Rows` computes many things of the same inputs, a row of an output for each; rows are compared as bits, so that
NaN, signs of zeros and 64-bit integers count, or as floats within a tolerance:

    kernel int_i8<B = 64>(x: in i8[N], y: in i8[N], want8: in u8[2, N], r8: out u8[2, N]) grid(g: cdiv(N, B)) {
        let i = g * B;
        let a = x[i +: B];
        let b = y[i +: B];
        r8[0, i +: B] = bitcast(a + b, u8);                // +
        r8[1, i +: B] = (a == b) as u8;                    // ==
    }
    reference int_i8 { r8[:, :] = want8[:, :]; }
    example int_i8 "friendly" { N = 256; B = 64; x = file("int_i8_friendly_x.npy"); ... }

`want8` is read by the reference alone."""
import os
import re

from dtypes import BITS, DTYPES, write_npy

SIZES = {"friendly": (256, 64), "odd": (203, 40)}


def as_bits(expr, t):
    """The text of a result's bits, NaN as the one of DType.nan."""
    if t.is_bool:
        return "(%s) as u8" % expr
    if t.name == "f4e2m1":
        return as_bits("(%s) as f32" % expr, DTYPES["f32"])
    if t.is_packed:
        return as_bits("(%s) as i8" % expr, DTYPES["i8"])
    u = BITS[t.width].name
    if t.is_float:
        return "nan_bits(%s, %s, %d)" % ("positive_zero(%s)" % expr if zeros_alike(expr) else expr, u, t.nan)
    return "bitcast(%s, %s)" % (expr, u)


def zeros_alike(expr):
    """Metal does not say which of two zeros is the greater."""
    return Kernel.for_metal and re.search(r"\b(max|min|clamp)\(", expr)


def bits_of(t, expr, v):
    return shown(t).bits(v + 0.0 if t.is_float and zeros_alike(expr) else v)


def shown(t):
    """The type whose bits as_bits gives."""
    return DTYPES["f32"] if t.name == "f4e2m1" else DTYPES["i8"] if t.is_packed else t


class Kernel:
    """name; metal: whether Metal has all of it; examples are (label, lines)."""
    tolerance = None
    for_metal = False                               # of all kernels: made for Metal

    def __init__(self, name, metal=True):
        self.name, self.metal = name, metal
        self.labels = {}                            # output and row: what the row shows

    def uses(self):
        """What it computes, as (name of a type, text): for coverage.py."""
        raise NotImplementedError


class Rows(Kernel):
    def __init__(self, name, inputs, data, sizes=SIZES, metal=True, tolerance=None):
        """inputs: names and types; data(n): their columns."""
        super().__init__(name, metal)
        self.inputs, self.data, self.sizes, self.tolerance = inputs, data, sizes, tolerance
        self.rows = []

    def add(self, label, expr, t, want):
        """A row: expr is of type t; want(*values of the inputs) gives what an element is."""
        self.rows.append((label, expr, t, want))

    def uses(self):
        said = [e for label, expr, _, _ in self.rows for e in (expr, label + "()")]
        return [(t.name, e) for e in said for t in self.inputs.values()] + [(None, "file()")]

    def outputs(self):
        """Output names with the rows that they have: one for each width of bits, or for each type of floats."""
        out = {}
        for row in self.rows:
            t = shown(row[2])
            u = t if self.tolerance else BITS[t.width]
            out.setdefault("r%s" % u.name, (u, []))[1].append(row)
        return out

    def text(self, folder):
        outs, ins = self.outputs(), list(self.inputs.items())
        params = ["%s: in %s[N]" % (n, t.name) for n, t in ins]
        for name, (u, rows) in outs.items():
            params += ["want_%s: in %s[%d, N]" % (name, u.name, len(rows)), "%s: out %s[%d, N]" % (name, u.name, len(rows))]
        lines = ["kernel %s<B = 64>(%s) grid(g: cdiv(N, B)) {" % (self.name, ", ".join(params)), "    let i = g * B;"]
        lines += ["    let %s = %s[i +: B];" % (short, n) for short, (n, _) in zip("abc", ins)]
        for name, (u, rows) in outs.items():
            for k, (label, expr, t, _) in enumerate(rows):
                self.labels[name, k] = label
                lines.append("    %s[%d, i +: B] = %s;    // %s" % (
                    name, k, expr if self.tolerance else as_bits(expr, t), label))
        lines += ["}", "reference %s {" % self.name]
        lines += ["    %s[:, :] = want_%s[:, :];" % (n, n) for n in outs] + ["}"]
        for label, (n, block) in self.sizes.items():
            lines += self.example(folder, label, n, block, ins, outs)
        return "\n".join(lines) + "\n"

    def example(self, folder, label, n, block, ins, outs):
        columns = self.data(n)
        lines = ['example %s "%s" {' % (self.name, label), "    N = %d; B = %d;" % (n, block)]
        put = lambda p, t, shape, values: lines.append("    %s = %s;" % (p, store(folder, self.name, label, p, t, shape, values)))
        for (p, t), values in zip(ins, columns):
            put(p, t, (n,), values)
        for name, (u, rows) in outs.items():
            flat = [want(*v) for _, _, _, want in rows for v in zip(*columns)]
            if not self.tolerance:
                flat = [bits_of(t, e, v) for (_, e, t, _), v in zip((r for r in rows for _ in range(n)), flat)]
            put("want_" + name, u, (len(rows), n), flat)
        if self.tolerance:
            lines.append("    tolerance(%g, %g);" % self.tolerance)
        return lines + ["}"]


def store(folder, kernel, label, param, t, shape, values):
    name = "%s_%s_%s.npy" % (kernel, label, param)
    write_npy(os.path.join(folder, name), t, shape, values)
    return 'file("%s")' % name


HELPERS = """fn positive_zero(v) => where(v == 0, 0, v);
fn nan_bits(v, const U, const NAN) => where(v == v, bitcast(v, U), NAN as U);
fn word(seed, at, const i) {
    let (a, b, c, d) = philox(seed, at);
    static if i == 0 { return a; }
    static if i == 1 { return b; }
    static if i == 2 { return c; }
    return d;
}
"""


def write_file(path, kernels):
    folder = os.path.dirname(path)
    with open(path, "w") as f:
        f.write(HELPERS + "".join(k.text(folder) for k in kernels))
