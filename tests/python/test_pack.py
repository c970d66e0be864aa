"""Operators of PyTorch made by `tegula pack --torch`: in the dispatcher, exported, and in AOTInductor's packages.  They need
PyTorch and a C++ compiler; $TEGULA is the command."""

import os
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
command = os.environ.get("TEGULA") or os.path.join(top, "build/release/tegula")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    if not os.path.exists(command) or not shutil.which("g++"):
        pytest.skip("there is no tegula command, or no g++")
    folder = tmp_path_factory.mktemp("pack")
    files = [os.path.join(top, f) for f in ("dsl_examples/softmax.tgl", "tests/pack/torch/kernels.tgl")]
    subprocess.run([command, "pack", *files, "--target=cpu,sm_80,sm_90a", "--torch", "--name=packed", "-o", str(folder)], check=True)
    from torch.utils import cpp_extension

    cpp_extension.load("packed", [str(folder / "packed_torch.cc")], extra_ldflags=["-ldl", "-lpthread", "-lm"],
                       is_python_module=False, build_directory=str(folder))
    return torch.ops.packed


devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()


@pytest.mark.parametrize("device", devices)
def test_operators(kernels, device):
    x = torch.randn(33, 100, device=device)
    assert torch.allclose(kernels.softmax(x), torch.softmax(x, 1), atol=1e-6)
    assert torch.allclose(kernels.softmax(x.T.contiguous().T), torch.softmax(x, 1), atol=1e-6)
    y, z = kernels.halves(x, 2.0, 2)
    assert y.shape == (33, 50) and torch.equal(y, 2 * x[:, :50]) and z.dtype == torch.float16
    b = torch.zeros(100, device=device)
    kernels.bump(b, 1.5)
    assert b.sum() == 150
    q = torch.arange(0, 96, device=device, dtype=torch.uint8).reshape(3, 32)
    t = torch.randn(3, 64, device=device).half()
    got = kernels.widen(q, t.T)
    assert torch.equal(got, torch.stack([q & 15, q >> 4], -1).reshape(3, 64).half() + t)
    with pytest.raises(RuntimeError, match="softmax: x is 2-dimensional Double; it takes 2 dimensions of f32"):
        kernels.softmax(x.double())
    for op, args in ((kernels.softmax, (x,)), (kernels.bump, (b, 1.5)), (kernels.halves, (x, 2.0, 2))):
        torch.library.opcheck(op.default, args)


@pytest.mark.parametrize("device", devices + ["meta"])
def test_shapes_are_compared(kernels, device):
    """Of inputs with each other, with formulas and with numbers: a launch trusts its dimensions."""
    def ones(*shape, dtype=None):
        return torch.ones(*shape, device=device, dtype=dtype)

    y = ones(10)
    kernels.joined(ones(10), ones(10, 64), ones(4), 3, y)
    assert device == "meta" or y.tolist() == [67] * 10
    whole = ones(10)
    for args, text in (
            ((ones(10), ones(10, 64), ones(4), 3, whole[:2]), r"joined: dimension 0 of y \(N\) is 2, and must be 10"),
            ((ones(10), ones(9, 64), ones(4), 3, y), r"dimension 0 of wide \(N\) is 9, and must be 10"),
            ((ones(10), ones(10, 63), ones(4), 3, y), r"dimension 1 of wide \(WIDE\) is 63, and must be 64"),
            ((ones(10), ones(10, 64), ones(3), 3, y), r"dimension 0 of parts \(cdiv\(N, n\)\) is 3, and must be 4"),
            ((ones(10), ones(10, 64), ones(4), 3 + (1 << 32), y), "joined: n is 4294967299, which is out of the range of i32")):
        with pytest.raises(RuntimeError, match=text):
            kernels.joined(*args)
    assert device == "meta" or whole.tolist() == [1] * 10
    q = torch.tensor([[0x21, 0x43, 0x05]], dtype=torch.uint8).to(device)
    assert kernels.scaled(q, ones(5)).shape == (1, 5)       # rows of packed elements start on a byte
    assert device == "meta" or kernels.scaled(q, ones(5)).tolist() == [[1, 2, 3, 4, 5]]
    with pytest.raises(RuntimeError, match=r"dimension 1 of w \(bytes of K\) is 3, and must be 4"):
        kernels.scaled(q, ones(7))
    assert kernels.blocks(ones(100)).shape == (2,)


@pytest.mark.parametrize("device", devices)
def test_scalars(kernels, device):
    x = torch.zeros(2, device=device)
    assert kernels.scalars(x, 0.5, 0.25, 4.0, 8.0, 1 << 40, 16, True).tolist() == [float(1 << 40)] * 2
    assert kernels.scalars(x, 0.5, 0.25, 4.0, 8.0, 0, 16, True).tolist() == [29.75] * 2
    for wide, byte, text in ((-1, 0, "e is -1, which is out of the range of u64"), (0, 256, "f is 256, which is out of the range of u8")):
        with pytest.raises(RuntimeError, match=text):
            kernels.scalars(x, 0.5, 0.25, 4.0, 8.0, wide, byte, True)


@pytest.mark.parametrize("device", devices)
def test_what_is_changed(kernels, device):
    """Autograd learns of it, and refuses what it kept."""
    v, w = torch.zeros(3, device=device), torch.ones(3, device=device, requires_grad=True)
    y = (w * v).sum()
    version = v._version
    kernels.bump(v, 5.0)
    assert v._version == version + 1 and v.tolist() == [5] * 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    with pytest.raises(RuntimeError, match="bump: x is changed in place and requires a gradient.*torch.no_grad"):
        kernels.bump(w, 1.0)
    with torch.no_grad():
        kernels.bump(w, 1.0)
    assert w.tolist() == [2] * 3
    with pytest.raises(RuntimeError, match="bump: x is changed, and not contiguous"):
        kernels.bump(torch.zeros(6, device=device)[::2], 1.0)
    kernels.bump(torch._neg_view(v), 1.0)
    assert v.tolist() == [4] * 3


@pytest.mark.parametrize("device", devices)
def test_views(kernels, device):
    """Strided inputs that are the negative of their memory, and packed ones, whose strides PyTorch has in bytes."""
    z = torch.complex(torch.arange(32.0), -torch.arange(32.0)).reshape(2, 16).to(device)
    q = torch.full((4, 16), 0x21, dtype=torch.uint8, device=device)
    q[2] = 0x43
    q[:, 8:] = 0xFF
    assert z.conj().imag.is_neg()
    got = kernels.spread(q[::2, :8], z.conj().imag)
    assert torch.equal(got, torch.tensor([[1.0, 2] * 8, [3.0, 4] * 8], device=device) + torch.arange(32.0, device=device).reshape(2, 16))
    with pytest.raises(RuntimeError, match="the stride of packed q is 2, and must be 1"):
        kernels.spread(q[:2, ::2], z.imag)


@pytest.mark.filterwarnings("ignore")
def test_export(kernels):
    class Module(torch.nn.Module):
        def forward(self, x):
            return kernels.softmax(x) * 2

    program = torch.export.export(Module(), (torch.randn(3, 100),), dynamic_shapes=({0: torch.export.Dim("r")},))
    assert torch.allclose(program.module()(torch.zeros(5, 100)), torch.full((5, 100), 0.02))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", devices)
def test_compile(kernels, device):
    f = torch.compile(lambda x: kernels.softmax(x * 2) + 1, fullgraph=True, backend="inductor")
    x = torch.randn(7, 100, device=device)
    assert torch.allclose(f(x), torch.softmax(2 * x, 1) + 1, atol=1e-6)
    assert torch.allclose(f(x[:3]), torch.softmax(2 * x[:3], 1) + 1, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", devices)
def test_aot_inductor(kernels, tmp_path, device):
    class Module(torch.nn.Module):
        def forward(self, x):
            return kernels.softmax(x * 2)

    x = torch.randn(7, 100, device=device)
    program = torch.export.export(Module(), (x,))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "m.pt2"))
    assert torch.allclose(torch._inductor.aoti_load_package(path)(x), torch.softmax(2 * x, 1), atol=1e-6)
    text = f"""
import sys, torch
torch.ops.load_library({kernels_library(kernels)!r})
x = torch.ones(7, 100, device="{device}")
y = torch._inductor.aoti_load_package({path!r})(x)
assert "tegula" not in sys.modules and torch.allclose(y, torch.full_like(y, 0.01))
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


def kernels_library(kernels):
    return next(p for p in torch.ops.loaded_libraries if os.path.basename(p).startswith("packed"))
