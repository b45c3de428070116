"""transformers and compressed-tensors load what `troupe compress` writes: same weights, same logits, same bytes.

For every family and format: a small model with random weights, saved by transformers, is compressed by troupe. Then
  - its weights, decompressed by compressed-tensors, are bit for bit those that `troupe checkpoint to-hf` reads back;
  - its logits are those of a plain model with these weights: opened with `dequantize`, and as it is, where w8a8
    quantises activations, too;
  - codes are the bytes that compressed-tensors' own compressor makes of the weight with these scales (fp32).
Needs transformers, compressed-tensors 0.20 and accelerate beside torch; without compressed-tensors it says so and ends.
Needs build/release's programs, or a folder named by PROGRAMS.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import compressed_tensors
except ImportError:
    print("compressed_tensors_loads_ours: no compressed-tensors here: skipped")
    sys.exit(0)
import safetensors.torch
import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = pathlib.Path(os.environ.get("PROGRAMS", str(ROOT / "build/release"))) / "troupe"
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=256, max_position_embeddings=64, head_dim=16)
FAMILIES = {
    "llama": (transformers.LlamaConfig, {}),
    "llama-tied": (transformers.LlamaConfig, dict(tie_word_embeddings=True)),
    "mistral": (transformers.MistralConfig, {}),
    "qwen2": (transformers.Qwen2Config, {}),
    "qwen3": (transformers.Qwen3Config, {}),
    "gemma": (transformers.GemmaConfig, {}),
    "gemma2": (transformers.Gemma2Config, {}),
    "phi3": (transformers.Phi3Config, dict(pad_token_id=0)),
}
FORMATS = [("int4", "--group", "32"), ("int4", "--group", "32", "--asymmetric"), ("int4", "--group", "0"),
           ("int3", "--group", "16", "--asymmetric"), ("int8",), ("int8", "--asymmetric"), ("int8", "--group", "16"),
           ("w8a8",), ("fp8",), ("mxfp4",), ("nvfp4",)]
TEXT = ("--calibrate", str(ROOT / "README.md"), "--tokenizer", "bytes", "--samples", "8", "--sequence", "64", "--validate",
        "none")
METHODS = [("int4", "--group", "32", "--method", "gptq", *TEXT), ("int3", "--group", "16", "--asymmetric", "--method", "gptq", *TEXT),
           ("int8", "--method", "gptq", *TEXT), ("int4", "--group", "32", "--method", "awq", *TEXT),
           ("w8a8", "--method", "smoothquant", *TEXT)]  # of a family that is computed with


def troupe(*arguments):
    done = subprocess.run([str(TROUPE), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"troupe {' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def logits_of(model, tokens):
    with torch.no_grad():
        return model.eval()(tokens).logits.float()


def tensors_in(folder):
    out = {}
    for file in folder.glob("*.safetensors"):
        out.update(safetensors.torch.load_file(file))
    return out


def check(family, dtype, wanted, folder):
    kind, extra = FAMILIES[family]
    torch.manual_seed(7)
    plain = transformers.AutoModelForCausalLM.from_config(kind(**{**SIZES, **extra})).to(getattr(torch, dtype))
    for p in plain.parameters():
        p.data = (p.data.float() + torch.randn(p.shape) * 0.05).to(p.dtype)
    plain.save_pretrained(folder / "plain")
    short = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[dtype]
    name, *options = wanted
    said = troupe("compress", folder / "plain", folder / "small", "--to", f"compressed-tensors:{name}", "--dtype", short,
                  *options)
    troupe("checkpoint", "verify", folder / "small", "--quiet")
    troupe("checkpoint", "to-hf", folder / "small", folder / "back", "--dtype", short)
    back = transformers.AutoModelForCausalLM.from_pretrained(folder / "back", dtype=getattr(torch, dtype))
    opened = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "small", dtype=getattr(torch, dtype),
        quantization_config=transformers.CompressedTensorsConfig(dequantize=True))
    theirs, ours = dict(opened.named_parameters()), dict(back.named_parameters())
    if theirs.keys() != ours.keys():
        sys.exit(f"{family} {wanted}: names differ: {theirs.keys() ^ ours.keys()}")
    for key in ours:
        if not torch.equal(ours[key].data, theirs[key].data):
            sys.exit(f"{family} {wanted} {dtype}: '{key}' differs by {(ours[key] - theirs[key]).abs().max()}")
    tokens = torch.arange(24).view(2, 12) * 7 % 256
    difference = (logits_of(opened, tokens) - logits_of(back, tokens)).abs().max().item()
    if dtype == "float32" and "--method" not in options:
        check_bytes(family, wanted, folder)
    if difference != 0:
        sys.exit(f"{family} {wanted} {dtype}: logits differ by {difference}")
    # compressed-tensors 0.20 makes room for unpacked zero points and finds packed ones, and has 4-bit numbers in bf16
    if "--asymmetric" in options or (name.endswith("fp4") and dtype != "bfloat16"):
        return said.splitlines()[-1], 0.0
    as_it_is = transformers.AutoModelForCausalLM.from_pretrained(folder / "small", dtype=getattr(torch, dtype))
    compressed = logits_of(as_it_is, tokens)
    with_codes = (compressed - logits_of(back, tokens)).abs().max().item()
    if name != "w8a8" and with_codes != 0:
        sys.exit(f"{family} {wanted} {dtype}: logits of the codes differ by {with_codes}")
    return said.splitlines()[-1], with_codes


def check_bytes(family, wanted, folder):
    """compressed-tensors' compressor, given our scales, makes our codes."""
    config = transformers.AutoConfig.from_pretrained(folder / "small").quantization_config
    config = QuantizationConfig(**{k: v for k, v in (config if isinstance(config, dict) else config.to_dict()).items()
                                   if k in QuantizationConfig.model_fields})
    scheme = next(iter(config.config_groups.values()))
    small, plain = tensors_in(folder / "small"), tensors_in(folder / "plain")
    compressor = BaseCompressor.get_value_from_registry(config.format)
    modules = sorted(k.removesuffix(".weight_scale") for k in small if k.endswith(".weight_scale"))
    for module in modules:
        parts = {k.removeprefix(module + "."): v for k, v in small.items() if k.startswith(module + ".")}
        state = {k: v for k, v in parts.items() if k not in ("weight", "weight_packed", "weight_shape")}
        state["weight"] = plain[module + ".weight"].float()
        if state["weight_scale"].dtype == torch.uint8:
            state["weight_scale"] = 2.0 ** (state["weight_scale"].float() - 127)
        elif state["weight_scale"].dtype == torch.float8_e4m3fn:
            state["weight_scale"] = state["weight_scale"].float()
        if "weight_zero_point" in state:
            from compressed_tensors.compressors.pack_quantized import unpack_from_int32
            shape = (state["weight"].shape[0], state["weight_scale"].shape[1])
            state["weight_zero_point"] = unpack_from_int32(state["weight_zero_point"], scheme.weights.num_bits, shape,
                                                           packed_dim=0)
        made = compressor.compress(state, scheme)
        for key, value in made.items():
            same = torch.equal(value.view(torch.uint8) if value.dtype.itemsize == 1 else value.to(parts[key].dtype),
                               parts[key].view(torch.uint8) if parts[key].dtype.itemsize == 1 else parts[key])
            if not same:
                sys.exit(f"{family} {wanted}: '{module}.{key}' is not what compressed-tensors makes")


for family in sys.argv[1:] or FAMILIES:
    for wanted in FORMATS + METHODS if family == "llama" else FORMATS[:1] + FORMATS[-2:]:
        for dtype in ("float32", "bfloat16", "float16") if family == "llama" else ("bfloat16",):
            with tempfile.TemporaryDirectory() as scratch:
                line, difference = check(family, dtype, wanted, pathlib.Path(scratch))
            activations = f", activations too change logits by {difference:.3g}" if wanted[0] == "w8a8" else ""
            print(f"{family} {' '.join(w for w in wanted if w not in TEXT)} {dtype}: {line}{activations}")
print(f"compressed-tensors {compressed_tensors.__version__} and transformers {transformers.__version__} load what "
      "compress writes: same weights, same logits")
