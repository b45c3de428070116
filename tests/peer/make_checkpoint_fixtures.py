"""Checkpoint folders of the real DeepSpeed and what its own converter makes of them.

Run by `make peer`: two processes on the CPU train a model of about a thousand parameters for two steps and save it, for
stages 1, 2 and 3, fp32, bf16 and fp16 weights, with buffers, one frozen and one tied parameter and two optimizer groups.
Writes tests/checkpoint/fixtures/deepspeed/<case>/, beside each folder <case>.safetensors with the tensors of
get_fp32_state_dict_from_zero_checkpoint and <case>.moments.safetensors with the running optimizer's moments.
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/checkpoint/fixtures/deepspeed"
CASES = {
    "stage1_fp32": (1, "fp32", {}),
    "stage1_bf16": (1, "bf16", {}),
    "stage2_bf16": (2, "bf16", {}),
    "stage2_fp16": (2, "fp16", {}),
    "stage3_fp32": (3, "fp32", {}),
    "stage3_bf16": (3, "bf16", {"sub_group_size": 200}),
    "stage2_fp32_legacy": (2, "fp32", {}),
}


def model_of():
    import torch

    class tiny(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(11, 7)
            self.first = torch.nn.Linear(7, 9)
            self.norm = torch.nn.LayerNorm(9)
            self.frozen = torch.nn.Linear(9, 5, bias=False)
            self.second = torch.nn.Linear(9, 7)
            self.head = torch.nn.Linear(7, 11, bias=False)
            self.head.weight = self.embed.weight
            self.scale = torch.nn.Parameter(torch.ones(3))
            self.frozen.weight.requires_grad_(False)
            self.register_buffer("offset", torch.arange(7, dtype=torch.float32) / 8)
            self.register_buffer("count", torch.tensor([3, 1, 4]))

        def forward(self, x):
            y = self.norm(self.first(self.embed(x) + self.offset.to(self.embed.weight.dtype)))
            z = self.head(self.second(y)) * self.scale.sum()
            return z.float().square().mean() + self.frozen(y).float().square().mean()

    return tiny


def train(case, folder):
    import torch
    import deepspeed

    stage, dtype, zero = CASES[case]
    torch.manual_seed(1)
    model = model_of()()
    plain = [p for n, p in model.named_parameters() if p.requires_grad and p.dim() < 2]
    decayed = [p for n, p in model.named_parameters() if p.requires_grad and p.dim() >= 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=0.01)
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": stage, **zero},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    if dtype == "bf16":
        config["bf16"] = {"enabled": True}
    if case.endswith("legacy"):
        config["checkpoint"] = {"checkpoint_serialization": False}
    if dtype == "fp16":
        config["fp16"] = {"enabled": True, "initial_scale_power": 8}
        # the CPU computes in fp16 well enough for two steps, though DeepSpeed does not offer it there
        deepspeed.get_accelerator().is_fp16_supported = lambda: True
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for step in range(2):
        torch.manual_seed(10 * step + int(os.environ["RANK"]))
        loss = engine(torch.randint(0, 11, (2, 4)))
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint(folder, tag="step2", client_state={"note": "kept"})
    if stage < 3:  # DeepSpeed links moments to parameters after the first group's first step, before the others have any
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    moments = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            for moment in ("exp_avg", "exp_avg_sq"):
                whole = deepspeed.utils.safe_get_full_optimizer_state(parameter, moment)
                moments[f"{moment}/{name}"] = whole.detach().clone().contiguous()
    if os.environ["RANK"] == "0":
        from safetensors.torch import save_file

        save_file(moments, folder + ".moments.safetensors")


def expected(case):
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    from safetensors.torch import save_file

    if case.endswith("legacy"):  # the converter asks for mmap, which such files do not have
        import torch

        load = torch.load
        torch.load = lambda *given, mmap=None, **named: load(*given, **named)
    state = get_fp32_state_dict_from_zero_checkpoint(str(OUT / case))
    save_file({name: t.detach().clone().contiguous() for name, t in state.items()}, str(OUT / (case + ".safetensors")))


def launch(case):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    shutil.rmtree(OUT / case, ignore_errors=True)
    ranks = []
    for rank in range(2):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")
        ranks.append(subprocess.Popen([sys.executable, __file__, case, str(OUT / case)], env=env,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for rank in ranks:
        _, errors = rank.communicate(timeout=300)
        if rank.returncode != 0:
            sys.exit(f"{case}: {errors[-3000:]}")
    for script in (OUT / case).glob("*.py"):  # DeepSpeed's own converters
        script.unlink()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        train(sys.argv[1], sys.argv[2])
    else:
        OUT.mkdir(parents=True, exist_ok=True)
        for name in CASES:
            launch(name)
            expected(name)
