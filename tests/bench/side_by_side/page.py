"""The page of docs/benchmarks: a plain function of the results, which can be kept and read again."""
import datetime
import statistics

import cases
import figures
import kernels
import roofline


QUIET_LOAD = 0.5  # the most on a machine on which nothing else runs


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def of(figure):
    """0.83 (0.81 to 0.86), marked where the bound is missed or lies within the spread."""
    if figure is None:
        return ""
    if not figure.met:
        return f"**{figure} missed**"
    return str(figure) + (", spread crosses the bound" if figure.crosses else "")


def bound_text(bound, aim=None):
    if bound is None:
        return ""
    return f"{bound:g}" + (f" (aim {aim:.2f})" if aim else "")


def seconds(runs):
    values = figures.medians(runs)
    if not values:
        return "failed" if runs else ""
    m = statistics.median(values)
    return f"{m:.3f}" if m < 1 else f"{m:.2f}"


def steps_section(case, kept):
    steps = kept.get("steps", {})
    if not steps or not case.timed:
        return []
    rows = []
    for stage in case.stages:
        ours, plain, theirs = (steps.get(n, []) for n in (f"troupe-{stage}", "pytorch", f"deepspeed-{stage}"))
        r = {c.what: c.figure for c in figures.step_comparisons(case, steps)}
        rows.append([str(stage), seconds(ours), seconds(plain), of(r.get(f"ZeRO {stage} beside PyTorch")),
                     bound_text(case.pytorch, case.aim), seconds(theirs), of(r.get(f"ZeRO {stage} beside DeepSpeed")),
                     bound_text(case.deepspeed.get(stage))])
    head = ["ZeRO", "Troupe s", "PyTorch s", "of it", "bound", "DeepSpeed s", "of it", "bound"]
    tokens = case.rows * case.columns
    timed = {len(r["steps_s"]) - cases.WARM_STEPS for runs in steps.values() for r in figures.ran(runs)}
    text = [f"### {case.title}", "", f"{tokens} tokens a rank and step; a run's figure is the median of "
            f"{' or '.join(map(str, sorted(timed)))} steps, after {cases.WARM_STEPS}.", "", table(head, rows), ""]
    return text


def mib(runs, key="peak_pss_bytes"):
    values = [r[key] for r in figures.ran(runs) if key in r]
    return f"{statistics.median(values) / 2**20:.0f}" if values else ""


def memory_section(results):
    rows = []
    for case in cases.CASES:
        memory = results["cases"].get(case.name, {}).get("memory", {})
        for stage in (x for x in case.stages if f"troupe-{x}" in memory):
            ours, theirs = memory.get(f"troupe-{stage}", []), memory.get(f"deepspeed-{stage}", [])
            r = {c.what: c.figure for c in figures.memory_comparisons(case, memory)}.get(f"memory at ZeRO {stage} beside DeepSpeed")
            compared = ["" if r is None else f"{r.value:.2f}" if r.met else f"**{r.value:.2f} missed**", bound_text(r and r.bound)]
            plain = mib(results["cases"][case.name].get("steps", {}).get("pytorch", []), "peak_rss_bytes")
            rows.append([case.name, str(stage), mib(ours), plain, mib(theirs), *compared,
                         " / ".join(mib(x, "peak_rss_bytes") for x in (ours, theirs))])
    if not rows:
        return []
    return ["## Resident memory of a whole run", "",
            "MiB: the greatest sum over a run's processes of their proportional shares (PSS), sampled every 50 ms from start to "
            "end in runs that are not timed. Troupe is one process, DeepSpeed two. Beside it the sum of the processes' own peaks (RSS), "
            "which counts shared libraries twice; PyTorch's is that of its one process in the timed runs.", "",
            table(["case", "ZeRO", "Troupe", "PyTorch (RSS)", "DeepSpeed", "of DeepSpeed", "bound", "RSS Troupe / DeepSpeed"], rows), ""]


def start_section(results):
    rows = []
    for case in (c for c in cases.CASES if c.start_s):
        steps = results["cases"].get(case.name, {}).get("steps", {})
        first = lambda name: [r["first_step_s"] for r in figures.ran(steps.get(name, []))]
        text = lambda v: f"{statistics.median(v):.2f} ({min(v):.2f} to {max(v):.2f})" if v else ""
        for stage in case.stages if steps else ():
            ours = figures.start_comparison(case, steps, stage)
            rows.append([case.name, str(stage), of(ours and ours.figure), f"{case.start_s:g}", text(first("pytorch")),
                         text(first(f"deepspeed-{stage}"))])
    if not rows:
        return []
    return ["## From process start to the first step done", "", "Seconds, in the timed runs.", "",
            table(["case", "ZeRO", "Troupe", "bound", "PyTorch", "DeepSpeed"], rows), ""]


def lanes_section(results):
    rows = []
    for case in cases.CASES:
        trace = results["cases"].get(case.name, {}).get("trace", {})
        each = {c.what: c.figure for c in figures.lane_comparisons(case, trace)}
        for stage in case.stages if each else ():
            rows.append([case.name, str(stage)] + [of(each.get(f"{name} at ZeRO {stage}")) for name, *_ in figures.LANES])
    if not rows:
        return []
    head = [name + ("" if bound is None else f", bound {bound:g} {unit}") for name, _, unit, bound in figures.LANES]
    return ["## Lanes", "", "The trace's own figures of a run each, which is not timed; waits are medians, with both cores computing.", "",
            table(["case", "ZeRO", *head], rows), ""]


def rate_text(flops, s):
    return f"{flops / s / 1e9:.0f}" if s > 0 else ""


def work_section(results):
    """Of the traced runs at each case's last stage: the lanes' time by kind of work, and the rate of computing units."""
    rows, units = [], []
    for case in cases.CASES:
        traced = figures.ran(results["cases"].get(case.name, {}).get("trace", {}).get(f"troupe-{case.stages[-1]}", []))
        work = traced[0].get("end", {}).get("work") if traced else None
        if not work:
            continue
        step = statistics.median(traced[0]["steps_s"][cases.WARM_STEPS:])
        busy = sorted(work["kinds"], key=lambda k: -k["busy_s"])
        rows.append([case.name, f"{1e3 * step:.0f}", ", ".join(f"{k['kind']} {1e3 * k['busy_s']:.1f} ({100 * k['busy_s'] / step:.1f} %)"
                                                               for k in busy if k["busy_s"] > 1e-3 * step)])
        for u in work["units"]:
            units.append([case.name, u["unit"], f"{1e3 * u['forward_s']:.2f}", rate_text(u["forward_flops"], u["forward_s"]),
                          f"{1e3 * u['backward_s']:.2f}", rate_text(u["backward_flops"], u["backward_s"])])
    if not rows:
        return []
    head = ["case", "unit", "forward ms", "GFLOP/s", "backward ms", "GFLOP/s"]
    return ["## Where a step's time goes", "", "Milliseconds that a rank's lanes were busy in a step of the traced run, at the case's last stage; "
            "lanes work side by side.", "", table(["case", "step", "busy with"], rows), "",
            "<details><summary>by unit</summary>", "", table(head, units), "", "</details>", ""]


def everything_compared(results):
    measured = results.get("kernels")
    of_kernels = [figures.Comparison("kernels", f"{what} beside {peer}", f)
                  for what, peer, _, _, f in (kernels.comparisons(measured) if measured else ())]
    return figures.all_comparisons(results) + of_kernels


def failures(results):
    """A line for each kind of run that did not end well."""
    out = []
    for name, kept in results["cases"].items():
        for where in ("steps", "memory", "trace"):
            for who, runs in kept.get(where, {}).items():
                errors = [r["error"].strip().splitlines()[-1] for r in runs if "error" in r]
                if errors:
                    out.append(f"- {name}, {where}, {who}: {len(errors)} of {len(runs)}: {errors[0][-200:]}")
    return out


def verdict_section(results):
    everything = everything_compared(results)
    bounded = [c for c in everything if c.figure.bound is not None]
    missed = [c for c in bounded if not c.figure.met]
    close = [c for c in bounded if c.figure.met and c.figure.crosses]
    lose = [c for c in everything if not c.figure.unit and c.figure.value >= 1]
    line = lambda c: f"- {c.where}, {c.what}: {c.figure}" + ("" if c.figure.bound is None else f", bound {c.figure.bound:g}")
    text = [f"{len(bounded) - len(missed)} of {len(bounded)} bounds are met, by medians.", ""]
    if failures(results):
        text += ["Runs that failed:", "", *failures(results), ""]
    for title, some in (("Missed:", missed), ("Met, with rounds beyond the bound:", close), ("Slower or larger than the peer:", lose)):
        if some:
            text += [title, "", *map(line, some), ""]
    return text


def next_step(results):
    if results.get("next"):
        return results["next"]
    missed = [c for c in everything_compared(results) if not c.figure.met]
    if not missed:
        return "All bounds are met; what is farthest from its time at the roofline comes next (see above)."
    worst = max(missed, key=lambda c: c.figure.value / c.figure.bound)
    return (f"The bound that is farthest away: {worst.where}, {worst.what}, "
            f"{worst.figure.value / worst.figure.bound:.2f} times its bound.")


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    rounds = {len(r) for c in results["cases"].values() for name, r in c.get("steps", {}).items() if name.startswith("troupe")}
    commits = {c["commit"] for c in results["cases"].values()} | {results["commit"]}
    text = [f"# Beside PyTorch and DeepSpeed, {date.day} {date:%B %Y}", "",
            f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. "
            f"Commit {', '.join(sorted(commits))}. PyTorch {m['torch']}, DeepSpeed {m['deepspeed']} (CPU, Gloo).",
            ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
            "Troupe: one process, two ranks of one thread. PyTorch: one process of two threads, the batch of both ranks. DeepSpeed: "
            "two processes of one thread, with the same `zero_optimization` as Troupe. All train the same model on the same text, "
            "clip at 1.0 and update with fused AdamW; the peers run one and the same PyTorch module, with "
            "`scaled_dot_product_attention` and tied weights. bf16: fp32 masters everywhere. Runs take turns, each stage of Troupe "
            f"beside DeepSpeed's, {' or '.join(map(str, sorted(rounds))) or 'no'} rounds; a ratio is that of the medians over all "
            "rounds, in brackets the least and greatest of a round. A bound counts as met by the ratio of medians.", ""]
    if results.get("load", 0) > QUIET_LOAD:
        text += [f"**Other programs were running (load {results['load']:.1f} before the first run): the figures are a trial.**", ""]
    text += verdict_section(results)
    sections = [line for case in cases.CASES for line in steps_section(case, results["cases"].get(case.name, {}))]
    if sections:
        text += ["## A step", "", *sections]
    text += roofline.section(results, table) + memory_section(results) + start_section(results) + lanes_section(results)
    text += work_section(results)
    text += kernels.section(results.get("kernels"), table)
    text += ["## Next", "", next_step(results), ""]
    return "\n".join(text)
