"""Random numbers, compile-time values, what a program knows of itself, and what fills examples."""
import math
import random
from fractions import Fraction

from dtypes import DTYPES, FLOATS, INTS, columns
from elementwise import trunc_div
from functions import NAMED, power
from kernels import Kernel, Rows

F32, I32, U32 = DTYPES["f32"], DTYPES["i32"], DTYPES["u32"]


def philox(seed, offset):
    """Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, 2011), the key of two words, the counter of four."""
    c = [offset & 0xFFFFFFFF, offset >> 32 & 0xFFFFFFFF, 0, 0]
    k = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(word):
    word = I32.value(word)
    magnitude = F32.round(Fraction(-1 - word if word < 0 else word)) if word not in (0, -1) else 0.0
    return F32.round(Fraction(magnitude) * Fraction(F32.round(4.6566127342e-10))) if magnitude else 0.0


def normal(words):
    u, w = max(uniform(words[0]), F32.round(1.0e-7)), uniform(words[1])
    return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * w)


def randoms(t):
    seed = t.high // 3 if t.width < 64 or not t.is_signed else t.low + 5
    text = "(%d as %s)" % (seed, t)
    k = Rows("random_" + t.name, {"x": t}, lambda n: columns([t], n, "random"))
    for i in range(4):
        words = ["_", "_", "_", "_"]
        words[i] = "w"
        k.add("philox", "word(%s, a, %d)" % (text, i), U32, lambda a, i=i: philox(seed, a)[i])
    k.add("randint", "randint(%s, a)" % text, I32, lambda a: I32.value(philox(seed, a)[0]))
    k.add("rand", "rand(%s, a)" % text, F32, lambda a: uniform(philox(seed, a)[0]))
    near = Rows("randn_" + t.name, {"x": t}, lambda n: columns([t], n, "random"), tolerance=(3e-6, 3e-6))
    near.add("randn", "randn(%s, a)" % text, F32, lambda a: F32.round(normal(philox(seed, a))))
    return [k, near]


class Text(Kernel):
    """A kernel that is written out."""

    def __init__(self, name, text, metal=True):
        super().__init__(name, metal)
        self.body = text

    def uses(self):
        return [(None, self.body)]

    def text(self, folder):
        return self.body


def folded():
    """Builtins of compile-time numbers."""
    real = [("%s(0.75)" % f, NAMED[f](0.75)) for f in NAMED]
    real += [("pow(1.5, -2.5)", power(1.5, -2.5)), ("atan2(-1.0, 2.0)", math.atan2(-1, 2)), ("fma(2.0, 3.0, 0.5)", 6.5),
             ("div(1.0, 8.0)", 0.125), ("abs(-2.5)", 2.5), ("floor(-2.5)", -3), ("ceil(-2.5)", -2), ("round(2.5)", 2),
             ("trunc(-2.5)", -2), ("max(1.5, 2)", 2), ("min(1.5, 2)", 1.5), ("clamp(7.0, 1, 3)", 3),
             ("1 / 3.0", 1 / 3), ("7.5 % 2", 1.5), ("max(nan, 1.0)", 1), ("(1 < 2) ? 4.0 : 5.0", 4)]
    whole = [("cdiv(-7, 2)", -3), ("floordiv(-7, 2)", -4), ("-7 / 2", trunc_div(-7, 2)), ("-7 % 2", -1), ("pow2ceil(5)", 8),
             ("pow2ceil(0)", 1), ("abs(-9223372036854775807)", 2 ** 63 - 1), ("max(-3, 2)", 2), ("min(-3, 2)", -3),
             ("clamp(-5, -3, 9)", -3), ("1 << 40", 1 << 40), ("-5 >> 1", -3), ("6 & 3 | 8 ^ 1", 6 & 3 | 8 ^ 1), ("~5", -6),
             ("log2(1024)", 10), ("where(3 > 2, 5, 6)", 5), ("1_000 * 0x10 + 0b11 - 0o7", 16000 + 3 - 7),
             ("!(1 == 2) && (3 != 4 || 1 >= 2) && 1 <= 1 ? 7 : 8", 7)]
    lines = ["    y[%d] = %s;" % (i, e) for i, (e, _) in enumerate(real)]
    lines += ["    z[%d] = %s;" % (i, e) for i, (e, _) in enumerate(whole)]
    lines += ["    static_assert(%s == %d);" % (e, v) for e, v in whole if "?" not in e]
    return Text("folded", "kernel folded(y: out f32[%d], z: out i64[%d]) {\n%s\n}\nreference folded {\n    y[:] = [%s];\n    z[:] = [%s];\n}\n"
                "example folded { tolerance(1e-9, 2e-7); }\n" % (
                    len(real), len(whole), "\n".join(lines), ", ".join("%.17g" % v for _, v in real),
                    ", ".join(str(v) for _, v in whole)))


def filled(t):
    """What fills parameters of this type in examples: within its limits, and not all the same."""
    if t.is_int:
        low, high = max(t.low, -100), min(t.high, 100)
        tests = ["all(x[:] >= %d && x[:] < %d)" % (low, high), "any(x[:] < %d)" % (low + 20), "any(x[:] >= %d)" % (high - 20),
                 "all(sort(y[:]) == (arange(0, 100) as %s))" % t, "any(y[:] != (arange(0, 100) as %s))" % t,
                 "all(z[:] == (arange(0, 100) as %s))" % t]
        fill = "x = integers(%d, %d); y = permutation(100); z = arange;" % (low, high)
    else:
        tests = ["all(x[:] >= -2 && x[:] <= 3)", "any(x[:] < 0)", "any(x[:] > 1)", "all(abs(y[:] as f32) < 8)",
                 "abs(mean(y[:] as f32)) < 0.5", "abs(mean((y[:] as f32) * (y[:] as f32)) - 1) < 0.7", "all(z[:] == 0.5)"]
        fill = "x = uniform(-2, 3); y = normal(0, 1); z = 0.5;"
    lines = ["    ok[%d] = %s;" % (i, e) for i, e in enumerate(tests)]
    return Text("filled_" + t.name, "kernel filled_%s(x: in %s[100], y: in %s[100], z: in %s[100], ok: out bool[%d]) {\n%s\n}\n"
                "reference filled_%s { ok[:] = true; }\nexample filled_%s { %s }\n" % (
                    t, t, t, t, len(tests), "\n".join(lines), t, t, fill), t.name != "f64")


PROGRAM = """
kernel programs(y: out i64[3, 5, 8]) grid(i: 3, j: 5) {
    assert(i < 3 && j < 5, "outside", i);
    y[i, j, 0] = program_id(0);
    y[i, j, 1] = program_id(1);
    y[i, j, 2] = program_id(2);
    y[i, j, 3] = num_programs(0);
    y[i, j, 4] = num_programs(1);
    y[i, j, 5] = num_programs(2);
    y[i, j, 6 +: 2] = arange(0, 2) + arange(5, 7);
}
reference programs {
    y[:, :, 0] = iota([3, 5], 0);
    y[:, :, 1] = iota([3, 5], 1);
    y[:, :, 2] = 0;
    y[:, :, 3] = 3;
    y[:, :, 4] = 5;
    y[:, :, 5] = 1;
    y[:, :, 6] = 5;
    y[:, :, 7] = 7;
}
example programs { }
"""
PTX = """
kernel inlined(x: in i32[64], y: out i32[64]) {
    static if target == "ptx" { y[:] = inline_ptx("add.s32 $0, $1, 1;", x[:], out = i32); }
    else { y[:] = x[:] + 1; }
}
reference inlined { y[:] = x[:] + 1; }
example inlined { x = arange; }
"""
PRINT = """
kernel printed(x: in i32[4], y: out i32[4]) {
    print("x", x[0]);
    y[:] = x[:];
}
reference printed { y[:] = x[:]; }
example printed { x = arange; }
"""

def kernels():
    out = [folded(), Text("programs", PROGRAM), Text("inlined", PTX), Text("printed", PRINT, metal=False)]
    for t in INTS:
        out += randoms(t)
    return out + [filled(t) for t in INTS + FLOATS]
