#include "sim/simulated_job.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"
#include "job/feasible_degree.hpp"
#include "job/plans.hpp"
#include "job/supervised.hpp"
#include "sim/answer.hpp"

namespace troupe::sim {
namespace {

[[noreturn]] void refuse_job(std::string text) {
  throw world_error({core::error_kind::bad_input, "a simulated job: " + std::move(text)});
}

using plans_of_degree = std::function<std::vector<actors::shared_rank_plans>(uint32_t data)>;

/// Returns a function that calls `make` once for each number of data ranks, at most `data_max`.
std::function<const plans_by_choice*(uint32_t)> kept_plans(plans_of_degree make, uint32_t data_max) {
  auto known = std::make_shared<std::map<uint32_t, plans_by_choice>>();
  return [known, make = std::move(make), data_max](uint32_t data) -> const plans_by_choice* {
    if (data == 0 || data > data_max) return nullptr;
    auto it = known->find(data);
    if (it == known->end()) it = known->emplace(data, make(data)).first;
    return it->second.empty() ? nullptr : &it->second;
  };
}

}  // namespace

std::vector<uint32_t> simulated_job::hosts_of_ranks() const {
  std::vector<uint32_t> out;
  for (uint32_t p = 0; p < base.processes; ++p) out.insert(out.end(), base.ranks_each, base.machine_of(p));
  return out;
}

simulated_job job_of(const std::shared_ptr<const config::job_config>& config, uint32_t processes) {
  if (config == nullptr) refuse_job("wanted a configuration, got none");
  if (!config->open_degrees.empty()) refuse_job("wanted a configuration whose degrees are all set, got open ones");
  simulated_job out;
  out.base = job::supervised(*config);
  if (processes > 0) {
    const uint32_t ranks = config->parallel.ranks();
    if (ranks % processes != 0)
      refuse_job(fmt::format("wanted a number of processes that divides {} ranks, got {}", ranks, processes));
    out.base.processes = processes;
    out.base.ranks_each = ranks / processes;
  }
  const auto make = [config](uint32_t data) {
    std::vector<actors::shared_rank_plans> plans;
    if (!job::batch_at_degree(*config, data)) return plans;
    const auto at_degree = data == config->parallel.data
                               ? config
                               : std::make_shared<const config::job_config>(job::at_degree(*config, data));
    plans.resize(plan::num_plan_choices);
    for (const auto which : {plan::plan_choice::train, plan::plan_choice::train_saving, plan::plan_choice::save}) {
      auto made = job::make_plans(at_degree, which);
      if (!made) throw world_error(made.error());
      plans[static_cast<size_t>(which)] = std::move(*made);
    }
    return plans;
  };
  out.plans = kept_plans(make, out.base.data);
  out.costs = job::usual_costs(*config);
  out.memory_every = config->checkpoint.memory.every_steps;
  out.disk_every = config->checkpoint.every_steps;
  return out;
}

simulated_job job_of(plans_of_degree make, uint32_t processes, uint32_t spares, uint32_t ranks_each) {
  if (!make) refuse_job("wanted a function that returns plans, got none");
  if (processes == 0 || ranks_each == 0)
    refuse_job(
        fmt::format("wanted a process with a rank at least, got {} processes of {} ranks", processes, ranks_each));
  simulated_job out;
  out.base.processes = processes;
  out.base.spares = spares;
  out.base.ranks_each = ranks_each;
  out.base.data = processes * ranks_each;
  out.base.feasible = [](uint32_t ranks) -> core::result<uint32_t> {
    if (ranks == 0) return core::fail(core::error_kind::peer_lost, "no rank is left");
    return ranks;
  };
  out.plans = kept_plans(std::move(make), out.base.data);
  return out;
}

}  // namespace troupe::sim
