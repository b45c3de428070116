"""A few steps of a GPT-2 over tensor ranks by PyTorch's DTensor, told as Troupe's `--json` does.

dtensor.py JSON: {"model": keys, "dtype": "fp32" or "bf16", "rows", "columns", "steps", "text": file of bytes}. One process a
rank (RANK, WORLD_SIZE), one thread each, Gloo. Tensor, sequence and loss parallelism as torch.distributed.tensor.parallel
has them: queries, keys, values and fc by outputs, proj and out by inputs, norms over a part of the columns, embedding and
head by rows of the vocabulary, which they share. A step is forward, backward, clipping at 1.0 over all ranks and AdamW.
Rank 0 prints {"event": "step", "step_s": seconds, "loss"}. bf16: all weights are bf16, without fp32 masters.
"""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
                                               parallelize_module)

import models
from training import CLIP, LEARNING_RATE, batches


class Attention(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.size = size
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (self.heads(y(x)) for y in (self.q, self.k, self.v))
        return self.proj(models.merged(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def heads(self, x):
        """Of this rank's columns."""
        return models.heads(x, x.shape[-1] // self.size)


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.out(F.gelu(self.fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(width), Attention(width, size), nn.LayerNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.wte, self.wpe = nn.Embedding(config["vocab_size"], width), nn.Embedding(config["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, width // config["n_head"]) for _ in range(config["n_layer"]))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, config["vocab_size"], bias=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1]).unsqueeze(0)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


BLOCK = {"ln_1": SequenceParallel(), "ln_2": SequenceParallel(),
         "attn": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
         "attn.q": ColwiseParallel(), "attn.k": ColwiseParallel(), "attn.v": ColwiseParallel(),
         "attn.proj": RowwiseParallel(output_layouts=Shard(1)),
         "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
         "mlp.fc": ColwiseParallel(), "mlp.out": RowwiseParallel(output_layouts=Shard(1))}
ENDS = {"wte": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "wpe": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "ln_f": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)}


def make(spec):
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(1)
    model = models.first_values(GPT2(spec["model"])).to(torch.bfloat16 if spec["dtype"] == "bf16" else torch.float32)
    parallelize_module(model, mesh, ENDS)
    for block in model.blocks:
        parallelize_module(block, mesh, BLOCK)
    model.head.weight = model.wte.weight
    return model


def main():
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = make(spec)
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.0)
    data = batches(spec["text"], spec["rows"], spec["columns"], 1)
    for _ in range(spec["steps"]):
        tokens, targets = next(data)
        begin = time.perf_counter()
        with loss_parallel():
            loss = F.cross_entropy(model(tokens).float().flatten(0, 1), targets.flatten())
            loss.backward()
        nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = float(loss.full_tensor() if hasattr(loss, "full_tensor") else loss)
        if dist.get_rank() == 0:
            print(json.dumps({"event": "step", "step_s": time.perf_counter() - begin, "loss": value}), flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
