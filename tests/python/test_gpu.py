"""The package on an NVIDIA GPU: streams, graphs and devices of PyTorch, CuPy and JAX.  Skipped where there is none."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tegula

if not any(d["name"].startswith("cuda") and d["available"] for d in tegula.devices()):
    pytest.skip("there is no NVIDIA GPU", allow_module_level=True)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_torch_stream(k):
    """A launch goes behind what the current stream has, and nothing waits for it."""
    torch = pytest.importorskip("torch")
    big = torch.randn(4096, 4096, device="cuda")
    stream = torch.cuda.Stream()

    def chain():
        with torch.cuda.stream(stream):
            torch.cuda._sleep(400_000_000)
            z = big * 2
            y = k.softmax(z)
            done = torch.cuda.Event()
            done.record()
        return z, y, done

    chain()                                  # what is loaded and allocated at first use may wait
    torch.cuda.synchronize()
    z, y, done = chain()
    assert not done.query()
    torch.cuda.synchronize()
    assert torch.allclose(y, torch.softmax(z, 1), atol=1e-6)


def test_torch_graph(k):
    torch = pytest.importorskip("torch")
    x = torch.randn(64, 512, device="cuda")
    y = k.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        k.softmax(k.softmax(x), out=y)
    x.copy_(torch.randn_like(x))
    graph.replay()
    assert torch.allclose(y, torch.softmax(torch.softmax(x, 1), 1), atol=1e-6)


def test_torch_graph_of_a_first_call(k):
    """A kernel that is compiled while a graph is recorded."""
    torch = pytest.importorskip("torch")
    x = torch.randn(61, 700, device="cuda")
    y = torch.empty_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        k.softmax(x, out=y)
    graph.replay()
    assert torch.allclose(y, torch.softmax(x, 1), atol=1e-6)


def test_torch_graph_outlives_other_forms(k):
    """The code that a graph launches stays loaded, whatever else is launched later."""
    torch = pytest.importorskip("torch")
    x = torch.randn(8, 500, device="cuda")
    y = k.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        k.softmax(x, out=y)
    for c in range(501, 590):
        k.softmax(torch.randn(3, c, device="cuda"))
    y.zero_()
    graph.replay()
    assert torch.allclose(y, torch.softmax(x, 1), atol=1e-6)


def test_torch_compile(k):
    torch = pytest.importorskip("torch")
    import tegula.torch

    op = tegula.torch.op(k.softmax, backward=k.softmax_backward)
    f = torch.compile(lambda x: op(x * 2) + 1, fullgraph=True)
    x = torch.randn(33, 100, device="cuda", requires_grad=True)
    y = f(x)
    assert torch.allclose(y, torch.softmax(x * 2, 1) + 1, atol=1e-6)
    y.square().sum().backward()
    got, x.grad = x.grad, None
    (torch.softmax(x * 2, 1) + 1).square().sum().backward()
    assert torch.allclose(got, x.grad, atol=1e-5)


def test_devices_named(k):
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 8, device="cuda")
    with pytest.raises(tegula.LaunchError, match="'y' is on cpu, but 'x' is on cuda:0"):
        k.softmax(x, out=torch.empty(3, 8))


def test_tvm_ffi(k):
    torch, tvm_ffi = pytest.importorskip("torch"), pytest.importorskip("tvm_ffi")
    x = torch.randn(33, 1000, device="cuda")
    stream = torch.cuda.Stream()
    with tvm_ffi.use_torch_stream(torch.cuda.stream(stream)):
        z = x * 2
        y = k.softmax(tvm_ffi.from_dlpack(z))
    stream.synchronize()
    assert isinstance(y, tvm_ffi.Tensor)
    assert torch.allclose(torch.from_dlpack(y), torch.softmax(2 * x, 1), atol=1e-6)


def test_cupy(k):
    cupy = pytest.importorskip("cupy")
    x = cupy.random.standard_normal((33, 1000), dtype=cupy.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        z = x * 2
        y = k.softmax(z)
        out = cupy.empty_like(z)
        assert k.softmax(z, out=out) is out
    stream.synchronize()
    assert isinstance(y, cupy.ndarray)
    np.testing.assert_allclose(y.get(), softmax(2 * x.get()), atol=1e-6)
    np.testing.assert_array_equal(y.get(), out.get())
    v = cupy.zeros(9, cupy.float32)
    assert k.add(v, 1.5) is v and float(v.sum()) == 13.5
    np.testing.assert_array_equal(k.columns(x.T).get(), x.T.get())


def test_dlpack_between_libraries(k):
    """PyTorch's and CuPy's arrays in one call; the result is of the first one's library."""
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    x = torch.randn(5, 64, device="cuda")
    torch.cuda.synchronize()
    y = cupy.empty((5, 64), cupy.float32)
    k.softmax(x, out=y)
    torch.cuda.synchronize()
    np.testing.assert_allclose(y.get(), softmax(x.cpu().numpy()), atol=1e-6)


def test_jax(k):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX here has no CUDA")
    x = jax.numpy.asarray(np.random.default_rng(0).normal(size=(33, 1000)).astype(np.float32))
    np.testing.assert_allclose(np.asarray(k.softmax(x)), softmax(np.asarray(x)), atol=1e-6)
    y = jax.jit(lambda x: k.softmax(x * 2) + 1)(x)
    np.testing.assert_allclose(np.asarray(y), softmax(2 * np.asarray(x)) + 1, atol=1e-6)
    grad = jax.jit(jax.grad(lambda x: (k_op(k)(x) ** 2).sum()))(x)
    want = jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum())(x)
    np.testing.assert_allclose(np.asarray(grad), np.asarray(want), atol=1e-6)


def k_op(k):
    import tegula.jax

    return tegula.jax.op(k.softmax, backward=k.softmax_backward)


def test_nn(k):
    torch = pytest.importorskip("torch")
    from tegula import nn

    f = torch.nn.functional
    x = torch.randn(2, 77, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(1024, device="cuda", dtype=torch.bfloat16)
    near = lambda a, b, bound: float((a.float() - b.float()).abs().max()) <= bound * float(b.float().abs().max())
    assert near(nn.rmsnorm(x, w), f.rms_norm(x, (1024,), w, 1e-6), 0.01)
    assert near(nn.layernorm(x, w, w), f.layer_norm(x, (1024,), w, w), 0.01)
    assert near(nn.silu_mul(x, x), f.silu(x) * x, 0.01)
    weight = torch.randn(512, 1024, device="cuda", dtype=torch.bfloat16) * 0.02
    assert near(nn.linear_int4(x, *nn.quantize_int4(weight)), f.linear(x, weight), 0.2)
    assert near(nn.linear_fp8(x, *nn.quantize_fp8(weight)), f.linear(x, weight), 0.1)
    q = torch.randn(2, 50, 8, 128, device="cuda", dtype=torch.bfloat16)
    kv = torch.randn(2, 50, 2, 128, device="cuda", dtype=torch.bfloat16)
    n = torch.tensor([50, 50], device="cuda", dtype=torch.int32)
    h = [t.transpose(1, 2) for t in (q, kv, kv)]
    want = f.scaled_dot_product_attention(*h, is_causal=True, enable_gqa=True).transpose(1, 2)
    assert near(nn.attention(q, kv, kv, n), want, 0.02)
    assert near(nn.attention(q[:, -1:].contiguous(), kv, kv, n), want[:, -1:], 0.02)


@pytest.mark.parametrize("first", ["parent", "child"])
def test_fork(first):
    """A child of fork runs kernels on the CPU, whatever its parent did with CUDA; it gets words for a GPU's."""
    text = f"""
import os, numpy as np, tegula
k = tegula.compile("kernel add(x: inout f32[N], by: f32) grid(i: cdiv(N, 8)) {{ x[i*8 +: 8] = x[i*8 +: 8] + by; }}")
assert k.add(np.zeros(9, np.float32), 1)[8] == 1
if "{first}" == "parent":
    import cupy
    assert float(k.add(cupy.zeros(9, cupy.float32), 1).sum()) == 9
pid = os.fork()
if pid == 0:
    assert k.add(np.zeros(9, np.float32), 1)[8] == 1
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print("good")
"""
    pytest.importorskip("cupy")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, env=dict(os.environ))
    assert done.stdout == "good\n", done.stdout + done.stderr
