#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/text.hpp"
#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/report/chart.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

constexpr double width = 960, left = 122, right = 952, row = 19, bar = 14, least_width = 0.6;

struct drawn {
  double from = 0, to = 0;  // start and end of a bar in pixels
  plan::kind kind{};
  std::string what;
  uint64_t count = 1;
};

struct scale {
  int64_t begin_ns, end_ns;
  [[nodiscard]] double px(int64_t ns) const {
    return left + (right - left) * double(ns - begin_ns) / double(std::max<int64_t>(1, end_ns - begin_ns));
  }
};

std::string title_of(const plan::rank_plan& p, const plan::instruction& x, const interval& i) {
  const std::string place = plan::place_text(*p.layout, x);
  std::string out =
      p.describe(x.id) + (place.empty() ? "" : ", " + place) + text_of(": %.3f ms", double(i.length_ns()) / 1e6);
  if (x.moved_bytes > 0) out += ", " + core::human_bytes(x.moved_bytes);
  return out;
}

// Returns the bars of a lane, one per instruction. An instruction that ends less than `narrow` pixels after the start
// of the previous bar is merged into that bar, which keeps its kind and colour.
std::vector<drawn> bars_of(const rank_spans& rank, const posted_times& posted, plan::lane lane, const scale& s,
                           double narrow) {
  const auto& p = *rank.plan;
  std::vector<std::pair<interval, uint32_t>> in_time;
  for (uint32_t id : p.lanes[static_cast<size_t>(lane)])
    in_time.emplace_back(lane == plan::lane::fabric ? moving(rank, id, posted) : rank.spans[id], id);
  std::stable_sort(in_time.begin(), in_time.end(),
                   [](const auto& a, const auto& b) { return a.first.start_ns < b.first.start_ns; });
  std::vector<drawn> out;
  for (const auto& [i, id] : in_time) {
    const auto& x = p.instructions[id];
    if (plan::row_of(x.kind).colour.light.empty()) continue;
    const double from = s.px(i.start_ns), to = s.px(i.end_ns);
    if (!out.empty() && to - out.back().from < narrow) {
      out.back().to = std::max(out.back().to, to);
      ++out.back().count;
      continue;
    }
    out.push_back({from, to, x.kind, title_of(p, x, i)});
  }
  return out;
}

std::string as_rectangle(const drawn& d, double y) {
  std::string title = html_escaped(d.what);
  if (d.count > 1) title += text_of(" and %llu more", static_cast<unsigned long long>(d.count - 1));
  return text_of("<rect class=\"x-%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\">",
                 std::string(plan::name_of(d.kind)).c_str(), d.from, y, std::max(least_width, d.to - d.from), bar) +
         "<title>" + title + "</title></rect>";
}

std::string time_axis(const scale& s, double bottom) {
  const double ms = double(s.end_ns - s.begin_ns) / 1e6;
  double step = std::pow(10.0, std::floor(std::log10(std::max(1e-6, ms / 5))));
  for (double m : {2.0, 2.5, 2.0})
    if (ms / step > 10) step *= m;
  std::string out;
  for (double t = 0; t <= ms; t += step) {
    const double x = s.px(s.begin_ns + static_cast<int64_t>(t * 1e6));
    out +=
        text_of("<path class=\"grid\" d=\"M%.1f 0V%.0f\"/><text class=\"tick mid\" x=\"%.1f\" y=\"%.0f\">%g%s</text>",
                x, bottom, std::min(x, right - 14), bottom + 15, t, t == 0 ? " ms" : "");
  }
  return out;
}

// Returns the positions in `step` of the ranks to draw, ascending. If there are too many ranks, returns the first
// ranks; in a pipeline, the ranks of the first whole copies of the model.
std::vector<size_t> drawn_ranks(std::span<const rank_spans> step) {
  std::vector<size_t> out(step.size());
  std::iota(out.begin(), out.end(), size_t{0});
  if (out.size() <= drawn_ranks_limit) return out;
  const core::axis_set others = core::axis_set{core::axis::pipeline}.complement();
  std::ranges::stable_sort(out, {}, [&](size_t r) {
    const auto& mesh = step[r].plan->options().mesh;
    return mesh.degree(core::axis::pipeline) == 1 ? 0 : mesh.position(step[r].plan->rank, others);
  });
  out.resize(drawn_ranks_limit);
  std::ranges::sort(out);
  return out;
}

constexpr size_t label_room = 14;  // number of characters of small text that fit to the left of the lanes' names

// Returns the label next to a rank's lanes: the rank, and below it its stages, or their number.
std::string label_of(const plan::rank_plan& p, double y) {
  std::string out = text_of("<text class=\"who\" x=\"0\" y=\"%.1f\">rank %u</text>", y + 11, p.rank);
  auto stages = plan::stages_text(*p.layout, p.rank);
  if (stages.empty()) return out;
  if (stages.size() > label_room)
    stages = fmt::format("{} stages", plan::stages_of(*p.layout, p.options().mesh.pipeline_at(p.rank)).size());
  return out + text_of("<text class=\"tick\" x=\"0\" y=\"%.1f\">", y + row + 11) + stages + "</text>";
}

}  // namespace

std::string lanes_svg(std::span<const rank_spans> step) {
  const auto shown = drawn_ranks(step);
  const size_t ranks = shown.size();
  scale s{INT64_MAX, INT64_MIN};
  for (const size_t r : shown)
    for (const auto& i : step[r].spans) {
      s.begin_ns = std::min(s.begin_ns, i.start_ns);
      s.end_ns = std::max(s.end_ns, i.end_ns);
    }
  if (ranks == 0 || s.end_ns <= s.begin_ns) return "<p class=\"quiet\">no step was recorded</p>\n";
  const double narrow = std::max(least_width, (right - left) * double(ranks * plan::num_lanes) / drawn_spans_limit);
  const posted_times posted(step);
  std::string bars;
  std::set<plan::kind> kinds;
  double y = 4;
  for (const size_t r : shown) {
    for (const auto lane : {plan::lane::control, plan::lane::compute, plan::lane::fabric, plan::lane::shard,
                            plan::lane::writer, plan::lane::io}) {
      const auto drawn_bars = bars_of(step[r], posted, lane, s, narrow);
      double busy = 0;
      for (const auto& d : drawn_bars) busy += d.to - d.from;
      // Omits the control lane if it waited for data for less than 1% of the step.
      if (lane == plan::lane::control && busy < 0.01 * (right - left)) continue;
      // omits writer and io lanes without instructions: the step has no checkpoint or no swap files
      if (lane > plan::lane::shard && drawn_bars.empty()) continue;
      if (lane == plan::lane::compute) bars += label_of(*step[r].plan, y);
      bars += text_of("<text class=\"tick end\" x=\"%.0f\" y=\"%.1f\">", left - 8, y + 11) +
              std::string(plan::name_of(lane)) + "</text>" +
              text_of("<rect class=\"lane\" x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\"/>", left, y,
                      right - left, bar);
      for (const auto& d : drawn_bars) {
        bars += as_rectangle(d, y);
        kinds.insert(d.kind);
      }
      y += row;
    }
    y += 8;
  }
  std::string out = text_of(
                        "<div class=\"wide\"><svg class=\"lanes\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                        "aria-label=\"lanes of one step\">",
                        width, y + 18) +
                    time_axis(s, y) + bars + "</svg></div>\n<p class=\"legend\">";
  for (const auto k : kinds) {
    const std::string name(plan::name_of(k));
    out += "<span><i class=\"key x-" + name + "\"></i>" + name + "</span> ";
  }
  out += "</p>\n";
  if (step.size() > ranks) out += text_of("<p class=\"quiet\">%zu of %zu ranks.</p>\n", ranks, step.size());
  return out;
}

}  // namespace troupe::telemetry
