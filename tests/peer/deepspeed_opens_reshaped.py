"""DeepSpeed's own tools open folders that Troupe has written for other degrees, and find the whole model in them.

Needs build/release's tests, or a program named by TESTS. A folder of two stages, two tensor- and two data-parallel ranks
goes through DeepSpeedCheckpoint, one of two tensor-parallel ranks through MegatronSDLoader, and GPT-2 cut by published
patterns through ds_to_universal; every tensor must have the bytes of the folder of one rank.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
from deepspeed.checkpoint import ds_to_universal
from deepspeed.checkpoint.deepspeed_checkpoint import DeepSpeedCheckpoint
from deepspeed.runtime.state_dict_factory import SDLoaderFactory

root = pathlib.Path(__file__).resolve().parents[2]
program = os.environ.get("TESTS", str(root / "build/release/tests/checkpoint/tests_checkpoint"))
TAG = "global_step5"
compared = 0


def same(got, wanted, name):
    global compared
    compared += 1
    if got.shape != wanted.shape or not torch.equal(got.view(torch.int32), wanted.view(torch.int32)):
        sys.exit(f"deepspeed_opens_reshaped: {name} differs: {tuple(got.shape)}, wanted {tuple(wanted.shape)}")


def whole(folder):
    return torch.load(folder / "whole" / TAG / "mp_rank_00_model_states.pt", weights_only=False)["module"]


def pipeline(folder):
    wanted = whole(folder)
    index = DeepSpeedCheckpoint(str(folder / "cut" / TAG), tp_degree=1, pp_degree=1, dp_degree=1)
    if (index.zero_checkpoint.get_src_pp_degree(), index.zero_checkpoint.get_src_tp_degree()) != (2, 2):
        sys.exit("deepspeed_opens_reshaped: DeepSpeed sees other degrees")
    layers = {1: index.get_embedding_state(0), 8: index.get_final_norm_state(0)}
    layers |= {3 + i: layer for i, layer in enumerate(index.get_transformer_state(0, 0))}
    for number, layer in layers.items():
        for key, value in layer.items():
            same(value, wanted[f"{number}.{key}"], f"{number}.{key}")
    if sum(len(layer) for layer in layers.values()) != len(wanted):
        sys.exit("deepspeed_opens_reshaped: DeepSpeed sees another number of tensors")
    shard = index.zero_checkpoint.get_state_for_rank(0, 0, 0)
    if shard["optimizer_state_dict"]["partition_count"] != [1]:
        sys.exit("deepspeed_opens_reshaped: shards cannot be folded")


def megatron(folder):
    files = [str(folder / "cut" / TAG / f"mp_rank_{rank:02d}_model_states.pt") for rank in range(2)]
    _, state, _ = SDLoaderFactory.get_sd_loader(files, None, "Megatron", None).load(1, 0)
    for name, value in whole(folder).items():
        same(state["module"][name], value, name)


def patterns(folder):
    out = folder / "universal"
    arguments = ["--input_folder", str(folder / "cut" / TAG), "--output_folder", str(out), "--num_extract_workers", "1",
                 "--num_merge_workers", "1"]
    sys.argv = ["ds_to_universal", *arguments]
    ds_to_universal.main(ds_to_universal.parse_arguments())
    wanted = whole(folder)
    for name, value in wanted.items():
        same(torch.load(out / "zero" / name / "fp32.pt", weights_only=False)["param"], value, name)


if not pathlib.Path(program).exists():
    subprocess.run(["ninja", "-C", str(root / "build/release"), "tests_checkpoint"], check=True)
with tempfile.TemporaryDirectory() as scratch:
    at = pathlib.Path(scratch)
    test = "--run_test=reshape/folders_for_other_programs_hold_the_same_as_the_whole"
    subprocess.run([program, test], env=dict(os.environ, TROUPE_RESHAPED=scratch), check=True)
    pipeline(at / "megatron")
    megatron(at / "megatron_tp")
    patterns(at / "gpt2")
print(f"DeepSpeed finds all of {compared} tensors in the folders that Troupe has reshaped")
