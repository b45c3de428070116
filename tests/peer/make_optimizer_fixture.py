"""Ten steps of every optimizer: tests/kernels/fixtures/optimizers.json. Run by `make peer`; the result is committed.

Everything is computed in fp64 from inputs that are exact in fp32, so one fixture serves both of our precisions.
SGD, Adagrad, Adam, AdamW and Muon are torch.optim's own. Muon's iteration is cast to bf16 by torch; here the cast does
nothing, except in the case that says so. Lion and LAMB are spelled from DeepSpeed's csrc (torch has neither).
"""

import json
import pathlib
import sys
from unittest import mock

import torch

STEPS = 10
LENGTH = 37
SHAPES = {"wide": (6, 10), "tall": (10, 6), "square": (7, 7)}

TORCH = {
    "sgd": ("SGD", dict(lr=0.05)),
    "sgd_decay": ("SGD", dict(lr=0.05, weight_decay=0.1)),
    "sgd_momentum": ("SGD", dict(lr=0.05, momentum=0.9)),
    "sgd_dampening": ("SGD", dict(lr=0.05, momentum=0.9, dampening=0.3, weight_decay=0.1)),
    "sgd_nesterov": ("SGD", dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.05)),
    "adagrad": ("Adagrad", dict(lr=0.05)),
    "adagrad_decay": ("Adagrad", dict(lr=0.05, lr_decay=0.1, weight_decay=0.1, eps=1e-6)),
    "adamw": ("AdamW", dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)),
    "adam_l2": ("Adam", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
}
LION = {
    "lion": dict(lr=0.01, betas=(0.9, 0.999), weight_decay=0.0),
    "lion_decay": dict(lr=0.01, betas=(0.95, 0.98), weight_decay=0.2),
}
LAMB = {
    "lamb": dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, max_coeff=10.0, min_coeff=0.01,
                 bias_correction=True),
    "lamb_decay": dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, max_coeff=10.0, min_coeff=0.01,
                       bias_correction=False),
    "lamb_most": dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, max_coeff=0.3, min_coeff=0.01,
                      bias_correction=True),
    "lamb_least": dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, max_coeff=100.0, min_coeff=5.0,
                       bias_correction=True),
}
MUON = {
    "muon_wide": ("wide", False, dict(lr=0.02, momentum=0.95, weight_decay=0.0, nesterov=True, ns_steps=5)),
    "muon_tall": ("tall", False, dict(lr=0.02, momentum=0.9, weight_decay=0.1, nesterov=True, ns_steps=5)),
    "muon_square": ("square", False, dict(lr=0.02, momentum=0.95, weight_decay=0.1, nesterov=False, ns_steps=3)),
    "muon_tall_bf16": ("tall", True, dict(lr=0.02, momentum=0.9, weight_decay=0.1, nesterov=True, ns_steps=5)),
}


def torch_optim(kind, options, start, gradients):
    parameter = torch.nn.Parameter(start.clone())
    settings = {} if kind == "Muon" else dict(foreach=False)
    optimizer = getattr(torch.optim, kind)([parameter], **options, **settings)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    state = optimizer.state[parameter]
    moments = [key for key in ("exp_avg", "exp_avg_sq", "sum", "momentum_buffer") if state.get(key) is not None]
    return parameter.detach(), {key: state[key] for key in moments}


def lion(o, start, gradients):
    p, m, (beta1, beta2) = start.clone(), torch.zeros_like(start), o["betas"]
    for g in gradients:
        update = torch.sign(beta1 * m + (1 - beta1) * g)
        p = p * (1 - o["lr"] * o["weight_decay"]) - o["lr"] * update
        m = beta2 * m + (1 - beta2) * g
    return p, {"exp_avg": m}


def lamb(o, start, gradients):
    p, m, v, (beta1, beta2) = start.clone(), torch.zeros_like(start), torch.zeros_like(start), o["betas"]
    for t, g in enumerate(gradients, 1):
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        u = m / (v.sqrt() + o["eps"]) + o["weight_decay"] * p
        ratio = (p.norm() / u.norm()).clamp(o["min_coeff"], o["max_coeff"]) if p.norm() > 0 and u.norm() > 0 else 1
        size = o["lr"] * ((1 - beta2**t)**0.5 / (1 - beta1**t) if o["bias_correction"] else 1)
        p = p - size * ratio * u
    return p, {"exp_avg": m, "exp_avg_sq": v}


def muon(in_bf16, options, start, gradients):
    if in_bf16:
        return torch_optim("Muon", options, start, gradients)
    with mock.patch.object(torch.Tensor, "bfloat16", lambda self: self.clone()):
        return torch_optim("Muon", options, start, gradients)


def described(kind, options, result, data):
    parameter, moments = result
    return dict(type=kind, options=options, data=data, parameter=parameter.flatten().tolist(),
                moments={key: value.flatten().tolist() for key, value in moments.items()})


def main():
    root = pathlib.Path(__file__).parents[1] / "kernels" / "fixtures"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "optimizers.json"
    torch.manual_seed(21)
    data = {"vector": (torch.randn(LENGTH), torch.randn(STEPS, LENGTH) * torch.logspace(-3, 1, LENGTH))}
    data |= {name: (torch.randn(shape), torch.randn(STEPS, *shape)) for name, shape in SHAPES.items()}
    wide = {name: (start.double(), gradients.double()) for name, (start, gradients) in data.items()}
    cases = {name: described(kind, o, torch_optim(kind, o, *wide["vector"]), "vector")
             for name, (kind, o) in TORCH.items()}
    cases |= {name: described("Lion", o, lion(o, *wide["vector"]), "vector") for name, o in LION.items()}
    cases |= {name: described("Lamb", o, lamb(o, *wide["vector"]), "vector") for name, o in LAMB.items()}
    cases |= {name: described("Muon", o, muon(in_bf16, o, *wide[shape]), shape)
              for name, (shape, in_bf16, o) in MUON.items()}
    inputs = {name: dict(shape=list(start.shape), start=start.flatten().tolist(),
                         gradients=[g.flatten().tolist() for g in gradients])
              for name, (start, gradients) in data.items()}
    path.write_text(json.dumps(dict(torch=torch.__version__, data=inputs, cases=cases)) + "\n")


if __name__ == "__main__":
    main()
