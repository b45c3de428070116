"""Seconds of one training step of GPT-2 in plain PyTorch: what `troupe train` is compared with.

One process, 2 threads, the same model, global batch, clipping and optimizer as tests/bench/step.yaml.
Usage: step_time.py [fp32|bf16] [steps] [columns] [rows]; prints one JSON object with the median and all steps.
bf16: weights and activations in bf16, fp32 masters updated by the fused AdamW and copied back.
"""
import json, sys, time
import torch
import torch.nn as nn
import torch.nn.functional as F

dtype = torch.bfloat16 if len(sys.argv) > 1 and sys.argv[1] == "bf16" else torch.float32
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 12
T = int(sys.argv[3]) if len(sys.argv) > 3 else 256
B = int(sys.argv[4]) if len(sys.argv) > 4 else 8
V, C, L, H = 256, 384, 6, 6
torch.set_num_threads(2)
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.proj = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.fc, self.out = nn.Linear(C, 4 * C), nn.Linear(4 * C, C)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, H, C // H).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, C))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, C), nn.Embedding(256, C)
        self.blocks = nn.Sequential(*[Block() for _ in range(L)])
        self.ln_f = nn.LayerNorm(C)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        x = self.ln_f(self.blocks(x))
        return F.cross_entropy((x @ self.wte.weight.t()).float().view(-1, V), targets.reshape(-1))


model = Model().to(dtype)
params = list(model.parameters())
masters = params if dtype == torch.float32 else [p.detach().float().clone() for p in params]
optimizer = torch.optim.AdamW(masters, lr=1e-3, weight_decay=0.0, fused=True)
times = []
for _ in range(steps):
    tokens = torch.randint(0, V, (B, T + 1))
    begin = time.perf_counter()
    loss = model(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    if dtype != torch.float32:
        for m, p in zip(masters, params):
            m.grad = p.grad.float()
    torch.nn.utils.clip_grad_norm_(masters, 1.0)
    optimizer.step()
    if dtype != torch.float32:
        with torch.no_grad():
            for m, p in zip(masters, params):
                p.copy_(m)
    model.zero_grad(set_to_none=True)
    loss.item()
    times.append(time.perf_counter() - begin)
tail = sorted(times[2:])
print(json.dumps({"dtype": str(dtype), "median_s": tail[len(tail) // 2], "steps_s": [round(t, 4) for t in times]}))
