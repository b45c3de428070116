#include "apps/analyse/analysis_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/text.hpp"

namespace troupe::apps {
namespace {

using json = nlohmann::ordered_json;

/// Number of rows that a table of the text shows; JSON has all.
constexpr size_t rows_shown = 10;

/// Least share of the step of a wait that the text shows.
constexpr double least_wait_share = 0.005;

std::string ms_of(int64_t ns) { return core::text_of("%.3f", double(ns) / 1e6); }

std::string percent_of(int64_t ns, double step_s) {
  return core::text_of("%.1f %%", step_s > 0 ? 100 * double(ns) / 1e9 / step_s : 0.0);
}

std::string name_of_part(const telemetry::path_share& p) {
  return p.idle ? "idle: " + core::shown(p.kind) : core::shown(p.kind);
}

/// Returns the predicted time of the same part of the critical path, in ms; "-": the prediction has none.
std::string predicted_part(const telemetry::trace_analysis& predicted, const telemetry::path_share& of) {
  const auto at =
      std::ranges::find_if(predicted.path, [&](const auto& p) { return p.kind == of.kind && p.idle == of.idle; });
  return at == predicted.path.end() ? "-" : ms_of(at->ns);
}

std::string path_table(const telemetry::trace_analysis& a, const telemetry::trace_analysis* predicted) {
  std::vector<std::vector<std::string>> rows{{"critical path", "sort", "ms", "of the step"}};
  if (predicted != nullptr) rows.front().emplace_back("predicted ms");
  int64_t rest = 0;
  for (size_t i = 0; i < a.path.size(); ++i) {
    const auto& p = a.path[i];
    if (i >= rows_shown) {
      rest += p.ns;
      continue;
    }
    rows.push_back({name_of_part(p), std::string(name_of(p.sort)), ms_of(p.ns), percent_of(p.ns, a.step_s)});
    if (predicted != nullptr) rows.back().push_back(predicted_part(*predicted, p));
  }
  if (rest > 0) rows.push_back({"others", "", ms_of(rest), percent_of(rest, a.step_s)});
  for (auto& row : rows) row.resize(rows.front().size());
  return core::aligned(rows, {false, false, true, true, true});
}

std::string exposed_table(const telemetry::trace_analysis& a, const telemetry::trace_analysis* predicted) {
  if (a.exposed.empty()) return {};
  std::vector<std::vector<std::string>> rows{{"communication", "number", "ms", "exposed ms", "of the step"}};
  if (predicted != nullptr) rows.front().emplace_back("predicted exposed ms");
  for (const auto& e : a.exposed) {
    rows.push_back({core::shown(e.kind), fmt::to_string(e.count), ms_of(e.moving_ns), ms_of(e.exposed_ns),
                    percent_of(e.exposed_ns, a.step_s)});
    if (predicted == nullptr) continue;
    const auto at = std::ranges::find(predicted->exposed, e.kind, &telemetry::exposed_kind::kind);
    rows.back().push_back(at == predicted->exposed.end() ? "-" : ms_of(at->exposed_ns));
  }
  return "\n" + core::aligned(rows, {false, true, true, true, true, true});
}

/// Returns the predicted step beside the measured one, or why there is none, as a line.
std::string prediction_line(const telemetry::trace_analysis& a, const shown_prediction& predicted) {
  if (predicted.found == nullptr)
    return predicted.why_none.empty() ? "" : fmt::format("no prediction: {}\n", predicted.why_none);
  return fmt::format("predicted: {} ms a step ({:+.0f} %), by {}\n", ms_of(int64_t(1e9 * predicted.found->step_s)),
                     100 * (predicted.found->step_s / a.step_s - 1), predicted.source);
}

std::string waits_text(const telemetry::trace_analysis& a) {
  std::string out;
  for (size_t i = 0; i < std::min(rows_shown, a.waits.size()); ++i) {
    const auto& w = a.waits[i];
    if (double(w.ns) / 1e9 < least_wait_share * a.step_s) continue;
    out +=
        fmt::format("rank {} waited {} ms a step for rank {}, which arrived last\n", w.rank, ms_of(w.ns), w.for_rank);
  }
  return out.empty() ? out : "\n" + out;
}

std::string changes_text(const telemetry::trace_analysis& a) {
  std::string out = "\n";
  const auto causes = std::ranges::count_if(a.changes, &telemetry::proposed_change::is_cause);
  if (causes == 0) out += "no cause is named: no change gains enough\n";
  size_t number = 0;
  for (const auto& c : a.changes)
    out += fmt::format("{}. {}{}\n", ++number, c.is_cause ? "cause: " : "", core::printable_line(c.sentence));
  return out;
}

json path_json(const std::vector<telemetry::path_share>& path) {
  json out = json::array();
  for (const auto& p : path)
    out.push_back({{"kind", p.kind}, {"sort", name_of(p.sort)}, {"idle", p.idle}, {"seconds", double(p.ns) / 1e9}});
  return out;
}

json exposed_json(const std::vector<telemetry::exposed_kind>& exposed) {
  json out = json::array();
  for (const auto& e : exposed)
    out.push_back({{"kind", e.kind},
                   {"number", e.count},
                   {"seconds", double(e.moving_ns) / 1e9},
                   {"exposed_seconds", double(e.exposed_ns) / 1e9}});
  return out;
}

json waits_json(const std::vector<telemetry::rank_wait>& waits) {
  json out = json::array();
  for (const auto& w : waits)
    out.push_back({{"rank", w.rank}, {"for_rank", w.for_rank}, {"seconds", double(w.ns) / 1e9}});
  return out;
}

}  // namespace

std::string analysis_as_text(const telemetry::trace_analysis& a, const std::string& of,
                             const shown_prediction& predicted) {
  const size_t kept = a.steps.size();
  std::string out = kept == 1 ? fmt::format("step {}", a.steps.front().number)
                              : fmt::format("steps {} to {}", a.steps.front().number, a.steps.back().number);
  if (kept < a.steps_seen) out += fmt::format(" of the {} in the trace", a.steps_seen);
  out += fmt::format(" of {}, {} rank{}: {} a step\n\n", of, a.ranks, a.ranks == 1 ? "" : "s",
                     core::text_of("%.3f ms", 1e3 * a.step_s));
  if (a.pause_s > 0) out.insert(out.size() - 2, core::text_of(", and %.3f ms between two steps", 1e3 * a.pause_s));
  if (const auto line = prediction_line(a, predicted); !line.empty()) out += line + "\n";
  for (const auto& note : a.notes) out += "note: " + note + "\n";
  return out + path_table(a, predicted.found) + exposed_table(a, predicted.found) + waits_text(a) + changes_text(a);
}

std::string analysis_as_json(const telemetry::trace_analysis& a, const shown_prediction& predicted) {
  json changes = json::array(), steps = json::array();
  for (const auto& c : a.changes) {
    json one{{"sentence", c.sentence}, {"is_cause", c.is_cause}, {"gain_seconds", c.gain_s}, {"gain_share", c.share}};
    if (!c.subject.empty()) one["subject"] = c.subject;
    if (c.ratio > 0) one["ratio"] = c.ratio;
    if (!c.key.empty()) one["key"] = c.key;
    changes.push_back(std::move(one));
  }
  for (const auto& s : a.steps)
    steps.push_back({{"step", s.number},
                     {"seconds", double(s.length_ns) / 1e9},
                     {"critical_path", path_json(s.path)},
                     {"communication", exposed_json(s.exposed)},
                     {"waits", waits_json(s.waits)}});
  json foretold;  // null: there is no prediction
  if (predicted.found != nullptr)
    foretold = {{"step_seconds", predicted.found->step_s},
                {"rates", predicted.source},
                {"critical_path", path_json(predicted.found->path)},
                {"communication", exposed_json(predicted.found->exposed)}};
  const json out{{"format", "troupe analysis"},
                 {"version", 1},
                 {"trace_of", a.program == telemetry::trace_program::troupe ? "troupe" : "torch.profiler"},
                 {"ranks", a.ranks},
                 {"steps_in_trace", a.steps_seen},
                 {"step_seconds", a.step_s},
                 {"pause_seconds", a.pause_s},
                 {"critical_path", path_json(a.path)},
                 {"communication", exposed_json(a.exposed)},
                 {"waits", waits_json(a.waits)},
                 {"changes", std::move(changes)},
                 {"steps", std::move(steps)},
                 {"predicted", std::move(foretold)},
                 {"notes", a.notes}};
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::apps
