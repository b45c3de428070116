"""Steps with passes over the plan beside the plan without them: the runs and their page.

Each case is a job on which some passes have something to gain; a run has one of them, all, or none.
"""
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

import cases
import figures
import runs
import watched
from page import bound_text, of, table
from session import Session

STEPS = cases.WARM_STEPS + 22
ROUNDS = 5
LIMIT_S = 150
ALL = "all"
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def job(columns, rows, **keys):
    return {"model": cases.GPT2_SMALL, "seed": 1, "steps": STEPS, "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids", "sequence_length": columns},
            "train_micro_batch_size_per_gpu": rows, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "telemetry": {"trace": False}} | keys


# The job, the passes that run alone, the share of the plain plan's memory that all may have, and the bound of a step with all.
CASES = {
    "pipeline 2 x tensor 2, sequence 32": (
        job(32, 2, parallel={"pipeline": 2, "tensor": 2, "data": 1}, gradient_accumulation_steps=4),
        ("overlap_exchanges", "split_exchanges"), None, 0.95),
    "ZeRO-3, data 2, sequence 32": (
        job(32, 1, parallel={"data": 2}, zero_optimization={"stage": 3, "stage3_param_persistence_threshold": 0}),
        ("prefetch", "selective_gather", "fuse_buckets"), None, None),
    "ZeRO-3, data 2, recomputed": (
        job(256, 4, parallel={"data": 2}, zero_optimization={"stage": 3}, activation_checkpointing={"enabled": True}),
        ("recompute",), None, None),
    "ZeRO-3, data 2, 0.6 of the memory": (
        job(256, 4, parallel={"data": 2}, zero_optimization={"stage": 3}), (), 0.6, 1.15),
    "ZeRO-3, data 2, optimizer in files, 1.2 of the memory": (
        job(64, 2, parallel={"data": 2}, zero_optimization={
            "stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": str(runs.ROOT / "build")}}),
        ("offload_optimizer",), 1.2, None)}


def planned_bytes(troupe, topology):
    """Of all ranks, as `troupe plan` says."""
    with tempfile.TemporaryDirectory(dir=runs.ROOT / "build") as folder:
        file = pathlib.Path(folder) / "job.yaml"
        file.write_text(json.dumps(topology))
        said = subprocess.run([str(troupe), "plan", str(file)], check=True, capture_output=True, text=True).stdout
    return sum(float(n) * UNITS[unit] for n, unit in re.findall(r"in all\s+([\d.]+) (B|KiB|MiB|GiB)\b", said))


def with_passes(troupe, case, which):
    base, _, share, _ = CASES[case]
    if which is None:
        return base
    compile_section = {"deepcompile": True}
    if which != ALL:
        compile_section["passes"] = [which]
    if share:
        compile_section["memory_budget"] = int(share * planned_bytes(troupe, base))
    return base | {"compile": compile_section}


def run_one(troupe, case, which):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="passes_", dir=runs.ROOT / "build"))
    try:
        topology = with_passes(troupe, case, which) | {"output": str(folder / "out")}
        (folder / "job.yaml").write_text(json.dumps(topology))
        r = watched.run([[str(troupe), "train", str(folder / "job.yaml"), "--json"]], [dict(os.environ)], folder, False, LIMIT_S)
        return r | {"planned_bytes": planned_bytes(troupe, topology)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(a):
    s = Session(a.results.with_name("passes.json"), a.add, {"cases": {}})
    for _ in range(a.rounds or ROUNDS):
        for case, (_, alone, _, _) in CASES.items():
            for which in (None, *alone, ALL):
                name = which or "none"
                try:
                    r = run_one(a.troupe, case, which)
                    said = f"step {figures.run_median(r):.4f} s"
                except (RuntimeError, subprocess.CalledProcessError) as e:
                    r = {"error": str(e)[-800:]}
                    said = "failed: " + r["error"].replace("\n", " ")[-200:]
                s.results["cases"].setdefault(case, {}).setdefault(name, []).append(r)
                s.keep()
                s.say(f"{case}, {name}: {said}")
    measure_units(a, s)
    return s.results


def measure_units(a, s):
    """Passes over a host's units: bench_units says a line for each activation, and fails where losses differ."""
    r = subprocess.run([str(a.programs / "bench_units"), str(a.rounds or ROUNDS)], capture_output=True, text=True)
    s.keep(units=[json.loads(line) for line in r.stdout.splitlines()], units_error=r.stderr.strip()[-800:] if r.returncode else "")
    s.say(f"host's units: {r.stdout.strip() or r.stderr.strip()}")


def units_section(results):
    """What fuse_activation saves of a host's own modules."""
    rows = [[u["activation"], f"{u['step_s']:.4f}", f"{u['fused_step_s']:.4f}", f"{u['fused_step_s'] / u['step_s']:.3f}",
             f"{u['bytes'] / 2**20:.1f} MiB", f"{u['fused_bytes'] / 2**20:.1f} MiB", f"{u['fused_bytes'] / u['bytes']:.2f}"]
            for u in results.get("units", [])]
    if results.get("units_error"):
        return ["What `bench_units` said:", "", f"`{results['units_error']}`", ""]
    return ["A host's own perceptron of 4 x (512 - 2048 - 512), 1,024 rows, fp32, ZeRO-3 over two ranks, its activations as units; GELU is joined where units are recomputed "
            "(`bench_units`): `fuse_activation` beside the same without it, in turn; losses are equal.", "",
            table(["activation", "step, s", "fused, s", "ratio", "activations of a rank", "fused", "ratio"], rows), ""] if rows else []


def rows_of(results):
    """[case, passes, step, beside none, bound, memory of all ranks beside none]."""
    out = []
    for case, kept in results["cases"].items():
        plain = figures.of_rounds(kept.get("none", []), figures.run_median)
        for name, each in kept.items():
            if not figures.ran(each):
                continue
            bound = CASES[case][3] if name == ALL else None
            f = figures.ratio(figures.of_rounds(each, figures.run_median), plain, bound)
            memory = statistics.median(r["planned_bytes"] for r in figures.ran(each))
            of_plain = statistics.median(r["planned_bytes"] for r in figures.ran(kept["none"])) if figures.ran(kept["none"]) else memory
            out.append([case, name, f"{statistics.median(figures.medians(each)):.4f}", of(f) if f else "", bound_text(bound) if bound else "",
                        f"{memory / 2**20:.0f} MiB ({memory / of_plain:.2f})"])
    return out


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    failed = [f"- {case}, {name}: `{r['error'].strip().splitlines()[-1]}`"
              for case, kept in results["cases"].items() for name, each in kept.items() for r in each if "error" in r]
    return "\n".join([
        f"# Passes over the plan, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. Commit {results['commit']}.",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        "GPT-2, 10.8 M parameters, fp32. `none` is the plan of the other keys; passes are chosen by predicted times. A run's figure is the "
        "median of its steps; rounds in turn. Memory is the plan's, of all ranks.",
        "", table(["job", "passes", "step, s", "by none", "bound", "memory (by none)"], rows_of(results)), "",
        *units_section(results), *(["What did not run, and its error:", "", *failed, ""] if failed else [])])


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-passes.md."""
    file = a.results.with_name("passes.json")
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-passes.md"
    target.write_text(page(results))
    print(f"wrote {target}")
