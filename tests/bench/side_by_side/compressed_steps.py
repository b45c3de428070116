"""Steps of a model that is trained for fewer bits, beside plain ones and beside a loop over DeepSpeed's compressed layers.

Ours: two data ranks of a thread each. Theirs: one process of two threads over the same global batch, with the layers that
DeepSpeed 0.19.6's `init_compression` puts into the model (.peer/compression), as its scheduler has them once all is on.
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
import runs
import watched
from page import bound_text, of, table
from session import Session

ROWS, COLUMNS = 8, 256  # of a step
STEPS = cases.WARM_STEPS + 8
ROUNDS = 5
LIMIT_S = 150
GROUPS = 8
LINEAR = ["c_attn", "c_proj", "c_fc"]  # of every block, in our names
THEIRS = ["qkv", "proj", "fc", "\\.out"]  # in tests/peer/shared/models.py's; each is searched


def section(modules, inputs):
    weights = {"shared_parameters": {"enabled": True, "quantize_weight_in_forward": True, "schedule_offset": 0, "quantize_groups": GROUPS},
               "different_groups": {"all": {"params": {"start_bits": 8, "target_bits": 8}, "modules": modules}}}
    activations = {"shared_parameters": {"enabled": True, "schedule_offset": 0, "range_calibration": "dynamic"},
                   "different_groups": {"all": {"params": {"bits": 8}, "modules": modules}}}
    return {"weight_quantization": weights} | ({"activation_quantization": activations} if inputs else {})


# What is compressed, and the bounds: by a plain step of ours, by their loop.
WAYS = {"plain": (None, None, None), "8-bit weights": (False, 1.10, 0.6), "8-bit weights and inputs": (True, 1.25, 0.6)}


def run_ours(troupe, way):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="compressed_", dir=runs.ROOT / "build"))
    inputs, *_ = WAYS[way]
    topology = {"model": cases.GPT2_SMALL, "seed": 1, "steps": STEPS, "output": str(folder / "out"),
                "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids", "sequence_length": COLUMNS}, "parallel": {"data": 2},
                "train_micro_batch_size_per_gpu": ROWS // 2, "zero_optimization": {"stage": 2}, "gradient_clipping": 1.0,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "telemetry": {"trace": False}}
    if inputs is not None:
        topology["compression_training"] = section(LINEAR, inputs)
    job = folder / "job.yaml"
    job.write_text(json.dumps(topology))
    try:
        return watched.run([[str(troupe), "train", str(job), "--json"]], [dict(os.environ)], folder, False, LIMIT_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_theirs(way):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="compressed_", dir=runs.ROOT / "build"))
    inputs, *_ = WAYS[way]
    spec = {"peer": "pytorch", "model": cases.GPT2_SMALL, "dtype": "fp32", "rows": ROWS, "columns": COLUMNS, "steps": STEPS,
            "text": str(runs.TEXT)}
    if inputs is not None:
        spec["compression"] = section(THEIRS, inputs)
    try:
        return watched.run([[str(runs.PYTHON), str(runs.TRAINING), json.dumps(spec)]], [runs.peer_environment()], folder, False, LIMIT_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(a):
    s = Session(a.results.with_name("compressed_steps.json"), a.add, {"cases": {}})
    for _ in range(a.rounds or ROUNDS):
        for way in WAYS:
            for whose in ("ours", "theirs"):
                s.take(way, whose, lambda: run_ours(a.troupe, way) if whose == "ours" else run_theirs(way), figures.run_median)
    return s.results


def comparisons(results):
    """(what, figure) of all bounds."""
    steps = {way: {whose: figures.of_rounds(each, figures.run_median) for whose, each in kept.items()}
             for way, kept in results["cases"].items()}
    out = []
    for way, (_, of_plain, of_theirs) in WAYS.items():
        ours, theirs = (steps.get(way, {}).get(whose, []) for whose in ("ours", "theirs"))
        out += [(f"{way} by plain", figures.ratio(ours, steps.get("plain", {}).get("ours", []), of_plain))] if of_plain else []
        out += [(f"{way}, ours by theirs", figures.ratio(ours, theirs, of_theirs))]
    return [(what, f) for what, f in out if f]


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    rows = [[what, of(f), bound_text(f.bound) if f.bound else ""] for what, f in comparisons(results)]
    seconds = [[way, whose, f"{statistics.median(figures.medians(each)):.3f}"]
               for way, kept in results["cases"].items() for whose, each in kept.items() if figures.ran(each)]
    failed = [f"- {way}, {whose}: `{r['error'].strip().splitlines()[-1]}`"
              for way, kept in results["cases"].items() for whose, each in kept.items() for r in each if "error" in r]
    return "\n".join([
        f"# Steps with compressed layers, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. "
        f"Commit {results['commit']}. PyTorch {m['torch']} (CPU), DeepSpeed 0.19.6's layers.",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        f"GPT-2, 10.8 M parameters, fp32, {ROWS} x {COLUMNS} tokens a step, clipping at 1.0, AdamW; {GROUPS} groups a matrix, the linear "
        "layers of all blocks. Ours: ZeRO 2, two ranks of a thread each. Theirs: a loop in PyTorch, two threads. A run's figure is the "
        "median of its steps; rounds in turn.", "",
        table(["what", "figure", "bound"], rows), "", table(["", "", "step, s"], seconds), "",
        *(["What did not run, and its error:", "", *failed, ""] if failed else [])])


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-compressed-steps.md."""
    file = a.results.with_name("compressed_steps.json")
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-compressed-steps.md"
    target.write_text(page(results))
    print(f"wrote {target}")
