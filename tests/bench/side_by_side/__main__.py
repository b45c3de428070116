"""Troupe, plain PyTorch and DeepSpeed in turn on the same cores, and the page that shows it.

side_by_side [--troupe FILE] [--only CASE,...] [--rounds N] [--steps N] [--parts PART,...] [--page FILE]: needs .peer
(tests/peer/setup.sh). Results are kept in --results after every run; --page-only writes the page from them without
running anything, and --add keeps the cases that an earlier run left there.
"""
import argparse
import json
import pathlib
import signal
import sys

import cases
import compress
import compressed_steps
import cuts
import degrees
import disk
import families
import figures
import kernels
import lora
import machine
import machines
import page
import passes
import pipeline_cases
import pipelines
import processes
import roofline
import runs
from session import Session

PARTS = ("steps", "memory", "trace", "roofline", "kernels", "pipelines", "cuts", "degrees", "passes", "families", "lora", "processes",
         "machines")
NAMES = [c.name for c in (*cases.CASES, *pipeline_cases.CASES)]
ROUNDS = 5
MEMORY_STEPS = 3  # everything is held from the second on


def arguments():
    p = argparse.ArgumentParser(prog="side_by_side", description=__doc__.split("\n")[0])
    p.add_argument("--troupe", type=pathlib.Path, default=runs.ROOT / "build/release/troupe")
    p.add_argument("--programs", type=pathlib.Path, help="the folder of bench_* (default: tests/bench beside --troupe)")
    p.add_argument("--only", default="", help="cases: " + ", ".join(NAMES))
    p.add_argument("--rounds", type=int, help="instead of 5, and 2 of pipelines")
    p.add_argument("--steps", type=int, help="of a run, instead of the case's own")
    p.add_argument("--parts", default=",".join(PARTS), help="of " + ", ".join(PARTS) + ", disk (alone: tiers, saving, files), compress (alone: sizes, losses and steps)")
    p.add_argument("--figures", default=",".join(processes.FIGURES), help="of the part processes: " + ", ".join(processes.FIGURES))
    p.add_argument("--families", default="", help="of the part families: " + ", ".join(families.FAMILIES))
    p.add_argument("--kill-every", type=float, default=processes.KILL_EVERY_S, help="seconds, of the figure kills")
    p.add_argument("--kills", type=int, default=processes.KILLS)
    p.add_argument("--results", type=pathlib.Path, default=runs.ROOT / "build/benchmarks/side_by_side.json")
    p.add_argument("--page", type=pathlib.Path, help="default: docs/benchmarks/DATE-side-by-side.md")
    p.add_argument("--page-only", action="store_true")
    p.add_argument("--add", action="store_true", help="keep what --results holds of cases and parts that do not run now")
    p.add_argument("--before", type=pathlib.Path, help="an earlier troupe: pipelines take turns with it where nothing is cut")
    p.add_argument("--next", help="the page's last section")
    a = p.parse_args()
    a.troupe = a.troupe.resolve()  # runs have folders of their own
    a.programs = (a.programs or a.troupe.parent / "tests/bench").resolve()
    names = [n for n in a.only.split(",") if n]
    unknown = set(names) - set(NAMES) | set(a.parts.split(",")) - {*PARTS, "disk", "compress"}
    if unknown:
        p.error(f"wanted cases and parts as --help lists them, got {', '.join(sorted(unknown))}")
    a.figures = set(a.figures.split(","))
    if a.figures - set(processes.FIGURES):
        p.error(f"wanted figures as --help lists them, got {', '.join(sorted(a.figures - set(processes.FIGURES)))}")
    a.families = {n for n in a.families.split(",") if n}
    if a.families - set(families.FAMILIES):
        p.error(f"wanted families as --help lists them, got {', '.join(sorted(a.families - set(families.FAMILIES)))}")
    a.cases, a.pipeline_cases = ([c for c in some if not names or c.name in names] for some in (cases.CASES, pipeline_cases.CASES))
    a.parts = set(a.parts.split(","))
    if not a.cases:
        a.parts &= {"pipelines", "cuts", "degrees", "passes", "families", "lora", "processes", "machines"}
    if not a.pipeline_cases:
        a.parts -= {"pipelines"}
    return a


def run(s, a, where, case, name, peer, stage, steps, **how):
    """One run, kept under the case's `where`; one that fails is said on the page, and does not end the session."""
    try:
        r = runs.run(a.troupe, case, peer, stage, steps, **how)
        median = figures.run_median(r) if len(r["steps_s"]) > cases.WARM_STEPS else r["steps_s"][-1]
        said = f"step {median:.3f} s, first after {r['first_step_s']:.2f} s"
    except RuntimeError as e:
        r = {"error": str(e)[-800:]}
        said = "failed: " + r["error"].replace("\n", " ")[-200:]
    kept = s.results["cases"].setdefault(case.name, {})
    kept.setdefault(where, {}).setdefault(name, []).append(r)
    s.keep()
    s.say(f"{case.name} {where} {name}: {said}")


def measure(a):
    s = Session(a.results, a.add, {"cases": {}})
    if a.parts & {"steps", "memory", "kernels"}:
        kernels.make_peers_ready()
    if "roofline" in a.parts:
        s.keep(roofline=roofline.measure(a.programs, a.cases))
    for case in a.cases:
        fresh = {k: {} for k in ("steps", "memory", "trace") if k in a.parts}
        s.results["cases"].setdefault(case.name, {}).update(fresh, commit=machine.commit())
        if "steps" in a.parts:
            for number in range(a.rounds or ROUNDS):
                for name, peer, stage in cases.contenders(case, with_peers=case.timed or number == 0):
                    run(s, a, "steps", case, name, peer, stage, cases.WARM_STEPS + (a.steps or case.steps))
        if "memory" in a.parts and case.memory:
            for name, peer, stage in (c for c in cases.contenders(case) if c[1] != "pytorch"):
                run(s, a, "memory", case, name, peer, stage, MEMORY_STEPS, sample_memory=True)
        if "trace" in a.parts and case.traced:
            for stage in case.stages:
                run(s, a, "trace", case, f"troupe-{stage}", "troupe", stage, runs.TRACED_FROM + runs.TRACED_STEPS + 1, traced=True)
    if "kernels" in a.parts:
        s.keep(kernels=kernels.measure(a.programs))
    if a.next:
        s.keep(next=a.next)
    return s.results


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that what runs is ended too
    a = arguments()
    if "disk" in a.parts:
        disk.run(a.troupe, a.programs, a.rounds or ROUNDS)
        a.parts -= {"disk"}
        if not a.parts:
            return
    if "compress" in a.parts:
        compress.run(a.troupe)
        compressed_steps.run(a)
        a.parts -= {"compress"}
        if not a.parts:
            return
    if "cuts" in a.parts:
        cuts.run(a)
        a.parts -= {"cuts"}
        if not a.parts:
            return
    if "processes" in a.parts:
        processes.run(a)
        a.parts -= {"processes"}
        if not a.parts:
            return
    if "machines" in a.parts:
        machines.run(a)
        a.parts -= {"machines"}
        if not a.parts:
            return
    if "passes" in a.parts:
        passes.run(a)
        a.parts -= {"passes"}
        if not a.parts:
            return
    if "families" in a.parts:
        families.run(a)
        a.parts -= {"families"}
        if not a.parts:
            return
    if "lora" in a.parts:
        lora.run(a)
        a.parts -= {"lora"}
        if not a.parts:
            return
    if "degrees" in a.parts:
        degrees.run_part(a)
        a.parts -= {"degrees"}
        if not a.parts:
            return
    if "pipelines" in a.parts:
        pipelines.run(a)
        a.parts -= {"pipelines"}
        if not a.parts:
            return
    results = json.loads(a.results.read_text()) if a.page_only else measure(a)
    if a.page_only and a.next:
        results["next"] = a.next
        a.results.write_text(json.dumps(results))
    target = a.page or runs.ROOT / f"docs/benchmarks/{results['date']}-side-by-side.md"
    target.write_text(page.page(results))
    print(f"wrote {target}")


if __name__ == "__main__":
    main()
