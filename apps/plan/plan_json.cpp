// Formats `troupe plan --json`: the summary of a plan as one JSON object.
#include "apps/plan/plan_parts.hpp"

#include <nlohmann/json.hpp>

#include "plan/choose/live_parameters.hpp"
#include "plan/choose/size_search.hpp"
#include "plan/memory_places.hpp"
#include "plan/show/swap_summary.hpp"

namespace troupe::apps {
namespace {

using json = nlohmann::ordered_json;

json memory_json(const plan::timeline& t) {
  json out = json::array();
  for (size_t i = 0; i < t.plans.size(); ++i) {
    const auto& p = *t.plans[i];
    json owners = json::object();
    const auto& tiers = p.options().tiers;
    for (const auto& x : plan::owners_of(p.memory, tiers)) owners[std::string(x.owner)] = x.bytes;
    json one{{"rank", p.rank},
             {"ranks_like_it", t.stands_for[i]},
             {"total_bytes", p.memory.total()},
             {"owners", std::move(owners)}};
    if (const uint64_t budget = p.options().memory_budget_bytes; budget > 0) {
      one["budget_bytes"] = budget;
      const uint64_t needed = plan::budgeted_bytes(p.memory, tiers);
      one["budgeted_bytes"] = needed;
      one["fits"] = needed <= budget;
    }
    if (tiers.apart) {
      const uint64_t needed = plan::device_bytes(p.memory, tiers), limit = p.options().device_budget_bytes;
      one["device_bytes"] = needed;
      if (limit > 0) one["device_limit_bytes"] = limit;
      if (limit > 0) one["fits_on_device"] = needed <= limit;
    }
    out.push_back(std::move(one));
  }
  return out;
}

/// Returns how many instructions each lane runs, and how long it does not work in the predicted step.
json lanes_json(const plan::rank_plan& p, const plan::rank_timeline& t) {
  json out = json::object();
  for (uint32_t l = 0; l < plan::num_lanes; ++l)
    out[std::string(plan::name_of(static_cast<plan::lane>(l)))] = {{"instructions", p.lanes[l].size()},
                                                                   {"idle_s", t.idle_s[l]}};
  return out;
}

uint64_t parameters_of(const plan::rank_plan& p) {
  uint64_t all = 0;  // number of elements of all parameters, a teacher's included
  for (const auto& q : p.table().parameters) all += q.is_copy() ? 0 : q.numel();
  return all;
}

}  // namespace

std::string plan_as_json(const job::blueprint& b, const plan::timeline& timeline, uint32_t mine,
                         const plan::timeline* saving, const std::string& source,
                         const std::optional<job::predicted_interval>& interval) {
  const auto& p = *timeline.plans[mine];
  const auto& t = timeline.ranks[mine];
  const auto moved = plan::traffic_of(p);
  const auto disk = plan::disk_times_of(timeline, mine);
  json out{{"format", "troupe plan"},
           {"version", 1},
           {"ranks", b.train.ranks()},
           {"stage", p.options().stage},
           {"parameters", parameters_of(p)},
           {"peak_whole_parameters", plan::peak_live_parameters(p)},
           {"rank", p.rank},
           {"instructions", p.instructions.size()},
           {"collectives", p.lanes[static_cast<size_t>(plan::lane::fabric)].size()},
           {"lanes", lanes_json(p, t)},
           {"predicted",
            {{"step_s", timeline.step_s},
             {"compute_s", t.compute_s},
             {"communication_s", t.communication_s},
             {"exposed_s", t.exposed_s}}},
           {"rates", source},
           {"disk",
            {{"read_bytes", moved.read},
             {"written_bytes", moved.written},
             {"busy_s", disk.busy_s},
             {"hidden_s", disk.hidden_s},
             {"exposed_s", disk.exposed_s}}},
           {"memory", memory_json(timeline)}};
  if (interval) {
    json most = json::array();
    for (const auto& one : interval->matter_most)
      most.push_back({{"constant", one.constant}, {"percent", one.percent}});
    out["predicted"]["low_s"] = interval->low_s;
    out["predicted"]["high_s"] = interval->high_s;
    out["predicted"]["matter_most"] = std::move(most);
  }
  if (saving != nullptr) out["saving"] = {{"step_s", saving->step_s}, {"memory", memory_json(*saving)}};
  return out.dump(2) + "\n";
}

}  // namespace troupe::apps
