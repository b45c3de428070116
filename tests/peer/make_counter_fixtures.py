"""Makes tests/formats/fixtures/counters: folders of dcp.save() whose optimizers count their updates in other ways.

One matrix and one bias, `w` and `b`; five updates where nothing else is said:
  integer    `step` is a number of Python's, as some optimizers outside of torch.optim have it
  group      only the group of parameters counts
  different  `w` counts 5 and `b` 2
  schedule   SGD, which counts nothing, beside a schedule's last_epoch
  none       Adam's moments without any count
"""

import os
import pathlib
import shutil
import warnings

warnings.filterwarnings("ignore")

import torch
import torch.distributed.checkpoint as dcp

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/formats/fixtures/counters"
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)
os.chdir(OUT)  # the list keeps the path that it was saved by
torch.manual_seed(3)
model = {"w": torch.randn(4, 2), "b": torch.randn(4)}


def adam(steps):
    return {name: {"exp_avg": t * 0.1, "exp_avg_sq": t * t, **({"step": steps[name]} if name in steps else {})}
            for name, t in model.items()}


def save(name, state, more={}, group={}):
    dcp.save({"model": model, "optim": {"state": state, "param_groups": [{"lr": 0.1, **group, "params": ["w", "b"]}]},
              **more}, checkpoint_id=name, no_dist=True)


save("integer", adam({"w": 5, "b": 5}))
save("group", adam({}), group={"step": 5})
save("different", adam({"w": torch.tensor(5.0), "b": torch.tensor(2.0)}))
save("schedule", {name: {"momentum_buffer": t * 0.1} for name, t in model.items()}, {"lr_scheduler": {"last_epoch": 5}})
save("none", adam({}))
