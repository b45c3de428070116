#include "sim/placed_times.hpp"
#include "sim/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"
#include "job/plans.hpp"
#include "job/step/step_plans.hpp"
#include "plan/layout/classes.hpp"
#include "sim/fold.hpp"

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

/// Returns for each rank the plan of its class.
actors::shared_rank_plans plans_of_classes(const job::step_plans& written) {
  actors::shared_rank_plans out;
  const auto& classes = written.classes();
  for (size_t k = 0; k < classes.size(); ++k)
    for (const uint32_t r : classes[k].ranks) {
      if (out.size() <= r) out.resize(r + 1);
      out[r] = written.plans()[k];
    }
  return out;
}

/// Returns a text that two ranks' faults have in common if they belong to fault `number` of a world and are alike.
std::string look_of(size_t number, const actors::sim_fault& f) {
  return fmt::format("fault {}: {} {} {} {} {} {} {} {} {} {};", number, static_cast<int>(f.kind), f.run,
                     static_cast<int>(f.lane), f.position, f.factor, f.delay.count(), static_cast<int>(f.moment),
                     f.at_ns, f.with_lanes, f.text);
}

/// Returns a text that two communicators' times have in common if they are alike.
std::string look_of(const fabric::operation_curves& curves) {
  std::string out;
  for (const auto& [op, curve] : curves) {
    out += fmt::format("{}:", fabric::name_of(op));
    for (const auto& [bytes, ns] : curve.points()) out += fmt::format(" {} {}", bytes, ns);
    out += ';';
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

/// Returns true if the options state links within or between hosts.
bool has_host_links(const world_options& options) {
  const world_options usual;
  return options.within_host_by_costs || !is_same(options.within_host, usual.within_host) ||
         !is_same(options.between_hosts, usual.between_hosts);
}

/// Returns the device of each rank in the network of `options`.
std::vector<uint32_t> devices_of(const world_options& options, const plan::job_layout& layout) {
  if (options.ranks_per_host != 0 || options.link_between || has_host_links(options))
    refuse_world(
        "placed_on cannot be combined with ranks_per_host, within_host, within_host_by_costs, between_hosts and "
        "link_between: the network has them");
  return value_of(place_ranks(layout.options.mesh, *options.placed_on, options.axes));
}

}  // namespace

world::world(std::shared_ptr<const config::job_config> config, world_options options)
    : given_(plans_of(config, options.steps)), options_(std::move(options)) {
  if (!options_.costs) options_.costs = job::usual_costs(*config);
  prepare();
}

world::world(std::vector<actors::shared_rank_plans> plans, world_options options)
    : given_(std::move(plans)), options_(std::move(options)) {
  prepare();
}

world::world(std::shared_ptr<const std::vector<job::step_plans>> plans, world_options options)
    : classes_(std::move(plans)), options_(std::move(options)) {
  if (classes_ == nullptr) refuse_world("wanted plans of classes, got none");
  if (!options_.fold) refuse_world("wanted fold for plans of classes");
  for (const auto& of_kind : *classes_) given_.push_back(plans_of_classes(of_kind));
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
    if (static_cast<size_t>(which) >= given_.size() || given_[static_cast<size_t>(which)].empty())
      refuse_world(fmt::format("wanted steps of kinds that have plans, got kind {}", static_cast<size_t>(which)));
  if (options_.fold && options_.noise != 0)
    refuse_world("fold cannot be combined with noise, which sets all ranks apart");
  stage_of_faults stage{given_, options_.steps, options_.ranks_per_host, {}};
  for (const auto& which : given_)
    for (const auto& p : which)
      if (p == nullptr || p->layout == nullptr || which.size() != stage.ranks() ||
          p->options().ranks() != stage.ranks())
        refuse_world("wanted the plans of all ranks of one job, with their layouts");
  lower_ = {};
  if (options_.costs) lower_.costs = *options_.costs;
  lower_.latency_max = options_.latency_max;
  lower_.noise = options_.noise;
  lower_.even_messages = options_.even_messages || options_.fold;
  lower_.stall_after = options_.stall_after;
  lower_.work_min = options_.work_min;
  if (options_.placed_on != nullptr) {
    const network& on = *options_.placed_on;
    if (placed_ == nullptr)
      placed_ = std::make_shared<const placed_times>(
          value_of(times_on(on, devices_of(options_, stage.layout()), given_, options_.steps.front())));
    for (const uint32_t d : placed_->devices) stage.hosts_of_ranks.push_back(on.node_of_device[d]);
    lower_.links.assign(stage.communicators().size(), options_.within_host);
    lower_.curves = placed_->curves;
  } else if (options_.link_between) {
    if (has_host_links(options_))
      refuse_world("link_between cannot be combined with within_host, within_host_by_costs and between_hosts");
    for (const auto& c : stage.communicators()) lower_.links.push_back(options_.link_between(c.members));
    lower_.predicted_collectives.assign(lower_.links.size(), false);
  } else {
    for (const auto& c : stage.communicators()) {
      const bool is_within = is_within_host(c.members, stage);
      lower_.links.push_back(is_within ? options_.within_host : options_.between_hosts);
      lower_.predicted_collectives.push_back(is_within && options_.within_host_by_costs);
    }
  }
  std::vector<std::vector<actors::sim_fault>> faults;  // [fault]
  for (const fault& f : options_.faults) {
    require(f.apply_to(lower_, stage));
    faults.push_back(value_of(f.faults_in(stage)));
  }
  lower_.acted_by = folded(stage, faults);
  take_plans(stage.ranks());
  num_faults_.clear();
  for (auto& some : faults) {
    std::erase_if(some, [&](const actors::sim_fault& x) {
      return !lower_.acted_by.empty() && lower_.acted_by[x.rank] != x.rank;
    });
    num_faults_.push_back(some.size());
    std::ranges::move(some, std::back_inserter(lower_.further_faults));
  }
}

/// Returns for each rank the rank that acts for it; empty if all act for themselves.
std::vector<uint32_t> world::folded(const stage_of_faults& stage,
                                    const std::vector<std::vector<actors::sim_fault>>& faults) const {
  if (!options_.fold || !stage.layout().options.passes.empty()) return {};
  std::vector<std::string> looks(stage.ranks());  // [rank]: text of all that tells it apart
  for (size_t k = 0; k < faults.size(); ++k)
    for (const auto& f : faults[k]) {
      if (f.kind == actors::sim_fault_kind::late_message) return {};
      if (f.kind != actors::sim_fault_kind::freeze_disk) looks[f.rank] += look_of(k, f);  // the disk belongs to no rank
    }
  for (size_t which = 0; which < given_.size(); ++which) {
    if (given_[which].empty()) continue;
    const auto classes =
        classes_ == nullptr ? plan::classes_of(given_[which].front()->layout) : (*classes_)[which].classes();
    for (size_t k = 0; k < classes.size(); ++k)
      for (const uint32_t r : classes[k].ranks) looks[r] += fmt::format("class {};", k);
  }
  std::map<std::string, uint32_t> known;
  std::vector<uint32_t> colours, colours_of_links;
  for (auto& look : looks)
    colours.push_back(known.try_emplace(std::move(look), static_cast<uint32_t>(known.size())).first->second);
  std::map<std::string, uint32_t> known_links;
  for (size_t c = 0; c < lower_.links.size(); ++c) {
    const auto& l = lower_.links[c];
    const bool is_predicted = !lower_.predicted_collectives.empty() && lower_.predicted_collectives[c];
    std::string look = fmt::format("link {} {} {};", l.latency_us, l.bytes_per_second, is_predicted);
    if (!lower_.curves.empty()) look += look_of(lower_.curves[c]);
    colours_of_links.push_back(
        known_links.try_emplace(std::move(look), static_cast<uint32_t>(known_links.size())).first->second);
  }
  auto out = fold_ranks(colours, stage.communicators(), colours_of_links);
  if (num_acting(out) == out.size()) out.clear();
  return out;
}

std::shared_ptr<const plan::rank_plan> world::plan_of(size_t which, uint32_t rank) const {
  return classes_ == nullptr ? given_[which][rank] : value_of((*classes_)[which].of(rank));
}

/// Takes the plans of all `ranks` that act, once it is known which do.
void world::take_plans(uint32_t ranks) {
  const auto& by = lower_.acted_by;
  const auto acts = [&](uint32_t r) { return by.empty() || by[r] == r; };
  uint64_t instructions = 0;
  for (const auto which : options_.steps)
    for (uint32_t r = 0; r < ranks; ++r)
      if (acts(r)) instructions += given_[static_cast<size_t>(which)][r]->instructions.size();
  if (options_.instructions_max > 0 && instructions > options_.instructions_max)
    refuse_world(
        fmt::format("wanted at most {} instructions in all steps, got {} on {} ranks that act for {}; give "
                    "fewer steps, or faults that set fewer ranks apart",
                    options_.instructions_max, instructions, by.empty() ? ranks : num_acting(by), ranks));
  acting_.assign(given_.size(), {});
  plans_.assign(given_.size(), {});
  for (size_t which = 0; which < given_.size(); ++which) {
    if (given_[which].empty()) continue;
    acting_[which].resize(ranks);
    for (uint32_t r = 0; r < ranks; ++r)
      if (acts(r)) acting_[which][r] = plan_of(which, r);
    for (uint32_t r = 0; r < ranks; ++r) plans_[which].push_back(acting_[which][by.empty() ? r : by[r]]);
  }
}

simulated_run world::run(uint64_t seed) const {
  actors::sim_options options = lower_;
  options.seed = seed;
  const auto result = value_of(actors::simulate(acting_, options_.steps, options));
  require(actors::check_log(acting_, result, options.window, options.acted_by));
  auto out = std::make_shared<history>(record(acting_, result, seed, options.acted_by));
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
