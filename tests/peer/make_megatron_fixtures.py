"""Tensor-parallel checkpoints as Megatron lays them, and what DeepSpeed's own loaders make of them.

Run by `make peer`. Writes tests/formats/fixtures/megatron/:
parts/        one model's file for each of 1, 2 and 4 ranks, parts.safetensors what MegatronSDLoader merges and splits
folder/       a folder of 2 stages, 2 tensor- and 2 data-parallel ranks, folder.safetensors and folder.json what
              DeepSpeedCheckpoint finds in it
"""

import json
import os
import pathlib
import shutil

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
from deepspeed.checkpoint.deepspeed_checkpoint import DeepSpeedCheckpoint
from deepspeed.runtime.state_dict_factory import SDLoaderFactory
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/formats/fixtures/megatron"
HIDDEN, HEADS = 8, 4
CASES = [(4, 2), (4, 1), (1, 4), (2, 4), (2, 2)]


def part(tp):
    h = HIDDEN
    layer = "transformer.layers.0."
    shapes = {
        "word_embeddings.weight": (16 // tp, h),
        "position_embeddings.weight": (4, h),
        layer + "input_layernorm.weight": (h,),
        layer + "attention.query_key_value.weight": (3 * h // tp, h),
        layer + "attention.query_key_value.bias": (3 * h // tp,),
        layer + "attention.dense.weight": (h, h // tp),
        layer + "attention.dense.bias": (h,),
        layer + "mlp.dense_h_to_4h.weight": (4 * h // tp, h),
        layer + "mlp.dense_h_to_4h.bias": (4 * h // tp,),
        layer + "mlp.dense_4h_to_h.weight": (h, 4 * h // tp),
        layer + "mlp.dense_4h_to_h.bias": (h,),
        "final_linear.weight": (4 // tp, h),
    }
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def parts():
    folder = OUT / "parts"
    folder.mkdir(parents=True)
    files = {}
    for tp in (1, 2, 4):
        for rank in range(tp):
            path = folder / f"tp{tp}_{rank}.pt"
            torch.save({"module": part(tp), "mp_world_size": tp}, path)
            files.setdefault(tp, []).append(str(path))
    expected = {}
    for version in (0, 1.0, 2.0):
        for source, ranks in CASES:
            for rank in range(ranks):
                loader = SDLoaderFactory.get_sd_loader(files[source], None, "Megatron", version)
                _, state, (scales, count) = loader.load(ranks, rank)
                assert scales is None and count == max(1, source // ranks)
                for name, value in state["module"].items():
                    if version == 0 or "query_key_value" in name:
                        expected[f"{version:g}/{source}to{ranks}/{rank}/{name}"] = value.contiguous()
    for source, ranks, groups in ((2, 1, 4), (2, 2, 4), (4, 2, 2)):
        loader = SDLoaderFactory.get_sd_loader(files[source], None, "Megatron", 0)
        _, state, (scales, _) = loader.load(ranks, 0, quantize=True, quantize_groups=groups)
        expected[f"quantised/{source}to{ranks}/scales"] = scales.contiguous()
        for name, value in state["module"].items():
            if value.dtype == torch.int8:
                expected[f"quantised/{source}to{ranks}/{name}"] = value.contiguous()
    save_file(expected, OUT / "parts.safetensors")


def layer_states(tp):
    h = 4
    block = {
        "input_layernorm.weight": (h,),
        "input_layernorm.bias": (h,),
        "self_attention.query_key_value.weight": (3 * h // tp, h),
        "self_attention.query_key_value.bias": (3 * h // tp,),
        "self_attention.dense.weight": (h, h // tp),
        "self_attention.dense.bias": (h,),
        "post_attention_layernorm.weight": (h,),
        "mlp.dense_h_to_4h.weight": (4 * h // tp, h),
        "mlp.dense_4h_to_h.weight": (h, 4 * h // tp),
        "mlp.dense_4h_to_h.bias": (h,),
    }
    made = lambda shapes: {name: torch.randn(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}
    layers = {1: made({"word_embeddings.weight": (6 // tp, h), "position_embeddings.weight": (3, h)})}
    layers |= {number: made(block) for number in (3, 4, 5, 6)}
    layers[8] = made({"weight": (h,), "bias": (h,)})
    return layers


def shard(padding):
    lengths = (6, 4)
    tensors = lambda: {key: {g: torch.randn(n) for g, n in enumerate(lengths)} for key in ("m", "v")}
    flat = tensors()
    state = {g: {"step": 3, "exp_avg": flat["m"][g], "exp_avg_sq": flat["v"][g]} for g in range(2)}
    masters = [torch.randn(n - p) for n, p in zip(lengths, padding)]
    return {
        "optimizer_state_dict": {
            "base_optimizer_state": {"state": state, "param_groups": [{"lr": 0.1}, {"lr": 0.2}]},
            "single_partition_of_fp32_groups": masters,
            "zero_stage": 1,
            "group_paddings": list(padding),
            "partition_count": [2, 2],
            "ds_version": "0.19.8",
        },
        "ds_version": "0.19.8",
    }


def flat_tensors(value, name, into):
    if torch.is_tensor(value):
        into[name] = value.contiguous()
    elif isinstance(value, dict):
        for key, inner in value.items():
            flat_tensors(inner, f"{name}.{key}", into)
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            flat_tensors(inner, f"{name}.{number}", into)


def folder():
    at = OUT / "folder"
    at.mkdir(parents=True)
    for tp in range(2):
        for number, state in layer_states(2).items():
            torch.save(state, at / f"layer_{number:02d}-model_{tp:02d}-model_states.pt")
    for mp in range(4):
        state = {"module": None, "iteration": 7, "checkpoint_parallel_dimensions": {"pp_degree": 2, "tp_degree": 2}}
        torch.save({**state, "rows": torch.randn(2, 2)}, at / f"mp_rank_{mp:02d}_model_states.pt")
        for dp in range(2):
            torch.save(shard((0, 0) if dp == 0 else (2, 1)), at / f"zero_pp_rank_{dp}_mp_rank_{mp:02d}_optim_states.pt")
    tensors, files = {}, {}
    name_of = lambda paths: [os.path.basename(p) for p in paths]
    for pp, tp, dp in ((2, 2, 2), (1, 1, 1), (1, 2, 1), (2, 1, 1), (1, 2, 2)):
        index = DeepSpeedCheckpoint(str(at), tp_degree=tp, pp_degree=pp, dp_degree=dp)
        for d in range(dp):
            for p in range(pp):
                for t in range(tp):
                    case = f"{pp}{tp}{dp}/{p}{t}{d}"
                    files[case] = name_of(index.zero_checkpoint.get_files_for_rank(p, t, d))
                    state = index.zero_checkpoint.get_state_for_rank(p, t, d)
                    inner = state["optimizer_state_dict"]
                    assert inner["partition_count"] == [dp, dp] and inner["group_paddings"] == [0, 0]
                    flat_tensors(state, f"{case}/zero", tensors)
                    if d > 0:
                        continue
                    files[f"{case}/model"] = name_of(index.get_2d_parallel_files(t, p))
                    files[f"{case}/layers"] = [name_of(f) for f in index.get_transformer_files(t, p)] if hasattr(
                        index, "get_transformer_files") else [name_of(f) for f in index.transformer_file_map[(t, p)]]
                    flat_tensors(index.get_transformer_state(t, p), f"{case}/layers", tensors)
                    flat_tensors(index.get_2d_parallel_state(t, p)["rows"], f"{case}/rows", tensors)
                    if p == 0:
                        files[f"{case}/embedding"] = name_of(index.get_embedding_files(t))
                        flat_tensors(index.get_embedding_state(t), f"{case}/embedding", tensors)
                        flat_tensors(index.get_final_norm_state(t), f"{case}/norm", tensors)
    save_file(tensors, OUT / "folder.safetensors")
    (OUT / "folder.json").write_text(json.dumps(files, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    torch.manual_seed(5)
    parts()
    folder()
    print(f"{OUT}: {sum(f.stat().st_size for f in OUT.rglob('*') if f.is_file())} bytes")
