"""Calls with arrays of JAX: eager, under jit, vmap and grad."""

import numpy as np
import pytest

import tegula

jax = pytest.importorskip("jax")
jax.config.update("jax_platforms", "cpu")
jnp = jax.numpy

X = jnp.asarray(np.random.default_rng(1).normal(size=(33, 100)), jnp.float32)


def near(a, b, bound=1e-6):
    return a.shape == b.shape and a.dtype == b.dtype and float(abs(a - b).max()) < bound


def test_eager_and_jit(k):
    assert near(k.softmax(X), jax.nn.softmax(X))
    assert near(jax.jit(k.softmax)(X), jax.nn.softmax(X))
    assert near(jax.jit(lambda x: k.softmax(x * 2) + 1)(X), jax.nn.softmax(X * 2) + 1)
    assert near(jax.vmap(k.softmax)(jnp.stack([X, X + X])), jax.nn.softmax(jnp.stack([X, X + X])))


def test_shapes_and_values(k):
    most, index = jax.jit(lambda x: k.blocks(x, 4))(jnp.arange(10.0))
    assert list(index) == [3, 7, 9] and index.dtype == jnp.int32 and list(most) == [3, 7, 9]
    assert near(k.softmax(X, BLOCK=256), jax.nn.softmax(X))
    x = X.astype(jnp.bfloat16)
    assert near(k.softmax(x).astype(jnp.float32), jax.nn.softmax(X), 0.01)


def test_changed_is_new(k):
    x = jnp.arange(5.0)
    assert list(jax.jit(lambda x: k.add(x, 2.5))(x)) == [2.5, 3.5, 4.5, 5.5, 6.5]
    assert list(k.add(x, 1)) == [1, 2, 3, 4, 5] and list(x) == [0, 1, 2, 3, 4]


def test_gradient(k):
    import tegula.jax

    softmax = tegula.jax.op(k.softmax, backward=k.softmax_backward)
    w = jnp.asarray(np.random.default_rng(2).normal(size=X.shape), jnp.float32)
    got = jax.jit(jax.grad(lambda x: (softmax(x) * w).sum()))(X)
    assert near(got, jax.grad(lambda x: (jax.nn.softmax(x) * w).sum())(X))


def test_packed_odd_rows():
    p = tegula.compile("""kernel scaled(w: in i4[N, K], s: in f32[K], y: out f32[N, K]) grid(n: N) {
        y[n, 0 +: 16] = (w[n, 0 +: 16] as f32) * s[0 +: 16]; }""")
    w = jnp.array([[0x21, 0xF3, 0x07]], jnp.uint8)
    assert p.scaled(w, jnp.ones(5)).tolist() == jax.jit(p.scaled)(w, jnp.ones(5)).tolist() == [[1, 2, 3, -1, 7]]


def test_changed_imports(tmp_path):
    """XLA keeps what it compiled by a key: of another import it is another key."""
    (tmp_path / "k.tgl").write_text('import "h.tgl"; kernel f(x: in f32[N], y: out f32[N]) grid(n: N) { y[n] = h(x[n]); }')
    made = []
    for more in (1, 5):
        (tmp_path / "h.tgl").write_text(f"fn h(x) => x + {more};")
        made.append(tegula.load(tmp_path / "k.tgl"))
        assert list(made[-1].f(jnp.zeros(2))) == [more] * 2
    assert list(made[0].f(jnp.zeros(2))) == [1, 1] and list(jax.jit(made[0].f)(jnp.zeros(2))) == [1, 1]


def test_messages(k):
    with pytest.raises(TypeError, match=r"argument 'y' of kernel 'through' is a pointer that is written \(\*mut\)"):
        k.through(jnp.ones(5), jnp.zeros(5), 5)
    with pytest.raises(TypeError, match="is a pointer that is written"):
        jax.jit(lambda x, y: k.through(x, y, 5))(jnp.ones(5), jnp.zeros(5))
    with pytest.raises(tegula.LaunchError, match="'x' has 2 dimensions, but was given 1"):
        jax.jit(k.softmax)(X[0])
    with pytest.raises(TypeError, match="'by' is compiled into the call"):
        jax.jit(k.add)(jnp.ones(3), 2.0)
    with pytest.raises(TypeError, match="out= has no meaning"):
        k.softmax(X, out=X)
    with pytest.raises(TypeError, match="takes 1 positional"):
        k.softmax(X, X)
    with pytest.raises(Exception, match="only positive numbers"):
        jax.block_until_ready(k.checked(-jnp.ones(1)))
