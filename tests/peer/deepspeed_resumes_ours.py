"""The real DeepSpeed resumes from what Troupe writes, with Troupe's own losses.

Troupe trains a tiny GPT-2 for six steps and keeps a checkpoint of step 3, which `troupe checkpoint to-deepspeed` and
`to-universal` make folders of. DeepSpeed engines (CPU, Gloo) with transformers' GPT-2 and AdamW load each of them; their
losses of steps 4 to 6 must be Troupe's, to the type's rounding. DeepSpeed's own converters zero_to_fp32 and
ds_to_universal must take the folders and give the bits that Troupe's checkpoint has, read here from the description in
docs/formats.md. One epoch is one batch, so that the order of samples does not matter.

Needs build/release/troupe (make build), or another named by TROUPE. Arguments: some of the RUNS alone.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from shared.rendezvous import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
COLUMNS, SAMPLES, VOCABULARY, WIDTH, LAYERS, HEADS = 32, 8, 128, 32, 2, 2
LR, DECAY, BETA2, CLIP = 3e-3, 0.1, 0.95, 1.0
SAVED, STEPS = 3, 6
# By what is trained: type of weights, whether positions are frozen and biases and norms do not decay, and what engines
# load, as folder, stage of the engine, ranks. Loading a universal folder at stage 3, DeepSpeed gives all groups the first
# one's values and one and the same tensor of steps done, so it gets one group. Stage 0 is left out in fp16: there
# DeepSpeed divides gradients by a loss scale that the loss never had, in runs of its own, too.
RUNS = {
    "two groups and a frozen parameter": ("fp32", True, [("stage0", 0, 2), ("stage1", 1, 2), ("stage2", 2, 2),
                                                         ("stage3", 3, 2), ("universal", 1, 1), ("universal", 2, 2)]),
    "one group": ("fp32", False, [("stage3", 3, 2), ("universal", 3, 2)]),
    "bf16": ("bf16", False, [("stage0", 0, 2), ("stage1", 1, 2), ("stage2", 2, 2), ("stage3", 3, 2),
                             ("universal", 2, 2), ("universal", 3, 2)]),
    "fp16": ("fp16", False, [("stage1", 1, 2), ("stage2", 2, 2), ("stage3", 3, 2),
                             ("universal", 2, 2)]),
}
# most that a loss may differ: activations of 16 bits are rounded elsewhere in torch's modules than in Troupe's
ALLOWED = {"fp32": 2e-6, "bf16": 5e-4, "fp16": 1e-4}
SCALE_POWER, SCALE_WINDOW = 8, 700  # the loss scale of fp16 begins at 2 to the first; neither is a default
JOB = f"""
model: {{model_type: gpt2, n_layer: {LAYERS}, n_embd: {WIDTH}, n_head: {HEADS}, n_positions: {COLUMNS},
        vocab_size: {VOCABULARY}, resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0}}
data: {{text: corpus.txt}}
parallel: {{data: 2}}
seed: 7
steps: {STEPS}
train_micro_batch_size_per_gpu: {SAMPLES // 2}
gradient_clipping: {CLIP}
optimizer: {{type: AdamW, params: {{lr: {LR}, betas: [0.9, {BETA2}], weight_decay: {DECAY}}}}}
zero_optimization: {{stage: 3}}
checkpoint: {{every_steps: {SAVED}}}
telemetry: {{json_lines: true}}
"""
FP16 = f"fp16: {{enabled: true, initial_scale_power: {SCALE_POWER}, loss_scale_window: {SCALE_WINDOW}}}\n"
GROUPS = "parameter_groups: [{match: wpe, trainable: false}, {match: 'bias$|ln_', weight_decay: 0}]\n"


def fail(what):
    sys.exit(f"deepspeed_resumes_ours: {what}")


def resume(run, folder, stage, ranks, root):
    """One rank: loads, trains, and rank 0 writes the losses as JSON."""
    import deepspeed
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    dtype, grouped, _ = RUNS[run]
    rank = int(os.environ["RANK"])
    torch.manual_seed(99)  # other weights than Troupe began with
    model = GPT2LMHeadModel(GPT2Config(n_layer=LAYERS, n_embd=WIDTH, n_head=HEADS, n_positions=COLUMNS,
                                       vocab_size=VOCABULARY, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                       bos_token_id=0, eos_token_id=0))
    groups = list(model.parameters())
    if grouped:
        model.transformer.wpe.weight.requires_grad_(False)
        trained = [p for p in model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.dim() >= 2]}, {"params": [p for p in trained if p.dim() < 2]}]
        if folder == "universal":  # from which DeepSpeed does not take frozen parameters
            states = torch.load(f"{root}/universal/ours/mp_rank_00_model_states.pt", weights_only=True)
            model.transformer.wpe.weight.data.copy_(states["module"]["transformer.wpe.weight"])
    # learning rate, betas and decay must come from the checkpoint
    optimizer = torch.optim.AdamW(groups, lr=0.5, betas=(0.1, 0.1), weight_decay=0.7)
    config = {
        "train_micro_batch_size_per_gpu": SAMPLES // ranks,
        "gradient_clipping": CLIP,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "checkpoint": {"load_universal": folder == "universal"},
    }
    if dtype != "fp32":
        config[dtype] = {"enabled": True}
    if dtype == "fp16":  # the CPU computes in it well enough for a few steps, though DeepSpeed does not offer it there
        deepspeed.get_accelerator().is_fp16_supported = lambda: True
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    path, _ = engine.load_checkpoint(f"{root}/{folder}")
    if path is None:
        raise RuntimeError("nothing was loaded")
    if engine.global_steps != SAVED or engine.global_samples != SAVED * SAMPLES:
        raise RuntimeError(f"loaded step {engine.global_steps} and sample {engine.global_samples}")
    if dtype == "fp16":
        scaler = engine.optimizer.loss_scaler
        if (scaler.cur_scale, scaler.cur_iter, scaler.scale_window) != (2.0**SCALE_POWER, SAVED, SCALE_WINDOW):
            raise RuntimeError(f"loaded the loss scale {vars(scaler)}")
    tokens = torch.frombuffer(bytearray((pathlib.Path(root) / "corpus.txt").read_bytes()), dtype=torch.uint8).long()
    windows = torch.stack([tokens[i * COLUMNS:(i + 1) * COLUMNS + 1] for i in range(SAMPLES)])
    mine = windows[rank * (SAMPLES // ranks):(rank + 1) * (SAMPLES // ranks)]
    losses = []
    for _ in range(STEPS - SAVED):
        logits = engine(input_ids=mine[:, :-1]).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), mine[:, 1:].reshape(-1))
        engine.backward(loss)
        engine.step()
        whole = loss.detach().clone().double()
        deepspeed.comm.all_reduce(whole)
        losses.append(whole.item() / ranks)
    if rank == 0:
        (pathlib.Path(root) / "losses.json").write_text(json.dumps(losses))
    deepspeed.comm.barrier()
    sys.stderr.flush()
    os._exit(0)  # threads of the process group may outlive the interpreter, which then aborts


def launch(run, case, root):
    port = free_port()
    (root / "losses.json").unlink(missing_ok=True)
    count = case[2]
    ranks = []
    for rank in range(count):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=port, OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")
        ranks.append(subprocess.Popen([sys.executable, __file__, run, *map(str, case), str(root)], env=env, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True))
    for rank in ranks:
        _, errors = rank.communicate(timeout=600)
        if rank.returncode != 0:
            fail(f"{run} {case}: {errors[-3000:]}")
    return json.loads((root / "losses.json").read_text())


def tensors_of_ours(folder):
    """(kind, moment, name) -> tensor, from the manifest and its byte ranges alone."""
    import torch

    manifest = json.loads((folder / "manifest.json").read_text())
    names = [f[0] for f in manifest["files"]]
    out = {}
    for t in manifest["tensors"]:
        if t["dtype"] != "fp32":
            continue
        whole = b""
        for file, _, count, offset, _ in t["pieces"]:
            with open(folder / names[file], "rb") as f:
                f.seek(offset)
                whole += f.read(4 * count)
        out[t["kind"], t["moment"], t["name"]] = torch.frombuffer(
            bytearray(whole), dtype=torch.float32).reshape(t["shape"])
    return out


def same(wanted, got, where):
    import torch

    if got.dtype != torch.float32 or got.numel() != wanted.numel() or not torch.equal(wanted.reshape(-1), got.reshape(-1)):
        fail(f"{where}: other bits than in Troupe's checkpoint")


def converters(ours, root):
    """DeepSpeed's own converters; how many tensors were compared."""
    import torch
    from deepspeed.checkpoint import ds_to_universal
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    compared = 0
    universal = {"stage1": "made1", "stage2": "made2", "stage3": "made3", "universal": None}
    for folder, made in universal.items():
        zero = root / "universal/ours/zero"
        if made is not None:
            state = get_fp32_state_dict_from_zero_checkpoint(str(root / folder))
            if state["lm_head.weight"].data_ptr() != state["transformer.wte.weight"].data_ptr():
                fail(f"{folder}: the tied head is a copy")
            for (kind, _, name), tensor in ours.items():
                if kind == "master" or (kind == "frozen" and folder != "stage1"):  # whose frozen ones it forgets
                    same(tensor, state[name], f"zero_to_fp32 of {folder}, {name}")
                    compared += 1
            ds_to_universal.main(argparse.Namespace(
                input_folder=str(root / folder / f"global_step{SAVED}"), output_folder=str(root / made / "ours"),
                num_extract_workers=1, num_merge_workers=1, keep_temp_folder=False, strict=True,
                inject_missing_state=True))
            zero = root / made / "ours/zero"
        for (kind, moment, name), tensor in ours.items():
            if kind == "frozen":
                continue
            got = torch.load(zero / name / ((moment or "fp32") + ".pt"), weights_only=False)
            same(tensor, got["param"] if isinstance(got, dict) else got, f"universal of {folder}, {moment} {name}")
            compared += 1
    return compared


def opens_safely(root):
    """Model states hold no classes; optimizer shards only those of DeepSpeed that are named here."""
    import torch
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler, LossScaler
    from deepspeed.utils.tensor_fragment import fragment_address

    for path in root.rglob("*_model_states.pt"):
        torch.load(path, weights_only=True)
    torch.serialization.add_safe_globals([DynamicLossScaler, LossScaler, fragment_address])
    for path in [*root.rglob("*_optim_states.pt"), *root.rglob("optimizer_state.pt")]:
        torch.load(path, weights_only=True)


def check(run, root):
    dtype, grouped, cases = RUNS[run]
    draw = random.Random(3)
    (root / "corpus.txt").write_bytes(bytes(draw.choice(b"abcdefgh ijk\n") for _ in range(COLUMNS * SAMPLES + 1)))
    (root / "job.yaml").write_text(JOB + (GROUPS if grouped else "") +
                                   (f"{dtype}: {{enabled: true}}\n" if dtype == "bf16" else "") +
                                   (FP16 if dtype == "fp16" else ""))
    subprocess.run([TROUPE, "train", str(root / "job.yaml"), "--quiet", "--set", f"output={root}/run"], check=True)
    lines = [json.loads(line) for line in (root / "run/steps.jsonl").read_text().splitlines()]
    wanted = [line["loss"] for line in lines if "loss" in line and line["step"] > SAVED]
    if len(wanted) != STEPS - SAVED:
        fail(f"Troupe's own losses are {wanted}")
    saved = root / f"run/checkpoints/step-{SAVED:08}"
    convert = [TROUPE, "checkpoint"]
    for stage in range(4):
        subprocess.run([*convert, "to-deepspeed", str(saved), str(root / f"stage{stage}"), "--stage", str(stage), "--ranks",
                        "2", "--dtype", dtype, "--quiet"], check=True)
    (root / "universal").mkdir()
    subprocess.run([*convert, "to-universal", str(saved), str(root / "universal/ours"), "--dtype", dtype, "--quiet"],
                   check=True)
    opens_safely(root)
    for case in cases:
        got = launch(run, case, root)
        worst = max(abs(a - b) for a, b in zip(wanted, got))
        print(f"{run}: {case[0]} into stage {case[1]} on {case[2]}: losses {', '.join(f'{x:.6f}' for x in got)}; "
              f"at most {worst:.1e} from Troupe's", flush=True)
        if len(got) != len(wanted) or not worst <= ALLOWED[dtype]:
            fail(f"{run} {case}: wanted {wanted}, got {got}")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        compared = converters(tensors_of_ours(saved), root)
    print(f"{run}: DeepSpeed's converters give {compared} tensors the bits of Troupe's checkpoint", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 6:
        resume(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        for name in sys.argv[1:] or RUNS:
            with tempfile.TemporaryDirectory() as scratch:
                check(name, pathlib.Path(scratch))
