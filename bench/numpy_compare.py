#!/usr/bin/env python3
"""Compares the cpu device with NumPy on this machine, in one run, with as many threads on both sides.

    cmake --preset release && cmake --build --preset release && python3 bench/numpy_compare.py [--threads N]

A worker process (bench/worker.c) holds each kernel of dsl_examples/ with its inputs; NumPy runs here, with out=
forms, whole arrays at once.  With more than one thread NumPy's elementwise work is cut into as many slices of rows
and given to a pool, and OpenBLAS gets as many threads.  In each round every side has a turn, and who goes first
changes from round to round; a turn is an untimed call and then two timed ones.  The table gives medians and their
ratio, and the ratio of the best times, which what else the machine does disturbs least; the worker checks its results
against the kernel's reference before the first round.

Exits with 1 if a kernel's ratio of medians is below its target."""
import argparse
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
N, R, C, W, M = 1 << 24, 4096, 1000, 4096, 1024

# name, file and kernel, values over those of its first example, size as text, least ratio
KERNELS = [
    ("vector add", "vector_add", [f"N={N}"], "2^24 f32", 1.0),
    ("SiLU", "silu", ["T=f32", f"N={N}"], "2^24 f32", 1.0),
    ("softmax", "softmax", [f"R={R}", f"C={C}"], "4096x1000 f32", 1.0),
    ("layernorm", "layernorm", ["T=f32", f"R={W}", f"C={W}"], "4096x4096 f32", 1.0),
    ("matmul", "matmul", ["T=f32", f"M={M}", f"N={M}", f"K={M}"], "1024^3 f32", 0.25),
]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    p.add_argument("--output", help="also write the table to this file")
    p.add_argument("--only", help="names of kernels, with commas between")
    return p.parse_args()


class Tegula:
    def __init__(self, args, kernel, values):
        self.process = subprocess.Popen(
            [os.path.join(args.build, "bench_worker"), str(args.threads),
             os.path.join(ROOT, "dsl_examples", kernel + ".tgl"), kernel, "", *values],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        if not first.startswith("ready"):
            sys.exit(f"{kernel}: {first}{self.process.stdout.read()}")
        self.ratio = float(first.split()[1])

    def call(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Numpy:
    """work(slice) computes some rows; with one thread, all of them at once."""

    def __init__(self, pool, threads, rows, work):
        step = -(-rows // threads)
        self.slices = [slice(i, min(i + step, rows)) for i in range(0, rows, step)]
        self.pool, self.work = pool, work

    def call(self):
        start = time.perf_counter()
        if len(self.slices) == 1:
            self.work(self.slices[0])
        else:
            list(self.pool.map(self.work, self.slices))
        return time.perf_counter() - start


def numpy_sides(np, pool, threads):
    rng = np.random.default_rng(1)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    def vector_add():
        x, y, out = normal(N), normal(N), np.empty(N, np.float32)
        return N, threads, lambda s: np.add(x[s], y[s], out=out[s])

    def silu():
        x, out = normal(N), np.empty(N, np.float32)

        def work(s):
            np.negative(x[s], out=out[s])
            np.exp(out[s], out=out[s])
            np.add(out[s], np.float32(1), out=out[s])
            np.divide(x[s], out[s], out=out[s])
        return N, threads, work

    def softmax():
        x, out = normal(R, C), np.empty((R, C), np.float32)

        def work(s):
            np.subtract(x[s], x[s].max(axis=1, keepdims=True), out=out[s])
            np.exp(out[s], out=out[s])
            np.divide(out[s], out[s].sum(axis=1, keepdims=True), out=out[s])
        return R, threads, work

    def layernorm():
        x, w, b = normal(W, W), normal(W), normal(W)
        out, square = np.empty((W, W), np.float32), np.empty((W, W), np.float32)

        def work(s):
            np.subtract(x[s], x[s].mean(axis=1, keepdims=True), out=out[s])
            np.multiply(out[s], out[s], out=square[s])
            scale = square[s].mean(axis=1, keepdims=True)
            scale += np.float32(1e-5)
            np.sqrt(scale, out=scale)
            np.divide(np.float32(1), scale, out=scale)
            np.multiply(out[s], scale, out=out[s])
            np.multiply(out[s], w, out=out[s])
            np.add(out[s], b, out=out[s])
        return W, threads, work

    def matmul():
        a, b, out = normal(M, M), normal(M, M), np.empty((M, M), np.float32)
        return M, 1, lambda s: np.matmul(a, b, out=out)

    makers = {"vector add": vector_add, "SiLU": silu, "softmax": softmax, "layernorm": layernorm, "matmul": matmul}

    def make(name):
        rows, slices, work = makers[name]()
        return Numpy(pool, slices, rows, work)
    return make


def turn(side):
    side.call()
    return [side.call(), side.call()]


def compare(args, name, row, make):
    sides = [Tegula(args, *row[1:3]), make(name)]
    times = ([], [])
    for r in range(args.rounds):
        for i in ((0, 1), (1, 0))[r % 2]:
            times[i].extend(turn(sides[i]))
    sides[0].close()
    middle = [statistics.median(t) for t in times]
    return middle[0], middle[1], min(times[1]) / min(times[0]), sides[0].ratio


def cpu_text():
    level = ""
    try:
        flags = open("/proc/cpuinfo").read()
        level = ", AVX-512" if " avx512bw" in flags else ", AVX2" if " avx2" in flags else ""
    except OSError:
        pass
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    return f"{platform.machine()}{level}, {os.cpu_count()} processors{load}"


def main():
    args = arguments()
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import numpy as np
    from concurrent.futures import ThreadPoolExecutor
    lines = [f"{cpu_text()}; {args.threads} thread{'s' * (args.threads > 1)} on both sides; NumPy {np.__version__}; "
             f"{args.rounds} rounds", "",
             "| kernel | size | tegula ms | NumPy ms | NumPy / tegula | of bests | target | |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    good = True
    with ThreadPoolExecutor(args.threads) as pool:
        make = numpy_sides(np, pool, args.threads)
        for row in KERNELS:
            if args.only and row[0] not in args.only.split(","):
                continue
            ours, theirs, best, error = compare(args, row[0], row, make)
            reached = theirs / ours >= row[4] and error <= 1
            good &= reached
            lines.append(f"| {row[0]} | {row[3]} | {ours * 1e3:.2f} | {theirs * 1e3:.2f} | {theirs / ours:.2f} | "
                         f"{best:.2f} | {row[4]:.2f} | {'reached' if reached else 'MISSED' if error <= 1 else 'WRONG'} |")
            print(lines[-1], file=sys.stderr)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.output:
        with open(args.output, "w") as f:
            f.write(text)
    sys.exit(0 if good else 1)


main()
