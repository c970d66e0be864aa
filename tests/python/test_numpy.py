"""Calls with arrays of NumPy: outputs, checks and messages."""

import os
import sys
import threading

import numpy as np
import pytest

import tegula


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


X = np.random.default_rng(1).normal(size=(33, 100)).astype(np.float32)


def test_outputs_are_made(k):
    y = k.softmax(X)
    assert y.dtype == np.float32 and y.shape == X.shape
    np.testing.assert_allclose(y, softmax(X), rtol=1e-5)
    np.testing.assert_allclose(k.softmax(x=X), y)
    assert k.softmax(X.astype(np.float64)).dtype == np.float64
    assert k.softmax(X[:0]).shape == (0, 100)


def test_extent_of_a_name_and_a_constant(k):
    np.testing.assert_array_equal(k.lengths(np.array([0, 2, 5, 5], np.int32)), [2, 3, 0])
    with pytest.raises(tegula.LaunchError, match="B would be -1"):
        k.lengths(np.zeros(0, np.int32))
    with pytest.raises(tegula.LaunchError, match="must be B \\+ 1 = 3, not 4"):
        k.lengths(np.zeros(4, np.int32), y=np.zeros(2, np.int32))


def test_extent_of_a_name_times_a_constant(k):
    np.testing.assert_array_equal(k.halves(np.arange(6, dtype=np.float32)), [0, 2, 4])
    with pytest.raises(tegula.LaunchError, match="must be 2 \\* N = 6, not 7"):
        k.halves(np.zeros(7, np.float32))


def test_outputs_are_given(k):
    y = np.empty_like(X)
    assert k.softmax(X, out=y) is y
    np.testing.assert_allclose(y, softmax(X), rtol=1e-5)
    z = np.empty_like(X)
    assert k.softmax(X, y=z) is z
    assert (y == z).all()
    most, index = np.empty(3, np.float32), np.empty(3, np.int32)
    assert k.blocks(np.arange(9, dtype=np.float32), 3, out=(most, index))[1] is index
    assert list(index) == [2, 5, 8]


def test_shapes_are_the_headers(k):
    for n in (9, 10):
        for size in (3, 4, 3):
            most, index = k.blocks(np.arange(n, dtype=np.float32), size)
            assert most.shape == index.shape == (-(-n // size),)
            assert index.dtype == np.int32 and most[-1] == n - 1
    assert list(k.counts(N=5, out=np.empty(5, np.int32))) == [0, 1, 2, 3, 4]
    assert k.softmax.shapes(X) == {"x": ("f32", (33, 100)), "y": ("f32", (33, 100))}


def test_values_by_name(k):
    np.testing.assert_allclose(k.softmax(X, BLOCK=256, warps=2), softmax(X), rtol=1e-5)
    for t in ("f32", np.float32, np.dtype("float32")):
        assert k.softmax(X, T=t).dtype == np.float32
    with pytest.raises(tegula.LaunchError, match="f16"):
        k.softmax(X, T="f16")


def test_scalars():
    p = tegula.compile("""kernel add(x: in i64[N], y: out i64[N], a: i32, b: u8, c: bool) grid(i: N) {
        y[i] = x[i] + a as i64 + b as i64 + c as i64; }""")
    x = np.arange(3)
    for a, b, c in ((-1, 255, True), (np.int64(-1), np.uint8(255), np.True_), (np.array(-1), np.array(255), np.bool_(1))):
        assert list(p.add(x, a, b, c)) == [255, 256, 257]
    assert list(p.add(x, 0, 0, np.False_)) == [0, 1, 2]
    for given, text in (((1 << 40, 1, True), "1099511627776 is out of the range of i32"), ((1, -1, True), "-1 is out of the range"),
                        ((1.5, 1, True), "expected i32, found a float"), ((1, 1, 2), "expected bool, found an integer")):
        with pytest.raises(tegula.LaunchError, match=text):
            p.add(x, *given)


def test_one_error_of_a_shape(k):
    with pytest.raises(tegula.LaunchError, match="'x' has 2 dimensions, but was given 1") as e:
        k.softmax(X[0])
    assert "has no value" not in str(e.value)


def test_changed_in_place(k):
    x = np.arange(5, dtype=np.float32)
    assert k.add(x, 2.5) is x
    assert list(x) == [2.5, 3.5, 4.5, 5.5, 6.5]
    k.add(x, by=np.float32(1))
    assert x[0] == 3.5
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        k.add(x, 1)
    assert k.softmax(np.broadcast_to(X, X.shape)).shape == X.shape  # read-only arrays are read


def test_strides(k):
    np.testing.assert_array_equal(k.columns(X.T), X.T)
    np.testing.assert_array_equal(k.columns(X[:, ::2]), X[:, ::2])
    wide = np.arange(40 * 48, dtype=np.float32).reshape(40, 48)
    views = [wide[:, :24], wide[:, 1:25], wide[::2, :24], wide[:, :40].T, wide[:, 3:43].T, wide[:, ::2], wide[:24].T,
             np.broadcast_to(wide[0], (40, 48)), wide[:, :1], wide[:0], wide[:, :0]]
    for device in ("cpu", "simt"):
        for v in views + views[::-1]:
            np.testing.assert_array_equal(k.columns(v, device=device), v)
    with pytest.raises(tegula.LaunchError, match="not contiguous"):
        k.softmax(X.T)
    with pytest.raises(tegula.LaunchError, match="argument 'x': dimension 1 has stride -1; strides are not negative(.|\n)*contiguous copy"):
        k.columns(X[:, ::-1])
    with pytest.raises(tegula.LaunchError, match="was given f64(.|\n)*convert it to f32, or .*<T: dtype>"):
        k.columns(X.astype(np.float64))
    bytes_ = np.zeros(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(X.shape)
    with pytest.raises(tegula.LaunchError, match="argument 'x': .*not aligned"):
        k.softmax(bytes_)


def test_packed(k):
    bytes_ = np.array([[0x21, 0xF3], [0x80, 0x07]], np.uint8)
    np.testing.assert_array_equal(k.widen(bytes_), [[1, 2, 3, -1], [0, -8, 7, 0]])


def test_numpy_scalars_are_kept():
    """Their memory is made for the question, and lives as long as the answer."""
    p = tegula.compile("""kernel sum(x: in f32[], z: in f32[], y: out f32[]) { y[] = x[] + z[]; }
                          kernel add(x: inout f32[]) { x[] = x[] + 1.0; }""")
    for i in range(200):
        assert p.sum(np.float32(i), np.float32(2)) == i + 2
        assert p.sum(np.float32(i), np.float32(2), out=np.empty((), np.float32)) == i + 2
    with pytest.raises(tegula.LaunchError, match="the array is read-only"):
        p.add(np.float32(1))
    x = np.array(1, np.float32)
    assert p.add(x) is x and x == 2


def test_many_types_of_arrays(k):
    """More than are remembered: two of them in one call, and outputs like the first."""
    p = tegula.compile("kernel sum(x: in f32[N], z: in f32[N], y: out f32[N]) grid(i: N) { y[i] = x[i] + z[i]; }")
    x, z = np.ones(3, np.float32), Only(np.full(3, 2, np.float32))
    for i in range(100):
        mine, other = type(f"Mine{i}", (np.ndarray,), {}), type(f"Other{i}", (Only,), {})
        assert list(p.sum(x.view(mine), other(z.array))) == [3, 3, 3]
        with pytest.raises(TypeError, match="give them"):
            p.sum(other(z.array), x.view(mine))
        with pytest.raises(TypeError, match="must be an array"):
            p.sum(type(f"None{i}", (), {})(), x)


def test_packed_odd_rows():
    """The last byte of a row holds one element where another argument says so."""
    p = tegula.compile("""kernel scaled<T: dtype = i4>(w: in T[N, K], s: in f32[K], y: out f32[N, K]) grid(n: N) {
        y[n, 0 +: 16] = (w[n, 0 +: 16] as f32) * s[0 +: 16];
    }
    kernel plain<T: dtype = i4>(w: in T[N, K], y: out i4[N, K]) grid(n: N) { y[n, 0 +: 16] = (w[n, 0 +: 16] as i32) as i4; }""")
    w = np.array([[0x21, 0xF3, 0x07], [0x21, 0xF3, 0x06]], np.uint8)
    assert p.scaled(w, np.ones(5, np.float32), T="i4").tolist() == [[1, 2, 3, -1, 7], [1, 2, 3, -1, 6]]
    assert p.scaled(w, np.ones(6, np.float32), T="i4").tolist() == [[1, 2, 3, -1, 7, 0], [1, 2, 3, -1, 6, 0]]
    assert p.scaled.shapes(w, np.ones(5, np.float32), T="u4")["w"] == ("u4", (2, 5))
    five = p.plain(w, T="i4", K=5) & [255, 255, 15]     # the rest of a row's last byte is nobody's
    assert five.tolist() == w.tolist() == p.plain(w, T="i4").tolist()
    with pytest.raises(tegula.LaunchError, match="'K' is 6 by dimension 1 of 'w', but 4 by dimension 0 of 's'"):
        p.scaled(w, np.ones(4, np.float32), T="i4")


def test_dtypes_by_name_read_bits():
    p = tegula.compile("kernel widen<T: dtype = bf16>(x: in T[N], y: out f32[N]) grid(i: N) { y[i] = x[i] as f32; }")
    assert list(p.widen(np.array([0x3F80, 0x4000], np.uint16), T="bf16")) == [1, 2]
    assert list(p.widen(np.array([0x38, 0x40], np.uint8), T="f8e4m3")) == [1, 2]
    assert list(p.widen(np.array([3, 4], np.uint16))) == [3, 4]         # T = u16, as the array is


class Interface:
    dtype, shape = np.dtype("f4"), (3,)

    def __init__(self, **given):
        self.given = given

    @property
    def __array_interface__(self):
        x = np.full(3, 7, np.float32)
        own = dict(x.__array_interface__, owner=x)      # memory that the dict alone keeps
        own.update(self.given)
        return own


def test_array_interface():
    p = tegula.compile("kernel twice(x: in f32[N], y: out f32[N]) grid(i: N) { y[i] = x[i] * 2.0; }")
    for _ in range(50):
        assert list(p.twice(Interface())) == [14] * 3
    for given in (dict(data=b"\0" * 12), dict(data=None), dict(data=(0,)), dict(shape=[3]), dict(typestr=4), dict(strides=(4, 4)),
                  dict(shape=(1 << 80,)), dict(data=("a", False))):
        with pytest.raises((TypeError, OverflowError)):
            p.twice(Interface(**given))
    with pytest.raises(TypeError, match="has no shape, typestr and address: give numpy.asarray"):
        p.twice(Interface(data=b"\0" * 12))
    kept = np.ones(3, np.float32)
    before = sys.getrefcount(kept)
    for _ in range(10):
        with pytest.raises(TypeError):
            p.twice(Interface(strides=(4, 4), kept=kept))
    assert sys.getrefcount(kept) == before


def test_unpacked_dtypes(k):
    """A byte an element, as ml_dtypes has it, is not what a kernel reads and writes."""
    ml = pytest.importorskip("ml_dtypes")
    p = tegula.compile("kernel narrow(x: in i8[N], y: out i4[N]) { y[0 +: 16] = x[0 +: 16] as i4; }")
    w = np.arange(8).reshape(2, 4).astype(ml.int4)
    for call in (lambda: k.widen(w), lambda: k.widen(w[:, ::2]), lambda: k.widen.shapes(w),
                 lambda: p.narrow(np.zeros(4, np.int8), out=np.zeros(4, ml.int4))):
        with pytest.raises(TypeError, match="takes a byte for an element, and the kernel's are packed: give uint8"):
            call()


def test_pointers(k):
    y = np.zeros(20, np.float32)
    k.through(np.arange(20, dtype=np.float32), y, 20)
    assert list(y) == [2 * i for i in range(20)]


def test_messages(k):
    with pytest.raises(tegula.LaunchError) as e:
        k.softmax(X, out=np.empty((3, 100), np.float32))
    assert "'R' is 33 by dimension 0 of 'x', but 3 by dimension 0 of 'y'" in str(e.value)
    assert e.value.code == "E0519" and "^" in str(e.value) and e.value.line == 2
    with pytest.raises(tegula.LaunchError, match="'x' has 2 dimensions, but was given 1"):
        k.softmax(X[0])
    with pytest.raises(tegula.LaunchError, match="did you mean 'BLOCK'"):
        k.softmax(X, BLOK=3)
    with pytest.raises(TypeError, match=r"takes 1 positional arguments \(x\), found 2"):
        k.softmax(X, X)
    with pytest.raises(TypeError, match="argument 'x' must be an array"):
        k.softmax([1.0])
    with pytest.raises(TypeError, match="its dtype, complex64, has no counterpart"):
        k.softmax(X.astype(np.complex64))
    with pytest.raises(TypeError, match="its dtype, >f4, has no counterpart"):
        k.softmax(X.astype(">f4"))
    with pytest.raises(TypeError, match="argument 'x' is given twice"):
        k.softmax(X, x=X)
    with pytest.raises(TypeError, match="argument 'by' must be a number"):
        k.add(np.ones(3, np.float32), X)
    with pytest.raises(OverflowError, match="'by' is 18446744073709551616, which no integer of 64 bits holds"):
        k.add(np.ones(3, np.float32), 1 << 64)
    with pytest.raises(OverflowError, match="'BLOCK' is -9223372036854775809"):
        k.softmax(X, BLOCK=-(1 << 63) - 1)
    with pytest.raises(TypeError, match="has 0 outputs"):
        k.add(np.ones(3, np.float32), 1, out=X)
    with pytest.raises(tegula.LaunchError, match="'by'"):
        k.add(np.ones(3, np.float32))
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        k.sofmax
    with pytest.raises(tegula.SourceError) as e:
        tegula.compile("kernel a(x: in f32[N]) grid(i: N) { let y = z; }", name="cell.tgl")
    assert "unknown name 'z'" in str(e.value) and str(e.value).splitlines()[2].endswith("^")
    assert e.value.file == "cell.tgl" and "unknown name" in e.value._repr_html_()
    with pytest.raises(tegula.Error):
        tegula.load("there_is_none.tgl")
    with pytest.raises(tegula.Error, match="there is no device"):
        k.softmax(X, device="gpu7")


def test_messages_in_words_of_python(k):
    """Not in those of the command."""
    x = np.arange(9, dtype=np.float32)
    p = tegula.compile("kernel wide(x: in f32[N], y: out f32[N, M]) grid(i: N) { y[i, 0] = x[i]; }")
    for call, text in ((lambda: k.blocks(None, 3), r"argument 'x' of kernel 'blocks' is missing: expected in f32\[N\]"),
                       (lambda: k.softmax(), r"argument 'x' of kernel 'softmax' is missing"),
                       (lambda: k.softmax(X, R=5), "'R' is 5 by R=5, but 33 by dimension 0 of 'x'"),
                       (lambda: p.wide(x), "(?s)dimension 'M' of kernel 'wide' has no value.*give it with M=")):
        with pytest.raises(tegula.LaunchError, match=text) as e:
            call()
        assert "-D" not in str(e.value) and "command line" not in str(e.value)


def test_help(k):
    import inspect
    import pydoc

    text = pydoc.render_doc(k.blocks, renderer=pydoc.plaintext)
    assert "kernel blocks(x: in f32[N], k: i32" in text and "Returns most, index." in text and "Positional arguments" in text
    assert str(inspect.signature(k.softmax)) == "(x: 'in T[R, C]', *, y: 'out T[R, C]' = None, out=None, T=None, BLOCK=None, **values)"
    p = tegula.compile("kernel odd(values: in f32[N], lambda: f32, out: inout f32[N]) grid(i: N) { out[i] = values[i]; }")
    assert list(inspect.signature(p.odd).parameters) == ["values", "lambda_", "out", "out_", "values_"]


def test_faults_and_lines(k, capsys):
    k.checked(np.array([1.5], np.float32))
    assert "x is 1.5" in capsys.readouterr().out
    with pytest.raises(tegula.FaultError, match="only positive numbers"):
        k.checked(np.array([-1], np.float32))


def test_text(k):
    assert "kernel @softmax" in k.softmax.tir(X)
    assert "metal_stdlib" in k.softmax.metal()
    inspection = k.softmax.inspect(X, target="sm_90a")
    assert "read x" in inspection and "<pre>" in inspection._repr_html_()
    assert ".target sm_80" in k.softmax.ptx(X, target="sm_80")
    assert "f32[512]" in k.softmax.tir(np.empty((4, 500), np.float32))
    assert k.softmax.examples == [""] and k.softmax.dims == ["R", "C"]
    assert "out T[R, C]" in repr(k.softmax) and "out T[R, C]" in k.softmax._repr_html_() and "softmax" in k._repr_html_()
    assert len(k) == len(list(k)) == len(k.kernels) and k["softmax"] is k.softmax


def test_check_bench_tune(k):
    assert k.softmax.check() and k.softmax.check(X)
    assert "passed" in repr(k.softmax.check())
    b = k.softmax.bench(X, seconds=0.02)
    assert 0 < b.seconds < 1 and "softmax" in repr(b)
    b = k.softmax.bench(X, vs=softmax, seconds=0.02)
    assert set(b.results) == {"softmax"} and "<table>" in b._repr_html_()
    b = k.softmax.bench(X, vs={"numpy": softmax}, seconds=0.02)
    assert set(b.results) == {"softmax", "numpy"}
    b = k.softmax.bench(vs={"twice": lambda x: 2 * x}, seconds=0.02)   # on the first example
    assert set(b.results) == {"softmax", "twice"}
    seen = []
    k.softmax.bench(vs=lambda x: seen.append(x), example="", seconds=0.02)
    assert seen[0].shape == (4, 100) and "float32" in str(seen[0].dtype) and abs(float(seen[0].std()) - 1) < 0.2
    t = k.doubled.tune(np.ones(500, np.float32), budget=2)
    assert {c["values"] for c in t.candidates} == {"BLOCK = 32", "BLOCK = 64"} and t.winner in ("BLOCK = 32", "BLOCK = 64")
    assert "won" in repr(t)


def test_simt(k):
    np.testing.assert_allclose(k.softmax(X, device="simt:sm_80"), softmax(X), rtol=1e-5)


def test_other_bits():
    ml = pytest.importorskip("ml_dtypes")
    p = tegula.compile("kernel twice<T: dtype = f32>(x: in T[N], y: out T[N]) grid(i: N) { y[i] = x[i] * 2; }")
    y = p.twice(np.array([1, 2.5], ml.bfloat16))
    assert y.dtype == ml.bfloat16 and list(y) == [2, 5]


def test_threads(k):
    wrong = []

    def work(n):
        x = np.full((n, 8), n, np.float32)
        for _ in range(30):
            if not np.allclose(k.softmax(x), 0.125):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_objects_are_let_go(k):
    import gc

    x = np.ones((2, 3), np.float32)
    y = k.softmax(x)
    k.softmax(x, out=y)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(20):
        k.softmax(x, out=y)
        k.softmax(x)
        with pytest.raises(tegula.LaunchError):
            k.softmax(x, out=x)
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


@pytest.mark.filterwarnings("ignore")
def test_fork(k):
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    k.softmax(X)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if np.allclose(k.softmax(X[:2]), softmax(X[:2]), rtol=1e-4) else 1)
    assert os.waitpid(pid, 0)[1] == 0


class Only:
    """An array of a library that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **given):
        return self.array.__dlpack__(**given)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack(k):
    y = np.empty_like(X)
    k.softmax(Only(X.copy()), out=y)
    np.testing.assert_allclose(y, softmax(X), rtol=1e-5)
    with pytest.raises(TypeError, match="give them"):
        k.softmax(Only(X.copy()))


def test_tvm_ffi(k):
    """Outputs are tvm-ffi's as well, in memory of PyTorch where that is imported, else of NumPy."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    y = k.softmax(tvm_ffi.from_dlpack(X.copy()))
    assert isinstance(y, tvm_ffi.Tensor)
    np.testing.assert_allclose(np.from_dlpack(y), softmax(X), rtol=1e-5)
