"""Operators of PyTorch, where it is installed."""

import pytest

import tegula

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def softmax(k):
    import tegula.torch

    return tegula.torch.op(k.softmax, backward=k.softmax_backward)


def test_direct(k):
    x = torch.randn(33, 100)
    assert torch.allclose(k.softmax(x), torch.softmax(x, 1), atol=1e-6)
    y = torch.empty_like(x)
    assert k.softmax(x, out=y) is y and torch.allclose(y, torch.softmax(x, 1), atol=1e-6)
    assert k.softmax(x.bfloat16()).dtype == torch.bfloat16
    assert torch.equal(k.columns(x.T), x.T)
    z = torch.arange(5.0)
    assert k.add(z, 1) is z and z[0] == 1
    with pytest.raises(tegula.LaunchError, match="not contiguous"):
        k.softmax(x.T)
    most, index = k.blocks(torch.arange(10.0), 4)
    assert index.tolist() == [3, 7, 9] and index.dtype == torch.int32


def test_memory_that_is_not_the_elements(k):
    z = torch.tensor([[1 + 2j, 3 + 4j]]).conj().imag
    with pytest.raises(TypeError, match=r"argument 'x': it is a view of the negative of its memory \(is_neg\(\)\): give its resolve_neg"):
        k.columns(z)
    assert k.columns(z.resolve_neg()).tolist() == [[-2, -4]]
    for x in (torch.ones(2, 3, device="meta"), torch.ones(2, 3).to_sparse()):
        with pytest.raises(TypeError, match="argument 'x': it has no memory that DLPack can name") as e:
            k.softmax(x)
        assert "frame #" not in str(e.value)


def test_autograd(softmax):
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(softmax, (x,))
    assert torch.allclose(softmax(x.T), torch.softmax(x.T, 1))


def test_opcheck(k, softmax):
    import tegula.torch

    torch.library.opcheck(softmax, (torch.randn(3, 4, requires_grad=True),))
    torch.library.opcheck(tegula.torch.op(k.add), (torch.randn(9), 1.5))
    torch.library.opcheck(tegula.torch.op(k.blocks), (torch.randn(9), 4))


def test_what_is_changed(k):
    """Autograd learns of it, and refuses what it kept."""
    import tegula.torch

    add, through = tegula.torch.op(k.add), tegula.torch.op(k.through)
    v, w = torch.zeros(3), torch.ones(3, requires_grad=True)
    y, z = (w * v).sum(), torch.zeros(3)
    kept = (w * z).sum()
    add(v, 5.0)
    through(v, z, 3)
    assert v.tolist() == [5] * 3 and z.tolist() == [10] * 3 and v._version == z._version == 1
    for loss in (y, kept):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    with pytest.raises(RuntimeError, match="argument 'x' of kernel 'add' is changed in place and requires a gradient.*no_grad"):
        add(w, 1.0)
    with torch.no_grad():
        add(w, 1.0)
    assert w.tolist() == [2] * 3
    assert torch.compile(lambda v: (add(v, 1.0), v * 2)[1], fullgraph=True, backend="aot_eager")(torch.zeros(3)).tolist() == [2] * 3


@pytest.mark.filterwarnings("ignore")
def test_compile_and_export(softmax):
    f = torch.compile(lambda x: softmax(x * 2) + 1, fullgraph=True, backend="aot_eager")
    x = torch.randn(33, 100, requires_grad=True)
    y = f(x)
    assert torch.allclose(y, torch.softmax(x * 2, 1) + 1, atol=1e-6)
    y.square().sum().backward()
    got, x.grad = x.grad, None
    (torch.softmax(x * 2, 1) + 1).square().sum().backward()
    assert torch.allclose(got, x.grad, atol=1e-5)

    class Module(torch.nn.Module):
        def forward(self, x):
            return softmax(x)

    dims = ({0: torch.export.Dim("r"), 1: torch.export.Dim("c")},)
    program = torch.export.export(Module(), (x.detach(),), dynamic_shapes=dims)
    assert torch.allclose(program.module()(torch.ones(3, 4)), torch.full((3, 4), 0.25))


def test_words_of_python():
    """A schema takes none as a name."""
    p = tegula.compile("kernel lambda(class: in f32[N], class_: f32, None: out f32[N]) grid(i: cdiv(N, 8)) {"
                       " None[i * 8 +: 8] = class[i * 8 +: 8] * class_; }")
    op = tegula.torch.op(getattr(p, "lambda"))
    assert str(op._schema) == "tegula::lambda_(Tensor class__, float class_) -> Tensor"
    assert op(torch.ones(3), 2.0).tolist() == [2] * 3


def test_names(k, softmax):
    import tegula.torch

    assert tegula.torch.op(k.softmax, backward=k.softmax_backward) is softmax
    assert tegula.torch.op(k.softmax, name="mine::soft").name() == "mine::soft"
    with pytest.raises(ValueError, match="registered already"):
        tegula.torch.op(k.softmax, name="mine::soft", warps=2)
    for name in ("foo", "a::b::c", ""):
        with pytest.raises(ValueError, match=f"name= is 'namespace::operator', found '{name}'"):
            tegula.torch.op(k.softmax, name=name)
    with pytest.raises(TypeError, match="neither one of 'add'"):
        tegula.torch.op(k.add, backward=k.softmax_backward)
    by_hand = tegula.torch.op(k.softmax, name="mine::by_hand", backward=lambda ctx, dy: dy * ctx.saved_tensors[1])
    x = torch.randn(2, 3, requires_grad=True)
    by_hand(x).sum().backward()
    assert torch.allclose(x.grad, torch.softmax(x, 1))


@pytest.mark.filterwarnings("ignore")
def test_gradients_that_there_are_not(k, softmax):
    """A second derivative, and that of an operator without `backward`, is an error, not 0."""
    import tegula.torch

    x = torch.randn(2, 3, requires_grad=True)
    first, = torch.autograd.grad(softmax(x).square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="operator 'tegula::softmax_backward.*' has no gradient: .*backward="):
        first.sum().backward()
    columns, blocks = tegula.torch.op(k.columns), tegula.torch.op(k.blocks)
    for f in (columns, torch.compile(columns, backend="aot_eager", fullgraph=True)):
        y = f(x)                        # which is good as long as no gradient is asked for
        assert torch.equal(y, x)
        with pytest.raises(NotImplementedError, match="operator 'tegula::columns.*' has no gradient"):
            y.sum().backward()
    most, index = blocks(torch.arange(10.0, requires_grad=True), 4)
    assert index.tolist() == [3, 7, 9] and not index.requires_grad
    torch.library.opcheck(columns, (x.detach(),))


def test_packed_odd_rows():
    import tegula.torch

    p = tegula.compile("""kernel scaled(w: in i4[N, K], s: in f32[K], y: out f32[N, K]) grid(n: N) {
        y[n, 0 +: 16] = (w[n, 0 +: 16] as f32) * s[0 +: 16]; }""")
    op, w = tegula.torch.op(p.scaled), torch.tensor([[0x21, 0xF3, 0x07]], dtype=torch.uint8)
    for f in (p.scaled, op, torch.compile(op, backend="aot_eager", fullgraph=True)):
        assert f(w, torch.ones(5)).tolist() == [[1, 2, 3, -1, 7]]
    torch.library.opcheck(op, (w, torch.ones(5)))


def test_changed_imports(tmp_path):
    import tegula.torch

    (tmp_path / "k.tgl").write_text('import "h.tgl"; kernel imports(x: in f32[N], y: out f32[N]) grid(n: N) { y[n] = h(x[n]); }')
    made = []
    for more in (1, 5):
        (tmp_path / "h.tgl").write_text(f"fn h(x) => x + {more};")
        made.append(tegula.torch.op(tegula.load(tmp_path / "k.tgl").imports))
    assert [f(torch.zeros(1)).item() for f in made] == [1, 5]


class Old(torch.Tensor):
    """As tensors were before PyTorch 2.10: without DLPack's table of functions."""

    __dlpack_c_exchange_api__ = None


def test_without_the_table(k):
    x = torch.randn(33, 100)
    y = k.softmax(x.as_subclass(Old))
    assert type(y) is torch.Tensor and torch.allclose(y, torch.softmax(x, 1), atol=1e-6)
    assert k.softmax(x.bfloat16().as_subclass(Old)).dtype == torch.bfloat16
    with pytest.raises(TypeError, match="a view of the negative of its memory"):
        k.columns(torch.tensor([[1 + 2j, 3 + 4j]]).conj().imag.as_subclass(Old))
