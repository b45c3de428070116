// How long a plan should take: a price for each instruction, and the step played on a virtual clock.
// Owns the model of time; the costs of a machine are measured elsewhere and passed in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// One rank has one core for its compute lane; its other lanes cost it nothing but their time. The defaults were
/// measured on a 2-core machine.
struct cost_model {
  double flops_per_s = 100e9;            ///< matrix products of one core, fp32
  double copy_bytes_per_s = 20e9;        ///< reading or writing memory beside other lanes
  double disk_bytes_per_s = 2e9;         ///< writing, all ranks together
  double disk_read_bytes_per_s = 2.5e9;  ///< reading, likewise
  double disk_latency_s = 200e-6;        ///< of a swap beside its bytes: the device, the kernel and two messages
  double latency_s = 40e-6;              ///< from the end of an instruction to a start on another lane or rank
  /// A device with memory of its own, which all ranks share: bytes of that memory, and between it and the host's; 0:
  /// there is none. `flops_per_s` is then the device's, `copy_bytes_per_s` what the host's updates take.
  double device_bytes_per_s = 0, link_bytes_per_s = 0;
};

/// The measured defaults for this dtype of parameters: twice as many products in 16 bits where the processor multiplies
/// them by itself (`core::multiplies_natively`), nearly as many as in fp32 where it does not; half as many in fp64.
cost_model default_costs(core::dtype parameter, bool native_products = true);

/// What is assumed of a GPU that nobody has measured, for this dtype of parameters: half the products and three
/// quarters of the bytes that NVIDIA's data sheet of the A100 (80 GB, PCIe) tells.
cost_model card_costs(core::dtype parameter);

/// Seconds of the instruction alone, once it may start (a collective: once all members have started it).
double predicted_seconds(const rank_plan& p, const instruction& x, const cost_model& costs);

/// When an instruction ran, in seconds since the step began. A collective is posted at `start_s` and moves bytes from
/// `moving_s`, when the last member has posted it; elsewhere both are equal.
struct timed {
  double start_s = 0, moving_s = 0, end_s = 0;
};

struct rank_timeline {              ///< one rank's step on the virtual clock
  std::vector<timed> instructions;  ///< [id]
  double idle_s[num_lanes] = {};    ///< the step minus the lane's work
  double compute_s = 0;             ///< the compute lane busy
  double communication_s = 0;       ///< some collective moving
  double exposed_s = 0;             ///< of that, while neither the compute nor the shard lane worked
};

struct timeline {                                       ///< all ranks' step
  std::vector<std::shared_ptr<const rank_plan>> plans;  ///< [rank], or one of each class
  std::vector<uint32_t> stands_for;                     ///< [plan]: number of ranks
  std::vector<rank_timeline> ranks;                     ///< [plan]
  double step_s = 0;                                    ///< of the slowest rank
};

/// Seconds of an instruction alone, once it may start; of a collective the longest of its members' counts.
using instruction_price = std::function<double(const rank_plan& p, const instruction& x)>;

/// Plays a step that is neither skipped nor clipped: lanes in order, dependencies, collectives one after the other once
/// all members have posted them; `latency_s` from the end of an instruction to a start on another lane or rank. The
/// plans have passed check(). Deterministic. For many ranks, one plan of each class may be given, with the number of
/// ranks it stands for; empty: each plan stands for one rank.
timeline play(rank_plans ranks, const instruction_price& price, double latency_s,
              std::vector<uint32_t> stands_for = {});

/// The same with the prices of a cost model; what only acts in skipped or clipped steps takes no time.
timeline predict(rank_plans ranks, const cost_model& costs, std::vector<uint32_t> stands_for = {});

}  // namespace troupe::plan
