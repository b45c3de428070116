"""Ten steps of torch.optim: tests/kernels/fixtures/adamw.json. Run by `make peer`; the result is committed."""

import json
import pathlib
import sys

import torch

ELEMENTS, STEPS = 37, 10

CASES = {
    "adamw": (torch.optim.AdamW, dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)),
    "adamw_without_decay": (torch.optim.AdamW, dict(lr=1e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.0)),
    "adam_l2": (torch.optim.Adam, dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)),
}


def run(kind, options, start, gradients):
    parameter = torch.nn.Parameter(start.clone())
    optimizer = kind([parameter], foreach=False, fused=False, **options)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    state = optimizer.state[parameter]
    return dict(options=options | dict(l2=kind is torch.optim.Adam), parameter=parameter.tolist(),
                exp_avg=state["exp_avg"].tolist(), exp_avg_sq=state["exp_avg_sq"].tolist())


def main():
    root = pathlib.Path(__file__).parents[1] / "kernels" / "fixtures"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "adamw.json"
    torch.manual_seed(20)
    start = torch.randn(ELEMENTS)
    gradients = torch.randn(STEPS, ELEMENTS) * torch.logspace(-3, 1, ELEMENTS)
    cases = {name: run(kind, options, start, gradients) for name, (kind, options) in CASES.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dict(torch=torch.__version__, start=start.tolist(), gradients=gradients.tolist(),
                                    cases=cases)) + "\n")


if __name__ == "__main__":
    main()
