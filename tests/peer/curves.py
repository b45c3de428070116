"""Curves of a real run, read back by the real tensorboard, and laid out as DeepSpeed's own csv_monitor lays them out.

Trains examples/smallest.yaml for a few steps with every kind of curve on, then holds against each other: what
tensorboard's EventAccumulator reads, the CSV files, the JSON lines, and the names and headers that DeepSpeed's
csvMonitor gives to the same labels. Needs build/release/troupe (make build), or another named by TROUPE.
"""

import contextlib
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_inspector import get_inspection_units

root = pathlib.Path(__file__).resolve().parents[2]
troupe = os.environ.get("TROUPE", str(root / "build/release/troupe"))
STEPS = 12


def fail(what):
    sys.exit(f"curves: {what}")


def deepspeed_layout(folder, label):
    """The name and header of `label`'s file as DeepSpeed writes them."""
    from deepspeed.monitor.csv_monitor import csvMonitor

    monitor = csvMonitor.__new__(csvMonitor)
    monitor.filenames, monitor.enabled, monitor.log_dir = [], True, str(folder)
    import deepspeed.comm

    rank, deepspeed.comm.get_rank = deepspeed.comm.get_rank, lambda: 0
    try:
        monitor.write_events([(label, 1.0, 8)])
    finally:
        deepspeed.comm.get_rank = rank
    (file,) = pathlib.Path(folder).glob("*.csv")
    with open(file, newline="") as f:
        header = next(csv.reader(f))
    file.unlink()
    return file.name, header


with tempfile.TemporaryDirectory() as scratch:
    out = pathlib.Path(scratch) / "run"
    settings = {
        "output": out,
        "data.validation_fraction": 0.1,
        "evaluation.every_steps": 5,
        "evaluation.batches": 2,
        "tensorboard.enabled": "true",
        "tensorboard.job_name": "events",
        "csv_monitor.enabled": "true",
        "csv_monitor.job_name": "csv",
        "telemetry.json_lines": "true",
        "wall_clock_breakdown": "true",
        "fp16.enabled": "true",
    }
    command = [troupe, "train", str(root / "examples/smallest.yaml"), "--quiet", "--steps", str(STEPS)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True)

    with contextlib.redirect_stdout(io.StringIO()):
        found = get_inspection_units(str(out / "events"))
    if len(found) != 1:
        fail("tensorboard finds no event file by its name")
    events = EventAccumulator(str(out / "events"), size_guidance={"scalars": 0})
    events.Reload()
    if events.file_version != 2.0:
        fail(f"file version {events.file_version}, not 2")
    labels = events.Tags()["scalars"]
    compared = 0
    layout = pathlib.Path(scratch) / "layout"
    layout.mkdir()
    names = set()
    for label in labels:
        name, header = deepspeed_layout(layout, label)
        names.add(name)
        with open(out / "csv" / name, newline="") as f:
            first, *rows = list(csv.reader(f))
        if first != header:
            fail(f"{name}: header {first}, DeepSpeed's is {header}")
        points = events.Scalars(label)
        if [p.step for p in points] != [int(r[0]) for r in rows]:
            fail(f"{label}: other steps in the events than in the CSV")
        for point, row in zip(points, rows):
            # Events hold fp32, as torch's SummaryWriter writes them.
            if numpy.float32(point.value) != numpy.float32(float(row[1])):
                fail(f"{label} at {point.step}: {point.value} and {row[1]}")
            compared += 1
        if any(b.wall_time < a.wall_time for a, b in zip(points, points[1:])):
            fail(f"{label}: time runs backwards")
    if {p.name for p in (out / "csv").glob("*.csv")} != names:
        fail("the CSV folder holds other labels than the events")
    for wanted in ("Train/Samples/lr", "Train/Samples/loss_scale", "Train/Samples/train_loss", "Validation/Samples/loss",
                   "Train/Samples/elapsed_time_ms_backward_allreduce"):
        if wanted not in labels:
            fail(f"{wanted} is missing")

    with open(out / "steps.jsonl") as f:
        lines = [json.loads(line) for line in f]
    steps = [line for line in lines if "loss" in line]
    losses = {line["global_samples"]: line["loss"] for line in steps}
    with open(out / "csv/Train_Samples_train_loss.csv", newline="") as f:
        rows = list(csv.reader(f))[1:]
    if len(steps) != STEPS or {int(x): float(y) for x, y in rows} != losses:
        fail("the JSON lines say another loss than the CSV")
    print(f"curves: {len(labels)} labels, {compared} points the same in tensorboard and CSV, {len(lines)} JSON lines")
