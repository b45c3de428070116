#include "telemetry/report/lanes_page.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "telemetry/report/lanes_script.hpp"
#include "telemetry/report/page_parts.hpp"
#include "telemetry/report/report_style.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

// Returns a text as a JSON string that cannot end the element which contains it.
std::string script_string(std::string_view text) {
  std::string out;
  for (const char c : json_string(text)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

// Returns the bars of a row as flat numbers, four for each: nanoseconds since the start of the bar before, nanoseconds
// of the bar, its work, and how many more instructions are in it.
std::string bars_json(const picture_row& r) {
  std::string out = "[";
  int64_t before_ns = 0;
  for (const auto& b : r.bars) {
    out += fmt::format("{}{},{},{},{}", out.size() > 1 ? "," : "", b.start_ns - before_ns, b.end_ns - b.start_ns,
                       b.work, b.more);
    before_ns = b.start_ns;
  }
  return out + "]";
}

// Returns the picture as the JSON object that the script reads.
std::string picture_json(const lanes_picture& p) {
  std::string kinds, works, ranks, rows, marks;
  const auto add = [](std::string& list, const std::string& one) { list += (list.empty() ? "" : ",\n") + one; };
  for (const auto& k : p.kinds()) add(kinds, fmt::format("[{},{}]", script_string(k.name), script_string(k.colour)));
  for (const auto& w : p.works()) add(works, fmt::format("[{},{},{}]", script_string(w.name), w.kind, w.bytes));
  for (const auto& m : p.marks())
    add(marks, fmt::format("[{},{},{}]", m.at_ns, script_string(m.text), m.is_fault ? 1 : 0));
  std::map<uint32_t, size_t> place;
  for (const auto* r : p.rows()) {
    const auto [at, is_new] = place.try_emplace(r->rank, place.size());
    if (is_new) add(ranks, script_string(p.title_of(r->rank)));
    add(rows, fmt::format("[{},{},{},{}]", at->second, script_string(r->lane), r->is_predicted ? 1 : 0, bars_json(*r)));
  }
  return fmt::format(
      "{{\"end\":{},\n\"kinds\":[{}],\n\"works\":[{}],\n\"ranks\":[{}],\n\"marks\":[{}],\n\"rows\":[{}]}}", p.end_ns(),
      kinds, works, ranks, marks, rows);
}

std::string legend_of(const lanes_picture& p) {
  std::string out = "<p class=\"legend\">";
  for (const auto& k : p.kinds()) {
    const std::string name = html_escaped(k.name);
    out += k.colour.empty() ? "<span><i class=\"key\" style=\"background:var(--soft)\"></i>" + name + "</span> "
                            : "<span><i class=\"key x-" + html_escaped(k.colour) + "\"></i>" + name + "</span> ";
  }
  return out + "</p>\n";
}

std::string thinning_text(const picture_thinning& t) {
  std::string out;
  if (t.drawn_ranks < t.ranks)
    out += fmt::format("<p><b>{} of {} ranks are drawn</b>, evenly spaced.</p>\n", t.drawn_ranks, t.ranks);
  if (t.bars < t.instructions)
    out += fmt::format(
        "<p><b>{} instructions are drawn as {} bars</b>: an instruction that ends within {} of the start of a bar is "
        "merged into that bar, which keeps the name and the colour of its first instruction.</p>\n",
        t.instructions, t.bars, text_of("%.6g ms", double(t.merged_ns) / 1e6));
  return out;
}

std::string lanes_of(lanes_picture& p) {
  const picture_thinning thinned = p.thin();
  if (thinned.bars == 0 || p.end_ns() <= 0) return "<p class=\"quiet\">No instruction ran.</p>\n";
  static constexpr const char* hint =
      "Point at a bar, or press an arrow key in the picture, to read what it is. + and - zoom, as do Ctrl and the "
      "wheel; "
      "Shift and an arrow key move; 0 shows all.";
  return thinning_text(thinned) +
         "<div class=\"card\">\n<div class=\"tools\"><button type=\"button\" id=\"closer\" aria-label=\"zoom in\">+"
         "</button><button type=\"button\" id=\"wider\" aria-label=\"zoom out\">-</button><button type=\"button\" "
         "id=\"whole\">all</button><input id=\"find\" type=\"search\" placeholder=\"search instructions\" "
         "aria-label=\"search instructions by name\"/><span id=\"found\" role=\"status\"></span></div>\n"
         "<div id=\"lanes\" tabindex=\"0\" role=\"application\" aria-label=\"lanes of ranks over time\" "
         "aria-describedby=\"said\"><div id=\"tall\"><canvas></canvas></div></div>\n<p id=\"said\" "
         "aria-live=\"polite\" "
         "data-hint=\"" +
         html_escaped(hint) + "\">" + html_escaped(hint) + "</p>\n" + legend_of(p) +
         "</div>\n<noscript><p class=\"failure\">A script draws the lanes, and this browser runs none. The tables need "
         "none.</p></noscript>\n<script type=\"application/json\" id=\"lanes-data\">" +
         picture_json(p) + "</script>\n";
}

std::string as_html(const page_table& t) {
  cells head;
  for (const auto& c : t.head) head.push_back(html_escaped(c));
  std::string rows;
  for (const auto& r : t.rows) {
    cells escaped;
    for (const auto& c : r) escaped.push_back(html_escaped(c));
    rows += telemetry::row_of(escaped, "td");
  }
  return "<h2>" + html_escaped(t.heading) + "</h2>\n" +
         (t.note.empty() ? "" : "<p class=\"quiet\">" + html_escaped(t.note) + "</p>\n") + table_of(head, rows);
}

}  // namespace

std::string page_of(lanes_page page) {
  const std::string title = html_escaped(page.title);
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline';"
      "script-src 'unsafe-inline'\">\n<title>" +
      title + "</title>\n<style>" + report_style + kind_style() + lanes_page_style +
      "</style></head>\n<body><main>\n<header><h1>" + title + "</h1>\n<p>" + html_escaped(page.summary) + "</p>\n";
  for (const auto& e : page.errors) out += "<p class=\"failure\">" + html_escaped(e) + "</p>\n";
  out += "</header>\n";
  for (const auto& n : page.notes) out += "<p class=\"quiet\">" + html_escaped(n) + "</p>\n";
  const std::string lanes = lanes_of(page.picture);
  out += "<h2>Lanes</h2>\n" + lanes;
  for (const auto& t : page.tables) out += as_html(t);
  out += "<footer>Written by Troupe.</footer>\n</main>\n";
  if (lanes.find("lanes-data") != std::string::npos) out += std::string("<script>") + lanes_script + "</script>\n";
  return out + "</body></html>\n";
}

}  // namespace troupe::telemetry
