"""Compares what `troupe tune` picks with the fastest of the full grid, for three small models, and the times of both.

Run by `make tune-grid`, on an idle machine, in some ten minutes; arguments are names of models, by default all. `troupe calibrate`
measures the machine into a cache of this program's own. Then each model is tuned as users do, and over its full grid with `--all`.
Pick and best of the grid run again in turn, more steps each, because the least of many short measurements is partly luck; the
ratio of these steps is bounded by PICK_MAX, the share of time by TIME_MAX, and a grid has at least POINTS_MIN points.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("PROGRAMS", str(ROOT / "build/release")))
TROUPE = PROGRAMS / "troupe"
PICK_MAX, TIME_MAX, POINTS_MIN = 1.05, 0.25, 40
ROUNDS, WARM_STEPS, STEPS = 3, 2, 10
GPT = {"model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 4, "n_positions": 128, "vocab_size": 256, "embd_pdrop": 0,
       "attn_pdrop": 0, "resid_pdrop": 0}
LLAMA = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128, "vocab_size": 256}
MODELS = {
    "GPT": {"model": GPT},
    "Llama": {"model": LLAMA},
    "deep GPT": {"model": GPT | {"n_layer": 12, "n_embd": 128}},
}
BASE = {"data": {"text": str(ROOT / "examples/corpus.txt"), "sequence_length": 128}, "seed": 1, "steps": WARM_STEPS + STEPS,
        "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "parallel": {"data": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}, "zero_optimization": {"stage": 3}, "output": "run",
        "telemetry": {"trace": False, "report": False}}
# Keys that are not varied, so that a full grid takes minutes: what is left are degrees, micro-batches, stages, recomputation.
PINNED = ["parallel.sequence=1", "parallel.context=1", "pipeline.schedule=1f1b", "zero_optimization.reduce_bucket_size=500000000"]


def troupe(*words, cwd, env):
    done = subprocess.run([str(TROUPE), *map(str, words)], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"tune_grid: troupe {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def overrides(texts):
    return [word for text in texts for word in ("--set", text)]


def tune(folder, env, *words):
    return json.loads(troupe("tune", "job.yaml", *overrides(PINNED), *words, "--json", cwd=folder, env=env))


def steps_of(folder, env, changes):
    lines = troupe("train", "job.yaml", *overrides(PINNED), *overrides(changes), "--json", "--fresh", cwd=folder, env=env)
    events = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
    return [x["step_s"] for x in events if x.get("event") == "step" and x["step"] > WARM_STEPS]


def rematch(folder, env, pick, best):
    """The median steps of both, which run in turn."""
    if pick == best:
        return 1.0, 1.0
    seconds = {0: [], 1: []}
    for _ in range(ROUNDS):
        for which, changes in enumerate((pick, best)):
            seconds[which] += steps_of(folder, env, changes)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def compare(name, scratch, env):
    folder = scratch / name.replace(" ", "_")
    folder.mkdir()
    (folder / "job.yaml").write_text(json.dumps(BASE | MODELS[name]))
    tuned, grid = tune(folder, env), tune(folder, env, "--all")
    points = [one for one in grid["trials"] if one["measured_s"] is not None]
    pick, best = tuned["trials"][tuned["best"]], grid["trials"][grid["best"]]
    pick_s, best_s = rematch(folder, env, pick["set"], best["set"])
    ratio, share = pick_s / best_s, tuned["seconds"] / grid["seconds"]
    own = next(one for one in grid["trials"] if one["own"])
    own_text = f"{own['measured_s'] / best['measured_s']:.3f}" if own["measured_s"] is not None else "-"
    misses = [what for what, is_missed in ((f"pick above {PICK_MAX}", ratio > PICK_MAX), (f"time above {TIME_MAX:.0%}", share > TIME_MAX),
                                           (f"fewer than {POINTS_MIN} points", len(points) < POINTS_MIN)) if is_missed]
    print(f"{name:9} {len(points):6} {ratio:10.3f} {own_text:>10} {tuned['seconds']:7.1f} s {grid['seconds']:7.1f} s {share:6.1%}  "
          f"{', '.join(misses) or 'within the bounds'}")
    print(f"          pick {' '.join(pick['set']) or 'own'}; best {' '.join(best['set']) or 'own'}", flush=True)
    return not misses


def main(names):
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        sys.exit(f"tune_grid: wanted names of models, {', '.join(MODELS)}, got {', '.join(unknown)}")
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        scratch = pathlib.Path(scratch)
        env = os.environ | {"XDG_CACHE_HOME": str(scratch / "cache")}
        machine = json.loads(troupe("calibrate", "--json", cwd=scratch, env=env))
        print(f"{machine['processor']}, {machine['cores']} cores; other programs used {100 * machine['share_of_others']:.1f} % of them")
        if machine["kept"] is None:
            sys.exit(f"tune_grid: {machine['why_not_kept']}")
        print(f"{'model':9} {'points':>6} {'pick/best':>10} {'own/best':>10} {'tune':>9} {'grid':>9} {'share':>6}")
        return all([compare(name, scratch, env) for name in names or MODELS])


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
