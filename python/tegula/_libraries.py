"""Array libraries that have to be asked in Python: CuPy, PyTorch before 2.10."""

import importlib


def _package(type):
    for t in type.__mro__:
        name = t.__module__.split(".")[0]
        if name in ("torch", "cupy"):
            return importlib.import_module(name)
    return None


def empty(type, shape, dtype, index):
    """An array without contents of the library of `type`, on GPU `index` or, if that is negative, the host."""
    m = _package(type)
    if m is None:
        raise TypeError(f"outputs cannot be allocated like {type}: give them, as in out=y")
    if m.__name__ == "torch":
        return m.empty(shape, dtype=getattr(m, dtype), device="cpu" if index < 0 else f"cuda:{index}")
    with m.cuda.Device(index):
        return m.empty(shape, dtype)


def stream(type, index):
    """The library's current stream on GPU `index`, as a number; 0: the default one."""
    m = _package(type)
    if m is None:
        return 0
    if m.__name__ == "torch":
        return m.cuda.current_stream(index).cuda_stream
    with m.cuda.Device(index):
        return m.cuda.get_current_stream().ptr
