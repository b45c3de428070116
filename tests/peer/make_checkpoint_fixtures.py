"""Checkpoint folders of the real DeepSpeed and what its own converter makes of them.

Run by `make peer`: two processes on the CPU train a model of about a thousand parameters for two steps and save it, for
stages 0 to 3, fp32, bf16 and fp16 weights, with buffers, one frozen and one tied parameter and two optimizer groups; one
with a frozen and a trained parameter that each have a second name; and a pipeline, a tensor-parallel model and universal
folders. Writes tests/formats/fixtures/deepspeed/<case>/, beside each
folder <case>.safetensors with the tensors of get_fp32_state_dict_from_zero_checkpoint, or with the running optimizer's
masters where that function fails, and <case>.moments.safetensors with the running optimizer's moments. Names given as
arguments make these cases only.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from shared.rendezvous import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/formats/fixtures/deepspeed"
CASES = {
    "stage1_fp32": (1, "fp32", {}),
    "stage1_bf16": (1, "bf16", {}),
    "stage2_bf16": (2, "bf16", {}),
    "stage2_fp16": (2, "fp16", {}),
    "stage3_fp32": (3, "fp32", {}),
    "stage3_bf16": (3, "bf16", {"sub_group_size": 200}),
    "stage2_fp32_legacy": (2, "fp32", {}),
    "stage0_fp32": (0, "fp32", {}),
    "stage0_bf16": (0, "bf16", {}),
    "stage0_fp16": (0, "fp16", {}),
    "stage1_grad_fp32": (1, "bf16", {}),  # BF16_Optimizer
    "stage2_round_robin": (2, "bf16", {"round_robin_gradients": True}),
    "stage1_elastic": (1, "bf16", {"elastic_checkpoint": True}),
    **{f"stage{stage}_frozen_tied": (stage, "fp32", {}) for stage in range(4)},
    "pipeline": (1, "bf16", {}),
    "tensor_parallel": (1, "bf16", {}),
}
# (folder that DeepSpeed's own converter reads, folder that it writes)
UNIVERSAL = {"universal_stage2": "stage2_bf16", "universal_stage3": "stage3_bf16",
             "universal_tensor_parallel": "tensor_parallel"}


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


def tied_model_of():
    """The head is the embedding, which is frozen; `twin` is `first`, which is trained."""
    import torch

    class tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(11, 7)
            self.first = torch.nn.Linear(7, 7)
            self.twin = torch.nn.Linear(7, 7)
            self.head = torch.nn.Linear(7, 11, bias=False)
            self.twin.weight = self.first.weight
            self.head.weight = self.embed.weight
            self.embed.weight.requires_grad_(False)

        def forward(self, x):
            return self.head(self.twin(self.first(self.embed(x)))).float().square().mean()

    return tied


def train_pipeline(folder, config):
    """Two stages of two layers, a tied one at both ends."""
    import torch
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec

    torch.manual_seed(1)
    deepspeed.init_distributed("gloo")
    head = lambda module, x: torch.nn.functional.linear(x, module.weight)
    layers = [TiedLayerSpec("embed", torch.nn.Embedding, 11, 6), LayerSpec(torch.nn.Linear, 6, 10),
              LayerSpec(torch.nn.Linear, 10, 6), TiedLayerSpec("embed", torch.nn.Embedding, 11, 6, forward_fn=head)]
    loss = lambda y, target: torch.nn.functional.cross_entropy(y.float().flatten(0, 1), target.flatten())
    model = PipelineModule(layers, num_stages=2, loss_fn=loss, partition_method="uniform")
    config.update({"gradient_accumulation_steps": 2})
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def batches():
        while True:
            x = torch.randint(0, 11, (2, 4))
            yield x, x

    for _ in range(2):
        engine.train_batch(batches())
    engine.save_checkpoint(folder, tag="step2", client_state={"note": "kept"})


def train_tensor_parallel(folder, config):
    """A Llama of one layer, cut by DeepSpeed's AutoTP."""
    import torch
    import deepspeed
    import transformers

    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=12, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=16))
    config["tensor_parallel"] = {"autotp_size": 2}
    model = deepspeed.tp_model_init(model, tp_size=2, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for step in range(2):
        torch.manual_seed(step)
        x = torch.randint(0, 12, (2, 4))
        engine.backward(engine(input_ids=x, labels=x).loss)
        engine.step()
    engine.save_checkpoint(folder, tag="step2", client_state={"note": "kept"})


def train(case, folder):
    import torch
    import deepspeed

    stage, dtype, zero = CASES[case]
    torch.manual_seed(1)
    model = (tied_model_of() if case.endswith("frozen_tied") else model_of())()
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
    if case.endswith("grad_fp32"):
        config["data_types"] = {"grad_accum_dtype": "fp32"}
    if case.endswith("legacy"):
        config["checkpoint"] = {"checkpoint_serialization": False}
    if dtype == "fp16":
        config["fp16"] = {"enabled": True, "initial_scale_power": 8}
        # the CPU computes in fp16 well enough for two steps, though DeepSpeed does not offer it there
        deepspeed.get_accelerator().is_fp16_supported = lambda: True
    if case == "pipeline":
        return train_pipeline(folder, config)
    if case == "tensor_parallel":
        return train_tensor_parallel(folder, config)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for step in range(2):
        torch.manual_seed(10 * step + int(os.environ["RANK"]))
        loss = engine(torch.randint(0, 11, (2, 4)))
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint(folder, tag="step2", client_state={"note": "kept"})
    if case.endswith("frozen_tied"):
        if stage < 2 and os.environ["RANK"] == "0":  # stages that the converter refuses, or whose frozen ones it forgets
            from safetensors.torch import save_file

            save_file({n: t.detach().clone().contiguous() for n, t in model.state_dict().items()}, folder + ".safetensors")
        return
    if stage == 0 or case.endswith("grad_fp32"):
        return save_running(engine, model, optimizer, folder)
    if stage < 3:  # DeepSpeed links moments to parameters after the first group's first step, before the others have any
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    moments = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            for moment in ("exp_avg", "exp_avg_sq"):
                whole = deepspeed.utils.safe_get_full_optimizer_state(parameter, moment)
                moments[f"{moment}/{name}"] = whole.detach().clone().contiguous()
    # with round_robin_gradients DeepSpeed links fragments by the order before its own shuffling: not to be compared
    if os.environ["RANK"] == "0" and not case.endswith("round_robin"):
        from safetensors.torch import save_file

        save_file(moments, folder + ".moments.safetensors")


def save_running(engine, model, optimizer, folder):
    """Masters and moments of a wrapper that DeepSpeed's converter does not know."""
    import torch
    from safetensors.torch import save_file

    wrapper = engine.optimizer
    names = {p: n for n, p in model.named_parameters()}
    masters, moments = {}, {}
    if hasattr(wrapper, "_hp_optimizer_states_linked") or hasattr(wrapper, "_lazy_init_hp_params_optimizer_state"):
        wrapper._lazy_init_hp_params_optimizer_state()
        for p, name in names.items():
            if p.requires_grad:
                masters[name] = p.get_full_hp_param()
                for moment in ("exp_avg", "exp_avg_sq"):
                    moments[f"{moment}/{name}"] = p.get_full_hp_param(moment)
    elif hasattr(wrapper, "fp32_groups_flat"):
        for group, flat in zip(wrapper.fp16_groups, wrapper.fp32_groups_flat):
            at = 0
            for p in group:
                cut = slice(at, at + p.numel())
                at += p.numel()
                masters[names[p]] = flat[cut].reshape(p.shape)
                for moment in ("exp_avg", "exp_avg_sq"):
                    moments[f"{moment}/{names[p]}"] = optimizer.state[flat][moment][cut].reshape(p.shape)
    elif hasattr(wrapper, "fp32_groups"):
        for group, wide in zip(wrapper.fp16_groups, wrapper.fp32_groups):
            for p, master in zip(group, wide):
                masters[names[p]] = master
                for moment in ("exp_avg", "exp_avg_sq"):
                    moments[f"{moment}/{names[p]}"] = optimizer.state[master][moment]
    else:
        for p, name in names.items():
            masters[name] = p
            for moment in ("exp_avg", "exp_avg_sq"):
                if p in optimizer.state:
                    moments[f"{moment}/{name}"] = optimizer.state[p][moment]
    if os.environ["RANK"] == "0":
        save_file({k: v.detach().clone().contiguous() for k, v in masters.items()}, folder + ".safetensors")
        save_file({k: v.detach().clone().contiguous() for k, v in moments.items()}, folder + ".moments.safetensors")


def expected(case):
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    from safetensors.torch import save_file

    if (OUT / (case + ".safetensors")).exists() or case in ("pipeline", "tensor_parallel"):
        return  # the run itself wrote them, or universal folders say what is to come out
    if case.endswith("legacy"):  # the converter asks for mmap, which such files do not have
        import torch

        load = torch.load
        torch.load = lambda *given, mmap=None, **named: load(*given, **named)
    state = get_fp32_state_dict_from_zero_checkpoint(str(OUT / case))
    save_file({name: t.detach().clone().contiguous() for name, t in state.items()}, str(OUT / (case + ".safetensors")))


def universal(case):
    """The output of DeepSpeed's converter for a folder; worker counts of 1 keep it in this process."""
    import argparse
    from deepspeed.checkpoint import ds_to_universal

    shutil.rmtree(OUT / case, ignore_errors=True)
    ds_to_universal.main(argparse.Namespace(
        input_folder=str(OUT / UNIVERSAL[case] / "step2"), output_folder=str(OUT / case / "step2"), num_extract_workers=1,
        num_merge_workers=1, keep_temp_folder=False, strict=True, inject_missing_state=True))


def values():
    """Other values that torch.save may write, in both of its forms: ../torch/values*.pt."""
    import fractions

    import numpy
    import torch

    attributed = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    attributed.ds_id = "0_5"
    whole = torch.arange(12, dtype=torch.float32)
    saved = {"signed": numpy.int64(-7), "unsigned": numpy.uint8(200), "attributed": attributed, "view": whole[4:8],
             "turned": whole.reshape(3, 4).t(), "parameter": torch.nn.Parameter(torch.ones(2)),
             "size": torch.Size([2, 3]), "unknown": fractions.Fraction(1, 3)}
    folder = OUT.parent / "torch"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(saved, folder / "values.pt")
    torch.save(saved, folder / "values_legacy.pt", _use_new_zipfile_serialization=False)


def launch(case):
    port = free_port()
    shutil.rmtree(OUT / case, ignore_errors=True)
    (OUT / (case + ".safetensors")).unlink(missing_ok=True)
    ranks = []
    for rank in range(2):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=port, OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")
        ranks.append(subprocess.Popen([sys.executable, __file__, case, str(OUT / case)], env=env,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for rank in ranks:
        _, errors = rank.communicate(timeout=300)
        if rank.returncode != 0:
            sys.exit(f"{case}: {errors[-3000:]}")
    for script in (OUT / case).glob("*.py"):  # DeepSpeed's own converters
        script.unlink()


if __name__ == "__main__":
    if "RANK" in os.environ:  # one of the two that train
        train(sys.argv[1], sys.argv[2])
    else:
        OUT.mkdir(parents=True, exist_ok=True)
        for name in sys.argv[1:] or [*CASES, *UNIVERSAL, "values"]:
            if name == "values":
                values()
            elif name in UNIVERSAL:
                universal(name)
            else:
                launch(name)
                expected(name)
