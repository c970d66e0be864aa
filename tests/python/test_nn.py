"""tegula.nn against NumPy's arithmetic, and its kernels by their own references."""

import numpy as np
import pytest

import tegula
from tegula import nn

random = np.random.default_rng(5)


def data(*shape, dtype=np.float32):
    return random.normal(size=shape).astype(dtype)


def rmsnorm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def attention(q, k, v, length):
    b, s, h, d = q.shape
    k, v = np.repeat(k, h // k.shape[2], 2), np.repeat(v, h // v.shape[2], 2)
    score = np.einsum("bshd,blhd->bhsl", q, k) / np.sqrt(d)
    at = length[:, None] - s + np.arange(s)
    score = np.where(np.arange(k.shape[1]) <= at[:, None, :, None], score, -np.inf)
    e = np.exp(score - score.max(-1, keepdims=True))
    return np.einsum("bhsl,blhd->bshd", e / e.sum(-1, keepdims=True), v)


def near(got, want, bound=1e-5):
    assert got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", nn.kernels.kernels)
def test_references(name):
    if nn.kernels[name].examples:
        assert nn.kernels[name].check(device="cpu")


def test_rows():
    x, w, b = data(2, 3, 100), data(100), data(100)
    near(nn.rmsnorm(x, w, 1e-5), rmsnorm(x, w, 1e-5))
    d = x - x.mean(-1, keepdims=True)
    near(nn.layernorm(x, w, b), d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w + b)
    e = np.exp(x - x.max(-1, keepdims=True))
    near(nn.softmax(x), e / e.sum(-1, keepdims=True))
    near(nn.silu_mul(x, x), x / (1 + np.exp(-x)) * x)


def test_rope():
    x, position = data(2, 5, 3, 8), np.arange(10, dtype=np.int32).reshape(2, 5)
    angle = position[..., None] * 10000.0 ** (-np.arange(4) / 4)
    cos, sin = np.cos(angle)[:, :, None], np.sin(angle)[:, :, None]
    want = np.concatenate([x[..., :4] * cos - x[..., 4:] * sin, x[..., 4:] * cos + x[..., :4] * sin], -1)
    near(nn.rope(x, position), want, 1e-4)


def test_linear_int4():
    x, w = data(2, 3, 128, dtype=np.float16), data(10, 128, dtype=np.float16)
    q, scale = nn.quantize_int4(w)
    assert q.shape == (10, 64) and q.dtype == np.uint8 and scale.shape == (10, 2)
    low, high = (q & 15).astype(np.int8), (q >> 4).astype(np.int8)
    v = np.stack([np.where(low > 7, low - 16, low), np.where(high > 7, high - 16, high)], -1).reshape(10, 128)
    v = v * np.repeat(scale.astype(np.float32), 64, 1)
    assert abs(v - w).max() < 0.6 * scale.max()
    near(nn.linear_int4(x, q, scale), x.astype(np.float32) @ v.T, 2e-2)


def test_linear_fp8():
    ml = pytest.importorskip("ml_dtypes")
    x, w = data(7, 96).astype(ml.bfloat16), data(10, 96).astype(ml.bfloat16)
    q, scale = nn.quantize_fp8(w)
    assert q.dtype == ml.float8_e4m3fn and scale.shape == (10,)
    a, a_scale = nn.quantize_fp8(x)
    left, right = a.astype(np.float32) * a_scale[:, None], q.astype(np.float32) * scale[:, None]
    assert abs(right - w.astype(np.float32)).max() < 0.04 * abs(right).max()
    near(nn.linear_fp8(x, q, scale), left @ right.T, 1e-2)


@pytest.mark.parametrize("s", [1, 5])
def test_attention(s):
    q, k, v = data(2, s, 4, 16), data(2, 30, 2, 16), data(2, 30, 2, 16)
    length = np.array([30, 17], np.int32)
    near(nn.attention(q, k, v, length), attention(q, k, v, length), 1e-4)


def test_views_and_empty_rows():
    x, w = data(6, 4), data(2)
    e = np.exp(x.T - x.T.max(-1, keepdims=True))
    near(nn.softmax(x.T), e / e.sum(-1, keepdims=True))
    near(nn.rmsnorm(x[:, ::2], w), rmsnorm(x[:, ::2], w, 1e-6))
    for shape in ((3, 0), (0, 5), (2, 0, 5)):
        assert nn.softmax(np.zeros(shape, np.float32)).shape == shape
    q, k, v = data(2, 5, 4, 16), data(2, 30, 2, 16), data(2, 30, 2, 16)
    length = np.array([30, 17], np.int32)
    near(nn.attention(q[:, :1], k, v, length), attention(q[:, :1], k, v, length), 1e-4)
    for s in (1, 5):
        with pytest.raises(tegula.LaunchError, match="H % G == 0"):
            nn.attention(q[:, :s, :3].copy(), k, v, length)


def test_f64_is_computed_in_f64():
    x, w = data(4, 6, dtype=np.float64), data(6, dtype=np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    near(nn.softmax(x), e / e.sum(-1, keepdims=True), 1e-14)
    near(nn.silu_mul(x, x), x / (1 + np.exp(-x)) * x, 1e-14)
    near(nn.rmsnorm(x, w, 0.0), rmsnorm(x, w, 0.0), 1e-14)


def test_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    x, w = jnp.asarray(data(4, 32)), jnp.asarray(data(32))

    def plain(x, w):
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w

    near(jax.jit(nn.rmsnorm)(x, w), np.asarray(plain(x, w)))
    got = jax.jit(jax.grad(lambda x, w: (nn.rmsnorm(x, w) ** 2).sum(), argnums=(0, 1)))(x, w)
    want = jax.grad(lambda x, w: (plain(x, w) ** 2).sum(), argnums=(0, 1))(x, w)
    for g, h in zip(got, want):
        near(g, np.asarray(h), 1e-3)


def test_torch():
    torch = pytest.importorskip("torch")
    double = dict(dtype=torch.float64, requires_grad=True)
    x, w, b = torch.randn(3, 6, **double), torch.randn(6, **double), torch.randn(6, **double)
    position = torch.arange(3, dtype=torch.int32)
    check = torch.autograd.gradcheck
    assert check(nn.softmax, (x,)) and check(nn.silu_mul, (x, x.detach() + 1))
    assert check(nn.rmsnorm, (x, w)) and check(nn.layernorm, (x, w, b))
    h = torch.randn(3, 2, 4, **double)
    assert check(lambda h: nn.rope(h, position), (h,))
    v = torch.randn(6, 4)
    assert torch.allclose(nn.softmax(v.T), torch.softmax(v.T, -1), atol=1e-6)
    assert torch.allclose(nn.rmsnorm(v[:, ::2], torch.ones(2)), torch.nn.functional.rms_norm(v[:, ::2], (2,), eps=1e-6), atol=1e-5)
    a = torch.ones(3, 128, dtype=torch.float16, requires_grad=True)
    with pytest.raises(NotImplementedError, match="operator 'tegula::nn_linear_int4' has no gradient"):
        nn.linear_int4(a, *nn.quantize_int4(torch.randn(32, 128).half())).sum().backward()
    f = torch.compile(lambda x, w: nn.rmsnorm(x, w) + nn.softmax(x), fullgraph=True, backend="aot_eager")
    x, w = torch.randn(4, 32), torch.randn(32)
    assert torch.allclose(f(x, w), nn.rmsnorm(x, w) + nn.softmax(x), atol=1e-6)
