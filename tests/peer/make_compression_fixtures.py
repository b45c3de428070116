"""DeepSpeed's quantizers and masks: tests/kernels/fixtures/compression.json, and weights that lose their bits one by
one (MoQ): tests/kernels/fixtures/moving_bits.json. The results are committed.

Needs DeepSpeed 0.19.6, the last release that has `deepspeed.compression`: `make peer` puts it, without dependencies,
into .peer/compression beside the newer one. Everything is on the CPU in fp32, by the layers that `init_compression` puts
into a model: no engine, so nothing is compiled. Numbers lie in the file as base64 of little-endian fp32, masks as text of
0 and 1.
"""

import base64
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".peer/compression"))

import deepspeed  # noqa: E402
import torch  # noqa: E402

WANTED = "0.19.6"
if not deepspeed.__version__.startswith(WANTED):
    print(f"make_compression_fixtures: DeepSpeed {deepspeed.__version__} has no compression, {WANTED} has: fixture kept")
    sys.exit(0)

from deepspeed.compression.basic_layer import (  # noqa: E402
    Conv2dLayer_Compress,
    Embedding_Compress,
    LinearLayer_Compress,
    QuantAct,
)
from deepspeed.compression.utils import TopKBinarizer  # noqa: E402
from deepspeed.runtime.quantize import Quantizer  # noqa: E402

OUT, IN = 26, 32  # 832 elements: the least number that 13 and 64 divide
GROUPS = (1, 13, 64)


def numbers(tensor):
    return base64.b64encode(tensor.detach().float().contiguous().numpy().astype("<f4").tobytes()).decode()


def bits(mask):
    return "".join("1" if x else "0" for x in mask.flatten().tolist())


def linear(weight):
    layer = LinearLayer_Compress(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data = weight.clone()
    return layer


def quantised(layer, target_bits, kind, groups):
    layer.enable_weight_quantization(target_bits, target_bits, 1, True, kind, groups)
    layer.weight_quantization_enabled = True
    layer.fix_weight_quantization()
    return numbers(layer.weight)


torch.manual_seed(19)
weight = torch.randn(OUT, IN) * torch.logspace(-2, 1, OUT).view(-1, 1) + 0.05
out = {"deepspeed": WANTED, "rows": OUT, "columns": IN, "weight": numbers(weight), "weights": [], "masks": []}
for target_bits in (1, 2, 3, 4, 8):
    for kind in ("symmetric", "asymmetric") if target_bits > 2 else ("symmetric",):
        for groups in GROUPS:
            out["weights"].append({"bits": target_bits, "type": kind, "groups": groups,
                                   "values": quantised(linear(weight), target_bits, kind, groups)})
table = Embedding_Compress(OUT, IN)
table.weight.data = weight.clone()
out["embedding"] = {"bits": 4, "type": "symmetric", "values": quantised(table, 4, "symmetric", 1)}

batches = [torch.randn(4, 16) * 2 ** i + 0.3 for i in range(3)]
out["tokens"], out["width"] = 4, 16
out["batches"] = [numbers(x) for x in batches]
out["activations"] = []
for kind in ("symmetric", "asymmetric"):
    for width in (4, 8):
        layer = linear(weight)
        layer.enable_activation_quantization(width, kind, "dynamic")
        dynamic = [numbers(layer.activation_quantizer(x, width, None, None, 4)) for x in batches]
        observer = QuantAct(quant_mode=kind)
        static, ranges = [], []
        for x in batches:
            static.append(numbers(observer(x, width)))
            ranges.append(numbers(observer.x_min_max))
        observer.eval()
        frozen = numbers(observer(batches[0], width))
        out["activations"].append({"bits": width, "type": kind, "dynamic": dynamic, "static": static,
                                   "ranges": ranges, "frozen": frozen})

HEADS = 8
kernel = torch.randn(16, 8, 3, 3)
out["kernel"], out["kernel_width"], out["heads"] = numbers(kernel), 72, HEADS
for ratio in (0.1, 0.3, 0.55):
    for method in ("l1", "topk"):
        layer = linear(weight)
        layer.enable_sparse_pruning(ratio, method)
        layer.enable_row_pruning(ratio, method)
        if method == "topk":
            conv = Conv2dLayer_Compress(8, 16, 3)
            conv.enable_channel_pruning(ratio, method)
            channels = conv.get_mask("channel")
        else:  # the peer's own line asks linalg.norm for three dimensions, which refuses: its rule, spelled
            channels = TopKBinarizer.apply(kernel.abs().sum(dim=(1, 2, 3)), ratio, False)
        out["masks"].append({
            "ratio": ratio, "method": method, "elements": bits(layer.get_mask("sparse")),
            "rows": bits(layer.get_mask("row")), "channels": bits(channels),
            **({} if method == "l1" else {"element_scores": numbers(layer.sparse_mask_scores),
                                          "row_scores": numbers(layer.row_mask_scores),
                                          "channel_scores": numbers(conv.channel_mask_scores)})})
    layer = linear(weight)
    layer.enable_head_pruning(ratio, "topk", HEADS)
    out["masks"].append({"ratio": ratio, "method": "head", "heads": bits(layer.get_mask("head")),
                         "head_scores": numbers(layer.head_pruning_scores),
                         "elements": bits(layer.head_pruning_reshape(torch.ones(OUT, IN), layer.get_mask("head")))})

# Weights for which the peer's own results are NaN.
constant, zero = torch.full((2, 8), 0.25), torch.zeros(2, 8)
out["not_numbers"] = {
    "symmetric_of_zeros": quantised(linear(zero), 4, "symmetric", 2),
    "asymmetric_of_a_constant": quantised(linear(constant), 4, "asymmetric", 2),
    "ternary_of_zeros": quantised(linear(zero), 2, "symmetric", 2),
}
target = ROOT / "tests/kernels/fixtures/compression.json"
target.write_text(json.dumps(out, indent=1) + "\n")
print(f"{target}: {target.stat().st_size} bytes by DeepSpeed {deepspeed.__version__}, torch {torch.__version__}")


def moved(start, target, period, kind, groups, ratio, steps):
    """What the peer leaves in a weight after each call, which begins with the weight itself as after an update."""
    quantizer = Quantizer(q_groups=groups, q_mixed_fp16=ratio > 0, q_change_ratio=ratio, q_type=kind,
                          q_rounding="nearest")
    parameter = torch.nn.Parameter(few.clone())
    parameter.start_bits, parameter.target_bits, parameter.q_period = start, target, period
    out = []
    for _ in range(steps):
        parameter.data = few.clone()
        quantizer.quantize([[parameter]], False, False)
        out.append({"bits": parameter.start_bits, "values": parameter.detach().flatten().tolist()})
    return {"start_bits": start, "target_bits": target, "period": period, "type": kind, "groups": groups,
            "change_ratio": ratio, "steps": out}


few = torch.randn(4, 6) * torch.tensor([0.1, 1.0, 3.0, 0.5]).view(-1, 1)
moving = {"deepspeed": WANTED, "rows": 4, "columns": 6, "weight": few.flatten().tolist(), "runs": [
    moved(8, 5, 2, "symmetric", 1, 0.0, 10),
    moved(6, 4, 3, "asymmetric", 4, 0.25, 9),
    moved(4, 1, 1, "symmetric", 2, 0.0, 6),
    moved(5, 4, 0, "symmetric", 4, 0.5, 5),
]}
target = ROOT / "tests/kernels/fixtures/moving_bits.json"
target.write_text(json.dumps(moving) + "\n")
print(f"{target}: {target.stat().st_size} bytes")
