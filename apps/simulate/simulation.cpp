#include "apps/simulate/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "config/sections/job_config.hpp"
#include "core/text.hpp"
#include "hardware/catalogue.hpp"
#include "plan/choose/cost.hpp"
#include "plan/kinds.hpp"
#include "sim/fold.hpp"
#include "sim/network/read_network.hpp"
#include "sim/placed_times.hpp"
#include "sim/world.hpp"

namespace troupe::apps {
namespace {

using plan::plan_choice;

constexpr uint64_t steps_by_default = 2;

/// Returns the number of steps to simulate, or refuses one that the job does not have.
core::result<uint64_t> steps_to_simulate(const config::job_config& c, const simulation_wish& wish) {
  uint64_t steps = wish.steps;
  if (steps == 0) {
    steps = c.steps > 0 ? std::min(steps_by_default, c.steps) : steps_by_default;
    for (const auto& f : wish.faults) steps = std::max(steps, f.step);
  }
  if (c.steps > 0 && steps > c.steps) {
    for (const auto& f : wish.faults)
      if (f.step > c.steps)
        return core::refused(
            fmt::format("--fault '{}': wanted one of the job's {} steps, got step {}", f.text, c.steps, f.step));
    return core::refused(fmt::format("--steps: wanted at most the job's {} steps, got {}", c.steps, steps));
  }
  return steps;
}

/// Returns the ranks of a host; 0: all are on one. Hosts of a simulation have equally many.
core::result<uint32_t> ranks_of_a_host(const job::blueprint& b, const simulation_wish& wish) {
  const uint32_t ranks = b.train.ranks();
  if (wish.ranks_per_host > 0) {
    if (ranks % wish.ranks_per_host != 0)
      return core::refused(
          fmt::format("--ranks-per-host: wanted a divisor of the job's {} ranks, got {}", ranks, wish.ranks_per_host));
    return wish.ranks_per_host;
  }
  if (wish.card) {
    const uint32_t gpus = wish.card->node_gpus;
    if (ranks > gpus && ranks % gpus != 0)
      return core::refused(fmt::format(
          "--hardware: wanted whole nodes of {} GPUs for the plan's actors, got {} ranks; give --ranks-per-host", gpus,
          ranks));
    return std::min(ranks, gpus);
  }
  uint64_t each = 0;
  for (const auto& h : b.config->cluster.hosts) {
    if (h.is_spare) continue;
    if (each > 0 && h.ranks != each)
      return core::refused("cluster.hosts: a simulation's hosts have equally many ranks; give --ranks-per-host");
    each = h.ranks;
  }
  return static_cast<uint32_t>(each);
}

/// Returns the kinds of the job's first steps: a checkpoint of `every` steps is taken in the step behind them.
std::vector<plan_choice> kinds_of(uint64_t steps, uint64_t every) {
  std::vector<plan_choice> out(steps, plan_choice::train);
  if (every > 0)
    for (uint64_t i = every; i < steps; i += every) out[i] = plan_choice::train_saving;
  return out;
}

core::result<void> check_size(const job::blueprint& b, uint64_t steps) {
  uint64_t instructions = 0;  // number of instructions of all ranks in a training step
  const auto plans = b.train.plans();
  const auto& classes = b.train.classes();
  for (size_t k = 0; k < classes.size(); ++k) instructions += plans[k]->instructions.size() * classes[k].ranks.size();
  if (steps > simulated_instructions_max / std::max<uint64_t>(1, instructions))
    return core::refused(fmt::format(
        "--steps: wanted at most {} instructions in all steps, got {} steps of {} on {} ranks; give fewer steps or a "
        "job with fewer ranks",
        simulated_instructions_max, steps, instructions, b.train.ranks()));
  return {};
}

/// Returns the steps' plans of classes of ranks, by plan_choice.
core::result<std::vector<job::step_plans>> classes_for(const job::blueprint& b, const std::vector<plan_choice>& steps) {
  std::vector<job::step_plans> out(plan::num_plan_choices);
  out[static_cast<size_t>(plan_choice::train)] = b.train;
  if (std::ranges::find(steps, plan_choice::train_saving) != steps.end()) {
    TROUPE_ASSIGN(out[static_cast<size_t>(plan_choice::train_saving)], b.write(plan_choice::train_saving));
  }
  return out;
}

core::result<std::vector<actors::shared_rank_plans>> plans_for(const job::blueprint& b,
                                                               const std::vector<plan_choice>& steps) {
  std::vector<actors::shared_rank_plans> out(plan::num_plan_choices);
  TROUPE_ASSIGN(auto train, b.train.all());
  out[static_cast<size_t>(plan_choice::train)] = std::move(train);
  if (std::ranges::find(steps, plan_choice::train_saving) != steps.end()) {
    TROUPE_ASSIGN(const auto written, b.write(plan_choice::train_saving));
    TROUPE_ASSIGN(auto saving, written.all());
    out[static_cast<size_t>(plan_choice::train_saving)] = std::move(saving);
  }
  return out;
}

/// Returns the communicators of each rank, ascending.
std::vector<std::vector<uint32_t>> communicators_of_ranks(const plan::job_layout& layout) {
  std::vector<std::vector<uint32_t>> out(layout.options.ranks());
  for (uint32_t c = 0; c < layout.communicators.size(); ++c)
    for (const uint32_t r : layout.communicators[c].members) out[r].push_back(c);
  return out;
}

/// `plans`: [rank], the plan of the rank or of one that acts for it, whose communicators have the same order.
/// `hosts`: [rank].
std::vector<collective_traffic> traffic_of(const actors::shared_rank_plans& plans, const std::vector<uint32_t>& hosts) {
  std::vector<collective_traffic> out;
  const auto& communicators = plans.front()->layout->communicators;
  const auto met = communicators_of_ranks(*plans.front()->layout);
  for (uint32_t c = 0; c < communicators.size(); ++c) {
    collective_traffic here;
    here.name = communicators[c].name;
    here.ranks = communicators[c].members;
    for (const uint32_t r : here.ranks) {
      const uint32_t host = hosts[r];
      if (here.hosts.empty() || here.hosts.back() != host) here.hosts.push_back(host);
    }
    // Each member's instruction counts the bytes of all members.
    const uint32_t first = here.ranks.front();
    const auto& p = *plans[first];
    const auto place = std::ranges::find(met[first], c) - met[first].begin();
    const uint32_t its_own = met[p.rank][static_cast<size_t>(place)];
    for (const uint32_t id : p.lanes[static_cast<size_t>(plan::lane::fabric)]) {
      const auto& x = p.instructions[id];
      if (x.communicator != its_own) continue;
      ++here.collectives;
      here.bytes += x.moved_bytes;
    }
    if (here.collectives == 0) continue;
    const auto alike = std::ranges::find_if(out, [&](const collective_traffic& x) {
      return x.name == here.name && x.ranks.size() == here.ranks.size() && x.collectives == here.collectives &&
             x.bytes == here.bytes && x.hosts.size() == here.hosts.size();
    });
    if (alike != out.end())
      ++alike->groups;
    else
      out.push_back(std::move(here));
  }
  return out;
}

/// Returns the flops of the model's forward and backward on all ranks, without what is computed again.
double flops_of_model(const actors::shared_rank_plans& plans) {
  double out = 0;
  for (const auto& p : plans)
    for (const auto& x : p->instructions) {
      const auto work = plan::row_of(x.kind).work;
      if (work == plan::unit_work::forward || work == plan::unit_work::backward) out += x.flops;
    }
  return out;
}

simulated_outcome outcome_of(const sim::world& world, uint64_t seed) {
  simulated_outcome out;
  out.plans = world.plans();
  out.classes =
      world.acted_by().empty() ? static_cast<uint32_t>(out.plans.front().size()) : sim::num_acting(world.acted_by());
  out.run = world.run(seed);
  const auto& h = out.run.log();
  out.parts = parts_of(h, world.plans());
  out.total_s = double(h.steps.back().ended_ns - h.steps.front().began_ns) / 1e9;
  double sum_s = 0;
  size_t ended = 0;
  for (const auto& step : h.steps)
    if (!step.failure) {
      sum_s += double(step.ended_ns - step.began_ns) / 1e9;
      ++ended;
    }
  if (ended > 0) out.step_s = sum_s / double(ended);
  return out;
}

/// Returns what the failure in the last step costs; nullopt if the run ended well.
std::optional<fault_loss> loss_of(const sim::history& h, uint64_t every) {
  const auto& last = h.steps.back();
  if (!last.failure) return std::nullopt;
  fault_loss out;
  out.failed_step = h.steps.size();
  int64_t struck_ns = h.steps.front().began_ns;
  for (const auto& f : h.faults) struck_ns = std::max(struck_ns, f.at_ns);
  out.noticed_after_s = double(last.ended_ns - struck_ns) / 1e9;
  // A checkpoint of the state behind step m is complete once step m + 1 has ended.
  if (every > 0 && out.failed_step >= 2) out.resumed_behind = (out.failed_step - 2) / every * every;
  out.lost_s = double(last.ended_ns - h.steps[out.resumed_behind].began_ns) / 1e9;
  return out;
}

/// Returns the seconds of a training step as `troupe plan` predicts them.
double predicted_s(const job::blueprint& b, const actors::shared_rank_plans& train, const plan::cost_model& costs) {
  if (b.train.ranks() <= unfolded_ranks_max) return plan::predict(train, costs).step_s;
  std::vector<uint32_t> stands_for;
  for (const auto& c : b.train.classes()) stands_for.push_back(static_cast<uint32_t>(c.ranks.size()));
  return plan::predict(b.train.plans(), costs, std::move(stands_for)).step_s;
}

/// Returns the world of the job's plans: beyond unfolded_ranks_max ranks, a folded one.
core::result<sim::world> world_of(const job::blueprint& b, sim::world_options options) {
  if (b.train.ranks() <= unfolded_ranks_max) {
    TROUPE_ASSIGN(auto plans, plans_for(b, options.steps));
    return sim::world(std::move(plans), std::move(options));
  }
  options.fold = true;
  options.instructions_max = simulated_instructions_max;
  TROUPE_ASSIGN(auto classes, classes_for(b, options.steps));
  return sim::world(std::make_shared<const std::vector<job::step_plans>>(std::move(classes)), std::move(options));
}

sim::world with_faults(sim::world world, const std::vector<fault_sentence>& faults) {
  for (const auto& f : faults) {
    try {
      world = world.with(f.fault);
    } catch (const sim::world_error& e) {
      throw sim::world_error({e.kind(), fmt::format("--fault '{}': {}", f.text, e.what())});
    }
  }
  return world;
}

/// Returns the network that a user names, with devices for all ranks of the job, if it can carry the job.
core::result<std::shared_ptr<const sim::network>> network_for(const job::blueprint& b, const simulation_wish& wish) {
  const uint32_t ranks = b.train.ranks();
  if (wish.ranks_per_host > 0)
    return core::refused(
        fmt::format("--ranks-per-host cannot be combined with the network {}, whose nodes are the hosts",
                    core::shown(wish.network)));
  TROUPE_ASSIGN(const auto file, hardware::find_network(wish.network));
  TROUPE_ASSIGN(auto out, sim::parse_network(file.text, file.file, ranks));
  if (out.devices() < ranks)
    return core::refused(fmt::format("--network: {}: wanted a device for each of the job's {} ranks, got {} devices",
                                     file.file, ranks, out.devices()));
  // Ranks are on the devices in their order.
  TROUPE_ASSIGN(const uint32_t each, ranks_of_a_host(b, wish));
  for (uint32_t r = 1; r < ranks && each > 0; ++r)
    if ((r % each != 0) != (out.node_of_device[r] == out.node_of_device[r - 1]))
      return core::refused(
          fmt::format("--network: {}: wanted nodes like cluster.hosts, with {} ranks each; between rank {} and rank {} "
                      "only one of both has a border",
                      file.file, each, r - 1, r));
  return std::make_shared<const sim::network>(std::move(out));
}

/// Returns the host of each rank.
std::vector<uint32_t> hosts_of(const sim::network* on, uint32_t ranks, uint32_t ranks_per_host) {
  std::vector<uint32_t> out(ranks);
  for (uint32_t r = 0; r < ranks; ++r)
    out[r] = on != nullptr ? on->node_of_device[r] : ranks_per_host == 0 ? 0 : r / ranks_per_host;
  return out;
}

}  // namespace

core::result<simulation> simulate_job(const job::blueprint& b, const plan::cost_model& costs, simulation_wish wish) {
  const auto& c = *b.config;
  simulation out;
  out.costs = costs;
  out.ranks = b.train.ranks();
  TROUPE_ASSIGN(const uint64_t steps, steps_to_simulate(c, wish));
  std::shared_ptr<const sim::network> on;  // null: hosts are linked by one rate
  uint32_t ranks_per_host = 0;
  if (wish.network.empty()) {
    TROUPE_ASSIGN(ranks_per_host, ranks_of_a_host(b, wish));
  } else {
    TROUPE_ASSIGN(on, network_for(b, wish));
  }
  const auto hosts = hosts_of(on.get(), out.ranks, ranks_per_host);
  if (out.ranks <= unfolded_ranks_max) TROUPE_TRY(check_size(b, steps));
  out.hosts = hosts.back() + 1;
  if (wish.network_bytes_per_s && out.hosts == 1)
    return core::refused("--network would do nothing here: it is for several hosts (--ranks-per-host, cluster.hosts)");
  out.between_hosts = usual_network;
  if (wish.network_bytes_per_s) out.between_hosts.bytes_per_second = *wish.network_bytes_per_s;
  out.steps = kinds_of(steps, c.checkpoint.every_steps);
  out.peak_flops_per_s = wish.card ? wish.card->peak_flops_per_s * out.ranks
                                   : costs.flops_per_s * (costs.device_bytes_per_s > 0 ? 1 : out.ranks);
  sim::world_options options;
  options.seed = wish.seed;
  options.steps = out.steps;
  options.costs = costs;
  if (on != nullptr) {
    options.placed_on = on;
  } else if (wish.card) {
    options.ranks_per_host = ranks_per_host;
    options.link_between = wish.card->link_between;
  } else {
    options.ranks_per_host = ranks_per_host;
    options.within_host_by_costs = true;
    options.between_hosts = out.between_hosts;
  }
  // The latencies of messages are drawn evenly from 0 on, so that their mean is the model's.
  options.latency_max = std::chrono::nanoseconds(static_cast<int64_t>(2e9 * costs.latency_s));
  options.stall_after = std::chrono::nanoseconds(static_cast<int64_t>(1e9 * b.stall_after_s));
  try {
    TROUPE_ASSIGN(const auto world, world_of(b, options));
    const sim::world faulty = with_faults(world, wish.faults);
    const auto& train = world.plans()[static_cast<size_t>(plan_choice::train)];
    if (!wish.card) out.predicted_s = predicted_s(b, train, costs);
    out.model_flops = flops_of_model(train);
    out.traffic = traffic_of(train, hosts);
    if (on != nullptr)
      out.network = network_use{.name = wish.network,
                                .nodes = static_cast<uint32_t>(on->node_names.size()),
                                .devices = on->devices(),
                                .busiest = busiest_links(*on, world.placed()->link_bytes, listed_links)};
    out.healthy = outcome_of(world, wish.seed);
    if (const auto& why = out.healthy.run.log().steps.back().failure) return core::fail(*why);
    out.memory = memory_peaks_of(out.healthy.run.log(), out.healthy.plans);
    if (!wish.faults.empty()) {
      out.faulty = outcome_of(faulty, wish.seed);
      out.loss = loss_of(out.faulty->run.log(), c.checkpoint.every_steps);
    }
  } catch (const sim::world_error& e) {
    return core::fail(e.kind(), e.what());
  }
  out.faults = std::move(wish.faults);
  out.card = std::move(wish.card);
  return out;
}

}  // namespace troupe::apps
