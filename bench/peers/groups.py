"""Products of groups of rows (the experts of a mixture) and of batches: their tensors, references and peers.

Rows of a group lie one behind the other, `first` says where each begins; groups may be empty.  The library's form is
torch._grouped_mm (CUTLASS), whose rows must lie in order: where the kernel gathers, torch gathers before it.  Triton's is
persistent, by tensor descriptors, and is given a table of its tiles that no launch has to compute; the one of 8-bit floats
is DeepGEMM's form: scales of 1 x 128 and 128 x 128, a sum for each 128 of K that is added in f32."""
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BF16, F32, E4M3 = torch.bfloat16, torch.float32, torch.float8_e4m3fn
FILE = "bench/peers/grouped"


@triton.jit(do_not_specialize=["n_tiles"])
def grouped_kernel(x, w, w2, xp, token, weight, tiles, y, n_tiles, K, N, WROWS, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                   NT: tl.constexpr, GATHER: tl.constexpr, TWO: tl.constexpr, ADD: tl.constexpr):
    for t in range(tl.program_id(0), n_tiles, tl.num_programs(0)):
        e = tl.load(tiles + 4 * t)
        start = tl.load(tiles + 4 * t + 1)
        end = tl.load(tiles + 4 * t + 2)
        n = tl.load(tiles + 4 * t + 3)
        m = start + tl.arange(0, BM)
        inside = m < end
        if GATHER:
            row = tl.load(token + m, inside, other=0).to(tl.int64)
            p = xp + row[:, None] * K + tl.arange(0, BK)[None, :]
        acc = tl.zeros([BM, BN], tl.float32)
        if TWO:
            up = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            if GATHER:
                a = tl.load(p + k)
            else:
                a = x.load([start, k])
            if NT:
                acc = tl.dot(a, w.load([e * WROWS + n, k]).T, acc)
            else:
                acc = tl.dot(a, w.load([e * WROWS + k, n]), acc)
            if TWO:
                up = tl.dot(a, w2.load([e * WROWS + k, n]), up)
        if TWO:
            acc = acc * tl.sigmoid(acc) * up
        c = n + tl.arange(0, BN)
        mask = inside[:, None] & (c < N)[None, :]
        if ADD:
            to = tl.load(token + m, inside, other=0).to(tl.int64)
            acc *= tl.load(weight + m, inside, other=0)[:, None]
            tl.atomic_add(y + to[:, None] * N + c[None, :], acc, mask, sem="relaxed")
        else:
            tl.store(y + m[:, None].to(tl.int64) * N + c[None, :], acc.to(y.dtype.element_ty), mask)


@triton.jit(do_not_specialize=["n_tiles"])
def grouped_fp8_kernel(x, xs, w, ws, tiles, y, n_tiles, K, N, KB, NB, BM: tl.constexpr, BN: tl.constexpr):
    for t in range(tl.program_id(0), n_tiles, tl.num_programs(0)):
        e = tl.load(tiles + 4 * t)
        start = tl.load(tiles + 4 * t + 1)
        end = tl.load(tiles + 4 * t + 2)
        n = tl.load(tiles + 4 * t + 3)
        m = start + tl.arange(0, BM)
        inside = m < end
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, KB):
            p = tl.dot(x.load([start, k * 128]), w.load([e * N + n, k * 128]).T)
            s = tl.load(xs + m * KB + k, inside, other=0) * tl.load(ws + (e * NB + n // 128) * KB + k)
            acc += p * s[:, None]
        c = n + tl.arange(0, BN)
        tl.store(y + m[:, None].to(tl.int64) * N + c[None, :], acc.to(y.dtype.element_ty), inside[:, None] & (c < N)[None, :])


def table(s, BM, BN, N):
    """Of each tile: expert, first row, the expert's last row, first column; rows fastest."""
    key = f"_tiles{BM}x{BN}"
    if key not in s:
        first = s["first"].tolist()
        rows = [(e, m, first[e + 1], n) for e in range(len(first) - 1) for n in range(0, N, BN)
                for m in range(first[e], first[e + 1], BM)]
        s[key] = torch.tensor(rows, dtype=torch.int32).cuda()
    return s[key]


def descriptor(s, name, rows, BR, BC):
    key = f"_{name}{BR}x{BC}"
    if key not in s:
        v = s[name].view(rows, -1)
        s[key] = TensorDescriptor(v, list(v.shape), list(v.stride()), [BR, BC])
    return s[key]


CONFIGS = [(128, 256, 64, 3, 8), (128, 128, 64, 4, 8), (64, 256, 64, 4, 4), (64, 128, 64, 4, 4), (128, 256, 64, 4, 8), (32, 128, 64, 5, 4),
           (16, 128, 128, 4, 4), (16, 256, 64, 4, 4)]        # few rows want few


def triton_grouped(NT=False, GATHER=False, TWO=False, ADD=False):
    def make(one):
        for BM, BN, BK, st, w in CONFIGS:
            if TWO and BN == 256:
                continue

            def call(s, BM=BM, BN=BN, BK=BK, st=st, w=w):
                x, b = s["x"], s["gate" if TWO else "w"]
                E, K, N = b.shape[0], x.shape[1], s["y"].shape[1]
                t = table(s, BM, BN, N)
                box = (BN, BK) if NT else (BK, BN)
                bd = descriptor(s, "gate" if TWO else "w", E * b.shape[1], *box)
                ud = descriptor(s, "up", E * b.shape[1], *box) if TWO else bd
                if ADD:
                    s["y"].zero_()
                grouped_kernel[(min(132, t.shape[0]),)](
                    descriptor(s, "x", x.shape[0], BM, BK), bd, ud, x, s.get("token", s["first"]), s.get("weight", s["first"]), t, s["y"],
                    t.shape[0], K, N, b.shape[1], BM=BM, BN=BN, BK=BK, NT=NT, GATHER=GATHER, TWO=TWO, ADD=ADD, num_warps=w, num_stages=st)
            yield f"{BM}x{BN} st{st} w{w}", call
    return make


def triton_fp8(one):
    for BM, BN, st, w in ((128, 128, 4, 8), (128, 128, 3, 4), (64, 128, 4, 4), (32, 128, 5, 4), (16, 128, 5, 4)):
        def call(s, BM=BM, BN=BN, st=st, w=w):
            E, N, K = s["w"].shape
            t = table(s, BM, BN, N)
            grouped_fp8_kernel[(min(132, t.shape[0]),)](
                descriptor(s, "x", s["x"].shape[0], BM, 128), s["xs"], descriptor(s, "w", E * N, BN, 128), s["ws"], t, s["y"], t.shape[0],
                K, N, K // 128, N // 128, BM=BM, BN=BN, num_warps=w, num_stages=st)
        yield f"{BM}x{BN} st{st} w{w}", call


# ---- tensors ----

def loads(A, E, kind):
    """Where groups begin: equal; even: as equal as whole numbers are; rising: many empty ones first, then ever larger."""
    e = torch.arange(E + 1, dtype=torch.int64)
    return {"equal": e * A // E, "rising": e * e * A // (E * E), "one": torch.where(e > E // 2, A, 0)}[kind].to(torch.int32).cuda()


def randn(*shape, scale=1.0, dtype=BF16):
    return (torch.randn(*shape, device="cuda", dtype=F32) * scale).to(dtype)


def tensors(A, E, K, N, kind, form):
    tokens = max(1, A // 8)

    def make():
        rows = tokens if form == "gate_up" or form == "gathered" else A
        s = {"x": randn(rows, K), "first": loads(A, E, kind)}
        shape = (E, N, K) if form == "grouped_nt" else (E, K, N)
        for name in ("gate", "up") if form == "gate_up" else ("w",):
            s[name] = torch.empty(shape, device="cuda", dtype=BF16)
            for e in range(E):
                s[name][e] = randn(*shape[1:], scale=0.02)
        if form in ("gathered", "gate_up", "down"):
            s["token"] = (torch.randperm(A, device="cuda") // 8 % tokens).to(torch.int32)
        if form == "down":
            s["weight"] = torch.rand(A, device="cuda")
            s["y"] = torch.empty(tokens, N, device="cuda", dtype=F32)
        else:
            s["y"] = torch.empty(A, N, device="cuda", dtype=BF16)
        return s
    return make


def fp8_tensors(A, E, K, N, kind):
    def make():
        s = {"x": randn(A, K, dtype=E4M3), "xs": torch.rand(A, K // 128, device="cuda"), "first": loads(A, E, kind),
             "w": torch.empty(E, N, K, device="cuda", dtype=E4M3), "ws": torch.rand(E, N // 128, K // 128, device="cuda"),
             "y": torch.empty(A, N, device="cuda", dtype=BF16)}
        for e in range(E):
            s["w"][e] = randn(N, K, dtype=E4M3)
        return s
    return make


# ---- references and the library ----

def by_group(s, x, part):
    first = s["first"].tolist()
    out = [part(x[a:b], e) for e, (a, b) in enumerate(zip(first, first[1:])) if b > a]
    return torch.cat(out)


def reference(form):
    def value(s, d):
        rows = s["x"][s["token"].long()] if form in ("gathered", "gate_up") else s["x"]
        if form == "gate_up":
            return by_group(s, rows, lambda x, e: torch.nn.functional.silu(x.to(d) @ s["gate"][e].to(d)) * (x.to(d) @ s["up"][e].to(d)))
        y = by_group(s, rows, lambda x, e: x.to(d) @ (s["w"][e].to(d).T if form == "grouped_nt" else s["w"][e].to(d)))
        if form == "down":
            return torch.zeros(s["y"].shape, device="cuda", dtype=d).index_add_(0, s["token"].long(), y * s["weight"].to(d)[:, None])
        return y
    return value


def fp8_reference(s, d):
    def part(x, e):
        return x @ (s["w"][e].to(d) * s["ws"][e].to(d).repeat_interleave(128, 0).repeat_interleave(128, 1)).T
    return by_group(s, s["x"].to(d) * s["xs"].to(d).repeat_interleave(128, 1), part)


def library(form):
    def call(s):
        offs = s["first"][1:]
        if form == "gathered":
            return torch._grouped_mm(s["x"].index_select(0, s["token"]), s["w"], offs=offs)
        if form == "gate_up":
            x = s["x"].index_select(0, s["token"])
            return torch.nn.functional.silu(torch._grouped_mm(x, s["gate"], offs=offs)) * torch._grouped_mm(x, s["up"], offs=offs)
        if form == "down":
            y = torch._grouped_mm(s["x"], s["w"], offs=offs).float() * s["weight"][:, None]
            return s["y"].zero_().index_add_(0, s["token"], y)
        return torch._grouped_mm(s["x"], s["w"].transpose(1, 2) if form == "grouped_nt" else s["w"], offs=offs)
    return call


FORMS = {"grouped": ("grouped", "x w first y", {}), "grouped_nt": ("grouped_nt", "x w first y", {"NT": True}),
         "gathered": ("moe_matmul", "x w token first y", {"GATHER": True}),
         "gate_up": ("gate_up", "x gate up token first y", {"GATHER": True, "TWO": True}),
         "down": ("down", "x w token weight first y", {"ADD": True})}
# Form, rows, groups, K, N, loads.  FITTED, some of ASIDE, and of LATE the one of 776 rows were looked at while the compiler's estimate was made.
FITTED = [("grouped", 8192, 8, 4096, 14336, "equal"), ("grouped", 16384, 64, 1024, 2048, "equal"), ("grouped", 4096, 64, 1024, 2048, "equal"),
          ("gathered", 8192, 8, 4096, 14336, "equal"), ("gathered", 16384, 64, 1024, 2048, "equal"), ("gathered", 4096, 64, 1024, 2048, "equal"),
          ("grouped_nt", 16384, 64, 1024, 2048, "equal"), ("gate_up", 16384, 64, 2048, 1408, "equal"), ("down", 16384, 64, 1408, 2048, "equal")]
ASIDE = [("grouped", 16384, 64, 2048, 1408, "rising"), ("grouped", 2048, 256, 7168, 2048, "rising"), ("grouped", 64, 64, 2048, 1408, "equal"),
         ("grouped", 8192, 8, 5120, 4864, "rising"), ("grouped_nt", 128, 8, 5120, 4864, "equal"), ("gathered", 1024, 128, 2048, 768, "rising"),
         ("gathered", 8192, 16, 5120, 1408, "rising"), ("gate_up", 4096, 128, 2048, 768, "rising"), ("gate_up", 512, 64, 2048, 1408, "rising"),
         ("down", 4096, 128, 768, 2048, "rising"), ("grouped", 4096, 8, 2048, 1408, "one")]
LATE = [("grouped", 3000, 24, 5120, 768, "rising"), ("grouped", 1048, 8, 4096, 14336, "equal"), ("grouped_nt", 776, 40, 7168, 1408, "rising"),
        ("gathered", 256, 64, 5120, 768, "equal"), ("gathered", 16384, 64, 2048, 2816, "equal"), ("gathered", 24, 16, 5120, 4864, "equal"),
        ("gate_up", 8192, 16, 5120, 1408, "rising"), ("down", 2048, 32, 1408, 5120, "rising"), ("down", 8192, 8, 4864, 5120, "equal")]
FP8 = [(8192, 32, 7168, 4096, "equal"), (8192, 32, 2048, 7168, "rising"), (1024, 64, 7168, 4096, "equal"), (4096, 16, 2048, 1408, "rising"), (512, 128, 5120, 1536, "rising")]
# of M, N, K: the first ten were looked at
BATCHES = [(64, 128, 128, 128), (64, 256, 256, 256), (64, 512, 512, 512), (256, 128, 128, 64), (96, 384, 384, 80), (128, 512, 64, 512),
           (32, 200, 312, 136), (48, 1000, 96, 1000), (512, 64, 64, 64), (16, 512, 2048, 128),
           (37, 384, 640, 96), (128, 80, 80, 1000), (12, 1000, 1000, 64), (200, 197, 64, 197), (200, 200, 200, 64), (6, 3000, 704, 320),
           (64, 1024, 128, 80), (500, 48, 96, 40), (20, 333, 257, 190), (8, 4096, 64, 4096)]


def group_problems(Problem):
    p = []
    for form, A, E, K, N, kind in FITTED + ASIDE + LATE:
        kernel, spec, flags = FORMS[form]
        name = f"{form} bf16 {A} rows, {E} {kind} experts, {K} x {N}"
        p.append(Problem(name, tensors(A, E, K, N, kind, form), ["y"], reference(form), triton_grouped(**flags), library(form),
                         (("" if kernel == "moe_matmul" else FILE + ":") + kernel, {"T": "bf16"}, spec),
                         flops=2 * A * N * K * (2 if form == "gate_up" else 1), compiled=False))
    for A, E, K, N, kind in FP8:
        p.append(Problem(f"fp8 1x128 {A} rows, {E} {kind} experts, {K} x {N}", fp8_tensors(A, E, K, N, kind), ["y"], fp8_reference, triton_fp8,
                         None, (FILE + ":grouped_fp8", {}, "x xs w ws first y"), flops=2 * A * N * K, compiled=False))
    return p


def batch_problems(Problem):
    p = []
    for B, M, N, K in BATCHES:
        for NT in (False, True):
            def make(NT=NT, B=B, M=M, N=N, K=K):
                return {"a": randn(B, M, K), "b": randn(B, N, K) if NT else randn(B, K, N), "c": torch.empty(B, M, N, device="cuda", dtype=BF16)}

            def other(s, NT=NT):
                return s["b"].transpose(1, 2) if NT else s["b"]
            p.append(Problem(f"batched bf16 {'NT' if NT else 'NN'} {B} of {M}x{N}x{K}", make, ["c"],
                             lambda s, d, other=other: s["a"].to(d) @ other(s).to(d), None,
                             lambda s, other=other: torch.bmm(s["a"], other(s), out=s["c"]),
                             (FILE + ":batched_nt" if NT else "batched_matmul", {"T": "bf16"}, "a b c"), flops=2 * B * M * N * K, compiled=False))
    return p
