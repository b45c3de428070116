"""Rates (and momenta) of DeepSpeed's, torch's and transformers' schedulers: tests/kernels/fixtures/schedules.json.

Run by `make peer`; the result is committed. Position 0 of a list is before the scheduler's first step. torch's classes
have no warm-up: with `num_warmup_steps` a linear rise to their first value comes before them, as a SequentialLR.
"""

import json
import pathlib
import sys
import warnings

import torch
from deepspeed.runtime import lr_schedules
from transformers import optimization

STEPS = 40

CASES = {
    "warmup": ("WarmupLR", dict(warmup_max_lr=0.1, warmup_num_steps=10)),
    "warmup_decay": ("WarmupDecayLR", dict(total_num_steps=20, warmup_max_lr=0.1, warmup_num_steps=10)),
    "warmup_cosine": ("WarmupCosineLR", dict(total_num_steps=30, warmup_num_steps=8, warmup_min_ratio=0.1)),
    "range_test": ("LRRangeTest", dict(lr_range_test_min_lr=1e-3, lr_range_test_step_size=7,
                                       lr_range_test_step_rate=1.5)),
    "range_test_stairs": ("LRRangeTest", dict(lr_range_test_min_lr=1e-3, lr_range_test_step_size=7,
                                              lr_range_test_staircase=True)),
    "one_cycle": ("OneCycle", dict(cycle_min_lr=0.01, cycle_max_lr=0.1, cycle_first_step_size=4)),
    "one_cycle_uneven": ("OneCycle", dict(cycle_min_lr=0.01, cycle_max_lr=0.1, cycle_first_step_size=5,
                                          cycle_second_step_size=9, decay_step_size=3, decay_lr_rate=0.5,
                                          cycle_min_mom=0.7, cycle_max_mom=0.95, decay_mom_rate=0.01)),
    "one_cycle_stairs": ("OneCycle", dict(cycle_min_lr=0.01, cycle_max_lr=0.1, cycle_first_step_size=11,
                                          cycle_second_step_size=13, cycle_first_stair_count=3,
                                          cycle_second_stair_count=5, decay_step_size=4, decay_lr_rate=0.1)),
    "one_cycle_one_half": ("OneCycle", dict(cycle_min_lr=0.01, cycle_max_lr=0.1, cycle_first_step_size=6,
                                            cycle_second_step_size=0, cycle_momentum=False)),
    "cosine_annealing": ("CosineAnnealingLR", dict(T_max=12, eta_min=0.002)),
    "linear": ("LinearLR", dict(start_factor=0.25, end_factor=0.75, total_iters=7)),
    "linear_default": ("LinearLR", dict()),
    "polynomial": ("PolynomialLR", dict(total_iters=9, power=2.5)),
    "polynomial_default": ("PolynomialLR", dict()),
    "cosine_annealing_warmup": ("CosineAnnealingLR", dict(T_max=12, eta_min=0.002, num_warmup_steps=5)),
    "linear_warmup": ("LinearLR", dict(start_factor=0.25, end_factor=0.75, total_iters=7, num_warmup_steps=3)),
    "polynomial_warmup": ("PolynomialLR", dict(total_iters=9, power=2.5, num_warmup_steps=4)),
    "warm_restarts": ("CosineAnnealingWarmRestarts", dict(T_0=11, eta_min=0.002)),
    "warm_restarts_longer": ("CosineAnnealingWarmRestarts", dict(T_0=3, T_mult=2)),
    "warm_restarts_warmup": ("CosineAnnealingWarmRestarts", dict(T_0=4, T_mult=3, num_warmup_steps=6)),
    "hard_restarts": ("cosine_with_restarts", dict(num_warmup_steps=4, num_training_steps=34, num_cycles=3)),
    "hard_restarts_default": ("cosine_with_restarts", dict(num_training_steps=30)),
    "stages_cosine": ("warmup_stable_decay", dict(num_warmup_steps=6, num_decay_steps=12, num_training_steps=35)),
    "stages_linear": ("warmup_stable_decay", dict(num_warmup_steps=5, num_decay_steps=10, num_training_steps=32,
                                                  decay_type="linear", min_lr_ratio=0.1)),
    "stages_root": ("warmup_stable_decay", dict(num_warmup_steps=7, num_decay_steps=15, num_training_steps=36,
                                                decay_type="1-sqrt", min_lr_ratio=0.05)),
    "cool_down": ("warmup_stable_decay", dict(num_decay_steps=9, num_training_steps=30, decay_type="1-sqrt")),
    "no_stable_stage": ("warmup_stable_decay", dict(num_warmup_steps=10, num_decay_steps=20, num_training_steps=30,
                                                    decay_type="linear")),
}
BASE_LR = 0.05


def made(optimizer, kind, parameters):
    if kind == "warmup_stable_decay":
        return optimization.get_wsd_schedule(optimizer, **{"num_warmup_steps": 0, **parameters})
    if kind == "cosine_with_restarts":
        return optimization.get_cosine_with_hard_restarts_schedule_with_warmup(
            optimizer, **{"num_warmup_steps": 0, **parameters})
    if kind in vars(lr_schedules) and not hasattr(torch.optim.lr_scheduler, kind):
        return getattr(lr_schedules, kind)(optimizer, **parameters)
    torchs = getattr(torch.optim.lr_scheduler, kind)
    warmup = parameters.get("num_warmup_steps", 0)
    own = {key: value for key, value in parameters.items() if key != "num_warmup_steps"}
    if warmup == 0:
        return torchs(optimizer, **own)
    first = torchs(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0), **own).get_last_lr()[0]
    rise = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: first * step / warmup)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, torchs(optimizer, **own)], [warmup])


def run(kind, parameters):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=BASE_LR)
    scheduler = made(optimizer, kind, parameters)
    rates, momenta = [], []
    for _ in range(STEPS):
        group = optimizer.param_groups[0]
        rates.append(group["lr"])
        momenta.append(group["betas"])
        scheduler.step()
    moved = any(m != momenta[0] for m in momenta)
    return dict(type=kind, parameters=parameters, rates=rates, momenta=momenta if moved else None)


def main():
    warnings.filterwarnings("ignore")
    root = pathlib.Path(__file__).parents[1] / "kernels" / "fixtures"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "schedules.json"
    cases = {name: run(kind, parameters) for name, (kind, parameters) in CASES.items()}
    path.write_text(json.dumps(dict(base_lr=BASE_LR, cases=cases)) + "\n")


if __name__ == "__main__":
    main()
