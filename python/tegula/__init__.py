"""Tegula's kernels on arrays of NumPy, PyTorch, JAX, CuPy and any other library that speaks DLPack.

    import tegula
    k = tegula.load("softmax.tgl")
    y = k.softmax(x)

Outputs are allocated as the kernel's header says, by the library of the arguments, on their device; work goes to that
library's current stream.  Nothing is copied and nothing is waited for.
"""

from ._errors import DeviceError, Error, FaultError, LaunchError, SourceError
from ._program import Kernel, Program, compile, devices, load, synchronize
from ._tegula import version as __version__

__all__ = [
    "DeviceError", "Error", "FaultError", "Kernel", "LaunchError", "Program", "SourceError", "compile", "devices",
    "load", "synchronize",
]
