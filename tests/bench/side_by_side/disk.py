"""What has pages of its own because it takes long: files, checkpoints, tiers. Prints what those programs print."""
import subprocess
import sys

import runs

PROGRAMS = ("bench_storage", "bench_swap", "bench_checkpoint")


def run(troupe, programs, rounds):
    folder = runs.ROOT / "build"
    for name in PROGRAMS:
        print(f"\n{name}", flush=True)
        subprocess.run([str(programs / name)], check=True, cwd=folder)
    for script in ("save_every_step.py", "offload_steps.py"):
        print(f"\n{script}", flush=True)
        subprocess.run([sys.executable, str(runs.ROOT / "tests/bench" / script), str(troupe), str(rounds)], check=True, cwd=folder)
