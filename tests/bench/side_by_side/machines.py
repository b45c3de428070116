"""Jobs on several hosts beside one machine and DDP, over links as fast as they go and over slow ones; the runs and their page.

Hosts are network namespaces of this machine (network.py): what they compute they share its processors for.
"""
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import cases
import figures
import kernels
import network
import process_jobs as jobs
import processes
import runs
import watched
from page import bound_text, of, table
from session import Session

NAMES = "abc"
PORT = 4400
ROUNDS = 2
OF_ONE, OF_DDP = 1.5, 0.6
SLOW_BITS_PER_S = 100_000_000
SLOW_STEPS = (1, 4)  # after WARM_STEPS: what a link carries in a step is the difference by the difference
OF_PREDICTED = 1.15
LOST_AFTER_S = 5
START_S, CUT_S = 4, LOST_AFTER_S + 3
CUT_HOST = 1
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def host_keys(number, certificates):
    hosts = json.dumps([{"name": n} for n in NAMES[:number]])
    mine = certificates.of(NAMES[0])
    return [f"cluster.hosts={hosts}", f"cluster.listen={network.Hosts.address(0)}:{PORT}", f"cluster.tls.ca={mine}/ca.crt",
            f"cluster.tls.certificate={mine}/host.crt", f"cluster.tls.key={mine}/host.key"]


def with_keys(command, keys):
    return command + [x for key in keys for x in ("--set", key)]


def agents(troupe, number, certificates):
    return [network.Hosts.on(h, [str(troupe), "agent", "--join", f"{network.Hosts.address(0)}:{PORT}", "--first", NAMES[0], "--tls",
                                 str(certificates.of(NAMES[h]))]) for h in range(1, number)]


def step(a, stage, steps, certificates=None):
    """A run over two hosts, or on one machine where there are no certificates."""
    folder = tempfile.mkdtemp(prefix="machines_", dir=runs.ROOT / "build")
    command = runs.troupe_command(a.troupe, processes.CASE, stage, cases.WARM_STEPS + steps, folder, traced=False)
    command = with_keys(command, ["checkpoint.memory.every_steps=0"])
    others = []
    if certificates is None:
        command = with_keys(command, ["cluster.processes=ranks"])
    else:
        command = with_keys(command, host_keys(2, certificates))
        others = agents(a.troupe, 2, certificates)
    try:
        all_of_them = [network.Hosts.on(0, command), *others]
        before = network.Hosts.received_bytes(1)
        r = watched.run(all_of_them, [dict(os.environ)] * len(all_of_them), folder)
        return r | {"received_bytes": network.Hosts.received_bytes(1) - before}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ddp(steps):
    """PyTorch's DDP over Gloo, in the clear, a process on each of two hosts."""
    case = processes.CASE
    commands, environments = runs.peer_commands(case, "ddp", 0, cases.WARM_STEPS + steps)
    folder = tempfile.mkdtemp(prefix="machines_", dir=runs.ROOT / "build")
    here = {"MASTER_ADDR": network.Hosts.address(0), "GLOO_SOCKET_IFNAME": "eth0"}
    try:
        return watched.run([network.Hosts.on(h, c) for h, c in enumerate(commands)], [e | here for e in environments], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def planned_bytes(a, stage, certificates):
    """What enters the second host in a step."""
    command = with_keys(runs.troupe_command(a.troupe, processes.CASE, stage, 1, "/tmp", traced=False),
                        ["checkpoint.memory.every_steps=0", *host_keys(2, certificates)])
    command = [command[0], "plan", *(x for x in command[2:] if x != "--json")]
    said = subprocess.run(command, capture_output=True, text=True)
    found = re.search(rf"over the network in a step:.* {NAMES[1]} takes ([0-9.]+) (\w+)", said.stdout)
    if not found:
        raise RuntimeError("troupe plan: " + said.stdout[-400:] + said.stderr[-400:])
    return float(found[1]) * UNITS[found[2]]


def slow(s, a, hosts, certificates):
    for stage in (0, 2, 3):
        case = f"slow, ZeRO {stage}"
        s.take(case, "planned", lambda: {"value": planned_bytes(a, stage, certificates)}, value, "bytes")
        s.take(case, "fast", lambda: step(a, stage, processes.CASE.steps, certificates), figures.run_median)
        hosts.slow(SLOW_BITS_PER_S)
        for steps in SLOW_STEPS:
            s.take(case, str(steps), lambda: step(a, stage, steps, certificates), figures.run_median)
        hosts.slow(None)


class HostsJob(jobs.Job):
    """Three hosts, whose agents end with the job."""

    def __init__(self, a, certificates):
        where = jobs.folder()
        topology = {"model": cases.GPT2_SMALL, "data": {"text": str(runs.TEXT), "tokenizer": "bytes-as-ids"}, "parallel": {"data": 3}, "seed": 1, "steps": jobs.STEPS,
                    "output": str(where / "out"), "train_batch_size": jobs.SAMPLES, "gradient_clipping": 1.0,
                    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "zero_optimization": {"stage": 2},
                    "cluster": {"lost_after": f"{LOST_AFTER_S}s"}, "telemetry": {"trace": False, "report": False}}
        (where / "job.yaml").write_text(json.dumps(topology))
        command = with_keys([str(a.troupe), "train", str(where / "job.yaml"), "--json"], host_keys(3, certificates))
        super().__init__(network.Hosts.on(0, command), dict(os.environ), where, "TROUPE_LINK")
        self.agents = [subprocess.Popen(c, cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in agents(a.troupe, 3, certificates)]

    def __exit__(self, *how):
        super().__exit__(*how)
        for p in self.agents:
            p.terminate()
            p.wait(20)


def cut(job):
    """Seconds from a cut to the first step that had not been done before."""
    with job:
        job.wait_for(lambda n: n >= 5)
        begin = time.monotonic()
        network.Hosts.cut(CUT_HOST)
        try:
            time.sleep(LOST_AFTER_S / 2)  # a step that was under way may still end; nobody is given up before 0.8 of lost_after
            since, last = len(job.steps), job.steps[-1][1]
            return {"value": job.wait_for(lambda n: n > last, since)[0] - begin}
        finally:
            network.Hosts.heal(CUT_HOST)


def value(r):
    return r["value"]


def measure(a):
    s = Session(a.results.with_name("machines.json"), a.add, {"cases": {}})
    kernels.make_peers_ready()
    hosts = network.Hosts(len(NAMES))
    certificates = network.Certificates(a.troupe, list(NAMES))
    steps = a.steps or processes.CASE.steps
    for number in range(a.rounds or ROUNDS):
        for stage in cases.ALL_STAGES:
            s.take(f"step, ZeRO {stage}", "one machine", lambda: step(a, stage, steps), figures.run_median)
            s.take(f"step, ZeRO {stage}", "two hosts", lambda: step(a, stage, steps, certificates), figures.run_median)
            if stage == 0:
                s.take(f"step, ZeRO {stage}", "DDP", lambda: ddp(steps), figures.run_median)
        s.take("start", "three hosts", lambda: jobs.start(HostsJob(a, certificates)), value, "s")
        s.take("cut", "three hosts", lambda: cut(HostsJob(a, certificates)), value, "s")
        if number == 0:
            slow(s, a, hosts, certificates)
    return s.results


# ---- what they say

def slow_comparisons(kept):
    """(stage, planned bytes, bytes of the link by planned, predicted seconds, measured by predicted)."""
    out = []
    for case, runs_of in kept.items():
        if not case.startswith("slow") or any("error" in r for each in runs_of.values() for r in each) or len(runs_of) < 4:
            continue
        few, many = (runs_of[str(n)][0] for n in SLOW_STEPS)
        planned = value(runs_of["planned"][0])
        a_step = (many["received_bytes"] - few["received_bytes"]) / (SLOW_STEPS[1] - SLOW_STEPS[0])
        predicted_s = 8 * planned / SLOW_BITS_PER_S + figures.run_median(runs_of["fast"][0])
        took_s = figures.run_median(many)
        out.append((case.removeprefix("slow, "), planned, figures.Figure(a_step / planned, a_step / planned, a_step / planned, OF_PREDICTED), predicted_s,
                    figures.Figure(took_s / predicted_s, took_s / predicted_s, took_s / predicted_s, OF_PREDICTED)))
    return out


def comparisons(results):
    kept = results["cases"]
    out = []
    for case in (c for c in kept if c.startswith("step")):
        read = {name: figures.of_rounds(each, figures.run_median) for name, each in kept[case].items()}
        for name, bound in (("one machine", OF_ONE), ("DDP", OF_DDP)):
            out.append((f"{case}: two hosts by {name}", figures.ratio(read.get("two hosts", []), read.get(name, []), bound)))
    for case, what, bound in (("start", "three hosts: start to the first step", START_S),
                              ("cut", f"three hosts: cut to the first new step, lost_after {LOST_AFTER_S} s", CUT_S)):
        seconds = [value(r) for r in figures.ran(kept.get(case, {}).get("three hosts", []))]
        out.append((what, figures.absolute(seconds, bound, "s")))
    return [(what, f) for what, f in out if f]


def page(results):
    m, kept = results["machine"], results["cases"]
    date = datetime.date.fromisoformat(results["date"])
    slow_rows = [[stage, f"{planned / (1 << 20):.1f}", of(by_planned), f"{predicted_s:.2f}", of(by_predicted), bound_text(OF_PREDICTED)]
                 for stage, planned, by_planned, predicted_s, by_predicted in slow_comparisons(kept)]
    failed = [f"- {case}, {name}: `{(r['error'].strip().splitlines() or ['?'])[-1]}`"
              for case, runs_of in kept.items() for name, each in runs_of.items() for r in each if "error" in r]
    return "\n".join([
        f"# Many machines, {date.day} {date:%B %Y}", "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. Commit {results['commit']}. "
        f"PyTorch {m['torch']} (CPU, Gloo). Load before it: {results['load']:.1f}.",
        ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
        "Hosts are network namespaces of this machine, joined by veth and a bridge: what they compute they share its cores for, and TLS 1.3 is "
        "theirs to compute too. GPT-2, 10.8 M parameters, fp32, a thread a rank, "
        f"{processes.CASE.rows} x {processes.CASE.columns} tokens each; nothing is kept in memory where steps are timed. DDP: Gloo, in the clear.", "",
        table(["what", "figure", "bound"], [[what, of(f), bound_text(f.bound)] for what, f in comparisons(results)]), "",
        *([f"## Links of {SLOW_BITS_PER_S // 1_000_000} Mbit/s", "",
           "Two hosts, `tc tbf`. What enters the second one: as `troupe plan` says it, and by the link's counter (with all headers). "
           "Predicted: those bytes at the link's rate, and a step at full speed beside it, one after the other.", "",
           table(["stage", "planned MiB", "counted by planned", "predicted s", "a step by predicted", "bound"], slow_rows), ""] if slow_rows else []),
        *(["What did not run, and its error:", "", *failed, ""] if failed else [])])


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-machines.md."""
    file = a.results.with_name("machines.json")
    if not a.page_only:
        if (code := network.enter()) is not None:
            if code:
                sys.exit(code)
            return
    results = json.loads(file.read_text()) if a.page_only else measure(a)
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-machines.md"
    target.write_text(page(results))
    print(f"wrote {target}")
