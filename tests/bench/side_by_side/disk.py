"""Parts with pages of their own because they take long: files, checkpoints, tiers. Prints what those programs print."""
import subprocess
import sys

import runs

PROGRAMS = ("bench_storage", "bench_swap", "bench_checkpoint")


def run(troupe, programs, rounds):
    for name in PROGRAMS:
        print(f"\n{name}", flush=True)
        subprocess.run([str(programs / name)], check=True, cwd=runs.ROOT)  # where they look for .peer
    for script in ("save_every_step.py", "offload_steps.py"):
        print(f"\n{script}", flush=True)
        command = [sys.executable, str(runs.ROOT / "tests/bench" / script), str(troupe), str(rounds)]
        subprocess.run(command, check=True, cwd=runs.ROOT / "build")
