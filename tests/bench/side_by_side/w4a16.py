"""gptq of SmolLM2-135M beside llmcompressor's: the same weights, text and groups of 4 bits; loss over other text, seconds and
memory. SMOLLM2 names the GGUF file, LLMCOMPRESSOR a Python that has llmcompressor 0.14. Prints a line each."""
import os
import pathlib
import re
import shutil
import subprocess
import time

import runs

GROUP = 64                   # 128, llmcompressor's W4A16, does not divide the model's width of 576: it refuses
WINDOWS, COLUMNS = 32, 512   # of calibration
LOSS = 1.05                  # our increase by theirs
COST = 0.5                   # our seconds and memory by theirs
LAST = re.compile(r"validation loss ([\d.]+) -> ")


def watched(command, **environment):
    """Seconds and peak bytes of a command that goes well."""
    begin = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(list(map(str, command)), stdout=nowhere, stderr=nowhere, env=os.environ | environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {' '.join(map(str, command))}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024


def measure(troupe, gguf, python, calibration, validation, folder, bad):
    weights, tokens = folder / "smollm2", folder / "calibration.bin"
    watched([troupe, "checkpoint", "to-hf", gguf, weights, "--force", "--dtype", "fp32"])
    watched([runs.PYTHON, runs.ROOT / "tests/peer/shared/gguf_tokenizer.py", gguf, weights, calibration, tokens])

    def loss(of):
        """Of a folder's dequantised weights, or a file's."""
        if of.is_dir():
            shutil.copy(weights / "tokenizer.json", of)
            watched([troupe, "checkpoint", "to-gguf", of, folder / "whole.gguf", "--type", "f32", "--force"])
            of = folder / "whole.gguf"
        said = subprocess.run([str(troupe), "compress", str(of), str(folder / "read.gguf"), "--to", "gguf:f16", "--force",
                               "--validate", str(validation)], check=True, capture_output=True, text=True).stdout
        return float(LAST.search(said).group(1))

    plain = loss(gguf)
    ours, theirs = folder / "ours", folder / "theirs"
    for out in (ours, theirs):
        shutil.rmtree(out, ignore_errors=True)
    spent = {"ours": watched([troupe, "compress", gguf, ours, "--to", "compressed-tensors:int4", "--group", GROUP, "--dtype", "fp32",
                              "--method", "gptq", "--calibrate", calibration, "--samples", WINDOWS, "--sequence", COLUMNS,
                              "--validate", "none"]),
             "llmcompressor's": watched([python, runs.ROOT / "tests/peer/shared/w4a16.py", weights, tokens, WINDOWS, COLUMNS, GROUP,
                                         theirs], HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="")}
    increase = {"ours": loss(ours) - plain, "llmcompressor's": loss(theirs) - plain}
    for who, (seconds, peak) in spent.items():
        print(f"SmolLM2-135M int4, groups of {GROUP}, gptq, {who}: {plain:.4f} {increase[who]:+.4f} nats/byte, {seconds:.0f} s, "
              f"{peak / 2**20:.0f} MiB", flush=True)
    share = increase["ours"] / increase["llmcompressor's"]
    if share > LOSS:
        bad.append(f"gptq loses {share:.2f} of what llmcompressor's does, at most {LOSS}")
    for what, ours_, theirs_ in zip(("seconds", "memory"), spent["ours"], spent["llmcompressor's"]):
        if ours_ > COST * theirs_:
            bad.append(f"gptq takes {ours_ / theirs_:.2f} of llmcompressor's {what}, at most {COST}")
