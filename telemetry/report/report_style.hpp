// Owns the look of a report: light and dark, wide and narrow. The colours of instruction kinds are in the kinds' rows
// (plan/kinds.cpp).
#pragma once

namespace troupe::telemetry {

inline constexpr const char* report_style = R"css(
:root{color-scheme:light dark;--page:#fbfbf9;--card:#fff;--ink:#1d2126;--soft:#69707a;--line:#e4e5e1;--grid:#eeeeea;
--c1:#2b6cb0;--c2:#c2571a;--good:#2c7a4b;--warn:#96690c;--bad:#b3362b;--lane:#f4f4f1}
@media(prefers-color-scheme:dark){:root{--page:#15181c;--card:#1b1f24;--ink:#e4e7ea;--soft:#949ca6;--line:#2c3138;
--grid:#262b31;--c1:#6db0ee;--c2:#eb9150;--good:#68bd8b;--warn:#d8ab4e;--bad:#ee7d72;--lane:#20252b}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}
main{max-width:1180px;margin:0 auto;padding:36px 24px 56px}
header{border-bottom:1px solid var(--line);padding-bottom:18px;margin-bottom:22px}
h1{font-size:26px;line-height:1.25;font-weight:650;margin:0 0 6px;overflow-wrap:anywhere;letter-spacing:-.01em}
h2{font-size:16px;font-weight:650;margin:38px 0 10px}
p{margin:6px 0}
.quiet,figcaption span,dt,th,footer{color:var(--soft)}
.verdict{font-weight:650}.done{color:var(--good)}.stopped{color:var(--warn)}.failed{color:var(--bad)}
.failure{border-left:3px solid var(--bad);padding:6px 0 6px 14px;margin:14px 0 0;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:18px 22px;margin:0}
p+dl,pre+dl{margin-top:30px}
dt{font-size:13px}dd{margin:0;font-size:20px;font-weight:600;line-height:1.3}dd small{font-size:13px;font-weight:400;
color:var(--soft)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:16px}
.card{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px 8px;min-width:0}
figcaption{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 12px;font-size:13.5px;margin-bottom:4px}
figcaption b{font-weight:600}
svg{display:block;width:100%;height:auto;overflow:visible}
.grid{stroke:var(--grid);fill:none}.tick{fill:var(--soft);font-size:11px}.end{text-anchor:end}.mid{text-anchor:middle}
.line,.raw{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}.raw{stroke-width:1;opacity:.38}
.line,.raw,.grid{vector-effect:non-scaling-stroke}
@media(min-width:900px){.charts .tick{font-size:7.6px}}
.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.dot{stroke-width:1.6;fill:var(--card)}
.wide{overflow-x:auto}.lanes{min-width:760px}.lane{fill:var(--lane)}.who{fill:var(--ink);font-size:12px;font-weight:600}
.key{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:6px}
.k1{background:var(--c1)}.k2{background:var(--c2)}
.legend{font-size:13px;color:var(--soft);display:flex;flex-wrap:wrap;gap:2px 18px;margin:10px 0 2px}
table{border-collapse:collapse;font-size:13.5px;width:100%}
th,td{padding:5px 12px 5px 0;text-align:right;border-bottom:1px solid var(--line);font-weight:400;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th:last-child,td:last-child{padding-right:0}
tbody tr:last-child td{border-bottom:0}.sum td{font-weight:600}.sub td:first-child{padding-left:18px;color:var(--soft)}
.bar{display:flex;height:14px;border-radius:3px;overflow:hidden;background:var(--lane);margin:4px 0 8px}
.bar i{display:block;min-width:1px}
details{border:1px solid var(--line);border-radius:8px;background:var(--card);padding:10px 14px}
summary{cursor:pointer;font-weight:600}
pre{margin:10px 0 4px;overflow-x:auto;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace}
.text{white-space:pre-wrap;overflow-wrap:anywhere}
footer{margin-top:38px;padding-top:14px;border-top:1px solid var(--line);font-size:13px}a{color:var(--c1)}
@media(max-width:600px){main{padding:22px 16px 40px}h1{font-size:22px}dl{grid-template-columns:1fr 1fr;gap:14px}
dd{font-size:18px}h2{margin-top:30px}}
@media print{.card,details{break-inside:avoid}}
)css";

/// CSS classes `.m0` to `.m9` for owners of memory, in colours of kinds of instructions.
inline constexpr const char* report_colours = R"css(
.m0{background:var(--backward)}.m1{background:var(--gather)}.m2{background:var(--forward)}.m3{background:var(--update)}
.m4{background:var(--reduce)}.m5{background:var(--publish)}.m6{background:var(--recompute)}.m7{background:var(--orthogonalise)}.m8{background:var(--vote)}.m9{background:var(--snapshot)}
)css";

}  // namespace troupe::telemetry
