"""`troupe checkpoint to-fp32` beside DeepSpeed's zero_to_fp32 on DeepSpeed's own folders.

Run by `make peer`: two processes on the CPU train a GPT-2 of 124 M parameters for one step with ZeRO-3 in fp32 and save it
(1.4 GiB), then the converters take turns, five times each with the page cache warm and, where this user may drop it, cold.
DeepSpeed's writes a file of torch.save, as it refuses tied weights in safetensors; ours writes both forms. Every tensor is
compared byte for byte. Then memory: a folder of
2 GB in shards of 200 MB. Prints every time, the ratio of the medians, and the most memory (VmHWM) of ours.

Environment: TROUPE names the program (build/release/troupe), TO_FP32_FOLDER keeps the folders between runs.
"""

import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from shared.caches import drop_caches
from shared.rendezvous import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
REPEATS = 5


def train(folder, layers):
    import torch
    import deepspeed
    import transformers

    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config={
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False})
    x = torch.randint(0, 1000, (1, 8))
    engine.backward(engine(x, labels=x).loss)
    engine.step()
    engine.save_checkpoint(str(folder), tag="step1")


def made(folder, layers):
    if (folder / "latest").exists():
        return folder
    port = free_port()
    ranks = [subprocess.Popen([sys.executable, __file__, str(folder), str(layers)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True,
                              env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2",
                                       MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS="1",
                                       DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="")) for rank in range(2)]
    for rank in ranks:
        _, errors = rank.communicate(timeout=1200)
        if rank.returncode != 0:
            sys.exit(errors[-2000:])
    return folder


def warm(folder):
    for file in folder.rglob("*.pt"):
        with open(file, "rb", buffering=0) as f:
            while f.read(1 << 24):
                pass


def timed(command):
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    _, errors = process.communicate()
    seconds = time.monotonic() - start
    if process.returncode != 0:
        sys.exit(f"{command}: {errors[-2000:]}")
    return seconds


def theirs(folder, out):
    return [sys.executable, str(folder / "zero_to_fp32.py"), str(folder), str(out), "--max_shard_size", "50GB"]


def ours(folder, out, *options):
    return [TROUPE, "checkpoint", "to-fp32", str(folder), str(out), *options]


def same(a, b):
    """Their file, ours; any of safetensors and torch.save."""
    import torch
    from safetensors.torch import load_file

    def load(path):
        return load_file(path) if str(path).endswith(".safetensors") else torch.load(path, weights_only=True, mmap=True)

    left, right = load(a), load(b)
    for name, tensor in left.items():
        if right[name].dtype != tensor.dtype or not torch.equal(right[name].view(torch.uint8), tensor.view(torch.uint8)):
            sys.exit(f"{name} differs")
    return len(left), len(right)


def peak_bytes(command):
    """VmHWM of a run at the last look at /proc, which is read a thousand times a second."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    high = anonymous = 0
    while process.poll() is None:
        try:
            for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    high = max(high, int(line.split()[1]) * 1024)
                if line.startswith("RssAnon"):
                    anonymous = max(anonymous, int(line.split()[1]) * 1024)
        except (OSError, ProcessLookupError):
            break
        time.sleep(0.001)
    if process.wait() != 0:
        sys.exit(f"{command} failed")
    return high, anonymous


def main():
    kept = os.environ.get("TO_FP32_FOLDER")
    at = pathlib.Path(kept or tempfile.mkdtemp(prefix="to_fp32_"))
    try:
        folder = made(at / "gpt2", 12)
        size = sum(f.stat().st_size for f in folder.rglob("*.pt"))
        print(f"folder: {size / 2**30:.2f} GiB")
        outputs = {"DeepSpeed": at / "theirs" / "pytorch_model.bin", "Troupe .bin": at / "ours" / "pytorch_model.bin",
                   "Troupe .safetensors": at / "ours" / "model.safetensors"}
        for state in ("warm", "cold"):
            times = {who: [] for who in outputs}
            for _ in range(REPEATS):
                for who, out in outputs.items():
                    shutil.rmtree(out.parent, ignore_errors=True)
                    out.parent.mkdir()
                    if state == "cold" and not drop_caches():
                        break
                    if state == "warm":
                        warm(folder)
                    times[who].append(timed(theirs(folder, out.parent) if who == "DeepSpeed" else ours(folder, out)))
                    if who == "Troupe .bin" and len(times[who]) == 1:
                        counts = same(outputs["DeepSpeed"], out)
            if not times["Troupe .bin"]:
                print(f"{state}: skipped, this user may not drop the page cache")
                continue
            for who, list_of in times.items():
                ratio = statistics.median(times["DeepSpeed"]) / statistics.median(list_of)
                print(f"{state}, {who}: " + " ".join(f"{t:.2f}" for t in list_of) + f" s, {ratio:.1f} x")
        print(f"{counts[0]} tensors of DeepSpeed's are the same bytes in ours, which has {counts[1]}")
        same(outputs["DeepSpeed"], outputs["Troupe .safetensors"])
        large = made(at / "large", 18)
        shutil.rmtree(at / "shards", ignore_errors=True)
        high, anonymous = peak_bytes(ours(large, at / "shards", "--max-shard-size", "200MB"))
        written = sum(f.stat().st_size for f in (at / "shards").iterdir())
        size = sum(f.stat().st_size for f in large.rglob("*.pt"))
        print(f"folder of {size / 1e9:.2f} GB, {written / 1e9:.2f} GB in shards of 200 MB: VmHWM {high / 2**20:.0f} MiB, anonymous {anonymous / 2**20:.0f} MiB")
    finally:
        if not kept:
            shutil.rmtree(at, ignore_errors=True)


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
    else:
        main()
