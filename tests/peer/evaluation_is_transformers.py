"""`troupe evaluate` gives the loss of transformers over a text, and lm_eval's answers to multiple-choice questions.

Run by `make peer`. Every model is exported as Hugging Face's folder, which transformers reads; bytes are the tokens. The
answers are counted here by lm_eval's rules: log-probabilities of the continuation's tokens behind the context's, summed,
and summed for each byte. Needs build/release's programs, or a folder named by PROGRAMS.
"""

import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = pathlib.Path(os.environ.get("PROGRAMS", str(ROOT / "build/release"))) / "troupe"
READS = 48
SIZES = (f"num_hidden_layers: 2, hidden_size: 64, intermediate_size: 96, num_attention_heads: 4,"
         f" max_position_embeddings: {READS}, vocab_size: 256")
MODELS = {
    "gpt2": f"{{model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: {READS}, vocab_size: 256}}",
    "llama": f"{{model_type: llama, {SIZES}, num_key_value_heads: 2}}",
    "gemma2": f"{{model_type: gemma2, {SIZES}, num_key_value_heads: 2, head_dim: 16, sliding_window: 8,"
              " query_pre_attn_scalar: 16}",
}
JOB = """model: {model}
data: {{text: corpus.txt}}
seed: 1
steps: 60
train_batch_size: 8
optimizer: {{type: AdamW, params: {{lr: 3.0e-3}}}}
checkpoint: {{every_steps: 60}}
output: out
"""


def log_probabilities(model, tokens):
    """Of each token of a row but the first."""
    with torch.no_grad():
        logits = model(torch.tensor([tokens[:-1]])).logits[0].double()
    return torch.log_softmax(logits, -1)[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])]


def loss_of(model, tokens):
    return -sum(log_probabilities(model, tokens[at:at + READS + 1]).sum().item()
                for at in range(0, len(tokens) - 1, READS)) / (len(tokens) - 1)


def answers_of(model, questions):
    right, by_bytes = 0, 0
    for q in questions:
        context = q["context"].rstrip()
        scores = []
        for choice in q["choices"]:
            continuation = q["context"][len(context):] + " " + choice
            tokens = list((context + continuation).encode())[-(READS + 1):]
            scores.append(log_probabilities(model, tokens)[-len(continuation.encode()):].sum().item())
        right += scores.index(max(scores)) == q["answer"]
        normed = [s / len(c.encode()) for s, c in zip(scores, q["choices"])]
        by_bytes += normed.index(max(normed)) == q["answer"]
    return right / len(questions), by_bytes / len(questions)


def main():
    draw = random.Random(3)
    corpus = "".join(draw.choice(["the cat sat. ", "a dog ran far. ", "it is so. "]) for _ in range(2000))
    questions = [dict(context=corpus[at:at + draw.randrange(5, 60)].strip() + draw.choice(["", " ", "\n"]),
                      choices=[corpus[b:b + draw.randrange(2, 20)].strip() or "x"
                               for b in (draw.randrange(len(corpus) - 30) for _ in range(draw.randrange(2, 5)))],
                      answer=draw.randrange(2)) for at in (draw.randrange(len(corpus) - 80) for _ in range(40))]
    for name, model in MODELS.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "corpus.txt").write_text(corpus)
            (folder / "text.txt").write_text(corpus[:1000])
            (folder / "q.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions))
            (folder / "job.yaml").write_text(JOB.format(model=model))

            def troupe(*arguments):
                return subprocess.run([str(TROUPE), *arguments], cwd=folder, check=True, capture_output=True,
                                      text=True).stdout

            troupe("train", "job.yaml", "--quiet")
            troupe("checkpoint", "to-hf", "out", "hf", "--dtype", "fp32")
            said = json.loads(troupe("evaluate", "hf", "--text", "text.txt", "--choices", "q.jsonl", "--tokenizer",
                                     "bytes", "--json"))
            theirs = transformers.AutoModelForCausalLM.from_pretrained(folder / "hf", attn_implementation="eager").eval()
            loss = loss_of(theirs, list(corpus[:1000].encode()))
            accuracy, by_bytes = answers_of(theirs, questions)
            print(f"{name}: loss {said['text']['loss']:.6f}, transformers' {loss:.6f}; accuracy "
                  f"{said['choices']['accuracy']}, {accuracy}; by bytes {said['choices']['accuracy_by_bytes']}, {by_bytes}")
            if (abs(said["text"]["loss"] / loss - 1) > 1e-5 or said["choices"]["accuracy"] != accuracy
                    or said["choices"]["accuracy_by_bytes"] != by_bytes
                    or not math.isclose(said["text"]["perplexity"], math.exp(said["text"]["loss"]))):
                sys.exit(f"{name}: troupe evaluate differs from transformers")


if __name__ == "__main__":
    main()
