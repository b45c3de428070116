"""What DeepSpeed's `redundancy_clean` leaves of a model: tests/parity/fixtures/cleaned.json. The result is committed.

Needs DeepSpeed 0.19.6 as make_compression_fixtures.py does. The model is tests/models/fixtures/gpt2, compressed and cleaned
as it is, without a step. Tensors that changed lie in the file by the names and in the layout of Hugging Face (linear
layers as inputs x outputs), as base64 of little-endian fp32.
"""

import base64
import copy
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".peer/compression"))

import deepspeed  # noqa: E402
import torch  # noqa: E402

WANTED = "0.19.6"
if not deepspeed.__version__.startswith(WANTED):
    print(f"make_cleaned_fixture: DeepSpeed {deepspeed.__version__} has no compression, {WANTED} has: fixture kept")
    sys.exit(0)

from deepspeed.compression.compress import init_compression, redundancy_clean  # noqa: E402
from deepspeed.compression.helper import convert_conv1d_to_linear  # noqa: E402
from transformers import GPT2LMHeadModel  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402

FC, PROJ = "mlp\\.c_fc", "mlp\\.c_proj"


def technique(name, modules, params, related=None, **shared):
    group = {"params": params, "modules": modules} | ({"related_modules": related} if related else {})
    return {name: {"shared_parameters": {"enabled": True, "schedule_offset": 0} | shared,
                   "different_groups": {"all": group}}}


def weights(bits, modules, groups=8, kind="symmetric"):
    return technique("weight_quantization", modules, {"start_bits": bits, "target_bits": bits},
                     quantize_weight_in_forward=True, quantize_groups=groups, quantization_type=kind)


def pruned(name, modules, ratio, method, related=None, **shared):
    return technique(name, modules, {"dense_ratio": ratio}, related, method=method, **shared)


HEADS = ["attn\\.c_proj"]
RUNS = {
    "symmetric weights of 4 bits": weights(4, ["h\\.0\\." + FC]),
    "asymmetric weights of 3 bits": weights(3, ["h\\.1\\." + PROJ], 4, "asymmetric"),
    "ternary weights": weights(2, ["h\\.0\\.attn\\.c_proj"]),
    "elements by l1": pruned("sparse_pruning", ["h\\.0\\.attn\\.c_proj"], 0.4, "l1"),
    "elements by topk": pruned("sparse_pruning", ["h\\.0\\.attn\\.c_proj"], 0.3, "topk"),
    "rows by l1": pruned("row_pruning", ["h\\.1\\." + FC], 0.5, "l1"),
    "rows by l1, related modules cut": pruned("row_pruning", [FC], 0.25, "l1", [[PROJ]]),
    "rows by topk, related modules cut": pruned("row_pruning", [FC], 0.25, "topk", [[PROJ]]),
    "heads by topk": pruned("head_pruning", HEADS, 0.5, "topk", num_heads=3),
    "bits, elements and rows, related modules cut": weights(8, ["h\\.0\\." + FC]) | pruned("sparse_pruning", ["h\\.0\\." + FC], 0.6, "l1")
    | pruned("row_pruning", [FC], 0.25, "l1", [[PROJ]]),
}


def set_scores(model):
    """As make_compressed_training_fixture.py's."""
    for name, parameter in model.named_parameters():
        if name.endswith("_scores"):
            n = parameter.numel()
            values = [(i * 7919 + 31) % n / n - 0.5 for i in range(n)]
            parameter.data = torch.tensor(values, dtype=torch.float32).reshape(parameter.shape)


def tensors_of(model, transposes):
    out = {}
    for name, parameter in model.state_dict().items():
        if not name.startswith("lm_head"):
            transposed = transposes and name.endswith(".weight") and parameter.dim() == 2 and ".c_" in name
            out[name] = (parameter.t() if transposed else parameter).detach().contiguous()
    return out


def original():
    return GPT2LMHeadModel.from_pretrained(ROOT / "tests/models/fixtures/gpt2")


def cleaned(section):
    config = {"compression_training": copy.deepcopy(section)}
    model = init_compression(convert_conv1d_to_linear(original(), Conv1D), config)
    set_scores(model)
    return redundancy_clean(model, config)


def changed(section):
    before, after = tensors_of(original(), False), tensors_of(cleaned(section), True)
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    return {name: {"shape": list(t.shape), "values": numbers(t)} for name, t in after.items()
            if t.shape != before[name].shape or not torch.equal(t, before[name])}


def numbers(tensor):
    return base64.b64encode(tensor.float().numpy().astype("<f4").tobytes()).decode()


def outputs_kept(before, after):
    """Which outputs of `before` (inputs x outputs) are those of `after`, in order."""
    return [next(i for i in range(before.shape[1]) if torch.equal(before[:, i], column)) for column in after.t()]


def differences():
    before = tensors_of(original(), False)
    # The masks of all entries pile up, and related modules of every later entry are cut by the first one's.
    apart = pruned("row_pruning", ["h\\.0\\." + FC, "h\\.1\\." + FC], 0.25, "l1",
                   [["h\\.0\\." + PROJ], ["h\\.1\\." + PROJ]])
    after = tensors_of(cleaned(apart), True)
    kept = {name: outputs_kept(before[name].t() if "proj" in name else before[name], after[name].t() if "proj" in name else after[name])
            for name in (f"transformer.h.1.mlp.{end}.weight" for end in ("c_fc", "c_proj"))}
    # Packed queries, keys and values are taken for as many blocks as there are heads: with three heads one block is
    # all queries.
    heads = pruned("head_pruning", HEADS, 0.5, "topk", [["attn\\.c_attn"]], num_heads=3)
    after = tensors_of(cleaned(heads), True)
    name = "transformer.h.0.attn.c_attn.weight"
    return {"two_entries": {"compression_training": apart, "rows": kept["transformer.h.1.mlp.c_fc.weight"],
                            "columns": kept["transformer.h.1.mlp.c_proj.weight"]},
            "packed": {"compression_training": heads, "rows": outputs_kept(before[name], after[name])}}


def main():
    out = {"deepspeed": WANTED, "runs": []}
    for name, section in RUNS.items():
        out["runs"].append({"name": name, "compression_training": section, "tensors": changed(section)})
        print(f"{name}: {', '.join(t + ' ' + str(v['shape']) for t, v in out['runs'][-1]['tensors'].items())}")
    out["differences"] = differences()
    target = ROOT / "tests/parity/fixtures/cleaned.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(out, indent=1) + "\n")
    print(f"{target}: {target.stat().st_size} bytes by DeepSpeed {deepspeed.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
