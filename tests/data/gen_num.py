#!/usr/bin/env python3
"""Writes the data that tests/unit/test_num.c compares the interpreter's numerics with.

Values come from NumPy, ml_dtypes, mpmath and Python's own integers, never from Tegula.  Run in this folder
(pip install numpy mpmath ml_dtypes); the files it writes are committed.  Every file is lines of words."""
import random
import struct

import ml_dtypes
import mpmath as mp
import numpy as np

mp.mp.prec = 120
rng = random.Random(20240607)


def bits32(x):
    return int(np.float32(x).view(np.uint32))


def bits64(x):
    return int(np.float64(x).view(np.uint64))


def of32(u):
    return np.uint32(u).view(np.float32)


# ---- integers: op dtype a b result ----

def wrap(v, bits, signed):
    v &= (1 << bits) - 1
    return v - (1 << bits) if signed and v >> (bits - 1) else v


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def int_op(op, a, b, bits, signed):
    ua, ub = a & ((1 << bits) - 1), b & ((1 << bits) - 1)
    return {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
        "div": lambda: trunc_div(a, b) if b else 0,
        "rem": lambda: a - b * trunc_div(a, b) if b else a,
        "floordiv": lambda: a // b if b else 0,
        "cdiv": lambda: -(-a // b) if b else 0,
        "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
        "shl": lambda: ua << ub if ub < bits else 0,
        "shr": lambda: a >> min(ub, bits),
        "umulhi": lambda: ua * ub >> bits,
        "min": lambda: min(a, b), "max": lambda: max(a, b),
        "eq": lambda: int(a == b), "ne": lambda: int(a != b), "lt": lambda: int(a < b),
        "le": lambda: int(a <= b), "gt": lambda: int(a > b), "ge": lambda: int(a >= b),
        "neg": lambda: -a, "not": lambda: ~a, "abs": lambda: abs(a),
        "popcount": lambda: bin(ua).count("1"), "clz": lambda: bits - ua.bit_length(),
    }[op]()


def write_ints():
    binary = "add sub mul div rem floordiv cdiv and or xor shl shr umulhi min max eq ne lt le gt ge".split()
    unary = "neg not abs popcount clz".split()
    compare = {"eq", "ne", "lt", "le", "gt", "ge"}
    with open("num_int.txt", "w") as f:
        for bits in (8, 16, 32, 64):
            for signed in (True, False):
                name = ("i" if signed else "u") + str(bits)
                low = -(1 << (bits - 1)) if signed else 0
                high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
                edge = sorted({low, low + 1, high, high - 1, 0, 1, 2, 3, 7, bits - 1, bits, bits + 1, high // 3}
                              | ({-1, -2, -7, -bits} if signed else set()))
                draw = lambda: rng.choice(edge) if rng.random() < 0.6 else wrap(rng.getrandbits(rng.randint(1, bits)), bits, signed)
                fixed = [(low, edge[0] if not signed else -1), (7, 0), (high, 2), (low, 3)]
                if signed:
                    fixed += [(-7, 2), (7, -2), (-7, -2), (-1, bits)]
                for op in binary + unary:
                    for a, b in fixed + [(draw(), draw()) for _ in range(6)]:
                        b = 0 if op in unary else b
                        r = int_op(op, a, b, bits, signed)
                        r = r if op in compare else wrap(r, bits, signed)
                        f.write(f"{op} {name} {a} {b} {r}\n")


# ---- functions of f32: op x y, x the bits of an f32, y those of the result as an f64 ----

FUNCTIONS = {
    "exp": mp.exp, "exp2": lambda x: mp.mpf(2) ** x, "expm1": mp.expm1, "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.log(2), "log1p": mp.log1p, "sqrt": mp.sqrt, "rsqrt": lambda x: 1 / mp.sqrt(x),
    "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh,
    "asin": mp.asin, "acos": mp.acos, "atan": mp.atan, "erf": mp.erf, "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
}
SPAN = {"exp": (-104, 89), "exp2": (-150, 128), "expm1": (-20, 89), "sinh": (-90, 90), "cosh": (-90, 90),
        "tanh": (-10, 10), "asin": (-1, 1), "acos": (-1, 1), "erf": (-4.2, 4.2), "sigmoid": (-104, 20),
        "log1p": (-0.999, 10), "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100)}


def write_functions():
    with open("num_math.txt", "w") as f:
        for name, fn in FUNCTIONS.items():
            positive = name in ("log", "log2", "sqrt", "rsqrt")
            xs = [of32(1), of32(0x00800000), of32(0x007fffff), np.float32(1), np.float32(0.5), np.float32(2)]
            low, high = SPAN.get(name, (1e-3, 1e3))
            xs += [np.float32(rng.uniform(low, high)) for _ in range(34)]
            xs += [np.float32(low), np.float32(high)]
            for _ in range(20):                    # any magnitude
                x = of32(rng.getrandbits(31))
                if np.isfinite(x) and (name not in ("asin", "acos") or abs(x) <= 1):
                    xs.append(x)
            xs += [np.float32(1) + np.float32(k) * np.float32(2 ** -23) for k in (-2, -1, 1, 3)]
            if not positive:
                xs += [-x for x in xs]
            for x in xs:
                if name == "log1p" and x <= -1 or name in ("asin", "acos") and abs(x) > 1:
                    continue
                if abs(x) > 1000 and name in ("exp", "exp2", "expm1", "sinh", "cosh", "sigmoid", "tanh", "erf"):
                    continue
                mp.mp.prec = 400 if name in ("sin", "cos", "tan") else 120
                y = fn(mp.mpf(float(x)))
                y = np.float64(float(y)) if abs(y) < mp.mpf(10) ** 300 else np.float64(np.inf) * mp.sign(y)
                f.write(f"{name} {bits32(x):08x} {bits64(y):016x}\n")
        mp.mp.prec = 120
        for x, y in [(0.5, 2.5), (2, -149), (1.5, 200), (-2, 3), (-2, 0.5), (10, 38), (0.1, 45), (7, 0), (0, -1)]:
            x, y = np.float32(x), np.float32(y)
            with np.errstate(all="ignore"):
                f.write(f"pow {bits32(x):08x}:{bits32(y):08x} {bits64(np.float64(x) ** np.float64(y)):016x}\n")
                f.write(f"atan2 {bits32(x):08x}:{bits32(y):08x} {bits64(np.arctan2(np.float64(x), np.float64(y))):016x}\n")


# ---- casts: from to x y, bits of both ----

NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
          "f8e5m2": ml_dtypes.float8_e5m2, "f4e2m1": ml_dtypes.float4_e2m1fn}
MOST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "f4e2m1": 6.0}


def narrow(name, x):
    """x (exact, an f64) rounded once to the type; f8 and f4 saturate."""
    if name in MOST and abs(x) > MOST[name]:
        x = np.copysign(MOST[name], x)
    t = NARROW[name]
    # once: the candidates around x, then the nearest, halves to even
    with np.errstate(all="ignore"):
        near = np.float64(x).astype(t)
    size = np.dtype(t).itemsize
    u = np.uint8 if size == 1 else np.uint16
    code = int(np.array(near).view(u))
    top = {"f16": 0x7c00, "bf16": 0x7f80, "f8e4m3": 0x7e, "f8e5m2": 0x7b, "f4e2m1": 7}[name]
    sign = {"f4e2m1": 8}.get(name, 1 << (size * 8 - 1))
    best = None
    for c in range(max((code & (sign - 1)) - 1, 0), min((code & (sign - 1)) + 1, top) + 1):
        v = mp.mpf(float(np.array(c, u).view(t).astype(np.float64)))
        if mp.isinf(v):                            # as if the exponent went on
            v = mp.mpf(65536) if name == "f16" else mp.mpf(2) ** 128
        e = abs(v - mp.mpf(float(abs(x))))
        if best is None or e < best[0] or e == best[0] and c % 2 == 0:
            best = (e, c)
    return best[1] | (sign if np.signbit(x) else 0)


def write_casts():
    with open("num_cast.txt", "w") as f:
        for name, t in NARROW.items():             # every code of 8 bits and fewer to f32
            if np.dtype(t).itemsize > 1:
                continue
            for c in range(16 if name == "f4e2m1" else 256):
                v = np.array(c, np.uint8).view(t).astype(np.float32)
                f.write(f"{name} f32 {c:x} {bits32(v):x}\n")
        for name in NARROW:
            emin, mant = {"f16": (-14, 10), "bf16": (-126, 7), "f8e4m3": (-6, 3), "f8e5m2": (-14, 2),
                          "f4e2m1": (0, 1)}[name]
            for i in range(160):
                e = rng.randint(emin - mant - 2, min(-emin + 3, 127))
                m = 1 + rng.getrandbits(mant) / 2 ** mant
                x = np.ldexp(m, e) * rng.choice((-1, 1))
                kind = i % 4                       # on the grid, a half, just off a half, anywhere
                unit = np.ldexp(1.0, max(e, emin) - mant)
                if kind == 1:
                    x += unit / 2
                elif kind == 2:
                    x = x + unit / 2 + rng.choice((-1, 1)) * unit * 2.0 ** -rng.randint(3, 40)
                elif kind == 3:
                    x += unit * rng.random()
                f.write(f"f64 {name} {bits64(x):x} {narrow(name, x):x}\n")
                y = np.float32(x)
                if np.isfinite(y):
                    f.write(f"f32 {name} {bits32(y):x} {narrow(name, np.float64(y)):x}\n")
        for x in (1 << 53) + 1, (1 << 60) + (1 << 51) + 1, (1 << 60) + (1 << 52), (1 << 63) - 1, 65519, 65520, 257, 259, -((1 << 54) + 3), (0x1018 << 40) + 1, 0x1018 << 40, 0x1008 << 40:
            for name in ("f16", "bf16"):
                # bf16 keeps 8 bits: round the integer itself
                a, bits = abs(x), 8 if name == "bf16" else 11
                shift = max(a.bit_length() - bits, 0)
                q, r = a >> shift, a & ((1 << shift) - 1)
                q += r * 2 > (1 << shift) or (r * 2 == (1 << shift) and shift and q & 1)
                v = np.float64(np.copysign(np.ldexp(float(q), shift), x))
                f.write(f"i64 {name} {x & (1 << 64) - 1:x} {narrow(name, v):x}\n")
        ints = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535),
                "i32": (-2 ** 31, 2 ** 31 - 1), "u32": (0, 2 ** 32 - 1), "i64": (-2 ** 63, 2 ** 63 - 1),
                "u64": (0, 2 ** 64 - 1), "i4": (-8, 7), "u4": (0, 15)}
        for name, (low, high) in ints.items():
            for x in (0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.5, -1.5, 7.9, 8.0, -8.9, 15.9, 16, 127.9, 128, -128.9,
                      -129, 255.9, 256, 32767.5, 65535.9, 65536, 2147483520, 2147483648, -2147483648, 4294967040,
                      4294967296, 2.0 ** 63, -2.0 ** 63, 2.0 ** 64, 1e30, -1e30, np.inf, -np.inf, np.nan):
                r = 0 if np.isnan(x) else high if x > high else low if x < low else int(x)
                f.write(f"f32 {name} {bits32(x):x} {r & (1 << 64) - 1:x}\n" if np.isnan(x) or float(np.float32(x)) == x else "")
                f.write(f"f64 {name} {bits64(x):x} {r & (1 << 64) - 1:x}\n")


# ---- Philox: seed offset and four results ----

def philox(c, k, rounds=10):
    c, k = list(c), list(k)
    for _ in range(rounds):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def write_philox():
    # Random123's kat_vectors
    known = [((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
             ((0xffffffff,) * 4, (0xffffffff,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
             ((0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344), (0xa4093822, 0x299f31d0),
              "d16cfe09 94fdcceb 5001e420 24126ea1")]
    for c, k, want in known:
        assert philox(c, k) == [int(w, 16) for w in want.split()]
    with open("num_philox.txt", "w") as f:
        for seed, at in [(0, 0), (0, 1), (1, 0), (0x299f31d0a4093822, 0x85a308d3243f6a88)] + [
                (rng.getrandbits(64), rng.getrandbits(rng.choice((10, 32, 64)))) for _ in range(40)]:
            r = philox((at & 0xFFFFFFFF, at >> 32, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))
            f.write(f"{seed:x} {at:x} " + " ".join(f"{v:x}" for v in r) + "\n")


write_ints()
write_functions()
write_casts()
write_philox()
