"""Functions of a transformer on kernels that come with the package (nn.tgl), for arrays of PyTorch, JAX and NumPy.

Rows are the last axis, computed in f32, of f64 in f64.  With PyTorch (imported before) they work under torch.compile; softmax,
rmsnorm, layernorm, rope and silu_mul have gradients there and under jax.grad, and the others raise where one is asked for.
"""

import math
import os
import sys

from . import _program

kernels = _program.load(os.path.join(os.path.dirname(__file__), "nn.tgl"))

_backward = {n: n + "_backward" for n in ("softmax", "rmsnorm", "layernorm", "rope", "silu_mul")}
_torch_ops, _jax_ops = {}, {}


def _make_torch_ops():
    from . import torch as binding

    for k in kernels:
        if not k.__name__.endswith("_backward"):
            back = _backward.get(k.__name__)
            back = kernels[back] if back else None
            _torch_ops[k.__name__] = binding.op(k, backward=back, name=f"tegula::nn_{k.__name__}")


if "torch" in sys.modules:
    _make_torch_ops()


def _library(x):
    return type(x).__module__.split(".")[0]


def _contiguous(a):
    """What kernels take: a copy of views with strides."""
    library = _library(a)
    if library == "torch":
        return a.contiguous()
    if library in ("numpy", "cupy") and getattr(a, "ndim", 0) and not a.flags.c_contiguous:
        return sys.modules[library].ascontiguousarray(a)
    return a


def _run(name, *args):
    """The operator where PyTorch records or traces, a plain launch elsewhere."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(args[0], torch.Tensor):
        recorded = torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
        if recorded or torch.compiler.is_compiling():
            if not _torch_ops:
                _make_torch_ops()
            return _torch_ops[name](*args)
    elif _library(args[0]) in ("jax", "jaxlib") and name in _backward:
        if name not in _jax_ops:
            from . import jax as binding

            _jax_ops[name] = binding.op(kernels[name], backward=kernels[_backward[name]])
        return _jax_ops[name](*args)
    return kernels[name](*map(_contiguous, args))


def _rows(x):
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def softmax(x):
    """Along the last axis."""
    return _run("softmax", _rows(x)).reshape(x.shape)


def rmsnorm(x, weight, eps=1e-6):
    """x / sqrt(mean(x²) + eps) · weight along the last axis."""
    return _run("rmsnorm", _rows(x), weight, eps).reshape(x.shape)


def layernorm(x, weight, bias, eps=1e-5):
    return _run("layernorm", _rows(x), weight, bias, eps).reshape(x.shape)


def rope(x, position, base=10000.0):
    """Rotary embedding of x[..., S, H, D] at position[..., S] (i32): the two halves of each head are rotated."""
    return _run("rope", x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]), position.reshape(-1), base).reshape(x.shape)


def silu_mul(gate, up):
    """silu(gate) · up."""
    return _run("silu_mul", gate.reshape(-1), up.reshape(-1)).reshape(gate.shape)


def linear_int4(x, weight, scale):
    """x[..., K] times the transpose of weight[N, K], 4-bit integers, two in a byte (weight is u8[N, K / 2], as
    quantize_int4 makes it), with scale[N, K / 64]."""
    return _run("linear_int4", _rows(x), weight, scale).reshape(*x.shape[:-1], weight.shape[0])


def linear_fp8(x, weight, weight_scale):
    """x[..., K] (bf16) times the transpose of weight[N, K] (e4m3 with a scale a row, as quantize_fp8 makes it).  Rows
    of x are quantised as they come."""
    a, a_scale = _run("quantize_fp8", _rows(x))
    return _run("linear_fp8", a, a_scale, weight, weight_scale).reshape(*x.shape[:-1], weight.shape[0])


def quantize_fp8(x):
    """x[R, C] as e4m3 and a scale a row: (q, scale)."""
    return _run("quantize_fp8", x)


def quantize_int4(weight):
    """weight[N, K], K a multiple of 64, as (u8[N, K / 2], scale[N, K / 64]): groups of 64 along K from -8 to 7."""
    n, k = weight.shape
    groups = weight.reshape(n, k // 64, 64)
    library = _library(weight)
    if library == "torch":
        import torch as m

        top = groups.abs().amax(-1)
    elif library == "numpy":
        import numpy as m

        top = abs(groups).max(-1)
    else:
        import jax.numpy as m

        top = abs(groups).max(-1)
    scale = m.where(top > 0, top / 7, m.ones_like(top))
    q = m.round(groups / scale[..., None]).reshape(n, k // 2, 2)
    q = q.to(m.int32) if library == "torch" else q.astype(m.int32)
    packed = (q[..., 0] & 15) | (q[..., 1] & 15) << 4
    return packed.to(m.uint8) if library == "torch" else packed.astype(m.uint8), scale


def attention(q, k, v, length, scale=None):
    """Causal attention of q[B, S, H, D], the last S tokens of each sequence, over a cache k, v [B, L, G, D], of which
    sequence b has length[b] (i32) tokens, these S included.  H is a multiple of G.  `scale` is 1 / sqrt(D) if none is
    given."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if q.shape[1] == 1:
        return _run("attention_one", q.reshape(q.shape[0], *q.shape[2:]), k, v, length, scale).reshape(q.shape)
    return _run("attention", q, k, v, length, scale)
