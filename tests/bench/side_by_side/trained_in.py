"""What compressing in training loses: some more steps from the main job's weights with a technique, cleaned, and its loss
beside that of the same bits rounded afterwards. Prints a table; says what is beyond its bound."""
import json
import re
import subprocess

import runs

MORE = 160             # steps behind the main job's 1,600
LONGER = 800           # for what a model does not get used to so fast
RATE = 5e-4            # at most; falls to 0 within those steps
SHARE_GIVEN_BACK = 0.5  # of what int4 by rounding costs
GROUPS = 512           # of a matrix: runs of 32 to 128 weights
BLOCKS = ["h\\.\\d+\\.(attn|mlp)"]
LAST = re.compile(r"validation loss ([\d.]+) -> ([\d.]+)")


def weights(bits):
    return {"weight_quantization": {
        "shared_parameters": {"enabled": True, "quantize_weight_in_forward": True, "quantize_groups": GROUPS},
        "different_groups": {"blocks": {"params": {"start_bits": bits, "target_bits": bits}, "modules": BLOCKS}}}}


HALF_THE_ROWS = {"row_pruning": {
    "shared_parameters": {"enabled": True, "method": "l1", "schedule_offset": 0},
    "different_groups": {"mlp": {"params": {"dense_ratio": 0.5}, "modules": ["mlp\\.c_fc"],
                                 "related_modules": [["mlp\\.c_proj"]]}}}}
# What is trained in, and what the cleaned run is stored as.
WAYS = {"as it is": ({}, "f16"), "int4": (weights(4), "q4_0"), "ternary": (weights(2), "f16"), "binary": (weights(1), "f16"),
        "half the rows": (HALF_THE_ROWS, "f16")}


def train(troupe, source, folder, section, steps):
    job = (runs.ROOT / "examples/gcide.yaml").read_text()
    for old, new in {"steps: 1600\n": f"steps: {steps}\n", "total_num_steps: 1600": f"total_num_steps: {steps}", "lr: 2.0e-3": f"lr: {RATE}",
                     "warmup_num_steps: 60": "warmup_num_steps: 10", "cos_min_ratio: 0.02": "cos_min_ratio: 0", "seed: 1\n": "seed: 2\n"}.items():
        assert old in job, old
        job = job.replace(old, new)
    job += f"checkpoint: {{every_steps: {steps}}}\noutput: {folder}\ncompression_training: {json.dumps(section)}\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.yaml").write_text(job)
    subprocess.run([str(troupe), "train", str(folder / "job.yaml"), "--fresh", "--resume", str(source / "checkpoints"), "--load-module-only", "--quiet"],
                   check=True, cwd=folder)


def loss(troupe, run, section, to):
    """Of what is stored, nats a byte."""
    out = run / "out.gguf"
    said = subprocess.run([str(troupe), "compress", str(run / "checkpoints"), str(out), "--to", f"gguf:{to}", "--embeddings",
                           "f16" if to == "f16" else "q8_0", "--force", *(["--clean"] if section else [])], check=True,
                          capture_output=True, text=True).stdout
    return float(LAST.search(said).group(2)), out.stat().st_size


def measure(troupe, source, folder, plain, rounded, bad):
    """`plain`: the main job's loss; `rounded`: that of its int4 by rounding, with embeddings of 8 bits."""
    for name, (section, to) in WAYS.items():
        for steps in (MORE, LONGER):
            run = folder / f"{name.replace(' ', '_')}_{steps}"
            train(troupe, source, run, section, steps)
            now, size = loss(troupe, run, section, to)
            print(f"main job, {name} trained in for {steps} steps {plain:.4f} -> {now:.4f} nats/byte  ({now - plain:+.4f})"
                  f"  {size / 2**20:.2f} MiB", flush=True)
            if name == "int4" and steps == MORE and now - plain > (1 - SHARE_GIVEN_BACK) * (rounded - plain):
                bad.append(f"int4 trained in costs {now - plain:.4f} nats a byte, at most {SHARE_GIVEN_BACK} of {rounded - plain:.4f}")
