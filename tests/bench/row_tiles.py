#!/usr/bin/env python3
"""What row tiles of the head and of MLPs save and cost: the same run with and without them, in turn.

row_tiles.py TROUPE [ROUNDS] [--of head|mlp|both] [--before TROUPE] [--set KEY=VALUE ...]: a Llama with a vocabulary of
128,256 and 32,768 tokens in a micro-batch; for MLPs alone one with a small vocabulary, MLPs of 512 x 2,048 and 16,384
tokens. Prints each run's last step, the processor time of the whole run, the most memory of its process and the losses, then
the ratios of the medians. With --before an earlier program's run without tiles stands beside them. Fails where losses differ.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOB = """
model: {model_type: llama, hidden_size: 64, intermediate_size: 176, num_hidden_layers: 2, num_attention_heads: 2,
  num_key_value_heads: 1, max_position_embeddings: 512, vocab_size: 128256, tie_word_embeddings: true}
data: {text: corpus.txt, tokenizer: bytes-as-ids, sequence_length: 512}
seed: 1
steps: 1
train_micro_batch_size_per_gpu: 64
bf16: {enabled: true}
optimizer: {type: AdamW, params: {lr: 1.0e-4}}
zero_optimization: {stage: 1}
telemetry: {trace: false, report: false}
"""


WIDE_MLP = """
model: {model_type: llama, hidden_size: 512, intermediate_size: 2048, num_hidden_layers: 4, num_attention_heads: 8,
  num_key_value_heads: 2, max_position_embeddings: 512, vocab_size: 512, tie_word_embeddings: true}
data: {text: corpus.txt, tokenizer: bytes-as-ids, sequence_length: 512}
seed: 1
steps: 1
train_micro_batch_size_per_gpu: 32
bf16: {enabled: true}
optimizer: {type: AdamW, params: {lr: 1.0e-4}}
zero_optimization: {stage: 1}
telemetry: {trace: false, report: false}
"""


def run(troupe, folder, settings):
    """The losses, the last step's seconds, the processor's of the whole run, and the most memory of the process."""
    command = [str(troupe), "train", str(folder / "job.yaml"), "--json", "--set", f"output={folder}/out"]
    process = subprocess.Popen(command + [x for s in settings for x in ("--set", s)], stdout=subprocess.PIPE, text=True)
    peak, events = 0, []
    for line in process.stdout:
        if line.startswith('{"event"'):
            events.append(json.loads(line))
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak] + [int(x.split()[1]) << 10 for x in status.splitlines() if x.startswith("VmHWM")])
        except FileNotFoundError:
            pass
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{troupe} ended with {status}")
    steps = [e for e in events if e["event"] == "step"]
    return [e["loss"] for e in steps], steps[-1]["step_s"], used.ru_utime + used.ru_stime, peak


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("troupe")
    arguments.add_argument("rounds", type=int, nargs="?", default=2)
    arguments.add_argument("--before")
    arguments.add_argument("--of", default="head", choices=["head", "mlp", "both"], help="what has tiles")
    arguments.add_argument("--tile", default="1", help="bytes of a tile (default: one panel)")
    arguments.add_argument("--set", action="append", default=[], dest="settings")
    a = arguments.parse_args()
    keys = {"head": ["row"], "mlp": ["mlp"], "both": ["row", "mlp"]}[a.of]
    kinds = {"at once": (a.troupe, []), "in tiles": (a.troupe, [f"cluster.{key}_tile_bytes={a.tile}" for key in keys])}
    if a.before:
        kinds["before"] = (a.before, [])
    seconds, processor, bytes_, losses = ({k: [] for k in kinds} for _ in range(4))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "job.yaml").write_text(WIDE_MLP if a.of == "mlp" else JOB)
        (folder / "corpus.txt").write_text((ROOT / "examples/corpus.txt").read_text() * 40)
        for _ in range(a.rounds):
            for kind, (troupe, settings) in kinds.items():
                loss, step_s, used_s, peak = run(troupe, folder, settings + a.settings)
                seconds[kind].append(step_s), processor[kind].append(used_s)
                bytes_[kind].append(peak), losses[kind].append(loss)
                print(f"{kind:9} step {step_s:7.2f} s, processor {used_s:7.2f} s, peak {peak / 2**30:6.2f} GiB, "
                      f"losses {loss}", flush=True)
    if losses["at once"] != losses["in tiles"]:
        raise SystemExit("losses differ")
    for kind in kinds:
        if kind != "in tiles":
            ratio = lambda of: statistics.median(of["in tiles"]) / statistics.median(of[kind])
            print(f"in tiles / {kind}: step {ratio(seconds):.3f}, processor {ratio(processor):.3f}, "
                  f"peak {max(bytes_['in tiles']) / max(bytes_[kind]):.3f}")


main()
