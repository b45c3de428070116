"""Steps a training run from Python: python examples/train.py [STEPS], with Troupe's wheel, torch and numpy installed.

Prints losses, looks at the weights of each rank in the memory in which it trains, evaluates, saves, and goes on from
the saved checkpoint.
"""

import sys
from pathlib import Path

import numpy

import troupe

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
folder = Path("runs/python")
weight = "transformer.h.0.mlp.c_fc.weight"
job = {
    "model": {
        "model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 256,
        "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0,
    },
    "data": {"text": Path(__file__).resolve().with_name("corpus.txt"), "validation_fraction": 0.2},
    "parallel": {"data": 2},
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "seed": 1,
    "steps": steps,
    "output": folder,
}  # fmt: skip

with troupe.Session(job) as session:
    # ZeRO-3: each rank has a part of the weight, and numpy sees it without a copy.
    parts = [numpy.asarray(session.view(weight, rank=rank)) for rank in range(2)]
    for _ in range(steps):
        step = session.step()
        norms = ", ".join(f"{float(numpy.linalg.norm(part)):.4f}" for part in parts)
        print(f"step {step.step}  loss {step.loss:.4f}  norms of the ranks' parts {norms}")
    print(f"validation loss {session.evaluate():.4f}")
    saved = session.save(folder / "checkpoints", client_state={"losses": step.loss})

with troupe.Session(job, resume=saved) as session:
    same = numpy.array_equal(numpy.concatenate(parts), session.weights(weight).numpy().ravel())
    print(f"resumed after step {session.steps_done} from {saved}: the same weights: {same}")
