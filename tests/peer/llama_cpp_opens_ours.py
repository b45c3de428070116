"""Checkpoints as GGUF files: llama.cpp opens every one that `troupe checkpoint to-gguf` and `troupe compress` write, and its next-token
log-probabilities are those of transformers' model. Models are made here: GPT-2 and Llama, tied and not, with and without
grouped heads; folders of Hugging Face's. Run by `make peer`, or for files of one's own:
  .peer/bin/python tests/peer/llama_cpp_opens_ours.py build/release/troupe [another.gguf ...]
Prints a line for each file with the largest difference; exits 1 where one is too large. Of files that are named and
quantised the difference is told and not judged: some real models lose more to llama.cpp's quantised activations than
to their weights. Then vocabularies: a text and its tokens must have one answer."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
import xllamacpp

ROOT = pathlib.Path(__file__).parents[2]
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k", "q4_k_m", "q5_k_m"]
EXACT = 1e-3      # of log-probabilities, F32
METHODS = [("q4_0", "gptq"), ("q8_0", "gptq"), ("q4_k_m", "rtn"), ("q4_0", "awq")]  # of `troupe compress`, with a text
BY_TABLE = 3e-3   # the same where llama.cpp looks GELU up in a table of fp16
QUANTISED = 5e-2  # llama.cpp quantises activations, too
PROMPTS = [[1, 5, 7], [3, 200, 17, 90, 33, 4], list(range(10, 60))]


def models():
    torch.manual_seed(1)
    gpt2 = dict(n_layer=3, n_embd=256, n_head=4, n_positions=128, vocab_size=256, bos_token_id=0, eos_token_id=0)
    llama = dict(num_hidden_layers=3, hidden_size=256, intermediate_size=512, num_attention_heads=8,
                 max_position_embeddings=128, vocab_size=256, bos_token_id=0, eos_token_id=0)
    yield "gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(**gpt2))
    yield "gpt2_odd", transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**gpt2, "n_embd": 96}))
    yield "llama", transformers.LlamaForCausalLM(transformers.LlamaConfig(**llama, num_key_value_heads=2))
    yield "llama_tied", transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**llama, num_key_value_heads=8, tie_word_embeddings=True, rope_theta=100000.0))
    yield "llama_wide_heads", transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**llama, num_key_value_heads=4, head_dim=64, attention_bias=True))
    # llama.cpp takes longrope's short factors where its context (512 here) is not longer than the original positions.
    spread = dict(short_factor=[1 + 0.05 * i for i in range(16)], long_factor=[1 + 0.5 * i for i in range(16)])
    ropes = {"llama3": dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                            original_max_position_embeddings=64),
             "longrope": dict(rope_type="longrope", factor=4.0, original_max_position_embeddings=1024, **spread),
             "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, attention_factor=1.3)}
    for name, rope in ropes.items():
        positions = dict(llama, max_position_embeddings=4096 if name == "longrope" else 512)
        yield f"llama_{name}", transformers.LlamaForCausalLM(transformers.LlamaConfig(
            **positions, num_key_value_heads=2, rope_parameters=dict(rope_theta=10000.0, **rope)))


def further_families():
    """Models whose files are written in fp32 alone, and read back."""
    torch.manual_seed(2)
    sizes = dict(num_hidden_layers=4, hidden_size=256, intermediate_size=512, num_attention_heads=8, pad_token_id=None,
                 max_position_embeddings=128, vocab_size=256, bos_token_id=0, eos_token_id=0)
    gemma = sizes | dict(num_key_value_heads=4, head_dim=64, sliding_window=16, query_pre_attn_scalar=64)
    linear = dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1e6),
                  sliding_attention=dict(rope_type="default", rope_theta=10000.0))
    yield "olmo2", transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**sizes, num_key_value_heads=2))
    yield "granite", transformers.GraniteForCausalLM(transformers.GraniteConfig(
        **sizes, num_key_value_heads=2, embedding_multiplier=3.0, attention_multiplier=0.25, residual_multiplier=0.375,
        logits_scaling=2.5))
    yield "gemma2", transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **gemma, attn_logit_softcapping=5.0, final_logit_softcapping=4.0, attn_implementation="eager"))
    yield "gemma3", transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        **gemma | dict(num_hidden_layers=7), rope_parameters=linear, attn_implementation="eager"))
    # llama.cpp seeks special tokens by name in the vocabulary of a model with "phi3" in its name, and fails without.
    yield "phi_three", transformers.Phi3ForCausalLM(transformers.Phi3Config(
        **sizes, num_key_value_heads=2,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.75)))
    yield "gpt_neox", transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**sizes, rotary_pct=0.5))
    yield "smollm3", transformers.SmolLM3ForCausalLM(transformers.SmolLM3Config(**sizes, num_key_value_heads=2))


def louder(model, factor):
    """Freshly drawn weights give nearly uniform answers; larger ones tell a wrong order of rows from a right one. What
    a quantised activation loses grows with them."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.mul_(factor)
            elif name.endswith("bias"):
                p.normal_(std=0.1)
    return model.eval()


def ours(model, prompt):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([prompt])).logits[0, -1].double(), -1)


class llama_cpp:
    def __init__(self, path):
        p = xllamacpp.CommonParams()
        p.model.path = str(path)
        p.n_ctx = 512
        p.n_parallel = 1
        p.warmup = False
        p.n_gpu_layers = 0
        p.verbosity = -1
        p.cache_prompt = False
        p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        p.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        p.cpuparams.n_threads = 2
        self.server = xllamacpp.Server(p)

    def log_probabilities(self, prompt, count):
        # The bias only chooses which token is told: one that is text by itself, where a lone byte is withheld.
        answer = self.server.handle_completions(
            {"prompt": prompt, "n_predict": 1, "n_probs": count, "logit_bias": [[97, 100]], "cache_prompt": False})
        out = torch.full((count,), float("nan"), dtype=torch.double)
        for one in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
            out[one["id"]] = one["logprob"]
        return out


def run(*command):
    subprocess.run([str(c) for c in command], check=True)


def reread(troupe, gguf, folder):
    """The file's own weights, as transformers reads what `to-hf` makes of it."""
    shutil.rmtree(folder, ignore_errors=True)
    run(troupe, "checkpoint", "to-hf", gguf, folder, "--quiet")
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation="eager").eval()


def vocabularies(troupe, scratch):
    """What the real tokenizers make of hard strings, by the fixture of make_tokenizer_fixtures.py."""
    fixtures = ROOT / "tests" / "data" / "fixtures"
    known = json.loads((fixtures / "tokenizers.json").read_text())
    texts = [bytes.fromhex(t).decode(errors="replace") for t in known["text"]]
    bad = []
    for name in ["gpt2", "bpe.model", "unigram.model", "bytes"]:
        if name == "bytes":
            ids = [list(t.encode()) for t in texts]
        else:
            ids = known[name] if name == "gpt2" else known[name]["ids"]
        size = max([255 if name == "bytes" else 0] + [max(i) for i in ids if i]) + 40
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            num_hidden_layers=1, hidden_size=64, intermediate_size=64, num_attention_heads=2, vocab_size=max(size, 700),
            max_position_embeddings=512))
        folder, path = scratch / f"vocabulary-{name}", scratch / f"vocabulary-{name}.gguf"
        louder(model, 3).save_pretrained(folder)
        run(troupe, "checkpoint", "to-gguf", folder, path, "--type", "f32", "--quiet", "--tokenizer",
            name if name == "bytes" else fixtures / name)
        peer = llama_cpp(path)
        other, looked_at = [], 0
        for text, tokens in zip(texts, ids):
            if not 0 < len(tokens) < 200 or any(t in text for t in ("<|endoftext|>", "\0", "\ufffd")):
                continue  # names of special tokens are tokens to llama.cpp; the others are no text
            looked_at += 1
            # SentencePiece's vocabularies begin a text with a token of their own there.
            first = [1] if name.endswith(".model") and not name.startswith("unigram") else []
            a = peer.log_probabilities(text, model.config.vocab_size)
            b = peer.log_probabilities(first + tokens, model.config.vocab_size)
            if float((a - b)[~torch.isnan(a) & ~torch.isnan(b)].abs().max()) > 1e-5:
                other.append(text)
        print(f"vocabulary {name}: {looked_at} texts, {len(other)} cut into other tokens"
              f"{': ' + repr([t[:30] for t in other[:8]]) if other else ''}", flush=True)
        if other and name in ("gpt2", "bytes"):
            bad.append(name)
    return bad


def main(troupe, others):
    bad = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)

        def compare(label, path, model, limit):
            peer = llama_cpp(path)
            count = model.config.vocab_size
            worst = spread = lost = 0.0
            for prompt in PROMPTS:
                theirs = peer.log_probabilities(prompt, count)
                seen = ~torch.isnan(theirs)
                assert seen.sum() >= count // 2, f"{label}: {int(seen.sum())} of {count} tokens"
                # what hardly ever comes is beyond what a quantised activation can say
                likely = seen & (theirs > -12)
                own = ours(model, prompt)
                worst = max(worst, float((own - theirs)[likely].abs().max()))
                lost = max(lost, float((own.exp() * (own - theirs))[seen].sum()))
                spread = max(spread, float(theirs[likely].std()))
            ok = limit is None or worst <= limit
            print(f"{label}: largest difference of log-probabilities {worst:.2e}, limit {limit}, spread {spread:.2f}, "
                  f"divergence {lost:.1e} nats{'' if ok else '  TOO LARGE'}", flush=True)
            if not ok:
                bad.append(label)

        for name, model in models():
            folder = scratch / name
            louder(model, 1.5).save_pretrained(folder)
            for kind in TYPES:
                path = scratch / f"{name}-{kind}.gguf"
                plain = kind == "f32"
                run(troupe, "checkpoint", "to-gguf", folder, path, "--type", kind, "--tokenizer", "bytes", "--quiet")
                compare(f"{name} {kind}", path, model if plain else reread(troupe, path, scratch / "back"),
                        EXACT if plain else QUANTISED)
                path.unlink()
            for kind, method in METHODS:
                path = scratch / f"{name}-{kind}-{method}.gguf"
                run(troupe, "compress", folder, path, "--to", f"gguf:{kind}", "--method", method, "--calibrate",
                    ROOT / "README.md", "--samples", "32", "--sequence", "64", "--tokenizer", "bytes", "--validate",
                    "none", "--quiet")
                compare(f"{name} {kind} {method}", path, reread(troupe, path, scratch / "back"), QUANTISED)
                path.unlink()
        for name, model in further_families():
            folder, path = scratch / name, scratch / f"{name}.gguf"
            louder(model, 1.5).save_pretrained(folder)
            run(troupe, "checkpoint", "to-gguf", folder, path, "--type", "f32", "--tokenizer", "bytes", "--quiet")
            limit = BY_TABLE if name.startswith(("gemma", "gpt_neox")) else EXACT
            compare(name, path, model, limit)
            compare(f"{name}, read back", path, reread(troupe, path, scratch / "back"), limit)
            path.unlink()
        for path in others:
            compare(pathlib.Path(path).name, path, reread(troupe, path, scratch / "back"),
                    EXACT if path.endswith("32.gguf") else None)
        bad += vocabularies(troupe, scratch)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release" / "troupe", sys.argv[2:]))
