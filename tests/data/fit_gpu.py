#!/usr/bin/env python3
"""Fits the polynomials of compiler/lower/math*.c and writes compiler/lower/math/math_fit.h.

Each is the polynomial of its degree whose greatest weighted error over an interval is least, found by reweighted
least squares at Chebyshev points (Lawson); the weights make it the relative error of the function that is built
from it.  Coefficients of f32 are rounded one by one, the lowest power first, and the others fitted again, so that
rounding costs little.  pip install mpmath numpy."""
import mpmath as mp
import numpy as np

mp.mp.dps = 50
out = []


def nodes(a, b, n):
    a, b = mp.mpf(a), mp.mpf(b)
    return [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]


def lawson32(xs, ys, ws, degree, fixed):
    """Coefficients of powers len(fixed) .. degree, those below given."""
    rest = ys - sum(c * xs ** j for j, c in enumerate(fixed))
    v = np.stack([xs ** j for j in range(len(fixed), degree + 1)], axis=1)
    scale = np.max(np.abs(v), axis=0)
    law = np.ones(len(xs))
    best = None
    for _ in range(60):
        s = np.sqrt(law) * ws
        c = np.linalg.lstsq(v / scale * s[:, None], rest * s, rcond=None)[0] / scale
        e = np.abs(ws * (v @ c - rest))
        if best is None or e.max() < best[0]:
            best = (e.max(), c)
        law = law * (e / e.mean() + 1e-3)
        law /= law.mean()
    return best


def fit32(name, what, f, a, b, degree, weight=lambda x: 1):
    pts = nodes(a, b, 400)
    xs = np.array([float(x) for x in pts])
    ys = np.array([float(f(x)) for x in pts])
    ws = np.array([float(weight(x)) for x in pts])
    fixed = []
    while len(fixed) <= degree:
        error, c = lawson32(xs, ys, ws, degree, fixed)
        fixed.append(float(np.float32(c[0])))
    e = np.abs(ws * (sum(c * xs ** j for j, c in enumerate(fixed)) - ys)).max()
    emit(name + "_32", what, fixed, e)


def fit64(name, what, f, a, b, degree, weight=lambda x: 1):
    n = degree * 4 + 20
    xs = nodes(a, b, n)
    ws = [mp.mpf(weight(x)) for x in xs]
    ys = [f(x) for x in xs]
    lawson = [mp.mpf(1)] * n
    for _ in range(6):
        m, y = mp.matrix(n, degree + 1), mp.matrix(n, 1)
        for i, x in enumerate(xs):
            s = mp.sqrt(lawson[i]) * ws[i]
            y[i] = s * ys[i]
            for j in range(degree + 1):
                m[i, j] = s * x ** j
        c = list(mp.lu_solve(m, y))
        errors = [abs(w * (mp.polyval(c[::-1], x) - q)) for w, x, q in zip(ws, xs, ys)]
        mean = sum(errors) / n
        lawson = [l * (e / mean + mp.mpf(10) ** -6) for l, e in zip(lawson, errors)]
    emit(name + "_64", what, [float(x) for x in c], max(errors))


def emit(name, what, c, error):
    out.append(f"/* {what}: 2^{float(mp.log(error, 2)):.1f} */")
    out.append(f"static const double {name}[] = {{")
    for i in range(0, len(c), 4):
        out.append("\t" + " ".join(x.hex() + "," for x in c[i:i + 4]))
    out.append("};")


def near_zero(f, limit):
    return lambda x: f(x) if abs(x) > mp.mpf(10) ** -14 else mp.mpf(limit)


h = mp.log(2) / 2 * mp.mpf("1.002")
third = mp.mpf(1) / 3 * mp.mpf("1.0001")
root2 = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")
quarter = (mp.pi / 4) ** 2 * mp.mpf("1.002")
one = mp.mpf(1)

expm1_q = near_zero(lambda r: (mp.expm1(r) - r) / r ** 2, one / 2)
exp_w = lambda r: r * r / (abs(mp.expm1(r)) if abs(r) > 1e-9 else one)
for fit, d in ((fit32, 5), (fit64, 11)):
    fit("expm1_fit", "(e^r - 1 - r) / r^2", expm1_q, -h, h, d, exp_w)
log1p_q = near_zero(lambda f: (mp.log1p(f) - f) / f ** 2, -one / 2)
fit32("log1p_fit", "(log(1 + f) - f) / f^2", log1p_q, -third, third, 8,
      lambda f: f * f / abs(mp.log1p(f)) if abs(f) > 1e-9 else abs(f))
fit32("log2_fit", "(log2(1 + f) - f log2 e) / f^2", lambda f: log1p_q(f) / mp.log(2), -third, third, 8,
      lambda f: f * f * mp.log(2) / abs(mp.log1p(f)) if abs(f) > 1e-9 else abs(f))
atanh_q = near_zero(lambda q: (2 * mp.atanh(mp.sqrt(q)) / mp.sqrt(q) - 2) / q, mp.mpf(2) / 3)
for fit, d in ((fit64, 7),):
    fit("atanh_fit", "(2 atanh(s) - 2 s) / s^3 in s^2", atanh_q, 0, root2, d, lambda q: q / 2)
rest_q = near_zero(lambda q: ((2 * mp.atanh(mp.sqrt(q)) / mp.sqrt(q) - 2) / q - mp.mpf(2) / 3) / q, mp.mpf(2) / 5)
for fit, d in ((fit32, 2), (fit64, 7)):
    fit("atanh_rest_fit", "(2 atanh(s) - 2 s - 2/3 s^3) / s^5 in s^2", rest_q, 0, root2, d, lambda q: q * q / 2)
sin_q = near_zero(lambda q: (mp.sin(mp.sqrt(q)) / mp.sqrt(q) - 1) / q, -one / 6)
cos_q = near_zero(lambda q: (mp.cos(mp.sqrt(q)) - 1 + q / 2) / q ** 2, one / 24)
for fit, d in ((fit32, 2), (fit64, 6)):
    fit("sin_fit", "(sin r - r) / r^3 in r^2", sin_q, 0, quarter, d, lambda q: q)
    fit("cos_fit", "(cos r - 1 + r^2 / 2) / r^4 in r^2", cos_q, 0, quarter, d, lambda q: q * q)
tanh_q = near_zero(lambda q: (mp.tanh(mp.sqrt(q)) / mp.sqrt(q) - 1) / q, -one / 3)
fit32("tanh_fit", "(tanh x - x) / x^3 in x^2, to 0.55", tanh_q, 0, mp.mpf("0.3025"), 3, lambda q: q)
sinh_q = near_zero(lambda q: (mp.sinh(mp.sqrt(q)) / mp.sqrt(q) - 1) / q, one / 6)
for fit, d in ((fit32, 3), (fit64, 7)):
    fit("sinh_fit", "(sinh x - x) / x^3 in x^2, to 1", sinh_q, 0, one, d, lambda q: q)
atan_q = near_zero(lambda q: (mp.atan(mp.sqrt(q)) / mp.sqrt(q) - 1) / q, -one / 3)
for fit, d in ((fit32, 8), (fit64, 19)):
    fit("atan_fit", "(atan z - z) / z^3 in z^2, to 1", atan_q, 0, one, d, lambda q: q)
asin_q = near_zero(lambda q: (mp.asin(mp.sqrt(q)) / mp.sqrt(q) - 1) / q, one / 6)
for fit, d in ((fit32, 4), (fit64, 11)):
    fit("asin_fit", "(asin z - z) / z^3 in z^2, to 1/2", asin_q, 0, one / 4 * mp.mpf("1.001"), d, lambda q: q)
erf_q = near_zero(lambda q: mp.erf(mp.sqrt(q)) / mp.sqrt(q) - 1, 2 / mp.sqrt(mp.pi) - 1)
fit32("erf_fit", "erf(x) / x - 1 in x^2, to 1", erf_q, 0, one, 5)
fit64("erf_fit", "erf(x) / x - 1 in x^2, to 1", erf_q, 0, one, 13)
fit32("erfc_fit", "log2(1 - erf(a)) / a, 1 to 4", lambda a: mp.log(mp.erfc(a), 2) / a, one, 4, 5,
      lambda a: a * mp.erfc(a) / mp.erf(a))
fit64("erfc_fit", "(1 - erf(a)) e^(a^2) in 1/a - 0.58, 1 to 6.2", lambda t: mp.erfc(1 / (t + mp.mpf("0.58"))) *
      mp.exp(1 / (t + mp.mpf("0.58")) ** 2), one / mp.mpf("6.2") - mp.mpf("0.58"), one - mp.mpf("0.58"), 17,
      lambda t: mp.exp(-1 / (t + mp.mpf("0.58")) ** 2))

print("""/* Polynomials of the functions in math*.c, the lowest power first, with the greatest error that each adds to its
 * function; made by tests/data/fit_gpu.py. */
#ifndef TEGULA_MATH_FIT_H
#define TEGULA_MATH_FIT_H
""")
print("\n".join(out))
print("\n#endif")
