"""Pipelines of two ranks beside DeepSpeed's and torch's, and beside our own: the runs. Their page is pipeline_page.py's."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import cases
import kernels
import pipeline_cases as plan
import pipeline_page
import runs
import watched
from session import Session

PROGRAM = runs.ROOT / "tests/peer/shared/pipelines.py"
WEIGHTS = runs.ROOT / "tests/peer/shared/hugging_face.py"
STEPS = plan.WARM_STEPS + plan.TIMED_STEPS
UNCUT_STEPS = cases.WARM_STEPS + 4
LIMIT_S = 100  # several times the longest run; a peer that hangs is to cost no more


def text_of(case, micro_batches, data, folder):
    """A text of as many windows as a step has samples: whatever the order of samples, each step trains on the same ones."""
    size = micro_batches * case.rows * data * case.columns + 1
    whole = runs.TEXT.read_bytes()
    file = folder / "text"
    file.write_bytes((whole * (size // len(whole) + 1))[:size])
    return str(file)


def topology(case, ours, micro_batches, folder, weights, traced):
    out = {"model": {"path": str(weights)} if weights else case.model, "seed": 1, "steps": STEPS, "output": str(folder / "out"),
           "data": {"text": text_of(case, micro_batches, ours.data, folder), "sequence_length": case.columns},
           "parallel": {"pipeline": ours.pipeline, "data": ours.data},
           "pipeline": {"schedule": ours.schedule, "chunks": ours.chunks, "partition": ours.partition},
           "train_micro_batch_size_per_gpu": case.rows, "gradient_accumulation_steps": micro_batches, "gradient_clipping": 1.0,
           "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "bf16": {"enabled": case.dtype == "bf16"},
           "zero_optimization": cases.zero_section(ours.zero), "telemetry": {"trace": traced}}
    if traced:
        out["telemetry"] |= {"trace_from_step": plan.WARM_STEPS + 1, "trace_steps": plan.TIMED_STEPS}
    return out


def run_ours(troupe, case, ours, micro_batches, weights, traced=False, sample_memory=False):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pipelines_", dir=runs.ROOT / "build"))
    job = folder / "job.yaml"
    job.write_text(json.dumps(topology(case, ours, micro_batches, folder, weights, traced)))
    try:
        r = watched.run([[str(troupe), "train", str(job), "--json"]], [dict(os.environ)], folder, sample_memory, LIMIT_S)
        return r | {"timed_s": r["steps_s"][plan.WARM_STEPS:]}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_peer(case, peer, micro_batches, steps=plan.TIMED_STEPS, sample_memory=False):
    """All numbers of micro-batches in one run, one after the other, behind one warm-up: watched.run's figures."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pipelines_", dir=runs.ROOT / "build"))
    count = plan.PIPELINE * peer.shard
    spec = peer.spec | {"model": case.model, "dtype": case.dtype, "rows": case.rows, "columns": case.columns, "warm": plan.WARM_STEPS,
                        "steps": steps, "micro_batches": micro_batches, "text": text_of(case, max(micro_batches), peer.shard, folder)}
    port = runs.free_port()
    common = runs.peer_environment() | {"WORLD_SIZE": str(count), "LOCAL_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
                                        "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    environments = [common | {"RANK": str(r), "LOCAL_RANK": str(r)} for r in range(count)]
    try:
        return watched.run([[str(runs.PYTHON), str(PROGRAM), json.dumps(spec)]] * count, environments, folder, sample_memory, LIMIT_S)
    finally:
        runs.remove_buffers(port)
        shutil.rmtree(folder, ignore_errors=True)


def by_micro_batches(run, micro_batches):
    """A peer's run as one for each number of micro-batches, warm-up steps left out; what belongs to the whole run stands in each."""
    timed = run["steps_s"][plan.WARM_STEPS:]
    return {m: run | {"timed_s": timed[i * plan.TIMED_STEPS : (i + 1) * plan.TIMED_STEPS]} for i, m in enumerate(micro_batches)}


class Measuring:
    """The runs of a session, each kept under its case, `where` and name; one that failed is not tried again."""

    def __init__(self, a):
        self.a = a
        self.s = Session(a.results.with_name("pipelines.json"), a.add, {"cases": {}})

    def attempt(self, case_name, where, name, run):
        kept = self.s.results["cases"].setdefault(case_name, {}).setdefault(where, {})
        if any("error" in r for r in kept.get(name, ())):
            return None
        try:
            return run()
        except RuntimeError as e:
            kept.setdefault(name, []).append({"error": str(e)[-6000:]})
            self.s.keep()
            self.s.say(f"{case_name} {where} {name} failed: {pipeline_page.reason(str(e))}")
        return None

    def note(self, case_name, where, name, run):
        self.s.results["cases"].setdefault(case_name, {}).setdefault(where, {}).setdefault(name, []).append(run)
        self.s.keep()
        self.s.say(f"{case_name} {where} {name}: step {pipeline_page.step_s(run):.3f} s, {run['peak_rss_bytes'] / 2**20:.0f} MiB")

    def ours(self, case, ours, where="steps", micro_batches=None, **how):
        for m in micro_batches or ours.micro_batches:
            name = pipeline_page.key(ours.name, m)
            run = self.attempt(case.name, where, name, lambda: run_ours(self.a.troupe, case, ours, m, self.weights.get(case.name), **how))
            if run:
                self.note(case.name, where, name, run)

    def peer(self, case, peer):
        run = self.attempt(case.name, "steps", peer.name, lambda: run_peer(case, peer, peer.micro_batches))
        for m, part in by_micro_batches(run, peer.micro_batches).items() if run else ():
            self.note(case.name, "steps", pipeline_page.key(peer.name, m), part)

    def memory(self, case):
        """Of runs that are not timed, with the least micro-batches: with more no more are in flight."""
        least = plan.MEMORY_MICRO_BATCHES
        for peer in (p for p in plan.peers(case) if p.memory):
            run = self.attempt(case.name, "memory", peer.name, lambda: run_peer(case, peer, [least], plan.TIMED_STEPS, True))
            if run:
                self.note(case.name, "memory", peer.name, by_micro_batches(run, [least])[least])
        self.ours(case, plan.ONE_F_ONE_B, "memory", [least], sample_memory=True)

    def round(self, case, number):
        """Each of ours beside the peers that it is compared with."""
        done = set()
        for peer in plan.peers(case, number):
            self.peer(case, peer)
            if peer.ours not in done:
                self.ours(case, peer.ours)
                done.add(peer.ours)
        for ours in plan.ALONE[case.name]:
            self.ours(case, ours)

    def uncut(self):
        """Today's program and an earlier one in turn."""
        for name, stage in plan.UNCUT:
            case = next(c for c in cases.CASES if c.name == name)
            for who, troupe in (("before", self.a.before.resolve()), ("after", self.a.troupe)):
                label = f"{who}, ZeRO {stage}"
                run = self.attempt(name, "uncut", label, lambda: runs.run(troupe, case, "troupe", stage, UNCUT_STEPS))
                if run:
                    self.note(name, "uncut", label, run | {"timed_s": run["steps_s"][cases.WARM_STEPS:]})

    def write_weights(self, case):
        """The peers' first weights as a file, once a session."""
        if not case.from_peers_weights:
            return
        folder = self.s.file.with_name("pipeline_weights") / case.name
        subprocess.run([str(runs.PYTHON), str(WEIGHTS), str(folder), json.dumps(case.model)], check=True, env=runs.peer_environment())
        self.weights[case.name] = folder

    def all(self):
        kernels.make_peers_ready()
        self.weights = {}
        for case in self.a.pipeline_cases:
            self.s.results["cases"][case.name] = {}
            self.write_weights(case)
        for number in range(self.a.rounds or plan.ROUNDS):
            for case in self.a.pipeline_cases:
                self.round(case, number)
            if self.a.before:
                self.uncut()
        for case in (c for c in self.a.pipeline_cases if c.peers):
            self.memory(case)
            self.ours(case, plan.ONE_F_ONE_B, "trace", traced=True)
        if self.a.next:
            self.s.keep(next=self.a.next)
        return self.s.results


def run(a):
    """Measures, unless the page alone is wanted, and writes docs/benchmarks/DATE-pipelines.md."""
    file = a.results.with_name("pipelines.json")
    results = json.loads(file.read_text()) if a.page_only else Measuring(a).all()
    target = (a.page.parent if a.page else runs.ROOT / "docs/benchmarks") / f"{results['date']}-pipelines.md"
    target.write_text(pipeline_page.page(results))
    print(f"wrote {target}")
