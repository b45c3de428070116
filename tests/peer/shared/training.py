"""A few training steps in plain PyTorch or in DeepSpeed, told as Troupe's `--json` tells its own.

training.py JSON: {"peer": "pytorch", "deepspeed" or "ddp", "model": keys, "dtype": "fp32" or "bf16", "rows", "columns",
"steps", "text": file of bytes, "zero": DeepSpeed's zero_optimization}. Rows are of this process: PyTorch is one process
with two threads, DeepSpeed and DDP with Gloo are several of one thread (RANK, WORLD_SIZE). Rank 0 prints {"event": "step",
"step", "step_s": seconds, "loss"}.
With "compression", a section of DeepSpeed's `compression_training`, PyTorch's model has the compressed layers of .peer/compression
in all techniques from the first step on.
With "checkpoint", a file, DDP continues from it where it is there and writes it anew after every "checkpoint_every" steps.
With "device", PyTorch's model and batches lie there. With "first_windows" it is models.Layered, and each step trains on the
text's first windows, as Troupe does with a text that has no more. With "folder", PyTorch trains the transformers model of that
folder instead of "model", and with "lora", options of peft's LoraConfig, adapters in it alone.
In PyTorch's bf16 weights and activations are bf16 and fused AdamW updates fp32 masters, which are copied back.
"""
import itertools
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch

import models

LEARNING_RATE = 1e-3
CLIP = 1.0


def tokens_of(text):
    """The file's bytes."""
    return torch.frombuffer(bytearray(pathlib.Path(text).read_bytes()), dtype=torch.uint8).long()


def windows(text, columns, numbers):
    """Windows by their numbers, which overlap by one: tokens and targets."""
    tokens = tokens_of(text)
    both = torch.stack([tokens[i * columns : (i + 1) * columns + 1] for i in numbers])
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()


def batches(text, rows, columns, seed):
    """Endless random windows of the file's bytes: tokens and targets."""
    tokens = tokens_of(text)
    random = torch.Generator().manual_seed(seed)
    while True:
        first = torch.randint(0, len(tokens) - columns - 1, (rows,), generator=random)
        window = torch.stack([tokens[f : f + columns + 1] for f in first])
        yield window[:, :-1].contiguous(), window[:, 1:].contiguous()


def compressed(model, section):
    """The model with DeepSpeed 0.19.6's layers, everything on."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / ".peer/compression"))
    from deepspeed.compression.compress import init_compression
    from deepspeed.compression.config import get_compression_config
    from deepspeed.compression.scheduler import compression_scheduler

    config = {"train_batch_size": 1, "compression_training": section}
    model = init_compression(model, config)
    compression_scheduler(model, get_compression_config(config)).step()
    return model


class Plain:
    def __init__(self, spec):
        torch.set_num_threads(2)
        self.half = spec["dtype"] == "bf16"
        self.device = spec.get("device", "cpu")
        self.model = self.made(spec).to(self.device, torch.bfloat16 if self.half else torch.float32)
        if "compression" in spec:
            self.model = compressed(self.model, spec["compression"])
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        self.masters = [p.detach().float().clone() for p in self.weights] if self.half else self.weights
        self.optimizer = torch.optim.AdamW(self.masters, lr=LEARNING_RATE, weight_decay=0.0, fused=True)

    @staticmethod
    def made(spec):
        if "folder" in spec:
            from families import Pretrained

            return Pretrained(spec["folder"], spec.get("lora"))
        return (models.Layered if "first_windows" in spec else models.make)(spec["model"])

    def step(self, tokens, targets):
        loss = self.model(tokens.to(self.device), targets.to(self.device))
        loss.backward()
        if self.half:
            for master, weight in zip(self.masters, self.weights):
                master.grad = weight.grad.float()
        torch.nn.utils.clip_grad_norm_(self.masters, CLIP)
        self.optimizer.step()
        if self.half:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)
        self.model.zero_grad(set_to_none=True)
        return loss.item()


class DeepSpeed:
    def __init__(self, spec):
        import deepspeed

        torch.set_num_threads(1)
        model = models.make(spec["model"])
        config = {"train_micro_batch_size_per_gpu": spec["rows"], "gradient_clipping": CLIP,
                  "zero_optimization": spec["zero"], "zero_allow_untested_optimizer": True,
                  "optimizer": {"type": "AdamW", "params": {"lr": LEARNING_RATE, "weight_decay": 0.0}}}
        if spec["dtype"] == "bf16":
            config["bf16"] = {"enabled": True}
        self.engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

    def step(self, tokens, targets):
        loss = self.engine(tokens, targets)
        self.engine.backward(loss)
        self.engine.step()
        return loss.item()


class DistributedData:
    """torchrun's usual program: DDP with Gloo, and a checkpoint of its own to come back to."""

    def __init__(self, spec):
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.model = torch.nn.parallel.DistributedDataParallel(models.make(spec["model"]))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE, weight_decay=0.0, fused=True)

    def step(self, tokens, targets):
        loss = self.model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.model.zero_grad(set_to_none=True)
        return loss.item()

    def load(self, file):
        """Gives the steps done."""
        if not file.exists():
            return 0
        kept = torch.load(file, weights_only=True)
        self.model.module.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        return kept["steps"]

    def save(self, file, steps):
        kept = {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(), "steps": steps}
        working = file.with_suffix(".working")
        torch.save(kept, working)
        working.replace(file)


def main():
    spec = json.loads(sys.argv[1])
    rank = int(os.environ.get("RANK", 0))
    torch.manual_seed(1)
    peer = {"pytorch": Plain, "deepspeed": DeepSpeed, "ddp": DistributedData}[spec["peer"]](spec)
    file = pathlib.Path(spec["checkpoint"]) if "checkpoint" in spec else None
    done = peer.load(file) if file else 0
    data = batches(spec["text"], spec["rows"], spec["columns"], 1 + rank)
    if "first_windows" in spec:
        data = itertools.repeat(windows(spec["text"], spec["columns"], range(spec["rows"])))
    for number in range(done + 1, spec["steps"] + 1):
        tokens, targets = next(data)
        begin = time.perf_counter()
        loss = peer.step(tokens, targets)
        seconds = time.perf_counter() - begin
        if rank == 0:
            print(json.dumps({"event": "step", "step": number, "step_s": seconds, "loss": loss}), flush=True)
            if file and number % spec["checkpoint_every"] == 0:
                peer.save(file, number)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # an orderly end of the process takes seconds that are not measured
