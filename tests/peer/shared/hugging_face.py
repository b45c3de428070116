"""The first weights of a GPT-2 of models.py as a Hugging Face folder, so that Troupe begins where the peers begin.

hugging_face.py FOLDER JSON: the model's keys. The seed is the peers' own.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch
from safetensors.torch import save_file

import models

SEED = 1
BLOCK = {"ln_1": "ln_1", "ln_2": "ln_2", "qkv": "attn.c_attn", "proj": "attn.c_proj", "fc": "mlp.c_fc", "out": "mlp.c_proj"}


def tensors(config):
    """Hugging Face's names and shapes: matrices of blocks lie transposed there."""
    torch.manual_seed(SEED)
    embedding, *blocks, head = models.layers(config)
    out = {"wte.weight": embedding.wte.weight, "wpe.weight": embedding.wpe.weight}
    for i, block in enumerate(blocks):
        for name, value in block.named_parameters():
            layer, _, kind = name.partition(".")
            out[f"h.{i}.{BLOCK[layer]}.{kind}"] = value.t() if value.dim() > 1 else value
    out |= {f"ln_f.{name}": value for name, value in head.ln_f.named_parameters()}
    out = {f"transformer.{name}": value.detach().contiguous() for name, value in out.items()}
    if not models.is_tied(config):
        out["lm_head.weight"] = head.wte.weight.detach()
    return out


def write(folder, config):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors(config), folder / "model.safetensors", metadata={"format": "pt"})
    known = {"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "n_inner": None}
    (folder / "config.json").write_text(json.dumps(known | {"tie_word_embeddings": models.is_tied(config)} | config))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]))
