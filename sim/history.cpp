#include "sim/history.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "actors/rank_report.hpp"
#include "sim/held_memory.hpp"
#include "sim/seeds.hpp"
#include "telemetry/spans.hpp"

namespace troupe::sim {
namespace {

/// Collects the spans of all steps, and gives each name of an instruction a number.
class recorder {
 public:
  recorder(const std::vector<actors::shared_rank_plans>& plans, const actors::sim_result& result,
           const std::vector<uint32_t>& acted_by)
      : plans_(plans), result_(result), numbers_(plans.size()) {
    out_.acted_by = acted_by;
  }

  history run(uint64_t seed) {
    out_.seed = seed;
    out_.replay = replay_command(seed);
    out_.owners = memory_owners();
    out_.warnings = result_.told;
    for (size_t which = 0; which < plans_.size(); ++which) {
      numbers_[which].resize(plans_[which].size());
      for (size_t r = 0; r < plans_[which].size(); ++r)
        if (plans_[which][r]) name_all(*plans_[which][r], numbers_[which][r]);
      out_.ranks = std::max(out_.ranks, static_cast<uint32_t>(plans_[which].size()));
    }
    for (size_t i = 0; i < result_.runs.size(); ++i) take(result_.runs[i], i + 1);
    std::ranges::stable_sort(out_.spans, {}, &span::start_ns);
    return std::move(out_);
  }

 private:
  void name_all(const plan::rank_plan& p, std::vector<uint32_t>& numbers) {
    for (const auto& x : p.instructions) {
      auto [it, is_new] = number_of_.try_emplace(p.describe(x.id), static_cast<uint32_t>(out_.names.size()));
      if (is_new) out_.names.push_back(it->first);
      numbers.push_back(it->second);
    }
  }

  void take(const actors::sim_run& run, uint64_t number) {
    const auto which = static_cast<size_t>(run.which);
    const auto& plans = plans_[which];
    const step_record step{run.which, run.began_ns, run.ended_ns, run.outcome.failure};
    out_.steps.push_back(step);
    // [rank][instruction id]: its start and end
    std::vector<std::vector<telemetry::interval>> times(plans.size());
    for (size_t r = 0; r < plans.size(); ++r)
      if (plans[r]) times[r].resize(plans[r]->instructions.size(), {history::never, history::never});
    for (const auto& e : result_.log)
      if (e.run == number) (e.end ? times[e.rank][e.id].end_ns : times[e.rank][e.id].start_ns) = e.time_ns;
    // The log lacks the control lane; its times are in the report of a run that has ended well.
    if (const auto& reports = run.outcome.ranks)
      for (const auto& report : *reports)
        for (uint32_t id : plans[report.rank]->lanes[static_cast<size_t>(plan::lane::control)])
          times[report.rank][id] = report.spans.spans[id];
    const auto met = begins(plans, times);
    for (uint32_t r = 0; r < plans.size(); ++r) {
      if (!plans[r]) continue;
      for (const auto& x : plans[r]->instructions) {
        const auto& t = times[r][x.id];
        if (t.start_ns == history::never) continue;
        int64_t moving_ns = x.sequence == plan::none ? t.start_ns : met.at({x.communicator, x.sequence});
        if (t.end_ns != history::never) moving_ns = std::min(moving_ns, t.end_ns);
        out_.spans.push_back({number, r, x.lane, numbers_[which][r][x.id], t.start_ns, moving_ns, t.end_ns, x.id});
      }
      append_memory(out_.memory, *plans[r], times[r], step);
    }
  }

  using collective = std::pair<uint32_t, uint32_t>;  // communicator, and position among its collectives

  // Returns for each collective when it begins to move bytes: when the last of the members that have posted it did so,
  // and the one before it in its communicator has ended.
  static std::map<collective, int64_t> begins(const actors::shared_rank_plans& plans,
                                              const std::vector<std::vector<telemetry::interval>>& times) {
    struct seen {
      int64_t posted_ns = history::never, ended_ns = history::never;
    };
    std::map<collective, seen> all;
    for (size_t r = 0; r < plans.size(); ++r) {
      if (!plans[r]) continue;
      for (uint32_t id : plans[r]->lanes[static_cast<size_t>(plan::lane::fabric)]) {
        const auto& x = plans[r]->instructions[id];
        const auto& t = times[r][id];
        seen& here = all[{x.communicator, x.sequence}];
        here.posted_ns = std::max(here.posted_ns, t.start_ns);
        if (t.end_ns != history::never)
          here.ended_ns = here.ended_ns == history::never ? t.end_ns : std::min(here.ended_ns, t.end_ns);
      }
    }
    std::map<collective, int64_t> out;
    int64_t before_ns = history::never;
    for (const auto& [which, here] : all) {
      if (which.second == 0) before_ns = history::never;
      out[which] = std::max(here.posted_ns, before_ns);
      before_ns = here.ended_ns;
    }
    return out;
  }

  const std::vector<actors::shared_rank_plans>& plans_;
  const actors::sim_result& result_;
  history out_;
  std::unordered_map<std::string, uint32_t> number_of_;
  std::vector<std::vector<std::vector<uint32_t>>> numbers_;  // [plan_choice][rank][instruction id]: number of its name
};

}  // namespace

history record(const std::vector<actors::shared_rank_plans>& plans, const actors::sim_result& result, uint64_t seed,
               const std::vector<uint32_t>& acted_by) {
  return recorder(plans, result, acted_by).run(seed);
}

}  // namespace troupe::sim
