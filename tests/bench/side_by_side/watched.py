"""Runs of several processes, watched from outside: the steps that they tell, when the first ended, what they held.

Memory is sampled only where it is asked for, as walking a process's pages stops its page faults for a moment.
"""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

SAMPLE_EVERY_S = 0.05
LIMIT_S = 240  # several times the longest run on a quiet machine


def pss_bytes(pid):
    """The process's share of resident memory; 0 if it has ended."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Sampler(threading.Thread):
    """The largest sum of shares."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.peak, self.over = pids, 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(SAMPLE_EVERY_S):
            self.peak = max(self.peak, sum(map(pss_bytes, self.pids)))


def follow(processes, begin):
    """Reads the first one's events and waits for all; returns the figures of `run`, and whether one failed."""
    result = {"steps_s": [], "losses": []}
    for line in processes[0].stdout:
        if not line.startswith(b'{"event"'):
            continue
        event = json.loads(line)
        if event["event"] == "step":
            result.setdefault("first_step_s", time.monotonic() - begin)
            result["steps_s"].append(event["step_s"])
            result["losses"].append(event["loss"])
        elif event["event"] == "end":
            result["end"] = event
    result["peak_rss_bytes"] = 0
    failed = False
    for p in processes:
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        failed = failed or p.returncode != 0
        result["peak_rss_bytes"] += usage.ru_maxrss * 1024
    return result, failed


def run(commands, environments, folder, sample_memory=False, limit_s=LIMIT_S):
    """Starts all commands at once in `folder` and waits for them. The first one's lines of JSON are the events.

    Gives steps_s, first_step_s (from the start of the processes), peak_rss_bytes (sum over processes, by the kernel),
    end (the event), and with sample_memory peak_pss_bytes.
    """
    errors = [tempfile.TemporaryFile() for _ in commands]
    begin = time.monotonic()
    processes = [subprocess.Popen(c, cwd=folder, env=e, stdout=subprocess.PIPE if i == 0 else subprocess.DEVNULL,
                                  stderr=errors[i], stdin=subprocess.DEVNULL)
                 for i, (c, e) in enumerate(zip(commands, environments))]
    sampler = Sampler([p.pid for p in processes]) if sample_memory else None
    watchdog = threading.Timer(limit_s, lambda: [p.send_signal(signal.SIGABRT) for p in processes])  # Python says where it was
    watchdog.daemon = True
    watchdog.start()
    try:
        result, failed = follow(processes, begin)
    finally:
        for p in processes:
            if p.returncode is None:
                p.kill()  # the session was broken off
    watchdog.cancel()
    if sampler:
        sampler.over.set()
        sampler.join()
        result["peak_pss_bytes"] = sampler.peak
    if failed or not result["steps_s"]:
        texts = []
        for file in errors:
            file.seek(0)
            texts.append(file.read().decode(errors="replace")[-1600:])
        raise RuntimeError(f"{' '.join(commands[0])[:120]}: " + "\n".join(texts))
    result["seconds"] = time.monotonic() - begin
    return result
