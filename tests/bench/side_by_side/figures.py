"""Medians, ratios and verdicts of runs: what the page says, as numbers."""
import dataclasses
import statistics

import cases


def run_median(run):
    return statistics.median(run["steps_s"][cases.WARM_STEPS:])


def ran(runs):
    return [r for r in runs if "error" not in r]


def of_rounds(runs, read):
    """A figure a round; None for a run that failed."""
    return [None if "error" in r else read(r) for r in runs]


def medians(runs):
    """The median step of each run that ended well."""
    return [run_median(r) for r in ran(runs)]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A value, the least and greatest of a round, and the bound that it is not to exceed. Without a unit: ours by theirs."""
    value: float
    least: float
    greatest: float
    bound: float | None = None
    unit: str = ""

    @property
    def met(self):
        return self.bound is None or self.value <= self.bound

    @property
    def crosses(self):
        """The spread has rounds on either side of the bound."""
        return self.bound is not None and self.least <= self.bound < self.greatest

    def __str__(self):
        text = f"{self.value:.2f}"
        if self.least < self.greatest or not self.unit:
            text += f" ({self.least:.2f} to {self.greatest:.2f})"
        return f"{text} {self.unit}".strip()


def ratio(ours, theirs, bound=None):
    """Of the medians of two lists with a figure a round, of those rounds that both sides have; None where there are none."""
    both = [(a, b) for a, b in zip(ours, theirs) if a is not None and b is not None]
    if not both:
        return None
    each = [a / b for a, b in both]
    return Figure(statistics.median(a for a, _ in both) / statistics.median(b for _, b in both), min(each), max(each), bound)


def absolute(values, bound, unit):
    return Figure(statistics.median(values), min(values), max(values), bound, unit) if values else None


@dataclasses.dataclass(frozen=True)
class Comparison:
    where: str  # the case's name
    what: str  # "ZeRO 3 beside PyTorch"
    figure: Figure


def step_comparisons(case, steps):
    """All bounds of a case that its runs can be compared with; `steps`: contender's name to runs."""
    out = []
    for stage in case.stages:
        ours = of_rounds(steps.get(f"troupe-{stage}", []), run_median)
        for peer, runs, bound in (("PyTorch", steps.get("pytorch", []), case.pytorch),
                                  ("DeepSpeed", steps.get(f"deepspeed-{stage}", []), case.deepspeed.get(stage))):
            r = ratio(ours, of_rounds(runs, run_median), bound)
            if r:
                out.append(Comparison(case.name, f"ZeRO {stage} beside {peer}", r))
    return out


def memory_comparisons(case, memory):
    out = []
    for stage in case.stages:
        ours, theirs = (of_rounds(memory.get(f"{who}-{stage}", []), lambda r: r["peak_pss_bytes"]) for who in ("troupe", "deepspeed"))
        r = ratio(ours, theirs, case.memory)
        if r:
            out.append(Comparison(case.name, f"memory at ZeRO {stage} beside DeepSpeed", r))
    return out


def start_comparison(case, steps, stage):
    """From process start to the first step done."""
    firsts = [r["first_step_s"] for r in ran(steps.get(f"troupe-{stage}", []))]
    f = absolute(firsts, case.start_s, "s") if case.start_s else None
    return Comparison(case.name, f"start at ZeRO {stage}", f) if f else None


def hidden_share(end):
    return 1 - end["exposed_s"] / end["communication_s"] if end["communication_s"] > 0 else 1.0


# What the end event of a traced run tells: name, how to read it, unit, bound.
LANES = (
    ("compute idle for control", lambda e: 100 * e["control"]["idle_share"], "%", 0.5),
    ("in-lane wait", lambda e: e["control"]["in_lane_us"], "us", 5.0),
    ("cross-lane wait", lambda e: e["control"]["cross_lane_us"], "us", 40.0),
    ("communication hidden", lambda e: 100 * hidden_share(e), "%", None),
)


def lane_comparisons(case, trace):
    out = []
    for stage in case.stages:
        ends = [r["end"] for r in ran(trace.get(f"troupe-{stage}", []))]
        for name, read, unit, bound in LANES:
            f = absolute([read(e) for e in ends if "control" in e], bound, unit)
            if f:
                out.append(Comparison(case.name, f"{name} at ZeRO {stage}", f))
    return out


def all_comparisons(results):
    out = []
    for case in cases.CASES:
        kept = results["cases"].get(case.name, {})
        steps = kept.get("steps", {})
        if case.timed:
            out += step_comparisons(case, steps)
        out += memory_comparisons(case, kept.get("memory", {}))
        out += [c for c in (start_comparison(case, steps, s) for s in case.stages) if c]
        out += lane_comparisons(case, kept.get("trace", {}))
    return out
