"""Rates (and momenta) of DeepSpeed's and torch's schedulers: tests/kernels/fixtures/schedules.json.

Run by `make peer`; the result is committed. Position 0 of a list is before the scheduler's first step.
"""

import json
import pathlib
import sys
import warnings

import torch
from deepspeed.runtime import lr_schedules

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
}
BASE_LR = 0.05


def run(kind, parameters):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=BASE_LR)
    ours = getattr(lr_schedules, kind, None)
    scheduler = (ours or getattr(torch.optim.lr_scheduler, kind))(optimizer, **parameters)
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
