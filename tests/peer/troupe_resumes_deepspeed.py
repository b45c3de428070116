"""Troupe resumes from what the real DeepSpeed saved, with DeepSpeed's own losses.

Two processes on the CPU (Gloo) train transformers' GPT-2 of about two thousand parameters with DeepSpeed for three
steps, save, and train three more. Writes tests/formats/fixtures/deepspeed_gpt2/<case>/: the folder, which
tests/parity resumes at many degrees, and beside it <case>.losses with the three; corpus.txt is what both read. One
epoch is one batch, so that the order of samples does not matter. The case `pipeline_fp32` is the same model as a
PipelineModule of two stages, the embedding tied to the head, which its norm counts once. Every case clips, and says so:
DeepSpeed clips to 1.0 where nothing is said, too. Then `troupe train --resume` must have those losses, to the type's
rounding.

Needs build/release/troupe (make build), or another named by TROUPE; TROUPE= (empty) makes the fixtures alone.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

from shared.rendezvous import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/formats/fixtures/deepspeed_gpt2"
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
COLUMNS, SAMPLES, VOCABULARY, WIDTH, LAYERS, HEADS = 8, 6, 128, 8, 1, 2
SAVED, STEPS, RANKS = 3, 6, 2
CASES = {"stage1_bf16": (1, "bf16"), "stage2_fp32": (2, "fp32"), "stage3_fp32": (3, "fp32"),
         "pipeline_fp32": (1, "fp32")}
PIPELINE = "pipeline_fp32"
ALLOWED = {"fp32": 2e-6, "bf16": 2e-3}
CLIPPING = 1.0
OPTIMIZER = {"type": "AdamW", "params": {"lr": 3e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}}
SCHEDULER = {"type": "WarmupLR", "params": {"warmup_min_lr": 1e-4, "warmup_max_lr": 3e-3, "warmup_num_steps": 10,
                                            "warmup_type": "linear"}}
MODEL = {"n_layer": LAYERS, "n_embd": WIDTH, "n_head": HEADS, "n_positions": COLUMNS, "vocab_size": VOCABULARY,
         "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}


def draw_weights(model):
    """Weights larger than GPT-2's initial ones, so that three steps show what was loaded."""
    import torch

    with torch.no_grad():
        for p in model.parameters():
            if p.dim() >= 2:
                p.mul_(10)


def windows():
    import torch

    tokens = torch.frombuffer(bytearray((OUT / "corpus.txt").read_bytes()), dtype=torch.uint8).long()
    return torch.stack([tokens[i * COLUMNS:(i + 1) * COLUMNS + 1] for i in range(SAMPLES)])


def train_pipeline(case):
    """One stage of two; each micro-batch is half of the samples."""
    import deepspeed
    import torch
    from shared.gpt2_layers import pipeline_module

    deepspeed.init_distributed("gloo")
    torch.manual_seed(5)
    model = pipeline_module(MODEL, RANKS, "uniform")
    given = OPTIMIZER["params"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=given["lr"], betas=tuple(given["betas"]),
                                  weight_decay=given["weight_decay"])
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config={
        "train_micro_batch_size_per_gpu": SAMPLES // RANKS, "gradient_accumulation_steps": RANKS,
        "gradient_clipping": CLIPPING, "scheduler": SCHEDULER, "zero_optimization": {"stage": CASES[case][0]},
        "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False})
    half = SAMPLES // RANKS
    samples = windows()
    losses = []
    for step in range(STEPS):
        if step == SAVED:
            engine.save_checkpoint(str(OUT / case), client_state={"note": "kept"})
        batches = ((samples[i * half:(i + 1) * half, :-1].clone(), samples[i * half:(i + 1) * half, 1:].clone())
                   for i in range(RANKS))
        losses.append(engine.train_batch(batches).item())
    if int(os.environ["RANK"]) == 0:
        (OUT / f"{case}.losses").write_text("".join(f"{loss!r}\n" for loss in losses[SAVED:]))
    deepspeed.comm.barrier()
    sys.stderr.flush()
    os._exit(0)


def train(case):
    """One rank; rank 0 writes the losses of the steps behind the checkpoint."""
    import deepspeed
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    stage, dtype = CASES[case]
    rank = int(os.environ["RANK"])
    torch.manual_seed(5)
    model = GPT2LMHeadModel(GPT2Config(**MODEL, bos_token_id=0, eos_token_id=0))
    draw_weights(model)
    given = OPTIMIZER["params"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=given["lr"], betas=tuple(given["betas"]),
                                  weight_decay=given["weight_decay"])
    config = {
        "train_micro_batch_size_per_gpu": SAMPLES // RANKS,
        "gradient_clipping": CLIPPING,
        "scheduler": SCHEDULER,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    if dtype != "fp32":
        config[dtype] = {"enabled": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    mine = windows()[rank * (SAMPLES // RANKS):(rank + 1) * (SAMPLES // RANKS)]
    losses = []
    for step in range(STEPS):
        if step == SAVED:
            engine.save_checkpoint(str(OUT / case), client_state={"note": "kept"})
        logits = engine(input_ids=mine[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, VOCABULARY), mine[:, 1:].reshape(-1))
        engine.backward(loss)
        engine.step()
        whole = loss.detach().clone().double()
        deepspeed.comm.all_reduce(whole)
        losses.append(whole.item() / RANKS)
    if rank == 0:
        (OUT / f"{case}.losses").write_text("".join(f"{loss!r}\n" for loss in losses[SAVED:]))
    deepspeed.comm.barrier()
    sys.stderr.flush()
    os._exit(0)  # threads of the process group may outlive the interpreter, which then aborts


def launch(case):
    port = free_port()
    shutil.rmtree(OUT / case, ignore_errors=True)
    ranks = []
    for rank in range(RANKS):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=port, OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")
        ranks.append(subprocess.Popen([sys.executable, __file__, case], env=env, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True))
    for rank in ranks:
        _, errors = rank.communicate(timeout=600)
        if rank.returncode != 0:
            sys.exit(f"troupe_resumes_deepspeed: {case}: {errors[-3000:]}")
    for script in (OUT / case).glob("*.py"):  # DeepSpeed's own converters
        script.unlink()


def resume(case, ranks, stage):
    """The losses of Troupe's steps behind DeepSpeed's checkpoint."""
    dtype = CASES[case][1]
    job = {
        "model": {"model_type": "gpt2", **MODEL}, "data": {"text": str(OUT / "corpus.txt")},
        "parallel": {"data": ranks}, "seed": 7, "steps": STEPS, "train_micro_batch_size_per_gpu": SAMPLES // ranks,
        "gradient_clipping": CLIPPING, "optimizer": OPTIMIZER, "scheduler": SCHEDULER,
        "zero_optimization": {"stage": stage}, "telemetry": {"json_lines": True},
    }
    if dtype != "fp32":
        job[dtype] = {"enabled": True}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "job.yaml").write_text(json.dumps(job))  # JSON is YAML
        subprocess.run([TROUPE, "train", str(root / "job.yaml"), "--quiet", "--resume", str(OUT / case), "--set",
                        f"output={root}/run"], check=True)
        lines = [json.loads(line) for line in (root / "run/steps.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


if __name__ == "__main__":
    if len(sys.argv) == 2:
        train_pipeline(sys.argv[1]) if sys.argv[1] == PIPELINE else train(sys.argv[1])
    OUT.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    (OUT / "corpus.txt").write_bytes(bytes(draw.choice(b"abcdefgh ijk\n") for _ in range(COLUMNS * SAMPLES + 1)))
    for name in CASES:
        launch(name)
        wanted = [float(line) for line in (OUT / f"{name}.losses").read_text().split()]
        for ranks, stage in [(1, 0), (2, 3), (3, 1)] if TROUPE else []:
            got = resume(name, ranks, stage)
            if len(got) != len(wanted):
                sys.exit(f"troupe_resumes_deepspeed: {name}: {len(got)} losses")
            worst = max(abs(a - b) / b for a, b in zip(got, wanted))
            print(f"{name} on {ranks} ranks at stage {stage}: losses differ by {worst:.2g}")
            if not worst <= ALLOWED[CASES[name][1]]:
                sys.exit(f"troupe_resumes_deepspeed: {name}: wanted {wanted}, got {got}")
