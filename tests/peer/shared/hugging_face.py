"""The first weights of a GPT-2 of models.py as a Hugging Face folder, so that Troupe begins where the peers begin.

hugging_face.py FOLDER JSON: the model's keys. The seed is the peers' own.
Needs PyTorch alone, so that a machine without other packages runs it.
"""
import ctypes
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch

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


def save(named, file):
    """The format of safetensors: the length of the header in 8 bytes, the header padded to a multiple of 8, all fp32 values."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, value in named.items():
        begin, end = end, end + value.nbytes
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for value in named.values():
            out.write(ctypes.string_at(value.data_ptr(), value.nbytes))


def write(folder, config):
    folder.mkdir(parents=True, exist_ok=True)
    save(tensors(config), folder / "model.safetensors")
    known = {"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "n_inner": None}
    (folder / "config.json").write_text(json.dumps(known | {"tie_word_embeddings": models.is_tied(config)} | config))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]))
