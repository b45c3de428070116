// Simulates a job without hardware, for tests: a world of ranks and hosts with faults, and the run that results.
// Includes everything that a test needs. Under it are the production actors on a virtual clock (actors/sim/sim.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/sim/sim.hpp"
#include "fabric/linear_link.hpp"
#include "plan/choose/cost.hpp"
#include "plan/plan_choice.hpp"
#include "sim/answer.hpp"
#include "sim/fault.hpp"
#include "sim/job_run.hpp"
#include "sim/machines_world.hpp"
#include "sim/network/placement.hpp"
#include "sim/network/read_network.hpp"
#include "sim/places.hpp"
#include "sim/processes_world.hpp"
#include "sim/run.hpp"
#include "sim/seeds.hpp"

namespace troupe::config {
struct job_config;
}
namespace troupe::job {
class step_plans;
}

namespace troupe::sim {

struct placed_times;

/// Hardware, steps and faults of a simulated world.
struct world_options {
  uint64_t seed = 0;  ///< decides the order and the latency of messages, and the noise
  /// The steps that the world runs, one after the other, each by its plan.
  std::vector<plan::plan_choice> steps{plan::plan_choice::train, plan::plan_choice::train};
  /// Rates of the machine. nullopt: the usual ones of the configuration's device and types; of plans, the defaults.
  std::optional<plan::cost_model> costs = {};
  uint32_t ranks_per_host = 0;           ///< 0: all ranks are on one host
  fabric::linear_link within_host = {};  ///< link of collectives whose members are on one host
  /// True: these collectives take the times that `troupe plan` predicts by the costs, and not those of `within_host`.
  bool within_host_by_costs = false;
  fabric::linear_link between_hosts = {50, 1.25e9};  ///< link of all other collectives
  /// Returns the link of collectives among these ranks, which are ascending. Given, it decides in place of the three
  /// fields before; cannot be combined with them.
  std::function<fabric::linear_link(const std::vector<uint32_t>& ranks)> link_between = {};
  /// Network on whose devices the ranks are placed, such as read_network() returns. Its nodes are the hosts, and each
  /// collective takes the time that times_on() computes for its kind and bytes. Cannot be combined with other values of
  /// the four fields before, or of ranks_per_host. Null: those fields decide.
  std::shared_ptr<const network> placed_on = {};
  axis_order axes = nearest_first;               ///< axes whose ranks are the nearest in that network
  std::chrono::nanoseconds latency_max{80'000};  ///< largest latency of a message between actors
  /// True: every message takes half of `latency_max`, at least 1 ns, whatever the seed, and blocks that ranks hand to
  /// the disk at one moment are all written when the last one is. Ranks that do the same then do it at the same
  /// nanosecond. Each communicator then moves its collectives by itself, also those that are priced by the costs; a
  /// rank otherwise moves one of these at a time.
  bool even_messages = false;
  /// True: one set of actors acts for all ranks that nothing tells apart (fold.hpp), with even messages. Each
  /// instruction starts at the same nanosecond as without folding. A fault that belongs to some ranks sets them, and
  /// those who meet them, apart; a late message, which the seed draws, sets all apart, and so does a program's own
  /// pass. Cannot be combined with noise.
  bool fold = false;
  /// Most instructions of all ranks that act, in all steps; 0: no limit.
  uint64_t instructions_max = 0;
  double noise = 0;  ///< an instruction takes [1, 1 + noise) times its predicted time
  std::chrono::nanoseconds stall_after{std::chrono::seconds(30)};  ///< limit for waiting ranks (cluster.stall_after)
  std::chrono::nanoseconds work_min{std::chrono::seconds(60)};     ///< least limit for working ranks
  std::vector<fault> faults = {};
};

/// A simulated job. A world is made once and can run many times; the same seed gives the same run, to the last message.
class world {
 public:
  /// Makes a world of the job that `config` describes: writes and proves its plans for the kinds of `options.steps`, as
  /// job::make_plans() does. Throws world_error with that function's errors, and for options, faults or steps that the
  /// world does not have.
  explicit world(std::shared_ptr<const config::job_config> config, world_options options = {});
  /// Makes a world of plans, by plan_choice; kinds that no step has may be empty.
  explicit world(std::vector<actors::shared_rank_plans> plans, world_options options = {});
  /// Makes a folded world of the plans of classes, by plan_choice, without writing the plans of ranks that others act
  /// for: for jobs of thousands of ranks. Throws world_error (bad_input) unless `options.fold` is set, and with the
  /// errors of step_plans::of().
  world(std::shared_ptr<const std::vector<job::step_plans>> plans, world_options options);

  /// Returns the same world with one more fault.
  [[nodiscard]] world with(fault f) const;

  /// Runs the steps, with the world's seed or another one. A step that fails ends the run and is part of the result.
  /// Checks that the actors followed the plans (actors::check_log). Throws world_error (bug) if they did not, or if
  /// the run did not end.
  [[nodiscard]] simulated_run run() const { return run(options_.seed); }
  [[nodiscard]] simulated_run run(uint64_t seed) const;

  /// Returns the plan of each rank, by plan_choice; of a rank that another acts for, that one's plan.
  [[nodiscard]] const std::vector<actors::shared_rank_plans>& plans() const { return plans_; }
  /// Returns for each rank the rank that acts for it; empty if all act for themselves.
  [[nodiscard]] const std::vector<uint32_t>& acted_by() const { return lower_.acted_by; }
  /// Returns the devices, the times of collectives without faults, and the bytes that pass each link in a step of the
  /// first kind of `steps`; null without a network.
  [[nodiscard]] const std::shared_ptr<const placed_times>& placed() const { return placed_; }

 private:
  void prepare();
  [[nodiscard]] std::vector<uint32_t> folded(const stage_of_faults& stage,
                                             const std::vector<std::vector<actors::sim_fault>>& faults) const;
  [[nodiscard]] std::shared_ptr<const plan::rank_plan> plan_of(size_t which, uint32_t rank) const;
  void take_plans(uint32_t ranks);

  // Plans of classes; null if the world was made of those of ranks.
  std::shared_ptr<const std::vector<job::step_plans>> classes_;
  // Plans as they were given; of classes_, the plan of each rank's class.
  std::vector<actors::shared_rank_plans> given_;
  std::vector<actors::shared_rank_plans> plans_;   // result of plans()
  std::vector<actors::shared_rank_plans> acting_;  // plans of the ranks that act, null for all others
  world_options options_;
  std::shared_ptr<const placed_times> placed_;  // result of placed(), computed once for all faults
  actors::sim_options lower_;                   // options of the lower layer, with everything but the seed
  std::vector<size_t> num_faults_;              // [fault]: number of its faults in lower_
};

}  // namespace troupe::sim
