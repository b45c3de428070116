#include "sim/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"
#include "job/plans.hpp"
#include "plan/layout/communicators.hpp"
#include "sim/network/collective_time.hpp"

namespace troupe::sim {
namespace {

template <class T>
T value_of(core::result<T> r) {
  if (!r) throw world_error(r.error());
  return *std::move(r);
}

void require(const core::result<void>& r) {
  if (!r) throw world_error(r.error());
}

[[noreturn]] void refuse_world(std::string text) {
  throw world_error({core::error_kind::bad_input, "a simulated world: " + std::move(text)});
}

std::vector<actors::shared_rank_plans> plans_of(const std::shared_ptr<const config::job_config>& config,
                                                const std::vector<plan::plan_choice>& steps) {
  if (config == nullptr) refuse_world("wanted a configuration, got none");
  std::vector<actors::shared_rank_plans> out(plan::num_plan_choices);
  for (const auto which : steps) {
    const auto number = static_cast<size_t>(which);
    if (number < out.size() && out[number].empty()) out[number] = value_of(job::make_plans(config, which));
  }
  return out;
}

/// Returns true if all ranks of the list are on one host.
bool is_within_host(const std::vector<uint32_t>& ranks, const stage_of_faults& world) {
  return std::ranges::all_of(ranks, [&](uint32_t r) { return world.host_of(r) == world.host_of(ranks.front()); });
}

bool is_same(const fabric::linear_link& a, const fabric::linear_link& b) {
  return a.latency_us == b.latency_us && a.bytes_per_second == b.bytes_per_second;
}

/// Returns the device of each rank in the network of `options`.
std::vector<uint32_t> devices_of(const world_options& options, const plan::job_layout& layout) {
  const world_options usual;
  if (options.ranks_per_host != 0 || options.within_host_by_costs || !is_same(options.within_host, usual.within_host) ||
      !is_same(options.between_hosts, usual.between_hosts))
    refuse_world(
        "placed_on cannot be combined with ranks_per_host, within_host, within_host_by_costs and between_hosts: the "
        "network has them");
  return value_of(place_ranks(layout.options.mesh, *options.placed_on, options.axes));
}

/// Returns the link of each communicator. Communicators that run the same collectives share the network. One of a
/// single member, which sends nothing, has `alone`.
std::vector<fabric::linear_link> links_in(const network& on, const std::vector<uint32_t>& devices,
                                          const plan::job_layout& layout, const fabric::linear_link& alone) {
  std::map<uint32_t, std::vector<device_group>> alike;  // by the first communicator of those that are alike
  const auto num_communicators = static_cast<uint32_t>(layout.communicators.size());
  for (uint32_t c = 0; c < num_communicators; ++c) {
    device_group group;
    for (const uint32_t r : layout.communicators[c].members) group.push_back(devices[r]);
    alike[plan::alike(layout, c)].push_back(std::move(group));
  }
  network_routes routes(on);
  std::map<uint32_t, fabric::linear_link> links;
  for (const auto& [first, groups] : alike)
    links[first] = groups.front().size() < 2 ? alone : value_of(link_of(groups, routes));
  std::vector<fabric::linear_link> out;
  for (uint32_t c = 0; c < num_communicators; ++c) out.push_back(links[plan::alike(layout, c)]);
  return out;
}

}  // namespace

world::world(std::shared_ptr<const config::job_config> config, world_options options)
    : plans_(plans_of(config, options.steps)), options_(std::move(options)) {
  if (!options_.costs) options_.costs = job::usual_costs(*config);
  prepare();
}

world::world(std::vector<actors::shared_rank_plans> plans, world_options options)
    : plans_(std::move(plans)), options_(std::move(options)) {
  prepare();
}

world world::with(fault f) const {
  world out = *this;
  out.options_.faults.push_back(std::move(f));
  out.prepare();
  return out;
}

void world::prepare() {
  if (options_.steps.empty()) refuse_world("wanted at least one step, got none");
  for (const auto which : options_.steps)
    if (static_cast<size_t>(which) >= plans_.size() || plans_[static_cast<size_t>(which)].empty())
      refuse_world(fmt::format("wanted steps of kinds that have plans, got kind {}", static_cast<size_t>(which)));
  stage_of_faults stage{plans_, options_.steps, options_.ranks_per_host, {}};
  for (const auto& which : plans_)
    for (const auto& p : which)
      if (p == nullptr || p->layout == nullptr || which.size() != stage.ranks() ||
          p->options().ranks() != stage.ranks())
        refuse_world("wanted the plans of all ranks of one job, with their layouts");
  lower_ = {};
  if (options_.costs) lower_.costs = *options_.costs;
  lower_.latency_max = options_.latency_max;
  lower_.noise = options_.noise;
  lower_.stall_after = options_.stall_after;
  lower_.work_min = options_.work_min;
  if (options_.placed_on != nullptr) {
    const network& on = *options_.placed_on;
    const auto devices = devices_of(options_, stage.layout());
    for (const uint32_t d : devices) stage.hosts_of_ranks.push_back(on.node_of_device[d]);
    lower_.links = links_in(on, devices, stage.layout(), options_.within_host);
    lower_.predicted_collectives.assign(lower_.links.size(), false);
  } else {
    for (const auto& c : stage.communicators()) {
      const bool is_within = is_within_host(c.members, stage);
      lower_.links.push_back(is_within ? options_.within_host : options_.between_hosts);
      lower_.predicted_collectives.push_back(is_within && options_.within_host_by_costs);
    }
  }
  num_faults_.clear();
  for (const fault& f : options_.faults) {
    require(f.apply_to(lower_, stage));
    auto faults = value_of(f.faults_in(stage));
    num_faults_.push_back(faults.size());
    std::ranges::move(faults, std::back_inserter(lower_.further_faults));
  }
}

simulated_run world::run(uint64_t seed) const {
  actors::sim_options options = lower_;
  options.seed = seed;
  const auto result = value_of(actors::simulate(plans_, options_.steps, options));
  require(actors::check_log(plans_, result, options.window));
  auto out = std::make_shared<history>(record(plans_, result, seed));
  size_t next = 1;  // the lower layer's first fault is none
  for (size_t k = 0; k < options_.faults.size(); ++k) {
    const fault& f = options_.faults[k];
    // A fault of several ranks has happened if it has happened to one: the run may have ended before the others.
    int64_t at_ns = f.is_lasting() ? result.began_ns : history::never;
    for (size_t i = 0; i < num_faults_[k]; ++i) {
      const int64_t struck_ns = result.struck_ns[next++];
      if (struck_ns >= 0 && (at_ns < 0 || struck_ns < at_ns)) at_ns = struck_ns;
    }
    out->faults.push_back({f.describe(), at_ns >= 0, at_ns});
  }
  return simulated_run(std::move(out));
}

}  // namespace troupe::sim
