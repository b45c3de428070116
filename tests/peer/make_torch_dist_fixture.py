"""Makes tests/formats/fixtures/torch_dist: a folder as Megatron-Core's `torch_dist` format has it.

Megatron-Core itself does not run on a CPU without its extensions: PyTorch's DCP saves the names and shapes of its
sources (bf16 weights; `optimizer.state.{fp32_param,exp_avg,exp_avg_sq}.NAME` of a `fully_reshardable` optimizer; the
same flattened, as `fully_sharded_model_space` has it, for one parameter; beside it common.pt with an argparse.Namespace).
`accelerate` has the two folders of Accelerate's FSDP with sharded states, `{"model": ...}` and `{"optimizer": ...}`.
`dp_reshardable` holds the optimizer as anonymous buckets. expected.safetensors has the values.
"""

import argparse
import os
import pathlib
import shutil

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/formats/fixtures/torch_dist"
SHAPES = {"embedding.word_embeddings.weight": (8, 4), "decoder.layers.0.mlp.linear_fc1.weight": (6, 4),
          "decoder.final_layernorm.weight": (4,)}
FLAT = "decoder.layers.0.mlp.linear_fc1.weight"


def save(name, optimizer):
    folder = OUT / name / "iter_0000030"
    folder.mkdir(parents=True)
    os.chdir(OUT)  # the list keeps the path that it was saved by
    dcp.save({**weights, **optimizer, "rng_state/shard_0_1": [1, 2]}, checkpoint_id=f"{name}/iter_0000030", no_dist=True)
    torch.save({"args": argparse.Namespace(consumed_train_samples=240, global_batch_size=8, params_dtype=torch.bfloat16),
                "checkpoint_version": 3.0, "iteration": 30,
                "optimizer": {"optimizer": {"param_groups": [{"step": 28, "lr": 1e-3}]}}}, folder / "common.pt")
    (OUT / name / "latest_checkpointed_iteration.txt").write_text("30")


shutil.rmtree(OUT, ignore_errors=True)
torch.manual_seed(3)
masters = {name: torch.randn(shape) for name, shape in SHAPES.items()}
weights = {name: t.bfloat16() for name, t in masters.items()}
states = {"fp32_param": masters, **{key: {n: torch.rand(s) for n, s in SHAPES.items()} for key in ("exp_avg", "exp_avg_sq")}}
save("fully_reshardable", {f"optimizer.state.{key}.{name}": t.reshape(1, 1, -1) if name == FLAT else t
                           for key, values in states.items() for name, t in values.items()})
bucket = "optimizer.distributed.dp_group_idx_0.gbuf_idx_0.dtype_(torch.bfloat16, torch.float32).bucket_idx_0"
save("dp_reshardable", {f"{bucket}.{key}": torch.cat([t.flatten() for t in values.values()])
                        for key, values in states.items()})
os.chdir(OUT)
dcp.save({"model": masters}, checkpoint_id="accelerate/pytorch_model_fsdp_0", no_dist=True)
dcp.save({"optimizer": {"state": {name: {"step": torch.tensor(28.0), **{key: states[key][name] for key in ("exp_avg", "exp_avg_sq")}}
                                  for name in SHAPES}, "param_groups": [{"lr": 1e-3, "params": list(SHAPES)}]}},
         checkpoint_id="accelerate/optimizer_0", no_dist=True)
save_file({**{f"{name}/{key}": t for key, values in states.items() for name, t in values.items()}, **weights},
          OUT / "expected.safetensors")
