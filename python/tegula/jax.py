"""Kernels in JAX: a call is one of XLA's foreign functions, so it may stand under jax.jit, jax.vmap and, with its
gradient, jax.grad.

    y = jax.jit(k.softmax)(x)
    softmax = tegula.jax.op(k.softmax, backward=k.softmax_backward)
"""

import re

import jax
import jax.numpy as jnp
import numpy as np

from . import _gradient, _tegula

_dtypes = {
    "bool": jnp.bool_, "i8": jnp.int8, "i16": jnp.int16, "i32": jnp.int32, "i64": jnp.int64, "u8": jnp.uint8,
    "u16": jnp.uint16, "u32": jnp.uint32, "u64": jnp.uint64, "f16": jnp.float16, "bf16": jnp.bfloat16,
    "f32": jnp.float32, "f64": jnp.float64, "f8e4m3": jnp.float8_e4m3fn, "f8e5m2": jnp.float8_e5m2,
}
_registered = False


def _register():
    """Once, for both platforms; the version of the interface is that of JAX here."""
    global _registered
    if _registered:
        return
    version = [0, 1]
    with open(jax.ffi.include_dir() + "/xla/ffi/api/c_api.h") as f:
        text = f.read()
    for i, word in enumerate(("MAJOR", "MINOR")):
        found = re.search(rf"#define XLA_FFI_API_{word} (\d+)", text)
        version[i] = int(found.group(1)) if found else version[i]
    for platform in ("cpu", "CUDA"):
        jax.ffi.register_ffi_target("tegula", _tegula.xla_handler(platform, *version), platform=platform)
    _registered = True


def _static(name, value):
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"argument '{name}' is compiled into the call: it must be a number, and is traced (jax.jit's "
                        f"static_argnames keeps it a number)")
    return value.item() if isinstance(value, (np.generic, np.ndarray, jax.Array)) else value


def _sort(kernel, args, named):
    """Arrays by parameter in order, and what is compiled in."""
    given = dict(zip((p["name"] for p in _gradient.inputs(kernel)), args))
    arrays, static = {}, {n: v for n, v in named.items() if n not in {p["name"] for p in kernel.params}}
    given.update((n, v) for n, v in named.items() if n not in static)
    for word in ("out", "device"):
        if static.pop(word, None) is not None:
            raise TypeError(f"{word}= has no meaning for arrays of JAX: results are new, where the arguments are")
    for p in kernel.params:
        if p["name"] not in given:
            continue
        if p["kind"] == "scalar":
            static[p["name"]] = _static(p["name"], given[p["name"]])
        elif p["kind"] == "pointer" and p["access"] == "inout":
            raise TypeError(f"argument '{p['name']}' of kernel '{kernel.__name__}' is a pointer that is written (*mut), and arrays of "
                            f"JAX are not written to: as a tensor, `{p['name']}: out …` or `inout …`, it is a result")
        elif p["access"] == "out":
            raise TypeError(f"output '{p['name']}' cannot be given: arrays of JAX are not written to")
        else:
            arrays[p["name"]] = jnp.asarray(given[p["name"]])
    return arrays, static


def _struct(dtype, shape):
    if dtype in ("i4", "u4", "f4e2m1"):
        return jax.ShapeDtypeStruct(shape[:-1] + ((shape[-1] + 1) // 2,), jnp.uint8)
    return jax.ShapeDtypeStruct(shape, _dtypes[dtype])


def call(kernel, *args, **named):
    """What `kernel(*args, **named)` does for arrays of JAX.  What the kernel reads and writes is a new array, in
    place where XLA finds that nothing else uses the argument."""
    if len(args) > len(_gradient.inputs(kernel)):
        raise TypeError(f"kernel '{kernel.__name__}' takes {len(_gradient.inputs(kernel))} positional arguments, "
                        f"found {len(args)}")
    _register()
    arrays, static = _sort(kernel, args, named)
    shapes = kernel.shapes(**arrays, **static)
    key = kernel._key(static)
    _tegula.xla_keep(key, kernel, static)
    results, aliases = [], {}
    order = list(arrays)
    for p in kernel.params:
        if p["kind"] != "tensor" or p["access"] not in ("out", "inout"):
            continue
        if p["access"] == "inout":
            aliases[order.index(p["name"])] = len(results)
            results.append(jax.ShapeDtypeStruct(arrays[p["name"]].shape, arrays[p["name"]].dtype))
        else:
            results.append(_struct(*shapes[p["name"]]))
    function = jax.ffi.ffi_call("tegula", results, input_output_aliases=aliases, vmap_method="sequential")
    made = function(*arrays.values(), key=key)
    return made[0] if len(made) == 1 else tuple(made) if made else None


def op(kernel, backward=None, **values):
    """The kernel as a function of its positional parameters, with a gradient: `backward` is a kernel whose parameters
    are matched by name (y, dy, dx …).  Scalars have no gradient."""
    if backward is None:
        return lambda *args: call(kernel, *args, **values)
    match = _gradient.Match(kernel, backward)
    inputs = _gradient.inputs(kernel)
    outputs = _gradient.outputs(kernel)
    static = tuple(i for i, p in enumerate(inputs) if p["kind"] == "scalar")
    own = {n: v for n, v in values.items() if n in backward.values}

    def run(*args):
        return call(kernel, *args, **values)

    def forward(*args):
        made = run(*args)
        return made, (tuple(a for i, a in enumerate(args) if i not in static), made)

    def gradient(*given):
        scalars, (arrays, made), grads = given[:len(static)], given[-2], given[-1]
        known = {inputs[i]["name"]: s for i, s in zip(static, scalars)}
        tensors = [p["name"] for i, p in enumerate(inputs) if i not in static]
        known.update(zip(tensors, arrays))
        outs = made if isinstance(made, tuple) else (made,)
        known.update((p["name"], o) for p, o in zip(outputs, outs))
        by_output = dict(zip((p["name"] for p in outputs), grads if isinstance(grads, tuple) else (grads,)))
        result = call(backward, *(by_output[n] if what == "gradient" else known[n] for what, n in match.takes), **own)
        found = dict(zip(match.gives, result if isinstance(result, tuple) else (result,)))
        return tuple(found.get(n, jnp.zeros_like(known[n])) for n in tensors)

    function = jax.custom_vjp(run, nondiff_argnums=static)
    function.defvjp(forward, gradient)
    return function
