#include "telemetry/instruction_times.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "plan/kinds.hpp"

namespace troupe::telemetry {
namespace {

// One collective of a step: when its last member posted it, when it ended, and the instructions that execute it.
struct posted_collective {
  int64_t posted_ns = 0, end_ns = 0;
  std::vector<std::pair<uint32_t, uint32_t>> members;  // index of the rank, id of the instruction
};

std::vector<posted_collective> collectives_of(std::span<const rank_spans> ranks) {
  std::map<std::pair<uint32_t, uint32_t>, posted_collective>
      found;  // key: communicator, sequence number of the collective
  for (uint32_t r = 0; r < ranks.size(); ++r)
    for (const uint32_t id : ranks[r].plan->lanes[static_cast<size_t>(plan::lane::fabric)]) {
      const auto& x = ranks[r].plan->instructions[id];
      auto& m = found[{x.communicator, x.sequence}];
      m.posted_ns = std::max(m.posted_ns, ranks[r].spans[id].start_ns);
      m.end_ns = std::max(m.end_ns, ranks[r].spans[id].end_ns);
      m.members.emplace_back(r, id);
    }
  std::vector<posted_collective> out;
  for (auto& [where, m] : found) out.push_back(std::move(m));
  std::ranges::stable_sort(out, {}, &posted_collective::end_ns);
  return out;
}

double seconds_between(int64_t from_ns, int64_t to_ns) { return double(std::max<int64_t>(0, to_ns - from_ns)) / 1e9; }

}  // namespace

std::vector<std::vector<double>> own_seconds(std::span<const rank_spans> ranks) {
  std::vector<std::vector<double>> out;
  for (const auto& c : ranks) {
    auto& own = out.emplace_back(c.spans.size(), 0.0);
    for (uint32_t l = 0; l < plan::num_lanes; ++l) {
      int64_t free_ns = 0;
      for (const uint32_t id : c.plan->lanes[l]) {
        if (c.plan->instructions[id].sequence != plan::none) continue;
        own[id] = seconds_between(std::max(free_ns, c.spans[id].start_ns), c.spans[id].end_ns);
        free_ns = std::max(free_ns, c.spans[id].end_ns);
      }
    }
  }
  std::vector<int64_t> free_ns(ranks.size(), 0);
  for (const auto& m : collectives_of(ranks)) {
    int64_t moving_ns = m.posted_ns;
    for (const auto& [r, id] : m.members) moving_ns = std::max(moving_ns, free_ns[r]);
    for (const auto& [r, id] : m.members) {
      free_ns[r] = ranks[r].spans[id].end_ns;
      out[r][id] = seconds_between(moving_ns, free_ns[r]);
    }
  }
  return out;
}

void instruction_times::begin(std::span<const rank_spans> step) {
  plans_.clear();
  ranks_.clear();
  step_s_ = 0;
  steps_ = 0;
  for (const auto& c : step) {
    plans_.push_back(c.plan);
    std::map<std::tuple<plan::kind, plan::use, plan::swapped, uint32_t, uint32_t, uint32_t>, uint32_t> groups;
    auto& mine = ranks_.emplace_back();
    for (const auto& x : c.plan->instructions)
      mine.group_of.push_back(
          groups.try_emplace({x.kind, x.use, x.what, x.subject, x.segment, x.piece}, groups.size()).first->second);
    mine.groups.resize(groups.size());
    mine.least_s.assign(mine.group_of.size(), std::numeric_limits<double>::infinity());
  }
}

void instruction_times::add(std::span<const rank_spans> step) {
  if (step.empty() || step.front().skipped) return;
  const bool saves = step.front().plan->options().saving.on;
  if (!plans_.empty() && saves && !plans_.front()->options().saving.on) return;
  const bool other_plan = plans_.empty() || plans_.front() != step.front().plan;
  if (++seen_ <= warm_up_steps + 1 || other_plan) begin(step);
  const auto own = own_seconds(step);
  int64_t first = INT64_MAX, last = 0;
  for (const auto& c : step)
    for (const auto& x : c.plan->instructions) {
      first = std::min(first, c.spans[x.id].start_ns);
      if (!plan::ends_late(x)) last = std::max(last, c.spans[x.id].end_ns);
    }
  const double whole_s = seconds_between(first, last);
  step_s_ += whole_s;
  for (size_t r = 0; r < step.size(); ++r) {
    auto& mine = ranks_[r];
    for (uint32_t id = 0; id < own[r].size(); ++id) {
      auto& to = mine.groups[mine.group_of[id]];
      to.seconds += own[r][id];
      ++to.count;
      mine.least_s[id] = std::min(mine.least_s[id], own[r][id]);
    }
    std::vector<interval> busy;
    for (const uint32_t id : step[r].plan->lanes[static_cast<size_t>(plan::lane::compute)])
      busy.push_back(step[r].spans[id]);
    mine.compute_idle_s += whole_s - double(length_ns(joined(std::move(busy)))) / 1e9;
  }
  ++steps_;
}

double instruction_times::seconds(const plan::rank_plan& p, const plan::instruction& x) const {
  const auto& mine = ranks_[p.rank];
  const auto& mean = mine.groups[mine.group_of[x.id]];
  return mean.seconds / double(std::max<uint64_t>(1, mean.count));
}

double instruction_times::least_seconds(const plan::rank_plan& p, const plan::instruction& x) const {
  return ranks_[p.rank].least_s[x.id];
}

double instruction_times::step_s() const { return step_s_ / double(std::max<uint64_t>(1, steps_)); }

double instruction_times::compute_idle_s(uint32_t rank) const {
  return ranks_[rank].compute_idle_s / double(std::max<uint64_t>(1, steps_));
}

}  // namespace troupe::telemetry
