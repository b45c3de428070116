"""Jobs of several processes beside one process, torchrun and DeepSpeed: the runs and their page.

Each figure can be measured alone (--figures); those of two rounds take turns within a round.
"""
import datetime
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile

import cases
import figures
import kernels
import process_jobs as jobs
import runs
import watched
from page import bound_text, of, table
from session import Session

GLOO = runs.ROOT / "tests/peer/shared/gloo.py"
FIGURES = ("collectives", "step", "start", "loss", "stop", "memory", "supervisor", "kills")
ROUNDS = 2
MIB = 1 << 20
BYTES = (MIB, 16 * MIB, 64 * MIB)
RANKS = (2, 4)
REPETITIONS, GLOO_REPETITIONS, REPETITION_S = 15, 5, 0.05  # the first and the last as bench_fabric has them
# Bounds: ours by theirs.
OF_IN_PROCESS = 1.3
OF_GLOO = {"all_reduce": 0.5, "reduce_scatter": 0.2, "all_gather": 0.2}
OF_ONE, OF_PEERS, OF_NO_SAVES = 1.05, 0.5, 1.05
START_S, LOSS_S, OF_RESTART = 3, 3, 0.4
LOST_AFTER_S = 2
LOST_STEPS = 0.15  # of those of an undisturbed run
SUPERVISOR_US = 20
MANY = 4  # processes that start, are killed, are stopped
KILL_EVERY_S, KILLS, KILLS_OF_TORCHRUN, UNDISTURBED_S = 30, 10, 2, 30
PLACE = 3  # whose process gets the signal: not the leading one
CASE = next(c for c in cases.CASES if c.name == "gpt2-fp32")


# ---- runs

def fabric(programs):
    """Microseconds of collectives between threads and between processes, in turn."""
    sizes = "|".join(map(str, BYTES))
    done = subprocess.run([str(programs / "bench_fabric"), f"--benchmark_filter=^(collective|between_processes)/.*/({sizes})/",
                           "--benchmark_enable_random_interleaving=true", "--benchmark_format=json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError("bench_fabric: " + done.stderr[-800:])
    out = {"threads": {}, "processes": {}}
    for b in json.loads(done.stdout)["benchmarks"]:
        if b.get("aggregate_name") != "least":
            continue
        where, operation, ranks, size = b["name"].split("/")[:4]
        out["threads" if where == "collective" else "processes"][f"{operation}/{ranks}/{size}"] = b["real_time"]
    return out


def gloo():
    out = {}
    for ranks in RANKS:
        port = runs.free_port()
        spec = json.dumps({"bytes": BYTES, "repetitions": GLOO_REPETITIONS, "seconds": REPETITION_S})
        common = runs.peer_environment() | {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        started = [subprocess.Popen([str(runs.PYTHON), str(GLOO), spec], env=common | {"RANK": str(r)}, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True) for r in range(ranks)]
        said = [p.communicate(timeout=300) for p in started]
        if any(p.returncode for p in started):
            raise RuntimeError("gloo.py: " + "\n".join(e[-400:] for _, e in said))
        out |= json.loads(said[0][0])
    return out


def collectives(a):
    return fabric(a.programs) | {"gloo": gloo()}


def step_of_ours(troupe, stage, processes, every, steps):
    folder = tempfile.mkdtemp(prefix="processes_", dir=runs.ROOT / "build")
    command = runs.troupe_command(troupe, CASE, stage, cases.WARM_STEPS + steps, folder, traced=False)
    for setting in (f"cluster.processes={processes}", f"checkpoint.memory.every_steps={every}"):
        command += ["--set", setting]
    try:
        return watched.run([command], [dict(os.environ)], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def steps(s, a):
    count = a.steps or CASE.steps
    for stage in cases.ALL_STAGES:
        for name, processes in (("one process", "one"), ("two processes", "ranks")):
            s.take(f"step, ZeRO {stage}", name, lambda p=processes: step_of_ours(a.troupe, stage, p, 0, count), figures.run_median)
        peers = [("DeepSpeed", "deepspeed")] + ([("DDP", "ddp")] if stage == 0 else [])
        for name, peer in peers:
            s.take(f"step, ZeRO {stage}", name, lambda p=peer: runs.run(a.troupe, CASE, p, stage, cases.WARM_STEPS + count), figures.run_median)


def memory(s, a):
    for name, every in (("none kept", 0), ("each kept", 1)):
        s.take("memory", name, lambda e=every: step_of_ours(a.troupe, 2, "ranks", e, a.steps or CASE.steps), figures.run_median)


def supervisor(programs):
    done = subprocess.run([str(programs / "bench_supervision")], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError("bench_supervision: " + done.stderr)
    said = json.loads(done.stdout)
    return said | {"value": said["supervisor_us"]}


def disturbed(s, a):
    """Kills for some minutes, and the same jobs without."""
    long_s = a.kill_every * a.kills
    for name, seconds, every in (("undisturbed", min(UNDISTURBED_S, long_s), None), ("killed", long_s, a.kill_every)):
        s.take("kills", name, lambda: jobs.rate(jobs.ours(a.troupe, 3, spares=1), seconds, every, waits=3), value, "steps/s")
        theirs_s = min(seconds, a.kill_every * KILLS_OF_TORCHRUN)
        s.take("kills", f"torchrun, {name}", lambda: jobs.rate(jobs.torchrun(3), theirs_s, every), value, "steps/s")


def value(r):
    return r["value"]


def measure(a):
    s = Session(a.results.with_name("processes.json"), a.add, {"cases": {}})
    if "step" in a.figures:
        kernels.make_peers_ready()
    wanted = a.figures
    s.keep(kill_every=a.kill_every)
    for _ in range(a.rounds or ROUNDS):
        if "collectives" in wanted:
            s.take("collectives", "all", lambda: collectives(a), lambda r: r["processes"][f"all_reduce/2/{64 * MIB}"], "us")
        if "step" in wanted:
            steps(s, a)
        if "start" in wanted:
            s.take("start", "ours", lambda: jobs.start(jobs.ours(a.troupe, MANY)), value, "s")
            s.take("start", "torchrun", lambda: jobs.start(jobs.torchrun(MANY)), value, "s")
        if "loss" in wanted:
            s.take("loss", "ours", lambda: jobs.lose(jobs.ours(a.troupe, MANY), PLACE, signal.SIGKILL), lambda r: r["new"], "s")
            s.take("loss", "torchrun", lambda: jobs.lose(jobs.torchrun(MANY), PLACE, signal.SIGKILL), value, "s")
        if "stop" in wanted:
            s.take("stop", "ours", lambda: jobs.lose(jobs.ours(a.troupe, MANY, lost_after=f"{LOST_AFTER_S}s"), PLACE, signal.SIGSTOP),
                   lambda r: r["new"], "s")
        if "memory" in wanted:
            memory(s, a)
        if "supervisor" in wanted:
            s.take("supervisor", "ours", lambda: supervisor(a.programs), value, "us")
    if "kills" in wanted:
        disturbed(s, a)
    return s.results


# ---- what they say

def collective_comparisons(kept):
    """(operation, ranks, bytes, of threads, of Gloo, microseconds of the three)."""
    out = []
    rounds = figures.ran(kept.get("all", []))
    for key in rounds[0]["processes"] if rounds else ():
        operation, ranks, size = key.split("/")
        ours, threads, theirs = ([r[where].get(key) for r in rounds] for where in ("processes", "threads", "gloo"))
        out.append((operation, int(ranks), int(size), figures.ratio(ours, threads, OF_IN_PROCESS),
                    figures.ratio(ours, theirs, OF_GLOO[operation]), [min(filter(None, x), default=None) for x in (ours, threads, theirs)]))
    return sorted(out, key=lambda x: x[:3])


def comparisons(results):
    """(what, figure) of all bounds but those of collectives."""
    kept = results["cases"]
    out = []
    for case in (c for c in kept if c.startswith("step")):
        read = {name: figures.of_rounds(each, figures.run_median) for name, each in kept[case].items()}
        for name, bound in (("one process", OF_ONE), ("DeepSpeed", OF_PEERS), ("DDP", OF_PEERS)):
            out.append((f"{case}: two processes by {name}", figures.ratio(read.get("two processes", []), read.get(name, []), bound)))
    read = {case: {name: figures.of_rounds(each, lambda r: r.get("new", value(r)) if name == "ours" else value(r))
                   for name, each in kept.get(case, {}).items()} for case in ("start", "loss", "stop", "kills", "supervisor")}

    def seconds(case, bound, unit="s"):
        return figures.absolute([x for x in read[case].get("ours", []) if x is not None], bound, unit)

    out += [(f"{MANY} processes: start to the first step", seconds("start", START_S)),
            ("the same by torchrun", figures.ratio(read["start"].get("ours", []), read["start"].get("torchrun", []))),
            (f"{MANY} processes: SIGKILL to the first new step", seconds("loss", LOSS_S)),
            ("the same by torchrun, to its first step", figures.ratio(read["loss"].get("ours", []), read["loss"].get("torchrun", []), OF_RESTART)),
            (f"{MANY} processes: SIGSTOP to the first new step, lost_after {LOST_AFTER_S} s", seconds("stop", LOST_AFTER_S + 3))]
    steps_kept = {name: figures.of_rounds(each, figures.run_median) for name, each in kept.get("memory", {}).items()}
    out.append(("checkpoint.memory every step by none", figures.ratio(steps_kept.get("each kept", []), steps_kept.get("none kept", []), OF_NO_SAVES)))
    for who, bound in (("", LOST_STEPS), ("torchrun, ", None)):
        lost = figures.ratio(read["kills"].get(who + "killed", []), read["kills"].get(who + "undisturbed", []))
        if lost:
            out.append((f"{who}3 ranks: share of steps lost to kills",
                        figures.Figure(1 - lost.value, 1 - lost.greatest, 1 - lost.least, bound)))
    out.append(("256 modelled processes: supervisor, of a process and step", seconds("supervisor", SUPERVISOR_US, "us")))
    return [(what, f) for what, f in out if f]


def page(results):
    m, kept = results["machine"], results["cases"]
    date = datetime.date.fromisoformat(results["date"])
    moved = [[operation.replace("_", "-"), str(ranks), str(size // MIB), *("" if x is None else f"{x / 1e3:.2f}" for x in least),
              of(threads), of(theirs), bound_text(OF_GLOO[operation])]
             for operation, ranks, size, threads, theirs, least in collective_comparisons(kept.get("collectives", {}))]
    seconds = [[case, name, f"{statistics.median(figures.medians(each)):.3f}"]
               for case, runs_of in kept.items() for name, each in runs_of.items() if figures.ran(each) and "steps_s" in figures.ran(each)[0]]
    failed = [f"- {case}, {name}: `{(r['error'].strip().splitlines() or ['?'])[-1]}`"
              for case, runs_of in kept.items() for name, each in runs_of.items() for r in each if "error" in r]
    told = [f"- {case}, {name}: {statistics.median(map(value, figures.ran(each))):.2f} {unit}"
            + (f", {figures.ran(each)[-1]['kills']} kills" if unit == "steps/s" and "undisturbed" not in name else "")
            for case, unit in (("start", "s"), ("loss", "s"), ("kills", "steps/s"))
            for name, each in kept.get(case, {}).items() if figures.ran(each)]
    return "\n".join([
        f"# Many processes, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. Commit {results['commit']}. "
        f"PyTorch {m['torch']} (CPU, Gloo), DeepSpeed {m['deepspeed']}. Load before it: {results['load']:.1f}.",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        *(["## Collectives", "",
           f"Milliseconds, the least of {REPETITIONS} repetitions in turn, of {GLOO_REPETITIONS} for Gloo; bytes are those of the whole vector. In processes: shared "
           f"memory, wakes by eventfd. Bound beside threads: {OF_IN_PROCESS}.", "",
           table(["operation", "ranks", "MiB", "processes", "threads", "Gloo", "by threads", "by Gloo", "bound"], moved), ""] if moved else []),
        "## Jobs", "",
        f"GPT-2, 10.8 M parameters, fp32, a thread a rank. Steps: two ranks of {CASE.rows} x {CASE.columns} tokens, the median of a run, no saves in memory. "
        f"Others: {jobs.SAMPLES} x 256 tokens a step, ZeRO 2, saves in memory every step; torchrun's DDP restarts all processes, from "
        f"a checkpoint of every {jobs.CHECKPOINT_EVERY} steps, and its first step afterwards counts, done before or not. Kills: one of 3 "
        f"ranks every {results.get('kill_every', KILL_EVERY_S)} s, with one spare.", "",
        table(["what", "figure", "bound"], [[what, of(f), bound_text(f.bound)] for what, f in comparisons(results)]), "",
        *(told + [""] if told else []),
        *([table(["case", "", "step, s"], seconds), ""] if seconds else []),
        *(["What did not run, and its error:", "", *failed, ""] if failed else [])])


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-processes.md."""
    file = a.results.with_name("processes.json")
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-processes.md"
    target.write_text(page(results))
    print(f"wrote {target}")
