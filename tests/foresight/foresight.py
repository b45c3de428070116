"""Predicts steps on this machine, runs them, and prints both: how far `troupe plan` can be trusted here.

Run by `make foresight`, in at most six minutes on an idle machine. `troupe calibrate` measures the machine into a cache of this
program's own; then eight jobs of about ten million parameters on two ranks are predicted and trained, and five more that the
constants were not chosen by. Behind them stand the
errors on tables of published measurements: examples/*.csv, and the files of a folder that TABLES names, where they are known.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("PROGRAMS", str(ROOT / "build/release")))
TROUPE = PROGRAMS / "troupe"
WARM_STEPS, STEPS = 4, 16
RANKS = 2
GPT = {"model_type": "gpt2", "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 256, "vocab_size": 256, "embd_pdrop": 0,
       "attn_pdrop": 0, "resid_pdrop": 0}
LLAMA = {"model_type": "llama", "num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1024, "num_attention_heads": 6,
         "num_key_value_heads": 2, "max_position_embeddings": 256, "vocab_size": 256}
BASE = {"model": GPT, "data": {"text": str(ROOT / "examples/corpus.txt"), "sequence_length": 256}, "seed": 1,
        "steps": WARM_STEPS + STEPS, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1,
        "parallel": {"data": RANKS}, "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}, "telemetry": {"trace": False}}
JOBS = {
    "ZeRO 0": {},
    "ZeRO 3": {"zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_max_reuse_distance": 0}},
    "bf16": {"bf16": {"enabled": True}},
    "sequence 32": {"data": BASE["data"] | {"sequence_length": 32}, "train_micro_batch_size_per_gpu": 16},
    "accumulation 3": {"gradient_accumulation_steps": 3},
    "recomputation": {"activation_checkpointing": {"enabled": True}},
    "Llama": {"model": LLAMA},
    "states in files": {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "swap"}}},
}
# Jobs with exchanges within a layer or between processes, in which ranks wait for each other more often.
BEYOND = {
    "pipeline 2": {"parallel": {"pipeline": 2}, "gradient_accumulation_steps": 4, "train_micro_batch_size_per_gpu": 2},
    "tensor 2": {"parallel": {"tensor": 2}},
    "context 2": {"parallel": {"context": 2}},
    "2 processes": {"cluster": {"processes": 2}},
    "ZeRO 3, bf16": {"bf16": {"enabled": True},
                     "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_max_reuse_distance": 0}},
}
# What ran the rows of the tables that docs/foresight.md names.
TABLES = {"steps_h100.csv": "megatron_h100", "steps_a100.csv": "megatron_a100", "fsdp.csv": "fsdp_h100,fsdp_a100",
          "bloom_a100.csv": "bloom_a100", "megatron_h100.csv": "megatron_h100", "megatron_a100.csv": "megatron_a100",
          "megatron_b200.csv": "megatron_b200", "products.csv": "kernels_a100,kernels_b200",
          "attention.csv": "kernels_a100,kernels_b200", "single_node.csv": "megatron_deepspeed_node_a100",
          "multi_node.csv": "megatron_deepspeed_a100", "a100_allreduce_2gpu.csv": "nccl_a100",
          "a100_allreduce_4gpu.csv": "nccl_a100", "a100_allreduce_8gpu.csv": "nccl_a100"}


def troupe(*words, cwd=None, env=None):
    done = subprocess.run([str(TROUPE), *map(str, words)], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"foresight: troupe {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def predict(folder, env):
    plan = json.loads(troupe("plan", "job.yaml", "--json", cwd=folder, env=env))
    return plan["predicted"], sum(one["total_bytes"] * one["ranks_like_it"] for one in plan["memory"]), plan["rates"]


def run(folder, env):
    lines = [json.loads(line) for line in troupe("train", "job.yaml", "--json", cwd=folder, env=env).splitlines()]
    steps = sorted(x["step_s"] for x in lines if x.get("event") == "step" and x["step"] > WARM_STEPS)
    end = next(x for x in lines if x.get("event") == "end")
    quarter = len(steps) // 4
    return (statistics.median(steps), (steps[-1 - quarter] - steps[quarter]) / statistics.median(steps),
            sum(size for one in end["memory"]["host"] for key, size in one.items() if key not in ("rank", "total", "swapped")),
            end["process_peak_bytes"])


def show_some(jobs, scratch, env):
    errors, inside = [], 0
    for name, changes in jobs.items():
        folder = scratch / name.replace(" ", "_").replace(",", "")
        folder.mkdir()
        (folder / "job.yaml").write_text(json.dumps(BASE | changes | {"output": "run"}))
        predicted, planned, rates = predict(folder, env)
        predicted_s = predicted["step_s"]
        measured_s, spread, held, process = run(folder, env)
        error = predicted_s / measured_s - 1
        errors.append(abs(error))
        inside += predicted.get("low_s", 0) <= measured_s <= predicted.get("high_s", 0)
        mib = 2.0**20
        print(f"{name:16} {1e3 * predicted_s:7.1f} ms {1e3 * measured_s:7.1f} ms {100 * spread:5.1f} % {100 * error:+6.1f} % "
              f"{planned / mib:6.0f} MiB {held / mib:6.0f} MiB {100 * (planned / held - 1):+6.1f} % {process / mib:6.0f} MiB", flush=True)
    print(f"steps: mean error {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %, worst "
          f"{100 * max(errors):.1f} %; {inside} of {len(errors)} in their 80 % interval; spread is the middle half of {STEPS} steps")
    return rates


def show_jobs():
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        scratch = pathlib.Path(scratch)
        env = os.environ | {"XDG_CACHE_HOME": str(scratch / "cache")}
        machine = json.loads(troupe("calibrate", "--disk", str(scratch), "--json", env=env))
        print(f"{machine['processor']}, {machine['cores']} cores; other programs used {100 * machine['share_of_others']:.1f} % of them")
        if machine["kept"] is None:
            print(f"not calibrated: {machine['why_not_kept']}")
        print(f"{'job':16} {'predicted':>10} {'measured':>10} {'spread':>7} {'error':>8} {'planned':>10} {'held':>10} {'error':>8} {'process':>10}")
        show_some(JOBS, scratch, env)
        print(f"by {show_some(BEYOND, scratch, env)}")


def show_tables():
    folders = [ROOT / "examples"] + [pathlib.Path(x) for x in os.environ.get("TABLES", "").split(os.pathsep) if x]
    for file in (file for folder in folders for file in sorted(folder.glob("*.csv"))):
        if file.name not in TABLES:
            continue
        found = troupe("simulate", "--table", file, "--hardware", TABLES[file.name]).splitlines()
        rows = [line for line in found[1:] if line.split() and line.split()[0] in ("step", "memory", "product", "attention", "all_reduce",
                                                                                  "all-reduce")]
        print(f"\n{found[0]}\n{found[1]}")
        for row in rows:
            if not row.startswith(("step:", "memory:", "product:", "attention:", "all")) or row.startswith("all"):
                print(row)


if __name__ == "__main__":
    begin = time.monotonic()
    (ROOT / "build").mkdir(exist_ok=True)
    show_jobs()
    show_tables()
    print(f"\n{time.monotonic() - begin:.0f} s")
