// Owns the script and the style of a page of lanes: draws the rows that are in view on a canvas, with zoom, search, and
// the text of an instruction under the pointer or chosen by keys. The data is a JSON object, made in lanes_page.cpp.
#pragma once

namespace troupe::telemetry {

inline constexpr const char* lanes_page_style = R"css(
#lanes{overflow-y:auto;max-height:72vh;outline-offset:3px;border-radius:4px}
#tall{position:relative}#tall canvas{display:block;position:sticky;top:0;width:100%;touch-action:pan-y}
.tools{display:flex;flex-wrap:wrap;gap:6px 10px;align-items:center;margin:0 0 8px;font-size:13.5px}
.tools button,.tools input{font:inherit;color:inherit;background:var(--page);border:1px solid var(--line);
border-radius:6px;padding:3px 10px;min-height:30px}
.tools input{flex:1 1 150px;min-width:0;max-width:320px}
#said{min-height:3em;margin:8px 0 2px;font-size:13.5px;overflow-wrap:anywhere}
)css";

inline constexpr const char* lanes_script = R"js('use strict';
(() => {
const data = JSON.parse(document.getElementById('lanes-data').textContent);
const box = document.getElementById('lanes'), tall = document.getElementById('tall');
const canvas = tall.querySelector('canvas'), pen = canvas.getContext('2d');
const said = document.getElementById('said'), find = document.getElementById('find');
const found = document.getElementById('found');
const rowHeight = 18, barHeight = 14, headHeight = 22, axisHeight = data.marks.length ? 34 : 20;
const both = data.rows.some(r => r[2]) && data.rows.some(r => !r[2]);
const least = Math.max(1, data.end / 1e7);

// [row]: starts, ends, works and numbers of merged instructions of its bars, and the latest end of all bars up to each.
const rows = data.rows.map(([rank, lane, predicted, flat]) => {
  const n = flat.length / 4, r = {rank, lane, predicted, n, start: new Float64Array(n), end: new Float64Array(n),
    work: new Uint32Array(n), more: new Uint32Array(n), last: new Float64Array(n), y: 0};
  for (let i = 0, at = 0, last = -Infinity; i < n; ++i) {
    at += flat[4 * i];
    r.start[i] = at;
    r.end[i] = at + flat[4 * i + 1];
    r.work[i] = flat[4 * i + 2];
    r.more[i] = flat[4 * i + 3];
    r.last[i] = last = Math.max(last, r.end[i]);
  }
  return r;
});
const heads = [];
let height = axisHeight;
rows.forEach((r, i) => {
  if (i === 0 || rows[i - 1].rank !== r.rank) {
    heads.push({y: height, text: data.ranks[r.rank]});
    height += headHeight;
  }
  r.y = height;
  height += rowHeight;
});
height += 6;
const tops = rows.map(r => r.y);
tall.style.height = height + 'px';

let from = 0, to = data.end, chosen = null, hover = null, words = '', matching = null, waiting = false;
let width = 0, shown = 0, left = 60, colours = [], ink = {};

function takeColours() {
  const style = getComputedStyle(document.documentElement);
  const of = name => style.getPropertyValue('--' + name).trim();
  for (const name of ['page', 'card', 'ink', 'soft', 'line', 'grid', 'lane', 'bad', 'c2']) ink[name] = of(name);
  colours = data.kinds.map(k => k[1] ? of(k[1]) : ink.soft);
}
function labelOf(r) { return both && r.predicted ? r.lane + ', predicted' : r.lane; }
function takeSize() {
  width = box.clientWidth;
  shown = Math.min(height, box.clientHeight);
  const ratio = window.devicePixelRatio || 1;
  canvas.style.height = shown + 'px';
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(shown * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = (width < 560 ? '10px' : '11px') + ' system-ui, sans-serif';
  let longest = 0;
  for (const label of new Set(rows.map(labelOf))) longest = Math.max(longest, pen.measureText(label).width);
  left = Math.ceil(Math.min(longest + 10, width * 0.36));
  later();
}
function later() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
const xOf = ns => left + (width - left - 2) * (ns - from) / (to - from);
const nsOf = x => from + (to - from) * (x - left) / (width - left - 2);

// The first position in `list`, ascending, whose value is at least `x`.
function lowest(list, x) {
  let a = 0, b = list.length;
  while (a < b) {
    const m = (a + b) >> 1;
    if (list[m] < x) a = m + 1; else b = m;
  }
  return a;
}
function tickStep() {
  const room = (to - from) / 1e6 * (width < 560 ? 62 : 84) / (width - left);
  const ten = Math.pow(10, Math.floor(Math.log10(room)));
  for (const m of [1, 2, 5, 10]) if (m * ten >= room) return m * ten;
  return 10 * ten;
}
function clipped(text, x, y, room) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y - 14, room, 20);
  pen.clip();
  pen.fillText(text, x, y);
  pen.restore();
}
function draw() {
  const top = box.scrollTop;
  pen.globalAlpha = 1;
  pen.fillStyle = ink.card;
  pen.fillRect(0, 0, width, shown);
  const step = tickStep(), digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let t = Math.ceil(from / 1e6 / step) * step; t * 1e6 <= to; t += step) ticks.push(t);
  pen.fillStyle = ink.grid;
  for (const t of ticks) pen.fillRect(xOf(t * 1e6), axisHeight - 4, 1, shown);
  const inView = y => y + headHeight > top + axisHeight && y < top + shown;
  pen.textAlign = 'left';
  for (const h of heads) {
    if (!inView(h.y)) continue;
    pen.fillStyle = ink.ink;
    clipped(h.text, 0, h.y - top + 16, width);
  }
  for (let i = lowest(tops, top + axisHeight - headHeight); i < rows.length; ++i) {
    const r = rows[i], y = r.y - top;
    if (!inView(r.y)) break;
    pen.fillStyle = ink.soft;
    clipped(labelOf(r), 0, y + 11, left - 6);
    pen.fillStyle = ink.lane;
    pen.fillRect(left, y, width - left, barHeight);
    pen.save();
    pen.beginPath();
    pen.rect(left, y - 2, width - left, rowHeight);
    pen.clip();
    for (let b = lowest(r.last, from); b < r.n && r.start[b] <= to; ++b) {
      if (r.end[b] < from) continue;
      const x = xOf(r.start[b]);
      pen.globalAlpha = matching && !matching[r.work[b]] ? 0.16 : 1;
      pen.fillStyle = colours[data.works[r.work[b]][1]];
      pen.fillRect(x, y, Math.max(0.6, xOf(r.end[b]) - x), barHeight);
    }
    pen.globalAlpha = 1;
    for (const at of [hover, chosen]) {
      if (!at || at.row !== i) continue;
      const x = xOf(r.start[at.bar]);
      pen.strokeStyle = ink.ink;
      pen.lineWidth = at === chosen ? 2 : 1;
      pen.strokeRect(x, y, Math.max(2, xOf(r.end[at.bar]) - x), barHeight);
    }
    pen.restore();
  }
  pen.fillStyle = ink.card;
  pen.fillRect(0, 0, width, axisHeight);
  pen.fillStyle = ink.soft;
  pen.fillText('ms', 0, 13);
  for (const t of ticks) {
    const text = t.toFixed(digits), room = pen.measureText(text).width;
    pen.fillText(text, Math.min(Math.max(left, xOf(t * 1e6) - room / 2), width - room), 13);
  }
  let free = left;
  for (const [at, text, isFault] of data.marks) {
    const x = xOf(at);
    if (x < left || x > width) continue;
    pen.fillStyle = isFault ? ink.bad : ink.soft;
    pen.fillRect(x, 18, isFault ? 2 : 1, shown);
    if (x < free) continue;
    clipped(text, x + 4, 28, width - x - 4);
    free = x + 10 + pen.measureText(text).width;
  }
}
const ms = ns => (ns / 1e6).toLocaleString('en', {maximumFractionDigits: 6, useGrouping: false}) + ' ms';
function bytesOf(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  for (; n >= 1000 && u + 1 < units.length; ++u) n /= 1024;
  return (u === 0 ? n : n.toPrecision(3)) + ' ' + units[u];
}
function textOf(at) {
  const r = rows[at.row], b = at.bar, [name, kind, bytes] = data.works[r.work[b]];
  return name + (r.more[b] ? ' and ' + r.more[b] + ' more' : '') + ': ' + ms(r.end[b] - r.start[b]) + ', from ' +
    ms(r.start[b]) + ' on' + (bytes ? ', ' + bytesOf(bytes) : '') + '; ' + data.kinds[kind][0] + ' on ' +
    data.ranks[r.rank] + ', ' + labelOf(r);
}
function say() {
  const at = hover || chosen;
  said.textContent = at ? textOf(at) : said.dataset.hint;
}
function barAt(x, y) {
  if (x < left || y < axisHeight) return null;
  const inside = y + box.scrollTop, i = lowest(tops, inside - rowHeight + 0.5);
  if (i >= rows.length || rows[i].y > inside) return null;
  const r = rows[i], ns = nsOf(x), slack = 2 * (to - from) / (width - left);
  for (let b = lowest(r.start, ns + slack) - 1; b >= 0 && r.last[b] >= ns - slack; --b)
    if (r.end[b] >= ns - slack) return {row: i, bar: b};
  return null;
}
function view(a, b) {
  const length = Math.min(Math.max(b - a, least), data.end);
  from = Math.min(Math.max(0, (a + b - length) / 2), data.end - length);
  to = from + length;
  later();
}
function zoom(factor, at) {
  const middle = at === undefined ? (from + to) / 2 : at;
  view(middle - (middle - from) * factor, middle + (to - middle) * factor);
}
function middleOfChosen() {
  return chosen ? (rows[chosen.row].start[chosen.bar] + rows[chosen.row].end[chosen.bar]) / 2 : undefined;
}
function choose(at) {
  chosen = at;
  hover = null;
  const r = rows[at.row], start = r.start[at.bar], end = r.end[at.bar];
  if (end < from || start > to) view(start - (to - from) / 2, start + (to - from) / 2);
  if (r.y - axisHeight - headHeight < box.scrollTop) box.scrollTop = r.y - axisHeight - headHeight;
  if (r.y + rowHeight > box.scrollTop + shown) box.scrollTop = r.y + rowHeight - shown;
  say();
  later();
}
function nearest(row, ns) {
  const r = rows[row];
  return {row, bar: Math.min(r.n - 1, Math.max(0, lowest(r.start, ns)))};
}
function search() {
  words = find.value.trim().toLowerCase();
  matching = words ? data.works.map(w => w[0].toLowerCase().includes(words)) : null;
  let count = 0, first = null;
  if (matching)
    rows.forEach((r, row) => {
      for (let bar = 0; bar < r.n; ++bar)
        if (matching[r.work[bar]]) {
          ++count;
          first = first || {row, bar};
        }
    });
  found.textContent = matching ? count + (count === 1 ? ' bar' : ' bars') : '';
  later();
  return first;
}
function next() {
  const first = search();
  if (!first) return;
  let row = chosen ? chosen.row : 0, bar = chosen ? chosen.bar + 1 : 0;
  for (; row < rows.length; ++row, bar = 0)
    for (; bar < rows[row].n; ++bar) if (matching[rows[row].work[bar]]) return choose({row, bar});
  choose(first);
}

box.addEventListener('scroll', later, {passive: true});
box.addEventListener('wheel', e => {
  if (!e.ctrlKey && !e.metaKey && !e.altKey) return;
  e.preventDefault();
  zoom(Math.exp(Math.max(-60, Math.min(60, e.deltaY)) / 200),
       nsOf(Math.max(left, e.clientX - canvas.getBoundingClientRect().left)));
}, {passive: false});
let drag = null;
canvas.addEventListener('pointerdown', e => { drag = {x: e.clientX, from, to, moved: false}; });
canvas.addEventListener('pointermove', e => {
  const place = canvas.getBoundingClientRect();
  if (drag && e.buttons) {
    const by = (drag.x - e.clientX) / (width - left) * (drag.to - drag.from);
    if (Math.abs(e.clientX - drag.x) > 3) drag.moved = true;
    if (drag.moved) view(drag.from + by, drag.to + by);
    return;
  }
  hover = barAt(e.clientX - place.left, e.clientY - place.top);
  canvas.title = hover ? textOf(hover) : '';
  say();
  later();
});
canvas.addEventListener('pointerup', e => {
  const place = canvas.getBoundingClientRect(), moved = drag && drag.moved;
  drag = null;
  const at = barAt(e.clientX - place.left, e.clientY - place.top);
  if (!moved && at) choose(at);
});
canvas.addEventListener('pointercancel', () => { drag = null; });
canvas.addEventListener('pointerleave', () => { hover = null; say(); later(); });
box.addEventListener('keydown', e => {
  const length = to - from;
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === '+' || e.key === '=') zoom(0.6, middleOfChosen());
  else if (e.key === '-') zoom(1 / 0.6, middleOfChosen());
  else if (e.key === '0') view(0, data.end);
  else if (e.shiftKey && e.key === 'ArrowLeft') view(from - length / 8, to - length / 8);
  else if (e.shiftKey && e.key === 'ArrowRight') view(from + length / 8, to + length / 8);
  else if (e.shiftKey && e.key === 'ArrowUp') zoom(0.6);
  else if (e.shiftKey && e.key === 'ArrowDown') zoom(1 / 0.6);
  else if (!rows.length) return;
  else if (/^Arrow/.test(e.key) && !chosen)
    choose(nearest(Math.min(rows.length - 1, lowest(tops, box.scrollTop + axisHeight)), from));
  else if (e.key === 'ArrowLeft') choose({row: chosen.row, bar: Math.max(0, chosen.bar - 1)});
  else if (e.key === 'ArrowRight') choose({row: chosen.row, bar: Math.min(rows[chosen.row].n - 1, chosen.bar + 1)});
  else if (e.key === 'ArrowUp' || e.key === 'ArrowDown') {
    const row = Math.min(rows.length - 1, Math.max(0, chosen.row + (e.key === 'ArrowUp' ? -1 : 1)));
    choose(nearest(row, rows[chosen.row].start[chosen.bar]));
  } else return;
  e.preventDefault();
});
document.getElementById('closer').addEventListener('click', () => zoom(0.6, middleOfChosen()));
document.getElementById('wider').addEventListener('click', () => zoom(1 / 0.6, middleOfChosen()));
document.getElementById('whole').addEventListener('click', () => view(0, data.end));
find.addEventListener('input', search);
find.addEventListener('keydown', e => {
  if (e.key === 'Enter') next();
  if (e.key === 'Escape') { find.value = ''; search(); }
});
window.addEventListener('resize', takeSize);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { takeColours(); later(); });
takeColours();
takeSize();
draw();
say();
})();
)js";

}  // namespace troupe::telemetry
