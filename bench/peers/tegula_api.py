"""Tegula's C library through ctypes, for the comparison in one process: tensors are torch's, wrapped, and launches go
to torch's current stream, so that they are captured in its graphs."""
import ctypes

import torch

DTYPES = {torch.bool: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.uint8: 5,
          torch.float16: 9, torch.bfloat16: 10, torch.float32: 11, torch.float64: 12, torch.float8_e4m3fn: 13,
          torch.float8_e5m2: 14}
NAMES = {"i8": 1, "f32": 11, "f16": 9, "bf16": 10, "f8e4m3": 13}
U4 = 16


def source(root, file):
    """dsl_examples has it, unless it is named with its folder."""
    return root / (f"{file}.tgl" if "/" in file else f"dsl_examples/{file}.tgl")


class Arg(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("tensor", ctypes.c_void_p), ("i", ctypes.c_int64),
                ("f", ctypes.c_double), ("text", ctypes.c_char_p)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("code", ctypes.c_char_p), ("message", ctypes.c_char_p)]


class Tegula:
    def __init__(self, library, root):
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.lib = lib = ctypes.CDLL(library)
        self.root = root
        for name in ("tgl_context_open", "tgl_device_open", "tgl_program_file", "tgl_kernel", "tgl_tensor_wrap", "tgl_stream_wrap"):
            getattr(lib, name).restype = ctypes.c_void_p
        lib.tgl_error.restype = ctypes.POINTER(Error)
        self.cx = ctypes.c_void_p(lib.tgl_context_open())
        self.device = ctypes.c_void_p(lib.tgl_device_open(self.cx, b"cuda", None))
        if not self.device:
            raise OSError(self.error())
        self.programs, self.tensors, self.streams = {}, {}, {}

    def error(self):
        return self.lib.tgl_error(self.cx).contents.message.decode()

    def stream(self):
        """torch's current stream, wrapped once."""
        handle = torch.cuda.current_stream().cuda_stream
        if handle not in self.streams:
            self.streams[handle] = ctypes.c_void_p(self.lib.tgl_stream_wrap(self.device, ctypes.c_void_p(handle)))
        return self.streams[handle]

    def kernel(self, name):
        file, _, kernel = name.partition(":")
        if name not in self.programs:
            p = self.lib.tgl_program_file(self.cx, str(source(self.root, file)).encode())
            if not p:
                raise RuntimeError(self.error())
            k = self.lib.tgl_kernel(ctypes.c_void_p(p), (kernel or file).encode())
            if not k:
                raise RuntimeError(self.error())
            self.programs[name] = ctypes.c_void_p(k)
        return self.programs[name]

    def tensor(self, t, name):
        key = (t.data_ptr(), tuple(t.shape), t.dtype)
        if key not in self.tensors:
            dtype, shape = DTYPES[t.dtype], list(t.shape)
            if name == "q" and t.dtype == torch.uint8:
                dtype, shape[-1] = U4, shape[-1] * 2
            dim = (ctypes.c_int64 * len(shape))(*shape)
            w = self.lib.tgl_tensor_wrap(self.device, dtype, len(shape), dim, None, ctypes.c_void_p(t.data_ptr()),
                                         ctypes.c_size_t(t.numel() * t.element_size()))
            if not w:
                raise RuntimeError(self.error())
            self.tensors[key] = (ctypes.c_void_p(w), t)
        return self.tensors[key][0]

    def args(self, spec, constants, s):
        out = []
        for word in spec.split():
            name, _, value = word.partition("=")
            if value.startswith("i"):
                out.append(Arg(name.encode(), 2, None, int(value[1:]), 0, None))
            elif value:
                out.append(Arg(name.encode(), 3, None, 0, float(value), None))
            else:
                out.append(Arg(name.encode(), 1, self.tensor(s[name], name), 0, 0, None))
        for name, value in constants.items():
            if isinstance(value, str):
                out.append(Arg(name.encode(), 5, None, NAMES[value], 0, None))
            elif isinstance(value, bool):
                out.append(Arg(name.encode(), 4, None, value, 0, None))
            else:
                out.append(Arg(name.encode(), 2, None, value, 0, None))
        return (Arg * len(out))(*out), len(out)

    def call(self, problem, sets, constants):
        launches = [*(self.launcher(each, sets, {}) for each in problem.before), self.launcher(problem.tegula, sets, constants)]

        def all_of_them(s):
            for launch in launches:
                launch(s)
        return all_of_them

    def launcher(self, tegula, sets, constants):
        name, fixed, spec = tegula
        k = self.kernel(name)
        made = {id(s): self.args(spec, {**fixed, **constants}, s) for s in sets}

        def launch(s):
            args, n = made[id(s)]
            if self.lib.tgl_launch_on(self.stream(), k, args, n):
                raise RuntimeError(self.error())
        return launch

    def candidates(self, problem, sets, seconds):
        yield "default", self.call(problem, sets, {})
        if seconds:
            for label, constants in SPACES.get(problem.tegula[0], {}).items():
                yield label, self.call(problem, sets, constants)

    def foreign(self, problem, sets):
        """The handwritten kernel, compiled here by NVRTC."""
        file, name, shape = problem.cuda
        source = self.root / "bench" / "handwritten" / file
        f = compile_cuda(source, name)
        spec = problem.tegula[2]
        symbols = foreign_symbols(problem, sets[0])
        grid, block = shape(sets[0])

        def launch(s):
            if name.startswith("column_sums"):
                s["y"].zero_()
            values = []
            for word in spec.split():
                n, _, value = word.partition("=")
                values.append(float(value) if value else s[n])
            launch_cuda(f, grid, block, values + symbols)
        yield name, launch


def foreign_symbols(problem, s):
    """Shape symbols in order of first mention."""
    file = problem.tegula[0].split(":")[0]
    if file in ("vector_add", "silu", "gelu_tanh", "gelu_erf"):
        return list(s["x"].shape)
    if file == "dequantize_int4":
        return list(s["w"].shape)
    return list(s["x"].shape)


def compile_cuda(source, name):
    """One kernel of a file, through torch's own NVRTC."""
    text = source.read_text().replace('#include "common.cuh"', (source.parent / "common.cuh").read_text()
                                      .replace("#pragma once", ""))
    return torch.cuda._compile_kernel(text, name, cuda_include_dirs=["/usr/local/cuda/include"])


DRIVER = ctypes.CDLL("libcuda.so.1")


def launch_cuda(kernel, grid, block, values):
    """Tensors as pointers, floats as f32, whole numbers as 64 bits: torch's own call passes doubles and 32 bits, of which
    a `float` parameter then reads the low half (a RoPE base of 10000.0 became 0)."""
    kinds = {float: ctypes.c_float, int: ctypes.c_longlong}
    held = [kinds[type(v)](v) if type(v) in kinds else ctypes.c_void_p(v.data_ptr()) for v in values]
    at = (ctypes.c_void_p * len(held))(*[ctypes.addressof(h) for h in held])
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    result = DRIVER.cuLaunchKernel(kernel.func, grid, 1, 1, block, 1, 1, 0, stream, at, None)
    if result:
        raise RuntimeError(f"cuLaunchKernel failed with result {result}")


def warps(*counts):
    return {f"warps {w}": {"warps": w} for w in counts}


ROWS = warps(1, 2, 4, 8, 16, 32)
# What --tune tries besides the defaults.
SPACES = {
    "softmax": ROWS, "layernorm": ROWS, "rmsnorm": ROWS, "quantize_fp8": ROWS, "row_sums": ROWS, "rope": ROWS,
    "cumsum:running_sums": {f"BLOCK {b} warps {w}": {"BLOCK": b, "warps": w}
                            for b in (1024, 2048, 4096, 8192) for w in (4, 8, 16, 32) if b // w >= 128},
    "softmax_online": {f"BLOCK {b} warps {w}": {"BLOCK": b, "warps": w}
                       for b in (4096, 8192, 16384, 32768) for w in (8, 16, 32) if b // w >= 256},
    "column_sums": {f"{r}x{c} strip {s} warps {w}": {"BR": r, "BC": c, "STRIP": s, "warps": w}
                    for r in (16, 32, 64) for c in (64, 128) for s in (512, 1024) for w in (4, 8)},
    "transpose": {f"{m}x{n} warps {w}": {"BM": m, "BN": n, "warps": w}
                  for m in (32, 64, 128) for n in (32, 64, 128) for w in (4, 8, 16)},
    "matmul": {f"{m}x{n}x{k} st{st} w{w} g{g}": {"BM": m, "BN": n, "BK": k, "stages": st, "warps": w, "group": g}
               for m, n, k in ((128, 128, 32), (128, 128, 64), (128, 256, 32), (128, 256, 64), (256, 128, 32), (256, 128, 64))
               for st in (3, 4) for w in (4, 8) for g in (1, 8)},
}
