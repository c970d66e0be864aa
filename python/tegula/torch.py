"""Kernels as operators of PyTorch: under torch.compile, autograd, CUDA graphs and torch.export.

    softmax = tegula.torch.op(k.softmax, backward=k.softmax_backward)
    y = softmax(x)
"""

import keyword
import re

import torch

from . import _gradient, _program

_library = torch.library.Library("tegula", "FRAGMENT")
_made = {}        # operators by kernel, gradient and name
_libraries = {}   # by the operator's name: it lives as long

_dtypes = {
    "bool": torch.bool, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8,
    "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64, "f16": torch.float16, "bf16": torch.bfloat16,
    "f32": torch.float32, "f64": torch.float64, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
}
_packed = ("i4", "u4", "f4e2m1")


def _word(name, taken=()):
    """As a schema has it, which takes no words of Python; tool/pack/pack_names.c does the same."""
    if not keyword.iskeyword(name):
        return name
    name += "_"
    while name in taken:
        name += "_"
    return name


def _schema(kernel, name):
    parts, taken = [], {p["name"] for p in _gradient.inputs(kernel)}
    for p in _gradient.inputs(kernel):
        word = _word(p["name"], taken)
        if p["kind"] != "scalar":
            changed = p["access"] == "inout"
            parts.append(f"Tensor({chr(97 + len(parts))}!) {word}" if changed else f"Tensor {word}")
        else:
            dtype = p["dtype"] or "f32"
            kind = "bool" if dtype == "bool" else "int" if dtype[0] in "iu" else "float"
            parts.append(f"{kind} {word}")
    n = len(_gradient.outputs(kernel))
    returns = "Tensor" if n == 1 else "(" + ", ".join(["Tensor"] * n) + ")"
    return f"{name}({', '.join(parts)}) -> {returns}"


# ---- shapes ----


def _split(text):
    """"out T[M, cdiv(N, 4)] = 0" as ("T", ["M", "cdiv(N, 4)"])."""
    m = re.search(r"(\w+)\s*\[(.*)\]", text)
    if not m:
        return text.split()[-1], []
    parts, depth = [""], 0
    for c in m.group(2):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return m.group(1), [p.strip() for p in parts]


class _Fake:
    """Shapes of outputs from those of inputs.  Where every dimension is one that an input has, nothing is evaluated
    and a dimension may be symbolic; else the header says."""

    def __init__(self, kernel, values):
        self.kernel, self.values = kernel, values
        self.inputs = [(p["name"], *_split(p["text"]), p) for p in _gradient.inputs(kernel)]
        self.outputs = [(p["name"], *_split(p["text"]), p) for p in _gradient.outputs(kernel)]

    def _known(self, args):
        dims, packed, elems = {}, {}, {}
        for (_, elem, extents, p), a in zip(self.inputs, args):
            if p["kind"] != "tensor":
                continue
            elems.setdefault(elem, a.dtype)
            for i, e in enumerate(extents):
                if e.isidentifier() and i < a.dim():
                    twice = (p["dtype"] or self.values.get(elem)) in _packed and i == len(extents) - 1
                    (packed if twice else dims).setdefault(e, a.shape[i] * 2 if twice else a.shape[i])
        return {**packed, **dims}, elems        # others say whether a packed row is of an odd number

    def __call__(self, *args):
        like = next(a for a in args if isinstance(a, torch.Tensor))
        dims, elems = self._known(args)
        shapes, made = None, []
        for name, elem, extents, p in self.outputs:
            dtype = _dtypes.get(p["dtype"]) if p["dtype"] else None if elem in self.values else elems.get(elem)
            if dtype is not None and all(e in dims for e in extents):
                shape = [dims[e] for e in extents]
            else:
                shapes = shapes or self.kernel.shapes(*args, **self.values)
                text, shape = shapes[name]
                shape = list(shape)
                if text in _packed:
                    shape[-1] = (shape[-1] + 1) // 2
                dtype = _dtypes.get(text, torch.uint8)
            made.append(like.new_empty(shape, dtype=dtype))
        return made[0] if len(made) == 1 else tuple(made) if made else None


# ---- the operator ----


def _runner(kernel, values):
    inputs, outputs = _gradient.inputs(kernel), _gradient.outputs(kernel)
    written = [p["name"] for p in kernel.params if p["kind"] == "tensor" and p["access"] in ("out", "inout")]
    keep = [written.index(p["name"]) for p in outputs]
    plain = [i for i, p in enumerate(inputs) if p["kind"] == "tensor" and p["access"] == "in" and not p["strided"]]
    changed = [i for i, p in enumerate(inputs) if p["kind"] != "scalar" and p["access"] == "inout"]

    def run(*args):
        args = list(args)
        for i in plain:
            args[i] = args[i].contiguous()
        for i in changed:
            if args[i].requires_grad and torch.is_grad_enabled():
                raise RuntimeError(f"argument '{inputs[i]['name']}' of kernel '{kernel.__name__}' is changed in place and requires a "
                                   "gradient, and the operator has none: call it under torch.no_grad()")
        result = kernel(*args, **values)
        for i in changed:               # autograd may have kept it
            torch.autograd.graph.increment_version(args[i])
        if len(written) > 1 and len(keep) != len(written):
            result = tuple(result[i] for i in keep)
            return result[0] if len(keep) == 1 else result or None
        return result if keep else None

    return run


_library.define("no_gradient(Tensor gradient, SymInt[] shape, ScalarType dtype, str name) -> Tensor")


def _no_gradient(gradient, shape, dtype, name):
    raise NotImplementedError(f"operator '{name}' has no gradient: tegula.torch.op(kernel, backward=…) gives it one")


_library.impl("no_gradient", _no_gradient, "CPU")
_library.impl("no_gradient", _no_gradient, "CUDA")
torch.library.register_fake("tegula::no_gradient", lambda g, shape, dtype, name: g.new_empty(shape, dtype=dtype), lib=_library)


def _refuse_gradient(library, name):
    """A gradient that is asked for is an error, instead of none; one that torch.compile only traces is not."""

    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.shapes = [(a.shape, a.dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else None for a in inputs]

    def refuse(ctx, *grads):
        g = next((g for g in grads if g is not None), None)
        made = [None if g is None or s is None else torch.ops.tegula.no_gradient(g, s[0], s[1], name) for s in ctx.shapes]
        return tuple(made) if len(made) > 1 else made[0]

    torch.library.register_autograd(name, refuse, setup_context=setup_context, lib=library)


def _differentiate(library, name, kernel, backward, values):
    params, outputs = _gradient.inputs(kernel), _gradient.outputs(kernel)
    of_kernel = isinstance(backward, _program.Kernel)
    match = _gradient.Match(kernel, backward) if of_kernel else None
    step = op(backward, **{n: v for n, v in values.items() if n in backward.values}) if of_kernel else backward
    needed = {n for what, n in match.takes if what != "gradient"} if of_kernel else None
    scalars = [p["name"] for p in params if p["kind"] == "scalar"]

    def setup_context(ctx, inputs, output):
        named = {p["name"]: a for p, a in zip(params, inputs)}
        outs = output if isinstance(output, tuple) else (output,)
        saved = [(p["name"], named[p["name"]]) for p in params if p["name"] not in scalars]
        saved += [(p["name"], o) for p, o in zip(outputs, outs)]
        saved = [s for s in saved if needed is None or s[0] in needed]
        ctx.names = [n for n, _ in saved]
        ctx.scalars = {n: named[n] for n in scalars}
        ctx.save_for_backward(*(t for _, t in saved))

    def by_kernel(ctx, *grads):
        known = dict(zip(ctx.names, ctx.saved_tensors), **ctx.scalars)
        by_output = {p["name"]: g for p, g in zip(outputs, grads)}
        made = step(*(by_output[n] if what == "gradient" else known[n] for what, n in match.takes))
        made = dict(zip(match.gives, made if isinstance(made, tuple) else (made,)))
        result = tuple(made.get(p["name"]) for p in params)
        return result if len(result) > 1 else result[0]

    torch.library.register_autograd(name, by_kernel if of_kernel else step, setup_context=setup_context, lib=library)


def op(kernel, backward=None, name=None, **values):
    """Registers a kernel as an operator of torch.library and returns it: a function of the kernel's positional
    parameters.

    `values` are compile-time and schedule values of every call.  `backward` is a kernel whose parameters are matched
    by name (y, dy, dx …), or a function `backward(ctx, *grads)`, where ctx.saved_tensors are the tensors that the
    kernel read, then those that it wrote, and ctx.scalars has its scalars by name.  Inputs that are not contiguous
    are copied where the kernel does not take them `strided`.  `name` is "namespace::operator", else "tegula::" and
    the kernel's name.
    """
    if name is not None and not re.fullmatch(r"\w+::\w+", name):
        raise ValueError(f"name= is 'namespace::operator', found '{name}'")
    key = kernel._key(values)
    gradient = backward._key({}) if isinstance(backward, _program.Kernel) else backward
    identity = (key, gradient, name)
    if identity in _made:
        return _made[identity]
    namespace, short = name.split("::") if name else ("tegula", kernel.__name__)
    base = f"{namespace}::{_word(short)}"
    if base in _libraries and name:
        raise ValueError(f"operator '{name}' is registered already, for another kernel or other values")
    if base in _libraries:
        base = f"{base}_{key[:12]}"
    if base in _libraries:
        base = f"{base}_{len(_libraries)}"
    namespace, short = base.split("::")
    library = _library if namespace == "tegula" else torch.library.Library(namespace, "FRAGMENT")
    library.define(_schema(kernel, short), tags=(torch.Tag.pt2_compliant_tag,))
    run = _runner(kernel, values)
    library.impl(short, run, "CPU")
    library.impl(short, run, "CUDA")
    torch.library.register_fake(base, _Fake(kernel, values), lib=library)
    if backward is not None:
        _differentiate(library, base, kernel, backward, values)
    elif _gradient.outputs(kernel) and not any(p["access"] == "inout" for p in _gradient.inputs(kernel)):
        _refuse_gradient(library, base)
    made = getattr(getattr(torch.ops, namespace), short).default
    _libraries[base], _made[identity] = library, made
    return made
