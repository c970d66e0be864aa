"""Products of matrices.  Elements are small, so that every order of summation gives the same."""
import math
import random

from dtypes import DTYPES, PLAIN
from tiles import Array, Tiles, sum_type

SHAPES = {"friendly": (32, 16, 32), "odd": (17, 9, 37)}
SCALED = ("f8e4m3", "f8e5m2", "f4e2m1", "f16", "bf16", "f32", "f64")


def small(t):
    return (lambda rng: rng.choice((0.0, 1.0, -1.0, 0.5, 2.0, -3.0))) if t.is_float else None


def filled(t, shape, seed):
    rng = random.Random("dot %s %s %s" % (t, shape, seed))
    f = small(t)
    return Array(shape, [f(rng) if f else rng.choice(t.edges()) for _ in range(math.prod(shape))])


def multiply(a, b, s, acc=lambda i, j: 0, scale=None):
    """Floats are small multiples of powers of two, whose products and sums Python's floats have exactly."""
    (m, k), n = a.shape, b.shape[1]
    rows = [a.values[i * k : i * k + k] for i in range(m)]
    turned = [b.values[j::n] for j in range(n)]

    def element(i, j):
        left = rows[i] if scale is None else [v * scale(i, j, l) for l, v in enumerate(rows[i])]
        q = sum(x * y for x, y in zip(left, turned[j])) + acc(i, j)
        return q + 0.0 if s.is_float else s.wrap(q)
    return Array.make((m, n), element)


def dots(t, label):
    m, n, l = SHAPES[label]
    s = sum_type(t)
    a, b = filled(t, (m, l), "a"), filled(t, (l, n), "b")
    # Metal's 32 KB of threadgroup memory do not hold the odd tiles of 64-bit integers, which grow to powers of two
    k = Tiles("dot", label, t, a, b, metal=t.width < 64 or label == "friendly")
    plus = lambda e: "(%s) + 0.0" % e if s.is_float else e         # the sign of a zero is not fixed
    product = multiply(a, b, s)
    acc = "iota([%d, %d], 1) as %s" % (m, n, s)
    k.add("@", plus("a @ b"), s, product)
    k.add("dot", plus("dot(a, b)"), s, product)
    k.add("dot acc", plus("dot(a, b, %s)" % acc), s, multiply(a, b, s, lambda i, j: j))
    k.add("@ of turned", plus("b.T @ a.T"), s, Array.make((n, m), lambda j, i: product[i, j]))
    k.add("@ of batches", plus("a[new, :, :] @ cat(b[new, :, :], b[new, :, :])"), s,
          Array((2, m, n), product.values * 2))
    if t.name == "f32":
        for precision in ("tf32", "tf32x3"):
            k.add(precision, plus("dot(a, b, precision = %s)" % precision), s, product)
    return k


def scaled(t, label):
    m, n, l = SHAPES[label]
    block = 32 if label == "friendly" else 16
    a, b = filled(t, (m, l), "a"), filled(t, (l, n), "b")
    k = Tiles("scaled", label, t, a, b)
    parts = -(-l // block)
    scale = lambda i, j, k: 2.0 ** (i % 3 - 1 + k // block + j % 2)
    left = "(iota([%d, %d], 0) %% 3 + 126 + iota([%d, %d], 1)) as u8" % (m, parts, m, parts)
    right = "(iota([%d, %d], 0) %% 2 + 127) as u8" % (n, parts)
    s = DTYPES["f64" if t.width == 64 else "f32"]
    k.add("dot_scaled", "(dot_scaled(a, %s, b, %s, block = %d)) + 0.0" % (left, right, block), s, multiply(a, b, s, scale=scale))
    return k


def kernels():
    out = []
    for label in SHAPES:
        out += [dots(t, label) for t in PLAIN if not t.is_bool]
        out += [scaled(DTYPES[name], label) for name in SCALED]
    return out
