"""A step with LoRA adapters, and its memory, beside peft in plain PyTorch: SmolLM2-135M's shape with random weights.

The folder is made by tests/peer/shared/families.py; both sides train the same adapters in it, in turn.
"""
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import cases
import figures
import runs
import watched
from page import bound_text, of, table
from session import Session

FAMILY = "smollm2-135m"
# Type of the weights, and the targets of the adapters.
CASES = {"fp32, q_proj and v_proj": ("fp32", ["q_proj", "v_proj"]), "fp32, all linear layers": ("fp32", "all-linear"),
         "bf16, all linear layers": ("bf16", "all-linear")}
RANK, ALPHA = 8, 16
COLUMNS, ROWS = 256, 4
ROUNDS, STEPS = 3, 5
STEP_BOUND, MEMORY_BOUND = 0.8, 0.5


def troupe(a, case, folder, out):
    dtype, targets = CASES[case]
    job = {"model": {"path": str(folder)}, "seed": 1, "steps": STEPS + cases.WARM_STEPS, "parallel": {"data": cases.RANKS},
           "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids", "sequence_length": COLUMNS},
           "train_micro_batch_size_per_gpu": ROWS // cases.RANKS, "gradient_clipping": 1.0,
           "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "lora": {"r": RANK, "alpha": ALPHA, "targets": targets},
           "zero_optimization": cases.zero_section(3), "bf16": {"enabled": dtype == "bf16"}, "telemetry": {"trace": False},
           "output": f"{out}/run"}
    (out / "job.yaml").write_text(json.dumps(job))
    return watched.run([[str(a.troupe), "train", str(out / "job.yaml"), "--json"]], [dict(os.environ)], out, sample_memory=True)


def peft(a, case, folder, out):
    dtype, targets = CASES[case]
    spec = {"peer": "pytorch", "folder": str(folder), "dtype": dtype, "columns": COLUMNS, "steps": STEPS + cases.WARM_STEPS,
            "rows": ROWS, "text": str(runs.TEXT), "lora": {"r": RANK, "lora_alpha": ALPHA, "target_modules": targets}}
    return watched.run([[str(runs.PYTHON), str(runs.TRAINING), json.dumps(spec)]], [runs.peer_environment()], out,
                       sample_memory=True)


def measure(a):
    s = Session(a.results.with_name("lora.json"), a.add, {"cases": {}})
    folder = runs.ROOT / "build/benchmarks/families" / FAMILY
    if not (folder / "config.json").exists():
        subprocess.run([str(runs.PYTHON), str(runs.ROOT / "tests/peer/shared/families.py"), FAMILY, str(folder)], check=True,
                       env=runs.peer_environment(), capture_output=True)
    for case in CASES:
        for _ in range(a.rounds or ROUNDS):
            for name, run in (("peft", peft), ("troupe", troupe)):
                out = pathlib.Path(tempfile.mkdtemp(prefix="lora_", dir=runs.ROOT / "build"))
                try:
                    s.take(case, name, lambda: run(a, case, folder, out), figures.run_median)
                finally:
                    shutil.rmtree(out, ignore_errors=True)
    return s.results


def peak(run):
    return run["peak_pss_bytes"]


def middle(values, scale=1):
    f = figures.absolute([v * scale for v in values if v is not None], None, "")
    return f"{f.value:.2f}" if f else "failed"


def rows_of(results):
    """[case, step of Troupe, of peft, ratio, bound, memory of Troupe, of peft, ratio, bound]."""
    out = []
    for case, kept in results["cases"].items():
        row = [case]
        for read, scale, bound in ((figures.run_median, 1, STEP_BOUND), (peak, 2.0**-20, MEMORY_BOUND)):
            ours, theirs = (figures.of_rounds(kept.get(n, []), read) for n in ("troupe", "peft"))
            row += [middle(ours, scale), middle(theirs, scale), of(figures.ratio(ours, theirs, bound)), bound_text(bound)]
        out.append(row)
    return out


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    failed = [f"- {case}, {name}: `{r['error'].strip().splitlines()[-1]}`"
              for case, kept in results["cases"].items() for name, each in kept.items() for r in each if "error" in r]
    return "\n".join([
        f"# Adapters beside peft, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. Commit {results['commit']}. "
        f"PyTorch {m['torch']}. Load before the first run: {results['load']:.1f}.",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        f"SmolLM2-135M's shape with random weights, adapters of rank {RANK}, {ROWS} x {COLUMNS} tokens a step, clipping at 1.0, AdamW. "
        "Troupe: two ranks of a thread each, ZeRO-3. peft: transformers' model of the same folder with `get_peft_model`, one process of "
        "two threads, `scaled_dot_product_attention`, fused AdamW. In bf16 both keep the frozen weights in bf16 alone. A run's step is the "
        f"median of {STEPS}; its memory is the largest share of resident memory (PSS), sampled every {watched.SAMPLE_EVERY_S:g} s, which "
        "both sides' steps bear. A ratio is that of the medians of the rounds, in brackets the least and greatest of a round.", "",
        table(["adapters", "Troupe, s", "peft, s", "ratio", "bound", "Troupe, MiB", "peft, MiB", "ratio", "bound"], rows_of(results)), "",
        *(["What did not run, and its error:", "", *failed, ""] if failed else [])])


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-lora.md."""
    file = a.results.with_name("lora.json")
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-lora.md"
    target.write_text(page(results))
    print(f"wrote {target}")
