"""A layer of a transformer over several GPUs, a process each: columns of the first products and heads are split, then
rows of the last ones, and an all-reduce adds up.  The batch goes in two halves, so that kernels of the second run
while the first is added up.  Compared with the whole layer on one device.

    torchrun --nproc-per-node N examples/torch/tensor_parallel.py

for any N: shares need not be equal.  Without GPUs it runs on the CPU, with gloo.  --bench measures a layer of the size of
Llama 3 8B's on GPUs: alone, over N of them, and without the overlap.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist

import tegula
from tegula import nn

here = os.path.dirname(os.path.abspath(__file__))
matmul = tegula.load(os.path.join(here, "../../dsl_examples/matmul.tgl")).matmul

HIDDEN, INNER, HEADS, GROUPS, HEAD = 256, 688, 8, 4, 32


def make_weights(device, dtype):
    """The same in every process: weights are [in, out]."""
    g = torch.Generator(device).manual_seed(7)

    def weight(n, m):
        return (torch.randn(n, m, generator=g, device=device) * n**-0.5).to(dtype)

    return {"norm": torch.ones(HIDDEN, device=device, dtype=dtype), "q": weight(HIDDEN, HEADS * HEAD),
            "k": weight(HIDDEN, GROUPS * HEAD), "v": weight(HIDDEN, GROUPS * HEAD), "o": weight(HEADS * HEAD, HIDDEN),
            "gate": weight(HIDDEN, INNER), "up": weight(HIDDEN, INNER), "down": weight(INNER, HIDDEN)}


def share(weights, rank, world):
    """What one process holds.  Groups of heads stay whole."""

    def part(name, dim, unit):
        w = weights[name]
        units = torch.arange(w.shape[dim] // unit).tensor_split(world)[rank]
        return w.narrow(dim, int(units[0]) * unit if len(units) else 0, len(units) * unit).contiguous()

    heads = HEADS // GROUPS * HEAD
    return {"norm": weights["norm"], "q": part("q", 1, heads), "k": part("k", 1, HEAD), "v": part("v", 1, HEAD),
            "o": part("o", 0, heads), "gate": part("gate", 1, 1), "up": part("up", 1, 1), "down": part("down", 0, 1)}


def attention(x, w):
    """x[B, S, HIDDEN]: this share's part of the sum."""
    b, s, _ = x.shape
    groups = w["k"].shape[1] // HEAD
    if groups == 0:
        return torch.zeros_like(x)
    rows = nn.rmsnorm(x, w["norm"]).reshape(b * s, HIDDEN)
    position = torch.arange(s, device=x.device, dtype=torch.int32).repeat(b)
    q = nn.rope(matmul(rows, w["q"]).view(b * s, -1, HEAD), position).view(b, s, -1, HEAD)
    k = nn.rope(matmul(rows, w["k"]).view(b * s, -1, HEAD), position).view(b, s, -1, HEAD)
    v = matmul(rows, w["v"]).view(b, s, -1, HEAD)
    y = nn.attention(q, k, v, torch.full((b,), s, device=x.device, dtype=torch.int32))
    return matmul(y.view(b * s, -1), w["o"]).view(x.shape)


def mlp(x, w):
    rows = nn.rmsnorm(x, w["norm"]).reshape(-1, HIDDEN)
    h = nn.silu_mul(matmul(rows, w["gate"]), matmul(rows, w["up"])).view(rows.shape[0], -1)
    return matmul(h, w["down"]).view(x.shape)


def added_up(step, x, w, pieces=2):
    """x plus the step's parts from all processes.  The all-reduce of a half runs on the library's own stream, beside
    the other half's kernels; wait() orders this stream behind it."""
    parts, waits = [], []
    for half in x.split(-(-x.shape[0] // pieces)):
        parts.append(step(half.contiguous(), w))
        if dist.is_initialized():
            waits.append(dist.all_reduce(parts[-1], async_op=True))
    for wait in waits:
        wait.wait()
    return x + torch.cat(parts)


def layer(x, w, pieces=2):
    return added_up(mlp, added_up(attention, x, w, pieces), w, pieces)


def milliseconds(f, n=10, bursts=7):
    """The median of bursts, the same ones in all processes."""
    for _ in range(3):
        f()
    taken = []
    for _ in range(bursts):
        torch.cuda.synchronize()
        if dist.is_initialized():
            dist.barrier(device_ids=[torch.cuda.current_device()])
        begun = time.perf_counter()
        for _ in range(n):
            f()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - begun) / n * 1e3)
    return sorted(taken)[bursts // 2]


def bench(device):
    global HIDDEN, INNER, HEADS, GROUPS, HEAD
    HIDDEN, INNER, HEADS, GROUPS, HEAD = 4096, 14336, 32, 8, 128
    weights = make_weights(device, torch.bfloat16)
    x = torch.randn(4, 1024, HIDDEN, device=device, dtype=torch.bfloat16)
    alone = milliseconds(lambda: layer(x, weights, 1))
    dist.init_process_group("nccl")
    w = share(weights, dist.get_rank(), dist.get_world_size())
    apart, beside = milliseconds(lambda: layer(x, w, 1)), milliseconds(lambda: layer(x, w, 2))
    if dist.get_rank() == 0:
        print("| ms of a layer, 4 x 1024 tokens | |\n| --- | ---: |")
        print(f"| one GPU | {alone:.3f} |\n| {dist.get_world_size()} GPUs, all-reduce after the kernels | {apart:.3f} |")
        print(f"| {dist.get_world_size()} GPUs, all-reduce of a half beside the other's kernels | {beside:.3f} |", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", action="store_true")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device(f"cuda:{local}" if cuda else "cpu")
    if cuda:
        torch.cuda.set_device(device)
    if parser.parse_args().bench:
        return bench(device)
    dtype = torch.bfloat16 if cuda else torch.float32
    weights = make_weights(device, dtype)
    x = torch.randn(4, 48, HIDDEN, generator=torch.Generator().manual_seed(8)).to(device, dtype)
    whole = layer(x, weights)
    dist.init_process_group("nccl" if cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    y = layer(x, share(weights, rank, world))
    error = (y - whole).abs().max().item() / whole.abs().max().item()
    bound = 0.03 if cuda else 1e-5
    print(f"process {rank} of {world} on {device}: largest difference from the whole layer {error:.2g}", flush=True)
    assert error < bound
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
