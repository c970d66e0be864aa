"""Triton kernels for the memory-bound rows, each with the space of configurations that is searched for the fastest.

A peer is a dict: name, and `make(problem tensors) -> list of (label, callable)`; every callable writes the problem's
outputs.  bench/peers/measure.py checks each candidate's result before it is timed."""
import itertools

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


def space(**names):
    keys = list(names)
    for values in itertools.product(*names.values()):
        yield dict(zip(keys, values))


@triton.jit
def add_kernel(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    m = i < n
    tl.store(z + i, tl.load(x + i, m) + tl.load(y + i, m), m)


@triton.jit
def unary_kernel(x, y, n, KIND: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, m).to(tl.float32)
    if KIND == "silu":
        r = v * tl.sigmoid(v)
    elif KIND == "gelu_tanh":
        t = 0.7978845608028654 * (v + 0.044715 * v * v * v)
        r = 0.5 * v * (1 + (2 * tl.sigmoid(2 * t) - 1))
    else:
        r = 0.5 * v * (1 + libdevice.erf(v * 0.7071067811865476))
    tl.store(y + i, r.to(y.dtype.element_ty), m)


def add(t):
    x, y, z = t["x"], t["y"], t["z"]
    n = x.numel()
    for c in space(B=[512, 1024, 2048, 4096], w=[4, 8]):
        yield f"B{c['B']} w{c['w']}", lambda s, c=c: add_kernel[(triton.cdiv(n, c["B"]),)](
            s["x"], s["y"], s["z"], n, B=c["B"], num_warps=c["w"])


def unary(kind):
    def make(t):
        n = t["x"].numel()
        for c in space(B=[1024, 2048, 4096], w=[4, 8]):
            yield f"B{c['B']} w{c['w']}", lambda s, c=c: unary_kernel[(triton.cdiv(n, c["B"]),)](
                s["x"], s["y"], n, KIND=kind, B=c["B"], num_warps=c["w"])
    return make


@triton.jit
def softmax_kernel(x, y, R, C, BM: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, B)
    m = (r[:, None] < R) & (c[None, :] < C)
    at = r[:, None] * C + c[None, :]
    v = tl.load(x + at, m, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 1)[:, None])
    tl.store(y + at, (e / tl.sum(e, 1)[:, None]).to(y.dtype.element_ty), m)


@triton.jit
def softmax_long_kernel(x, y, C, B: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * C
    top = -float("inf")
    total = 0.0
    for c in range(0, C, B):
        i = c + tl.arange(0, B)
        v = tl.load(x + row + i, i < C, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    for c in range(0, C, B):
        i = c + tl.arange(0, B)
        v = tl.load(x + row + i, i < C, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
        tl.store(y + row + i, (tl.exp(v - top) / total).to(y.dtype.element_ty), i < C)


def softmax(t):
    R, C = t["x"].shape
    if C <= 16384:
        for c in space(BM=[1, 2, 4], w=[1, 4, 8, 16, 32]):
            if C * c["BM"] // (c["w"] * 32) in range(4, 129):
                yield f"rows: BM{c['BM']} w{c['w']}", lambda s, c=c: softmax_kernel[(triton.cdiv(R, c["BM"]),)](
                    s["x"], s["y"], R, C, BM=c["BM"], B=triton.next_power_of_2(C), num_warps=c["w"])
    if C > 8192:
        for c in space(B=[4096, 8192, 16384, 32768], w=[8, 16, 32]):
            yield f"loop: B{c['B']} w{c['w']}", lambda s, c=c: softmax_long_kernel[(R,)](
                s["x"], s["y"], C, B=c["B"], num_warps=c["w"])


@triton.jit
def norm_kernel(x, w, b, y, R, C, eps, LAYER: tl.constexpr, BM: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, B)
    m = (r[:, None] < R) & (c[None, :] < C)
    at = r[:, None] * C + c[None, :]
    v = tl.load(x + at, m, other=0).to(tl.float32)
    g = tl.load(w + c, c < C).to(tl.float32)
    if LAYER:
        mean = tl.sum(v, 1) / C
        d = tl.where(c[None, :] < C, v - mean[:, None], 0)
        r2 = d * tl.rsqrt(tl.sum(d * d, 1) / C + eps)[:, None] * g[None, :]
        r2 += tl.load(b + c, c < C).to(tl.float32)[None, :]
    else:
        r2 = v * tl.rsqrt(tl.sum(v * v, 1) / C + eps)[:, None] * g[None, :]
    tl.store(y + at, r2.to(y.dtype.element_ty), m)


def norm(layer):
    def make(t):
        R, C = t["x"].shape
        for c in space(BM=[1, 2, 4], w=[4, 8, 16]):
            yield f"rows: BM{c['BM']} w{c['w']}", lambda s, c=c: norm_kernel[(triton.cdiv(R, c["BM"]),)](
                s["x"], s["w"], s.get("b", s["w"]), s["y"], R, C, 1e-5, LAYER=layer, BM=c["BM"],
                B=triton.next_power_of_2(C), num_warps=c["w"])
    return make


@triton.jit
def transpose_kernel(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    v = tl.load(x + m[:, None] * N + n[None, :], (m[:, None] < M) & (n[None, :] < N))
    tl.store(y + n[:, None] * M + m[None, :], tl.trans(v), (n[:, None] < N) & (m[None, :] < M))


def transpose(t):
    M, N = t["x"].shape
    for c in space(BM=[32, 64, 128], BN=[32, 64, 128], w=[4, 8, 16]):
        yield f"{c['BM']}x{c['BN']} w{c['w']}", lambda s, c=c: transpose_kernel[
            (triton.cdiv(N, c["BN"]), triton.cdiv(M, c["BM"]))](
            s["x"], s["y"], M, N, BM=c["BM"], BN=c["BN"], num_warps=c["w"])


@triton.jit
def row_sum_kernel(x, y, R, C, BM: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, B)
    v = tl.load(x + r[:, None] * C + c[None, :], (r[:, None] < R) & (c[None, :] < C), other=0).to(tl.float32)
    tl.store(y + r, tl.sum(v, 1), r < R)


def row_sum(t):
    R, C = t["x"].shape
    for c in space(BM=[1, 2], w=[4, 8, 16, 32]):
        yield f"rows: BM{c['BM']} w{c['w']}", lambda s, c=c: row_sum_kernel[(triton.cdiv(R, c["BM"]),)](
            s["x"], s["y"], R, C, BM=c["BM"], B=triton.next_power_of_2(C), num_warps=c["w"])


@triton.jit
def column_sum_kernel(x, y, R, C, ROWS, BM: tl.constexpr, BN: tl.constexpr, ST: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    first = tl.program_id(1) * ROWS
    acc = tl.zeros([BM, BN], tl.float32)
    for r in tl.range(first, first + ROWS, BM, num_stages=ST):
        m = r + tl.arange(0, BM)
        acc += tl.load(x + m[:, None].to(tl.int64) * C + n[None, :], (m[:, None] < R) & (n[None, :] < C), other=0)
    tl.atomic_add(y + n, tl.sum(acc, 0), n < C)


def column_sum(t):
    R, C = t["x"].shape

    def call(s, c):
        s["y"].zero_()
        column_sum_kernel[(triton.cdiv(C, c["BN"]), c["S"])](
            s["x"], s["y"], R, C, triton.cdiv(R, c["S"]), BM=c["BM"], BN=c["BN"], ST=c["st"], num_warps=c["w"])
    for c in space(BM=[32, 64], BN=[64, 128], S=[4, 8, 16], st=[1, 2], w=[4, 8]):
        yield f"{c['BM']}x{c['BN']} S{c['S']} st{c['st']} w{c['w']}", lambda s, c=c: call(s, c)


@triton.jit
def rope_kernel(x, p, y, H, D: tl.constexpr, base, HB: tl.constexpr):
    s = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * HB + tl.arange(0, HB)
    i = tl.arange(0, D // 2)
    a = tl.load(p + s) * tl.exp2(-tl.log2(base) * i / (D // 2))
    co = tl.cos(a)[None, :]
    si = tl.sin(a)[None, :]
    at = (s * H + h[:, None]) * D + i[None, :]
    u = tl.load(x + at).to(tl.float32)
    v = tl.load(x + at + D // 2).to(tl.float32)
    tl.store(y + at, (u * co - v * si).to(y.dtype.element_ty))
    tl.store(y + at + D // 2, (v * co + u * si).to(y.dtype.element_ty))


def rope(t):
    S, H, D = t["x"].shape
    for c in space(HB=[8, 16, 32], w=[1, 2, 4, 8]):
        yield f"HB{c['HB']} w{c['w']}", lambda s, c=c: rope_kernel[(S, H // c["HB"])](
            s["x"], s["position"], s["y"], H, D, 10000.0, HB=c["HB"], num_warps=c["w"])


@triton.jit
def int4_kernel(q, scale, zero, w, C, BG: tl.constexpr):
    g = tl.program_id(0).to(tl.int64) * BG + tl.arange(0, BG)
    s = tl.load(scale + g).to(tl.float32)[:, None]
    z = tl.load(zero + g).to(tl.float32)[:, None]
    i = tl.arange(0, 64)
    v = tl.load(q + g[:, None] * 64 + i[None, :])
    lo = ((v & 15).to(tl.float32) - z) * s
    hi = ((v >> 4).to(tl.float32) - z) * s
    r = tl.reshape(tl.join(lo, hi), [BG, 128])
    j = tl.arange(0, 128)
    tl.store(w + g[:, None] * 128 + j[None, :], r.to(w.dtype.element_ty))


def int4(t):
    R, C = t["w"].shape
    for c in space(BG=[4, 8, 16, 32], w=[1, 2, 4, 8]):
        yield f"BG{c['BG']} w{c['w']}", lambda s, c=c: int4_kernel[(R * C // 128 // c["BG"],)](
            s["q"], s["scale"], s["zero"], s["w"], C, BG=c["BG"], num_warps=c["w"])


@triton.jit
def fp8_kernel(x, q, scale, R, C, BM: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, B)
    at = r[:, None] * C + c[None, :]
    m = (r[:, None] < R) & (c[None, :] < C)
    v = tl.load(x + at, m, other=0).to(tl.float32)
    s = tl.max(tl.abs(v), 1) / 448.0
    tl.store(q + at, (v / s[:, None]).to(tl.float8e4nv), m)
    tl.store(scale + r, s, r < R)


def fp8(t):
    R, C = t["x"].shape
    for c in space(BM=[1, 2, 4], w=[4, 8, 16]):
        yield f"rows: BM{c['BM']} w{c['w']}", lambda s, c=c: fp8_kernel[(triton.cdiv(R, c["BM"]),)](
            s["x"], s["q"], s["scale"], R, C, BM=c["BM"], B=triton.next_power_of_2(C), num_warps=c["w"])


@triton.jit
def cumsum_kernel(x, y, R, C, BM: tl.constexpr, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    c = tl.arange(0, B)
    at = r[:, None] * C + c[None, :]
    m = (r[:, None] < R) & (c[None, :] < C)
    tl.store(y + at, tl.cumsum(tl.load(x + at, m, other=0), 1), m)


def cumsum(t):
    R, C = t["x"].shape
    for c in space(BM=[1, 2], w=[4, 8, 16]):
        yield f"rows: BM{c['BM']} w{c['w']}", lambda s, c=c: cumsum_kernel[(triton.cdiv(R, c["BM"]),)](
            s["x"], s["y"], R, C, BM=c["BM"], B=triton.next_power_of_2(C), num_warps=c["w"])


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    np = tl.cdiv(N, BN)
    group = G * np
    first = pid // group * G
    rows = min(tl.cdiv(M, BM) - first, G)
    pm = first + pid % group % rows
    pn = pid % group // rows
    m = (pm * BM + tl.arange(0, BM)) % M
    n = (pn * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + n[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(pa), tl.load(pb), acc)
        pa += BK
        pb += BK * N
    m = pm * BM + tl.arange(0, BM)
    n = pn * BN + tl.arange(0, BN)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))


def matmul(t):
    M, K = t["a"].shape
    N = t["b"].shape[1]
    for c in [dict(BM=128, BN=256, BK=64, st=3, w=8), dict(BM=128, BN=128, BK=64, st=4, w=4),
              dict(BM=128, BN=128, BK=64, st=3, w=8), dict(BM=128, BN=256, BK=64, st=4, w=8)]:
        yield f"{c['BM']}x{c['BN']}x{c['BK']} st{c['st']} w{c['w']}", lambda s, c=c: matmul_kernel[
            (triton.cdiv(M, c["BM"]) * triton.cdiv(N, c["BN"]),)](
            s["a"], s["b"], s["c"], M, N, K, BM=c["BM"], BN=c["BN"], BK=c["BK"], G=8, num_warps=c["w"],
            num_stages=c["st"])
