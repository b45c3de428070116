// Formats a pipeline for `troupe plan`: its stages, the stage that bounds the step, its schedule.
#include "apps/plan/plan_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text.hpp"
#include "plan/kinds.hpp"
#include "plan/schedule/text.hpp"
#include "plan/schedule/transfers.hpp"
#include "plan/stages.hpp"

namespace troupe::apps {
namespace {

using core::text_of;

/// A pipeline stage, and the plan of one rank that computes it.
struct shown_stage {
  const job::blueprint& b;
  uint32_t stage;

  [[nodiscard]] const plan::job_layout& layout() const { return b.train.layout(); }
  [[nodiscard]] const plan::rank_plan& plan() const {
    return b.train.like(layout().options.mesh.at_stage(0, plan::pipeline_of_stage(layout(), stage)));
  }
  /// Returns the stage's units as text, such as "block 2 to head"; the units of a teacher follow after a comma.
  [[nodiscard]] std::string units() const {
    const uint32_t own = plan::first_of_model(layout()), all = static_cast<uint32_t>(b.table->units.size());
    const std::string taught = names(0, own);
    return names(own, all) + (taught.empty() ? "" : ", " + taught);
  }
  [[nodiscard]] std::string names(uint32_t from, uint32_t to) const {
    std::vector<std::string> all;
    for (uint32_t u = from; u < to; ++u)
      if (layout().stage_of_unit[u] == stage) all.push_back(b.table->units[u].name);
    return all.empty() ? "" : all.size() == 1 ? all.front() : all.front() + " to " + all.back();
  }
  [[nodiscard]] uint64_t parameters() const {
    std::vector<uint32_t> held;
    for (uint32_t u = 0; u < b.table->units.size(); ++u)
      if (layout().stage_of_unit[u] == stage)
        held.insert(held.end(), b.table->units[u].parameters.begin(), b.table->units[u].parameters.end());
    std::ranges::sort(held);
    held.erase(std::unique(held.begin(), held.end()), held.end());
    uint64_t n = 0;
    for (const uint32_t q : held) n += b.table->parameters[q].numel();
    return n;
  }
  [[nodiscard]] uint64_t sent() const {
    uint64_t bytes = 0;
    for (const auto& x : plan().instructions)
      if (plan::sends(x.kind) && layout().stage_of_unit[x.subject] == stage) bytes += x.moved_bytes;
    return bytes;
  }
};

/// Returns as text the step time, and the fraction of the ranks' time in which the schedule leaves them idle, both from
/// the cost model's times of the stages.
std::string idle_text(const job::chosen_pipeline& p) {
  const auto times = plan::play_table(p.training.table, p.costs);
  double busy = 0;
  for (const auto& r : times.ranks) busy += r.busy_s;
  const double all = times.total_s * static_cast<double>(times.ranks.size());
  return text_of("%.1f ms of forward and backward, %.1f %% of compute idle", 1e3 * times.total_s,
                 all > 0 ? 100 * (1 - busy / all) : 0.0);
}

}  // namespace

std::string stages_summary(const job::blueprint& b) {
  const auto& p = b.pipeline;
  const auto& table = p.training.table;
  std::vector<std::vector<std::string>> rows{
      {"stage", "rank", "units", "parameters", "a micro-batch", "in flight", "sent a step"}};
  for (uint32_t s = 0; s < table.stages(); ++s) {
    const shown_stage stage{b, s};
    rows.push_back({fmt::to_string(s), fmt::to_string(table.rank_of_stage[s]), stage.units(),
                    fmt::to_string(stage.parameters()), text_of("%.2f ms", 1e3 * p.step_s[s]),
                    fmt::to_string(stage.plan().micros_in_flight[s]), core::human_bytes(stage.sent())});
  }
  std::string out = core::aligned(rows, {true, true, false, true, true, true, true});
  out += fmt::format("schedule {}, {} micro-batches: {}\n", p.schedule, table.micro_batches, idle_text(p));
  if (p.is_kept) out += "the schedule is the one that the run's folder has\n";
  if (p.least_s) out += text_of("no schedule of these stages takes less than %.1f ms\n", 1e3 * *p.least_s);
  out += p.profile.empty() ? "times of stages are the cost model's\n"
                           : "times of stages are measured: " + p.profile.string() + "\n";
  return fmt::format("{}partition {}: stage {} ({}) bounds the step\n", out, p.partition, p.bound,
                     shown_stage{b, p.bound}.units());
}

std::string schedule_as_csv(const job::blueprint& b, bool with_transfers) {
  if (b.pipeline.is_cut()) {
    const auto& table = b.pipeline.training.table;
    return plan::write_table(with_transfers ? plan::with_transfers(table) : table);
  }
  plan::pipeline_table one{b.train.layout().options.accumulation, {0}, {{}}};
  for (uint32_t m = 0; m < one.micro_batches; ++m)
    for (const auto type : {plan::action_type::forward, plan::action_type::backward})
      one.orders.front().push_back({type, 0, m});
  return plan::write_table(one);
}

}  // namespace troupe::apps
