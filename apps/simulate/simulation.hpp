// Simulates the first steps of a job, without faults and with them, and owns what was found, as plain values. Leaves
// the command to job_simulation.hpp, texts to simulation_text.cpp and simulation_json.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/simulate/fault_sentence.hpp"
#include "apps/simulate/link_loads.hpp"
#include "apps/simulate/memory_peaks.hpp"
#include "apps/simulate/step_parts.hpp"
#include "core/error.hpp"
#include "fabric/linear_link.hpp"
#include "job/blueprint.hpp"
#include "plan/plan_choice.hpp"
#include "sim/run.hpp"

namespace troupe::apps {

/// Largest number of instructions in all steps that a command simulates, of all ranks that have actors; more would take
/// minutes and gigabytes.
inline constexpr uint64_t simulated_instructions_max = 4'000'000;

/// Largest number of ranks that all have actors of their own; beyond it, ranks that are alike share them
/// (sim::world_options::fold).
inline constexpr uint32_t unfolded_ranks_max = 64;

/// Link between two hosts unless the user states another rate: Ethernet of 10 Gbit/s.
inline constexpr fabric::linear_link usual_network{50, 1.25e9};

/// A card that is not here, on which the ranks of a simulation are placed.
struct simulated_card {
  std::string stack;                    ///< name of the stack whose constants price the steps
  std::string name;                     ///< the card's name
  uint32_t node_gpus = 1;               ///< consecutive ranks of a host
  double peak_flops_per_s = 0;          ///< of one card
  uint64_t memory_bytes = 0;            ///< of one card
  std::optional<uint64_t> other_bytes;  ///< what programs keep beside the plan's memory; nullopt: not known
  /// Returns the link of collectives among these ranks.
  std::function<fabric::linear_link(const std::vector<uint32_t>& ranks)> link_between;
};

struct simulation_wish {
  std::optional<simulated_card> card;  ///< nullopt: this machine
  std::vector<fault_sentence> faults;
  uint64_t steps = 0;  ///< 0: two, or up to the last step that a fault names
  uint64_t seed = 0;
  uint32_t ranks_per_host = 0;  ///< 0: by cluster.hosts, else all ranks on one host
  std::optional<double> network_bytes_per_s;
  std::string
      network;  ///< name or file of a network (hardware::find_network()), whose nodes are the hosts; empty: none
};

/// Network that a job is placed on, and what it carries.
struct network_use {
  std::string name;  ///< as the user gave it
  uint32_t nodes = 0, devices = 0;
  std::vector<link_load> busiest;  ///< busiest links of a training step
};

/// Number of links that a simulation lists.
inline constexpr size_t listed_links = 10;

/// Groups of ranks whose collectives are alike: as many ranks, bytes and hosts.
struct collective_traffic {
  std::string name;             ///< name of the communicator, such as "data"
  std::vector<uint32_t> ranks;  ///< members of the first group
  std::vector<uint32_t> hosts;  ///< hosts of these members
  uint32_t groups = 1;
  uint64_t collectives = 0;  ///< number of a group's collectives in a training step
  uint64_t bytes = 0;        ///< bytes that they move in a step, of all members of a group together
};

/// One run on the virtual clock.
struct simulated_outcome {
  sim::simulated_run run{nullptr};
  /// Plan of each rank, by plan_choice; of a rank that another acts for, that one's plan.
  std::vector<actors::shared_rank_plans> plans;
  uint32_t classes = 1;           ///< number of ranks that have actors; each acts for those that are like it, too
  std::vector<step_parts> parts;  ///< [rank]; empty if no step ended well
  double step_s = 0;              ///< mean of the steps that ended well; 0 if none did
  double total_s = 0;             ///< seconds of all steps, of a failed one up to its error
};

/// The costs of a failure for a job that is started again at its latest checkpoint.
struct fault_loss {
  uint64_t failed_step = 0;
  double noticed_after_s = 0;   ///< seconds from the latest fault that happened to the error
  uint64_t resumed_behind = 0;  ///< step behind which the job resumes; 0: at its start
  double lost_s = 0;            ///< seconds of the steps that have to be computed again, and of the failed one
};

struct simulation {
  std::vector<plan::plan_choice> steps;
  plan::cost_model costs;
  uint32_t ranks = 1, hosts = 1;
  std::optional<simulated_card> card;  ///< nullopt: this machine
  fabric::linear_link between_hosts;   ///< link of collectives of several hosts, without a network
  std::optional<network_use> network;  ///< nullopt: hosts are linked by `between_hosts`
  /// Seconds of a training step as `troupe plan` predicts it; nullopt: the job is on a card, which plan does not know.
  std::optional<double> predicted_s;
  double model_flops = 0;       ///< flops of a step's forward and backward on all ranks, without recomputation
  double peak_flops_per_s = 0;  ///< assumed rate of products of all ranks together, or of their device
  std::vector<collective_traffic> traffic;
  std::vector<memory_peak> memory;  ///< peaks of the run without faults
  simulated_outcome healthy;
  std::vector<fault_sentence> faults;
  std::optional<simulated_outcome> faulty;  ///< the run with all faults; nullopt: there are none
  std::optional<fault_loss> loss;           ///< nullopt: the run with faults ended well, or there are no faults

  /// Bytes that the plan of the fullest rank sets aside.
  [[nodiscard]] uint64_t planned_bytes() const { return memory.empty() ? 0 : memory.back().planned_bytes; }
  /// Fraction of the assumed peak that a step's model flops use.
  [[nodiscard]] double mfu() const { return model_flops / (healthy.step_s * peak_flops_per_s); }
};

/// Runs the job of a blueprint, with the costs of the blueprint's predictions. Errors: those of plans; bad_input: a
/// fault or a number of steps that the job does not have, hosts that do not divide its ranks, too many instructions, a
/// network that cannot be read or has fewer devices than the job has ranks.
core::result<simulation> simulate_job(const job::blueprint& b, const plan::cost_model& costs, simulation_wish wish);

}  // namespace troupe::apps
