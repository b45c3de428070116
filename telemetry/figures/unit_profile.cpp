#include "telemetry/figures/unit_profile.hpp"

#include <algorithm>

#include "plan/kinds.hpp"

namespace troupe::telemetry {
namespace {

double sum_of(const std::vector<segment_profile>& segments, auto part) {
  double sum = 0;
  for (const auto& s : segments) sum += part(s);
  return sum;
}

}  // namespace

double unit_profile::forward_flops() const {
  return sum_of(segments, [](const auto& s) { return s.forward_flops; });
}
double unit_profile::forward_ms() const {
  return sum_of(segments, [](const auto& s) { return s.forward_ms; });
}
double unit_profile::backward_ms() const {
  return recompute_ms + sum_of(segments, [](const auto& s) { return s.backward_ms; });
}

void profile_sums::begin(const core::model_table& table) {
  const auto numel = [&](const std::vector<uint32_t>& parameters) {
    uint64_t n = 0;
    for (uint32_t p : parameters) n += table.parameters[p].numel();
    return n;
  };
  for (const auto& u : table.units) {
    unit_profile unit;
    unit.name = u.name;
    unit.parameters = numel(u.parameters);
    for (const auto& s : u.segments) unit.segments.push_back({s.name, numel(s.parameters), s.forward_flops, 0, 0});
    units_.push_back(std::move(unit));
  }
}

void profile_sums::add(std::span<const rank_spans> step) {
  if (step.empty()) return;
  if (units_.empty()) begin(step.front().plan->table());
  const auto leaders = stage_leaders(step);
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (const size_t r : leaders) {
    for (const auto& x : step[r].plan->instructions) {
      const interval& i = step[r].spans[x.id];
      first = std::min(first, i.start_ns);
      last = std::max(last, i.end_ns);
      const double ms = double(i.length_ns()) / 1e6;
      const plan::unit_work work = plan::row_of(x.kind).work;
      if (work == plan::unit_work::recompute) units_[x.subject].recompute_ms += ms;
      if (work == plan::unit_work::forward) units_[x.subject].segments[x.segment].forward_ms += ms;
      if (work == plan::unit_work::backward) units_[x.subject].segments[x.segment].backward_ms += ms;
    }
    step_ms_ += break_down(step, r).step_ms / double(leaders.size());
  }
  ++steps_;
  micros_ += step.front().plan->options().accumulation;
  if (last > first) iteration_ms_ += double(last - first) / 1e6;
}

std::vector<unit_profile> profile_sums::units() const {
  auto out = units_;
  const double n = double(std::max<uint64_t>(1, micros_));
  for (auto& u : out) {
    u.recompute_ms /= n;
    for (auto& s : u.segments) {
      s.forward_ms /= n;
      s.backward_ms /= n;
    }
  }
  return out;
}

double profile_sums::step_ms() const { return step_ms_ / double(std::max<uint64_t>(1, steps_)); }
double profile_sums::iteration_ms() const { return iteration_ms_ / double(std::max<uint64_t>(1, steps_)); }

}  // namespace troupe::telemetry
