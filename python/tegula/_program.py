"""Programs and their kernels."""

import hashlib
import html
import keyword
import os

from . import _errors, _libraries, _tegula

_TIR, _THREAD, _DEVICE, _INSPECTION = range(4)


def _is_given(p):
    """Whether a call gives it by position."""
    return p["kind"] != "tensor" or p["access"] in ("in", "inout")


class Kernel(_tegula.Kernel):
    """A kernel, to be called with arrays.

    Positional arguments are the parameters in order but outputs and scratch.  By name: any parameter, `out=` (one
    array, or a tuple where there are several outputs), compile-time parameters (`T="f16"`, `BLOCK=1024`), schedule
    values (`warps=8`), dimensions that no argument has, and `device=` ("simt:sm_90a" runs the GPU's code on this
    machine).  The result is what the kernel writes: one array, or a tuple in order of the parameters; what it reads
    and writes is the array that was given.
    """

    def __new__(cls, program, index):
        return super().__new__(cls, program, program._capsule, index)

    def __init__(self, program, index):
        self.program = program
        self.__doc__ = self._help()

    @property
    def __signature__(self):
        """Of inspect: outputs and values go by name."""
        import inspect

        kind, used, made = inspect.Parameter, set(), []

        def add(name, how, **more):
            name += "_" * (keyword.iskeyword(name) or name in used)
            used.add(name)
            made.append(kind(name, how, **more))

        for p in filter(_is_given, self.params):
            add(p["name"], kind.POSITIONAL_OR_KEYWORD, annotation=p["text"])
        for p in self.params:
            if p["kind"] == "tensor" and p["access"] == "out":
                add(p["name"], kind.KEYWORD_ONLY, annotation=p["text"], default=None)
        for name in ("out", *self.values):
            add(name, kind.KEYWORD_ONLY, default=None)
        add("values", kind.VAR_KEYWORD)
        return inspect.Signature(made)

    def _help(self):
        """What help() shows of it."""
        outs = ", ".join(p["name"] for p in self.params if p["kind"] == "tensor" and p["access"] != "in" and p["access"] != "scratch")
        lines = [f"kernel {self.signature}", f"    of {self.file}:{self.line}", ""]
        lines += [f"    {p['name']}: {p['text']}" for p in self.params if p["kind"] != "tensor" or p["access"] != "scratch"]
        return "\n".join(lines + ["", f"Returns {outs or 'nothing'}.", "", Kernel.__doc__.split("\n\n", 1)[1]])

    def __repr__(self):
        return f"<tegula kernel {self.signature}>"

    @property
    def signature(self):
        """The header's parameters as they are written."""
        parts = [p["name"] + ": " + p["text"] for p in self.params]
        values = f"<{', '.join(self.values)}>" if self.values else ""
        return f"{self.__name__}{values}({', '.join(parts)})"

    def ptx(self, *args, target=None, **named):
        """PTX for a target ("sm_90a"; without one, that of the first GPU here), for the arguments' sizes or the
        example's."""
        return self._text(_DEVICE, target or _target(), args, named)

    def metal(self, *args, target="apple7", **named):
        return self._text(_DEVICE, target, args, named)

    def tir(self, *args, target="cpu", **named):
        """Tile IR after all passes of a target."""
        return self._text(_TIR, target, args, named)

    def thread_ir(self, *args, target=None, **named):
        return self._text(_THREAD, target or _target(), args, named)

    def inspect(self, *args, target=None, **named):
        """What the compiler made of each line: layouts, vector widths, conversions, shared memory, registers."""
        return Text(self._text(_INSPECTION, target or _target(), args, named))

    def _text(self, what, target, args, named):
        return _tegula.Kernel._code(self, what, target, args, named)

    def tune(self, *args, budget=30.0, **named):
        """Finds the best values of `tune(...)` for these arguments (or an example's) on their device, and keeps them:
        later launches, of other processes too, use them."""
        return Tuning(self._tune(float(budget), args, named))

    def check(self, *args, **named):
        """Runs the kernel on these arguments, or an example's, and compares with its `reference`."""
        return Check(self._check(0.0, args, named))

    def bench(self, *args, vs=None, seconds=0.5, **named):
        """Seconds of a launch on these arguments, or an example's.  `vs`: a function of the same positional arguments, or a
        dict of such, measured in turn with the kernel as the library of the arrays measures; an example's are PyTorch's
        where that is imported, else NumPy's."""
        if vs is None:
            return Bench(self.__name__, {self.__name__: self._bench(float(seconds), args, named)})
        from . import _bench

        others = vs if isinstance(vs, dict) else {getattr(vs, "__name__", "vs"): vs}
        if not args and not any(p["name"] in named for p in self.params):
            args, named = self._example_arguments(named)
        calls = {self.__name__: lambda: self(*args, **named)}
        for name, function in others.items():
            calls[name] = lambda function=function: function(*args)
        return Bench(self.__name__, _bench.compare(calls, args, seconds))

    def _example_arguments(self, named):
        """An example's positional arguments, and values by name, its dtypes among them."""
        found = self._example(0.0, (), named)
        host = not str(named.get("device", "cuda")).startswith("cuda")
        args = [_libraries.array(*found[p["name"]], host) if isinstance(found[p["name"]], tuple) else found[p["name"]]
                for p in self.params if _is_given(p)]
        dtypes = {n: found[n] for n in self.values if isinstance(found.get(n), str)}
        return tuple(args), {**dtypes, **{n: v for n, v in named.items() if n != "example"}}

    def _key(self, named):
        """A text that names the kernel and values, the same in every process: XLA's compiled programs carry it."""
        words = [self.__name__, self.program._hash] + [f"{k}={v}" for k, v in sorted(named.items())]
        return hashlib.sha256("\0".join(words).encode()).hexdigest()

    def _repr_html_(self):
        rows = "".join(
            f"<tr><td>{html.escape(p['name'])}</td><td><code>{html.escape(p['text'])}</code></td></tr>"
            for p in self.params)
        return f"<b>kernel {html.escape(self.__name__)}</b> ({html.escape(self.file)}:{self.line})<table>{rows}</table>"


class Program:
    """The kernels of a file or a text, as attributes and by `p["name"]`; `p.kernels` has their names in order."""

    def __init__(self, capsule, name):
        self._capsule, self._file = capsule, name
        self._hash = _tegula.program_hash(capsule)
        self.kernels = _tegula.program_kernels(capsule)
        self._kernels = {n: Kernel(self, i) for i, n in enumerate(self.kernels)}
        self.__dict__.update((n, k) for n, k in self._kernels.items() if n not in self.__dict__)

    def __getitem__(self, name):
        return self._kernels[name]

    def __iter__(self):
        return iter(self._kernels.values())

    def __len__(self):
        return len(self._kernels)

    def __getattr__(self, name):
        import difflib

        near = difflib.get_close_matches(name, self.__dict__.get("kernels", []), 1)
        help = f"; did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"'{self.__dict__.get('_file')}' has no kernel '{name}'{help}")

    def __repr__(self):
        return f"<tegula program {self._file}: {', '.join(self.kernels)}>"

    def _repr_html_(self):
        return "".join(k._repr_html_() for k in self)


def load(path):
    """The kernels of a .tgl file."""
    path = os.fspath(path)
    return Program(_tegula.program_file(path), path)


def compile(text, name="text.tgl"):
    """The kernels of a text; `name` stands for the file in messages, and imports are relative to its folder."""
    return Program(_tegula.program_text(name, text), name)


def devices():
    """Devices of this build, present or not, each a dict."""
    return _tegula.devices()


def synchronize(device="cpu"):
    """Waits for a device and raises what a kernel there failed with (an assert)."""
    _tegula.synchronize(device)


def _target():
    for d in devices():
        if d["available"] and d["target"] and d["target"].startswith("sm_"):
            return d["target"]
    return "sm_90a"


class Text(str):
    """A text that prints as it is."""

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        return f"<pre>{html.escape(self)}</pre>"


def _table(head, rows):
    def cells(tag, row):
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in row) + "</tr>"

    return f"<table>{cells('th', head)}{''.join(cells('td', r) for r in rows)}</table>"


def _lines(head, rows):
    rows = [[str(c) for c in r] for r in [head, *rows]]
    width = [max(len(r[i]) for r in rows) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, width)).rstrip() for r in rows)


def _microseconds(s):
    return f"{s * 1e6:.2f}"


class _Shown:
    def __repr__(self):
        return _lines(*self._rows())

    def _repr_html_(self):
        return _table(*self._rows())


class Bench(_Shown):
    """`seconds` of the kernel; `results` has each one's, by name."""

    def __init__(self, name, results):
        self.results, self.seconds = results, results[name]["seconds"]
        self._name = name

    def _rows(self):
        rows = []
        for name, r in self.results.items():
            rate = f"{r['bytes'] / r['seconds'] / 1e9:.0f} GB/s" if r.get("bytes") and r["seconds"] else ""
            speed = f"{r['flops'] / r['seconds'] / 1e12:.2f} TFLOP/s" if r.get("flops", -1) > 0 and r["seconds"] else ""
            rows.append([name, _microseconds(r["seconds"]), f"{r['seconds'] / self.seconds:.2f}", rate, speed])
        return ["what", "µs", "of the kernel", "memory", "arithmetic"], rows


class Tuning(_Shown):
    """`winner` ("BM = 64, warps = 4"), `why`, and every one of `candidates`."""

    def __init__(self, result):
        self.__dict__.update(result)

    def _rows(self):
        rows = [[c["values"], c["state"], _microseconds(c["seconds"]) if c["seconds"] else "", c["why"] or ""]
                for c in self.candidates]
        return ["values", "state", "µs", "why"], rows


class Check(_Shown):
    """True if every output is within its bound; `outputs` has each."""

    def __init__(self, outputs):
        self.outputs = outputs

    def __bool__(self):
        return all(o["passed"] for o in self.outputs)

    def _rows(self):
        rows = [[o["param"], "passed" if o["passed"] else "FAILED", f"{o['ratio']:.3g}", f"{o['max_error']:.3g}"]
                for o in self.outputs]
        return ["output", "result", "error / bound", "largest error"], rows


def _foreign(kernel, args, named):
    from . import jax

    return jax.call(kernel, *args, **named)


_tegula.adopt(_errors.make, _foreign, _libraries)
