"""DeepSpeed's PipelineEngine resumes what Troupe's pipelines write, and Troupe what that engine writes, with the same losses.

Troupe trains a tiny GPT-2, cut over ranks in several ways, and keeps a checkpoint of step 3, which `troupe checkpoint
reshape` makes a pipeline's folder of. Two processes of DeepSpeed (CPU, Gloo), a stage each, load it, train steps 4 to 6,
save, and train three more. Their first three losses must be those of the run that was saved; the last three those of
Troupe, cut in other ways, that resumes from their folder. One epoch is one batch, so that the order of samples does not
matter; the embedding is tied to the head.

Needs build/release/troupe (make build), or another named by TROUPE. Arguments: some of the RUNS alone.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from shared.gpt2_layers import name_rules, pipeline_module
from shared.rendezvous import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
COLUMNS, SAMPLES, VOCABULARY, WIDTH, LAYERS = 16, 8, 128, 32, 3
SAVED, RESUMED, STEPS, STAGES, MICRO_BATCHES = 3, 6, 9, 2, 4
KEYS = {"n_layer": LAYERS, "n_embd": WIDTH, "n_head": 2, "n_positions": COLUMNS, "vocab_size": VOCABULARY,
        "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
OPTIMIZER = {"type": "AdamW", "params": {"lr": 3e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}}
ALLOWED = 2e-6
UNCUT = {"parallel": {"data": 2}, "zero_optimization": {"stage": 1}}
PIPELINE = {"parallel": {"pipeline": 2, "data": 2}, "pipeline": {"schedule": "1f1b"}, "zero_optimization": {"stage": 3}}
IN_V = {"parallel": {"pipeline": 2}, "pipeline": {"schedule": "zb_v", "chunks": 2}, "zero_optimization": {"stage": 0}}
# ZeRO stage of the engine, where gradients are clipped, how it cuts its layers and where its stages begin then; the cut that
# saves, those that resume. Without ZeRO the engine's norm is that of its first stage's gradients, so nothing is clipped there,
# and what it saves does not name its optimizer's states, so none of ours has its losses.
RUNS = {
    "ZeRO-1": (1, 1.0, "uniform", "0,4", PIPELINE, [IN_V, UNCUT]),
    "ZeRO-0": (0, 0.0, "parameters", "0,3", IN_V, []),
}


def fail(what):
    sys.exit(f"deepspeed_resumes_our_pipeline: {what}")


def train(run, root):
    """One stage: resumes, trains, saves, trains on; rank 0 writes the losses as JSON."""
    import deepspeed
    import torch

    stage, clipping, partition, first_layers, *_ = RUNS[run]
    deepspeed.init_distributed("gloo")
    model = pipeline_module(KEYS, STAGES, partition)
    if f"0,{model.parts[1]}" != first_layers:
        raise RuntimeError(f"DeepSpeed cuts its layers at {model.parts}")
    # learning rate, betas and decay must come from the checkpoint
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, betas=(0.1, 0.1), weight_decay=0.7)
    rows = SAMPLES // MICRO_BATCHES
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config={
        "train_micro_batch_size_per_gpu": rows, "gradient_accumulation_steps": MICRO_BATCHES,
        "gradient_clipping": clipping, "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False})
    path, _ = engine.load_checkpoint(f"{root}/theirs")
    if path is None:
        raise RuntimeError("nothing was loaded")
    if engine.global_steps != SAVED or engine.global_samples != SAVED * SAMPLES:
        raise RuntimeError(f"loaded step {engine.global_steps} and sample {engine.global_samples}")
    tokens = torch.frombuffer(bytearray((pathlib.Path(root) / "corpus.txt").read_bytes()), dtype=torch.uint8).long()
    windows = torch.stack([tokens[i * COLUMNS:(i + 1) * COLUMNS + 1] for i in range(SAMPLES)])
    losses = []
    for step in range(SAVED, STEPS):
        if step == RESUMED:
            engine.save_checkpoint(f"{root}/saved")
        batches = ((part[:, :-1].clone(), part[:, 1:].clone()) for part in windows.split(rows))
        losses.append(engine.train_batch(batches).item())
    if int(os.environ["RANK"]) == 0:
        (pathlib.Path(root) / "losses.json").write_text(json.dumps(losses))
    deepspeed.comm.barrier()
    sys.stderr.flush()
    os._exit(0)  # threads of the process group may outlive the interpreter, which then aborts


def launch(run, root):
    port = free_port()
    ranks = []
    for rank in range(STAGES):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(STAGES), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=port, OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")
        ranks.append(subprocess.Popen([sys.executable, __file__, run, str(root)], env=env, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True))
    errors = [rank.communicate(timeout=600)[1][-3000:] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):  # where one fails, so does its neighbour
        fail("\n".join(f"{run}: stage {i}: {text}" for i, text in enumerate(errors)))
    return json.loads((root / "losses.json").read_text())


def losses_of(root, name, cut, clipping, steps, resume=()):
    """Of Troupe's steps of a run; `resume`: further arguments."""
    micro_batch = SAMPLES // MICRO_BATCHES
    job = {"model": {"model_type": "gpt2", **KEYS}, "data": {"text": "corpus.txt"}, "seed": 7, "steps": steps,
           "train_micro_batch_size_per_gpu": micro_batch,
           "gradient_accumulation_steps": MICRO_BATCHES // cut["parallel"].get("data", 1),
           "gradient_clipping": clipping, "optimizer": OPTIMIZER, "checkpoint": {"every_steps": SAVED},
           "telemetry": {"json_lines": True}, "output": name, **cut}
    (root / f"{name}.json").write_text(json.dumps(job))  # JSON is YAML
    subprocess.run([TROUPE, "train", f"{name}.json", "--quiet", *resume], check=True, cwd=root)
    lines = [json.loads(line) for line in (root / name / "steps.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def agree(what, got, wanted):
    worst = max((abs(a - b) for a, b in zip(got, wanted)), default=1)
    print(f"{what}: losses {', '.join(f'{x:.6f}' for x in got)}; differ by at most {worst:.1e}", flush=True)
    if len(got) != len(wanted) or not worst <= ALLOWED:
        fail(f"{what}: wanted {wanted}, got {got}")


def check(run, root):
    stage, clipping, _, first_layers, saves, resumes = RUNS[run]
    draw = random.Random(3)
    (root / "corpus.txt").write_bytes(bytes(draw.choice(b"abcdefgh ijk\n") for _ in range(COLUMNS * SAMPLES + 1)))
    (root / "names.yaml").write_text(name_rules(LAYERS))
    ours = losses_of(root, "ours", saves, clipping, RESUMED)
    subprocess.run([TROUPE, "checkpoint", "reshape", f"ours/checkpoints/step-{SAVED:08}", "theirs", "--pp", str(STAGES),
                    "--partition", first_layers, "--stage", str(stage), "--map-back", "names.yaml", "--quiet"], check=True, cwd=root)
    theirs = launch(run, root)
    agree(f"{run}: DeepSpeed from Troupe's {json.dumps(saves)}", theirs[:RESUMED - SAVED], ours[SAVED:])
    for i, cut in enumerate(resumes):
        got = losses_of(root, f"again{i}", cut, clipping, STEPS, ["--resume", "saved"])
        agree(f"{run}: Troupe's {json.dumps(cut)} from DeepSpeed", got, theirs[RESUMED - SAVED:])


if __name__ == "__main__":
    if len(sys.argv) == 3:
        train(sys.argv[1], sys.argv[2])
    else:
        for name in sys.argv[1:] or RUNS:
            with tempfile.TemporaryDirectory() as scratch:
                check(name, pathlib.Path(scratch))
