#include "apps/analyse/analysis_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "telemetry/analysis/step_graph.hpp"
#include "telemetry/report/lanes_page.hpp"

namespace troupe::apps {
namespace {

using core::text_of;

/// Largest number of waits that the page lists; JSON has all.
constexpr size_t listed_waits_max = 20;

std::string ms_text_of(double seconds) { return text_of("%.3f", 1e3 * seconds); }
std::string ms_text_of_ns(int64_t ns) { return ms_text_of(double(ns) / 1e9); }

/// Returns the step whose length is the median, of an even number the shorter one. Requires a step.
const telemetry::traced_step& median_step(const telemetry::kept_traces& t) {
  std::vector<size_t> order(t.steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return telemetry::bounds_of(t.steps[i]).length_ns(); });
  return t.steps[order[(order.size() - 1) / 2]];
}

/// Draws the median step of the traces into the picture, and returns its number.
core::result<uint64_t> draw(const analysed_traces& x, bool is_predicted, telemetry::lanes_picture& into) {
  const auto& step = median_step(x.traces);
  TROUPE_ASSIGN(const auto graph, telemetry::step_graph::of(step));
  into.add(graph, is_predicted);
  return step.number;
}

std::string name_of_share(const telemetry::path_share& p) { return p.idle ? "idle: " + p.kind : p.kind; }

/// Returns the rows of the critical path by kind, the measured order first. Without a prediction its column is left
/// out.
telemetry::page_table path_table_of(const telemetry::trace_analysis& measured,
                                    const telemetry::trace_analysis* predicted) {
  telemetry::page_table out{"Critical path",
                            "The pieces follow one another without gaps, so that they add up to the step; means over "
                            "the analysed steps.",
                            {"part", "sort", "ms", "of the step"},
                            {}};
  if (predicted != nullptr) out.head.emplace_back("predicted ms");
  const auto time_of = [](const telemetry::trace_analysis& a, const telemetry::path_share& like) {
    const auto at = std::ranges::find_if(
        a.path, [&](const auto& p) { return p.kind == like.kind && p.idle == like.idle && p.sort == like.sort; });
    return at == a.path.end() ? int64_t{0} : at->ns;
  };
  const auto add = [&](const telemetry::path_share& p, int64_t ns) {
    out.rows.push_back({name_of_share(p), std::string(telemetry::name_of(p.sort)), ms_text_of_ns(ns),
                        text_of("%.1f %%", measured.step_s > 0 ? 1e-7 * double(ns) / measured.step_s : 0.0)});
    if (predicted != nullptr) out.rows.back().push_back(ms_text_of_ns(time_of(*predicted, p)));
  };
  for (const auto& p : measured.path) add(p, p.ns);
  if (predicted != nullptr)
    for (const auto& p : predicted->path)
      if (time_of(measured, p) == 0 && p.ns > 0) add(p, 0);
  out.rows.push_back({"in all", "", ms_text_of(measured.step_s), "100.0 %"});
  if (predicted != nullptr) out.rows.back().push_back(ms_text_of(predicted->step_s));
  return out;
}

telemetry::page_table exposed_table_of(const telemetry::trace_analysis& measured,
                                       const telemetry::trace_analysis* predicted) {
  telemetry::page_table out{"Exposed communication",
                            "Exposed is time in which a collective moves data and its rank neither computes nor "
                            "updates; means over the ranks.",
                            {"communication", "number", "ms", "exposed ms"},
                            {}};
  if (predicted != nullptr) out.head.insert(out.head.end(), {"predicted ms", "predicted exposed ms"});
  std::set<std::string> listed;
  const auto add = [&](const std::string& kind) {
    if (!listed.insert(kind).second) return;
    const auto of = [&](const telemetry::trace_analysis& a) {
      const auto at = std::ranges::find(a.exposed, kind, &telemetry::exposed_kind::kind);
      return at == a.exposed.end() ? telemetry::exposed_kind{} : *at;
    };
    const auto here = of(measured);
    out.rows.push_back(
        {kind, fmt::to_string(here.count), ms_text_of_ns(here.moving_ns), ms_text_of_ns(here.exposed_ns)});
    if (predicted == nullptr) return;
    const auto there = of(*predicted);
    out.rows.back().push_back(ms_text_of_ns(there.moving_ns));
    out.rows.back().push_back(ms_text_of_ns(there.exposed_ns));
  };
  for (const auto& e : measured.exposed) add(e.kind);
  if (predicted != nullptr)
    for (const auto& e : predicted->exposed) add(e.kind);
  return out;
}

telemetry::page_table waits_table_of(const telemetry::trace_analysis& a) {
  telemetry::page_table out{"Who waited for whom", "", {"rank", "waited for rank", "ms a step"}, {}};
  for (const auto& w : a.waits) {
    if (out.rows.size() == listed_waits_max) break;
    out.rows.push_back({fmt::to_string(w.rank), fmt::to_string(w.for_rank), ms_text_of_ns(w.ns)});
  }
  if (a.waits.size() > listed_waits_max)
    out.note = fmt::format("The {} longest of {}; --json has all.", listed_waits_max, a.waits.size());
  return out;
}

telemetry::page_table changes_table_of(const telemetry::trace_analysis& a) {
  telemetry::page_table out{"What would gain most", "Each change was replayed.", {"change", "cause", "gain, ms"}, {}};
  for (const auto& c : a.changes)
    out.rows.push_back({core::printable_line(c.sentence), c.is_cause ? "yes" : "no", ms_text_of(c.gain_s)});
  return out;
}

/// Returns a sentence about measured ranks that the prediction does not have; empty if there are none.
std::string unpredicted_text(const telemetry::kept_traces& measured, const telemetry::kept_traces& predicted) {
  const auto& with = predicted.steps.front().ranks;
  const auto& all = measured.steps.front().ranks;
  const auto without = std::ranges::count_if(all, [&](uint32_t r) { return !std::ranges::binary_search(with, r); });
  if (without == 0) return {};
  return fmt::format(
      "{} of {} ranks have no predicted lanes: the prediction has one rank of each class of ranks that are "
      "alike, or another number of ranks.",
      without, all.size());
}

}  // namespace

core::result<std::string> analysis_as_page(const analysed_traces& measured, const analysed_traces* predicted) {
  const auto& a = measured.found;
  telemetry::lanes_page page;
  page.title = "Analysed: " + core::printable_line(measured.of);
  page.summary = fmt::format("A step of {} rank{} takes {} ms", a.ranks, a.ranks == 1 ? "" : "s", ms_text_of(a.step_s));
  if (predicted != nullptr) page.summary += fmt::format("; {} ms were predicted", ms_text_of(predicted->found.step_s));
  page.summary += fmt::format(", in the mean of {} of {} steps.", a.steps.size(), a.steps_seen);
  TROUPE_ASSIGN(const uint64_t drawn, draw(measured, false, page.picture));
  page.notes.push_back(fmt::format("The lanes are those of step {}, whose length is the median.", drawn));
  if (predicted != nullptr) {
    TROUPE_ASSIGN(const uint64_t foretold, draw(*predicted, true, page.picture));
    page.notes.push_back(fmt::format("Above each lane is the predicted one, of step {} of {}.", foretold,
                                     core::printable_line(predicted->of)));
    if (auto text = unpredicted_text(measured.traces, predicted->traces); !text.empty())
      page.notes.push_back(std::move(text));
  }
  for (const auto& note : a.notes) page.notes.push_back(note);
  const auto* foretold = predicted == nullptr ? nullptr : &predicted->found;
  page.tables.push_back(path_table_of(a, foretold));
  if (auto t = exposed_table_of(a, foretold); !t.rows.empty()) page.tables.push_back(std::move(t));
  if (auto t = waits_table_of(a); !t.rows.empty()) page.tables.push_back(std::move(t));
  if (auto t = changes_table_of(a); !t.rows.empty()) page.tables.push_back(std::move(t));
  return telemetry::page_of(std::move(page));
}

}  // namespace troupe::apps
