"""Troupe resumes from what PyTorch's own torch.distributed.checkpoint saved, and PyTorch from what Troupe writes.

Four processes on the CPU (Gloo) train a model of transformers' of about two thousand parameters for three steps, save
with dcp.save(), and train three more:
  gpt2_fsdp    GPT-2 by FSDP2 (fully_shard) on four ranks; the embedding is tied to the head
  llama_2d     Llama by FSDP2 over two ranks and tensor parallelism over two; its weights also by
               HuggingFaceStorageWriter, as llama_2d_hf: shards, and the files that they were consolidated to
Writes tests/formats/fixtures/distributed/<case>/: the folder, and beside it <case>.losses with the three and
<case>.safetensors with all values; corpus.txt is what both read. One epoch is one batch, so that the order of samples does not matter. Then
`troupe train --resume` must have those losses; and Troupe trains one step more, saves, `troupe checkpoint to-dcp` writes
a folder, dcp.load() reads it on the four ranks, and PyTorch continues with Troupe's losses.

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
OUT = ROOT / "tests/formats/fixtures/distributed"
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
COLUMNS, SAMPLES, VOCABULARY = 8, 6, 128
SAVED, STEPS, RANKS, TENSOR = 3, 6, 4, 2
ALLOWED = 2e-6
OPTIMIZER = {"lr": 3e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}
MODELS = {
    "gpt2_fsdp": {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": COLUMNS,
                  "vocab_size": VOCABULARY, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0},
    "llama_2d": {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 12,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": COLUMNS,
                 "vocab_size": VOCABULARY},
}


def windows():
    import torch

    tokens = torch.frombuffer(bytearray((OUT / "corpus.txt").read_bytes()), dtype=torch.uint8).long()
    return torch.stack([tokens[i * COLUMNS:(i + 1) * COLUMNS + 1] for i in range(SAMPLES)])


def cut_model(case):
    """The model over the mesh, and which of the samples this rank has: those of its place among the data ranks."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(5)
    keys = dict(MODELS[case])
    config = AutoConfig.for_model(keys.pop("model_type"), **keys, bos_token_id=0, eos_token_id=0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for p in model.parameters():  # larger than at first, so that three steps show what was loaded
            if p.dim() >= 2:
                p.mul_(10)
    if case == "gpt2_fsdp":
        mesh = init_device_mesh("cpu", (RANKS,))
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, mesh, RANKS
    mesh = init_device_mesh("cpu", (RANKS // TENSOR, TENSOR), mesh_dim_names=("data", "tensor"))
    for layer in model.model.layers:
        parallelize_module(layer, mesh["tensor"], {
            **{f"self_attn.{x}_proj": ColwiseParallel() for x in "qkv"}, "self_attn.o_proj": RowwiseParallel(),
            "mlp.gate_proj": ColwiseParallel(), "mlp.up_proj": ColwiseParallel(), "mlp.down_proj": RowwiseParallel()})
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    return model, mesh["data"], RANKS // TENSOR


def train(case, load_from):
    """One rank. `load_from`: a folder to begin with; else three steps come first, and are saved."""
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    dist.init_process_group("gloo")
    model, mesh, parts = cut_model(case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=OPTIMIZER["lr"], betas=tuple(OPTIMIZER["betas"]),
                                  weight_decay=OPTIMIZER["weight_decay"], foreach=False)
    samples = windows()
    # every rank has all samples where they cannot be dealt evenly: the mean over ranks is the same
    mine = samples if SAMPLES % parts else samples[mesh.get_local_rank() * SAMPLES // parts:][:SAMPLES // parts]
    if load_from:
        weights, states = get_state_dict(model, optimizer)
        loaded = {"model": weights, "optim": states}
        dcp.load(loaded, checkpoint_id=load_from)
        set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optim"])
    losses = []
    for step in range(SAVED if load_from else 0, STEPS):
        if step == SAVED and not load_from:
            weights, states = get_state_dict(model, optimizer)
            dcp.save({"model": weights, "optim": states, "note": "kept"}, checkpoint_id=case)
            if case == "llama_2d":
                dcp.save(weights, storage_writer=HuggingFaceStorageWriter(
                    f"{case}_hf", save_distributed=True, enable_consolidation=True))
        logits = model(input_ids=mine[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, VOCABULARY), mine[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        whole = loss.detach().clone().double()
        dist.all_reduce(whole)
        losses.append(whole.item() / RANKS)
    if dist.get_rank() == 0:
        pathlib.Path(f"{case}.losses").write_text("".join(f"{loss!r}\n" for loss in losses[-(STEPS - SAVED):]))
    dist.barrier()
    sys.stderr.flush()
    os._exit(0)  # threads of the process group may outlive the interpreter, which then aborts


def launch(case, folder, load_from=""):
    """The four ranks, in `folder`: the list in a checkpoint has the path that it was saved by."""
    port = free_port()
    ranks = []
    for rank in range(RANKS):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=port, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        ranks.append(subprocess.Popen([sys.executable, __file__, case, load_from], env=env, cwd=folder,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for rank in ranks:
        _, errors = rank.communicate(timeout=600)
        if rank.returncode != 0:
            sys.exit(f"troupe_resumes_distributed: {case}: {errors[-3000:]}")
    return [float(line) for line in (folder / f"{case}.losses").read_text().split()]


def write_values(case):
    """Weights by name and moments as NAME/exp_avg, as PyTorch puts them together."""
    import torch
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    with tempfile.TemporaryDirectory() as scratch:
        dcp_to_torch_save(OUT / case, f"{scratch}/whole.pt")
        whole = torch.load(f"{scratch}/whole.pt", weights_only=False)
    values = {name: t.clone() for name, t in whole["model"].items()}
    for name, states in whole["optim"]["state"].items():
        values.update({f"{name}/{state}": t for state, t in states.items() if state != "step"})
    save_file(values, OUT / f"{case}.safetensors")


def resume(case, root, start, ranks, stage, steps=STEPS):
    """The losses of Troupe's steps behind a checkpoint."""
    job = {"model": MODELS[case], "data": {"text": str(OUT / "corpus.txt")}, "parallel": {"data": ranks}, "seed": 7,
           "steps": steps, "train_micro_batch_size_per_gpu": SAMPLES // ranks, "gradient_clipping": 0,
           "optimizer": {"type": "AdamW", "params": OPTIMIZER}, "zero_optimization": {"stage": stage},
           "checkpoint": {"every_steps": STEPS - 1}, "telemetry": {"json_lines": True}}
    (root / "job.yaml").write_text(json.dumps(job))  # JSON is YAML
    run = root / f"run-{ranks}-{stage}"
    subprocess.run([TROUPE, "train", str(root / "job.yaml"), "--quiet", "--resume", str(start), "--set",
                    f"output={run}"], check=True)
    return run, [line["loss"] for line in map(json.loads, (run / "steps.jsonl").read_text().splitlines())
                 if "loss" in line]


def compare(what, wanted, got):
    if len(got) != len(wanted):
        sys.exit(f"troupe_resumes_distributed: {what}: wanted {len(wanted)} losses, got {len(got)}")
    worst = max(abs(a - b) / b for a, b in zip(got, wanted))
    print(f"{what}: losses differ by {worst:.2g}", flush=True)
    if not worst <= ALLOWED:
        sys.exit(f"troupe_resumes_distributed: {what}: wanted {wanted}, got {got}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        train(sys.argv[1], sys.argv[2])
    OUT.mkdir(parents=True, exist_ok=True)
    draw = random.Random(3)
    (OUT / "corpus.txt").write_bytes(bytes(draw.choice(b"abcdefgh ijk\n") for _ in range(COLUMNS * SAMPLES + 1)))
    for name in MODELS:
        for folder in (name, f"{name}_hf"):
            shutil.rmtree(OUT / folder, ignore_errors=True)
        wanted = launch(name, OUT)
        write_values(name)
        if not TROUPE:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for ranks, stage in [(1, 0), (2, 3), (3, 1)]:
                run, got = resume(name, root, OUT / name, ranks, stage)
                compare(f"{name} resumed on {ranks} ranks at stage {stage}", wanted, got)
            subprocess.run([TROUPE, "checkpoint", "to-dcp", str(OUT / name), str(root / "theirs"), "--quiet",
                            "--ranks", "3", "--job", str(root / "job.yaml")], check=True)
            compare(f"{name} loaded by PyTorch", wanted, launch(name, root, str(root / "theirs")))
