"""transformers loads what `troupe checkpoint to-hf` writes, and gives the loss that training continues with.

Run by `make peer`. A text that repeats one window makes every sample the same, so that the loss of the step after a
checkpoint is the loss of its weights on that window. Needs build/release's programs, or a folder named by PROGRAMS.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = pathlib.Path(os.environ.get("PROGRAMS", str(ROOT / "build/release"))) / "troupe"
WINDOW = 32
MODELS = {
    "gpt2": "{model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 32, vocab_size: 256,"
            " embd_pdrop: 0, attn_pdrop: 0, resid_pdrop: 0}",
    "llama": "{model_type: llama, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 96, num_attention_heads: 4,"
             " num_key_value_heads: 2, max_position_embeddings: 32, vocab_size: 256}",
}
SIZES = ("num_hidden_layers: 2, hidden_size: 64, intermediate_size: 96, num_attention_heads: 4,"
         " max_position_embeddings: 32, vocab_size: 256")
MODELS |= {family: f"{{model_type: {family}, {SIZES}{keys}}}" for family, keys in {
    "olmo2": ", num_key_value_heads: 2",
    "granite": ", embedding_multiplier: 3, attention_multiplier: 0.25, residual_multiplier: 0.5, logits_scaling: 2",
    "gemma2": ", num_key_value_heads: 2, head_dim: 16, sliding_window: 8, query_pre_attn_scalar: 16",
    "gemma3_text": ", num_key_value_heads: 2, head_dim: 16, sliding_window: 8, sliding_window_pattern: 2",
    "phi3": ", num_key_value_heads: 2, partial_rotary_factor: 0.75",
    "gpt_neox": "",
    "smollm3": ", num_key_value_heads: 2, no_rope_layer_interval: 2",
}.items()}
JOB = """model: {model}
data: {{text: corpus.txt}}
parallel: {{data: 2}}
seed: 1
steps: 5
train_batch_size: 4
optimizer: {{type: AdamW, params: {{lr: 1.0e-3}}}}
zero_optimization: {{stage: 3, stage3_param_persistence_threshold: 0}}
checkpoint: {{every_steps: 5}}
output: out
"""

for name, model in MODELS.items():
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        window = bytes(32 + (7 * i * i + 3 * i) % 90 for i in range(WINDOW))
        (folder / "corpus.txt").write_bytes(window * 64)
        (folder / "job.yaml").write_text(JOB.format(model=model))

        def troupe(*arguments):
            return subprocess.run([str(TROUPE), *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout

        troupe("train", "job.yaml", "--quiet")
        troupe("checkpoint", "to-hf", "out/checkpoints", "hf")
        troupe("checkpoint", "to-hf", "out/checkpoints", "half", "--dtype", "bf16")
        events = [json.loads(line) for line in troupe("train", "job.yaml", "--json", "--steps", "6").splitlines()]
        wanted = next(e["loss"] for e in events if e.get("event") == "step" and e["step"] == 6)
        tokens = torch.tensor([list(window) + [window[0]]])
        for export, tolerance in (("hf", 1e-4), ("half", 3e-2)):
            loaded = transformers.AutoModelForCausalLM.from_pretrained(folder / export, attn_implementation="eager")
            with torch.no_grad():
                logits = loaded(tokens[:, :-1]).logits.float()
            loss = float(torch.nn.functional.cross_entropy(logits[0], tokens[0, 1:]))
            print(f"{name} {export}: transformers {loss:.6f}, training continues with {wanted:.6f}")
            if abs(loss - wanted) > tolerance:
                sys.exit(f"transformers_loads_ours: {name} {export}: losses differ by {abs(loss - wanted)}")
print("transformers loads what to-hf writes, with the same loss")


def vocabularies():
    """The tokenizer that `to-hf` makes of a GGUF file's own vocabulary cuts texts as the one from which the file came."""
    fixtures = ROOT / "tests" / "data" / "fixtures"
    known = json.loads((fixtures / "tokenizers.json").read_text())
    wanted = {name: known["pipelines"][name]["ids"] for name in ("qwen2", "llama-bpe")} | {"pieces": known["bpe.model"]["ids"]}
    for name, ids in wanted.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            transformers.LlamaForCausalLM(transformers.LlamaConfig(
                num_hidden_layers=1, hidden_size=32, intermediate_size=32, num_attention_heads=2, vocab_size=600,
                max_position_embeddings=64)).save_pretrained(folder / "model")
            for command in (["to-gguf", "model", "m.gguf", "--tokenizer", fixtures / "single" / f"{name}.gguf"],
                            ["to-hf", "m.gguf", "hf"]):
                subprocess.run([str(TROUPE), "checkpoint", *map(str, command)], cwd=folder, check=True, capture_output=True)
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "hf")
            compared = 0
            for text, own in zip(known["text"], ids):
                text = bytes.fromhex(text).decode(errors="replace")
                if "<|endoftext|>" in text or "\ufffd" in text:
                    continue  # names of special tokens are tokens to transformers; the others are no text
                compared += 1
                if tokenizer(text, add_special_tokens=False)["input_ids"] != own:
                    sys.exit(f"transformers_loads_ours: {name}.gguf: {text[:40]!r} has other tokens")
            if name == "qwen2" and "<|im_start|>" not in tokenizer.apply_chat_template(
                    [{"role": "user", "content": "x"}], tokenize=False):
                sys.exit("transformers_loads_ours: qwen2.gguf: the chat template is another one")
            print(f"{name}.gguf: {compared} texts have the same tokens in transformers")


vocabularies()
