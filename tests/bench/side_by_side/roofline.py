"""What the machine could do at best, measured in the same session, and each case's step as a multiple of it.

bench_roofline measures matrix products at the very shapes of a step, on one core and on both at once as two ranks do,
with the fastest library that LibTorch has for each, and how fast memory is read and written.
"""
import json
import statistics
import subprocess

import cases
import figures


def measure(programs, which):
    """{dtype: {"m k n": {"1": flop/s of one core, "2": of each of two}}}, memory: {copy, triad: {"1", "2": bytes/s}}."""
    out = {}
    for dtype in ("fp32", "bf16"):
        shapes = sorted({f"{m}x{k}x{n}" for c in which if c.timed and c.dtype == dtype for m, k, n, _ in cases.products(c)})
        if shapes:
            print(f"roofline {dtype}: {len(shapes)} products", flush=True)
            text = subprocess.run([str(programs / "bench_roofline"), dtype, *shapes], check=True, capture_output=True, text=True).stdout
            out[dtype] = json.loads(text)
    text = subprocess.run([str(programs / "bench_roofline"), "memory"], check=True, capture_output=True, text=True).stdout
    return out | {"memory": json.loads(text)}


def time_at(measured, case):
    """Seconds of a step's matrix products at their own rates while both cores compute; attention's at the best of them.

    None where a shape was not measured.
    """
    rates = measured.get(case.dtype, {})
    keys = [f"{m}x{k}x{n}" for m, k, n, _ in cases.products(case)]
    if any(k not in rates for k in keys):
        return None
    linear = sum(2 * m * k * n * count / rates[key]["2"] for key, (m, k, n, count) in zip(keys, cases.products(case)))
    return linear + cases.attention_flops(case) / max(rates[k]["2"] for k in keys)


def section(results, table):
    measured = results.get("roofline")
    if not measured:
        return []
    rows = []
    for case in (c for c in cases.CASES if c.timed and c.name in results["cases"]):
        best = time_at(measured, case)
        if best is None:
            continue
        steps = results["cases"][case.name].get("steps", {})
        multiple = lambda name: f"{statistics.median(figures.medians(steps[name])) / best:.2f}" if figures.medians(steps.get(name, [])) else ""
        stage = case.stages[-1]
        flops = cases.RANKS * (cases.product_flops(case) + cases.attention_flops(case))
        rows.append([case.name, f"{flops / 1e9:.0f}", f"{best:.3f}", multiple(f"troupe-{stage}"), multiple("pytorch"), multiple(f"deepspeed-{stage}")])
    text = ["## Against the roofline", ""]
    for dtype in ("fp32", "bf16"):
        rates = measured.get(dtype)
        if rates:
            low, high = (f(r["2"] for r in rates.values()) / 1e9 for f in (min, max))
            alone = max(r["1"] for r in rates.values()) / 1e9
            libraries = sorted({r["library"] for r in rates.values()})
            text += [f"{dtype}: {alone:.0f} GFLOP/s on one core at best, {low:.0f} to {high:.0f} on each of two at the models' shapes "
                     f"({', '.join(libraries)})."]
    m = measured["memory"]
    text += ["Memory: " + "; ".join(f"{name} {m[name]['1'] / 1e9:.0f} GB/s from one core, {m[name]['2'] / 1e9:.0f} from both"
                                    for name in ("copy", "triad")) + ".", "",
             "Products: of a whole step of both ranks, attention counted causally. The roofline's time: every matrix product at the rate "
             "of its own shape, attention at the best rate, nothing else. Multiples of it at the last stage of the case.", ""]
    return text + [table(["case", "products, GFLOP", "roofline s", "Troupe", "PyTorch", "DeepSpeed"], rows), ""]
