"""How step time, memory and the time to open a run grow with ranks, units and parameters: one plot and its numbers.

Usage: growth.py TROUPE [CONTROL_STEPS] [--out FOLDER] [--quick]
TROUPE is the program, CONTROL_STEPS tests/control's, which times plans and messages alone. Without FOLDER the numbers go to
standard output; with it DATE-growth.md and DATE-growth.svg are written there. All ranks share this machine's cores:
what grows is their control, copies and updates, not their speed. Nothing should grow faster than its work: the last
column is the cost of one rank, unit or parameter at the largest size over that at the smallest but one, which already
has every core at work.
"""
import argparse, datetime, json, math, os, pathlib, subprocess, sys, tempfile, time

CORPUS = pathlib.Path(__file__).resolve().parents[2] / "examples/corpus.txt"


def gpt2(layers, width, positions=32, vocabulary=256):
    return ("{model_type: gpt2, n_layer: %d, n_embd: %d, n_head: %d, n_positions: %d, vocab_size: %d, embd_pdrop: 0, "
            "attn_pdrop: 0, resid_pdrop: 0}" % (layers, width, max(1, width // 64), positions, vocabulary))


# name, what x counts, sizes, (model, ranks, steps) of a size; stage 3 with nothing kept, so that everything happens
SERIES = [
    ("ranks", [1, 2, 4, 8, 16], lambda n: (gpt2(2, 64), n, 40)),
    ("units", [4, 8, 16, 32, 64], lambda n: (gpt2(n - 2, 64), 2, 40)),
    ("million parameters", [3, 11, 25, 59, 124],
     lambda n: (gpt2(*{3: (4, 256), 11: (6, 384), 25: (8, 512), 59: (12, 640), 124: (12, 768, 32, 50257)}[n]), 2, 6)),
]


def train(troupe, model, ranks, steps):
    """Medians of one run: seconds of a step, of opening, bytes of the process, microseconds per instruction."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.yaml"
        job.write_text(
            "model: %s\ndata: {text: %s, sequence_length: 32}\nparallel: {data: %d}\nsteps: %d\n"
            "train_micro_batch_size_per_gpu: 1\ngradient_clipping: 1.0\noptimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
            "zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0, stage3_max_reuse_distance: 0}\n"
            "telemetry: {trace: false, report: false}\noutput: %s\n" % (model, CORPUS, ranks, steps, pathlib.Path(folder) / "out"))
        began = time.monotonic()
        child = subprocess.Popen([troupe, "train", str(job), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        seconds, first, end = [], None, None
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "step":
                first = first or time.monotonic() - began - event["step_s"]
                seconds.append(event["step_s"])
            elif event["event"] == "end":
                end = event
        said = child.stderr.read()
        if child.wait() != 0 or end is None:
            sys.exit("growth: troupe failed with %d ranks and %s: %s" % (ranks, model, said.strip()[-400:]))
    seconds = sorted(seconds[1:])
    memory = sum(m["total"] for m in end["memory"]["host"])
    return {"step_s": seconds[len(seconds) // 2], "open_s": first, "process_bytes": end["process_peak_bytes"],
            "owned_bytes": memory, "parameters": end["model_parameters"]}


def control(program, ranks, units, steps=30):
    best = None
    for _ in range(3):
        row = json.loads(subprocess.run([program, str(ranks), str(units), str(steps)], check=True, capture_output=True,
                                        text=True).stdout)
        best = row if best is None else {k: min(v, best[k]) for k, v in row.items()}
    return best


def panel(x0, title, xs, lines):
    """One log-log plot; `lines`: (name, unit, values), each scaled by its first value so that slopes compare."""
    w, h, top, left = 250, 220, 46, 44
    lx = [math.log2(x) for x in xs]
    ratios = [[v / values[0] for v in values] for _, _, values in lines]
    highest = max(max(max(r) for r in ratios), xs[-1] / xs[0])
    lowest = min(1, min(min(r) for r in ratios))
    low, high = math.floor(math.log2(lowest)), math.ceil(math.log2(highest))
    px = lambda v: x0 + left + (v - lx[0]) / (lx[-1] - lx[0]) * (w - 10)
    py = lambda v: top + h - (math.log2(v) - low) / (high - low) * h
    colours = ["#0b6e99", "#c2571a", "#5b7f2b", "#7a4fa3", "#a33c4c"]
    out = ['<text x="%d" y="%d" class="t">%s</text>' % (x0 + left, top - 14, title)]
    for e in range(low, high + 1):
        out.append('<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="g"/><text x="%.1f" y="%.1f" class="y">%s</text>' % (
            px(lx[0]), px(lx[-1]), py(2**e), py(2**e), px(lx[0]) - 5, py(2**e) + 3, "%g" % 2**e))
    for x, v in zip(xs, lx):
        out.append('<text x="%.1f" y="%d" class="x">%s</text>' % (px(v), top + h + 15, x))
    out.append('<path class="w" d="M%.1f %.1f L%.1f %.1f"/>' % (px(lx[0]), py(1), px(lx[-1]), py(xs[-1] / xs[0])))
    for i, ((name, unit, values), r) in enumerate(zip(lines, ratios)):
        points = " ".join("%.1f,%.1f" % (px(a), py(b)) for a, b in zip(lx, r))
        out.append('<polyline points="%s" stroke="%s"/>' % (points, colours[i]))
        out.append('<rect x="%d" y="%d" width="9" height="9" fill="%s"/><text x="%d" y="%d">%s: %.3g to %.3g %s</text>' % (
            x0 + left, top + h + 26 + 15 * i, colours[i], x0 + left + 14, top + h + 34 + 15 * i, name, values[0],
            values[-1], unit))
    return "\n".join(out)


def svg(panels):
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="390" font-family="sans-serif" font-size="10">\n'
            "<style>.t{font-size:13px;font-weight:bold}.g{stroke:#ddd}.w{stroke:#999;stroke-dasharray:4 3}"
            ".x{text-anchor:middle}.y{text-anchor:end}polyline{fill:none;stroke-width:1.8}</style>\n"
            '<rect width="100%%" height="100%%" fill="white"/>\n'
            '<text x="10" y="16">each line over its first value; dashed: as much as the work</text>\n%s\n</svg>\n'
            % (310 * len(panels), "\n".join(panels)))


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("troupe")
    a.add_argument("control_steps", nargs="?")
    a.add_argument("--out", type=pathlib.Path)
    a.add_argument("--quick", action="store_true", help="the two smallest sizes of each")
    a = a.parse_args()
    text, panels = [], []
    for name, sizes, of in SERIES:
        sizes = sizes[:2] if a.quick else sizes
        rows = [train(a.troupe, *of(n)) for n in sizes]
        xs = [round(r["parameters"] / 1e6, 1) for r in rows] if name.startswith("million") else sizes
        lines = [("step", "ms", [1e3 * r["step_s"] for r in rows]),
                 ("owned memory", "MiB", [r["owned_bytes"] / 2**20 for r in rows]),
                 ("process", "MiB", [r["process_bytes"] / 2**20 for r in rows]),
                 ("start to first step", "ms", [1e3 * r["open_s"] for r in rows])]
        panels.append(panel(310 * len(panels), name, xs, lines))
        text += table(name, xs, lines)
    if a.control_steps:
        for name, sizes, of in [("ranks, control alone", [1, 2, 4, 8, 16], lambda n: (n, 8)),
                                ("units, control alone", [2, 4, 8, 16, 32, 64], lambda n: (2, n))]:
            rows = [control(a.control_steps, *of(n)) for n in sizes]
            lines = [(label, "us", [1e6 * r[key] for r in rows]) for label, key in
                     [("a step's messages", "step_s"), ("plans written", "generate_s"), ("plans proved", "check_s"),
                      ("actors started", "open_s")]]
            panels.append(panel(310 * len(panels), name, sizes, lines))
            text += table(name, sizes, lines)
    date = datetime.date.today().isoformat()
    commit = subprocess.run(["git", "-C", str(CORPUS.parent), "rev-parse", "--short", "HEAD"], capture_output=True,
                            text=True).stdout.strip()
    head = ["# Growth, %s" % date, "",
            "Commit %s, %d cores for all ranks, fp32, ZeRO-3 with nothing kept, sequences of 32, one a micro-batch; medians "
            "of a run's steps. Made by `growth.py`, which says what the columns mean; `make bench` runs it." % (
                commit, len(os.sched_getaffinity(0))), ""]
    page = "\n".join(head + ["![growth](%s-growth.svg)" % date, ""] + text) + "\n"
    if a.out is None:
        print("\n".join(head + text))
        return
    (a.out / (date + "-growth.md")).write_text(page)
    (a.out / (date + "-growth.svg")).write_text(svg(panels))
    print("wrote", a.out / (date + "-growth.md"))


def table(name, xs, lines):
    out = ["## " + name, "", "| | " + " | ".join(str(x) for x in xs) + " | per one, last / second |",
           "|---" * (len(xs) + 2) + "|"]
    for label, unit, values in lines:
        growth = (values[-1] / xs[-1]) / (values[1] / xs[1])
        out.append("| %s, %s | " % (label, unit) + " | ".join("%.3g" % v for v in values) + " | %.2f |" % growth)
    return out + [""]


if __name__ == "__main__":
    main()
