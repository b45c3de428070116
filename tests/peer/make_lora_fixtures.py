"""LoRA adapters of tiny models as PEFT saves them, and what peft computes with them:
tests/models/fixtures/lora_<base>/ and tests/parity/fixtures/lora.json.

The bases are the models of make_model_fixtures.py. adapter_config.json and adapter_model.safetensors are what
save_pretrained() writes, with matrices B that are not 0. expected.safetensors holds tokens (B, T + 1), logits
(B, T, V), loss and the gradient of every trained parameter under `grad.<parameter>`, in fp32. lora.json has the losses
of steps of AdamW in fp64 that begin with the adapter and have the whole text as their batch, and the sum and the norm
of every trained parameter behind them. Needs peft; run by `make peer` where it is installed. The results are committed.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

try:
    from peft import LoraConfig, get_peft_model
except ImportError:
    print("make_lora_fixtures: no peft: fixtures kept")
    sys.exit(0)
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS, PARITY = ROOT / "tests/models/fixtures", ROOT / "tests/parity/fixtures"
STEPS, ROWS, COLUMNS = 4, 4, 16
ADAMW = dict(lr=1e-2, betas=[0.9, 0.999], eps=1e-5, weight_decay=0.1)

ADAPTERS = {
    "llama": dict(r=3, lora_alpha=7, target_modules="all-linear", modules_to_save=["lm_head"]),
    "gpt2": dict(r=2, lora_alpha=3, use_rslora=True, target_modules=["c_attn", "c_proj"]),
    "phi3": dict(r=2, lora_alpha=2, init_lora_weights="gaussian", target_modules=["qkv_proj", "down_proj"]),
}


def adapted(name, options, dtype=torch.float32):
    """The base with an adapter of random values, the same for every type."""
    base = AutoModelForCausalLM.from_pretrained(MODELS / name, dtype=torch.float32)
    torch.manual_seed(11)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **options))
    for parameter_name, parameter in model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.2)
    model.peft_config["default"].base_model_name_or_path = f"somebody/tiny-{name}"
    return model.to(dtype)


def plain(name):
    """A parameter's name in adapter_model.safetensors, without its beginning."""
    return name.removeprefix("base_model.model.").replace(".default", "").replace(".modules_to_save", "")


def trained(model):
    return {plain(name): parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def loss_of(model, tokens):
    logits = model(tokens[:, :-1]).logits
    return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def make_folder(name, options):
    folder = MODELS / f"lora_{name}"
    model = adapted(name, options)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["target_modules"] = sorted(config["target_modules"])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tokens = load_file(MODELS / name / "expected.safetensors")["tokens"]
    logits, loss = loss_of(model, tokens)
    loss.backward()
    expected = {"tokens": tokens, "logits": logits.detach().contiguous(), "loss": loss.detach()}
    for parameter_name, parameter in trained(model).items():
        expected["grad." + parameter_name] = parameter.grad.contiguous()
    save_file(expected, folder / "expected.safetensors")


def steps_of(name, options, tokens):
    model = adapted(name, options, torch.float64)
    optimizer = torch.optim.AdamW(trained(model).values(), **ADAMW)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        _, loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    ends = {n: [p.sum().item(), p.norm().item()] for n, p in trained(model).items()}
    return dict(base=name, losses=losses, ends=ends)


def main():
    torch.manual_seed(5)
    vocabulary = range(32, 48)  # bytes that print, and are tokens of every base
    text = bytes(vocabulary[i] for i in torch.randint(len(vocabulary), (ROWS * COLUMNS + 1,)).tolist())
    runs = []
    for name, options in ADAPTERS.items():
        make_folder(name, options)
        limit = json.loads((MODELS / name / "config.json").read_text())["vocab_size"]
        if limit < max(vocabulary) + 1:
            continue
        tokens = torch.tensor([list(text[r * COLUMNS:(r + 1) * COLUMNS + 1]) for r in range(ROWS)])
        runs.append(steps_of(name, options, tokens))
    out = dict(rows=ROWS, columns=COLUMNS, text=text.decode(), adamw=ADAMW, runs=runs)
    (PARITY / "lora.json").write_text(json.dumps(out, indent=1) + "\n")


main()
