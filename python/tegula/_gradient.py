"""A kernel's gradient as another kernel: parameters are matched by name.

`softmax_backward(y: in …, dy: in …, dx: out …)` is the gradient of `softmax(x: in …, y: out …)`: it takes what the
first read and wrote by the same names, the gradient of output y as dy (or grad_y, y_grad), and writes that of input x
as dx.
"""


def _gradient_of(name, names):
    for n in names:
        if name in (f"d{n}", f"grad_{n}", f"{n}_grad"):
            return n
    return None


def inputs(kernel):
    """Parameters that a call gives by position."""
    return [p for p in kernel.params if p["kind"] != "tensor" or p["access"] in ("in", "inout")]


def outputs(kernel):
    return [p for p in kernel.params if p["kind"] == "tensor" and p["access"] == "out"]


def changed(kernel):
    return [p for p in kernel.params if p["kind"] == "tensor" and p["access"] == "inout"]


class Match:
    """takes: for each positional parameter of the gradient ("input" | "output" | "gradient", name); gives: for each
    of its outputs the input whose gradient it is."""

    def __init__(self, kernel, gradient):
        ins, outs = [p["name"] for p in inputs(kernel)], [p["name"] for p in outputs(kernel)]
        self.takes, self.gives = [], []
        for p in inputs(gradient):
            name = p["name"]
            of = _gradient_of(name, outs)
            what = ("gradient", of) if of else None
            what = ("input", name) if name in ins else ("output", name) if name in outs else what
            if not what:
                raise TypeError(
                    f"parameter '{name}' of kernel '{gradient.__name__}' is neither one of '{kernel.__name__}' "
                    f"({', '.join(ins + outs)}) nor the gradient of an output ({', '.join('d' + o for o in outs)})")
            self.takes.append(what)
        for p in outputs(gradient):
            of = _gradient_of(p["name"], ins)
            if not of:
                raise TypeError(f"output '{p['name']}' of kernel '{gradient.__name__}' is not the gradient of an input of "
                                f"'{kernel.__name__}' ({', '.join('d' + i for i in ins)})")
            self.gives.append(of)
