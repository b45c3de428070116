"""What transformers' activation functions give: tests/models/layers/fixtures/activations.safetensors.

`x` and `dy` are inputs and gradients of outputs, the numbers of which fp32 has; `y.<name>` and `dx.<name>` are the
outputs of ACT2FN[name] and the gradients of `x`, computed in fp64. `refused.<name>` marks a function with parameters of
its own. Run by `make peer`; the result is committed. A further argument is the file to write.
"""

import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers.activations import ACT2FN


def main():
    root = pathlib.Path(__file__).parents[1] / "models" / "layers" / "fixtures"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "activations.safetensors"
    torch.manual_seed(5)
    # Both sides of every bend (-3, 0, 3, 6, 10 and softplus' 20), and far from all of them.
    edges = torch.tensor([-40.0, -12.0, -3.5, -2.5, -0.25, 0.25, 2.5, 3.5, 5.5, 6.5, 9.75, 10.0, 10.25, 19.5, 20.5, 40.0])
    x = torch.cat([edges, torch.randn(32) * 3]).float()
    dy = torch.randn_like(x)
    out = {"x": x, "dy": dy}
    for name in ACT2FN:
        function = ACT2FN[name]
        if list(function.parameters()):
            out["refused." + name] = torch.zeros(1)
            continue
        wide = x.double().requires_grad_()
        y = function(wide)
        y.backward(dy.double())
        out["y." + name], out["dx." + name] = y.detach().clone(), wide.grad
    save_file(out, path)
    print(f"{path.name}: {len(out)} tensors, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
