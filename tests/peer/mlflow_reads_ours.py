"""A run in MLflow's file store that Troupe wrote, read back by the real mlflow.

Trains examples/smallest.yaml for a few steps into an experiment that MLflow's own client has made, resumes it, and
holds against each other: the metrics that mlflow reads and the CSV files, status, parameters and tags, and what the
client logs into the same run afterwards. Needs build/release/troupe (make build), or another named by TROUPE.
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"

from mlflow.tracking import MlflowClient

root = pathlib.Path(__file__).resolve().parents[2]
troupe = os.environ.get("TROUPE", str(root / "build/release/troupe"))
EXPERIMENT = "an experiment: of a name that is so long that YAML folds it over several lines of its file, 1"


def fail(what):
    sys.exit(f"mlflow_reads_ours: {what}")


def train(out, steps):
    settings = {
        "output": out,
        "data.validation_fraction": 0.1,
        "evaluation.every_steps": 5,
        "evaluation.batches": 2,
        "checkpoint.every_steps": 5,
        "csv_monitor.enabled": "true",
        "csv_monitor.job_name": "csv",
        "mlflow.enabled": "true",
        "mlflow.experiment": f'"{EXPERIMENT}"',
        "mlflow.run_name": '"run: 1"',
    }
    command = [troupe, "train", str(root / "examples/smallest.yaml"), "--quiet", "--steps", str(steps)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True)


def rows_of(file):
    with open(file, newline="") as f:
        first, *rows = list(csv.reader(f))
    return [(int(step), float(value)) for step, value in rows]


def check(out, steps):
    """Compares the store in `out` with the curves beside it; returns the number of compared points."""
    client = MlflowClient(tracking_uri=f"file://{out}/mlruns")
    names = [e.name for e in client.search_experiments()]
    if sorted(names) != sorted(["Default", EXPERIMENT]):
        fail(f"experiments {names}")
    experiment = client.get_experiment_by_name(EXPERIMENT)
    runs = client.search_runs([experiment.experiment_id])
    if len(runs) != 1:
        fail(f"{len(runs)} runs, not one")
    (run,) = runs
    if run.info.status != "FINISHED" or not run.info.end_time >= run.info.start_time > 0:
        fail(f"run {run.info}")
    if run.info.run_name != "run: 1" or run.data.tags["mlflow.runName"] != "run: 1":
        fail(f"name {run.info.run_name}, tags {run.data.tags}")
    for key, value in {"steps": str(steps), "mlflow.run_name": "run: 1", "mlflow.experiment": EXPERIMENT}.items():
        if run.data.params[key] != value:
            fail(f"parameter {key}: {run.data.params[key]}, not {value}")
    if float(run.data.params["optimizer.params.lr"]) <= 0 or "model.n_layer" not in run.data.params:
        fail(f"parameters {sorted(run.data.params)}")
    points = 0
    files = {p.name for p in (out / "csv").glob("*.csv")}
    for label in run.data.metrics:
        name = label.replace("/", "_") + ".csv"
        files.remove(name)
        history = client.get_metric_history(run.info.run_id, label)
        if [(m.step, m.value) for m in history] != rows_of(out / "csv" / name):
            fail(f"{label}: other values than in the CSV")
        if any(b.timestamp < a.timestamp for a, b in zip(history, history[1:])):
            fail(f"{label}: time runs backwards")
        points += len(history)
    if files:
        fail(f"no metrics for {files}")
    if client.list_artifacts(run.info.run_id):
        fail("artifacts that were not written")
    return client, run, points


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "a run"
        out.mkdir()
        MlflowClient(tracking_uri=f"file://{out}/mlruns").create_experiment(EXPERIMENT)
        train(out, 12)
        check(out, 12)
        train(out, 15)
        client, run, points = check(out, 15)
        client.log_metric(run.info.run_id, "Train/Samples/lr", 7.0, step=10**6)
        client.set_tag(run.info.run_id, "seen", "yes")
        run = client.get_run(run.info.run_id)
        if run.data.metrics["Train/Samples/lr"] != 7.0 or run.data.tags["seen"] != "yes":
            fail("the client does not continue the run")
        print(f"mlflow_reads_ours: {len(run.data.metrics)} metrics, {points} points the same in mlflow and CSV")
