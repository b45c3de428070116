// Compares a job's traffic and memory under its own and under other values of gradient_order and
// stage3_max_reuse_distance. Owns the list of alternatives. Leaves the plans to plan/.
#include "apps/plan/plan_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "job/step/step_plans.hpp"
#include "plan/kinds.hpp"

namespace troupe::apps {
namespace {

struct moved {  ///< numbers of all-gathers, gradient reductions and moved bytes of one rank in a step
  uint64_t gathers = 0, gathered_bytes = 0, reductions = 0, reduced_bytes = 0, memory_bytes = 0;
};

moved moved_by(const plan::rank_plan& p) {
  moved out;
  for (const auto& x : p.instructions) {
    const plan::hidden_work work = plan::row_of(x.kind).hidden;
    if (work == plan::hidden_work::gathers) ++out.gathers, out.gathered_bytes += x.moved_bytes;
    if (work == plan::hidden_work::reductions) ++out.reductions, out.reduced_bytes += x.moved_bytes;
  }
  out.memory_bytes = p.memory.total();
  return out;
}

/// Returns for each count the largest value on any rank.
moved most_of(const job::step_plans& plans) {
  moved out;
  const auto take = [](uint64_t& most, uint64_t x) { most = std::max(most, x); };
  for (const auto& p : plans.plans()) {
    const moved x = moved_by(*p);
    take(out.gathers, x.gathers);
    take(out.gathered_bytes, x.gathered_bytes);
    take(out.reductions, x.reductions);
    take(out.reduced_bytes, x.reduced_bytes);
    take(out.memory_bytes, x.memory_bytes);
  }
  return out;
}

std::vector<std::string> row_of(std::string name, const moved& x) {
  return {std::move(name),
          fmt::to_string(x.gathers),
          core::human_bytes(x.gathered_bytes),
          fmt::to_string(x.reductions),
          core::human_bytes(x.reduced_bytes),
          core::human_bytes(x.memory_bytes)};
}

/// Returns the alternative settings of gradient order and reuse distance, each with the name that its row shows.
std::vector<std::pair<std::string, plan::plan_options>> others_of(const plan::plan_options& o) {
  std::vector<std::pair<std::string, plan::plan_options>> out;
  if (o.accumulation > 1) {
    out.emplace_back(std::string("gradient_order: ") + (o.gradients.sum_micro_first ? "per_micro_batch" : "per_step"),
                     o);
    out.back().second.gradients.sum_micro_first = !o.gradients.sum_micro_first;
  }
  for (const auto& [distance, name] : {std::pair<uint64_t, const char*>{0, "0"}, {INT64_MAX, "unlimited"}}) {
    if (o.stage < 3 || o.gathering.max_reuse_distance == distance) continue;
    out.emplace_back(std::string("stage3_max_reuse_distance: ") + name, o);
    out.back().second.gathering.max_reuse_distance = distance;
  }
  return out;
}

}  // namespace

std::string moves_summary(const job::blueprint& b) {
  const auto others = others_of(b.train.layout().options);
  if (others.empty()) return {};
  std::vector<std::vector<std::string>> rows{
      {"a step of the busiest rank", "gathers", "of", "reductions", "of", "memory"},
      row_of("these settings", most_of(b.train))};
  for (const auto& [name, options] : others)
    if (const auto plans = job::step_plans::write(b.table, options); plans)
      rows.push_back(row_of(name, most_of(*plans)));
  return core::aligned(rows, {false, true, true, true, true, true});
}

}  // namespace troupe::apps
