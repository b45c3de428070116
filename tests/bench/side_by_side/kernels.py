"""Kernels beside those of the peers, in the same session: google-benchmark's programs in a short mode, and bench_model."""
import json
import re
import subprocess

import figures
import runs

ROUNDS = 3
SHORT_S = 0.1  # of each benchmark

GOOGLE = ("bench_kernels", "bench_attention", "bench_fabric")


def attention_pair(which, dtype):
    name = lambda way: f"attention_{which}/{dtype}_{way}/256/64"
    return (f"causal attention {which}, {dtype}, 4 x 6 heads x 256 x 64", name("kernel"),
            {"LibTorch flash": name("flash"), "LibTorch's operations": name("composed")}, None)


def layer_pair(kernel, what, which, dtype, theirs=None):
    return (f"{what}, {dtype}", f"{kernel}/{dtype}_{which}", {"LibTorch": f"{kernel}_{dtype}_{theirs or which}"}, None)


def layer_pairs(dtype):
    """Of 1024 tokens: norms 384 wide, the others 1536; cross-entropy of 256 tokens among 50,257."""
    for kernel, what in (("gelu", "tanh-GELU"), ("gated_silu", "gated SiLU"), ("layer_norm", "layer norm"), ("rms_norm", "RMS norm")):
        for which in ("forward", "backward"):
            yield layer_pair(kernel, f"{what} {which}", which, dtype)
    yield layer_pair("cross_entropy", "cross-entropy forward and backward", "backward", dtype, "both")


# What it is; our benchmark's name; the others by name, in tests/peer/shared/kernels.py or in our programs; the bound, or None.
PAIRS = (
    ("AdamW, 100 M fp32, 2 threads", "adamw/fp32/2/real_time",
     {"torch fused": "adamw_100m_torch", "DeepSpeedCPUAdam": "adamw_100m_deepspeed"}, 1.0),
    ("AdamW, 100 M, bf16 gradients, with the 16-bit copy, 2 threads", "adamw/bf16_with_copy/2/real_time",
     {"DeepSpeedCPUAdam, fp32": "adamw_100m_deepspeed"}, 1.0),
    *(pair for dtype in ("fp32", "bf16") for pair in layer_pairs(dtype)),
    *(attention_pair(which, dtype) for dtype in ("fp32", "bf16") for which in ("forward", "backward")),
)


def make_peers_ready():
    """Builds DeepSpeed's operators before anything is timed."""
    # A build that was killed leaves its lock, on which later ones wait for ever; none is under way here.
    for lock in runs.OPERATORS.glob("**/lock"):
        lock.unlink(missing_ok=True)
    code = ("from deepspeed.ops.op_builder import CPUAdamBuilder\n"
            "from deepspeed.ops.op_builder.cpu import FusedAdamBuilder, ShareMemCommBuilder\n"
            "CPUAdamBuilder().load(); FusedAdamBuilder().load(); ShareMemCommBuilder().load()")
    print("DeepSpeed's operators (built once)", flush=True)
    done = subprocess.run([str(runs.PYTHON), "-c", code], env=runs.peer_environment(), capture_output=True, text=True)
    if done.returncode != 0:
        print("DeepSpeed's operators were not built: " + done.stderr[-300:], flush=True)


def benchmarks(program, only=None):
    """Name to real milliseconds and bytes per second; nothing where no name matches `only`."""
    command = [str(program), "--benchmark_format=json", f"--benchmark_min_time={SHORT_S}"]
    if only:
        command.append(f"--benchmark_filter={only}")
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(text) if text.strip() else {"benchmarks": []}
    unit = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
    return {b["name"]: {"ms": b["real_time"] * unit[b["time_unit"]], "bytes_per_s": b.get("bytes_per_second")}
            for b in report["benchmarks"] if b.get("run_type") == "iteration"}


def segments(programs, dtype):
    """bench_model: kind of segment to milliseconds of processor time."""
    text = subprocess.run([str(programs / "bench_model"), dtype, "4", "5"], check=True, capture_output=True, text=True).stdout
    return {m[1].strip(): float(m[2]) for m in re.finditer(r"(?m)^(.+?)\s+median\s+([0-9.]+) ms", text)}


def measure(programs):
    out = {"rounds": [], "all": {}, "segments": {}}
    names = {n for p in PAIRS for n in (p[1], *p[2].values())}
    ours_of = "^(" + "|".join(re.escape(n) for n in sorted(names)) + ")$"
    programs_here = [n for n in GOOGLE if (programs / n).exists()]
    environment = runs.peer_environment() | {"OMP_NUM_THREADS": "2"}
    for _ in range(ROUNDS):
        print("kernels, a round", flush=True)
        figures_of = {}
        for program in programs_here:
            figures_of |= {k: v["ms"] for k, v in benchmarks(programs / program, ours_of).items()}
        text = subprocess.run([str(runs.PYTHON), str(runs.ROOT / "tests/peer/shared/kernels.py")], check=True,
                              capture_output=True, text=True, env=environment).stdout
        figures_of |= json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))
        out["rounds"].append(figures_of)
    for name in programs_here:
        print(name, flush=True)
        out["all"][name] = benchmarks(programs / name)
    for dtype in ("fp32", "bf16"):
        out["segments"][dtype] = segments(programs, dtype)
    return out


def comparisons(measured):
    """(what, peer, our ms, their ms, Figure) of every pair that was measured on both sides."""
    out = []
    for what, ours, peers, bound in PAIRS:
        for peer, key in peers.items():
            both = [(r[ours], r[key]) for r in measured["rounds"] if ours in r and key in r]
            if both:
                a, b = zip(*both)
                out.append((what, peer, sorted(a)[len(a) // 2], sorted(b)[len(b) // 2], figures.ratio(a, b, bound)))
    return out


def section(measured, table):
    if not measured:
        return []
    rows = []
    for what, peer, ours, theirs, r in comparisons(measured):
        text = str(r)
        rows.append([what, f"{ours:.3g}", peer, f"{theirs:.3g}", text if r.met else f"**{text} missed**", "" if r.bound is None else f"{r.bound:g}"])
    out = ["## Kernels", "", f"Milliseconds, {len(measured['rounds'])} rounds in turn, one thread unless said.", "",
           table(["kernel", "ours", "peer", "theirs", "of it", "bound"], rows), ""]
    for dtype, parts in measured["segments"].items():
        out += [f"Segments of the 10.8 M model on one thread, {dtype}, 4 x 256 tokens, milliseconds of processor time: "
                + ", ".join(f"{k} {v:.2f}" for k, v in parts.items()) + ".", ""]
    for program, each in measured["all"].items():
        rows = [[f"`{k}`", f"{v['ms']:.4g}", f"{v['bytes_per_s'] / 1e9:.1f}" if v["bytes_per_s"] else ""] for k, v in each.items()]
        out += ["<details><summary>" + program + f" ({len(rows)} rows)</summary>", "", table(["benchmark", "ms", "GB/s"], rows), "", "</details>", ""]
    return out
