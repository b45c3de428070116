"""An offline run of W&B that Troupe wrote, read and uploaded by the real wandb.

Trains examples/smallest.yaml for a few steps, resumes it, and lets `wandb sync` upload the run to a server on this
machine that stores what it receives. Holds against each other: the rows and the summary that wandb sent and the CSV
files, the run's project, group, team, name and settings. Each record has the bytes that wandb's own messages have.
Needs build/release/troupe (make build), or another named by TROUPE.
"""

import csv
import gzip
import http.server
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

from wandb.proto import wandb_internal_pb2

root = pathlib.Path(__file__).resolve().parents[2]
troupe = os.environ.get("TROUPE", str(root / "build/release/troupe"))


def fail(what):
    sys.exit(f"wandb_reads_ours: {what}")


class Server(http.server.ThreadingHTTPServer):
    """As much of W&B's server as `wandb sync` needs; keeps the rows, the summary and the run that it receives."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.rows, self.run, self.files = [], {}, {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # wandb ends with open connections

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        data = self.rfile.read(int(self.headers.get("content-length", 0)))
        return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data

    def reply(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({})

    def do_PUT(self):
        self.server.files[self.path.rpartition("/")[2]] = self.body()
        self.reply({})

    def do_POST(self):
        data = json.loads(self.body() or b"{}")
        if self.path.endswith("file_stream"):
            content = data.get("files", {}).get("wandb-history.jsonl", {})
            if content.get("offset", 0) != len(self.server.rows) and content:
                fail(f"rows from {content['offset']} on after {len(self.server.rows)} rows")
            self.server.rows += [json.loads(line) for line in content.get("content", [])]
            return self.reply({"exitcode": None, "limits": {}})
        query, values = data.get("query", ""), data.get("variables") or {}
        if "upsertBucket" in query:
            self.server.run |= {k: v for k, v in values.items() if v is not None}
            project = {"id": "p", "name": values.get("project"), "entity": {"id": "e", "name": values.get("entity")}}
            bucket = {"id": "b", "name": values.get("name"), "displayName": values.get("displayName"), "config": "{}",
                      "description": "", "sweepName": None, "historyLineCount": 0, "project": project}
            return self.reply({"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}})
        if "createRunFiles" in query:
            files = [{"name": n, "uploadUrl": f"{self.server.url}/upload/{n}"} for n in values["files"]]
            return self.reply({"data": {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}})
        self.reply({"data": {}})


def train(out, steps):
    settings = {
        "output": out,
        "data.validation_fraction": 0.1,
        "evaluation.every_steps": 5,
        "evaluation.batches": 2,
        "checkpoint.every_steps": 5,
        "csv_monitor.enabled": "true",
        "csv_monitor.job_name": "csv",
        "wandb.enabled": "true",
        "wandb.project": "a project",
        "wandb.group": "a group",
        "wandb.team": "us",
    }
    command = [troupe, "train", str(root / "examples/smallest.yaml"), "--quiet", "--steps", str(steps)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True)


def records_of(file):
    """The records of a run file, parsed by wandb's messages; each must have the bytes that wandb gives it."""
    data, at, record = file.read_bytes(), 7, b""
    if data[:7] != b":W&B" + struct.pack("<HB", 0xBEE1, 0):
        fail(f"the file begins with {data[:7]}")
    out = []
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        sum_, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part = data[at + 7 : at + 7 + length]
        if zlib.crc32(part, zlib.crc32(bytes([kind]))) != sum_:
            fail(f"a wrong checksum at {at}")
        at, record = at + 7 + length, record + part
        if kind in (1, 4):
            message = wandb_internal_pb2.Record.FromString(record)
            if message.SerializeToString() != record:
                fail(f"wandb writes other bytes for {message}")
            out.append(message)
            record = b""
    if [r.num for r in out] != list(range(1, len(out) + 1)):
        fail("records are not numbered in order")
    return out


def curves_of(folder):
    """The values of all CSV files, by label and global samples."""
    out = {}
    for file in folder.glob("*.csv"):
        with open(file, newline="") as f:
            (_, name), *rows = list(csv.reader(f))
        label = file.stem.replace("_Samples_", "/Samples/")
        out |= {(label, int(step)): float(value) for step, value in rows}
    return out


def check(out, scratch, steps):
    """Uploads the one run in `out` and compares what arrived with the curves beside it."""
    runs = list((out / "wandb").glob("offline-run-*"))
    if len(runs) != 1 or (out / "wandb/latest-run").resolve() != runs[0].resolve():
        fail(f"runs {runs}")
    (file,) = runs[0].glob("run-*.wandb")
    run_id = file.stem.removeprefix("run-")
    kinds = [r.WhichOneof("record_type") for r in records_of(file)]
    if kinds[:4] != ["header", "run", "metric", "metric"] or kinds[-1] != "exit" or kinds.count("exit") != 1:
        fail(f"records {kinds}")
    server = Server()
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    env = os.environ | {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "0" * 40, "HOME": str(home),
                        "WANDB_ERROR_REPORTING": "false", "WANDB_MODE": "online"}
    program = pathlib.Path(sys.executable).parent / "wandb"
    said = subprocess.run([program, "sync", runs[0]], env=env, capture_output=True, text=True, timeout=300,
                          cwd=scratch)
    if said.returncode != 0 or "Finished syncing" not in said.stdout + said.stderr:
        fail(f"wandb sync: {said.stdout}{said.stderr}")
    if not (runs[0] / (file.name + ".synced")).exists():
        fail("wandb does not mark the run as uploaded")
    wanted = {"name": run_id, "project": "a project", "groupName": "a group", "entity": "us", "displayName": "smallest"}
    for key, value in wanted.items():
        if server.run.get(key) != value:
            fail(f"{key}: {server.run.get(key)}, not {value}")
    config = json.loads(server.run["config"])
    if config["steps"]["value"] != steps or config["wandb.project"]["value"] != "a project":
        fail(f"settings {config}")
    if not isinstance(config["optimizer.params.lr"]["value"], float):
        fail(f"rate {config['optimizer.params.lr']}")
    curves = curves_of(out / "csv")
    seen = {}
    for number, row in enumerate(server.rows):
        if row["_step"] != number:
            fail(f"row {number} has step {row['_step']}")
        seen |= {(k, row["global_samples"]): v for k, v in row.items() if "/" in k}
    if seen.keys() != curves.keys() or any(v != curves[k] and not math.isnan(v) for k, v in seen.items()):
        fail("other values than in the CSV")
    summary = json.loads(server.files["wandb-summary.json"])
    for label in {k for k, _ in curves}:
        last = max(x for k, x in curves if k == label)
        if summary[label] != curves[label, last]:
            fail(f"summary of {label}: {summary[label]}, not {curves[label, last]}")
    return len(seen), len(server.rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        out = scratch / "run"
        train(out, 12)
        check(out, scratch, 12)
        train(out, 15)
        points, rows = check(out, scratch, 15)
        print(f"wandb_reads_ours: {points} points in {rows} rows the same in wandb and CSV, before and after a resume")
