"""The page of pipelines in docs/benchmarks: a plain function of what pipelines.py kept."""
import datetime
import re
import statistics

import cases
import figures
import pipeline_cases as plan
from page import QUIET_LOAD, bound_text, of, table


def key(name, micro_batches):
    """Under which runs are kept."""
    return f"{name}, m {micro_batches}"


def reason(text):
    """The sentence of an error: the last that names one, else the last line."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\[rank\d+\]: *)?[\w.]*(Error|Exception)\b", line)]
    return (named or lines or [""])[-1]


def step_s(run):
    return statistics.median(run["timed_s"])


def kept(results, case, where="steps"):
    return results["cases"].get(case.name, {}).get(where, {})


def seconds(runs):
    values = [step_s(r) for r in figures.ran(runs)]
    return "" if not values else f"{statistics.median(values):.3f}" if statistics.median(values) < 1 else f"{statistics.median(values):.2f}"


def compared(runs, ours, theirs, bound):
    """Of two names of `runs`; None where a side has none."""
    return figures.ratio(*(figures.of_rounds(runs.get(n, []), step_s) for n in (ours, theirs)), bound)


def mib_a_rank(runs, ranks):
    values = [r["peak_rss_bytes"] / ranks for r in figures.ran(runs)]
    return f"{statistics.median(values) / 2**20:.0f}" if values else ""


def peer_comparisons(case, results):
    """(peer, micro-batches, the comparison)."""
    out = []
    for peer in plan.peers(case):
        for m in peer.micro_batches:
            f = compared(kept(results, case), key(peer.ours.name, m), key(peer.name, m), peer.bound or case.bound)
            if f:
                out.append((peer, m, figures.Comparison(case.name, f"{peer.ours.name}, m {m} beside {peer.name}", f)))
    return out


def memory_comparisons(case, results):
    """(peer, the comparison)."""
    out, memory = [], kept(results, case, "memory")
    share = lambda r: r["peak_pss_bytes"]
    ours = figures.of_rounds(memory.get(key(plan.ONE_F_ONE_B.name, plan.MEMORY_MICRO_BATCHES), []), share)
    for peer in (p for p in plan.peers(case) if p.memory):
        f = figures.ratio(ours, figures.of_rounds(memory.get(peer.name, []), share), peer.memory)
        if f:
            out.append((peer, figures.Comparison(case.name, f"memory beside {peer.name}", f)))
    return out


def own_comparisons(case, results):
    out = []
    for ours, other, bounds in plan.AGAINST_OURSELVES:
        for m, bound in bounds.items():
            f = compared(kept(results, case), key(ours.name, m), key(other.name, m), bound)
            if f:
                out.append(figures.Comparison(case.name, f"{ours.name} by {other.name}, m {m}", f))
    return out


def idle_beyond_plan(end):
    """Percent of a step; None where the end record does not tell."""
    share = end.get("pipeline", {}).get("idle_beyond_plan")
    return None if share is None else 100 * share


def idle_comparisons(case, results):
    out = []
    for m in plan.MICRO_BATCHES:
        traced = figures.ran(kept(results, case, "trace").get(key(plan.ONE_F_ONE_B.name, m), []))
        values = [v for v in (idle_beyond_plan(r.get("end", {})) for r in traced) if v is not None]
        f = figures.absolute(values, plan.IDLE_BEYOND_PLAN, "%")
        if f:
            out.append(figures.Comparison(case.name, f"idle of 1f1b beyond its plan, m {m}", f))
    return out


def uncut_comparisons(results):
    out = []
    for name, stage in plan.UNCUT:
        runs = results["cases"].get(name, {}).get("uncut", {})
        before, after = (figures.of_rounds(runs.get(f"{who}, ZeRO {stage}", []), step_s) for who in ("before", "after"))
        f = figures.ratio(after, before)
        if f:
            out.append(figures.Comparison(name, f"uncut, ZeRO {stage}, after by before", f))
    return out


def everything_compared(results):
    out = []
    for case in plan.CASES:
        out += [c for *_, c in peer_comparisons(case, results)] + [c for _, c in memory_comparisons(case, results)]
        out += own_comparisons(case, results) + idle_comparisons(case, results)
    return out + uncut_comparisons(results)


def failures(results):
    out = []
    for name, wheres in results["cases"].items():
        for where, runs in wheres.items():
            for who, each in runs.items():
                out += [f"- {name}, {where}, {who}: `{reason(r['error'])}`" for r in each if "error" in r]
    return out


def verdict_section(results):
    everything = everything_compared(results)
    bounded = [c for c in everything if c.figure.bound is not None]
    missed = [c for c in bounded if not c.figure.met]
    close = [c for c in bounded if c.figure.met and c.figure.crosses]
    line = lambda c: f"- {c.where}, {c.what}: {c.figure}, bound {c.figure.bound:g}"
    text = [f"{len(bounded) - len(missed)} of {len(bounded)} bounds are met, by medians.", ""]
    for title, lines in (("Missed:", map(line, missed)), ("Met, with rounds beyond the bound:", map(line, close)),
                         ("What did not run, and its error:", failures(results))):
        lines = list(lines)
        text += [title, "", *lines, ""] if lines else []
    return text


def steps_section(case, results):
    rows, runs = [], kept(results, case)
    for peer, m, c in peer_comparisons(case, results):
        ranks = plan.PIPELINE * peer.shard
        ours, theirs = runs[key(peer.ours.name, m)], runs[key(peer.name, m)]
        rows.append([str(m), peer.ours.name, seconds(ours), peer.name, seconds(theirs), of(c.figure), bound_text(c.figure.bound),
                     f"{mib_a_rank(ours, ranks)} / {mib_a_rank(theirs, ranks)}"])
    if not rows:
        return []
    return [f"### {case.title}", "",
            f"{case.rows} x {case.columns} tokens a micro-batch; a run's figure is the median of {plan.TIMED_STEPS} steps, after "
            f"{plan.WARM_STEPS}. MiB: the processes' own peaks (RSS) by ranks, of the whole run.", "",
            table(["m", "Troupe", "s", "peer", "s", "of it", "bound", "MiB a rank, Troupe / peer"], sorted(rows, key=lambda r: int(r[0]))), ""]


def memory_section(results):
    rows = []
    for case in plan.CASES:
        memory = kept(results, case, "memory")
        for peer, c in memory_comparisons(case, results):
            ours, theirs = (statistics.median(r["peak_pss_bytes"] for r in figures.ran(memory[n])) / 2**20
                            for n in (key(plan.ONE_F_ONE_B.name, plan.MEMORY_MICRO_BATCHES), peer.name))
            rows.append([case.name, peer.name, f"{ours:.0f}", f"{theirs:.0f}", of(c.figure), bound_text(c.figure.bound)])
    if not rows:
        return []
    return ["## Resident memory of a whole run", "",
            f"MiB: the greatest sum over a run's processes of their proportional shares (PSS), sampled every 50 ms, 1F1B, "
            f"m {plan.MEMORY_MICRO_BATCHES}, in runs that are not timed. Troupe is one process, DeepSpeed two.", "",
            table(["case", "peer", "Troupe", "DeepSpeed", "of it", "bound"], rows), ""]


def first_loss(runs):
    return next((r["losses"][0] for r in figures.ran(runs)), None)


def losses_section(results):
    rows = []
    m = plan.MICRO_BATCHES[0]
    for case in (c for c in plan.CASES if c.peers):
        runs = kept(results, case)
        for peer in plan.peers(case):
            ours, theirs = (first_loss(runs.get(key(n, m), [])) for n in (peer.ours.name, peer.name))
            if ours is not None and theirs is not None:
                apart = abs(ours - theirs)
                rows.append([case.name, peer.ours.name, f"{ours:.6f}", peer.name, f"{theirs:.6f}",
                             f"{apart:.1e}" if apart <= plan.SAME_LOSS else f"**{apart:.1e}: not the same model**"])
    if not rows:
        return []
    return ["## The same model", "",
            f"The loss of the first step, m {m}: all begin with the same weights, and the text has as many windows as a step has "
            f"samples, so that the order of samples does not matter. At most {plan.SAME_LOSS:g} apart.", "",
            table(["case", "Troupe", "loss", "peer", "loss", "apart"], rows), ""]


def own_section(results):
    rows = []
    for case in plan.CASES:
        runs = kept(results, case)
        for c in own_comparisons(case, results) + idle_comparisons(case, results):
            rows.append([c.where, c.what, of(c.figure), bound_text(c.figure.bound)])
    rows += [[c.where, c.what, of(c.figure), ""] for c in uncut_comparisons(results)]
    if not rows:
        return []
    alone = []
    for case in plan.CASES:
        for name, runs in kept(results, case).items():
            if any(name == key(o.name, m) for o in plan.ALONE[case.name] for m in o.micro_batches):
                alone.append([case.name, name, seconds(runs), mib_a_rank(runs, plan.PIPELINE)])
    return ["## Against ourselves", "",
            "A step by a step, rounds in turn. Idle beyond the plan: of the traced runs, the compute lanes' idle time less that of the plan "
            "played with the run's own mean times.", "", table(["case", "what", "figure", "bound"], rows), "",
            *([table(["case", "Troupe", "s", "MiB a rank"], alone), ""] if alone else [])]


def next_step(results):
    if results.get("next"):
        return results["next"]
    missed = [c for c in everything_compared(results) if not c.figure.met]
    if not missed:
        return "All bounds are met."
    worst = max(missed, key=lambda c: c.figure.value / c.figure.bound)
    return f"The bound that is farthest away: {worst.where}, {worst.what}, {worst.figure.value / worst.figure.bound:.2f} times its bound."


def page(results):
    m = results["machine"]
    date = datetime.date.fromisoformat(results["date"])
    rounds = sorted({len(r) for c in plan.CASES for r in kept(results, c).values() if figures.ran(r)})
    text = [f"# Pipelines beside DeepSpeed and torch, {date.day} {date:%B %Y}", "",
            f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, Linux {m['kernel']}. "
            f"Commit {results['commit']}. PyTorch {m['torch']}, DeepSpeed {m['deepspeed']} (CPU, Gloo).",
            ", then ".join(f"`{c}`" for c in results["commands"]) + f" (part of `make bench`), {results['seconds'] / 60:.0f} minutes.", "",
            f"Pipeline {plan.PIPELINE}, m micro-batches a step. Troupe: one process, a rank and thread each stage. Peers: a process of one thread "
            "each rank; DeepSpeed's PipelineEngine, schedules of torch.distributed.pipelining, and `fully_shard` under its 1F1B at "
            f"pipeline {plan.PIPELINE} x shard 2 (four processes on two cores, Troupe's four ranks too). All train the same model with "
            "tied weights (torch's gradients of them are added by hand), cut into stages of equally many layers, on the same samples, "
            "clip at 1.0 over all ranks and update with AdamW; bf16: fp32 masters everywhere. Without ranks beside a stage ZeRO has "
            f"nothing to cut; DeepSpeed's stages differ in code alone. Runs take turns, {' or '.join(map(str, rounds)) or 'no'} rounds; a ratio is that of the "
            "medians over all rounds, in brackets the least and greatest of a round. A bound counts as met by the ratio of medians.", ""]
    if results.get("load", 0) > QUIET_LOAD:
        text += [f"**Other programs were running (load {results['load']:.1f} before the first run): the figures are a trial.**", ""]
    text += verdict_section(results)
    sections = [line for case in plan.CASES for line in steps_section(case, results)]
    text += ["## A step", "", *sections] if sections else []
    text += memory_section(results) + losses_section(results) + own_section(results)
    return "\n".join(text + ["## Next", "", next_step(results), ""])
