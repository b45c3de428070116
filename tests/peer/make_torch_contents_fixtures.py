"""Makes tests/formats/fixtures/torch_contents: files of torch.save in the layouts that programs give them.

The model's tensors are `w` and `b` in each; contents_of() must find them, and say what else holds tensors. `negative`
has one with torch's negative bit. transposed.pt has matrices whose elements lie in another order, and
transposed.safetensors their values.
"""

import pathlib
import shutil
import warnings

warnings.filterwarnings("ignore")

import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/formats/fixtures/torch_contents"
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)
torch.manual_seed(3)
model = {"w": torch.randn(3, 2), "b": torch.randn(3)}
optimizer = {"state": {0: {"exp_avg": torch.randn(2)}}, "param_groups": []}
layouts = {
    "tutorial": {"epoch": 5, "model_state_dict": model, "optimizer_state_dict": optimizer, "loss": torch.tensor(0.5)},
    "one_name": {"net": model, "ema": torch.tensor(0.99)},
    "two_models": {"model": model, "ema_model": {name: t + 1 for name, t in model.items()}},
    "inside": {"model": {**model, "enc": {"x": torch.randn(2)}}},
    "twice": {"state_dict": {"model": model}, "lr": 0.1},
    "number": {1: torch.randn(2), **model},
    "other_kinds": {**model, "q": torch.quantize_per_tensor(torch.randn(2), 0.1, 3, torch.quint8),
                    "s": torch.eye(2).to_sparse(), "m": torch.empty(2, device="meta"), "n": torch.randn(2).numpy()},
    "unclear": {"first": model, "second": model},
    "negative": {**model, "sine": torch.polar(torch.ones(2), torch.ones(2)).conj().imag},
}
# one tensor of a type that is not read beside those of the model
for name, odd in {"u16": torch.tensor([1, 2, 3], dtype=torch.uint16), "c64": torch.tensor([1j, 2, 3])}.items():
    layouts[name] = {"w": torch.randn(4, 4), "b": torch.randn(4), "x": odd}
for name, content in layouts.items():
    torch.save(content, OUT / f"{name}.pt")

transposed = {"turned": torch.randn(70, 50).t(), "turned_half": torch.randn(70, 50).bfloat16().t(),
              "every_other": torch.randn(120, 60)[:, ::2], "permuted": torch.randn(7, 20, 9, 5).permute(3, 1, 0, 2),
              "images": torch.randn(9, 8, 7, 6).to(memory_format=torch.channels_last),
              "repeated": torch.randn(40, 1, 30).expand(40, 3, 30).permute(2, 1, 0)}
torch.save(transposed, OUT / "transposed.pt")
save_file({name: t.clone(memory_format=torch.contiguous_format) for name, t in transposed.items()}, OUT / "transposed.safetensors")
