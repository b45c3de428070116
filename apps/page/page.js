// Draws what /state.json says, once a second. Keeps what it has when the run has gone.
"use strict";
const every_ms = 1000, missed_max = 2;
const lanes = ["compute", "fabric", "shard", "io", "writer", "control"];
let shown_step = null, newest = null, missed = 0, chosen = null;

const at = (id) => document.getElementById(id);
function make(name, text, cls) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
}
function draw(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}
const whole = (n) => Math.round(n).toLocaleString("en");
const digits = (x, n = 4) => x === null || x === undefined ? "not a number" : Number(x.toPrecision(n)).toString();
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0;
  while (n >= 1024 && u + 1 < units.length) { n /= 1024; ++u; }
  return (u === 0 ? n : n.toFixed(n < 10 ? 2 : 1)) + "\u00a0" + units[u];
}
function seconds(s) {
  if (s < 1e-3) return digits(s * 1e6, 3) + "\u00a0\u00b5s";
  if (s < 1) return digits(s * 1e3, 3) + "\u00a0ms";
  if (s < 120) return digits(s, 3) + "\u00a0s";
  if (s < 7200) return Math.floor(s / 60) + "\u00a0min";
  return Math.floor(s / 3600) + "\u00a0h " + Math.floor(s % 3600 / 60) + "\u00a0min";
}
const clock = (unix_s) => new Date(unix_s * 1000).toLocaleTimeString("en-GB");
// Changes only what differs, so that a selection, a focus and an open row stay.
function set(e, text) { if (e.textContent !== text) e.textContent = text; }
function replace(id, signature, build) {
  const e = at(id);
  if (e.dataset.of === signature) return;
  const scroll = e.scrollTop;
  e.replaceChildren(...build());
  e.dataset.of = signature;
  e.scrollTop = scroll;
}

function round_steps(least, most, count) {
  const raw = (most - least) / count || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(least / step) * step; v <= most + step * 1e-9; v += step) out.push(Number(v.toPrecision(12)));
  return out;
}
const short = (v) => Math.abs(v) >= 1e6 ? digits(v / 1e6) + " M" : Math.abs(v) >= 1e4 ? digits(v / 1e3) + " k" : digits(v);

// One unit of a drawing is a pixel, so that its text is as large on a narrow screen.
const width_of = (id) => Math.max(240, at(id).clientWidth);

// `points`: [x, mean, least, greatest]; `marks`: the same, drawn as rings.
function curve(points, marks, unit, what) {
  if (points.length === 0) return [make("p", "No step has ended yet.", "quiet")];
  const w = width_of("loss"), h = Math.min(280, Math.max(200, w * .5)), left = 58, right = 12, top = 22, bottom = 38;
  let x0 = points[0][0], x1 = points[points.length - 1][0], y0 = Infinity, y1 = -Infinity;
  for (const [, , l, g] of points.concat(marks)) { y0 = Math.min(y0, l); y1 = Math.max(y1, g); }
  if (x1 <= x0) { x0 -= 1; x1 += 1; }
  if (y1 <= y0) { y0 -= Math.abs(y0) * .05 + .5; y1 += Math.abs(y1) * .05 + .5; }
  const pad = (y1 - y0) * .06;
  y0 = y0 >= 0 ? Math.max(0, y0 - pad) : y0 - pad; y1 += pad;
  const x = (v) => left + (v - x0) / (x1 - x0) * (w - left - right);
  const y = (v) => h - bottom - (v - y0) / (y1 - y0) * (h - top - bottom);
  const last = points[points.length - 1];
  const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img",
    "aria-label": `${what}, ${unit}, over steps ${Math.round(points[0][0])} to ${Math.round(last[0])}: lowest ${digits(Math.min(...points.map((p) => p[2])))}, now ${digits(last[1])}` });
  for (const v of round_steps(y0, y1, 5)) {
    svg.append(draw("line", { class: "grid", x1: left, x2: w - right, y1: y(v), y2: y(v) }));
    svg.append(draw("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, short(v)));
  }
  for (const v of round_steps(x0, x1, w < 400 ? 3 : 5).filter(Number.isInteger))
    svg.append(draw("text", { x: x(v), y: h - bottom + 16, "text-anchor": "middle" }, short(v)));
  svg.append(draw("text", { x: 0, y: 12 }, unit));
  svg.append(draw("text", { x: w - right, y: h - 4, "text-anchor": "end" }, "step"));
  if (points.some((p) => p[3] > p[2]))
    svg.append(draw("polygon", { class: "band", points: points.map((p) => `${x(p[0])},${y(p[3])}`).concat(
      points.slice().reverse().map((p) => `${x(p[0])},${y(p[2])}`)).join(" ") }));
  svg.append(draw("polyline", { class: "curve", points: points.map((p) => `${x(p[0])},${y(p[1])}`).join(" ") }));
  for (const m of marks) {
    const ring = draw("circle", { class: "mark", cx: x(Math.min(Math.max(m[0], x0), x1)), cy: y(m[1]), r: 4 });
    ring.append(draw("title", {}, `validation ${digits(m[1])} at step ${Math.round(m[0])}`));
    svg.append(ring);
  }
  const out = [svg];
  if (marks.length > 0) out.push(make("p", "Line: training. Rings: validation.", "quiet"));
  return out;
}

function chart_lanes(step) {
  const out = [];
  const w = width_of("lanes"), left = 66, row = 20;
  for (const r of step.ranks) {
    const used = lanes.filter((l) => r.spans.some((s) => s[0] === l));
    const h = used.length * row + 22, scale = (w - left) / step.length_us;
    const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, tabindex: 0, role: "application",
      "aria-label": `${r.name}, step ${step.step}: arrow keys go through ${r.spans.length} instructions` });
    const bars = [];
    used.forEach((lane, i) => {
      svg.append(draw("text", { x: 0, y: i * row + 14 }, lane));
      svg.append(draw("line", { class: "grid", x1: left, x2: w, y1: (i + 1) * row - .5, y2: (i + 1) * row - .5 }));
      for (const s of r.spans.filter((s) => s[0] === lane)) {
        const bar = draw("rect", { class: "bar lane-" + lane, x: left + s[1] * scale, y: i * row + 3,
          width: Math.max(.8, s[2] * scale), height: row - 6 });
        const text = `${lane}: ${s[4]}, ${seconds(s[2] / 1e6)} from ${seconds(s[1] / 1e6)} on`;
        bar.append(draw("title", {}, text));
        bars.push({ bar, text, start: s[1] });
        svg.append(bar);
      }
    });
    for (const v of round_steps(0, step.length_us / 1e3, w < 500 ? 3 : 6))
      svg.append(draw("text", { x: Math.min(left + v * 1e3 * scale, w - 2), y: h - 4,
        "text-anchor": v === 0 ? "start" : left + v * 1e3 * scale > w - 30 ? "end" : "middle" }, digits(v) + " ms"));
    bars.sort((a, b) => a.start - b.start);
    const choose = (n) => {
      if (chosen) chosen.bar.classList.remove("chosen");
      chosen = bars[n];
      chosen.bar.classList.add("chosen");
      set(at("span"), `${r.name}, ${chosen.text}`);
    };
    svg.addEventListener("keydown", (e) => {
      const now = bars.indexOf(chosen);
      const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: bars.length - 1 }[e.key];
      if (next === undefined) return;
      e.preventDefault();
      choose(Math.min(Math.max(next, 0), bars.length - 1));
    });
    svg.addEventListener("click", (e) => {
      const n = bars.findIndex((b) => b.bar === e.target);
      if (n >= 0) choose(n);
    });
    out.push(make("h3", r.name), svg);
  }
  if (step.ranks_left_out > 0) out.push(make("p", `${step.ranks_left_out} further ranks are not drawn.`, "quiet"));
  return out;
}

function show_lanes(s) {
  const note = at("lanes-note");
  if (s.lanes.length === 0) return set(note, s.step > 0 ? "The steps have too many instructions to be drawn here; trace.json has them." : "No step has ended yet.");
  set(note, "A bar is an instruction; one of the fabric lane counts from when it was posted. Point at a bar, or focus a rank and use the arrow keys. A step that you choose stays.");
  const held = s.lanes.find((l) => l.step === shown_step);
  // A chosen step stays drawn when it is no longer among the last ones.
  const step = held || (shown_step !== null && show_lanes.kept && show_lanes.kept.step === shown_step ? show_lanes.kept : s.lanes[s.lanes.length - 1]);
  show_lanes.kept = step;
  replace("steps", s.lanes.map((l) => l.step) + "|" + shown_step, () => {
    const button = (text, n) => {
      const b = make("button", text);
      b.type = "button";
      b.setAttribute("aria-pressed", String(shown_step === n));
      b.addEventListener("click", () => { shown_step = n; show_lanes(newest); });
      return b;
    };
    const had = shown_step === null || held ? [] : [button(`step ${shown_step}, kept`, shown_step)];
    return [button("newest", null), ...had, ...s.lanes.map((l) => button("step " + l.step, l.step))];
  });
  const focused = document.activeElement && at("lanes").contains(document.activeElement);
  if (focused && shown_step === null && at("lanes").childElementCount > 0) return;  // nothing moves under the keys
  replace("lanes", String(step.step), () => { chosen = null; return chart_lanes(step); });
}

function table(heads, rows, numbers = [], whole_words = []) {
  const t = make("table"), head = make("tr");
  const kind = (i) => numbers.includes(i) ? "number" : whole_words.includes(i) ? "word" : "";
  heads.forEach((h, i) => { const c = make("th", h, kind(i)); c.scope = "col"; head.append(c); });
  const top = make("thead"), body = make("tbody");
  top.append(head);
  for (const r of rows) {
    const line = make("tr");
    r.forEach((c, i) => line.append(make("td", c, kind(i))));
    body.append(line);
  }
  t.append(top, body);
  return t;
}

// The cause has a line of its own, which a narrow screen has room for.
function terms_table(terms) {
  const t = table(["term", "data ranks", "after step", "steps again", "lost"], [], [0, 1, 2, 3, 4]);
  for (const x of terms) {
    const line = make("tr"), below = make("tr"), cause = make("td", x.cause, "under");
    for (const c of [String(x.number), String(x.data), whole(x.step), whole(x.steps_again), seconds(x.lost_s)])
      line.append(make("td", c, "number"));
    cause.colSpan = 5;
    below.append(cause);
    t.tBodies[0].append(line, below);
  }
  return t;
}

function show_memory(m) {
  replace("memory", JSON.stringify([m.ranks, m.budget_bytes]), () => {
    const open = [...at("memory").querySelectorAll("details")].map((d) => d.open);
    const out = [];
    if (m.ranks.length === 0) out.push(make("p", "No step has ended yet.", "quiet"));
    if (m.budget_bytes > 0) {
      const used = m.ranks.reduce((n, r) => n + r.states_bytes, 0);
      const meter = make("meter");
      meter.max = m.budget_bytes; meter.value = used;
      meter.setAttribute("aria-label", "Share of the budget");
      out.push(make("p", `States of these ranks take ${bytes(used)} of a budget of ${bytes(m.budget_bytes)} (${(100 * used / m.budget_bytes).toFixed(0)} %).`), meter);
    }
    m.ranks.forEach((r, i) => {
      const d = make("details"), total = r.memory.reduce((n, o) => n + o[1], 0);
      d.open = open[i] ?? (m.ranks.length <= 2);
      d.append(make("summary", `Rank ${r.rank}: ${bytes(total)} of memory` + (r.nvme_bytes > 0 ? `, ${bytes(r.nvme_bytes)} on NVMe` : "")));
      const rows = r.memory.slice().sort((a, b) => b[1] - a[1]).map((o) => [o[0], "memory", bytes(o[1])]);
      if (r.nvme_bytes > 0) rows.push(["swapped states", "NVMe", bytes(r.nvme_bytes)]);
      d.append(table(["owner", "tier", "bytes"], rows, [2]));
      out.push(d);
    });
    if (m.ranks_left_out > 0) out.push(make("p", `${m.ranks_left_out} further ranks are not shown.`, "quiet"));
    return out;
  });
}

// Of several processes each rank says in which it lives; those without ranks stand below.
function show_ranks(s) {
  const all = s.processes || [], where = (p) => "process " + p.process + (p.host ? " on " + p.host : "");
  replace("ranks", JSON.stringify([s.ranks, all, s.term]), () => {
    if (s.ranks.length === 0) return [make("p", "No rank is at work yet.", "quiet")];
    const lives_in = (rank) => all.find((p) => p.ranks && rank >= p.ranks[0] && rank < p.ranks[0] + p.ranks[1]);
    const heads = all.length > 0 ? ["rank", "lives in", "term", "is", "lanes"] : ["rank", "is", "lanes"];
    const rows = s.ranks.slice().sort((a, b) => a.rank - b.rank).map((r) => {
      const at = lives_in(r.rank), rest = [r.doing, r.lanes || "\u2013"];
      return all.length > 0 ? [String(r.rank), at ? where(at) : "\u2013", at ? String(s.term) : "\u2013", ...rest] : [String(r.rank), ...rest];
    });
    const out = [table(heads, rows, [], all.length > 0 ? [0, 1, 2, 3] : [0, 1])];
    if (s.ranks_left_out > 0) out.push(make("p", `${s.ranks_left_out} further ranks are not shown.`, "quiet"));
    const others = all.filter((p) => !p.ranks);
    if (others.length > 0) out.push(make("p", "Without ranks: " + others.map((p) => `${where(p)} (${p.state})`).join(", ") + ".", "quiet"));
    if (s.processes_left_out > 0) out.push(make("p", `${s.processes_left_out} further processes are not shown.`, "quiet"));
    return out;
  });
}

// Over the last tenth of the curve, at least 8 points: one step alone says little.
function recent(points) {
  const some = points.slice(-Math.max(8, Math.ceil(points.length / 10)));
  return some.reduce((n, p) => n + p[1], 0) / some.length;
}

function show(s) {
  newest = s;
  set(at("folder"), s.folder || "a run without a folder");
  set(at("name"), s.name);
  document.title = `${s.name}: ${s.phase}, step ${s.step} of ${s.steps}`;
  set(at("phase"), s.phase);
  at("progress").max = Math.max(1, s.steps);
  at("progress").value = s.step;
  const l = s.last, figures = [["step", `${whole(s.step)} of ${whole(s.steps)}`]];
  if (l) {
    figures.push([`loss, ${s.loss_unit}`, digits(l.loss)]);
    if (s.validation_loss !== undefined) figures.push([`validation, ${s.loss_unit}`, digits(s.validation_loss)]);
    figures.push(["tokens a second", whole(l.tokens_per_s)], ["time of a step", seconds(l.step_s)],
      ["time left", s.step < s.steps ? "about " + seconds((s.steps - s.step) * recent(s.curves.step_s)) : "none"],
      ["learning rate", l.lr === 0 ? "0" : l.lr.toExponential(2)], ["gradient norm", digits(l.grad_norm, 3)]);
    if (l.loss_scale !== 1) figures.push(["loss scale", whole(l.loss_scale)]);
    if (s.skipped > 0) figures.push(["skipped steps", whole(s.skipped)]);
  }
  figures.push(["memory of the process", `${bytes(s.memory.process_bytes)}, peak ${bytes(Math.max(s.memory.process_peak_bytes, s.memory.process_bytes))}`]);
  figures.push(["last checkpoint", s.checkpoint ? `step ${s.checkpoint.step}, ${seconds(s.checkpoint.seconds)}, ${bytes(s.checkpoint.bytes)}` : "none yet"]);
  if (s.spikes.count > 0) figures.push(["spikes of the loss", `${s.spikes.count}, ${whole(s.spikes.samples_left_out)} samples left out`]);
  if (s.terms.count > 0) figures.push(["recoveries", `${s.terms.count}, ${s.terms.steps_again} steps again, ${seconds(s.terms.lost_s)} lost`]);
  replace("figures", JSON.stringify(figures), () => figures.map(([name, value]) => {
    const d = make("div");
    d.append(make("dt", name), make("dd", value));
    return d;
  }));
  replace("loss", String([s.step, s.curves.validation.length]), () => curve(s.curves.loss, s.curves.validation, s.loss_unit, "Loss"));
  replace("speed", String(s.step), () => curve(s.curves.tokens_per_s, [], "tokens a second", "Speed"));
  show_lanes(s);
  show_memory(s.memory);
  show_ranks(s);
  replace("terms", JSON.stringify(s.terms), () => s.terms.count === 0 ? [make("p", "No process was lost; this is the first term.", "quiet")] :
    [terms_table(s.terms.list.slice().reverse())]);
  replace("log", String(s.log.length ? s.log[s.log.length - 1] : ""), () => s.log.length === 0 ? [make("li", "Nothing has been said yet.", "quiet")] :
    s.log.slice().reverse().map(([unix_s, text]) => {
      const line = make("li"), when = make("time", clock(unix_s) + " ");
      line.append(when, text);
      return line;
    }));
  set(at("version"), "Troupe " + s.version + ".");
}

function say_gone(why) {
  const e = at("gone");
  e.hidden = why === "";
  set(e, why);
}

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (newest === null || window.innerWidth === width) return;
  width = window.innerWidth;
  for (const id of ["loss", "speed", "lanes"]) delete at(id).dataset.of;
  show(newest);
});

async function ask() {
  try {
    const told = await fetch("state.json", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!told.ok) throw new Error(told.status === 401 ? "the run was started again and requires its token: open the page with ?token=" : "answer " + told.status);
    show(await told.json());
    missed = 0;
    say_gone("");
  } catch (e) {
    if (++missed >= missed_max) {
      const over = newest && newest.step >= newest.steps;
      set(at("phase"), over ? "over" : "not reached");
      if (newest) document.title = `${newest.name}: ${over ? "over" : "not reached"}, step ${newest.step} of ${newest.steps}`;
      say_gone(newest ? `The run ${over ? "is over" : "has ended or cannot be reached"}; this is what it said last, at ${clock(newest.unix_s)}.` : `The run does not answer: ${e.message}.`);
    }
  }
  setTimeout(ask, missed > 5 ? 5 * every_ms : every_ms);
}
ask();
