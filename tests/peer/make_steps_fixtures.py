"""Two steps of AdamW and 64 greedy tokens of each model of tests/models/fixtures, as transformers and torch compute them in
fp32: tests/models/fixtures/<name>/steps.safetensors.

`optimizer` (5) has the learning rate, beta1, beta2, epsilon and weight decay; gradients are clipped to a norm of 1. `tokens` is
the training text: an epoch is two windows of SEQUENCE tokens, which both are in every step. `losses` (3) are those of the
steps 1 to 3. For each parameter, `after.<parameter>` has, after two steps, the sum of its elements, their norm, and every n-th
element, in fp64. Encoders train on one window, in two rows with other masks; the masks are Troupe's (data/masking.cpp).

`prompt` (5) and `greedy` (64) are a text and the tokens that generate() appends before the first step; `gap` is the least
difference of the two largest logits. Rotary models have more positions here than in their config.json (POSITIONS), so that the
text has room. GPT-2's models of 16 learned positions have no text; `gpt2_long`, a folder of its own, has.

Run by `make peer` after make_model_fixtures.py; the result is committed. Arguments are the names of the models to make.
"""

import copy
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, GPT2Config, GPT2LMHeadModel

FOLDER = pathlib.Path(__file__).parents[1] / "models" / "fixtures"
POSITIONS, SEQUENCE, FEW_POSITIONS_SEQUENCE = 80, 72, 12
PROMPT, GREEDY, LEAST_GAP = 5, 64, 2e-3
RATE, BETAS, EPSILON, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-4, 0.1, 1.0
STEPS, ROWS, SEED, MASK_TOKEN, SHARES = 3, 2, 7, 3, (0.3, 0.5, 0.3)  # shares: chosen; of these masked, and random
SAMPLES = 16
LONG = GPT2Config(n_layer=1, n_embd=8, n_head=2, n_positions=POSITIONS, vocab_size=32, resid_pdrop=0.0, embd_pdrop=0.0,
                  attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, initializer_range=0.4)


def mix64(x):
    """splitmix64, from which all keyed random numbers of Troupe come (core/math.hpp)."""
    full = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & full
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & full
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & full
    return x ^ (x >> 31)


def masked(tokens, sample, vocabulary, special):
    """The inputs and targets of a training sample, as data/masking.cpp chooses them."""
    chosen, mask, drawn = SHARES
    first = mix64(mix64(SEED ^ 0x6D61736B696E6700) ^ mix64(sample))
    inputs, targets = tokens.tolist(), []
    for i, token in enumerate(tokens.tolist()):
        numbers = mix64((first + i) % (1 << 64))
        if (numbers >> 11) >= int(chosen * 2**53) or token in special:
            targets.append(-100)
            continue
        targets.append(token)
        kind = (mix64(numbers ^ 0x6B696E64) >> 11) / 2**53
        if kind < mask:
            inputs[i] = MASK_TOKEN
        elif kind < mask + drawn:
            out = ((mix64(numbers ^ 0x746F6B656E) >> 32) * (vocabulary - len(special))) >> 32
            for s in sorted(special):
                out += out >= s
            inputs[i] = out
    return torch.tensor(inputs), torch.tensor(targets)


def batches_of(config, is_encoder, tokens, length):
    if not is_encoder:
        rows = torch.stack([tokens[:length + 1], tokens[length:]])
        return [(rows[:, :-1], rows[:, 1:])] * STEPS
    special = {MASK_TOKEN} | {t for t in (config.pad_token_id, config.bos_token_id, config.eos_token_id) if t is not None}
    rows = [masked(tokens[:length], sample, config.vocab_size, special) for sample in range(STEPS * ROWS)]
    return [tuple(torch.stack(part) for part in zip(*rows[s * ROWS:(s + 1) * ROWS])) for s in range(STEPS)]


def named(model):
    # transformers calls GPT-NeoX's head otherwise in files than in the model
    is_neox = model.config.model_type == "gpt_neox"
    return {name.replace("lm_head", "embed_out") if is_neox else name: p for name, p in model.named_parameters()}


def described(parameter):
    all_elements = parameter.detach().double().flatten()
    step = max(1, all_elements.numel() // SAMPLES)
    return torch.cat([torch.stack([all_elements.sum(), all_elements.norm()]), all_elements[::step]])


def train(model, batches):
    """The losses of all steps, and the model after all but the last."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    losses = []
    for inputs, targets in batches:
        before = copy.deepcopy(model)
        logits = model(inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    return torch.tensor(losses, dtype=torch.float64), before


def greedy(model, prompt):
    """The tokens after the prompt, and the least difference of the two largest logits."""
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    out = model.generate(prompt[None], attention_mask=torch.ones(1, PROMPT, dtype=torch.int64), do_sample=False,
                         max_new_tokens=GREEDY, min_new_tokens=GREEDY, return_dict_in_generate=True, output_logits=True)
    best = torch.stack(out.logits).squeeze(1).topk(2).values
    return out.sequences[0, PROMPT:], (best[:, 0] - best[:, 1]).min().item()


def changing(tokens):
    """How many different pairs of neighbours a text has: a text that soon repeats itself shows little."""
    return len(set(zip(tokens.tolist(), tokens.tolist()[1:])))


def best_text(model, vocabulary):
    """Of 60 prompts the one whose text changes most, among those without a close decision."""
    texts = []
    for _ in range(60):
        prompt = torch.randint(vocabulary, (PROMPT,))
        text, gap = greedy(model, prompt)
        if gap > LEAST_GAP:
            texts.append((changing(text), prompt, text, gap))
    return max(texts, key=lambda t: t[0])


def make(name):
    folder = FOLDER / name
    torch.manual_seed(sum(name.encode()))
    is_encoder = name.startswith(("bert", "roberta"))
    few_positions = is_encoder or (name.startswith("gpt2") and name != "gpt2_long")
    kind = AutoModelForMaskedLM if is_encoder else AutoModelForCausalLM
    more = {} if few_positions or name == "gpt2_long" else dict(max_position_embeddings=POSITIONS)
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, **more)
    config = model.config
    length = FEW_POSITIONS_SEQUENCE if few_positions else SEQUENCE
    tokens = torch.randint(config.vocab_size, ((1 if is_encoder else 2) * length + 1,))
    if config.model_type == "roberta":
        tokens[tokens == config.pad_token_id] = 4  # the padding token has no position of its own
    made = {"optimizer": torch.tensor([RATE, *BETAS, EPSILON, DECAY], dtype=torch.float64), "tokens": tokens}
    said = ""
    if not few_positions:
        model.eval()
        pairs, prompt, text, gap = best_text(model, config.vocab_size)
        made |= {"prompt": prompt, "greedy": text, "gap": torch.tensor(gap, dtype=torch.float64)}
        said = f", {pairs} pairs in the text, gap {gap:.4f}"
    made["losses"], after = train(model.train(), batches_of(config, is_encoder, tokens, length))
    made |= {"after." + n: described(p) for n, p in named(after).items()}
    save_file(made, folder / "steps.safetensors")
    (folder / "steps.safetensors").chmod(0o644)
    print(f"{name}: losses {', '.join(f'{x:.6f}' for x in made['losses'])}{said}, "
          f"{(folder / 'steps.safetensors').stat().st_size} bytes", flush=True)


def make_long():
    torch.manual_seed(1)
    folder = FOLDER / "gpt2_long"
    model = GPT2LMHeadModel(LONG)
    with torch.no_grad():
        for parameter in model.parameters():
            # no bias is 0: the difference of two rounding errors would have no scale
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    (folder / "model.safetensors").chmod(0o644)


def main():
    torch.set_num_threads(1)
    make_long()
    for folder in sorted(FOLDER.iterdir()):
        if (folder / "config.json").exists() and (len(sys.argv) == 1 or folder.name in sys.argv[1:]):
            make(folder.name)


if __name__ == "__main__":
    main()
