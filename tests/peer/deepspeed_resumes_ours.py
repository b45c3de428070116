"""The real DeepSpeed goes on from what Troupe writes, with the losses that Troupe itself has.

Troupe trains a tiny GPT-2 for six steps and keeps a checkpoint of step 3, which becomes DeepSpeed folders of stages 0
to 3 and a universal one. For each of them DeepSpeed engines (CPU, Gloo) with transformers' GPT-2, its AdamW in two
parameter groups, load it; their losses of steps 4 to 6 must be Troupe's to fp32 rounding. DeepSpeed's own converters
zero_to_fp32 and ds_to_universal must take the folders and give the bits that Troupe's checkpoint has, read here from
the description in docs/formats.md. One epoch is one batch, so that the order of samples does not matter.

Needs build/release (make build), or programs named by TROUPE and TESTS.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
TESTS = os.environ.get("TESTS", str(ROOT / "build/release/tests/checkpoint/tests_checkpoint"))
COLUMNS, SAMPLES, VOCABULARY, WIDTH, LAYERS, HEADS = 32, 8, 128, 32, 2, 2
LR, DECAY, BETA2, CLIP = 3e-3, 0.1, 0.95, 1.0
SAVED, STEPS = 3, 6
# what the engines load: folder, stage of the engine, ranks, most that a loss may differ
CASES = {
    "stage 0": ("stage0", 0, 2, 2e-6),
    "stage 1": ("stage1", 1, 2, 2e-6),
    "stage 2": ("stage2", 2, 2, 2e-6),
    "stage 3": ("stage3", 3, 2, 2e-6),
    "universal, stage 1 on one rank": ("universal", 1, 1, 2e-6),
    "universal, stage 2": ("universal", 2, 2, 2e-6),
    "universal, stage 3": ("universal", 3, 2, 2e-6),
}
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


def fail(what):
    sys.exit(f"deepspeed_resumes_ours: {what}")


def resume(case, root):
    """One rank: loads, trains, and rank 0 prints the losses as JSON."""
    import deepspeed
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    folder, stage, ranks, _ = CASES[case]
    rank = int(os.environ["RANK"])
    torch.manual_seed(99)  # other weights than Troupe began with
    model = GPT2LMHeadModel(GPT2Config(n_layer=LAYERS, n_embd=WIDTH, n_head=HEADS, n_positions=COLUMNS,
                                       vocab_size=VOCABULARY, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                       bos_token_id=0, eos_token_id=0))
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2]},
              {"params": [p for p in model.parameters() if p.dim() < 2]}]
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
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    path, _ = engine.load_checkpoint(f"{root}/{folder}")
    if path is None:
        raise RuntimeError("nothing was loaded")
    if engine.global_steps != SAVED or engine.global_samples != SAVED * SAMPLES:
        raise RuntimeError(f"loaded step {engine.global_steps} and sample {engine.global_samples}")
    tokens = torch.frombuffer(bytearray((pathlib.Path(root) / "corpus.txt").read_bytes()), dtype=torch.uint8).long()
    windows = torch.stack([tokens[i * COLUMNS:(i + 1) * COLUMNS + 1] for i in range(SAMPLES)])
    mine = windows[rank * (SAMPLES // ranks):(rank + 1) * (SAMPLES // ranks)]
    losses = []
    for _ in range(STEPS - SAVED):
        logits = engine(input_ids=mine[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), mine[:, 1:].reshape(-1))
        engine.backward(loss)
        engine.step()
        whole = loss.detach().clone().double()
        deepspeed.comm.all_reduce(whole)
        losses.append(whole.item() / ranks)
    if rank == 0:
        (pathlib.Path(root) / "losses.json").write_text(json.dumps(losses))


def launch(case, root):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    count = CASES[case][2]
    ranks = []
    for rank in range(count):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")
        ranks.append(subprocess.Popen([sys.executable, __file__, case, str(root)], env=env, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.PIPE, text=True))
    for rank in ranks:
        _, errors = rank.communicate(timeout=600)
        if rank.returncode != 0:
            fail(f"{case}: {errors[-3000:]}")
    return json.loads((root / "losses.json").read_text())


def tensors_of_ours(folder):
    """(kind, moment, name) -> tensor, from the manifest and its byte ranges alone."""
    import torch

    manifest = json.loads((folder / "manifest.json").read_text())
    names = [f["name"] for f in manifest["files"]]
    out = {}
    for t in manifest["tensors"]:
        whole = b""
        for piece in t["pieces"]:
            file, _, count, offset = piece[:4] if isinstance(piece, list) else (
                piece["file"], piece["first"], piece["count"], piece["offset"])
            with open(folder / names[file], "rb") as f:
                f.seek(offset)
                whole += f.read(4 * count)
        out[t["kind"], t.get("moment", ""), t["name"]] = torch.frombuffer(
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
                if kind == "master":
                    same(tensor, state[name], f"zero_to_fp32 of {folder}, {name}")
                    compared += 1
            ds_to_universal.main(argparse.Namespace(
                input_folder=str(root / folder / "ours"), output_folder=str(root / made / "ours"),
                num_extract_workers=1, num_merge_workers=1, keep_temp_folder=False, strict=True,
                inject_missing_state=True))
            zero = root / made / "ours/zero"
        for (kind, moment, name), tensor in ours.items():
            got = torch.load(zero / name / ((moment or "fp32") + ".pt"), weights_only=False)
            same(tensor, got["param"] if isinstance(got, dict) else got, f"universal of {folder}, {moment} {name}")
            compared += 1
    return compared


def opens_safely(root):
    """Model states hold no class of anybody's; optimizer shards only those of DeepSpeed that are named here."""
    import torch
    from deepspeed.runtime.fp16.loss_scaler import LossScaler
    from deepspeed.utils.tensor_fragment import fragment_address

    for path in root.rglob("*_model_states.pt"):
        torch.load(path, weights_only=True)
    torch.serialization.add_safe_globals([LossScaler, fragment_address])
    for path in [*root.rglob("*_optim_states.pt"), *root.rglob("optimizer_state.pt")]:
        torch.load(path, weights_only=True)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        draw = random.Random(3)
        (root / "corpus.txt").write_bytes(bytes(draw.choice(b"abcdefgh ijk\n") for _ in range(COLUMNS * SAMPLES + 1)))
        (root / "job.yaml").write_text(JOB)
        subprocess.run([TROUPE, "train", str(root / "job.yaml"), "--quiet", "--set", f"output={root}/run"], check=True)
        lines = [json.loads(line) for line in (root / "run/steps.jsonl").read_text().splitlines()]
        wanted = [line["loss"] for line in lines if "loss" in line and line["step"] > SAVED]
        if len(wanted) != STEPS - SAVED:
            fail(f"Troupe's own losses are {wanted}")
        saved = root / f"run/checkpoints/step-{SAVED:08}"
        subprocess.run([TESTS, "--run_test=deepspeed_peer"], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, TROUPE_DEEPSPEED_FROM=str(saved), TROUPE_DEEPSPEED_TO=str(root),
                                TROUPE_DEEPSPEED_LR=str(LR), TROUPE_DEEPSPEED_BETA2=str(BETA2),
                                TROUPE_DEEPSPEED_WEIGHT_DECAY=str(DECAY)))
        opens_safely(root)
        for case, (*_, allowed) in CASES.items():
            got = launch(case, root)
            worst = max(abs(a - b) for a, b in zip(wanted, got))
            print(f"{case}: losses {', '.join(f'{x:.6f}' for x in got)}; at most {worst:.1e} from Troupe's", flush=True)
            if len(got) != len(wanted) or not worst <= allowed:
                fail(f"{case}: wanted {wanted}, got {got}")
        compared = converters(tensors_of_ours(saved), root)
        print(f"DeepSpeed's converters: {compared} tensors with the bits of Troupe's checkpoint")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        resume(sys.argv[1], sys.argv[2])
    else:
        if not pathlib.Path(TESTS).exists():
            subprocess.run(["ninja", "-C", str(ROOT / "build/release"), "tests_checkpoint"], check=True)
        main()
