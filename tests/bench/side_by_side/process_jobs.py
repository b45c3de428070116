"""Jobs of several processes, Troupe's and torchrun's, that are watched and whose processes get signals.

Ranks have one thread each and share SAMPLES rows of the 10.8 M model, fp32; torchrun's DDP writes a checkpoint every CHECKPOINT_EVERY steps and
continues from it when torchrun has started all of its processes again.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import cases
import runs

SAMPLES = 12  # of a step: each of 2, 3 and 4 ranks has as many
CHECKPOINT_EVERY = 10
STEPS = 1_000_000  # until it is ended
LIMIT_S = 120  # for what is waited for
KILLS_MAX = 10_000


class Job:
    """A command in a folder of its own, whose steps are read as they come. `variable` marks its processes."""

    def __init__(self, command, environment, folder, variable):
        self.folder, self.variable = folder, variable
        self.steps = []  # (when, number)
        self.errors = open(folder / "errors", "w+b")
        self.begin = time.monotonic()
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.came = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            for pid in self.workers().values():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self):
        for line in self.process.stdout:
            at = line.find(b'{"event"')
            if at < 0 or b'"step_s"' not in line:
                continue
            step = json.loads(line[at:])["step"]
            with self.came:
                self.steps.append((time.monotonic(), step))
                self.came.notify_all()
        with self.came:
            self.steps.append((time.monotonic(), None))  # it has ended
            self.came.notify_all()

    def wait_for(self, wanted, since=0, limit_s=LIMIT_S):
        """The first step from the `since`-th on whose number is wanted: when it came, and its number."""
        until = time.monotonic() + limit_s
        with self.came:
            while True:
                for when, number in self.steps[since:]:
                    if number is None:
                        raise RuntimeError("it ended: " + self.said())
                    if wanted(number):
                        return when, number
                since = len(self.steps)
                if not self.came.wait(max(0, until - time.monotonic())) and time.monotonic() >= until:
                    raise RuntimeError(f"no step came in {limit_s} s: " + self.said())

    def said(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-1600:]

    def workers(self):
        """By place: the processes that the command has started."""
        out = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or (entry / "stat").read_text().rpartition(")")[2].split()[1] != str(self.process.pid):
                    continue
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for v in variables:
                name, _, value = v.decode(errors="replace").partition("=")
                if name == self.variable:
                    out[int(value.rpartition(":")[2])] = int(entry.name)
        return out


def folder():
    return pathlib.Path(tempfile.mkdtemp(prefix="processes_", dir=runs.ROOT / "build"))


def ours(troupe, ranks, **cluster):
    where = folder()
    topology = {"model": cases.GPT2_SMALL, "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids"}, "parallel": {"data": ranks}, "seed": 1, "steps": STEPS,
                "output": str(where / "out"), "train_batch_size": SAMPLES, "gradient_clipping": 1.0,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "zero_optimization": {"stage": 2},
                "cluster": {"processes": "ranks", "restarts": {"max": KILLS_MAX}, **cluster},
                "telemetry": {"trace": False, "report": False}}
    file = where / "job.yaml"
    file.write_text(json.dumps(topology))
    return Job([str(troupe), "train", str(file), "--json"], dict(os.environ), where, "TROUPE_LINK")


def torchrun(ranks):
    where = folder()
    spec = {"peer": "ddp", "model": cases.GPT2_SMALL, "dtype": "fp32", "rows": SAMPLES // ranks, "columns": 256, "steps": STEPS,
            "text": str(runs.TEXT), "checkpoint": str(where / "checkpoint.pt"), "checkpoint_every": CHECKPOINT_EVERY}
    command = [str(runs.PYTHON), "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", f"--max-restarts={KILLS_MAX}",
               "--monitor-interval=0.1", "--master-addr=127.0.0.1", f"--master-port={runs.free_port()}", str(runs.TRAINING), json.dumps(spec)]
    return Job(command, runs.peer_environment() | {"OMP_NUM_THREADS": "1"}, where, "LOCAL_RANK")


def start(job):
    """Seconds from the command to its first step."""
    with job:
        return {"value": job.wait_for(lambda n: n >= 1)[0] - job.begin}


def lose(job, place, sent):
    """Seconds from a signal to the first step done after it, and to the first that had not been done before."""
    with job:
        job.wait_for(lambda n: n >= 5)
        time.sleep(0.02)
        since, last = len(job.steps), job.steps[-1][1]
        begin = time.monotonic()
        os.kill(job.workers()[place], sent)
        new = job.wait_for(lambda n: n > last, since)[0] - begin
        again = [when - begin for when, n in job.steps[since:] if n is not None and n <= last]
        return {"value": min([*again, new]), "new": new}


def rate(job, seconds, kill_every=None, waits=None):
    """New steps a second. Every `kill_every` seconds one of the processes that have ranks is killed; `waits`: the place
    that has none."""
    with job:
        begin, first = job.wait_for(lambda n: n >= 3)
        kills, turn = 0, 0
        while (now := time.monotonic()) < begin + seconds:
            if kill_every is not None and now >= begin + (kills + 0.5) * kill_every:
                there = {p: pid for p, pid in job.workers().items() if p != waits}
                place = sorted(there)[turn % len(there)]
                os.kill(there[place], signal.SIGKILL)
                turn, kills = turn + 1, kills + 1
                waits = place if waits is not None else None
            time.sleep(0.05)
        numbers = [n for _, n in job.steps]
        if None in numbers:
            raise RuntimeError("it ended: " + job.said())
        return {"value": (max(numbers) - first) / seconds, "kills": kills}
