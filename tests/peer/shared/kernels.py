"""Milliseconds of the peers' own kernels: what Troupe's are compared with.

kernels.py: prints one JSON object, name to the median of a few repetitions. The update of 100 M fp32 runs on two threads,
everything else on one. Shapes are those of tests/bench/kernels_bench.cpp; `backward` is the gradient alone.
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
    """Times `work(*inputs)` without a graph, and the backward of a graph made anew for each repetition."""
    out = {}
    with torch.no_grad():
        out[f"{name}_forward"] = median_ms(lambda: work(*inputs))
    leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
    wanted = [x for x in leaves if x.requires_grad]
    times = []
    for _ in range(11):
        y = work(*leaves)
        g = torch.ones_like(y)
        begin = time.perf_counter()
        torch.autograd.grad(y, wanted, g)
        times.append(time.perf_counter() - begin)
    out[f"{name}_backward"] = 1e3 * statistics.median(times[2:])
    return out


def activations(dtype, name):
    out = {}
    x = torch.randn(1024, 1536, dtype=dtype)
    out |= forward_backward(f"gelu_1024x1536_{name}", lambda a: F.gelu(a, approximate="tanh"), x)
    out |= forward_backward(f"swiglu_1024x1216_{name}", lambda a, b: F.silu(a) * b,
                            torch.randn(1024, 1216, dtype=dtype), torch.randn(1024, 1216, dtype=dtype))
    q, k, v = (torch.randn(4, 6, 256, 64, dtype=dtype) for _ in range(3))
    out |= forward_backward(f"attention_4x6x256x64_{name}",
                            lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True), q, k, v)
    for rows, columns in ((1024, 256), (256, 50257)):
        targets = torch.randint(0, columns, (rows,))
        out |= forward_backward(f"cross_entropy_{rows}x{columns}_{name}", lambda a: F.cross_entropy(a.float(), targets),
                                torch.randn(rows, columns, dtype=dtype))
    weight, bias = torch.ones(384, dtype=dtype), torch.zeros(384, dtype=dtype)
    out |= forward_backward(f"layer_norm_1024x384_{name}", lambda a, w, b: F.layer_norm(a, (384,), w, b),
                            torch.randn(1024, 384, dtype=dtype), weight, bias)
    return out


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    out = activations(torch.float32, "fp32") | activations(torch.bfloat16, "bf16")
    print(json.dumps(out | updates()))


if __name__ == "__main__":
    main()
