"""Milliseconds of the peers' own kernels: what Troupe's are compared with.

kernels.py: prints one JSON object, name to the median of a few repetitions. The update of 100 M fp32 runs on two threads,
everything else on one. Shapes are those of tests/bench/kernels_bench.cpp.
"""
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch
import torch.nn.functional as F

ELEMENTS = 100_000_000


def median_ms(work, repetitions=9, warm=2):
    times = []
    for _ in range(warm + repetitions):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[warm:])


def updates():
    parameter = torch.nn.Parameter(torch.ones(ELEMENTS))
    parameter.grad = torch.full((ELEMENTS,), 1e-3)
    out = {}
    torch.set_num_threads(2)
    plain = torch.optim.AdamW([parameter], lr=1e-3, weight_decay=0.01, fused=True)
    out["adamw_100m_torch"] = median_ms(plain.step)
    del plain
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    theirs = DeepSpeedCPUAdam([parameter], lr=1e-3, weight_decay=0.01, adamw_mode=True)
    out["adamw_100m_deepspeed"] = median_ms(theirs.step)
    return out


def forward_backward(name, work, *inputs):
    """Forward without a graph, backward alone, and both together."""
    out = {}
    with torch.no_grad():
        out[f"{name}_forward"] = median_ms(lambda: work(*inputs))
    leaves = [x.detach().requires_grad_() for x in inputs]
    backward, both = [], []
    for _ in range(11):
        begin = time.perf_counter()
        y = work(*leaves)
        between = time.perf_counter()
        g = torch.ones_like(y)
        start = time.perf_counter()
        torch.autograd.grad(y, leaves, g)
        end = time.perf_counter()
        backward.append(end - start)
        both.append(between - begin + end - start)
    out[f"{name}_backward"] = 1e3 * statistics.median(backward[2:])
    out[f"{name}_both"] = 1e3 * statistics.median(both[2:])
    return out


def layers(dtype, name):
    random = lambda *shape: torch.randn(*shape, dtype=dtype)
    weight, bias, targets = torch.ones(384, dtype=dtype), torch.zeros(384, dtype=dtype), torch.randint(0, 50257, (256,))
    of = lambda kernel, *rest: forward_backward(f"{kernel}_{name}", *rest)
    return (of("gelu", lambda a: F.gelu(a, approximate="tanh"), random(1024, 1536))
            | of("gated_silu", lambda a, b: F.silu(a) * b, random(1024, 1536), random(1024, 1536))
            | of("layer_norm", lambda a, w, b: F.layer_norm(a, (384,), w, b), random(1024, 384), weight, bias)
            | of("rms_norm", lambda a, w: F.rms_norm(a, (384,), w), random(1024, 384), weight)
            | of("cross_entropy", lambda a: F.cross_entropy(a.float(), targets), random(256, 50257)))


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    print(json.dumps(layers(torch.float32, "fp32") | layers(torch.bfloat16, "bf16") | updates()))


if __name__ == "__main__":
    main()
