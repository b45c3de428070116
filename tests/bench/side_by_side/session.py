"""What a session has measured so far, in a file that is written after every run: a broken off session keeps what it has."""
import datetime
import json
import shlex
import sys
import time

import machine


class Session:
    def __init__(self, file, add, empty):
        """`add`: go on with what the file holds; `empty`: what it holds at first."""
        self.file, self.begin = file, time.monotonic()
        old = json.loads(file.read_text()) if add and file.exists() else empty
        command = ("python3 tests/bench/side_by_side " + shlex.join(sys.argv[1:])).strip()
        self.before_s = old.get("seconds", 0)
        self.results = old | {"machine": machine.facts(), "date": datetime.date.today().isoformat(), "commit": machine.commit(),
                              "commands": old.get("commands", []) + [command], "load": max(machine.load(), old.get("load", 0))}

    def keep(self, **what):
        self.results |= what
        self.results["seconds"] = self.before_s + round(time.monotonic() - self.begin)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(self.results))

    def take(self, case, name, run, figure, unit="s a step"):
        """One run, kept under its case and said with its figure; one that fails is said on the page, and does not end the session."""
        try:
            r = run()
            said = f"{figure(r):.3f} {unit}"
        except RuntimeError as e:
            r = {"error": str(e)[-800:]}
            said = "failed: " + r["error"].replace("\n", " ")[-200:]
        self.results["cases"].setdefault(case, {}).setdefault(name, []).append(r)
        self.keep()
        self.say(f"{case} {name}: {said}")

    def say(self, text):
        print(f"[{time.monotonic() - self.begin:5.0f} s] {text}", flush=True)
