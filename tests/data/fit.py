#!/usr/bin/env python3
"""Fits the polynomials of compiler/num/loops_math.c and prints their coefficients, lowest power first.

Each is the polynomial of its degree whose greatest weighted error over an interval is least, found by
reweighted least squares at Chebyshev points (Lawson); the weights make it the relative error of the
function that is built from it.  pip install mpmath."""
import mpmath as mp

mp.mp.dps = 40


def fit(name, f, a, b, degree, weight=lambda x: 1):
    n = degree * 6 + 20
    xs = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    ws = [mp.mpf(weight(x)) for x in xs]
    lawson = [mp.mpf(1)] * n
    for _ in range(12):
        m, y = mp.matrix(n, degree + 1), mp.matrix(n, 1)
        for i, x in enumerate(xs):
            s = mp.sqrt(lawson[i]) * ws[i]
            y[i] = s * f(x)
            for j in range(degree + 1):
                m[i, j] = s * x ** j
        c = list(mp.lu_solve(m, y))
        errors = [abs(w * (mp.polyval(c[::-1], x) - f(x))) for w, x in zip(ws, xs)]
        total = sum(l * e for l, e in zip(lawson, errors))
        lawson = [l * e / total * n + mp.mpf(10) ** -12 for l, e in zip(lawson, errors)]
    print(f"{name}: relative error 2^{mp.nstr(mp.log(max(errors), 2), 4)}")
    print("   ", " ".join(float(x).hex() for x in c))


def near_zero(f, limit):
    return lambda x: f(x) if abs(x) > 1e-12 else limit


half_ln2, z = mp.log(2) / 2, mp.mpf(0)
quarter = (mp.pi / 4) ** 2 * mp.mpf("1.001")
fit("(e^r - 1 - r) / r^2", near_zero(lambda r: (mp.expm1(r) - r) / r ** 2, mp.mpf(1) / 2), -half_ln2, half_ln2, 5,
    lambda r: r * r / abs(mp.expm1(r)))
fit("the same for exp in f32", near_zero(lambda r: (mp.expm1(r) - r) / r ** 2, mp.mpf(1) / 2), -half_ln2 * mp.mpf("1.001"),
    half_ln2 * mp.mpf("1.001"), 4, lambda r: r * r / mp.exp(r))
fit("(2 atanh(s) - 2 s) / s^3 in s^2", near_zero(lambda q: (2 * mp.atanh(mp.sqrt(q)) / mp.sqrt(q) - 2) / q, mp.mpf(2) / 3),
    z, ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2, 3, lambda q: q / 2)
fit("(sin r - r) / r^3 in r^2", near_zero(lambda q: (mp.sin(mp.sqrt(q)) / mp.sqrt(q) - 1) / q, -mp.mpf(1) / 6),
    z, quarter, 3, lambda q: q)
fit("(cos r - 1 + r^2 / 2) / r^4 in r^2", near_zero(lambda q: (mp.cos(mp.sqrt(q)) - 1 + q / 2) / q ** 2, mp.mpf(1) / 24),
    z, quarter, 3, lambda q: q * q)
fit("erf(x) / x in x^2", near_zero(lambda q: mp.erf(mp.sqrt(q)) / mp.sqrt(q), 2 / mp.sqrt(mp.pi)), z, mp.mpf(1), 7)
fit("-log(1 - erf(x)) on 1 .. 4", lambda x: -mp.log(mp.erfc(x)), mp.mpf(1), mp.mpf(4), 7,
    lambda x: mp.erfc(x) / mp.erf(x))
