"""Writes tests/models/table/fixtures/null_keys.json: for each family, the keys of config.json with which transformers
refuses to build or to train a model if they are null, and the keys whose null it reads. The models are those of
tests/models/fixtures, each with one key null.
"""
import json
import os
import tempfile
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

FIXTURES = Path(__file__).resolve().parents[1] / "models" / "fixtures"
FAMILIES = ["bert", "gemma2", "gemma3", "gpt2", "gpt_neox", "granite", "llama", "mistral", "olmo2", "phi3", "qwen2",
            "qwen3", "roberta", "smollm3"]
# Keys that some files have and those of the fixtures lack.
MORE = {"add_cross_attention", "chunk_size_feed_forward", "head_dim", "is_decoder", "num_key_value_heads", "num_labels",
        "original_max_position_embeddings", "partial_rotary_factor"}


def opened(folder):
    return AutoConfig.from_pretrained(folder)


def is_read(keys):
    """True if transformers builds a model of the keys and computes a training step's gradients."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(keys))
        try:
            config = opened(folder)
            kind = AutoModelForMaskedLM if keys["model_type"] in ("bert", "roberta") else AutoModelForCausalLM
            model = kind.from_config(config, attn_implementation="eager").float().train()
            ids = torch.arange(3, 11).view(1, 8)
            model(ids, labels=ids).loss.backward()
            return True
        except Exception:
            return False


def main():
    torch.set_num_threads(1)
    out = {}
    for family in FAMILIES:
        folder = FIXTURES / family
        given = json.loads((folder / "config.json").read_text())
        assert is_read(given), family
        keys = sorted((set(given) | MORE) - {"model_type", "architectures", "transformers_version", "dtype"})
        found = {key: is_read(given | {key: None}) for key in keys}
        out[family] = {"refused": [key for key in keys if not found[key]], "read": [key for key in keys if found[key]]}
    rows = ",\n".join(f'"{family}": {json.dumps(keys)}' for family, keys in out.items())
    (FIXTURES.parent / "table" / "fixtures" / "null_keys.json").write_text("{\n" + rows + "\n}\n")


if __name__ == "__main__":
    main()
