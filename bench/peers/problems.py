"""The memory-bound problems and the matrix products: their tensors, what the result must be, and what moves.

make() gives one set of tensors; several sets are made so that together they exceed the L2 cache.  `outputs` are
poisoned before a check; `bytes` counts each input read once and each output written once."""
import math

import torch
import torch.nn.attention
import torch.nn.functional as F

import triton_kernels as tk

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


class Problem:
    def __init__(self, name, make, outputs, reference, triton, eager, tegula, cuda=None, flops=0, tolerance=None,
                 compiled=True, before=()):
        self.name, self.make, self.outputs, self.reference = name, make, outputs, reference
        self.before = before        # each as `tegula`: kernels that each call launches first, and that count
        self.triton, self.eager, self.tegula, self.cuda, self.flops = triton, eager, tegula, cuda, flops
        self.tolerance, self.compiled = tolerance, compiled


def randn(*shape, dtype=F32):
    return torch.randn(*shape, device="cuda", dtype=F32).to(dtype)


def vectors(n, dtype, binary=False):
    def make():
        t = {"x": randn(n, dtype=dtype)}
        if binary:
            t["y"] = randn(n, dtype=dtype)
        t["z" if binary else "y"] = torch.empty(n, device="cuda", dtype=dtype)
        return t
    return make


def matrix(R, C, dtype, out=None, **more):
    """x [R, C] and y of the same shape (or `out`), with vectors of C values."""
    def make():
        t = {"x": randn(R, C, dtype=dtype)}
        for name in more.get("vectors", ()):
            t[name] = randn(C, dtype=dtype)
        shape, kind = out or ((R, C), dtype)
        t["y"] = torch.empty(*shape, device="cuda", dtype=kind)
        return t
    return make


def rope_reference(t, dtype):
    S, H, D = t["x"].shape
    i = torch.arange(D // 2, device="cuda", dtype=dtype)
    a = t["position"].to(dtype)[:, None] * torch.exp2(-math.log2(10000.0) * i / (D // 2))[None, :]
    c, s = a.cos()[:, None, :], a.sin()[:, None, :]
    x = t["x"].to(dtype)
    u, v = x[..., :D // 2], x[..., D // 2:]
    return torch.cat([u * c - v * s, v * c + u * s], -1)


def int4_tensors(R, C):
    def make():
        return {"q": torch.randint(0, 256, (R, C // 2), device="cuda", dtype=torch.uint8),
                "scale": torch.rand(R, C // 128, device="cuda").to(BF16) * 0.1,
                "zero": torch.randint(6, 10, (R, C // 128), device="cuda", dtype=torch.uint8),
                "w": torch.empty(R, C, device="cuda", dtype=BF16)}
    return make


def int4_value(t, dtype):
    q = t["q"]
    v = torch.stack([q & 15, q >> 4], -1).reshape(q.shape[0], -1, 128).to(dtype)
    return ((v - t["zero"].to(dtype)[..., None]) * t["scale"].to(dtype)[..., None]).reshape(q.shape[0], -1)


def fp8_tensors(R, C):
    def make():
        return {"x": randn(R, C, dtype=BF16),
                "q": torch.empty(R, C, device="cuda", dtype=torch.float8_e4m3fn),
                "scale": torch.empty(R, device="cuda", dtype=F32)}
    return make


def fp8_value(t, dtype):
    x = t["x"].to(dtype)
    s = x.abs().amax(1) / 448.0
    return {"q": (x / s[:, None]).to(torch.float8_e4m3fn), "scale": s}


def memory_problems():
    p = []
    for k in (20, 24, 28):
        p.append(Problem(f"vadd f32 2^{k}", vectors(1 << k, F32, True), ["z"], lambda t, d: t["x"].to(d) + t["y"].to(d), tk.add,
                         lambda t: torch.add(t["x"], t["y"], out=t["z"]), ("vector_add", {}, "x y z"),
                         ("elementwise.cu", "vector_add_f32", lambda t: (-(-t["x"].numel() // 2048), 512))))
    for name, kernel, fn in (("silu", "silu", F.silu), ("gelu-tanh", "gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
                             ("gelu-erf", "gelu_erf", F.gelu)):
        p.append(Problem(f"{name} bf16 2^27", vectors(1 << 27, BF16), ["y"], lambda t, d, fn=fn: fn(t["x"].to(d)),
                         tk.unary(kernel), lambda t, fn=fn: fn(t["x"]), (kernel, {"T": "bf16"}, "x y"),
                         ("elementwise.cu", f"{kernel}_bf16", lambda t: (-(-t["x"].numel() // 2048), 256))))
    threads = {("f32", 1024): 64, ("f32", 4096): 512, ("f32", 8192): 1024,
               ("bf16", 1024): 64, ("bf16", 4096): 64, ("bf16", 8192): 512}
    for dtype, text in ((F32, "f32"), (BF16, "bf16")):
        for R, C in ((4096, 1024), (8192, 8192), (32768, 4096), (128, 131072)):
            cuda = ("rows.cu", f"softmax_{text}_{C}", lambda t, n=threads.get((text, C)): (t["x"].shape[0], n))
            p.append(Problem(f"softmax {text} {R}x{C}", matrix(R, C, dtype), ["y"], lambda t, d: t["x"].to(d).softmax(1),
                             tk.softmax, lambda t: torch.softmax(t["x"], 1),
                             ("softmax" if C <= 16384 else "softmax_online", {"T": text}, "x y"),
                             cuda if C <= 8192 else None))
    for R, C in ((8192, 4096), (4096, 8192)):
        p.append(Problem(f"layernorm bf16 {R}x{C}", matrix(R, C, BF16, vectors=("w", "b")), ["y"],
                         lambda t, d, C=C: F.layer_norm(t["x"].to(d), (C,), t["w"].to(d), t["b"].to(d), 1e-5), tk.norm(True),
                         lambda t, C=C: F.layer_norm(t["x"], (C,), t["w"], t["b"], 1e-5),
                         ("layernorm", {"T": "bf16"}, "x w b y eps=1e-5"),
                         ("rows.cu", f"layernorm_bf16_{C}", lambda t: (t["x"].shape[0], 256))))
    for R, C in ((8192, 4096), (4096, 8192)):
        p.append(Problem(f"rmsnorm bf16 {R}x{C}", matrix(R, C, BF16, vectors=("w",)), ["y"],
                         lambda t, d, C=C: F.rms_norm(t["x"].to(d), (C,), t["w"].to(d), 1e-5), tk.norm(False),
                         lambda t, C=C: F.rms_norm(t["x"], (C,), t["w"], 1e-5),
                         ("rmsnorm", {"T": "bf16"}, "x w y eps=1e-5"),
                         ("rows.cu", f"rmsnorm_bf16_{C}", lambda t, n=256 if C == 4096 else 512: (t["x"].shape[0], n))))
    for dtype, text, tile in ((F32, "f32", 64), (BF16, "bf16", 128)):
        p.append(Problem(f"transpose {text} 8192x8192", matrix(8192, 8192, dtype), ["y"], lambda t, d: t["x"].to(d).T,
                         tk.transpose, lambda t: t["y"].copy_(t["x"].T), ("transpose", {"T": text}, "x y"),
                         ("shapes.cu", f"transpose_{text}", lambda t, n=tile: ((8192 // n) ** 2, 512))))
    for dtype, text in ((F32, "f32"), (BF16, "bf16")):
        p.append(Problem(f"colsum {text} 8192x8192", matrix(8192, 8192, dtype, out=((8192,), F32)), ["y"],
                         lambda t, d: t["x"].to(d).sum(0), tk.column_sum, lambda t: torch.sum(t["x"], 0, dtype=F32, out=t["y"]),
                         ("column_sums", {"T": text}, "x y"),
                         ("shapes.cu", f"column_sums_{text}", lambda t: (8 * 8192 * t["x"].element_size() // 512, 512))))
    for dtype, text in ((F32, "f32"), (BF16, "bf16")):
        p.append(Problem(f"rowsum {text} 8192x8192", matrix(8192, 8192, dtype, out=((8192,), F32)), ["y"],
                         lambda t, d: t["x"].to(d).sum(1), tk.row_sum, lambda t: torch.sum(t["x"], 1, dtype=F32, out=t["y"]),
                         ("row_sums", {"T": text}, "x y"), ("rows.cu", f"row_sums_{text}_8192", lambda t: (8192, 256))))

    def rope_make():
        return {"x": randn(16384, 32, 128, dtype=BF16),
                "position": torch.arange(4096, device="cuda", dtype=torch.int32).repeat(4),
                "y": torch.empty(16384, 32, 128, device="cuda", dtype=BF16)}
    p.append(Problem("rope bf16 4x4096x32x128", rope_make, ["y"], lambda t, d: rope_reference(t, d), tk.rope,
                     lambda t: rope_reference(t, F32).to(BF16), ("rope", {"T": "bf16"}, "x position y base=10000.0"),
                     ("shapes.cu", "rope_bf16", lambda t: (16384, 256))))
    p.append(Problem("int4->bf16 16384x8192 g128", int4_tensors(16384, 8192), ["w"], int4_value, tk.int4,
                     lambda t: int4_value(t, F32).to(BF16), ("dequantize_int4", {"T": "bf16"}, "q scale zero w"),
                     ("shapes.cu", "dequantize_int4_bf16", lambda t: (16384 * 8192 // 2048, 256))))
    p.append(Problem("fp8 quantize rows 8192x8192", fp8_tensors(8192, 8192), ["q", "scale"], fp8_value, tk.fp8,
                     lambda t: fp8_value(t, F32), ("quantize_fp8", {"T": "bf16"}, "x q scale"),
                     ("rows.cu", "quantize_fp8_8192", lambda t: (8192, 256))))
    p.append(Problem("cumsum f32 8192x8192", matrix(8192, 8192, F32), ["y"], lambda t, d: t["x"].to(d).cumsum(1), tk.cumsum,
                     lambda t: torch.cumsum(t["x"], 1, out=t["y"]), ("cumsum:running_sums", {}, "x y"),
                     ("shapes.cu", "running_sums_8192", lambda t: (8192, 1024))))
    return p


# M, N, K: squares, layers of language models at 4096 tokens, few rows, and extents that no tile divides
SHAPES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 16384),
          (4096, 14336, 4096), (4096, 4096, 14336), (4096, 8192, 8192), (128, 8192, 8192), (4000, 3000, 5000))


def matmul_problems(shapes=SHAPES):
    p = []
    for M, N, K in shapes:
        def make(M=M, N=N, K=K):
            return {"a": randn(M, K, dtype=BF16), "b": randn(K, N, dtype=BF16),
                    "c": torch.empty(M, N, device="cuda", dtype=BF16)}
        name = f"{M}" if M == N == K else f"{M}x{N}x{K}"
        p.append(Problem(f"mm bf16 NN {name}", make, ["c"], lambda t, d: t["a"].to(d) @ t["b"].to(d),
                         None if K % 64 else tk.matmul, lambda t: torch.matmul(t["a"], t["b"], out=t["c"]),
                         ("matmul", {"T": "bf16"}, "a b c"), flops=2 * M * N * K, compiled=False))
    return p


def nt(M, N, K, dtype, out):
    def make():
        whole = dtype == torch.int8
        a, b = (torch.randint(-99, 99, (R, K), device="cuda", dtype=dtype) if whole else randn(R, K, dtype=dtype) for R in (M, N))
        return {"a": a, "b": b, "c": torch.empty(M, N, device="cuda", dtype=out)}
    return make


def tf32(f):
    """The library's products of f32 as Tegula's: by tf32."""
    def call(t):
        torch.backends.cuda.matmul.allow_tf32 = True
        return f(t)
    return call


def scaled_mm(fast):
    one = []

    def call(t):
        one[:] = one or [torch.ones((), device="cuda")]
        return torch._scaled_mm(t["a"], t["b"].T, scale_a=one[0], scale_b=one[0], out_dtype=BF16, use_fast_accum=fast, out=t["c"])
    return call


def batches(B, M, N, K):
    def make():
        return {"a": randn(B, M, K, dtype=BF16), "b": randn(B, K, N, dtype=BF16),
                "c": torch.empty(B, M, N, device="cuda", dtype=BF16)}
    return make


def linear(M, N, K):
    def make():
        return {"x": randn(M, K, dtype=BF16), "w": (randn(N, K) * 0.02).to(BF16), "bias": randn(N, dtype=BF16),
                "y": torch.empty(M, N, device="cuda", dtype=BF16)}
    return make


def gelu_of(t, d):
    return torch.nn.functional.gelu(t["x"].to(d) @ t["w"].to(d).T + t["bias"].to(d))


def gelu_by_torch(t):
    """cuBLASLt's epilogue: its GELU is the tanh form, which costs it less."""
    return torch.ops.aten._addmm_activation(t["bias"], t["x"], t["w"].T, use_gelu=True)


def convolution(B, H, C, F, R, pad):
    def make():
        x = randn(B, H, H, C, dtype=BF16)
        w = (randn(R, R, C, F) * 0.02).to(BF16)
        S = H + 2 * pad - R + 1
        return {"x": x, "w": w, "y": torch.empty(B, S, S, F, device="cuda", dtype=BF16),
                "_x": x.permute(0, 3, 1, 2), "_w": w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)}
    return make


def convolved(t, d, pad):
    y = torch.nn.functional.conv2d(t["x"].to(d).permute(0, 3, 1, 2), t["w"].to(d).permute(3, 2, 0, 1), padding=pad)
    return y.permute(0, 2, 3, 1)


def heads(B, H, S, D):
    def make():
        return {"q": randn(B, H, S, D, dtype=BF16), "k": randn(B, H, S, D, dtype=BF16), "v": randn(B, H, S, D, dtype=BF16),
                "y": torch.empty(B, H, S, D, device="cuda", dtype=BF16)}
    return make


def attended(t, d, causal):
    """A head at a time, as all scores of long sequences are too many."""
    y = torch.empty_like(t["q"], dtype=d)
    scale = t["q"].shape[-1] ** -0.5
    for b, h in ((b, h) for b in range(y.shape[0]) for h in range(y.shape[1])):
        s = t["q"][b, h].to(d) @ t["k"][b, h].to(d).T * scale
        if causal:
            s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), float("-inf"))
        y[b, h] = torch.softmax(s, -1) @ t["v"][b, h].to(d)
    return y


def attention_by(backend, causal):
    def call(t):
        with torch.nn.attention.sdpa_kernel([backend]):
            return F.scaled_dot_product_attention(t["q"], t["k"], t["v"], is_causal=causal)
    return call


def attention_problems():
    """Forward attention against cuDNN's, which leads FlashAttention 2 of PyTorch on this chip."""
    backend = torch.nn.attention.SDPBackend.CUDNN_ATTENTION
    p = []
    for B, H, S, D in ((4, 16, 1024, 128), (4, 16, 4096, 128), (4, 16, 16384, 128), (4, 16, 4096, 64), (2, 16, 4096, 96),
                       (2, 16, 4096, 256)):
        for causal in (False, True):
            work = 4 * B * H * S * S * D // (2 if causal else 1)
            p.append(Problem(f"attention {'causal' if causal else 'full'} b{B} h{H} s{S} d{D}", heads(B, H, S, D), ["y"],
                             lambda t, d, c=causal: attended(t, d, c), None, attention_by(backend, causal),
                             ("attention_causal" if causal else "attention", {"T": "bf16"}, f"q k v y scale={D ** -0.5!r}"),
                             flops=work, compiled=False))
    return p


def gradient_tensors(B, H, S, D, causal, dq):
    """What the forward leaves is cuDNN's; `_saved` is what its backward asks for."""
    def make():
        t = {name: randn(B, H, S, D, dtype=BF16) for name in ("q", "k", "v", "dy")}
        y, lse, _, _, most_q, most_k, seed, offset, _ = torch.ops.aten._scaled_dot_product_cudnn_attention(
            t["q"], t["k"], t["v"], None, True, 0.0, causal, False)
        t |= {name: torch.empty(B, H, S, D, device="cuda", dtype=BF16) for name in ("dk", "dv")}
        return t | {"y": y.contiguous(), "lse": lse.reshape(B, H, S).contiguous(), "dq": torch.empty(B, H, S, D, device="cuda", dtype=dq),
                    "delta": torch.empty(B, H, S, device="cuda"), "_saved": lse, "_seed": seed, "_offset": offset,
                    "_most": (most_q, most_k)}
    return make


def gradients(t, d, causal):
    """A head at a time, as all scores of long sequences are too many."""
    out = {"d" + name: torch.empty_like(t[name], dtype=d) for name in "qkv"}
    scale = t["q"].shape[-1] ** -0.5
    for b, h in ((b, h) for b in range(t["q"].shape[0]) for h in range(t["q"].shape[1])):
        q, k, v, dy = (t[name][b, h].to(d) for name in ("q", "k", "v", "dy"))
        s = q @ k.T * scale
        if causal:
            s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), float("-inf"))
        p = torch.softmax(s, -1)
        dp = dy @ v.T
        ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * scale
        out["dq"][b, h], out["dk"][b, h], out["dv"][b, h] = ds @ k, ds.T @ q, p.T @ dy
    return out


def cudnn_gradients(causal):
    def call(t):
        t["_dq"], t["_dk"], t["_dv"] = torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            t["dy"], t["q"], t["k"], t["v"], t["y"], t["_saved"], t["_seed"], t["_offset"], None, None, None, *t["_most"], 0.0, causal)
        return t["_dq"]
    return call


def gradient_problems():
    """Gradients of attention and the kernel of delta before them, against cuDNN's: by one kernel, which adds dq's parts in any
    order, and by the pair of which every sum has one order."""
    p, file = [], "attention_backward"
    delta = (f"{file}:attention_delta", {"T": "bf16"}, "y dy delta")
    for B, H, S, D in ((4, 16, 4096, 128), (4, 16, 4096, 64), (2, 16, 4096, 96), (3, 10, 1500, 128)):
        for causal in (False, True):
            for pair in (False, True):
                given, scale = "q k v dy lse delta", f"scale={D ** -0.5!r}"
                launch = lambda kernel, out: (f"{file}:{kernel}", {"T": "bf16", "CAUSAL": causal}, f"{given} {out} {scale}")
                name = f"gradients{' by a pair' if pair else ''} {'causal' if causal else 'full'} b{B} h{H} s{S} d{D}"
                p.append(Problem(name, gradient_tensors(B, H, S, D, causal, BF16 if pair else F32),
                                 ["dq", "dk", "dv"], lambda t, d, c=causal: gradients(t, d, c), None, cudnn_gradients(causal),
                                 launch("attention_dkdv", "dk dv") if pair else launch("attention_gradients", "dq dk dv"),
                                 flops=10 * B * H * S * S * D // (2 if causal else 1), compiled=False,
                                 before=(delta, launch("attention_dq", "dq")) if pair else (delta,)))
    return p


def row_problems():
    """Products of few rows, against cuBLAS."""
    p = []
    for M, N, K in ((1, 4096, 4096), (16, 4096, 4096), (16, 8192, 8192), (16, 14336, 4096), (16, 4096, 14336), (64, 8192, 8192),
                    (128, 4096, 4096), (128, 8192, 8192)):
        p.append(Problem(f"NT bf16 {M}x{N}x{K}", nt(M, N, K, BF16, BF16), ["c"], lambda t, d: t["a"].to(d) @ t["b"].to(d).T, None,
                         lambda t: torch.matmul(t["a"], t["b"].T, out=t["c"]),
                         ("bench/peers/products:nt", {"T": "bf16", "O": "bf16"}, "a b c"), flops=2 * M * N * K, compiled=False))
    return p


def type_problems():
    """Products of other types and orders than the table of bf16 has."""
    file, p = "bench/peers/products", []
    product = lambda t, d: t["a"].to(d) @ t["b"].to(d).T
    into = lambda t: torch.matmul(t["a"], t["b"].T, out=t["c"])

    def row(name, M, N, K, dtype, out, eager, kernel="nt", constants=None):
        p.append(Problem(f"{name} {M}x{N}x{K}", nt(M, N, K, dtype, out), ["c"], product, None, eager,
                         (f"{file}:{kernel}", constants or {}, "a b c"), flops=2 * M * N * K, compiled=False))
    for n in (1024, 4096, 8192):
        row("NT bf16", n, n, n, BF16, BF16, into, constants={"T": "bf16", "O": "bf16"})
    row("NT f16", 4096, 4096, 4096, F16, F16, into, constants={"T": "f16", "O": "f16"})
    for n in (4096, 8192):
        row("NT tf32", n, n, n, F32, F32, tf32(into), constants={"T": "f32", "O": "f32"})
    for n in (4096, 8192):
        row("NT int8", n, n, n, torch.int8, torch.int32, lambda t: torch._int_mm(t["a"], t["b"].T, out=t["c"]), "nt_bytes",
            {"T": "i8"})
        for fast in (False, True):
            row("NT e4m3" + (" fast" if fast else ""), n, n, n, torch.float8_e4m3fn, BF16, scaled_mm(fast),
                "nt_fast" if fast else "nt", {"T": "f8e4m3", "O": "bf16"})
    p.append(Problem("batched bf16 32 x 1024", batches(32, 1024, 1024, 1024), ["c"], lambda t, d: t["a"].to(d) @ t["b"].to(d),
                     None, lambda t: torch.bmm(t["a"], t["b"], out=t["c"]), ("batched_matmul", {"T": "bf16"}, "a b c"),
                     flops=2 * 32 * 1024 ** 3, compiled=False))
    p.append(Problem("bias + GELU 4096", linear(4096, 4096, 4096), ["y"], gelu_of, None, gelu_by_torch,
                     ("matmul_bias_gelu", {"T": "bf16"}, "x w bias y"), flops=2 * 4096 ** 3, compiled=False))
    for B, H, C, F, R, pad in ((16, 64, 256, 256, 4, 1), (32, 56, 256, 256, 3, 1)):
        S = H + 2 * pad - R + 1
        p.append(Problem(f"conv2d {B}x{H}x{H}x{C} to {F}, {R}x{R}", convolution(B, H, C, F, R, pad), ["y"],
                         lambda t, d, pad=pad: convolved(t, d, pad), None,
                         lambda t, pad=pad: torch.nn.functional.conv2d(t["_x"], t["_w"], padding=pad),
                         ("conv2d", {"T": "bf16"}, f"x w y pad=i{pad}"), flops=2 * B * S * S * F * R * R * C, compiled=False))
    return p
