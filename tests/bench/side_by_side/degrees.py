"""Degrees that are left to the run: what it chooses, beside every way that it could have chosen.

Three models whose best way differs, on two and on four ranks that share the machine's cores. Each round lets a run choose
in a folder of its own, then runs every way that can run with its degrees written out, in turn.
"""
import datetime
import json
import os
import pathlib
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

LONG = {"model_type": "gpt2", "n_layer": 4, "n_embd": 128, "n_head": 4, "n_positions": 512, "vocab_size": 256, **cases.NO_DROPOUT}
WORDS = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4,
         "intermediate_size": 352, "max_position_embeddings": 128, "vocab_size": 16384}
DEEP = {"model_type": "gpt2", "n_layer": 24, "n_embd": 64, "n_head": 4, "n_positions": 128, "vocab_size": 256, **cases.NO_DROPOUT}
MODELS = {"long sequence": LONG, "large vocabulary": WORDS, "deep and narrow": DEEP}
RANKS = (2, 4)
SAMPLES, MICRO_BATCH = 8, 2
STEPS = cases.WARM_STEPS + 10
ROUNDS = 3
LIMIT_S = 100
OF_BEST = 1.05  # the bound: the chosen way's step by the fastest's


def topology(model, ranks, degrees, folder):
    return {"model": MODELS[model], "seed": 1, "steps": STEPS, "output": str(folder / "out"), "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids"},
            "parallel": {"ranks": ranks, "pipeline": "auto", "tensor": "auto", "data": "auto", **degrees},
            "train_batch_size": SAMPLES, "train_micro_batch_size_per_gpu": MICRO_BATCH,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "telemetry": {"trace": False, "report": False}}


def run(troupe, model, ranks, degrees):
    """A run and, where it chose, the list of what it could choose from."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="degrees_", dir=runs.ROOT / "build"))
    job = folder / "job.yaml"
    job.write_text(json.dumps(topology(model, ranks, degrees, folder)))
    try:
        result = watched.run([[str(troupe), "train", str(job), "--json"]], [dict(os.environ)], folder, False, LIMIT_S)
        if degrees:
            return result, None
        said = subprocess.run([str(troupe), "plan", str(job), "--degrees", "--json"], capture_output=True, text=True, check=True)
        return result, json.loads(said.stdout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def least(result):
    return min(result["steps_s"][cases.WARM_STEPS:])


def measure(a):
    s = Session(a.results.with_name("degrees.json"), a.add, {"cases": {}})
    for _ in range(a.rounds or ROUNDS):
        for model in MODELS:
            for ranks in RANKS:
                kept = s.results["cases"].setdefault(f"{model}, {ranks} ranks", {"chosen": [], "opening_s": [], "ways": {}})
                result, listed = run(a.troupe, model, ranks, {})
                kept["chosen"].append(listed["ways"][listed["chosen"]]["degrees"])
                kept["opening_s"].append(result["first_step_s"])
                for way in listed["ways"]:
                    mine = kept["ways"].setdefault(way["degrees"], {"predicted_s": way["predicted_s"], "refusal": way["refusal"],
                                                                    "steps_s": [], "opening_s": []})
                    if way["refusal"]:
                        continue
                    alone, _ = run(a.troupe, model, ranks, {k: way[k] for k in ("pipeline", "data", "tensor")})
                    mine["steps_s"].append(least(alone))
                    mine["opening_s"].append(alone["first_step_s"])
                s.keep()
                said = ", ".join(f"{name} {1e3 * statistics.median(w['steps_s']):.0f}" for name, w in kept["ways"].items() if w["steps_s"])
                s.say(f"{model}, {ranks} ranks: chose {kept['chosen'][-1]}; ms: {said}")
    return s.results


def by_best(case):
    """The chosen ways' steps, by those of the way that is fastest over all rounds."""
    steps = {name: w["steps_s"] for name, w in case["ways"].items() if w["steps_s"]}
    best = min(steps, key=lambda name: statistics.median(steps[name]))
    chosen = [steps[name][i] for i, name in enumerate(case["chosen"])]
    return best, figures.ratio(chosen, steps[best], OF_BEST)


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    chosen, ways = [], []
    for name, case in results["cases"].items():
        best, figure = by_best(case)
        alone = [case["ways"][name]["opening_s"][i] for i, name in enumerate(case["chosen"])]
        chosen.append([name, ", ".join(dict.fromkeys(case["chosen"])), best, of(figure), bound_text(figure.bound),
                       f"{statistics.median(case['opening_s']):.1f}", f"{statistics.median(alone):.1f}"])
        for degrees, w in case["ways"].items():
            predicted = "" if w["predicted_s"] is None else f"{1e3 * w['predicted_s']:.1f}"
            ways.append([name, degrees, predicted, f"{1e3 * statistics.median(w['steps_s']):.1f}" if w["steps_s"] else w["refusal"]])
    return "\n".join([
        f"# Degrees that a run chooses, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. Commit {results['commit']}.",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        f"Three models, {SAMPLES} samples a step in micro-batches of {MICRO_BATCH}, fp32, AdamW, ZeRO 0; pipeline, tensor and data ranks "
        "are `auto`. A run's figure is the least of its steps, since other work on the machine only adds; rounds in turn. A way's runs have its degrees written out.", "",
        table(["case", "chosen", "fastest", "chosen by fastest", "bound", "first step after, s", "degrees given, s"], chosen), "",
        "Milliseconds: as the cost model predicts, the least of a run's steps.", "",
        table(["case", "degrees", "predicted", "step, ms"], ways), ""])


def run_part(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-degrees.md."""
    file = a.results.with_name("degrees.json")
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-degrees.md"
    target.write_text(page(results))
    print(f"wrote {target}")
