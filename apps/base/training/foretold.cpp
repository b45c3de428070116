#include "apps/base/training/foretold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.hpp"
#include "plan/kinds.hpp"

namespace troupe::apps {
namespace {

/// Number of first steps that are not compared, because caches and pages are cold.
constexpr uint64_t first_steps = 2;
/// Largest number of steps whose times are kept for their median.
constexpr size_t most_kept_seconds = 100'000;

std::string time_text(double s) { return s < 1 ? core::text_of("%.1f ms", 1e3 * s) : core::text_of("%.2f s", s); }

/// Returns "A, measured B".
std::string beside(const std::string& predicted, const std::string& measured) {
  return predicted + ", measured " + measured;
}

/// Returns the kind of instruction whose time that nothing hides differs most from the predicted one, as a clause.
std::string blamed(const foretold& x) {
  const bool is_slow = x.measured.step_s > x.predicted.step_s;
  double most = x.measured.division.idle_s - x.predicted.division.idle_s;
  // The direction of the whole step is explained, not what differs the other way.
  if ((most > 0) != is_slow) most = 0;
  std::string what = "waits between instructions";
  auto kinds = x.predicted.division.exposed_s;  // [kind]: measured less predicted
  for (auto& [kind, seconds] : kinds) seconds = -seconds;
  for (const auto& [kind, seconds] : x.measured.division.exposed_s) kinds[kind] += seconds;
  for (const auto& [kind, difference] : kinds)
    if ((difference > 0) == is_slow && std::abs(difference) > std::abs(most)) {
      most = difference;
      what = fmt::format("`{}`", plan::name_of(kind));
    }
  if (most == 0) return "; no kind of instruction explains it";
  return fmt::format("; {} took {} {}", what, time_text(std::abs(most)), most > 0 ? "longer" : "less");
}

std::string figures_json(const step_figures& f) {
  return fmt::format("{{\"step_s\":{},\"exposed_s\":{},\"disk_s\":{},\"memory_bytes\":{}}}",
                     core::number_text(f.step_s), core::number_text(f.exposed_s), core::number_text(f.disk_s),
                     f.memory_bytes);
}

}  // namespace

void compared_steps::add(const actors::step_report& r) {
  const bool follows_evaluation = std::exchange(follows_evaluation_, false);
  if (r.first_of_plan) {
    const uint64_t plans = plans_ + 1;
    *this = {};
    plans_ = plans;
  }
  if (follows_evaluation) return;
  if (r.skipped || r.saved || r.spike) return;
  if (cold_ < first_steps) {
    ++cold_;
    return;
  }
  if (seconds_.size() < most_kept_seconds) seconds_.push_back(r.seconds);
  telemetry::add_step(means_, r.lanes, ++number_);
}

step_figures compared_steps::figures(uint64_t memory_bytes) const {
  auto seconds = seconds_;
  const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  auto division = means_.division;
  division.idle_s += means_.control.between_s;
  return {*middle, means_.exposed_s, means_.io.stalled_s, memory_bytes, std::move(division)};
}

std::string not_foretold_text(uint32_t ranks) {
  if (ranks <= most_foretold_ranks) return {};
  return fmt::format(
      "the step is not predicted: a run of up to {} ranks is, and this one has {}; troupe simulate predicts any number",
      most_foretold_ranks, ranks);
}

step_figures figures_of(const plan::timeline& t) {
  const auto spans = telemetry::spans_of(t);
  const auto summary = telemetry::summarise(spans);
  uint64_t bytes = 0;
  for (size_t i = 0; i < t.plans.size(); ++i)
    bytes += t.plans[i]->memory.total() * (i < t.stands_for.size() ? t.stands_for[i] : 1);
  return {t.step_s, summary.exposed_s, summary.io.stalled_s, bytes, summary.division};
}

foretold compared(step_figures predicted, const compared_steps& steps, uint64_t memory_bytes, std::string source) {
  foretold out{std::move(predicted), {}, std::move(source), 0, steps.has_changed()};
  if (steps.number() < least_compared_steps) return out;
  out.steps = steps.number();
  out.measured = steps.figures(memory_bytes);
  return out;
}

std::string foretold_text(const foretold& x) {
  const auto& p = x.predicted;
  const auto& m = x.measured;
  if (x.steps == 0)
    return fmt::format("predicted step {}, measured: too few steps to compare, by {}\n", time_text(p.step_s), x.source);
  const double difference = p.step_s / m.step_s - 1;
  std::string out =
      fmt::format("predicted step {} ({:+.0f} %){}, by {}\n", beside(time_text(p.step_s), time_text(m.step_s)),
                  100 * difference, std::abs(difference) > largest_unnamed_difference ? blamed(x) : "", x.source);
  out += fmt::format("predicted exposed communication {}", beside(time_text(p.exposed_s), time_text(m.exposed_s)));
  if (p.disk_s > 0 || m.disk_s > 0) out += "; waits for the disk " + beside(time_text(p.disk_s), time_text(m.disk_s));
  if (x.is_of_last_plan) out += fmt::format("; of the last plan's {} steps alone", x.steps);
  return out + fmt::format("; memory {}\n", beside(core::human_bytes(static_cast<double>(p.memory_bytes)),
                                                   core::human_bytes(static_cast<double>(m.memory_bytes))));
}

std::string foretold_json(const foretold& x) {
  return fmt::format("{{\"predicted\":{},\"measured\":{},\"steps\":{},\"of_last_plan\":{},\"rates\":{}}}",
                     figures_json(x.predicted), x.steps == 0 ? "null" : figures_json(x.measured), x.steps,
                     x.is_of_last_plan, core::json_string(x.source));
}

}  // namespace troupe::apps
