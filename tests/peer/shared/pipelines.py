"""A few steps of a GPT-2 in a pipeline of two ranks in DeepSpeed or in torch.distributed.pipelining, told as Troupe's `--json` does.

pipelines.py JSON: {"peer": "deepspeed", "zero": stage} or {"peer": "torch", "schedule": torch's class, "chunks": stages of a
rank, "shard": ranks that share a stage's states by fully_shard}, "model": keys, "dtype": "fp32" or "bf16", "rows", "columns",
"micro_batches": [of a step, one number after the other], "warm": steps before the first, "steps": of each, "text": file of bytes.

One process a rank (RANK, WORLD_SIZE: pipeline x shard), one thread each. The layers are cut into stages of equally many. A
step is all micro-batches, clipping at 1.0 over all ranks and AdamW; its samples are the first windows of the text in turn,
always the same ones. Rank 0 prints {"event": "step", "step_s": seconds, "loss"}. bf16: weights and activations are bf16,
fp32 masters are updated.
"""
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch
import torch.distributed as dist

import models
from hugging_face import SEED
from training import CLIP, LEARNING_RATE, windows

PIPELINE = 2
IN_V = ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")  # the last stage is beside the first


def cut(count, parts):
    """Offsets of parts of equally many, the first ones with one more."""
    return [count // parts * i + min(i, count % parts) for i in range(parts + 1)]


def samples(spec, micro_batches, shard_rank=0, shard=1):
    """Tokens and targets of this rank's micro-batches, stacked: its share of the first windows of the text, which overlap by one."""
    mine = range(shard_rank * micro_batches * spec["rows"], (shard_rank + 1) * micro_batches * spec["rows"])
    return windows(spec["text"], spec["columns"], mine)


class DeepSpeed:
    def __init__(self, spec):
        import deepspeed
        from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec

        deepspeed.init_distributed("gloo")
        self.spec, config = spec, spec["model"]
        specs = [LayerSpec(kind, *arguments) for kind, arguments in models.layer_specs(config)]
        if models.is_tied(config):
            for i in (0, -1):
                specs[i] = TiedLayerSpec("wte", specs[i].typename, *specs[i].module_args, tied_weight_attr=["wte.weight"])
        module = PipelineModule(specs, num_stages=PIPELINE, loss_fn=models.loss_of, partition_method="uniform")
        self.take_first_values(module, config)
        first = spec["micro_batches"][0]
        settings = {"train_micro_batch_size_per_gpu": spec["rows"], "gradient_accumulation_steps": first,
                    "gradient_clipping": CLIP, "steps_per_print": 10**9, "zero_optimization": {"stage": spec["zero"]},
                    "zero_allow_untested_optimizer": True,
                    "optimizer": {"type": "AdamW", "params": {"lr": LEARNING_RATE, "weight_decay": 0.0}}}
        if spec["dtype"] == "bf16":
            settings["bf16"] = {"enabled": True}
        self.engine, *_ = deepspeed.initialize(model=module, model_parameters=[p for p in module.parameters() if p.requires_grad],
                                               config=settings)

    @staticmethod
    def take_first_values(module, config):
        """Those of models.layers: DeepSpeed builds a stage's own layers alone."""
        torch.manual_seed(SEED)
        whole = models.layers(config)
        for own, layer in zip(module.forward_funcs, whole[module._local_start : module._local_stop], strict=True):
            own.load_state_dict(layer.state_dict())

    def use(self, micro_batches):
        self.engine.set_train_batch_size(self.spec["rows"] * micro_batches)
        tokens, targets = samples(self.spec, micro_batches)
        self.batch = list(zip(tokens.split(self.spec["rows"]), targets.split(self.spec["rows"])))

    def step(self):
        return float(self.engine.train_batch(data_iter=iter(self.batch)))


def stage_class():
    """torch's stage, whose first message to its neighbours is left out where a neighbour is on the same rank: schedules in V
    would send to themselves there, which Gloo refuses."""
    from torch.distributed.pipelining import PipelineStage

    class Stage(PipelineStage):
        def _get_init_p2p_neighbors_ops(self):
            return [op for op in super()._get_init_p2p_neighbors_ops() if op.group_peer != self.group_rank]

    return Stage


class Torch:
    def __init__(self, spec):
        dist.init_process_group("gloo")
        self.spec, self.shard = spec, spec["shard"]
        mesh = dist.init_device_mesh("cpu", (PIPELINE, self.shard), mesh_dim_names=("pipeline", "shard"))
        self.group, self.shard_rank = mesh.get_group("pipeline"), mesh.get_local_rank("shard")
        self.rank = mesh.get_local_rank("pipeline")
        self.half = spec["dtype"] == "bf16"
        self.make_stages(mesh["shard"])
        self.make_optimizer()

    def make_stages(self, shard_mesh):
        whole, chunks = models.layers(self.spec["model"]), self.spec["chunks"]
        whole[-1].wte.weight = torch.nn.Parameter(whole[-1].wte.weight.detach().clone())  # a tied weight's gradients are added by sum_tied
        last = PIPELINE * chunks - 1
        self.indices = [c * PIPELINE + self.rank for c in range(chunks)]
        if self.spec["schedule"] in IN_V:
            self.indices = [self.rank, last - self.rank]
        offsets = cut(len(whole), last + 1)
        Stage = stage_class()
        self.modules = [torch.nn.Sequential(*whole[offsets[i] : offsets[i + 1]]) for i in self.indices]
        for module in self.modules:
            self.place(module, shard_mesh)
        self.stages = [Stage(module, i, last + 1, torch.device("cpu"), group=self.group) for module, i in zip(self.modules, self.indices)]
        self.has_first, self.has_last = 0 in self.indices, last in self.indices

    def place(self, module, shard_mesh):
        """In half precision, or in shards that are gathered in half precision."""
        if self.shard == 1:
            module.to(torch.bfloat16 if self.half else torch.float32)
            return
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if self.half else MixedPrecisionPolicy()
        for layer in module:
            fully_shard(layer, mesh=shard_mesh, mp_policy=policy)
        fully_shard(module, mesh=shard_mesh, mp_policy=policy)

    def make_optimizer(self):
        self.weights = [p for m in self.modules for p in m.parameters()]
        self.with_masters = self.half and self.shard == 1
        self.masters = [p.detach().float().clone() for p in self.weights] if self.with_masters else self.weights
        self.optimizer = torch.optim.AdamW(self.masters, lr=LEARNING_RATE, weight_decay=0.0, fused=True)
        owners = [self.modules[0][0]] * self.has_first + [self.modules[-1][-1]] * self.has_last
        self.tied = [owner.wte.weight for owner in owners] if models.is_tied(self.spec["model"]) else []

    def use(self, micro_batches):
        import torch.distributed.pipelining.schedules as schedules

        kind = getattr(schedules, self.spec["schedule"])
        single = issubclass(kind, schedules.PipelineScheduleSingle)
        self.schedule = kind(self.stages[0] if single else self.stages, micro_batches, loss_fn=models.loss_of)
        self.micro_batches = micro_batches
        self.tokens, self.targets = samples(self.spec, micro_batches, self.shard_rank, self.shard)

    def local(self, gradients):
        return [g.to_local() if self.shard > 1 else g for g in gradients]

    def sum_tied(self):
        """Embedding and head have a copy of a tied weight each, also where they are on one rank; both get the sum."""
        gradients = self.local(p.grad for p in self.tied)
        if len(gradients) == 2:
            gradients[0].add_(gradients[1])
            gradients[1].copy_(gradients[0])
        elif gradients:
            dist.all_reduce(gradients[0], group=self.group)

    def clip(self, gradients, loss_sum):
        """Over all ranks, a tied weight once; gives the mean loss, which travels along."""
        local = self.local(gradients)
        again = self.tied[-1] if self.tied and self.has_last else None
        once = [g for g, p in zip(local, self.weights) if p is not again]
        sums = torch.stack([sum(g.float().square().sum() for g in once), loss_sum])
        dist.all_reduce(sums)
        torch._foreach_mul_(local, min(1.0, CLIP / (sums[0].sqrt().item() + 1e-6)))
        return sums[1].item() / (self.micro_batches * self.shard)

    def step(self):
        losses = []
        self.schedule.step(*([self.tokens] if self.has_first else []), target=self.targets if self.has_last else None,
                           losses=losses if self.has_last else None, return_outputs=False)
        self.sum_tied()
        if self.with_masters:
            for master, weight in zip(self.masters, self.weights):
                master.grad = weight.grad.float()
        loss = self.clip([p.grad for p in self.masters], torch.stack(losses).sum().detach() if losses else torch.zeros(()))
        self.optimizer.step()
        if self.with_masters:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)
        for p in self.weights:
            p.grad = None
        return loss


def main():
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    peer = {"deepspeed": DeepSpeed, "torch": Torch}[spec["peer"]](spec)
    for micro_batches in spec["micro_batches"]:
        peer.use(micro_batches)
        for _ in range(spec["steps"] + (spec["warm"] if micro_batches == spec["micro_batches"][0] else 0)):
            begin = time.perf_counter()
            loss = peer.step()
            seconds = time.perf_counter() - begin
            if dist.get_rank() == 0:
                print(json.dumps({"event": "step", "step_s": seconds, "loss": loss}), flush=True)
    dist.barrier()  # a rank that ends early would take its messages along


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # an orderly end of the process takes seconds that are not measured
