"""A step of each family beside transformers' model of it in plain PyTorch, and how soon a run shows its first loss.

The folders are made by tests/peer/shared/families.py; both sides train the same folder, in turn.
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

FAMILIES = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3_text", "phi3", "gpt_neox", "olmo2", "smollm3",
            "granite", "bert", "roberta")
ENCODERS = ("bert", "roberta")
MASKING = {"probability": 0.15, "mask_token_id": 255}
ROUNDS = 3
STEPS = 8
BOUND = {"avx512f": 0.85, "": 0.90}  # of PyTorch's step, by what the processor has
SMALL = "gpt2, sequence 32, micro-batch 1"
SMALL_BOUND = 0.75
STAGE = 3


def bound_of(case):
    if case == SMALL:
        return SMALL_BOUND
    return BOUND["avx512f" if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text() else ""]


def shape(case):
    """Family, columns and rows of a rank."""
    return ("gpt2", 32, 1) if case == SMALL else (case, 256, 4)


def troupe(a, case, folder, out):
    family, columns, rows = shape(case)
    job = {"model": {"path": str(folder)}, "seed": 1, "steps": STEPS + cases.WARM_STEPS, "parallel": {"data": cases.RANKS},
           "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids", "sequence_length": columns},
           "train_micro_batch_size_per_gpu": rows, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
           "zero_optimization": cases.zero_section(STAGE), "telemetry": {"trace": False}, "output": f"{out}/run"}
    if family in ENCODERS:
        job["data"]["masking"] = MASKING
    (out / "job.yaml").write_text(json.dumps(job))
    return watched.run([[str(a.troupe), "train", str(out / "job.yaml"), "--json"]], [dict(os.environ)], out)


def pytorch(a, case, folder, out):
    _, columns, rows = shape(case)
    spec = {"peer": "pytorch", "folder": str(folder), "dtype": "fp32", "columns": columns, "steps": STEPS + cases.WARM_STEPS,
            "rows": rows * cases.RANKS, "text": str(runs.TEXT)}
    return watched.run([[str(runs.PYTHON), str(runs.TRAINING), json.dumps(spec)]], [runs.peer_environment()], out)


def measure(a):
    s = Session(a.results.with_name("families.json"), a.add, {"cases": {}})
    chosen = [n for n in (*FAMILIES, SMALL) if not a.families or n.split(",")[0] in a.families]
    for case in chosen:
        folder = runs.ROOT / "build/benchmarks/families" / shape(case)[0]
        if not (folder / "config.json").exists():
            subprocess.run([str(runs.PYTHON), str(runs.ROOT / "tests/peer/shared/families.py"), shape(case)[0], str(folder)],
                           check=True, env=runs.peer_environment(), capture_output=True)
        for _ in range(a.rounds or ROUNDS):
            for name, run in (("pytorch", pytorch), ("troupe", troupe)):
                out = pathlib.Path(tempfile.mkdtemp(prefix="families_", dir=runs.ROOT / "build"))
                try:
                    s.take(case, name, lambda: run(a, case, folder, out), figures.run_median)
                finally:
                    shutil.rmtree(out, ignore_errors=True)
    return s.results


def rows_of(results):
    """[family, step of Troupe, of PyTorch, ratio, bound, seconds from start to the first step of either]."""
    out = []
    for case, kept in results["cases"].items():
        ours, theirs = (figures.of_rounds(kept.get(n, []), figures.run_median) for n in ("troupe", "pytorch"))
        ratio = figures.ratio(ours, theirs, bound_of(case))
        first = [figures.absolute([r["first_step_s"] for r in figures.ran(kept.get(n, []))], None, "s") for n in ("troupe", "pytorch")]
        seconds = ["failed" if all(x is None for x in side) else f"{figures.absolute([x for x in side if x is not None], None, '').value:.3f}"
                   for side in (ours, theirs)]
        out.append([case, *seconds, of(ratio), bound_text(bound_of(case)), *(f"{f.value:.2f}" if f else "" for f in first)])
    return out


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    failed = [f"- {case}, {name}: `{r['error'].strip().splitlines()[-1]}`"
              for case, kept in results["cases"].items() for name, each in kept.items() for r in each if "error" in r]
    return "\n".join([
        f"# A step of each family, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. Commit {results['commit']}. "
        f"PyTorch {m['torch']}. Load before the first run: {results['load']:.1f}.",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        "Models of about 10 M parameters (384 wide, six layers, 256 tokens of vocabulary), fp32, 8 x 256 tokens a step, clipping at "
        f"1.0, AdamW. Troupe: two ranks of a thread each, ZeRO-{STAGE}. PyTorch: transformers' model of the same folder, one process of two "
        f"threads, `scaled_dot_product_attention` (Gemma 2: eager, for its soft cap), fused AdamW. A run's figure is the median of {STEPS} "
        "steps; a ratio is that of the medians of the rounds, in brackets the least and greatest of a round.", "",
        table(["family", "Troupe, s", "PyTorch, s", "ratio", "bound", "first step after, s", "PyTorch's"], rows_of(results)), "",
        *(["What did not run, and its error:", "", *failed, ""] if failed else [])])


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-families.md."""
    file = a.results.with_name("families.json")
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-families.md"
    target.write_text(page(results))
    print(f"wrote {target}")
