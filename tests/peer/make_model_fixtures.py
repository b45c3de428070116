"""Tiny random models with what the peer computes of them: tests/models/fixtures/<name>/.

config.json and model.safetensors are what transformers saves; expected.safetensors holds tokens (B, T + 1), logits
(B, T, V), loss and every gradient under `grad.<parameter>`. packed.safetensors holds the same of rows that pack
several documents: `starts` (B, T), the column where each input's document begins, makes the attention mask
block-diagonal and lets positions restart; logits are left out. `spread` (2, 2) has, for bf16 and for fp16, the largest
relative difference of a gradient that the peer itself computes in that type from its own in fp32, and the root mean
square over all gradients; gradients that are rounding noise about 0 are left out (the bias of keys that are not rotated
has the gradient 0, because softmax does not change with it). Models named `_window` attend to fewer tokens than a row
has. Encoders (bert, roberta) have `targets` (B, T), -100 for inputs without one, instead of the next tokens, and attend
to all tokens of a document. Run by `make peer`; the result is committed. Further arguments are the names of the models to make.
"""

import copy
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertForMaskedLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM,
                          GraniteConfig, GraniteForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, RobertaConfig, RobertaForMaskedLM,
                          SmolLM3Config, SmolLM3ForCausalLM)

ROWS, COLUMNS, VOCABULARY = 2, 12, 48

GPT2 = dict(n_layer=2, n_embd=24, n_head=3, n_positions=16, vocab_size=VOCABULARY,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
GPT2_TINY = GPT2 | dict(n_layer=3, n_embd=16, n_head=2, n_inner=24, vocab_size=20)
LLAMA = dict(num_hidden_layers=2, hidden_size=24, intermediate_size=40, num_attention_heads=4,
             max_position_embeddings=16, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0)
SMALL = LLAMA | dict(hidden_size=16, intermediate_size=24, num_key_value_heads=2)
TINY = LLAMA | dict(hidden_size=16, intermediate_size=16, vocab_size=20)
ENCODER = dict(num_hidden_layers=2, hidden_size=16, intermediate_size=24, num_attention_heads=4, max_position_embeddings=16,
               vocab_size=20, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
ONE_LAYER = TINY | dict(num_hidden_layers=1)
PHI = ONE_LAYER | dict(pad_token_id=None)
NEOX = ONE_LAYER | dict(num_attention_heads=2, pad_token_id=None)
SMOL = TINY | dict(intermediate_size=12, num_key_value_heads=2, pad_token_id=None)
GEMMA = TINY | dict(num_attention_heads=2, num_key_value_heads=1, head_dim=6, sliding_window=5, pad_token_id=None)


def rope_llama(**rope):
    """A Llama with heads of eight elements whose rotary positions are scaled."""
    return LlamaConfig(**LLAMA | dict(num_hidden_layers=1), num_key_value_heads=2, head_dim=8, rope_parameters=dict(rope_theta=100.0, **rope))


MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(**GPT2)),
    "gpt2_untied": (GPT2LMHeadModel, GPT2Config(**GPT2 | dict(tie_word_embeddings=False, n_inner=40,
                                                              activation_function="gelu"))),
    "gpt2_scaled": (GPT2LMHeadModel, GPT2Config(**GPT2_TINY, activation_function="quick_gelu", scale_attn_weights=False,
                                                scale_attn_by_inverse_layer_idx=True)),
    "gpt2_by_layer": (GPT2LMHeadModel, GPT2Config(**GPT2_TINY, activation_function="laplace",
                                                  scale_attn_by_inverse_layer_idx=True)),
    "llama_mish": (LlamaForCausalLM, LlamaConfig(**ONE_LAYER, num_key_value_heads=2, hidden_act="mish")),
    "llama": (LlamaForCausalLM, LlamaConfig(**LLAMA, num_key_value_heads=2)),
    "llama_tied_bias": (LlamaForCausalLM, LlamaConfig(**LLAMA, num_key_value_heads=1, head_dim=8, attention_bias=True,
                                                      mlp_bias=True, tie_word_embeddings=True,
                                                      rope_parameters=dict(rope_type="default", rope_theta=500.0))),
    "llama_rope_llama3": (LlamaForCausalLM, rope_llama(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                                       high_freq_factor=4.0, original_max_position_embeddings=8)),
    "llama_rope_linear": (LlamaForCausalLM, rope_llama(rope_type="linear", factor=2.5)),
    "llama_rope_dynamic": (LlamaForCausalLM, rope_llama(rope_type="dynamic", factor=2.0)),
    "llama_rope_yarn": (LlamaForCausalLM, rope_llama(rope_type="yarn", factor=4.0, beta_fast=2.0, beta_slow=0.25,
                                                     original_max_position_embeddings=8)),
    "llama_rope_longrope": (LlamaForCausalLM, rope_llama(rope_type="longrope", original_max_position_embeddings=4,
                                                         short_factor=[1.0, 1.1, 1.2, 1.5],
                                                         long_factor=[1.0, 2.0, 3.5, 8.0])),
    # The token 5 is padding: its embedding gets no gradient, but that of a tied head.
    "llama_padding": (LlamaForCausalLM, LlamaConfig(**LLAMA | dict(num_hidden_layers=1), num_key_value_heads=2,
                                                    pad_token_id=5)),
    "qwen2_padding": (Qwen2ForCausalLM, Qwen2Config(**LLAMA | dict(num_hidden_layers=1), num_key_value_heads=2,
                                                    tie_word_embeddings=True, pad_token_id=5 - VOCABULARY)),
    "mistral": (MistralForCausalLM, MistralConfig(**LLAMA, num_key_value_heads=2, head_dim=8, sliding_window=14)),
    "mistral_window": (MistralForCausalLM, MistralConfig(**SMALL, head_dim=4, sliding_window=5)),
    "qwen2_window": (Qwen2ForCausalLM, Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=3,
                                                   max_window_layers=1)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True)),
    # transformers reads head_dim, though the class of the configuration does not name it.
    "qwen2_heads": (Qwen2ForCausalLM, Qwen2Config(**TINY, num_key_value_heads=2, head_dim=6)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**LLAMA, num_key_value_heads=2, head_dim=8)),
    "qwen3_bias": (Qwen3ForCausalLM, Qwen3Config(**LLAMA, num_key_value_heads=4, head_dim=6, attention_bias=True,
                                                 tie_word_embeddings=True)),
    "olmo2": (Olmo2ForCausalLM, Olmo2Config(**TINY, pad_token_id=None, num_key_value_heads=2)),
    "olmo2_bias": (Olmo2ForCausalLM, Olmo2Config(**ONE_LAYER, pad_token_id=None, attention_bias=True,
                                                 tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh")),
    "granite": (GraniteForCausalLM, GraniteConfig(**TINY, num_key_value_heads=2, embedding_multiplier=3.0,
                                                  attention_multiplier=0.25, residual_multiplier=0.375,
                                                  logits_scaling=2.5)),
    "granite_bias": (GraniteForCausalLM, GraniteConfig(**ONE_LAYER, attention_bias=True, mlp_bias=True,
                                                       residual_multiplier=1.5, tie_word_embeddings=True)),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config(**GEMMA, query_pre_attn_scalar=12, attn_logit_softcapping=2.0,
                                               final_logit_softcapping=1.5)),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(
        **GEMMA, query_pre_attn_scalar=12, sliding_window_pattern=2,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000.0),
                             sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "gemma3_bias": (Gemma3ForCausalLM, Gemma3TextConfig(
        **GEMMA | dict(num_hidden_layers=1, sliding_window=14), attention_bias=True, tie_word_embeddings=False,
        final_logit_softcapping=2.0)),
    "phi3": (Phi3ForCausalLM, Phi3Config(**PHI, num_key_value_heads=2, sliding_window=5,
                                         head_dim=8, rope_parameters=dict(rope_type="default", rope_theta=100.0,
                                                                          partial_rotary_factor=0.75))),
    "phi3_longrope": (Phi3ForCausalLM, Phi3Config(
        **PHI, tie_word_embeddings=True, hidden_act="gelu", original_max_position_embeddings=4,
        rope_scaling=dict(rope_type="longrope", short_factor=[1.0, 1.1], long_factor=[1.5, 4.0]))),
    "gpt_neox": (GPTNeoXForCausalLM, GPTNeoXConfig(**NEOX, rope_parameters=dict(
        rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5))),
    "gpt_neox_sequential": (GPTNeoXForCausalLM, GPTNeoXConfig(**NEOX, use_parallel_residual=False, rotary_pct=1.0,
                                                              tie_word_embeddings=True, attention_bias=False)),
    "smollm3": (SmolLM3ForCausalLM, SmolLM3Config(**SMOL, no_rope_layer_interval=2, use_sliding_window=True,
                                                  sliding_window=5)),
    "smollm3_untied": (SmolLM3ForCausalLM, SmolLM3Config(**SMOL, no_rope_layers=[0, 1], tie_word_embeddings=False,
                                                         attention_bias=True)),
    "bert": (BertForMaskedLM, BertConfig(**ENCODER)),
    "bert_gelu_new": (BertForMaskedLM, BertConfig(**ENCODER | dict(num_hidden_layers=1, hidden_act="gelu_new", type_vocab_size=3,
                                                                   layer_norm_eps=1e-5, pad_token_id=5))),
    "roberta": (RobertaForMaskedLM, RobertaConfig(**ENCODER)),
}


# Per row the columns where documents begin.
PACKED = ((0, 3, 4), (0, 7))


def save(path, model, tokens, loss, **more):
    model.zero_grad()
    loss.backward()
    expected = {"tokens": tokens, "loss": loss.detach(), **more}
    for parameter_name, parameter in model.named_parameters():
        # transformers calls GPT-NeoX's head otherwise in files than in the model
        if model.config.model_type == "gpt_neox":
            parameter_name = parameter_name.replace("lm_head", "embed_out")
        expected["grad." + parameter_name] = parameter.grad.contiguous()
    save_file(expected, path)


def spread_of(model, tokens, targets):
    def gradients(run):
        run.zero_grad()
        logits = run(tokens[:, :-1]).logits.float()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        return [p.grad.float() for p in run.parameters()]

    wanted = gradients(model)
    noise = 1e-6 * max(w.norm() for w in wanted)

    def errors(narrow):
        pairs = zip(gradients(copy.deepcopy(model).to(narrow)), wanted)
        relative = torch.stack([(g - w).norm() / w.norm() for g, w in pairs if w.norm() > noise])
        return torch.stack([relative.max(), relative.square().mean().sqrt()])

    return torch.stack([errors(t) for t in (torch.bfloat16, torch.float16)])


def make(name, kind, config, folder):
    torch.manual_seed(sum(name.encode()))
    config._attn_implementation = "eager"
    model = kind(config).train()
    with torch.no_grad():
        for parameter in model.parameters():
            # biases and norms too, so that no gradient is trivial
            parameter.add_(torch.randn_like(parameter) * 0.1)
    tokens = torch.randint(config.vocab_size, (ROWS, COLUMNS + 1))
    is_encoder = name.startswith(("bert", "roberta"))
    targets = tokens[:, 1:]
    if config.model_type == "roberta":
        # The padding token has no position of its own.
        tokens[tokens == config.pad_token_id] = 3
    elif config.pad_token_id is not None:
        tokens[:, 2::4] = config.pad_token_id % config.vocab_size
    if is_encoder:
        targets = torch.where(torch.rand(ROWS, COLUMNS) < 0.3, torch.randint(config.vocab_size, (ROWS, COLUMNS)), -100)
        targets[0, 0] = 7

    def run(**more):
        logits = model(tokens[:, :-1], **more).logits
        return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    logits, loss = run()
    further = {"targets": targets} if is_encoder else {}
    save(folder / "expected.safetensors", model, tokens, loss, logits=logits.detach().contiguous(),
         spread=spread_of(model, tokens, targets), **further)

    column = torch.arange(COLUMNS)
    starts = torch.tensor([[max(s for s in row if s <= c) for c in column] for row in PACKED])
    seen = (column[None, :] <= column[:, None]) & (column >= starts[:, :, None])
    if is_encoder:
        seen = starts[:, :, None] == starts[:, None, :]
    window = getattr(config, "sliding_window", None) or COLUMNS
    in_window = seen & (column[None, :] > column[:, None] - window)
    bias, of_window = (torch.where(mask, 0.0, torch.finfo(torch.float32).min)[:, None] for mask in (seen, in_window))
    mask = of_window
    if hasattr(config, "layer_types"):
        mask = {"full_attention": bias, "sliding_attention": of_window}
    first_position = config.pad_token_id + 1 if config.model_type == "roberta" else 0
    _, packed_loss = run(attention_mask=mask, position_ids=column - starts + first_position)
    save(folder / "packed.safetensors", model, tokens, packed_loss, starts=starts, **further)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: loss {loss.item():.6f}, {size} bytes")
    assert size < 300_000, "fixtures stay small"
    assert json.loads((folder / "config.json").read_text())["model_type"] == config.model_type


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "models" / "fixtures"
    torch.set_num_threads(1)
    for name, (kind, config) in MODELS.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        make(name, kind, config, folder)


if __name__ == "__main__":
    main()
