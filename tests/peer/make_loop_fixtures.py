"""Steps of training loops in PyTorch: tests/parity/fixtures/averages.json and own_loop.json.

The model is the gpt2 of make_model_fixtures.py in fp64, trained by AdamW. averages.json has averages of the weights by
torch.optim.swa_utils.AveragedModel, once begun with the first weights and once with those after the first step.
own_loop.json has steps on the sum of a policy gradient, whose derivatives by the logarithms of probabilities are
`gradients`, and of half the mean loss of another batch; and the gradient of the first step. A tensor is described by
the sum of its elements, by its norm, and by the sum in which the element i has the factor i % 7 - 3. Run by `make peer`;
the results are committed.
"""

import json
import pathlib

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS, PARITY = ROOT / "tests/models/fixtures", ROOT / "tests/parity/fixtures"
STEPS, ROWS, COLUMNS = 5, 4, 16
ADAMW = dict(lr=1e-2, betas=[0.9, 0.999], eps=1e-5, weight_decay=0.1)
DECAY, FACTOR = 0.75, 0.5
VOCABULARY = range(32, 48)  # bytes that print, and are tokens of the model


def new_model():
    return AutoModelForCausalLM.from_pretrained(MODELS / "gpt2", dtype=torch.float32).to(torch.float64)


def log_probabilities(model, tokens):
    logits = model(tokens[:, :-1]).logits
    return torch.log_softmax(logits, -1).gather(-1, tokens[:, 1:, None])[..., 0]


def described(tensors):
    out = {}
    for name, t in tensors:
        x = t.detach().flatten()
        factors = (torch.arange(x.numel()) % 7 - 3).to(x.dtype)
        out[name] = [x.sum().item(), x.norm().item(), (factors * x).sum().item()]
    return out


def averages_of(tokens, begins_with_first_weights):
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    if begins_with_first_weights:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(DECAY))
        average.update_parameters(model)  # the first call copies the weights
    else:
        average = AveragedModel(model, avg_fn=get_ema_avg_fn(DECAY))
    for _ in range(STEPS):
        optimizer.zero_grad()
        (-log_probabilities(model, tokens).mean()).backward()
        optimizer.step()
        average.update_parameters(model)
    return dict(start=0 if begins_with_first_weights else 1, averages=described(average.module.named_parameters()),
                weights=described(model.named_parameters()))


def loop_of(first, second, gradients):
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    out = dict(log_probabilities=[], losses=[], sums=[])
    for step in range(STEPS):
        optimizer.zero_grad()
        policy, language = log_probabilities(model, first), -log_probabilities(model, second).mean()
        loss = (policy * gradients).sum() + FACTOR * language
        loss.backward()
        if step == 0:
            out["log_probabilities"] = policy.flatten().tolist()
            out["gradient"] = described((n, p.grad) for n, p in model.named_parameters())
        optimizer.step()
        out["losses"].append(language.item())
        out["sums"].append(loss.item())
    out["ends"] = described(model.named_parameters())
    return out


def random_tokens():
    return torch.randint(VOCABULARY.start, VOCABULARY.stop, (ROWS, COLUMNS + 1))


def main():
    torch.manual_seed(7)
    text = torch.randint(VOCABULARY.start, VOCABULARY.stop, (ROWS * COLUMNS + 1,)).tolist()
    tokens = torch.tensor([text[r * COLUMNS:(r + 1) * COLUMNS + 1] for r in range(ROWS)])
    common = dict(rows=ROWS, columns=COLUMNS, adamw=ADAMW)
    runs = [averages_of(tokens, first) for first in (True, False)]
    averages = dict(**common, text=bytes(text).decode(), steps=STEPS, decay=DECAY, runs=runs)
    (PARITY / "averages.json").write_text(json.dumps(averages, indent=1) + "\n")
    first, second = random_tokens(), random_tokens()
    # Multiples of 1 / 256, which fp32 represents, of both signs; every fifth token has none.
    gradients = torch.randint(-8, 9, (ROWS, COLUMNS)).to(torch.float64) / 256
    gradients.flatten()[::5] = 0
    loop = dict(**common, first=first.flatten().tolist(), second=second.flatten().tolist(), factor=FACTOR,
                gradients=gradients.flatten().tolist(), **loop_of(first, second, gradients))
    (PARITY / "own_loop.json").write_text(json.dumps(loop, indent=1) + "\n")


main()
