"""Array libraries that have to be asked in Python: CuPy, tvm-ffi, PyTorch before 2.10."""

import importlib
import sys


def _package(type):
    for t in type.__mro__:
        name = t.__module__.split(".")[0]
        if name in ("torch", "cupy", "tvm_ffi"):
            return importlib.import_module(name)
    return None


def empty(type, shape, dtype, index):
    """An array without contents of the library of `type`, on GPU `index` or, if that is negative, the host."""
    m = _package(type)
    if m is None:
        raise TypeError(f"outputs cannot be allocated like {type}: give them, as in out=y")
    if m.__name__ == "tvm_ffi":
        return m.from_dlpack(_memory(shape, dtype, index))
    if m.__name__ == "torch":
        return m.empty(shape, dtype=getattr(m, dtype), device="cpu" if index < 0 else f"cuda:{index}")
    with m.cuda.Device(index):
        return m.empty(shape, dtype)


def _memory(shape, dtype, index):
    """tvm-ffi has no allocator of its own: memory of PyTorch, where the program uses it, else of NumPy or CuPy."""
    if "torch" in sys.modules:
        return empty(sys.modules["torch"].Tensor, shape, dtype, index)
    try:
        if index >= 0:
            return empty(importlib.import_module("cupy").ndarray, shape, dtype, index)
        return importlib.import_module("numpy").empty(shape, dtype)
    except (ImportError, TypeError) as e:
        raise TypeError(f"outputs of {dtype} cannot be allocated for tvm-ffi without PyTorch ({e}): give them, as in out=y") from e


def array(dtype, shape, data, host=False):
    """Bytes as an array: of PyTorch where the program uses it, on the GPU if there is one and `host` is not asked for, else of
    NumPy."""
    torch = sys.modules.get("torch")
    if torch is not None:
        t = torch.empty(shape, dtype=getattr(torch, dtype))
        if data:
            t.view(-1).view(torch.uint8).copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return t.cuda() if torch.cuda.is_available() and not host else t
    numpy = importlib.import_module("numpy")
    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        try:
            dtype = getattr(importlib.import_module("ml_dtypes"), dtype)
        except ImportError:
            dtype = "uint16" if dtype == "bfloat16" else "uint8"
    return numpy.frombuffer(bytearray(data), dtype).reshape(shape)


def stream(type, index):
    """The library's current stream on GPU `index`, as a number; 0: the default one."""
    m = _package(type)
    if m is None:
        return 0
    if m.__name__ == "tvm_ffi":
        return m.get_raw_stream(m.device("cuda", index))
    if m.__name__ == "torch":
        return m.cuda.current_stream(index).cuda_stream
    with m.cuda.Device(index):
        return m.cuda.get_current_stream().ptr
