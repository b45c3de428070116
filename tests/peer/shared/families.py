"""A model of about 10 M parameters of each family, as transformers makes it.

families.py FAMILY FOLDER writes config.json and random weights. `Pretrained` is the same folder as a module whose
`forward(tokens, targets)` is the mean cross-entropy in nats, over the chosen tokens if the model is an encoder.
"""
import sys

import torch

VOCABULARY = 256
COLUMNS = 256
MASK_SHARE = 0.15
WIDE = dict(vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, num_attention_heads=6,
            max_position_embeddings=COLUMNS, tie_word_embeddings=True)
GATED = WIDE | dict(intermediate_size=1216, num_key_value_heads=2, pad_token_id=None, bos_token_id=None, eos_token_id=None)
GEMMA = GATED | dict(head_dim=64, query_pre_attn_scalar=64, sliding_window=128)
ENCODER = WIDE | dict(intermediate_size=1536, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
FAMILIES = {
    "gpt2": dict(vocab_size=VOCABULARY, n_embd=384, n_layer=6, n_head=6, n_positions=COLUMNS, embd_pdrop=0.0,
                 attn_pdrop=0.0, resid_pdrop=0.0),
    "llama": GATED, "mistral": GATED | dict(sliding_window=128), "qwen2": GATED, "qwen3": GATED | dict(head_dim=64),
    "gemma2": GEMMA, "gemma3_text": GEMMA, "phi3": GATED | dict(sliding_window=128), "olmo2": GATED, "smollm3": GATED,
    "granite": GATED | dict(attention_multiplier=0.125),
    "gpt_neox": WIDE | dict(intermediate_size=1536), "bert": ENCODER,
    "roberta": ENCODER | dict(max_position_embeddings=COLUMNS + 2),
    # SmolLM2-135M's shape; its values are random like the others'.
    "smollm2-135m": dict(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                         num_key_value_heads=3, max_position_embeddings=8192, rope_theta=100000.0, rms_norm_eps=1e-5,
                         tie_word_embeddings=True, pad_token_id=None),
}
MODEL_TYPES = {"smollm2-135m": "llama"}  # where the name is not the type
ENCODERS = ("bert", "roberta")
# scaled_dot_product_attention has no soft cap, so transformers computes Gemma 2 without it.
EAGER = ("gemma2",)


def write(family, folder):
    import transformers

    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(MODEL_TYPES.get(family, family), **FAMILIES[family])
    kind = transformers.AutoModelForMaskedLM if family in ENCODERS else transformers.AutoModelForCausalLM
    kind.from_config(config).save_pretrained(folder)


class Pretrained(torch.nn.Module):
    """`lora`: options of peft's LoraConfig; None: no adapters."""

    def __init__(self, folder, lora=None):
        super().__init__()
        import transformers

        family = transformers.AutoConfig.from_pretrained(folder).model_type
        self.encoder = family in ENCODERS
        kind = transformers.AutoModelForMaskedLM if self.encoder else transformers.AutoModelForCausalLM
        self.model = kind.from_pretrained(folder, attn_implementation="eager" if family in EAGER else "sdpa")
        if lora is not None:
            import peft

            self.model = peft.get_peft_model(self.model, peft.LoraConfig(task_type="CAUSAL_LM", **lora),
                                             autocast_adapter_dtype=False)
        self.model.train()

    def forward(self, tokens, targets):
        if self.encoder:
            chosen = torch.rand(tokens.shape, device=tokens.device) < MASK_SHARE
            targets = tokens.masked_fill(~chosen, -100)
            tokens = tokens.masked_fill(chosen, VOCABULARY - 1)
        more = {} if self.encoder else dict(use_cache=False)
        logits = self.model(input_ids=tokens, **more).logits.float()
        return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2])
