"""Losses and gradients of torch's cross_entropy with label smoothing, and of a z-loss: tests/kernels/fixtures/losses.json.

Run by `make peer`; the result is committed. Losses are sums over rows, in fp64; rows with the target -100 are ignored.
"""

import json
import pathlib
import sys

import torch

ROWS, COLUMNS = 5, 19
CASES = {
    "plain": (0.0, 0.0),
    "smoothed": (0.1, 0.0),
    "evenly": (1.0, 0.0),
    "z_loss": (0.0, 1e-2),
    "both": (0.3, 5e-2),
}


def main():
    root = pathlib.Path(__file__).parents[1] / "kernels" / "fixtures"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "losses.json"
    generator = torch.Generator().manual_seed(5)
    # fp32 numbers, so that Troupe's kernels for fp32 and for fp64 read the same logits.
    logits = (3 * torch.randn(ROWS, COLUMNS, generator=generator)).to(torch.float32).to(torch.float64)
    targets = torch.tensor([4, 18, -100, 0, 11])
    cases = {}
    for name, (label_smoothing, z_loss) in CASES.items():
        x = logits.clone().requires_grad_(True)
        loss = torch.nn.functional.cross_entropy(x, targets, label_smoothing=label_smoothing, reduction="sum")
        loss = loss + z_loss * (torch.logsumexp(x, -1).square() * targets.ge(0)).sum()
        loss.backward()
        cases[name] = dict(label_smoothing=label_smoothing, z_loss=z_loss, loss=loss.item(),
                           gradient=x.grad.flatten().tolist())
    whole = dict(columns=COLUMNS, targets=targets.tolist(), logits=logits.flatten().tolist(), cases=cases)
    path.write_text(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main()
