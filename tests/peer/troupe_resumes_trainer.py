"""Troupe resumes from what transformers' Trainer and Accelerate saved.

One process on the CPU trains a model of transformers' of about two thousand parameters for three steps, saves, and
trains three more:
  trainer_gpt2      Trainer on GPT-2: checkpoint-3 with model.safetensors, optimizer.pt of two groups, clipping
  trainer_llama     the same of Llama, whose norms have another name
  trainer_llama_frozen  of Llama whose embedding is not trained, so that the optimizer does not know it
  accelerate_gpt2   Accelerator.save_state() with pytorch_model.bin, optimizer.bin of one group
  accelerate_llama  the same with model.safetensors
  accelerate_llama_sgd  with SGD, which counts no steps, and without a schedule: the run begins at step 0
Writes tests/formats/fixtures/trainer/<case>/: the folder, and beside it <case>.losses with the last three and
<case>.safetensors with the weights and moments by name; corpus.txt is what both read. One epoch is one batch, so that the
order of samples does not matter. Then `troupe train --resume` must have those losses.

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

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/formats/fixtures/trainer"
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
COLUMNS, SAMPLES, VOCABULARY = 8, 6, 128
SAVED, STEPS = 3, 6
ALLOWED = 2e-6
LEARNING_RATE, BETAS, DECAY, MOMENTUM = 3e-3, (0.9, 0.95), 0.1, 0.9
MODELS = {
    "gpt2": {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": COLUMNS,
             "vocab_size": VOCABULARY, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
    "llama": {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 12,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": COLUMNS,
              "vocab_size": VOCABULARY},
}
CASES = ["trainer_gpt2", "trainer_llama", "trainer_llama_frozen", "accelerate_gpt2", "accelerate_llama", "accelerate_llama_sgd"]


def make_model(family):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(5)
    keys = dict(MODELS[family])
    config = AutoConfig.for_model(keys.pop("model_type"), **keys, bos_token_id=0, eos_token_id=0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for p in model.parameters():  # larger than at first, so that three steps show what was loaded
            if p.dim() >= 2:
                p.mul_(10)
    return model


def windows():
    import torch

    tokens = torch.frombuffer(bytearray((OUT / "corpus.txt").read_bytes()), dtype=torch.uint8).long()
    return torch.stack([tokens[i * COLUMNS:(i + 1) * COLUMNS + 1] for i in range(SAMPLES)])


def loss_of(model, rows):
    import torch

    logits = model(input_ids=rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.float().reshape(-1, VOCABULARY), rows[:, 1:].reshape(-1))


def write_values(case, model, optimizer):
    """Weights by name and moments as NAME/exp_avg, each of the parameter itself."""
    from safetensors.torch import save_file

    values = {}
    for name, p in model.named_parameters():
        values[name] = p.detach().clone()
        values.update({f"{name}/{key}": t.clone() for key, t in optimizer.state.get(p, {}).items() if key != "step"})
    save_file(values, OUT / f"{case}.safetensors")


def by_trainer(case, family):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    losses = []

    class Recorder(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, **_):
            loss = loss_of(model, inputs["rows"])
            losses.append(loss.item())
            return loss

    class Values(TrainerCallback):
        def on_save(self, args, state, control, model=None, optimizer=None, **_):
            if state.global_step == SAVED:
                write_values(case, model, getattr(optimizer, "optimizer", optimizer))

    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir="run", max_steps=STEPS, save_steps=SAVED, per_device_train_batch_size=SAMPLES,
            learning_rate=LEARNING_RATE, adam_beta1=BETAS[0], adam_beta2=BETAS[1], weight_decay=DECAY,
            lr_scheduler_type="constant", max_grad_norm=1.0, logging_steps=1, report_to=[], use_cpu=True,
            remove_unused_columns=False, seed=5, disable_tqdm=True, log_level="error")
        os.chdir(scratch)  # what is saved names no path of this machine
        model = make_model(family)
        if case.endswith("_frozen"):
            model.model.embed_tokens.weight.requires_grad_(False)
        trainer = Recorder(model=model, args=arguments, train_dataset=[{"rows": row} for row in windows()],
                           callbacks=[Values()])
        trainer.train()
        shutil.copytree(f"run/checkpoint-{SAVED}", OUT / case / f"checkpoint-{SAVED}")
        os.chdir(ROOT)
    return losses[SAVED:]


def by_accelerate(case, family):
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = make_model(family)
    if case.endswith("_sgd"):
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, foreach=False)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=DECAY,
                                      foreach=False)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    prepared, deal = accelerator.prepare(model, optimizer)
    plan = schedule if case.endswith("_sgd") else accelerator.prepare(schedule)
    rows, losses = windows(), []
    for step in range(STEPS):
        if step == SAVED:
            accelerator.save_state(str(OUT / case), safe_serialization=family == "llama")
            write_values(case, model, optimizer)
        loss = loss_of(prepared, rows)
        accelerator.backward(loss)
        deal.step()
        plan.step()
        deal.zero_grad()
        losses.append(loss.item())
    (OUT / case / "config.json").write_text(json.dumps(MODELS[family]) + "\n")  # which save_state() leaves to the user
    return losses[SAVED:]


def resume(case, root, ranks, stage):
    """The losses of Troupe's steps behind the checkpoint."""
    program, family = case.split("_")[:2]
    counts = not case.endswith("_sgd")
    adam = {"type": "AdamW", "params": {"lr": LEARNING_RATE, "betas": list(BETAS), "weight_decay": DECAY}}
    sgd = {"type": "SGD", "params": {"lr": LEARNING_RATE, "momentum": MOMENTUM}}
    groups = [{"match": "bias|norm|ln_", "weight_decay": 0}] if program == "trainer" else []
    if case.endswith("_frozen"):
        groups.append({"match": "embed_tokens", "trainable": False})
    job = {"model": MODELS[family], "data": {"text": str(OUT / "corpus.txt")}, "parallel": {"data": ranks}, "seed": 7,
           "steps": STEPS if counts else STEPS - SAVED, "train_micro_batch_size_per_gpu": SAMPLES // ranks,
           "gradient_clipping": 1.0 if program == "trainer" else 0, "parameter_groups": groups,
           "optimizer": adam if counts else sgd,
           "zero_optimization": {"stage": stage}, "telemetry": {"json_lines": True}}
    (root / "job.yaml").write_text(json.dumps(job))  # JSON is YAML
    run = root / f"run-{ranks}-{stage}"
    subprocess.run([TROUPE, "train", str(root / "job.yaml"), "--quiet", "--resume", str(OUT / case), "--set",
                    f"output={run}"], check=True)
    return [line["loss"] for line in map(json.loads, (run / "steps.jsonl").read_text().splitlines()) if "loss" in line]


def compare(what, wanted, got):
    if len(got) != len(wanted):
        sys.exit(f"troupe_resumes_trainer: {what}: wanted {len(wanted)} losses, got {len(got)}")
    worst = max(abs(a - b) / b for a, b in zip(got, wanted))
    print(f"{what}: losses differ by {worst:.2g}", flush=True)
    if not worst <= ALLOWED:
        sys.exit(f"troupe_resumes_trainer: {what}: wanted {wanted}, got {got}")


if __name__ == "__main__":
    wanted_cases = sys.argv[1:] or CASES  # others stay as they are
    if not sys.argv[1:]:
        shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    (OUT / "corpus.txt").write_bytes(bytes(draw.choice(b"abcdefgh ijk\n") for _ in range(COLUMNS * SAMPLES + 1)))
    for name in wanted_cases:
        program, family = name.split("_")[:2]
        shutil.rmtree(OUT / name, ignore_errors=True)
        wanted = (by_trainer if program == "trainer" else by_accelerate)(name, family)
        (OUT / f"{name}.losses").write_text("".join(f"{loss!r}\n" for loss in wanted))
        if not TROUPE:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            for ranks, stage in [(1, 0), (2, 3)]:
                compare(f"{name} resumed on {ranks} ranks at stage {stage}", wanted,
                        resume(name, pathlib.Path(scratch), ranks, stage))
