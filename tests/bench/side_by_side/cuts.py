"""Tensor, sequence and context ranks beside data ranks, and beside PyTorch's DTensor: the runs and their page.

Two ranks of a thread each, the same global batch: data ranks have half of the rows each, the others share every sample.
"""
import datetime
import json
import os
import pathlib
import shutil
import statistics
import tempfile

import cases
import figures
import kernels
import runs
import watched
from page import bound_text, of, table
from session import Session

PEER = runs.ROOT / "tests/peer/shared/dtensor.py"
ROWS, COLUMNS = 8, 256  # of a step
STEPS = cases.WARM_STEPS + 6
ROUNDS = 5
LIMIT_S = 100
DTYPES = ("fp32", "bf16")
# What the topology says, and the bound: a step of ours by one of data ranks.
CUTS = {"data 2": ({"parallel": {"data": 2}}, None),
        "tensor 2": ({"parallel": {"tensor": 2}}, 1.12),
        "tensor 2, overlapped": ({"parallel": {"tensor": 2}, "tensor_parallel": {"tp_overlap_comm": True}}, 1.12),
        "tensor 2, sharded norms": ({"parallel": {"tensor": 2, "sharded_norms": True}}, 1.12),
        "sequence 2": ({"parallel": {"sequence": 2}}, 1.12),
        "context 2": ({"parallel": {"context": 2}}, 1.15)}
OF_DTENSOR = 0.50  # the bound: tensor ranks of ours by DTensor's


def run_ours(troupe, cut, dtype):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cuts_", dir=runs.ROOT / "build"))
    topology = {"model": cases.GPT2_SMALL, "seed": 1, "steps": STEPS, "output": str(folder / "out"), "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids"},
                **CUTS[cut][0], "train_micro_batch_size_per_gpu": ROWS // 2 if cut == "data 2" else ROWS,
                "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
                "bf16": {"enabled": dtype == "bf16"}, "telemetry": {"trace": False}}
    job = folder / "job.yaml"
    job.write_text(json.dumps(topology))
    try:
        return watched.run([[str(troupe), "train", str(job), "--json"]], [dict(os.environ)], folder, False, LIMIT_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_dtensor(dtype):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cuts_", dir=runs.ROOT / "build"))
    spec = {"model": cases.GPT2_SMALL, "dtype": dtype, "rows": ROWS, "columns": COLUMNS, "steps": STEPS, "text": str(runs.TEXT)}
    port = runs.free_port()
    common = runs.peer_environment() | {"WORLD_SIZE": "2", "LOCAL_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                                        "OMP_NUM_THREADS": "1"}
    try:
        return watched.run([[str(runs.PYTHON), str(PEER), json.dumps(spec)]] * 2,
                           [common | {"RANK": str(r), "LOCAL_RANK": str(r)} for r in range(2)], folder, False, LIMIT_S)
    finally:
        runs.remove_buffers(port)
        shutil.rmtree(folder, ignore_errors=True)


def measure(a):
    s = Session(a.results.with_name("cuts.json"), a.add, {"cases": {}})
    kernels.make_peers_ready()
    for _ in range(a.rounds or ROUNDS):
        for dtype in DTYPES:
            for name in (*CUTS, "DTensor"):
                s.take(dtype, name, lambda: run_dtensor(dtype) if name == "DTensor" else run_ours(a.troupe, name, dtype),
                       figures.run_median)
    return s.results


def comparisons(results):
    """(dtype, what, figure) of all bounds."""
    out = []
    for dtype, kept in results["cases"].items():
        steps = {name: figures.of_rounds(each, figures.run_median) for name, each in kept.items()}
        for cut, (_, bound) in CUTS.items():
            f = figures.ratio(steps.get(cut, []), steps.get("data 2", []), bound) if bound else None
            out += [(dtype, f"{cut} by data 2", f)] if f else []
        f = figures.ratio(steps.get("tensor 2", []), steps.get("DTensor", []), OF_DTENSOR)
        out += [(dtype, "tensor 2 by DTensor", f)] if f else []
    return out


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    rows = [[dtype, what, of(f), bound_text(f.bound)] for dtype, what, f in comparisons(results)]
    seconds = [[dtype, name, f"{statistics.median(figures.medians(each)):.3f}"]
               for dtype, kept in results["cases"].items() for name, each in kept.items() if figures.ran(each)]
    failed = [f"- {dtype}, {name}: `{r['error'].strip().splitlines()[-1]}`"
              for dtype, kept in results["cases"].items() for name, each in kept.items() for r in each if "error" in r]
    return "\n".join([
        f"# Cuts beside data ranks and DTensor, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. "
        f"Commit {results['commit']}. PyTorch {m['torch']} (CPU, Gloo).",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        f"GPT-2, 10.8 M parameters, two ranks of a thread each, {ROWS} x {COLUMNS} tokens a step, ZeRO 0, clipping at 1.0, AdamW. Ours by "
        "ours: the same global batch over data ranks. DTensor: tensor, sequence and loss parallelism, a process each rank. A run's figure "
        "is the median of its steps; rounds in turn.", "",
        table(["type", "what", "figure", "bound"], rows), "", table(["type", "", "step, s"], seconds), "",
        *(["What did not run, and its error:", "", *failed, ""] if failed else [])])


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-cuts.md."""
    file = a.results.with_name("cuts.json")
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-cuts.md"
    target.write_text(page(results))
    print(f"wrote {target}")
