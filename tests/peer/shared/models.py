"""GPT-2 and Llama as plain PyTorch modules, made from the keys that Troupe's `model` section has.

One definition for all peers: plain PyTorch and DeepSpeed train these very modules. `forward(tokens, targets)` is the mean
cross-entropy in nats. Attention is `F.scaled_dot_product_attention`, the head is the embedding where weights are tied.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def heads(x, count):
    """[rows, columns, count * size] as [rows, count, columns, size]."""
    return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def mean_loss(hidden, weight, targets):
    logits = F.linear(hidden, weight).float()
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


class GPT2Block(nn.Module):
    def __init__(self, width, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (heads(y, self.num_heads) for y in self.qkv(self.ln_1(x)).chunk(3, dim=2))
        x = x + self.proj(merged(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.wte, self.wpe = nn.Embedding(config["vocab_size"], width), nn.Embedding(config["n_positions"], width)
        self.blocks = nn.ModuleList(GPT2Block(width, config["n_head"]) for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return mean_loss(self.ln_f(x), self.wte.weight, targets)


class GPT2Embedding(nn.Module):
    """The first layer of a GPT-2 that is a list of layers; `wte` is what head and embedding share."""

    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config["vocab_size"], config["n_embd"])
        self.wpe = nn.Embedding(config["n_positions"], config["n_embd"])

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))


class GPT2Head(nn.Module):
    """The last one: logits."""

    def __init__(self, config):
        super().__init__()
        self.ln_f = nn.LayerNorm(config["n_embd"])
        self.wte = nn.Linear(config["n_embd"], config["vocab_size"], bias=False)

    def forward(self, x):
        return self.wte(self.ln_f(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.num_heads, self.num_kv = config["num_attention_heads"], config["num_key_value_heads"]
        size = width // self.num_heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, self.num_kv * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        y = self.norm_1(x)
        q, k, v = heads(self.q(y), self.num_heads), heads(self.k(y), self.num_kv), heads(self.v(y), self.num_kv)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        x = x + self.o(merged(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, positions = config["hidden_size"], config["max_position_embeddings"]
        self.wte = nn.Embedding(config["vocab_size"], width)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config["num_hidden_layers"]))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        size = width // config["num_attention_heads"]
        angles = torch.outer(torch.arange(positions).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size))
        self.angles = torch.cat((angles, angles), dim=1)  # no buffer: angles stay fp32

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        angles = self.angles[: tokens.shape[1]].to(x.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return mean_loss(self.norm(x), self.wte.weight, targets)


def first_values(model):
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    return model


def make(config):
    """The model that `config` describes; its embedding and head are one matrix."""
    return first_values({"gpt2": GPT2, "llama": Llama}[config["model_type"]](config))


def is_tied(config):
    return config.get("tie_word_embeddings", True)


def layer_specs(config):
    """(class, arguments) of a GPT-2's layers in order: what stages of a pipeline are cut from."""
    blocks = [(GPT2Block, (config["n_embd"], config["n_head"]))] * config["n_layer"]
    return [(GPT2Embedding, (config,)), *blocks, (GPT2Head, (config,))]


def layers(config):
    """These layers, whole and with first values that follow from torch's seed; `wte` is one parameter where weights are tied."""
    made = first_values(nn.ModuleList(kind(*arguments) for kind, arguments in layer_specs(config)))
    if is_tied(config):
        made[-1].wte.weight = made[0].wte.weight
    return made


class Layered(nn.Module):
    """A GPT-2 as these layers, one after the other: it begins with the weights that hugging_face.py writes."""

    def __init__(self, config):
        super().__init__()
        self.layers = layers(config)

    def forward(self, tokens, targets):
        x = tokens
        for layer in self.layers:
            x = layer(x)
        return loss_of(x, targets)
