#!/usr/bin/env python3
"""What saving every step costs training: the 10.8 M model of step.yaml with and without, in turn.

save_every_step.py TROUPE [PAIRS]: prints the medians of each pair of runs, without their first steps, and the ratios.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

FIRST_STEPS = 3  # threads, pages and the staging memory are touched
STEPS = 10


def run(troupe, folder, settings):
    topology = pathlib.Path(__file__).parent / "step.yaml"
    command = [troupe, "train", str(topology), "--json", "--set", f"steps={STEPS}", "--set", f"output={folder}"]
    out = subprocess.run(command + settings, check=True, capture_output=True, text=True).stdout
    events = [json.loads(line) for line in out.splitlines() if line.startswith('{"event"')]
    steps = [e["step_s"] for e in events if e["event"] == "step"]
    return steps[FIRST_STEPS:], [e["seconds"] for e in events if e["event"] == "checkpoint"]


def main():
    troupe, pairs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    saving = ["--set", "checkpoint.every_steps=1", "--set", "checkpoint.keep_last=2"]
    ratios = []
    for _ in range(pairs):
        medians = []
        for settings in ([], saving):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                steps, saves = run(troupe, f"{folder}/out", settings)
            medians.append(statistics.median(steps))
        ratios.append(medians[1] / medians[0])
        print(f"step {medians[0]:.3f} s, saving {medians[1]:.3f} s: {ratios[-1]:.3f}; a save {statistics.median(saves):.3f} s",
              flush=True)
    print(f"saving every step: {100 * (statistics.median(ratios) - 1):.1f} % of the time (median of {pairs} pairs)")


if __name__ == "__main__":
    main()
