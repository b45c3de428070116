"""Medians, ratios and verdicts of runs: what the page says, as numbers."""
import dataclasses
import statistics

import cases


def run_median(run):
    return statistics.median(run["steps_s"][cases.WARM_STEPS:])


def ran(runs):
    return [r for r in runs if "error" not in r]


def medians(runs):
    """The median step of each run that ended well."""
    return [run_median(r) for r in ran(runs)]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Ours by theirs: of the medians over all rounds, and the least and greatest of a round."""
    value: float
    least: float
    greatest: float
    bound: float | None = None

    @property
    def met(self):
        return self.bound is None or self.value <= self.bound

    @property
    def crosses(self):
        """The spread has rounds on either side of the bound."""
        return self.bound is not None and self.least <= self.bound < self.greatest


def ratio(ours, theirs, bound=None):
    """Of two lists with a figure a round; None where a side has none. A round that a side lacks is left out."""
    if not ours or not theirs:
        return None
    each = [a / b for a, b in zip(ours, theirs)]
    return Ratio(statistics.median(ours) / statistics.median(theirs), min(each), max(each), bound)


@dataclasses.dataclass(frozen=True)
class Comparison:
    case: cases.Case
    what: str  # "a step at ZeRO 3 beside PyTorch"
    ratio: Ratio


def step_comparisons(case, steps):
    """All bounds of a case that its runs can be held against; `steps`: contender's name to runs."""
    out = []
    for stage in case.stages:
        ours = medians(steps.get(f"troupe-{stage}", []))
        for peer, runs, bound in (("PyTorch", steps.get("pytorch", []), case.pytorch),
                                  ("DeepSpeed", steps.get(f"deepspeed-{stage}", []), case.deepspeed.get(stage))):
            r = ratio(ours, medians(runs), bound)
            if r:
                out.append(Comparison(case, f"ZeRO {stage} beside {peer}", r))
    return out


def memory_comparisons(case, memory):
    out = []
    for stage in case.stages:
        ours, theirs = ([r["peak_pss_bytes"] for r in ran(memory.get(f"{who}-{stage}", []))] for who in ("troupe", "deepspeed"))
        r = ratio(ours, theirs, case.memory)
        if r:
            out.append(Comparison(case, f"memory at ZeRO {stage} beside DeepSpeed", r))
    return out


def start_comparison(case, steps, name):
    """Seconds from process start to the first step done by the case's own limit: bound 1."""
    firsts = [r["first_step_s"] for r in ran(steps.get(name, []))]
    r = ratio(firsts, [case.start_s] * len(firsts), 1.0) if case.start_s else None
    return Comparison(case, f"start of {name}", r) if r else None


def all_comparisons(results):
    out = []
    for case in cases.CASES:
        kept = results["cases"].get(case.name, {})
        steps = kept.get("steps", {})
        if case.timed:
            out += step_comparisons(case, steps)
        out += memory_comparisons(case, kept.get("memory", {}))
        out += [c for c in (start_comparison(case, steps, f"troupe-{s}") for s in case.stages) if c]
    return out
