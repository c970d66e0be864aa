#!/usr/bin/env python3
"""Writes interp_cases.txt: small functions of tile IR with what NumPy says they leave in memory.

    tests/data/gen_interp.py > tests/data/interp_cases.txt

A case is its name, its IR, and one line for each argument:

    case reduce_sum_axis0
    ir
    kernel @k(...) grid(p) { ... }
    end
    in f32 2x3 3x1 : 1 2 3 4 5 6          dtype, extents, strides in elements, values in memory
    out f32 3 1 : 0 0 0 = 5 7 9           values before, values after
    scalar 7
    done
"""
import itertools
import sys

import numpy as np

NP = {"bool": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
      "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32,
      "f64": np.float64, "i4": np.int8, "u4": np.uint8}
rng = np.random.default_rng(1)


def ty(dtype, shape):
    return f"{dtype}[{', '.join(map(str, shape))}]" if len(shape) else dtype


def text(x):
    x = x.item() if hasattr(x, "item") else x
    if isinstance(x, bool):
        return str(int(x))
    if isinstance(x, float) and x == int(x) if np.isfinite(x) else False:
        return "-0" if x == 0 and np.signbit(x) else str(int(x))
    return repr(x) if isinstance(x, float) else str(int(x))


class K:
    """A kernel under construction: k.op(...) appends a line and gives the value's name."""

    def __init__(self, name):
        self.name, self.lines, self.params, self.args, self.n, self.ind = name, [], [], [], 0, "  "
        self.grid = 1
        self.zero = None
        self.kind = "kernel"

    def fresh(self):
        self.n += 1
        return f"%v{self.n}"

    def tensor(self, name, access, dtype, data, after=None, strides=None, dims=None):
        data = np.asarray(data)
        dims = list(data.shape) if dims is None else dims
        if strides is None:
            strides, s = [], 1
            for e in reversed(dims):
                strides.insert(0, s)
                s *= e
        kind = f"{access} " + ("strided " if False else "")
        self.params.append(f"%{name}: {kind}{ty(dtype, dims)}")
        vals = " ".join(text(v) for v in data.reshape(-1))
        line = f"{access} {dtype} {'x'.join(map(str, dims)) or '-'} {'x'.join(map(str, strides)) or '-'} : {vals}"
        if after is not None:
            line += " = " + " ".join(text(v) for v in np.asarray(after).reshape(-1))
        self.args.append(line)
        return "%" + name

    def pointer(self, name, dtype, data, after=None):
        self.params.append(f"%{name}: *{'mut ' if after is not None else ''}{dtype}")
        line = f"ptr {dtype} {len(data)} 1 : " + " ".join(text(v) for v in data)
        self.args.append(line + ("" if after is None else " = " + " ".join(text(v) for v in np.asarray(after))))
        return "%" + name

    def at(self, name, t, index, shape):
        """The pointers name + index."""
        p = self.op(f"broadcast {name}", ty(t, shape))
        return self.op(f"ptr_add {p}, {index}", ty(t, shape))

    def op(self, line, *types):
        names = [self.fresh() for _ in types]
        self.lines.append(self.ind + (", ".join(names) + " = " if names else "") + line +
                          (" : " + ", ".join(types) if types else ""))
        return names[0] if len(names) == 1 else names

    def const(self, v, t="i64"):
        if t.startswith("f") or t.startswith("bf"):
            v = "inf" if v == np.inf else "-inf" if v == -np.inf else "nan" if v != v else repr(float(v))
        elif t.startswith("bool"):
            v = "true" if v else "false"
        return self.op(f"const {{value = {v}}}", t)

    def z(self):
        if self.zero is None:
            self.zero = self.const(0)
        return self.zero

    def read(self, name, dtype, shape):
        """The whole of a tensor."""
        if len(shape) == 0:
            return self.op(f"read {name} {{index = \"\"}}", dtype)
        idx = ", ".join([self.z()] * len(shape))
        return self.op(f"read {name}, {idx} {{index = \"{'p' * len(shape)}\", extents = {list(shape)}}}",
                       ty(dtype, shape))

    def write(self, name, value, shape):
        if len(shape) == 0:
            self.op(f"write {name}, {value} {{index = \"\"}}")
            return
        idx = ", ".join([self.z()] * len(shape))
        self.op(f"write {name}, {idx}, {value} {{index = \"{'p' * len(shape)}\", extents = {list(shape)}}}")

    def done(self):
        print("case", self.name)
        print("ir")
        print(f"{self.kind} @k({', '.join(self.params)}) {'grid(p) ' if self.kind == 'kernel' else ''}{{")
        print("\n".join(self.lines))
        print("}")
        print("end")
        if self.grid != 1:
            print("grid", self.grid)
        print("\n".join(self.args))
        print("done")


def unary(name, dtype, x, f, out_dtype, want):
    """A case with one operand and one result: f(k, value) builds it."""
    k = K(name)
    x = np.asarray(x)
    want = np.asarray(want)
    a = k.tensor("x", "in", dtype, x)
    o = k.tensor("o", "out", out_dtype, np.zeros(want.shape, NP[out_dtype]), want)
    v = k.read(a, dtype, x.shape)
    k.write(o, f(k, v), want.shape)
    k.done()


def numbers(dtype, shape):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.uint8)
    if dtype[0] == "f":
        return (rng.integers(-8, 9, shape) / 2).astype(NP[dtype])
    lo = 0 if dtype[0] == "u" else -9
    return rng.integers(lo, 10, shape).astype(NP[dtype])


# reductions

WIDE = {"i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32", "f16": "f32"}


def reductions():
    shapes = [(7,), (1,), (3, 5), (4, 1), (2, 3, 5), (3, 2, 2, 3)]
    fns = {"sum": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}
    for dtype in ("i8", "i32", "u32", "i64", "f16", "f32", "f64"):
        for shape in shapes:
            for axis in range(len(shape)):
                for fn, f in fns.items():
                    if dtype not in ("i32", "f32") and (len(shape) > 2 or fn == "argmin"):
                        continue
                    x = numbers(dtype, shape)
                    out = WIDE.get(dtype, dtype) if fn == "sum" else "i32" if fn.startswith("arg") else dtype
                    want = f(x.astype(NP[out]) if fn == "sum" else x, axis=axis).astype(NP[out])
                    rest = shape[:axis] + shape[axis + 1:]
                    unary(f"{fn}_{dtype}_{'x'.join(map(str, shape))}_axis{axis}", dtype, x,
                          lambda k, v: k.op(f"reduce {v} {{fn = \"{fn}\", axis = {axis}}}", ty(out, rest)), out, want)
    x = numbers("bool", (4, 3))
    for fn, f in (("any", np.any), ("all", np.all)):
        unary(f"{fn}_axis1", "bool", x, lambda k, v: k.op(f"reduce {v} {{fn = \"{fn}\", axis = 1}}", "bool[4]"),
              "bool", f(x, axis=1).astype(np.uint8))
    x = numbers("i32", (4, 5))
    unary("xor_sum", "i32", x, lambda k, v: k.op(f"reduce {v} {{fn = \"xor_sum\", axis = 0}}", "i32[5]"), "i32",
          np.bitwise_xor.reduce(x, axis=0))
    x = np.array([[np.nan, 1, 3], [2, np.nan, 2], [np.nan] * 3], np.float32)
    for fn, want in (("max", [3, 2, np.nan]), ("min", [1, 2, np.nan])):
        unary(f"{fn}_nan", "f32", x, lambda k, v: k.op(f"reduce {v} {{fn = \"{fn}\", axis = 1}}", "f32[3]"), "f32",
              np.array(want, np.float32))
        unary(f"{fn}_nan_propagates", "f32", x,
              lambda k, v: k.op(f"reduce {v} {{fn = \"{fn}\", axis = 1, propagate_nan = true}}", "f32[3]"), "f32",
              np.full(3, np.nan, np.float32))
    for fn, want in (("argmax", [2, 0]), ("argmin", [1, 0])):
        unary(f"{fn}_nan", "f32", x[:2], lambda k, v: k.op(f"reduce {v} {{fn = \"{fn}\", axis = 1}}", "i32[2]"), "i32",
              np.array(want, np.int32))


def scans():
    for dtype in ("i32", "f32", "f64", "i8", "f16"):
        for shape in ((9,), (3, 5), (2, 3, 4)):
            for axis in range(len(shape)):
                for fn, f in (("sum", np.cumsum), ("max", np.maximum.accumulate)):
                    for reverse in (False, True):
                        x = numbers(dtype, shape)
                        out = WIDE.get(dtype, dtype) if fn == "sum" else dtype
                        y = np.flip(x, axis) if reverse else x
                        want = f(y.astype(NP[out]), axis=axis).astype(NP[out])
                        want = np.flip(want, axis) if reverse else want
                        r = ", reverse = true" if reverse else ""
                        unary(f"scan_{fn}_{dtype}_{'x'.join(map(str, shape))}_axis{axis}{'_rev' if reverse else ''}",
                              dtype, x, lambda k, v: k.op(f"scan {v} {{fn = \"{fn}\", axis = {axis}{r}}}",
                                                          ty(out, shape)), out, want)


# folds by regions

def region(k, params, body):
    """Appends `do (params) { body }` to the last line; body gives the yielded names."""
    k.lines[-1] += (" fn (" if "_fn " in k.lines[-1] else " do (") + ", ".join(params) + ") {"
    k.ind += "  "
    res = body()
    k.op("yield " + ", ".join(res))
    k.ind = k.ind[:-2]
    k.lines.append(k.ind + "}")


def fold(name, kind, dtypes, tiles, axis, body, wants, reverse=False):
    k = K(name)
    shape = tiles[0].shape
    ins = [k.tensor(f"x{i}", "in", d, t) for i, (d, t) in enumerate(zip(dtypes, tiles))]
    outs = [k.tensor(f"o{i}", "out", d, np.zeros(wt.shape, NP[d]), wt.astype(NP[d]))
            for i, (d, wt) in enumerate(zip(dtypes, wants))]
    vs = [k.read(a, d, shape) for a, d in zip(ins, dtypes)]
    oshape = wants[0].shape
    r = k.op(f"{kind} {', '.join(vs)} {{axis = {axis}{', reverse = true' if reverse else ''}}}",
             *[ty(d, oshape) for d in dtypes])
    r = [r] if len(dtypes) == 1 else r
    names = [f"%a{i}" for i in range(len(dtypes))] + [f"%b{i}" for i in range(len(dtypes))]
    region(k, [f"{n}: {d}" for n, d in zip(names, dtypes * 2)],
           lambda: body(k, names[:len(dtypes)], names[len(dtypes):]))
    for o, v, wt in zip(outs, r, wants):
        k.write(o, v, wt.shape)
    k.done()


def sequential(f, tiles, axis, scan, reverse=False):
    n = tiles[0].shape[axis]
    cols = [np.moveaxis(t, axis, 0) for t in tiles]
    order = range(n - 1, -1, -1) if reverse else range(n)
    acc, outs = None, [np.zeros_like(c) for c in cols]
    for j in order:
        row = tuple(c[j].copy() for c in cols)
        acc = row if acc is None else f(acc, row)
        for o, a in zip(outs, acc):
            o[j] = a
    return [np.moveaxis(o, 0, axis) for o in outs] if scan else list(acc)


def mat_body(k, a, b):
    """2 by 2 matrices as tuples of 4: associative, not commutative."""
    def mul(x, y):
        return k.op(f"mul {x}, {y}", "i64")
    def dot(x, y, z, w):
        return k.op(f"add {mul(x, y)}, {mul(z, w)}", "i64")
    return [dot(a[0], b[0], a[1], b[2]), dot(a[0], b[1], a[1], b[3]), dot(a[2], b[0], a[3], b[2]),
            dot(a[2], b[1], a[3], b[3])]


def mat(a, b):
    return (a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
            a[2] * b[1] + a[3] * b[3])


def branch_body(k, a, b):
    """max by a branch, remembering the place: ties keep the earlier."""
    c = k.op(f"lt {a[0]}, {b[0]}", "bool")
    v, i = k.op(f"if {c}", "f32", "i32")
    k.lines[-1] += " then {"
    k.op(f"yield {b[0]}, {b[1]}")
    k.lines.append(k.ind + "} else {")
    k.op(f"yield {a[0]}, {a[1]}")
    k.lines.append(k.ind + "}")
    return [v, i]


def branch(a, b):
    c = a[0] < b[0]
    return (np.where(c, b[0], a[0]), np.where(c, b[1], a[1]))


def loop_body(k, a, b):
    """a + b counted up by a loop of 3 trips of (a + b): 3 * (a + b) % 7 is not associative, so use max in it."""
    z, one, three = k.const(0), k.const(1), k.const(3)
    m = k.op(f"max {a[0]}, {b[0]}", "i32")
    r = k.op(f"for {z}, {three}, {one}, {m}", "i32")
    region(k, ["%li: i64", "%lc: i32"], lambda: [k.op(f"max %lc, {m}", "i32")])
    return [r]


def folds():
    for shape, axis in (((5,), 0), ((8,), 0), ((1,), 0), ((37,), 0), ((3, 6), 1), ((6, 3), 0), ((5, 20), 0), ((2, 3, 2), 1)):
        tag = f"{'x'.join(map(str, shape))}_axis{axis}"
        tiles = [rng.integers(-1, 2, shape).astype(np.int64) for _ in range(4)]
        fold(f"reduce_fn_matrix_{tag}", "reduce_fn", ["i64"] * 4, tiles, axis, mat_body,
             sequential(mat, tiles, axis, False))
        for rev in (False, True):
            fold(f"scan_fn_matrix_{tag}{'_rev' if rev else ''}", "scan_fn", ["i64"] * 4, tiles, axis, mat_body,
                 sequential(mat, tiles, axis, True, rev), rev)
        x = numbers("f32", shape)
        at = np.broadcast_to(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]),
                             shape).astype(np.int32)
        fold(f"reduce_fn_branch_{tag}", "reduce_fn", ["f32", "i32"], [x, at], axis, branch_body,
             sequential(branch, [x, at], axis, False))
        fold(f"scan_fn_branch_{tag}", "scan_fn", ["f32", "i32"], [x, at], axis, branch_body,
             sequential(branch, [x, at], axis, True))
        x = numbers("i32", shape)
        fold(f"reduce_fn_loop_{tag}", "reduce_fn", ["i32"], [x], axis, loop_body, [x.max(axis)])
        fold(f"scan_fn_loop_{tag}", "scan_fn", ["i32"], [x], axis, loop_body, [np.maximum.accumulate(x, axis)])
        fold(f"reduce_fn_first_{tag}", "reduce_fn", ["i32"], [x], axis, lambda k, a, b: [a[0]], [x.take(0, axis)])
        fold(f"reduce_fn_last_{tag}", "reduce_fn", ["i32"], [x], axis, lambda k, a, b: [b[0]], [x.take(-1, axis)])
        fold(f"scan_fn_swap_{tag}", "scan_fn", ["i32", "i32"], [x, x + 1], axis,
             lambda k, a, b: [b[1], b[0]], sequential(lambda a, b: (b[1], b[0]), [x, x + 1], axis, True)) \
            if shape[axis] == 1 else None


# shapes

def shapes():
    x = numbers("f32", (2, 3, 4))
    for dims in itertools.permutations(range(3)):
        y = np.transpose(x, dims)
        unary("permute_" + "".join(map(str, dims)), "f32", x,
              lambda k, v: k.op(f"permute {v} {{dims = {list(dims)}}}", ty("f32", y.shape)), "f32", y)
        unary("permute_add_" + "".join(map(str, dims)), "f32", x,
              lambda k, v: (lambda p: k.op(f"add {p}, {p}", ty("f32", y.shape)))(
                  k.op(f"permute {v} {{dims = {list(dims)}}}", ty("f32", y.shape))), "f32", y + y)
        unary("permute_sum_" + "".join(map(str, dims)), "f32", x,
              lambda k, v: k.op("reduce " + k.op(f"permute {v} {{dims = {list(dims)}}}", ty("f32", y.shape)) +
                                " {fn = \"sum\", axis = 1}", ty("f32", (y.shape[0], y.shape[2]))), "f32", y.sum(1))
    for dtype in ("bool", "i8", "f16", "i64"):
        x = numbers(dtype, (37, 5))
        unary(f"transpose_{dtype}", dtype, x, lambda k, v: k.op(f"permute {v} {{dims = [1, 0]}}", ty(dtype, (5, 37))),
              dtype, x.T)
    for axis in range(2):
        x = numbers("i32", (3, 4))
        unary(f"flip_{axis}", "i32", x, lambda k, v: k.op(f"flip {v} {{axis = {axis}}}", "i32[3, 4]"), "i32",
              np.flip(x, axis))
        unary(f"flip_permute_{axis}", "i32", x,
              lambda k, v: k.op("permute " + k.op(f"flip {v} {{axis = {axis}}}", "i32[3, 4]") + " {dims = [1, 0]}",
                                "i32[4, 3]"), "i32", np.flip(x, axis).T)
        for n in (1, 2, 3):
            unary(f"cat{n}_{axis}", "i32", x,
                  lambda k, v: k.op(f"cat {', '.join([v] * n)} {{axis = {axis}}}",
                                    ty("i32", np.concatenate([x] * n, axis).shape)), "i32",
                  np.concatenate([x] * n, axis))
    x = numbers("i16", (3, 4))
    unary("join", "i16", x, lambda k, v: k.op(f"join {v}, " + k.op(f"neg {v}", "i16[3, 4]"), "i16[3, 4, 2]"), "i16",
          np.stack([x, -x], -1))
    x = numbers("i16", (3, 4, 2))
    unary("split", "i16", x, lambda k, v: (lambda h: k.op(f"sub {h[0]}, {h[1]}", "i16[3, 4]"))(
        k.op(f"split {v}", "i16[3, 4]", "i16[3, 4]")), "i16", x[..., 0] - x[..., 1])
    x = numbers("f32", (6,))
    unary("reshape_chain", "f32", x,
          lambda k, v: k.op("reshape " + k.op("permute " + k.op(f"reshape {v}", "f32[2, 3]") + " {dims = [1, 0]}",
                                              "f32[3, 2]"), "f32[6]"), "f32", x.reshape(2, 3).T.reshape(6))
    x = numbers("f32", (3, 1))
    unary("broadcast_column", "f32", x, lambda k, v: k.op(f"broadcast {v}", "f32[3, 4]"), "f32",
          np.broadcast_to(x, (3, 4)))
    unary("broadcast_outer", "f32", x,
          lambda k, v: k.op("mul " + k.op(f"broadcast {v}", "f32[3, 3]") + ", " +
                            k.op("broadcast " + k.op(f"reshape {v}", "f32[1, 3]"), "f32[3, 3]"), "f32[3, 3]"), "f32",
          x * x.reshape(1, 3))
    x = numbers("f32", (3, 1, 2))
    unary("broadcast_middle", "f32", x, lambda k, v: k.op(f"broadcast {v}", "f32[3, 5, 2]"), "f32",
          np.broadcast_to(x, (3, 5, 2)))
    x = numbers("i32", (4, 5))
    for r, c in ((0, 0), (1, 2), (-3, 9), (2**62, -2**63)):
        ra, ca = max(0, min(r, 2)), max(0, min(c, 2))
        unary(f"extract_{r}_{c}", "i32", x,
              lambda k, v: k.op(f"extract {v}, {k.const(r)}, {k.const(c)} {{index = \"pp\", extents = [2, 3]}}",
                                "i32[2, 3]"), "i32", x[ra:ra + 2, ca:ca + 3])
        ia, ja = max(0, min(r, 3)), max(0, min(c, 4))
        unary(f"extract_row_{r}_{c}", "i32", x,
              lambda k, v: k.op(f"extract {v}, {k.const(r)}, {k.const(c)} {{index = \"ip\", extents = [3]}}",
                                "i32[3]"), "i32", x[ia, ca:ca + 3])
        unary(f"extract_one_{r}_{c}", "i32", x,
              lambda k, v: k.op(f"extract {v}, {k.const(r)}, {k.const(c)} {{index = \"ii\", extents = []}}", "i32"),
              "i32", x[ia, ja])
    for axis in range(3):
        k = K(f"iota_{axis}")
        shape = (2, 3, 4)
        want = np.broadcast_to(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(3)]), shape)
        o = k.tensor("o", "out", "i32", np.zeros(shape), want)
        q = k.tensor("q", "out", "i32", np.zeros(shape), want * 2)
        v = k.op(f"iota {{axis = {axis}}}", ty("i32", shape))
        k.write(o, v, shape)
        k.write(q, k.op(f"add {v}, {v}", ty("i32", shape)), shape)
        k.done()


# memory

def place(x, starts, extents, fill):
    """x[starts +: extents] with fill outside."""
    out = np.full(extents, fill, x.dtype)
    for idx in np.ndindex(*extents):
        p = [s + i for s, i in zip(starts, idx)]
        if all(0 <= a < b for a, b in zip(p, x.shape)):
            out[idx] = x[tuple(p)]
    return out


STARTS = [(0, 0), (1, 2), (-1, -2), (3, 4), (-4, 0), (0, 5), (2**63 - 1, 0), (-2**63, 0), (0, 2**63 - 1), (2**63 - 3, -2**63),
          (-2, 3)]


def reads():
    for dtype in ("f32", "i8", "f16", "i64"):
        x = numbers(dtype, (4, 5))
        for r, c in STARTS:
            k = K(f"read_{dtype}_{r}_{c}")
            want = place(x, (r, c), (3, 4), 0)
            fills = place(x, (r, c), (3, 4), 7)
            col = place(x, (r, c), (3, 1), 7)[:, 0]
            row = place(x, (r, c), (1, 4), 7)[0]
            one = place(x, (r, c), (1, 1), 7)[0, 0]
            xv = k.tensor("x", "in", dtype, x)
            names = [k.tensor(n, "out", dtype, np.zeros(np.shape(w)), w) for n, w in
                     (("a", want), ("b", fills), ("c", col), ("d", row), ("e", one), ("f", fills.T), ("g", want.sum(1).astype(NP[dtype])))]
            cr, cc = k.const(r), k.const(c)
            f = k.const(7, dtype)
            v = k.op(f"read {xv}, {cr}, {cc} {{index = \"pp\", extents = [3, 4]}}", ty(dtype, (3, 4)))
            k.write(names[0], v, (3, 4))
            v = k.op(f"read {xv}, {cr}, {cc}, {f} {{index = \"pp\", extents = [3, 4]}}", ty(dtype, (3, 4)))
            k.write(names[1], v, (3, 4))
            k.write(names[5], k.op(f"permute {v} {{dims = [1, 0]}}", ty(dtype, (4, 3))), (4, 3))
            v = k.op(f"read {xv}, {cr}, {cc}, {f} {{index = \"pi\", extents = [3]}}", ty(dtype, (3,)))
            k.write(names[2], v, (3,))
            v = k.op(f"read {xv}, {cr}, {cc}, {f} {{index = \"ip\", extents = [4]}}", ty(dtype, (4,)))
            k.write(names[3], v, (4,))
            v = k.op(f"read {xv}, {cr}, {cc}, {f} {{index = \"ii\", extents = []}}", dtype)
            k.write(names[4], v, ())
            out = WIDE.get(dtype, dtype)
            v = k.op(f"read {xv}, {cr}, {cc} {{index = \"pp\", extents = [3, 4]}}", ty(dtype, (3, 4)))
            s = k.op(f"reduce {v} {{fn = \"sum\", axis = 1}}", ty(out, (3,)))
            if out != dtype:
                s = k.op(f"cast {s}", ty(dtype, (3,)))
            k.write(names[6], s, (3,))
            k.done()
    x = numbers("i32", (4, 5))
    t = numbers("i32", (3, 4))
    for r, c in STARTS:
        k = K(f"read_tile_fill_{r}_{c}")
        want = np.where(place(np.ones_like(x), (r, c), (3, 4), 0) == 1, place(x, (r, c), (3, 4), 0), t)
        xv, tv = k.tensor("x", "in", "i32", x), k.tensor("t", "in", "i32", t)
        o = k.tensor("o", "out", "i32", np.zeros((3, 4)), want)
        f = k.read(tv, "i32", (3, 4))
        v = k.op(f"read {xv}, {k.const(r)}, {k.const(c)}, {f} {{index = \"pp\", extents = [3, 4]}}", "i32[3, 4]")
        k.write(o, v, (3, 4))
        k.done()


def strided():
    mem = numbers("f32", (40,))
    for dims, strides in (((3, 4), (10, 2)), ((4, 3), (1, 4)), ((5, 3), (0, 1)), ((3, 5), (1, 0)), ((2, 3), (0, 0))):
        view = np.lib.stride_tricks.as_strided(mem, dims, [s * 4 for s in strides])
        k = K(f"strided_{dims}_{strides}".replace(" ", ""))
        xv = k.tensor("x", "in", "f32", mem, strides=list(strides), dims=list(dims))
        e = (dims[0] + 1, dims[1] + 1)
        want = place(view, (-1, 1), e, 3)
        o = k.tensor("o", "out", "f32", np.zeros(e), want)
        q = k.tensor("q", "out", "f32", np.zeros(e), want + want)
        v = k.op(f"read {xv}, {k.const(-1)}, {k.const(1)}, {k.const(3.0, 'f32')} {{index = \"pp\", extents = {list(e)}}}",
                 ty("f32", e))
        k.write(o, v, e)
        k.write(q, k.op(f"add {v}, {v}", ty("f32", e)), e)
        k.done()
    after = np.zeros(40, np.float32)
    x = numbers("f32", (3, 4))
    for i in range(3):
        for j in range(4):
            after[i * 10 + j * 2] = 2 * x[i, j]
    k = K("strided_write")
    xv = k.tensor("x", "in", "f32", x)
    o = k.tensor("o", "out", "f32", np.zeros(40), after, strides=[10, 2], dims=[3, 4])
    v = k.read(xv, "f32", (3, 4))
    k.write(o, k.op(f"add {v}, {v}", "f32[3, 4]"), (3, 4))
    k.done()


def writes():
    x = numbers("f32", (3, 4))
    for r, c in STARTS:
        k = K(f"write_{r}_{c}")
        xv = k.tensor("x", "in", "f32", x)
        after, twice = np.full((4, 5), -99, np.float32), np.full((4, 5), -99, np.float32)
        for i in range(3):
            for j in range(4):
                if 0 <= r + i < 4 and 0 <= c + j < 5:
                    after[r + i, c + j] = x[i, j]
                    twice[r + i, c + j] = 2 * x[i, j]
        o = k.tensor("o", "out", "f32", np.full((4, 5), -99), after)
        q = k.tensor("q", "out", "f32", np.full((4, 5), -99), twice)
        v = k.read(xv, "f32", (3, 4))
        cr, cc = k.const(r), k.const(c)
        k.op(f"write {o}, {cr}, {cc}, {v} {{index = \"pp\", extents = [3, 4]}}")
        k.op(f"write {q}, {cr}, {cc}, " + k.op(f"add {v}, {v}", "f32[3, 4]") + " {index = \"pp\", extents = [3, 4]}")
        k.done()


def packed():
    x = numbers("i4", (3, 6)) % 16
    x = np.where(x > 7, x - 16, x).astype(np.int8)
    for r, c in ((0, 0), (1, 2), (-1, -2), (0, 3), (2, 5), (0, 1)):
        k = K(f"packed_read_{r}_{c}")
        want = place(x, (r, c), (2, 4), 0)
        xv = k.tensor("x", "in", "i4", x)
        o = k.tensor("o", "out", "i32", np.zeros((2, 4)), want)
        t = k.tensor("t", "out", "i32", np.zeros((4, 2)), want.T)
        v = k.op(f"read {xv}, {k.const(r)}, {k.const(c)} {{index = \"pp\", extents = [2, 4]}}", "i4[2, 4]")
        k.write(o, k.op(f"cast {v}", "i32[2, 4]"), (2, 4))
        k.write(t, k.op("cast " + k.op(f"permute {v} {{dims = [1, 0]}}", "i4[4, 2]"), "i32[4, 2]"), (4, 2))
        k.done()
    after = np.zeros((3, 6), np.int8)
    after[1:3, 2:6] = x[:2, :4]
    k = K("packed_write")
    xv = k.tensor("x", "in", "i4", x)
    o = k.tensor("o", "out", "i4", np.zeros((3, 6)), after)
    v = k.op(f"read {xv}, {k.z()}, {k.z()} {{index = \"pp\", extents = [2, 4]}}", "i4[2, 4]")
    k.op(f"write {o}, {k.const(1)}, {k.const(2)}, {v} {{index = \"pp\", extents = [2, 4]}}")
    k.done()
    u = rng.integers(0, 16, (2, 5)).astype(np.uint8)
    k = K("packed_odd_rows")
    xv = k.tensor("x", "in", "u4", np.concatenate([u, np.zeros((2, 1), np.uint8)], 1), strides=[6, 1], dims=[2, 5])
    o = k.tensor("o", "out", "i32", np.zeros((2, 6)), place(u, (0, 0), (2, 6), 0))
    v = k.op(f"read {xv}, {k.z()}, {k.z()} {{index = \"pp\", extents = [2, 6]}}", "u4[2, 6]")
    k.write(o, k.op(f"cast {v}", "i32[2, 6]"), (2, 6))
    k.done()


def gathers():
    x = numbers("f32", (4, 3, 5))
    ids = np.array([[2, -1], [0, 4], [3, 1]])
    jds = np.array([[0, 1], [2, 0], [-5, 2]])

    def at(i, j, c):
        return x[i, j, c] if 0 <= i < 4 and 0 <= j < 3 and 0 <= c < 5 else 7

    cases = {
        "gip": ((3, 2, 4), lambda a, b, p: at(ids[a, b], 1, 2 + p), (4,)),
        "gpi": ((3, 2, 4), lambda a, b, p: at(ids[a, b], 2 + p - 3, 1), (4,)),
        "pgi": ((4, 3, 2), lambda p, a, b: at(2 + p - 3, jds[a, b], 1), (4,)),
        "pgp": ((4, 3, 2, 2), lambda p, a, b, q: at(2 + p - 3, jds[a, b], 4 + q), (4, 2)),
        "ggp": ((3, 2, 4), lambda a, b, p: at(ids[a, b], jds[a, b], 2 + p), (4,)),
        "gpg": ((3, 2, 2), lambda a, b, p: at(ids[a, b], 1 + p, jds[a, b]), (2,)),
        "ggi": ((3, 2), lambda a, b: at(ids[a, b], jds[a, b], 1), ()),
    }
    for dtype in ("i32", "i64", "i8"):
        for index, (shape, f, extents) in cases.items():
            k = K(f"gather_{index}_{dtype}")
            want = np.array([f(*i) for i in np.ndindex(*shape)], np.float32).reshape(shape)
            xv = k.tensor("x", "in", "f32", x)
            iv, jv = k.tensor("i", "in", dtype, ids), k.tensor("j", "in", dtype, jds)
            o = k.tensor("o", "out", "f32", np.zeros(shape), want)
            ti, tj = k.read(iv, dtype, (3, 2)), k.read(jv, dtype, (3, 2))
            starts = {"gip": (ti, 1, 2), "gpi": (ti, -1, 1), "pgi": (-1, tj, 1), "pgp": (-1, tj, 4), "ggp": (ti, tj, 2),
                      "gpg": (ti, 1, tj), "ggi": (ti, tj, 1)}[index]
            ops = ", ".join(s if isinstance(s, str) else k.const(s) for s in starts)
            v = k.op(f"read {xv}, {ops}, {k.const(7.0, 'f32')} {{index = \"{index}\", extents = {list(extents)}}}",
                     ty("f32", shape))
            k.write(o, v, shape)
            k.done()
    # scatter: rows 2, outside, 0, outside, 3, 1 of a matrix
    t = numbers("f32", (3, 2, 5))
    after = np.full((4, 6), -9, np.float32)
    for a in range(3):
        for b in range(2):
            if 0 <= ids[a, b] < 4:
                after[ids[a, b], 3:6] = t[a, b, :3]
    k = K("scatter_rows")
    tv, iv = k.tensor("t", "in", "f32", t), k.tensor("i", "in", "i64", ids)
    o = k.tensor("o", "out", "f32", np.full((4, 6), -9), after)
    v, g = k.read(tv, "f32", (3, 2, 5)), k.read(iv, "i64", (3, 2))
    k.op(f"write {o}, {g}, {k.const(3)}, {v} {{index = \"gp\", extents = [5]}}")
    k.done()


def atomics():
    ids = np.array([0, 2, 2, 5, -1, 0, 2, 3])
    fns = {"add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
           "xor": lambda a, b: a ^ b, "exchange": lambda a, b: b}
    for dtype in ("i32", "u32", "i64", "u64", "i16", "u8", "f32", "f64", "f16", "bf16"):
        for fn, f in fns.items():
            fl = dtype[0] == "f" or dtype[0] == "b"
            if fl and fn in ("and", "or", "xor"):
                continue
            np_t = NP.get(dtype, np.float32)
            x = numbers(dtype if dtype != "bf16" else "f32", (8,))
            before = numbers(dtype if dtype != "bf16" else "f32", (5,))
            after, old = before.copy(), np.zeros(8, np_t)
            for i, e in enumerate(ids):
                if 0 <= e < 5:
                    old[i] = after[e]
                    after[e] = np_t(f(after[e], x[i]))
            k = K(f"atomic_{fn}_{dtype}")
            xv, iv = k.tensor("x", "in", dtype, x), k.tensor("i", "in", "i64", ids)
            o = k.tensor("o", "inout", dtype, before, after)
            q = k.tensor("q", "out", dtype, np.zeros(8), old)
            v, g = k.read(xv, dtype, (8,)), k.read(iv, "i64", (8,))
            r = k.op(f"atomic {o}, {g}, {v} {{index = \"g\", extents = [], fn = \"{fn}\"}}", ty(dtype, (8,)))
            k.write(q, r, (8,))
            k.done()
    k = K("atomic_cas")
    before = np.array([1, 2, 3, 4], np.int32)
    want, new = np.array([1, 5, 3, 4, 9], np.int32), np.array([10, 20, 30, 40, 50], np.int32)
    xv, yv = k.tensor("x", "in", "i32", want), k.tensor("y", "in", "i32", new)
    o = k.tensor("o", "inout", "i32", before, [10, 2, 30, 40])
    q = k.tensor("q", "out", "i32", np.zeros(5), [1, 2, 3, 4, 0])
    a, b = k.read(xv, "i32", (5,)), k.read(yv, "i32", (5,))
    r = k.op(f"atomic {o}, {k.z()}, {a}, {b} {{index = \"p\", extents = [5], fn = \"cas\"}}", "i32[5]")
    k.write(q, r, (5,))
    k.done()


# order

def key_sorted(x, axis, desc):
    k = np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x
    order = np.argsort(k.astype(np.float64) * (-1 if desc else 1), axis=axis, kind="stable")
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


def orders():
    for dtype in ("i8", "u8", "i32", "f16", "f32", "f64"):
        for shape, axis in (((1,), 0), ((9,), 0), ((50,), 0), ((3, 20), 1), ((20, 3), 0), ((2, 5, 3), 1)):
            x = numbers(dtype, shape)
            if dtype == "f32" and shape[0] == 9:
                x[3], x[5], x[7], x[8] = np.nan, -0.0, 0.0, np.inf
                x[0] = -np.inf
            tag = f"{dtype}_{'x'.join(map(str, shape))}_axis{axis}"
            has_nan = dtype == "f32" and shape[0] == 9
            if has_nan:     # NaN above infinity
                kx = np.array([1e30 if v != v else 1e20 if v == np.inf else -1e20 if v == -np.inf else v for v in x])
                up, down = np.argsort(kx, kind="stable"), np.argsort(-kx, kind="stable")
                asc, dsc, at = x[up], x[down], down.astype(np.int32)
            else:
                asc, _ = key_sorted(x, axis, False)
                dsc, at = key_sorted(x, axis, True)
            unary(f"sort_{tag}", dtype, x, lambda k, v: k.op(f"sort {v} {{axis = {axis}}}", ty(dtype, shape)), dtype, asc)
            unary(f"sort_falling_{tag}", dtype, x,
                  lambda k, v: k.op(f"sort {v} {{axis = {axis}, descending = true}}", ty(dtype, shape)), dtype, dsc)
            n = max(1, shape[axis] // 2)
            k = K(f"topk_{tag}")
            keep = tuple(n if d == axis else e for d, e in enumerate(shape))
            sl = tuple(slice(0, n) if d == axis else slice(None) for d in range(len(shape)))
            a = k.tensor("x", "in", dtype, x)
            o = k.tensor("o", "out", dtype, np.zeros(keep), dsc[sl])
            q = k.tensor("q", "out", "i32", np.zeros(keep), at[sl])
            v, i = k.op(f"topk {k.read(a, dtype, shape)} {{axis = {axis}, k = {n}}}", ty(dtype, keep), ty("i32", keep))
            k.write(o, v, keep)
            k.write(q, i, keep)
            k.done()
    x = np.array([0, 3, -1, 3, 4, 1, 3, 9], np.int32)
    unary("histogram", "i32", x, lambda k, v: k.op(f"histogram {v} {{bins = 5}}", "i32[5]"), "i32",
          np.array([1, 1, 0, 3, 1], np.int32))
    x = numbers("f32", (3, 4))
    for axis in range(2):
        ids = rng.integers(-1, 5, (3, 2) if axis else (5, 4)).astype(np.int32)
        ext = x.shape[axis]
        ok = (ids >= 0) & (ids < ext)
        want = np.where(ok, np.take_along_axis(x, np.where(ok, ids, 0), axis), 0).astype(np.float32)
        k = K(f"gather_tile_{axis}")
        a, i = k.tensor("x", "in", "f32", x), k.tensor("i", "in", "i32", ids)
        o = k.tensor("o", "out", "f32", np.zeros(ids.shape), want)
        v = k.op(f"gather {k.read(a, 'f32', x.shape)}, {k.read(i, 'i32', ids.shape)} {{axis = {axis}}}",
                 ty("f32", ids.shape))
        k.write(o, v, ids.shape)
        k.done()


# dots on views

def dots():
    for m, n, kk in ((1, 1, 1), (5, 3, 7), (16, 17, 33), (2, 40, 1)):
        for ta in (False, True):
            for tb in (False, True):
                a, b = numbers("f32", (kk, m) if ta else (m, kk)), numbers("f32", (n, kk) if tb else (kk, n))
                c = numbers("f32", (m, n))
                want = (a.T if ta else a) @ (b.T if tb else b) + c
                k = K(f"dot_{m}x{n}x{kk}{'_ta' if ta else ''}{'_tb' if tb else ''}")
                av, bv, cv = k.tensor("a", "in", "f32", a), k.tensor("b", "in", "f32", b), k.tensor("c", "in", "f32", c)
                o = k.tensor("o", "out", "f32", np.zeros((m, n)), want)
                x, y = k.read(av, "f32", a.shape), k.read(bv, "f32", b.shape)
                if ta:
                    x = k.op(f"permute {x} {{dims = [1, 0]}}", ty("f32", (m, kk)))
                if tb:
                    y = k.op(f"permute {y} {{dims = [1, 0]}}", ty("f32", (kk, n)))
                k.write(o, k.op(f"dot {x}, {y}, {k.read(cv, 'f32', (m, n))}", ty("f32", (m, n))), (m, n))
                k.done()
    a, b = numbers("f32", (2, 3, 4)), numbers("f32", (2, 4, 5))
    k = K("dot_batched_clipped")
    av, bv = k.tensor("a", "in", "f32", a), k.tensor("b", "in", "f32", b)
    pa, pb = place(a, (0, 1, 0), (2, 4, 6), 0), place(b, (0, 0, 2), (2, 6, 4), 0)
    o = k.tensor("o", "out", "f32", np.zeros((2, 4, 4)), pa @ pb)
    x = k.op(f"read {av}, {k.z()}, {k.const(1)}, {k.z()} {{index = \"ppp\", extents = [2, 4, 6]}}", "f32[2, 4, 6]")
    y = k.op(f"read {bv}, {k.z()}, {k.z()}, {k.const(2)} {{index = \"ppp\", extents = [2, 6, 4]}}", "f32[2, 6, 4]")
    k.write(o, k.op(f"dot {x}, {y}, {k.const(0.0, 'f32[2, 4, 4]')}", "f32[2, 4, 4]"), (2, 4, 4))
    k.done()


# control

def loop(k, lo, hi, step, inits, types, params, body):
    r = k.op(f"for {lo}, {hi}, {step}" + "".join(", " + i for i in inits), *types)
    region(k, params, body)
    return r


def control():
    for lo, hi, step in ((0, 5, 1), (5, 0, -1), (0, 0, 1), (3, 0, 1), (0, 10, 3), (0, 5, 0), (10, -1, -4),
                         (2**63 - 3, 2**63 - 1, 2), (-2**63 + 1, -2**63, -1)):
        trips = []
        i = lo
        while (step > 0 and i < hi) or (step < 0 and i > hi):
            trips.append(i)
            i += step
        k = K(f"for_{lo}_{hi}_{step}")
        acc = np.array([1, 2], np.int64)
        for i in trips:
            acc = acc * 3 + np.int64(i % 1000)
        o = k.tensor("o", "out", "i64", np.zeros(2), acc)
        a0 = k.op("add " + k.op("iota {axis = 0}", "i64[2]") + ", " + k.const(1, "i64[2]"), "i64[2]")
        c3, c1000 = k.const(3, "i64[2]"), k.const(1000)

        def body():
            m = k.op(f"rem %i, {c1000}", "i64")
            zero = k.const(0)
            neg = k.op(f"lt {m}, {zero}", "bool")
            mm = k.op(f"select {neg}, " + k.op(f"add {m}, {c1000}", "i64") + f", {m}", "i64")
            return [k.op("add " + k.op(f"mul %a, {c3}", "i64[2]") + ", " + k.op(f"broadcast {mm}", "i64[2]"), "i64[2]")]
        r = loop(k, k.const(lo), k.const(hi), k.const(step), [a0], ["i64[2]"], ["%i: i64", "%a: i64[2]"], body)
        k.write(o, r, (2,))
        k.done()
    # carried tuples: rotate three tiles, copy one to two, carry a loop invariant, swap through views
    x = numbers("i32", (3, 4))
    for name, rot in (("rotate", (1, 2, 0)), ("swap", (1, 0, 2)), ("same", (0, 1, 2)), ("copy", (0, 0, 1)),
                      ("spread", (2, 2, 2)), ("invariant", (None, 0, 1))):
        for n in (0, 1, 2, 5):
            k = K(f"carry_{name}_{n}")
            now = [x[0], x[1], x[2]]
            for _ in range(n):
                now = [now[j] + 0 if j is not None else x[1] for j in rot]
            xv = k.tensor("x", "in", "i32", x)
            outs = [k.tensor(f"o{j}", "out", "i32", np.zeros(4), now[j]) for j in range(3)]
            vs = [k.op(f"read {xv}, {k.const(j)}, {k.z()} {{index = \"ip\", extents = [4]}}", "i32[4]") for j in range(3)]
            ws = [k.op(f"add {v}, {k.const(0, 'i32[4]')}", "i32[4]") for v in vs]
            r = loop(k, k.z(), k.const(n), k.const(1), ws, ["i32[4]"] * 3, ["%i: i64", "%a: i32[4]", "%b: i32[4]", "%c: i32[4]"],
                     lambda: [("%a", "%b", "%c")[j] if j is not None else ws[1] for j in rot])
            for o, v in zip(outs, r):
                k.write(o, v, (4,))
            k.done()
    # a carried tile transposed in every trip
    x = numbers("i32", (3, 3))
    for n in range(4):
        k = K(f"carry_transposed_{n}")
        now = x
        for _ in range(n):
            now = now.T + 1
        xv = k.tensor("x", "in", "i32", x)
        o = k.tensor("o", "out", "i32", np.zeros((3, 3)), now)
        q = k.tensor("q", "out", "i32", np.zeros((3, 3)), x.T if n % 2 else x)
        one = k.const(1, "i32[3, 3]")

        def body():
            t = k.op("permute %a {dims = [1, 0]}", "i32[3, 3]")
            u = k.op("permute %b {dims = [1, 0]}", "i32[3, 3]")
            return [k.op(f"add {t}, {one}", "i32[3, 3]"), u]
        v = k.read(xv, "i32", (3, 3))
        r = loop(k, k.z(), k.const(n), k.const(1), [v, v], ["i32[3, 3]"] * 2, ["%i: i64", "%a: i32[3, 3]", "%b: i32[3, 3]"],
                 body)
        k.write(o, r[0], (3, 3))
        k.write(q, r[1], (3, 3))
        k.done()
    # nested loops that carry a tile, and use an outer one
    k = K("nested_loops")
    acc = np.zeros(5, np.int64)
    for i in range(3):
        for j in range(i + 1):
            acc = acc + np.arange(5) * (i + 1) + j
        acc = acc * 2
    o = k.tensor("o", "out", "i64", np.zeros(5), acc)
    io, one, two = k.op("iota {axis = 0}", "i64[5]"), k.const(1), k.const(2, "i64[5]")

    def outer():
        hi = k.op(f"add %i, {one}", "i64")
        row = k.op(f"mul {io}, " + k.op(f"broadcast {hi}", "i64[5]"), "i64[5]")

        def inner():
            return [k.op("add " + k.op(f"add %b, {row}", "i64[5]") + ", " + k.op("broadcast %j", "i64[5]"), "i64[5]")]
        r = loop(k, zero, hi, one, ["%a"], ["i64[5]"], ["%j: i64", "%b: i64[5]"], inner)
        return [k.op(f"mul {r}, {two}", "i64[5]")]
    zero = k.z()
    r = loop(k, zero, k.const(3), one, [k.const(0, "i64[5]")], ["i64[5]"], ["%i: i64", "%a: i64[5]"], outer)
    k.write(o, r, (5,))
    k.done()
    # while: Collatz steps of 6, and a tile doubled as often
    for start in (1, 6, 27):
        n, steps = start, 0
        while n != 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        k = K(f"while_collatz_{start}")
        o = k.tensor("o", "out", "i64", np.zeros(3), np.array([7, 8, 9]) + steps)
        one, two, three = k.const(1), k.const(2), k.const(3)
        t0 = k.op("add " + k.op("iota {axis = 0}", "i64[3]") + ", " + k.const(7, "i64[3]"), "i64[3]")
        ones = k.const(1, "i64[3]")
        n_, t = k.op(f"while {k.const(start)}, {t0}", "i64", "i64[3]")
        k.lines[-1] += " cond (%n: i64, %t: i64[3]) {"
        c = k.op(f"ne %n, {one}", "bool")
        k.op(f"yield {c}, %n, %t")
        k.lines.append("  } do (%m: i64, %u: i64[3]) {")
        odd = k.op("eq " + k.op(f"rem %m, {two}", "i64") + f", {one}", "bool")
        r = k.op(f"if {odd}", "i64")
        k.lines[-1] += " then {"
        k.op("yield " + k.op("add " + k.op(f"mul %m, {three}", "i64") + f", {one}", "i64"))
        k.lines.append("  } else {")
        k.op("yield " + k.op(f"div %m, {two}", "i64"))
        k.lines.append("  }")
        k.op(f"yield {r}, " + k.op(f"add %u, {ones}", "i64[3]"))
        k.lines.append("  }")
        k.write(o, t, (3,))
        k.done()
    # if: tiles from outside, from inside, constants and views
    x = numbers("i32", (3, 3))
    for flag in (False, True):
        k = K(f"if_{flag}")
        xv = k.tensor("x", "in", "i32", x)
        wants = ((x, x.T, x * 0 + 5, x + x), (x + x, x, x, x.T * 0 + 1))[0 if flag else 1]
        outs = [k.tensor(f"o{j}", "out", "i32", np.zeros((3, 3)), w) for j, w in enumerate(wants)]
        again = k.tensor("p", "out", "i32", np.zeros((3, 3)), x)
        v = k.read(xv, "i32", (3, 3))
        five = k.const(5, "i32[3, 3]")
        r = k.op(f"if {k.const(flag, 'bool')}", *["i32[3, 3]"] * 4)
        k.lines[-1] += " then {"
        t = k.op(f"permute {v} {{dims = [1, 0]}}", "i32[3, 3]")
        k.op(f"yield {v}, {t}, {five}, " + k.op(f"add {v}, {v}", "i32[3, 3]"))
        k.lines.append("  } else {")
        s = k.op(f"add {v}, {v}", "i32[3, 3]")
        k.op(f"yield {s}, {v}, {v}, " + k.const(1, "i32[3, 3]"))
        k.lines.append("  }")
        for o, w in zip(outs, r):
            k.write(o, w, (3, 3))
        k.write(again, v, (3, 3))
        k.done()


def chains():
    """Long chains and shared operands: strips, in-place results, several results of one group."""
    for n in (1, 5, 300, 2100):
        x, y = numbers("f32", (n,)), numbers("f32", (n,))
        k = K(f"chain_{n}")
        a = x * y
        b = a + x
        c = np.maximum(b, y)
        d = c - a
        e = (d > 0).astype(np.uint8)
        f = np.where(e == 1, d, b).astype(np.float32)
        g = f.astype(np.int32)
        xv, yv = k.tensor("x", "in", "f32", x), k.tensor("y", "in", "f32", y)
        outs = [k.tensor(f"o{i}", "out", t, np.zeros(np.shape(w)), w) for i, (t, w) in
                enumerate((("f32", b), ("f32", f), ("i32", g), ("bool", e), ("f32", f.max())))]
        t = f"f32[{n}]"
        vx, vy = k.read(xv, "f32", (n,)), k.read(yv, "f32", (n,))
        va = k.op(f"mul {vx}, {vy}", t)
        vb = k.op(f"add {va}, {vx}", t)
        vc = k.op(f"max {vb}, {vy}", t)
        vd = k.op(f"sub {vc}, {va}", t)
        ve = k.op(f"gt {vd}, " + k.const(0.0, t), f"bool[{n}]")
        vf = k.op(f"select {ve}, {vd}, {vb}", t)
        vg = k.op(f"cast {vf}", f"i32[{n}]")
        vm = k.op(f"reduce {vf} {{fn = \"max\", axis = 0}}", "f32")
        for o, v, s in zip(outs, (vb, vf, vg, ve, vm), ((n,), (n,), (n,), (n,), ())):
            k.write(o, v, s)
        k.done()
    k = K("inout_twice")
    x = numbers("f32", (6,))
    xv = k.tensor("x", "inout", "f32", x, np.concatenate([x[:1], x[:5]]) * 2)
    v = k.read(xv, "f32", (6,))
    k.write(xv, k.op(f"add {v}, {v}", "f32[6]"), (6,))
    w = k.op(f"read {xv}, {k.z()} {{index = \"p\", extents = [5]}}", "f32[5]")
    k.op(f"write {xv}, {k.const(1)}, {w} {{index = \"p\", extents = [5]}}")
    k.done()


def graphs():
    """Random graphs of integer ops on tiles of two element sizes, some results written: strip buffers must
    not be given away while a later op reads them."""
    for seed in range(40):
        r = np.random.default_rng(seed)
        n = [5, 64, 700, 2100][seed % 4] if seed < 8 else 9
        k = K(f"graph_{seed}")
        vals = []
        for j, d in enumerate(("i32", "i64", "i32")):
            x = r.integers(-5, 6, n).astype(NP[d])
            vals.append((d, k.read(k.tensor(f"x{j}", "in", d, x), d, (n,)), x))
        vals.append(("i32", k.const(3, f"i32[{n}]"), np.full(n, 3, np.int32)))
        outs, body = [], []
        for j in range(30):
            d, a, x = vals[r.integers(max(0, len(vals) - 9), len(vals))]
            same = [v for v in vals if v[0] == d]
            _, b, y = same[r.integers(max(0, len(same) - 7), len(same))]
            what = r.integers(0, 6)
            if what == 0:
                t = "i64" if d == "i32" else "i32"
                vals.append((t, k.op(f"cast {a}", f"{t}[{n}]"), x.astype(NP[t])))
                if t == "i32":
                    vals[-1] = (t, vals[-1][1], np.clip(x, -2**31, 2**31 - 1).astype(np.int32))
                continue
            op, f = (("add", np.add), ("sub", np.subtract), ("max", np.maximum), ("min", np.minimum),
                     ("xor", np.bitwise_xor))[what - 1]
            vals.append((d, k.op(f"{op} {a}, {b}", f"{d}[{n}]"), f(x, y)))
        for j in sorted(r.choice(np.arange(8, len(vals)), 4, replace=False)):
            d, v, x = vals[j]
            k.write(k.tensor(f"o{j}", "out", d, np.zeros(n), x), v, (n,))
        k.done()


def pointers():
    for dtype in ("i8", "f16", "f32", "i64"):
        for n, kind in ((40, "row"), (40, "tail"), (9, "row"), (40, "scattered"), (40, "holes"), (40, "none")):
            x, other = numbers(dtype, (64,)), numbers(dtype, (n,))
            idx = np.arange(n) + 3 if kind != "scattered" else rng.permutation(64)[:n]
            mask = {"row": np.ones(n), "none": np.zeros(n), "tail": np.arange(n) < 23,
                    "scattered": rng.integers(0, 2, n), "holes": rng.integers(0, 2, n)}[kind].astype(np.uint8)
            got = x[idx]
            k = K(f"pointers_{dtype}_{n}_{kind}")
            after = np.zeros(64, NP[dtype])
            after[idx[mask == 1]] = got[mask == 1]
            xv, yv = k.pointer("x", dtype, x), k.pointer("y", dtype, np.zeros(64), after)
            iv, mv, ov = k.tensor("i", "in", "i32", idx), k.tensor("m", "in", "bool", mask), k.tensor("f", "in", dtype, other)
            outs = [k.tensor(f"o{j}", "out", dtype, np.zeros(n), w) for j, w in
                    enumerate((got, np.where(mask, got, 0), np.where(mask, got, other)))]
            i, m, o = k.read(iv, "i32", (n,)), k.read(mv, "bool", (n,)), k.read(ov, dtype, (n,))
            p, q = k.at(xv, "*" + dtype, i, (n,)), k.at(yv, "*mut " + dtype, i, (n,))
            t = ty(dtype, (n,))
            loads = [k.op(f"load {p}", t), k.op(f"load {p}, {m}", t), k.op(f"load {p}, {m}, {o}", t)]
            k.op(f"store {q}, {loads[0]}, {m}")
            for out, v in zip(outs, loads):
                k.write(out, v, (n,))
            k.done()
    ids = np.array([0, 2, 2, 4, 1, 0, 2, 3])
    mask = np.array([1, 1, 0, 1, 1, 1, 1, 0], np.uint8)
    for dtype in ("i32", "f32", "f64", "u16"):
        for fn, f in (("add", lambda a, b: a + b), ("max", max), ("exchange", lambda a, b: b)):
            x, before = numbers(dtype, (8,)), numbers(dtype, (5,))
            after, old = before.copy(), np.zeros(8, NP[dtype])
            for j, e in enumerate(ids):
                if mask[j]:
                    old[j], after[e] = after[e], f(after[e], x[j])
            k = K(f"atomic_ptr_{fn}_{dtype}")
            xv, iv, mv = k.tensor("x", "in", dtype, x), k.tensor("i", "in", "i64", ids), k.tensor("m", "in", "bool", mask)
            o = k.tensor("o", "out", dtype, np.zeros(8), old)
            yv = k.pointer("y", dtype, before, after)
            q = k.at(yv, "*mut " + dtype, k.read(iv, "i64", (8,)), (8,))
            k.write(o, k.op(f"atomic_ptr {q}, {k.read(xv, dtype, (8,))}, {k.read(mv, 'bool', (8,))} "
                            f"{{fn = \"{fn}\", masked = true}}", ty(dtype, (8,))), (8,))
            k.done()
    k = K("atomic_ptr_cas_float_and_difference")
    yv = k.pointer("y", "f32", [1, 2, 3], [1, 9, 3])
    o, d = k.tensor("o", "out", "f32", np.zeros(3), [1, 2, 3]), k.tensor("d", "out", "i64", np.zeros(3), [0, 1, 2])
    i = k.op("iota {axis = 0}", "i64[3]")
    q = k.at(yv, "*mut f32", i, (3,))
    k.write(d, k.op(f"ptr_diff {q}, " + k.op(f"broadcast {yv}", "*mut f32[3]"), "i64[3]"), (3,))
    k.write(o, k.op(f"atomic_ptr {q}, " + k.const(2.0, "f32[3]") + ", " + k.const(9.0, "f32[3]") + " {fn = \"cas\"}",
                    "f32[3]"), (3,))
    k.done()


def empties():
    """Extents of 0, which references of zero-sized examples have."""
    for fn, dtype, want in (("sum", "f32", 0), ("prod", "f32", 1), ("max", "f32", -np.inf), ("min", "f32", np.inf),
                            ("sum", "i32", 0), ("max", "i32", -2**31), ("any", "bool", 0), ("all", "bool", 1),
                            ("xor_sum", "i32", 0)):
        k = K(f"empty_{fn}_{dtype}")
        k.kind = "reference"
        xv = k.tensor("x", "in", dtype, np.zeros((3, 0)))
        o = k.tensor("o", "out", dtype, np.zeros(3), np.full(3, want))
        k.write(o, k.op(f"reduce {k.read(xv, dtype, (3, 0))} {{fn = \"{fn}\", axis = 1}}", ty(dtype, (3,))), (3,))
        k.done()
    k = K("empty_everything")
    k.kind = "reference"
    xv = k.tensor("x", "in", "f32", np.zeros((0, 4)))
    o = k.tensor("o", "out", "f32", np.zeros((4, 0)))
    q = k.tensor("q", "out", "f32", np.zeros((4, 4)), np.ones((4, 4)))
    v = k.read(xv, "f32", (0, 4))
    t = k.op("permute " + k.op(f"exp {v}", "f32[0, 4]") + " {dims = [1, 0]}", "f32[4, 0]")
    s = k.op(f"scan {t} {{fn = \"sum\", axis = 1}}", "f32[4, 0]")
    s = k.op(f"sort {s} {{axis = 1}}", "f32[4, 0]")
    k.write(o, s, (4, 0))
    k.write(q, k.op(f"dot {t}, {v}, " + k.const(1.0, "f32[4, 4]"), "f32[4, 4]"), (4, 4))
    k.done()


def philox(seed, offset):
    c, key = [offset & 0xffffffff, offset >> 32, 0, 0], [seed & 0xffffffff, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & 0xffffffff, (a >> 32) ^ c[3] ^ key[1], a & 0xffffffff]
        key = [(key[0] + 0x9E3779B9) & 0xffffffff, (key[1] + 0xBB67AE85) & 0xffffffff]
    return c


def products():
    k = K("philox")
    seed, n = 0x123456789abc, 20
    words = np.array([philox(seed, j + 5) for j in range(n)], np.int64)
    outs = [k.tensor(f"o{j}", "out", "u32", np.zeros(n), words[:, j]) for j in range(4)]
    off = k.op("add " + k.op("iota {axis = 0}", f"i32[{n}]") + ", " + k.const(5, f"i32[{n}]"), f"i32[{n}]")
    for o, v in zip(outs, k.op(f"philox {k.const(seed)}, {off}", *[f"u32[{n}]"] * 4)):
        k.write(o, v, (n,))
    k.done()
    for dtype in ("f16", "f32"):
        for scales in ("u8", "f32"):
            for batch in ((), (2,)):
                m, n, kk, block = 3, 5, 8, 4
                a, b = numbers(dtype, batch + (m, kk)), numbers(dtype, batch + (kk, n))
                e, g = rng.integers(-2, 3, batch + (m, kk // block)), rng.integers(-2, 3, batch + (n, kk // block))
                c = numbers("f32", batch + (m, n))
                sa, sb = 2.0 ** np.repeat(e, block, -1), np.swapaxes(2.0 ** np.repeat(g, block, -1), -1, -2)
                want = (a * sa) @ (b * sb) + c
                k = K(f"dot_scaled_{dtype}_{scales}_{len(batch)}")
                put = (lambda x: x + 127) if scales == "u8" else (lambda x: 2.0 ** x)
                args = [k.tensor(nm, "in", d, x) for nm, d, x in (("a", dtype, a), ("sa", scales, put(e)), ("b", dtype, b),
                                                                  ("sb", scales, put(g)), ("c", "f32", c))]
                o = k.tensor("o", "out", "f32", np.zeros(want.shape), want)
                vs = [k.read(v, d, x.shape) for v, d, x in zip(args, (dtype, scales, dtype, scales, "f32"), (a, e, b, g, c))]
                k.write(o, k.op(f"dot_scaled {', '.join(vs)} {{block = {block}}}", ty("f32", want.shape)), want.shape)
                k.done()


def main():
    reductions()
    scans()
    folds()
    shapes()
    reads()
    strided()
    writes()
    packed()
    gathers()
    atomics()
    orders()
    dots()
    control()
    chains()
    graphs()
    pointers()
    empties()
    products()


if __name__ == "__main__":
    sys.exit(main())
