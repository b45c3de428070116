#include "apps/simulate/step_parts.hpp"

#include <algorithm>
#include <utility>

#include "plan/kinds.hpp"
#include "telemetry/spans.hpp"

namespace troupe::apps {
namespace {

using telemetry::interval;
/// [step_part]: times in which the part's condition is true; they may overlap each other and the other parts' times.
using part_times = std::array<std::vector<interval>, num_step_parts>;

std::vector<interval>& of_part(part_times& all, step_part p) { return all[static_cast<size_t>(p)]; }

/// Adds a time, cut to the step.
void add_time(std::vector<interval>& out, int64_t from_ns, int64_t to_ns, const sim::step_record& step) {
  from_ns = std::max(from_ns, step.began_ns);
  to_ns = std::min(to_ns, step.ended_ns);
  if (from_ns < to_ns) out.push_back({from_ns, to_ns});
}

step_part part_of(plan::lane l) {
  switch (l) {
    case plan::lane::compute:
      return step_part::compute;
    case plan::lane::shard:
      return step_part::update;
    case plan::lane::fabric:
      return step_part::communication;
    case plan::lane::writer:
    case plan::lane::io:
      return step_part::disk;
    case plan::lane::control:
      break;
  }
  return step_part::control;
}

void add_span(part_times& out, const sim::span& s, const plan::instruction& x, const sim::step_record& step) {
  const step_part works = part_of(s.lane);
  if (works == step_part::control) return;
  add_time(of_part(out, works), s.moving_ns, s.end_ns == sim::history::never ? step.ended_ns : s.end_ns, step);
  if (works != step_part::communication) return;
  add_time(of_part(out, plan::is_transfer(x.kind) ? step_part::bubble : step_part::waiting), s.start_ns, s.moving_ns,
           step);
}

/// Returns the seconds of each part: of its times, those that no part before it has.
step_parts divided(part_times times, int64_t step_ns) {
  step_parts out{};
  std::vector<interval> taken;
  int64_t taken_ns = 0;
  for (size_t p = 0; p + 1 < num_step_parts; ++p) {
    taken.insert(taken.end(), times[p].begin(), times[p].end());
    taken = telemetry::joined(std::move(taken));
    const int64_t now_ns = telemetry::length_ns(taken);
    out[p] = double(now_ns - taken_ns) / 1e9;
    taken_ns = now_ns;
  }
  out[static_cast<size_t>(step_part::control)] = double(step_ns - taken_ns) / 1e9;
  return out;
}

}  // namespace

std::vector<step_parts> parts_of(const sim::history& h, const std::vector<actors::shared_rank_plans>& plans) {
  // [step][rank]: times of the parts
  std::vector<std::vector<part_times>> times(h.steps.size(), std::vector<part_times>(h.ranks));
  std::vector<std::vector<int64_t>> last_ns(h.steps.size(), std::vector<int64_t>(h.ranks, 0));
  for (const sim::span& s : h.spans) {
    const sim::step_record& step = h.steps[s.step - 1];
    if (step.failure) continue;
    add_span(times[s.step - 1][s.rank], s, plans[static_cast<size_t>(step.which)][s.rank]->instructions[s.id], step);
    last_ns[s.step - 1][s.rank] = std::max(last_ns[s.step - 1][s.rank], s.end_ns);
  }
  std::vector<step_parts> out(h.ranks, step_parts{});
  size_t ended = 0;
  for (size_t i = 0; i < h.steps.size(); ++i) {
    const sim::step_record& step = h.steps[i];
    if (step.failure) continue;
    ++ended;
    const int64_t all_ns = *std::ranges::max_element(last_ns[i]);
    for (uint32_t r = 0; r < h.ranks; ++r) {
      if (h.actor_of(r) != r) continue;
      add_time(of_part(times[i][r], step_part::waiting), last_ns[i][r], all_ns, step);
      const step_parts here = divided(std::move(times[i][r]), step.ended_ns - step.began_ns);
      for (size_t p = 0; p < num_step_parts; ++p) out[r][p] += here[p];
    }
  }
  if (ended == 0) return {};
  for (uint32_t r = 0; r < h.ranks; ++r) out[r] = out[h.actor_of(r)];
  for (auto& rank : out)
    for (double& seconds : rank) seconds /= double(ended);
  return out;
}

step_parts mean_of(const std::vector<step_parts>& ranks) {
  step_parts out{};
  for (const auto& rank : ranks)
    for (size_t p = 0; p < num_step_parts; ++p) out[p] += rank[p] / double(ranks.size());
  return out;
}

}  // namespace troupe::apps
