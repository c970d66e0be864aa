"""Functions measured in turn: on a GPU by PyTorch's events or a wait at the end, elsewhere by the clock."""

import time


def _waiter(args):
    """What waits for the arrays' device."""
    for a in args:
        module = type(a).__module__.split(".")[0]
        if module == "torch" and a.device.type == "cuda":
            import torch

            return lambda out: torch.cuda.synchronize(a.device)
        if module in ("jax", "jaxlib"):
            import jax

            return jax.block_until_ready
        if module == "cupy":
            import cupy

            return lambda out: cupy.cuda.get_current_stream().synchronize()
    return lambda out: None


def _once(call, n, wait):
    begun = time.perf_counter()
    for _ in range(n):
        out = call()
    wait(out)
    return (time.perf_counter() - begun) / n


def compare(calls, args, seconds):
    wait = _waiter(args)
    count, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        wait(call())
        one = max(_once(call, 3, wait), 1e-7)
        count[name] = max(1, min(1000, int(seconds / len(calls) / 15 / one)))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(times))]) < 5:
        for name, call in calls.items():
            times[name].append(_once(call, count[name], wait))
    result = {}
    for name, t in times.items():
        t.sort()
        result[name] = {"seconds": t[len(t) // 2], "least": t[0], "most": t[-1], "runs": len(t) * count[name]}
    return result
