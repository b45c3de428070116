"""Seconds of one training step of GPT-2 in plain PyTorch: what `troupe train` is compared with.

One process, 2 threads, the same model, global batch, clipping and optimizer as tests/bench/step.yaml.
Usage: step_time.py [fp32|bf16] [steps] [columns] [rows]; prints one JSON object with the median and all steps.
bf16: weights and activations in bf16, fp32 masters updated by the fused AdamW and copied back.
"""
import json
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/peer/shared"))
import training

dtype = sys.argv[1] if len(sys.argv) > 1 else "fp32"
steps, columns, rows = (int(sys.argv[i]) if len(sys.argv) > i else value for i, value in ((2, 12), (3, 256), (4, 8)))
peer = training.Plain({"dtype": dtype, "model": {"model_type": "gpt2", "n_layer": 6, "n_embd": 384, "n_head": 6,
                                                 "n_positions": 256, "vocab_size": 256}})
data = training.batches(ROOT / "examples/corpus.txt", rows, columns, 1)
times = []
for _ in range(steps):
    tokens, targets = next(data)
    begin = time.perf_counter()
    peer.step(tokens, targets)
    times.append(time.perf_counter() - begin)
tail = sorted(times[2:])
print(json.dumps({"dtype": dtype, "median_s": tail[len(tail) // 2], "steps_s": [round(t, 4) for t in times]}))
