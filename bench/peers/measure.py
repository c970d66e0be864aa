#!/usr/bin/env python3
"""The table of memory-bound kernels and matrix products: Tegula, handwritten CUDA, Triton, torch and torch.compile in
one process, on the same tensors.

    bench/run [--only TEXT] [--rounds N] [--library libtegula.so] [--tune SECONDS] [--quick] [--output FILE.md]
    bench/run --dry-run [--matmul | --types | --attention | --gradients | --rows | --grouped | --batches]

--dry-run needs no GPU, no PyTorch and no Triton: it lists the rows with their peers and looks whether each kernel and each
handwritten one is there and takes what the row gives it.

Every candidate first writes poisoned outputs, which are compared with a reference in f64 (a tolerance of the output's
type); those that are wrong are named and left out.  Of each peer's candidates the fastest in a short search stays.  Then
each peer is captured in a CUDA graph that cycles through input sets which together exceed the L2 cache, and the graphs
are replayed in rounds, rotating the order; medians of rounds.  Problems with `flops` rest 200 ms before each burst."""
import argparse
import importlib
import os
import pathlib
import re
import statistics
import sys
import time
import unittest.mock

DRY = "--dry-run" in sys.argv       # what is not here is not needed
for name in ("torch", "torch.nn", "torch.nn.attention", "torch.nn.functional", "triton", "triton.language", "triton.language.extra", "triton.tools.tensor_descriptor"):
    try:
        if DRY:
            importlib.import_module(name)
    except ImportError:
        sys.modules[name] = unittest.mock.MagicMock()

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import groups
import problems as P
if not DRY:
    from tegula_api import Tegula

ROOT = pathlib.Path(os.environ.get('TEGULA_ROOT', pathlib.Path(__file__).resolve().parents[2]))
L2 = 64 << 20
VERBOSE = bool(os.environ.get("VERBOSE"))


def size(t):
    return t.numel() * t.element_size()


def moved(problem, t):
    """Bytes that the kernel must move: each tensor once."""
    return sum(size(v) for k, v in t.items() if not k.startswith("_"))


def wrong(problem, t):
    """None, or what is wrong with the outputs of set t."""
    want = problem.reference(t, torch.float32 if t[problem.outputs[0]].numel() > 1 << 26 else torch.float64)
    if not isinstance(want, dict):
        want = {problem.outputs[0]: want}
    for name, w in want.items():
        got = t[name]
        if got.dtype == torch.float8_e4m3fn:
            a, b = got.to(torch.float32), w.to(torch.float32)
            ok = ((a - b).abs() <= 0.13 * b.abs() + 1e-2).all().item()
            if not ok:
                return f"{name} differs"
            continue
        if not got.dtype.is_floating_point:
            if not torch.equal(got.double(), w.double()):
                return f"{name} differs"
            continue
        eps = {torch.float32: 2e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[got.dtype]
        if problem.flops:
            eps = 1e-2
        norm = (w.double().norm() + 1e-30).item()
        error = ((got.double() - w.double()).norm().item()) / norm
        if not error < eps:
            return f"{name}: relative error {error:.2e}"
    return None


def poison(problem, t):
    for name in problem.outputs:
        v = t[name].view(torch.uint8) if t[name].dtype != torch.bool else t[name]
        v.fill_(0xff)


class Timed:
    """One peer's best candidate as a graph over all sets."""

    def __init__(self, label, call, sets, launches):
        self.label, self.call = label, call
        for s in sets:
            call(s)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        self.n = launches
        with torch.cuda.graph(self.graph):
            for i in range(launches):
                call(sets[i % len(sets)])
        self.times = []

    def replay(self):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        self.graph.replay()
        b.record()
        b.synchronize()
        return a.elapsed_time(b) * 1e3 / self.n


def fastest(problem, peer, candidates, sets, launches, log):
    best, kept = None, None
    for label, call in candidates:
        try:
            poison(problem, sets[0])
            call(sets[0])
            torch.cuda.synchronize()
            problem_found = wrong(problem, sets[0])
            if problem_found:
                log(f"  {peer} {label}: WRONG, {problem_found}")
                continue
            t = Timed(label, call, sets, launches)
            t.replay()
            us = min(t.replay() for _ in range(4))
        except Exception as e:  # a candidate that does not compile or fit is dropped, and said
            log(f"  {peer} {label}: {type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}")
            torch.cuda.synchronize()
            continue
        if VERBOSE:
            log(f"  {peer} {label}: {us:.2f}")
        if best is None or us < best:
            best, kept = us, t
    return kept


def eager_into(problem):
    """Eager forms that return their result: a copy is not counted, the result is compared by hand."""
    def call(s):
        r = problem.eager(s)
        if isinstance(r, dict):
            for k, v in r.items():
                s["_" + k] = v
        elif r is not s.get(problem.outputs[0]):
            s["_" + problem.outputs[0]] = r
    return call


def run(problem, args, tegula, log):
    one = problem.make()
    total = sum(size(v) for v in one.values() if isinstance(v, torch.Tensor))
    count = max(2, min(64, -(-4 * L2 // total)))
    sets = [one] + [problem.make() for _ in range(count - 1)]
    launches = max(count, min(200, int(2000 / max(1, total / 4e6))))
    launches = max(2, min(launches, 3 * count if total > 1 << 28 else launches))
    timed = {}
    if tegula and problem.tegula:
        t = fastest(problem, "tegula", tegula.candidates(problem, sets, args.tune), sets, launches, log)
        if t:
            timed["tegula"] = t
    if problem.cuda and tegula and not args.no_cuda:
        t = fastest(problem, "cuda", tegula.foreign(problem, sets), sets, launches, log)
        if t:
            timed["cuda"] = t
    if problem.triton and not args.no_triton:
        candidates = list(problem.triton(one))
        if args.quick:
            candidates = candidates[:: max(1, len(candidates) // 6)]
        t = fastest(problem, "triton", candidates, sets, launches, log)
        if t:
            timed["triton"] = t
    if problem.eager:
        try:
            timed["torch"] = Timed("eager", eager_into(problem), sets, launches)
        except Exception as e:
            log(f"  torch: {e}")
    if problem.compiled and not args.no_compile:
        try:
            f = torch.compile(problem.eager, dynamic=False)

            def call(s):
                s["_compiled"] = f({k: v for k, v in s.items() if not k.startswith("_")})
            timed["compile"] = Timed("inductor", call, sets, launches)
        except Exception as e:
            log(f"  compile: {type(e).__name__} {str(e)[:200]}")
    order = list(timed)
    for r in range(args.rounds):
        for k in order[r % len(order):] + order[:r % len(order)]:
            if problem.flops:
                time.sleep(0.2)
                timed[k].replay()
            timed[k].times.append(timed[k].replay())
    return {k: (statistics.median(t.times), min(t.times), max(t.times), t.label) for k, t in timed.items()}, moved(problem, one)


def kernel_parameters(kernel):
    """Names of the compile-time and of the other parameters of "file:kernel" in dsl_examples, or None."""
    name = kernel.split(":")[-1]
    file = kernel.split(":")[0]
    path = ROOT / (f"{file}.tgl" if "/" in file else f"dsl_examples/{file}.tgl")
    m = re.search(rf"^kernel {name}(?:<(.*?)>)?\((.*?)\)\s*grid", path.read_text(), re.M | re.S) if path.exists() else None
    if not m:
        return None
    constants = re.findall(r"(\w+)\s*(?::\s*\w+)?\s*=[^=]", m.group(1) or "")
    return constants, re.findall(r"(\w+)\s*:", m.group(2))


def faults(p):
    """What keeps a row from being measured, as far as that shows without a GPU."""
    written = set()
    for kernel, constants, arguments in (*p.before, p.tegula):
        given = [a.split("=")[0] for a in arguments.split()]
        written.update(given)
        found = kernel_parameters(kernel)
        if not found:
            yield f"dsl_examples has no kernel {kernel}"
            continue
        if sorted(found[1]) != sorted(given):
            yield f"{kernel} takes {' '.join(found[1])}, not {' '.join(given)}"
        for c in constants:
            if c not in found[0]:
                yield f"{kernel} has no {c}"
    for o in p.outputs:
        if o not in written:
            yield f"{p.tegula[0]} is not given its output {o}"
    if p.cuda:
        path = ROOT / "bench/handwritten" / p.cuda[0]
        if not path.exists() or not re.search(rf"\b{p.cuda[1]}\b", path.read_text()):
            yield f"{path} has no {p.cuda[1]}"


def dry_run(todo):
    bad = 0
    print("| problem | tegula | cuda | triton | torch | compile |\n| --- | --- | --- | --- | --- | --- |")
    for p in todo:
        print(f"| {p.name} | {p.tegula[0]} | {p.cuda[1] if p.cuda else '-'} | {'yes' if p.triton else '-'} | yes | "
              f"{'yes' if p.compiled else '-'} |")
        for f in faults(p):
            print(f"  {p.name}: {f}")
            bad += 1
    print(f"{len(todo)} rows, {bad} faults")
    return 1 if bad or not todo else 0


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--only", action="append", default=[])
    a.add_argument("--rounds", type=int, default=11)
    a.add_argument("--library", default=os.environ.get("TEGULA_LIBRARY", str(ROOT / "build/release/libtegula.so")))
    a.add_argument("--tune", type=float, default=0, help="seconds of tuning a kernel; 0: the compiler's defaults")
    a.add_argument("--quick", action="store_true", help="a sixth of Triton's space")
    a.add_argument("--matmul", action="store_true", help="matrix products instead of the memory-bound table")
    a.add_argument("--types", action="store_true", help="products of other types and orders, batches, a convolution, an epilogue")
    a.add_argument("--attention", action="store_true", help="attention forward against cuDNN")
    a.add_argument("--gradients", action="store_true", help="gradients of attention against cuDNN's")
    a.add_argument("--rows", action="store_true", help="products of few rows")
    a.add_argument("--grouped", action="store_true", help="products of groups of rows, as of a mixture's experts")
    a.add_argument("--batches", action="store_true", help="batches of small products against cuBLAS")
    a.add_argument("--no-triton", action="store_true")
    a.add_argument("--no-compile", action="store_true")
    a.add_argument("--no-cuda", action="store_true")
    a.add_argument("--output")
    a.add_argument("--dry-run", action="store_true", help="say what would be measured, and look whether it is there")
    args = a.parse_args()
    lines = []
    tables = {"grouped": lambda: groups.group_problems(P.Problem), "batches": lambda: groups.batch_problems(P.Problem), "types": P.type_problems, "matmul": P.matmul_problems, "attention": P.attention_problems, "gradients": P.gradient_problems, "rows": P.row_problems}
    todo = next((make for name, make in tables.items() if getattr(args, name)), P.memory_problems)()
    todo = [p for p in todo if not args.only or any(o in p.name for o in args.only)]
    if args.dry_run:
        sys.exit(dry_run(todo))

    def log(text):
        print(text, flush=True)

    tegula = None
    try:
        tegula = Tegula(args.library, ROOT)
    except OSError as e:
        log(f"no tegula: {e}")
    torch.manual_seed(1)
    peers = ["tegula", "cuda", "triton", "torch", "compile"]
    head = [f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {P.tk.triton.__version__}, "
            f"{time.strftime('%Y-%m-%d')}; {' '.join(sys.argv[1:])}", "",
            "us, medians of rounds; ratio = best peer's time / tegula's.", "",
            "| problem | tegula | GB/s or TFLOP/s | cuda | triton | torch | compile | ratio | best peer | spread |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |"]
    for line in head:
        log(line)
    lines += head
    for p in todo:
        try:
            r, nbytes = run(p, args, tegula, log)
        except Exception as e:
            log(f"  {p.name}: {type(e).__name__}: {str(e)[:300]}")
            torch.cuda.empty_cache()
            continue
        others = {k: v for k, v in r.items() if k != "tegula"}
        cells = [f"{r[k][0]:.2f}" if k in r else "-" for k in peers]
        rate = spread = ratio = "-"
        best = min(others, key=lambda k: others[k][0]) if others else None
        if "tegula" in r:
            us, lo, hi, label = r["tegula"]
            rate = f"{p.flops / us / 1e6:.0f} TF" if p.flops else f"{nbytes / us / 1e3:.0f}"
            spread = f"{(hi - lo) / us:.1%}"
            if best:
                ratio = f"{others[best][0] / us:.3f}"
        line = (f"| {p.name} | {cells[0]} | {rate} | {cells[1]} | {cells[2]} | {cells[3]} | {cells[4]} | {ratio} | "
                f"{best or '-'} ({others[best][3] if best else ''}) | {spread} |")
        log(line)
        lines.append(line)
        torch.cuda.empty_cache()
    if args.output:
        pathlib.Path(args.output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
