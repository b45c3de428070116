"""Runs on a GPU what has no proof without one, and writes the page that says what was seen.

check.py [--parts PART,...]: `make gpu-check` builds what it runs, tests/gpu/visit.sh brings it along. Without a GPU it says so in
one sentence and ends with 77; with 1 where a part failed. A part that failed, or did not run, is named on the page.
"""
import argparse
import concurrent.futures
import ctypes
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
SHARED = ROOT / "tests/peer/shared"
TEXT = ROOT / "examples/corpus.txt"
NO_GPU = 77
LIMIT_S = 480  # of one program; one that hangs is to cost no more
COPY_SHARE = 0.85  # the least rate of a kernel beside a plain copy
REFUSED_WITH_CUDA = ("fake_quantise", "group_ranges", "mask_")  # kernels of compression, which no job on a GPU runs
LOSS_BOUNDS = {"fp32": 1e-5, "bf16": 2e-2}
PEAK_SHARE = 0.05  # how far the memory that is used may be from the plan's
GOALS = {"H100": 250e3}  # tokens/s of the first case
WARM_STEPS, STEPS, ROUNDS = 3, 12, 3


def gpt2(layers, width, heads, positions=1024, vocabulary=50257):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": positions, "vocab_size": vocabulary,
            "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0}


def llama(layers, width, heads, groups, inner, positions=4096, vocabulary=32000):
    return {"model_type": "llama", "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads,
            "num_key_value_heads": groups, "intermediate_size": inner, "max_position_embeddings": positions,
            "vocab_size": vocabulary, "tie_word_embeddings": True}


TINY = {"gpt2": gpt2(2, 64, 4, 32, 256), "llama": llama(2, 64, 4, 2, 96, 32, 256)}
TINY_ROWS, TINY_COLUMNS = 4, 32


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    model: dict
    rows: int
    columns: int
    zero: dict = dataclasses.field(default_factory=lambda: {"stage": 0})
    beside: bool = True  # PyTorch, in turn
    rounds: int = ROUNDS


SPEED = [Case("GPT-2 124 M, 32 x 1024", gpt2(12, 768, 12), 32, 1024)]
SIZES = [Case("GPT-2 124 M, 64 x 1024", gpt2(12, 768, 12), 64, 1024, rounds=1),
         Case("GPT-2 350 M, 32 x 1024", gpt2(24, 1024, 16), 32, 1024, rounds=1),
         Case("GPT-2 1558 M, 8 x 1024", gpt2(48, 1600, 25), 8, 1024, rounds=1),
         Case("Llama 1 B, 4 x 4096", llama(16, 2048, 32, 8, 8192), 4, 4096, rounds=1)]
HOST = {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}
FILES = {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "swapped"}}
OFFLOAD = [Case("Llama 3 B, 4 x 2048, states on the host", llama(28, 3072, 24, 8, 8192), 4, 2048, HOST, False, 1),
           Case("Llama 1 B, 4 x 2048, optimizer in files", llama(16, 2048, 32, 8, 8192), 4, 2048, FILES, False, 1)]


def missing_gpu():
    """Why there is no GPU; None where there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver is loaded"
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver finds no GPU"
    return None


def output_of(*command):
    try:
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def visible():
    """nvidia-smi's name of the GPU that programs see first."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"


def facts():
    said = output_of("nvidia-smi", "-i", visible(), "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").split(", ")
    card, driver, memory = said if len(said) == 3 else ("unknown GPU", "unknown", "unknown")
    noted = ROOT / "COMMIT"  # of what was brought along
    return {"card": card, "driver": driver, "memory": memory, "date": datetime.date.today().isoformat(),
            "commit": noted.read_text().strip() if noted.exists() else output_of("git", "describe", "--always", "--dirty=+")}


class Checking:
    """What all parts use: where programs are, a folder of their own, and how much time is left."""

    def __init__(self, scratch, options):
        self.scratch, self.libraries, self.device = pathlib.Path(scratch), options.libraries, options.device
        self.end = time.monotonic() + 60 * options.minutes
        built, peer = BUILD / "troupe", ROOT / ".peer/bin/python"
        self.troupe = str(built if built.exists() else shutil.which("troupe") or built)
        self.python = str(peer if peer.exists() else sys.executable)

    def run(self, *command, ours=True):
        """The code, None where time was up, and all that was said. Of ours: with the libraries that were brought along."""
        left = min(LIMIT_S, self.end - time.monotonic())
        if left <= 0:
            return None, "not begun: time was up"
        environment = dict(os.environ)
        if ours and self.libraries:
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (self.libraries, environment.get("LD_LIBRARY_PATH"))))
        try:
            program = subprocess.Popen([str(c) for c in command], cwd=self.scratch, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        except OSError as e:
            return 127, str(e)
        try:
            said, _ = program.communicate(timeout=left)
            return program.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            return None, program.communicate()[0] + f"\nnot over after {left:.0f} s"

    def job(self, model, rows, columns, steps, dtype, **more):
        """A file of so many steps; its text has one window more than `rows`, so that each step sees all of it."""
        whole, size = TEXT.read_bytes(), rows * columns + 1
        (self.scratch / "text").write_bytes((whole * (size // len(whole) + 1))[:size])
        keys = {"model": model, "data": {"text": str(self.scratch / "text"), "sequence_length": columns}, "seed": 1, "steps": steps,
                "train_micro_batch_size_per_gpu": rows, "gradient_clipping": 1.0, "bf16": {"enabled": dtype == "bf16"},
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.0}}, "device": self.device,
                "telemetry": {"trace": False, "report": False}, "output": "none"}
        file = self.scratch / "job.yaml"
        file.write_text(json.dumps(keys | more))
        return file

    def steps_of_troupe(self, file):
        return steps_in(*self.run(self.troupe, "train", file, "--json"))

    def steps_of_pytorch(self, model, rows, columns, steps, dtype, **more):
        spec = {"peer": "pytorch", "model": model, "rows": rows, "columns": columns, "steps": steps, "dtype": dtype,
                "text": str(self.scratch / "text"), "device": self.device}
        return steps_in(*self.run(self.python, SHARED / "training.py", json.dumps(spec | more), ours=False))


class Failed(Exception):
    """A program of a part ended badly: what it said."""


def steps_in(code, said):
    """The steps that a trainer has told; Failed where it ended otherwise than well."""
    if code != 0:
        raise Failed(f"code {code}: {last_line(said)}")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith('{"event"')]
    return [line for line in lines if line["event"] == "step"]


def last_line(said):
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "nothing was said")


@dataclasses.dataclass
class Part:
    lines: list = dataclasses.field(default_factory=list)  # of the page
    failures: list = dataclasses.field(default_factory=list)
    left_out: str = ""

    def say(self, *lines):
        self.lines += lines

    def expect(self, is_so, failure):
        if not is_so:
            self.failures.append(failure)


def table(head, rows):
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)]


def errors_in(said, most=8):
    """What a Boost test says of its failures, without the places of sources."""
    found = re.findall(r"(?:error|fatal error): in \"(.*)", said)
    return [f"- {line.replace('|', '/')}" for line in found[:most]] + ([f"- and {len(found) - most} more"] if len(found) > most else [])


def run_suite(c, part, program, suite):
    begin = time.monotonic()
    code, said = c.run(program, f"--run_test={suite}", "--color_output=no")
    cases = re.search(r"Running (\d+) test case", said)
    result = "passed" if code == 0 else "failed"
    part.expect(code == 0, f"{program.name} {suite}: code {code}, {last_line(said)}")
    part.say(f"- `{suite}`: {cases.group(1) if cases else '?'} cases in {time.monotonic() - begin:.0f} s, {result}",
             *("  " + line for line in errors_in(said)))


def rates_in(said):
    """[(kernel, share of the copy)] of bench_cuda's table."""
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in said.splitlines() if line.startswith("| ")]
    return [(r[0], float(r[-1])) for r in rows if len(r) == 4 and r[0] != "kernel" and not r[0].startswith("copy")]


def kernels(c, part):
    program = BUILD / "tests/kernels/cuda/tests_kernels_cuda"
    _, said = c.run(program, "--list_content")
    suites = re.findall(r"^(\w+)\*?$", said, re.MULTILINE)
    part.expect(suites, f"{program.name} has no suites: {last_line(said)}")
    part.say("Each twin beside its CPU kernel, the same bits or within its bound:", "")
    with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        list(pool.map(lambda suite: run_suite(c, part, program, suite), suites))
    code, said = c.run(BUILD / "tests/bench/bench_cuda")
    rates = rates_in(said)
    part.expect(code == 0 and rates, f"bench_cuda: code {code}, {last_line(said)}")
    part.say("", f"Rates beside a plain copy, at least {COPY_SHARE}; kernels of compression, which `device: cuda` refuses, are not held to it:", "")
    part.say(*(line for line in said.splitlines() if line.startswith("|")))
    for name, share in rates:
        part.expect(share >= COPY_SHARE or name.startswith(REFUSED_WITH_CUDA), f"{name}: {share:.2f} of the copy's rate")


def sessions(c, part):
    part.say("Whole sessions: the same bits wherever states lie, near the CPU's, saved across devices; memory that is spent; a lost GPU:", "")
    for suite in ("sessions", "memory", "lost"):
        run_suite(c, part, BUILD / "tests/gpu/tests_gpu", suite)


def losses(c, part):
    model, size = TINY["gpt2"], (TINY_ROWS, TINY_COLUMNS, 10)
    weights = c.scratch / "weights"
    code, said = c.run(c.python, SHARED / "hugging_face.py", weights, json.dumps(model), ours=False)
    if code != 0:
        raise Failed(f"hugging_face.py: code {code}: {last_line(said)}")
    part.say("Ten losses of a tiny GPT-2 beside PyTorch's on the same device, from the same weights over the same text:", "")
    rows = []
    for dtype, bound in LOSS_BOUNDS.items():
        ours = [s["loss"] for s in c.steps_of_troupe(c.job({"path": str(weights)}, *size, dtype))]
        theirs = [s["loss"] for s in c.steps_of_pytorch(model, *size, dtype, first_windows=True)]
        part.expect(len(ours) == len(theirs) == size[2], f"{dtype}: {len(ours)} losses beside {len(theirs)}")
        apart = max((abs(a / b - 1) for a, b in zip(ours, theirs)), default=0)
        part.expect(apart <= bound, f"{dtype}: losses {apart:.1e} apart, at most {bound:.0e} is allowed")
        rows.append([dtype, f"{ours[0]:.5f}", f"{theirs[0]:.5f}", f"{ours[-1]:.5f}", f"{theirs[-1]:.5f}", f"{apart:.1e}", f"{bound:.0e}"])
    part.say(*table(["type", "first loss", "PyTorch's", "last loss", "PyTorch's", "most apart", "bound"], rows))


def sanitizer_tool():
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")


def sanitize(c, part, name, tool, *command):
    """One program under a tool of compute-sanitizer; calls of CUDA that are refused are Troupe's to tell."""
    quiet = ("--report-api-errors", "no") if tool == "memcheck" else ()
    code, said = c.run(sanitizer_tool(), "--tool", tool, *quiet, "--target-processes", "all", "--error-exitcode", "9", *command)
    summary = re.findall(r"========= (.*SUMMARY.*)", said)
    part.say(f"- {tool}, {name}: {summary[-1] if summary else last_line(said)}")
    part.expect(code == 0, f"{tool}, {name}: code {code}, {last_line(said)}")


def sanitizer(c, part):
    if sanitizer_tool() is None:
        part.left_out = "compute-sanitizer is not installed"
        return
    for name, dtype, stage in (("gpt2", "fp32", 3), ("llama", "bf16", 1)):
        job = c.job(TINY[name], 2, TINY_COLUMNS, 2, dtype, zero_optimization={"stage": stage}, parallel={"data": 2})
        job = job.rename(c.scratch / f"{name}.yaml")
        sanitize(c, part, f"two steps of {name} in {dtype}, ZeRO {stage}, 2 ranks", "memcheck", c.troupe, "train", job, "--quiet")


def races(c, part):
    if sanitizer_tool() is None:
        part.left_out = "compute-sanitizer is not installed"
        return
    for suite in ("norm", "row_norm", "cross_entropy", "row_sums"):  # whose threads share memory
        sanitize(c, part, suite, "racecheck", BUILD / "tests/kernels/cuda/tests_kernels_cuda", f"--run_test={suite}", "--color_output=no")


class Watch:
    """The most memory of the GPU that was used meanwhile, in MiB; None where nvidia-smi does not tell."""

    def __enter__(self):
        command = ["nvidia-smi", "-i", visible(), "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "50"]
        self.peak, self.said = None, tempfile.TemporaryFile("w+")
        try:
            self.program = subprocess.Popen(command, stdout=self.said, stderr=subprocess.DEVNULL)
        except OSError:
            self.program = None
        return self

    def __exit__(self, *_):
        if self.program is not None:
            self.program.terminate()
            self.program.wait()
        with self.said as file:
            file.seek(0)
            self.peak = max((int(line) for line in file if line.strip().isdigit()), default=None)


def planned_mib(c, job):
    code, said = c.run(c.troupe, "plan", job, "--json", "--set", "device=cuda")
    if code != 0:
        raise Failed(f"troupe plan: code {code}: {last_line(said)}")
    return sum(m["device_bytes"] * m["ranks_like_it"] for m in json.loads(said)["memory"]) / 2**20


def tokens_per_s(case, steps):
    return case.rows * case.columns / statistics.median(s["step_s"] for s in steps[WARM_STEPS:])


def time_case(c, part, case, idle_mib):
    """A row of the table, and what it fails."""
    job = c.job(case.model, case.rows, case.columns, STEPS, "bf16", zero_optimization=case.zero)
    plan = planned_mib(c, job)
    ours, theirs, peaks = [], [], []
    for _ in range(case.rounds):
        with Watch() as watch:
            ours.append(tokens_per_s(case, c.steps_of_troupe(job)))
        if watch.peak is not None and idle_mib is not None:
            peaks.append(watch.peak - idle_mib)
        if case.beside:
            theirs.append(tokens_per_s(case, c.steps_of_pytorch(case.model, case.rows, case.columns, STEPS, "bf16")))
    rate = statistics.median(ours)
    share = rate / statistics.median(theirs) if theirs else None
    peak = max(peaks, default=None)
    off = None if peak is None else peak / plan - 1
    part.say("| " + " | ".join([case.name, f"{rate / 1e3:.1f} K", f"{statistics.median(theirs) / 1e3:.1f} K" if theirs else "",
                                f"{share:.2f}" if share else "", f"{plan / 1024:.2f}", "unknown" if peak is None else f"{peak / 1024:.2f}",
                                "" if off is None else f"{off:+.1%}"]) + " |")
    return rate, share, off


def idle_mib(c):
    """What a GPU holds that trains a model of no size: CUDA's and LibTorch's own."""
    job = c.job(TINY["gpt2"], TINY_ROWS, TINY_COLUMNS, STEPS, "bf16")
    with Watch() as watch:
        c.steps_of_troupe(job)
    return watch.peak


def time_cases(c, part, cases, is_held):
    part.say("bf16. Tokens/s are those of the median step, and of the median run where there are several, in turn with PyTorch's eager mode; GiB "
             "are the GPU's as nvidia-smi tells them, without what a tiny job holds.", "",
             *table(["case", "tokens/s", "PyTorch", "of it", "plan GiB", "peak GiB", "off the plan"], []))
    idle = idle_mib(c)
    for case in cases:
        try:
            rate, share, off = time_case(c, part, case, idle)
        except Failed as e:
            part.failures.append(f"{case.name}: {e}")
            part.say(f"| {case.name} | failed | | | | | |")
            continue
        if is_held:
            goal = next((g for name, g in GOALS.items() if name in facts()["card"]), 0)
            part.expect(rate >= goal, f"{case.name}: {rate / 1e3:.0f} K tokens/s, the goal is {goal / 1e3:.0f} K")
            part.expect(share >= 1, f"{case.name}: {share:.2f} of PyTorch's tokens/s, the goal is 1.00")
            part.expect(off is not None, f"{case.name}: nvidia-smi did not tell the memory that is used")
            part.expect(off is None or abs(off) <= PEAK_SHARE, f"{case.name}: the peak is {off or 0:+.1%} off the plan, at most {PEAK_SHARE:.0%} is allowed")


def speed(c, part):
    time_cases(c, part, SPEED, True)


def sizes(c, part):
    time_cases(c, part, SIZES, False)


def offload(c, part):
    time_cases(c, part, OFFLOAD, False)


PARTS = {p.__name__: p for p in (kernels, sessions, losses, sanitizer, speed, races, sizes, offload)}
USUAL = ["kernels", "sessions", "losses", "sanitizer", "speed"]


def run_part(c, name):
    part = Part()
    print(f"gpu-check: {name}", flush=True)
    try:
        PARTS[name](c, part)
    except Failed as e:
        part.failures.append(str(e))
    except Exception as e:  # the page is to be written whatever a program has said
        part.failures.append(f"check.py: {type(e).__name__}: {e}")
    for failure in part.failures:
        print(f"gpu-check: {name} failed: {failure}", flush=True)
    if part.left_out:
        print(f"gpu-check: {name} was left out: {part.left_out}", flush=True)
    return dataclasses.asdict(part)


def result_of(part):
    if part is None:
        return "not run"
    if part["failures"]:
        return "**failed**: " + "; ".join(part["failures"]).replace("|", "/")
    return f"left out: {part['left_out']}" if part["left_out"] else "passed"


def page(results):
    """A plain function of what was kept."""
    parts = results["parts"]
    lines = [f"# On one {results['card']}, {results['date']}", "",
             f"{results['memory']} of memory, driver {results['driver']}; commit {results['commit']}. Written by `tests/gpu/check.py` "
             "([testing](../testing.md#on-a-gpu)).", "", *table(["part", "result"], [[n, result_of(parts.get(n))] for n in PARTS])]
    for name in PARTS:
        if parts.get(name, {}).get("lines"):
            lines += ["", f"## {name.capitalize()}", "", *parts[name]["lines"]]
    return "\n".join(lines) + "\n"


def page_name(results):
    return f"gpu-{results['date']}-{re.sub('[^a-z0-9]+', '-', results['card'].lower()).strip('-')}.md"


def arguments():
    p = argparse.ArgumentParser(prog="check.py", description=__doc__.split("\n")[0])
    p.add_argument("--find", action="store_true", help="only say whether there is a GPU")
    p.add_argument("--parts", default=",".join(USUAL), help="of " + ", ".join(PARTS))
    p.add_argument("--minutes", type=float, default=120, help="programs that would begin later are left out, and fail their part")
    p.add_argument("--results", type=pathlib.Path, default=ROOT / "build/gpu-check.json")
    p.add_argument("--add", action="store_true", help="keep what --results holds of parts that do not run now")
    p.add_argument("--pages", type=pathlib.Path, default=ROOT / "docs/benchmarks", help="the page's folder")
    p.add_argument("--libraries", default="", help="folders of libraries that Troupe's programs need, with colons between")
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: a rehearsal without a GPU; it writes no page")
    a = p.parse_args()
    a.parts = [n for n in a.parts.split(",") if n]
    unknown = [n for n in a.parts if n not in PARTS]
    if unknown:
        p.error(f"no part is named {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return a


def main():
    a = arguments()
    missing = missing_gpu() if a.device == "cuda" else None
    if missing:
        print(f"gpu-check: this machine has no GPU to check: {missing}", file=sys.stderr)
        return NO_GPU
    if a.find:
        return 0
    results = facts() | {"parts": {}}
    if a.add and a.results.exists():
        before = json.loads(a.results.read_text())
        if all(before[key] == results[key] for key in ("card", "commit")):
            results["parts"] = before["parts"]
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        checking = Checking(scratch, a)
        for name in a.parts:
            results["parts"][name] = run_part(checking, name)
            if a.device == "cuda":  # after each part: what is broken off leaves what it has
                a.results.parent.mkdir(parents=True, exist_ok=True)
                a.results.write_text(json.dumps(results))
                a.pages.mkdir(parents=True, exist_ok=True)
                (a.pages / page_name(results)).write_text(page(results))
    if a.device == "cuda":
        print(f"gpu-check: wrote {a.pages / page_name(results)}")
    else:
        print(page(results))
    return 1 if any(results["parts"][name]["failures"] for name in a.parts) else 0


if __name__ == "__main__":
    sys.exit(main())
