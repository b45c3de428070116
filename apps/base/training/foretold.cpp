#include "apps/base/training/foretold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/text.hpp"
#include "plan/kinds.hpp"
#include "telemetry/figures/overlap_figures.hpp"

namespace troupe::apps {
namespace {

/// Number of first steps that are not compared, because caches and pages are cold.
constexpr size_t first_steps = 2;

std::string time_text(double s) { return s < 1 ? core::text_of("%.1f ms", 1e3 * s) : core::text_of("%.2f s", s); }

/// Returns "A, measured B".
std::string beside(const std::string& predicted, const std::string& measured) {
  return predicted + ", measured " + measured;
}

/// Returns the kind of instruction whose measured time differs most from the predicted one, as a clause.
std::string blamed(const foretold& x) {
  double most = 0;
  plan::kind kind{};
  for (const auto& [k, measured_s] : x.measured.busy_s) {
    const auto at = x.predicted.busy_s.find(k);
    const double difference = measured_s - (at == x.predicted.busy_s.end() ? 0 : at->second);
    // The direction of the whole step is explained, not a kind that differs the other way.
    if ((difference > 0) == (x.measured.step_s > x.predicted.step_s) && std::abs(difference) > std::abs(most))
      most = difference, kind = k;
  }
  if (most == 0) return "; no kind of instruction explains it";
  return fmt::format("; `{}` took {} {}", plan::name_of(kind), time_text(std::abs(most)), most > 0 ? "longer" : "less");
}

std::string figures_json(const step_figures& f) {
  return fmt::format("{{\"step_s\":{},\"exposed_s\":{},\"disk_s\":{},\"memory_bytes\":{}}}",
                     core::number_text(f.step_s), core::number_text(f.exposed_s), core::number_text(f.disk_s),
                     f.memory_bytes);
}

}  // namespace

step_figures figures_of(const plan::timeline& t) {
  step_figures out;
  out.step_s = t.step_s;
  double ranks = 0;
  for (size_t i = 0; i < t.ranks.size(); ++i) ranks += i < t.stands_for.size() ? t.stands_for[i] : 1;
  for (size_t i = 0; i < t.ranks.size(); ++i) {
    const double weight = (i < t.stands_for.size() ? t.stands_for[i] : 1) / ranks;
    const auto& p = *t.plans[i];
    out.exposed_s += weight * t.ranks[i].exposed_s;
    out.memory_bytes += p.memory.total() * (i < t.stands_for.size() ? t.stands_for[i] : 1);
    for (const auto& x : p.instructions) {
      const auto& at = t.ranks[i].instructions[x.id];
      out.busy_s[x.kind] += weight * (at.end_s - std::max(at.start_s, at.moving_s));
    }
  }
  const auto overlap = telemetry::overlap_of(t);
  out.disk_s = overlap.swaps.busy_s - overlap.swaps.hidden_s;
  return out;
}

foretold compared(step_figures predicted, const telemetry::step_summary& means, std::vector<double> seconds,
                  uint64_t memory_bytes, std::string source) {
  foretold out{std::move(predicted), {}, std::move(source), 0};
  if (seconds.size() < first_steps + least_compared_steps) return out;
  seconds.erase(seconds.begin(), seconds.begin() + first_steps);
  const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  out.steps = seconds.size();
  out.measured.step_s = *middle;
  out.measured.exposed_s = means.exposed_s;
  out.measured.disk_s = means.io.stalled_s;
  out.measured.memory_bytes = memory_bytes;
  for (const auto& kind : means.work.kinds) out.measured.busy_s[kind.kind] += kind.busy_s;
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
  return out + fmt::format("; memory {}\n", beside(core::human_bytes(static_cast<double>(p.memory_bytes)),
                                                   core::human_bytes(static_cast<double>(m.memory_bytes))));
}

std::string foretold_json(const foretold& x) {
  return fmt::format("{{\"predicted\":{},\"measured\":{},\"steps\":{},\"rates\":{}}}", figures_json(x.predicted),
                     x.steps == 0 ? "null" : figures_json(x.measured), x.steps, core::json_string(x.source));
}

}  // namespace troupe::apps
