"""Native saves and loads beside DeepSpeed's save_checkpoint and load_checkpoint at 124 M parameters.

Run by `make peer`: two processes on the CPU hold a GPT-2 in fp32 with AdamW's states (ZeRO-2 and ZeRO-3), save it five times,
which DeepSpeed leaves to the page cache, and load it five times warm and, where this user may drop the cache, five times cold.
Then bench_checkpoint saves and loads as many bytes as the parameters' masters and moments have, durably and past the cache.
Prints one JSON object with all times in seconds, and the ratios of the best, the median and the worst.

Environment: BENCH_CHECKPOINT names our program (build/release/tests/bench/bench_checkpoint), TMPDIR the file system.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from shared.caches import drop_caches
from shared.rendezvous import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPEATS = 5
PARAMETERS = 124_439_808
BYTES_EACH = 12  # fp32 master and two moments
MIB = 1 << 20
TENSOR_MIB = 32  # bench_checkpoint's


def rank_main(folder, stage):
    import torch
    import torch.distributed as dist
    import deepspeed
    import transformers

    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config={
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False})
    x = torch.randint(0, 1000, (1, 8))
    engine.backward(engine(x, labels=x).loss)
    engine.step()

    def timed(action):
        dist.barrier()
        start = time.monotonic()
        action()
        dist.barrier()
        return time.monotonic() - start

    out = {"save": [], "load_warm": [], "load_cold": []}
    for _ in range(REPEATS):
        out["save"].append(timed(lambda: engine.save_checkpoint(folder, tag="step1")))
    engine.load_checkpoint(folder)
    for _ in range(REPEATS):
        out["load_warm"].append(timed(lambda: engine.load_checkpoint(folder)))
    for _ in range(REPEATS):
        dropped = [drop_caches() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(dropped)
        if not dropped[0]:
            break
        out["load_cold"].append(timed(lambda: engine.load_checkpoint(folder)))
    if dist.get_rank() == 0:
        out["bytes"] = sum(f.stat().st_size for f in pathlib.Path(folder).rglob("*") if f.is_file())
        pathlib.Path(folder, "times.json").write_text(json.dumps(out))


def theirs(folder, stage):
    port = free_port()
    environment = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS="1",
                       DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")
    ranks = [subprocess.Popen([sys.executable, __file__, folder, str(stage)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, env=dict(environment, RANK=str(r), LOCAL_RANK=str(r)))
             for r in range(2)]
    for rank in ranks:
        _, errors = rank.communicate(timeout=1200)
        if rank.returncode != 0:
            sys.exit(errors[-2000:])
    return json.loads(pathlib.Path(folder, "times.json").read_text())


def ours(folder):
    program = os.environ.get("BENCH_CHECKPOINT", str(ROOT / "build/release/tests/bench/bench_checkpoint"))
    if not pathlib.Path(program).exists():
        subprocess.run(["ninja", "-C", str(ROOT / "build/release"), "bench_checkpoint"], check=True)
    mib = -(-PARAMETERS * BYTES_EACH // (TENSOR_MIB * MIB)) * TENSOR_MIB
    text = subprocess.run([program, folder, str(mib)], check=True, capture_output=True, text=True).stdout
    print(text, file=sys.stderr)
    out = {"bytes": mib * MIB}
    for line in text.splitlines():
        found = re.match(r"  (save, one file|load, one file)((?: +[0-9.]+)+)", line)
        if found:
            out[found[1].split(",")[0]] = [round(mib * MIB / 1e9 / float(rate), 3) for rate in found[2].split()]
    return out


def ratios(mine, others):
    return {name: round(of(mine) / of(others), 3) for name, of in
            (("best", min), ("median", statistics.median), ("worst", max))}


def main():
    result = {}
    with tempfile.TemporaryDirectory() as scratch:
        result["troupe"] = mine = ours(scratch)
        for stage in (2, 3):
            folder = os.path.join(scratch, f"stage{stage}")
            os.mkdir(folder)
            result[f"deepspeed ZeRO-{stage}"] = them = theirs(folder, stage)
            result[f"save of ZeRO-{stage}'s"] = ratios(mine["save"], them["save"])
            result[f"load of ZeRO-{stage}'s, warm"] = ratios(mine["load"], them["load_warm"])
            if them["load_cold"]:
                result[f"load of ZeRO-{stage}'s, cold"] = ratios(mine["load"], them["load_cold"])
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        rank_main(sys.argv[1], int(sys.argv[2]))
    else:
        main()
