"""Folders that compressed-tensors itself writes: tests/formats/fixtures/compressed. The result is committed.

Of every format one linear layer, its codes by the package's own compressor, beside the values that the package's
decompressor makes of them (`expected.safetensors`). Needs compressed-tensors 0.20 beside torch; without it, it says so.
"""

import json
import pathlib
import sys

try:
    import compressed_tensors
except ImportError:
    print("make_compressed_fixtures: no compressed-tensors here: fixtures kept")
    sys.exit(0)
import safetensors.torch
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, preset_name_to_scheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

ROWS, COLUMNS = 12, 64
MODULE = "model.layers.0.mlp.up_proj"


def integers(bits, symmetric, group, **more):
    strategy = {"strategy": "group", "group_size": group} if group else {"strategy": "channel"}
    return QuantizationScheme(targets=["Linear"], weights=dict(num_bits=bits, type="int", symmetric=symmetric,
                                                               **strategy), **more)


TOKEN = dict(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
CASES = {
    "int4_group": (integers(4, True, 16), "pack-quantized", torch.bfloat16),
    "int4_asymmetric": (integers(4, False, 32), "pack-quantized", torch.float16),
    "int3_asymmetric": (integers(3, False, 16), "pack-quantized", torch.float32),
    "int8_channel": (integers(8, True, None), "pack-quantized", torch.float32),
    "w8a8": (integers(8, True, None, input_activations=TOKEN), "int-quantized", torch.bfloat16),
    "w8a8_asymmetric": (integers(8, False, None, input_activations=TOKEN), "int-quantized", torch.float32),
    "fp8": (QuantizationScheme(targets=["Linear"], weights=dict(num_bits=8, type="float", strategy="channel")),
            "float-quantized", torch.bfloat16),
    "fp8_tensor": (QuantizationScheme(targets=["re:.*up_proj$"],
                                      weights=dict(num_bits=8, type="float", strategy="tensor")),
                   "float-quantized", torch.float32),
    "mxfp4": (preset_name_to_scheme("MXFP4A16", ["Linear"]), "mxfp4-pack-quantized", torch.bfloat16),
    "nvfp4": (preset_name_to_scheme("NVFP4A16", ["Linear"]), "nvfp4-pack-quantized", torch.bfloat16),
}


def range_of(weight, args):
    if args.strategy == "tensor":
        return weight.min().view(1), weight.max().view(1)
    grouped = weight.view(ROWS, -1, args.group_size) if args.group_size else weight.view(ROWS, 1, COLUMNS)
    return grouped.amin(-1), grouped.amax(-1)


target = pathlib.Path(__file__).resolve().parents[1] / "formats/fixtures/compressed"
for name, (scheme, form, dtype) in CASES.items():
    torch.manual_seed(len(name))
    weight = (torch.randn(ROWS, COLUMNS) * 0.1 + 0.02).to(dtype)
    args, more = scheme.weights, {}
    if args.strategy == "tensor_group":
        more["global_scale"] = generate_gparam(weight.float().min().view(1), weight.float().max().view(1))
    scale, zero = calculate_qparams(*range_of(weight, args), args, **more)
    state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
    if more:
        state["weight_global_scale"] = more["global_scale"]
    compressor = BaseCompressor.get_value_from_registry(form)
    stored = {k: v.contiguous() for k, v in compressor.compress(state, scheme).items()}
    expected = compressor.decompress(dict(stored), scheme)["weight"]
    folder = target / name
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"{MODULE}.{k}": v for k, v in stored.items()}
    tensors["model.norm.weight"] = torch.arange(8, dtype=dtype)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    values = {f"{MODULE}.weight": expected.contiguous(), "model.norm.weight": tensors["model.norm.weight"]}
    safetensors.torch.save_file(values, folder / "expected.safetensors", metadata={"format": "pt"})
    config = QuantizationConfig(config_groups={"group_0": scheme}, format=form, quantization_status="compressed",
                                ignore=["lm_head"])
    said = json.loads(config.model_dump_json())
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": said}, indent=1) + "\n")
    error = (expected.float() - weight.float()).norm() / weight.float().norm()
    print(f"{name}: {sorted(stored)}, error {error:.4f}")
print(f"{target}: by compressed-tensors {compressed_tensors.__version__}")
