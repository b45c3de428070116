"""Ten losses of a GPT-2 that DeepSpeed compresses while it trains, by technique, and the masks that it ends with:
tests/parity/fixtures/compressed_training.json. Ten of one that begins with two layers of a deeper one: the same file, and
tests/parity/fixtures/teacher. The results are committed.

Needs DeepSpeed 0.19.6 as make_compression_fixtures.py does. The model is tests/models/fixtures/gpt2 after DeepSpeed's
`convert_conv1d_to_linear` and `init_compression`; a plain loop calls its `compression_scheduler` after each update, as
the engine does, and AdamW sees gradients of zero where there are none, as an optimizer over flat buffers does. In fp64:
an element that lies near the edge between two points of a grid must not fall to either side by rounding. Every step
has the whole text as its batch, so the order of its windows is nobody's business.
"""

import copy
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".peer/compression"))

import deepspeed  # noqa: E402
import torch  # noqa: E402

WANTED = "0.19.6"
if not deepspeed.__version__.startswith(WANTED):
    print(f"make_compressed_training_fixture: DeepSpeed {deepspeed.__version__} has no compression, {WANTED} has: fixture kept")
    sys.exit(0)

from deepspeed.compression.basic_layer import QuantAct  # noqa: E402
from deepspeed.compression.compress import init_compression, student_initialization  # noqa: E402
from deepspeed.compression.config import get_compression_config  # noqa: E402
from deepspeed.compression.helper import convert_conv1d_to_linear  # noqa: E402
from deepspeed.compression.scheduler import compression_scheduler  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402
from transformers.pytorch_utils import Conv1D  # noqa: E402

MODEL, TEACHER = ROOT / "tests/models/fixtures/gpt2", ROOT / "tests/parity/fixtures/teacher"
STEPS, OFFSET, ROWS, COLUMNS = 10, 3, 8, 16
ADAMW = dict(lr=3e-3, betas=[0.9, 0.999], eps=1e-5, weight_decay=0.1)
ALL, MLP = ["attn", "mlp"], ["mlp"]


def technique(name, modules, params, **shared):
    shared = {"enabled": True, "schedule_offset": OFFSET} | shared
    return {name: {"shared_parameters": shared, "different_groups": {"all": {"params": params, "modules": modules}}}}


def weights(bits, modules=ALL, kind="symmetric", groups=8):
    return technique("weight_quantization", modules, {"start_bits": bits, "target_bits": bits},
                     quantize_weight_in_forward=True, quantization_type=kind, quantize_groups=groups)


def inputs(bits, kind, calibration="dynamic"):
    return technique("activation_quantization", ALL, {"bits": bits}, quantization_type=kind,
                     range_calibration=calibration)


def pruned(name, modules, ratio, method, **shared):
    return technique(name, modules, {"dense_ratio": ratio}, method=method, **shared)


HEADS = dict(num_heads=3)
RUNS = {
    "symmetric weights of 8 bits": weights(8),
    "symmetric weights of 4 bits": weights(4),
    "asymmetric weights of 4 bits": weights(4, kind="asymmetric", groups=4),
    "asymmetric weights of 3 bits": weights(3, kind="asymmetric", groups=1),
    "ternary weights": weights(2),
    "binary weights": weights(1, MLP),
    "an embedding of 4 bits": weights(4, ["wte"]),
    "symmetric inputs of 8 bits": inputs(8, "symmetric"),
    "symmetric inputs of 4 bits": inputs(4, "symmetric"),
    "asymmetric inputs of 4 bits": inputs(4, "asymmetric"),
    "sparse by l1": pruned("sparse_pruning", ALL, 0.4, "l1"),
    "sparse by topk": pruned("sparse_pruning", ["c_fc"], 0.5, "topk"),
    "rows by l1": pruned("row_pruning", ["mlp"], 0.5, "l1"),
    "rows by topk": pruned("row_pruning", ["c_fc"], 0.5, "topk"),
    "heads by topk": pruned("head_pruning", ["attn\\.c_proj"], 0.5, "topk", **HEADS),
    "all at once": weights(4) | inputs(8, "symmetric") | pruned("sparse_pruning", ["c_fc"], 0.6, "topk")
    | pruned("row_pruning", ["c_fc"], 0.75, "l1") | pruned("head_pruning", ["attn\\.c_proj"], 0.5, "topk", **HEADS),
}
STATIC = {
    "symmetric inputs of 8 bits within learned ranges": inputs(8, "symmetric", "static"),
    "asymmetric inputs of 8 bits within learned ranges": inputs(8, "asymmetric", "static"),
}


class RangeOfTheUpdatesSoFar(QuantAct):
    """The peer's arithmetic, where a step multiplies within the range that the updates before it have left: what Troupe
    promises for any number of ranks and micro-batches. The peer moves the range before it multiplies."""

    def forward(self, x, num_bits, *_):
        low, high = self.x_min_max.clone()
        out = x if low == high else self.act_function(x, num_bits, low, high)
        super().forward(x.detach(), num_bits)
        return out


def set_scores(model):
    """First scores that need no file: every multiple of 1/n within a half of 0 once, scattered; the smallest is -1/2."""
    for name, parameter in model.named_parameters():
        if name.endswith("_scores"):
            n = parameter.numel()
            values = [(i * 7919 + 31) % n / n - 0.5 for i in range(n)]
            parameter.data = torch.tensor(values, dtype=torch.float32).double().reshape(parameter.shape)


def mask_text(layer, part):
    return "".join("1" if x else "0" for x in layer.get_mask(part).flatten().tolist())


def masks_of(model):
    out = {}
    for name, layer in model.named_modules():
        for part in ("sparse", "row", "head"):
            if getattr(layer, f"{part}_pruning_method", None):
                out[f"{name} {part}_pruning"] = mask_text(layer, part)
    return out


def text():
    torch.manual_seed(19)
    return "".join(chr(32 + t) for t in torch.randint(16, (ROWS * COLUMNS + 1,)).tolist())


def config_of(section):
    """Its own copy: the peer writes into what it is given."""
    return {"compression_training": copy.deepcopy(section)}


def scheduler_of(model, config, defines_the_end=True):
    parsed = get_compression_config(config)
    if defines_the_end:  # the peer reads a key that its configuration leaves out for l1 and topk
        parsed["sparse_pruning"]["shared_parameters"].setdefault("schedule_offset_end", 10 ** 9)
    return compression_scheduler(model, parsed)


def error_without_an_end():
    """What the peer says itself when sparse pruning by l1 is to begin."""
    model = convert_conv1d_to_linear(GPT2LMHeadModel.from_pretrained(MODEL), Conv1D)
    config = config_of(RUNS["sparse by l1"])
    scheduler = scheduler_of(init_compression(model, config), config, defines_the_end=False)
    try:
        for _ in range(OFFSET):
            scheduler.step()
    except KeyError as e:
        return f"KeyError: {e}"
    return "none"


def compressed(section, quantiser):
    """The model with the peer's layers, and its scheduler's step."""
    model = GPT2LMHeadModel.from_pretrained(MODEL, attn_implementation="eager").double()
    config = config_of(section)
    model = init_compression(convert_conv1d_to_linear(model, Conv1D), config).double()
    model.lm_head.weight = model.transformer.wte.weight  # each had been given a parameter of its own
    set_scores(model)
    if quantiser:
        for layer in model.modules():
            if isinstance(getattr(layer, "activation_quantizer", None), QuantAct):
                layer.activation_quantizer = quantiser(quant_mode=layer.activation_quantizer.quant_mode).double()
    return model, scheduler_of(model, config).step


def reduced():
    """A student that begins with two layers of the teacher, which is written; its section, and the student."""
    sizes = dict(n_embd=8, n_head=2, n_positions=COLUMNS, vocab_size=48, resid_pdrop=0.0, embd_pdrop=0.0,
                 attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    torch.manual_seed(20)
    teacher = GPT2LMHeadModel(GPT2Config(n_layer=5, **sizes))
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    teacher.save_pretrained(TEACHER)
    (TEACHER / "generation_config.json").unlink(missing_ok=True)
    section = {"layer_reduction": {"enabled": True, "keep_number_layer": 2, "module_name_prefix": "transformer.h",
                                   "teacher_layer": [1, 3],
                                   "other_module_name": ["transformer.wte", "transformer.wpe", "transformer.ln_f"]}}
    student = GPT2LMHeadModel(GPT2Config(n_layer=2, attn_implementation="eager", **sizes))
    student_initialization(student, teacher, config_of(section))
    return section, student.double()


def train(model, scheduler_step, tokens):
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    losses = []
    scheduler_step(step_zero_check=True)
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        scheduler_step()
        losses.append(loss.item())
    return losses, masks_of(model)


def main():
    torch.set_num_threads(1)
    corpus = text()
    rows = [[ord(c) for c in corpus[r * COLUMNS:(r + 1) * COLUMNS + 1]] for r in range(ROWS)]
    tokens = torch.tensor(rows)
    losses_of = lambda section, quantiser=None: train(*compressed(section, quantiser), tokens)
    out = {"deepspeed": WANTED, "text": corpus, "rows": ROWS, "columns": COLUMNS, "offset": OFFSET, "adamw": ADAMW,
           "plain": losses_of({})[0], "runs": [], "static": [], "error_without_an_end": error_without_an_end()}
    for name, section in RUNS.items():
        losses, masks = losses_of(section)
        out["runs"].append({"name": name, "compression_training": section, "losses": losses,
                            **({"masks": masks} if masks else {})})
        print(f"{name}: {losses[0]:.4f} ... {losses[OFFSET]:.4f} ... {losses[-1]:.4f}")
    for name, section in STATIC.items():
        out["static"].append({"name": name, "compression_training": section, "peers": losses_of(section)[0],
                              "losses": losses_of(section, RangeOfTheUpdatesSoFar)[0]})
    section, student = reduced()
    out["reduced"] = {"compression_training": section, "losses": train(student, lambda **_: None, tokens)[0]}
    target = ROOT / "tests/parity/fixtures/compressed_training.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(out, indent=1) + "\n")
    print(f"{target}: {target.stat().st_size} bytes by DeepSpeed {deepspeed.__version__}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
