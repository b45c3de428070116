// Predicts how long a plan takes: computes a price for each instruction, and simulates the step on a virtual clock.
// Owns the model of time; the costs of a machine are measured elsewhere and passed in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Measured constants of one core of a machine while all its cores compute, for one type of parameters. All 0: nothing
/// was measured, and times follow from cost_model's rates. Units and meanings are in machine_costs.hpp.
struct machine_costs {
  double product_flops_per_s = 0;
  double product_fill_m = 0, product_fill_n = 0, product_fill_k = 0;
  double product_lost = 0;  ///< elements of its result more that a product costs; of cards, never measured
  double attention_flops_per_s = 0, attention_backward_flops_per_s = 0;
  double elementwise_bytes_per_s = 0, activation_bytes_per_s = 0, loss_bytes_per_s = 0;
  double copy_bytes_per_s = 0, reduce_bytes_per_s = 0, update_bytes_per_s = 0;
  double launch_s = 0, wakeup_s = 0;

  /// True if the constants were measured.
  [[nodiscard]] bool is_known() const { return product_flops_per_s > 0; }
  bool operator==(const machine_costs&) const = default;
};

/// The rates of a machine. One rank has one core for its compute lane; its other lanes take time but no core. The
/// defaults were measured on a 2-core machine.
struct cost_model {
  double flops_per_s = 100e9;            ///< flops per second of one core in fp32 matrix products
  double copy_bytes_per_s = 20e9;        ///< bytes of host memory read or written per second, as plan::touched counts
  double disk_bytes_per_s = 2e9;         ///< rate of writing to the disk, which all ranks share
  double disk_read_bytes_per_s = 2.5e9;  ///< rate of reading from the disk, which all ranks share
  double disk_latency_s = 200e-6;  ///< seconds of a swap in addition to its bytes: device, kernel and two messages
  double latency_s = 40e-6;  ///< seconds from the end of an instruction to the start of one on another lane or rank
  /// Rates of a device with memory of its own, which all ranks share: bytes per second of that memory, and of the link
  /// to host memory. 0: there is no such device. Otherwise `flops_per_s` is the device's rate, and `copy_bytes_per_s`
  /// the rate of updates on the host.
  double device_bytes_per_s = 0, link_bytes_per_s = 0;
  /// Constants measured on this machine, by which instructions on the CPU are priced as sums of terms (cost_terms.hpp).
  machine_costs machine = {};
};

/// Returns a cost model with measured constants: its rates are those of large products and of copies, its latency that
/// of a message. `disk`: the cost model whose rates of the disk are kept.
cost_model measured_model(const machine_costs& machine, cost_model disk);

/// Returns the default rates of a CPU for parameters of this dtype. For 16-bit types, flops_per_s is about twice the
/// rate of fp32 if the processor multiplies 16-bit numbers natively (`core::multiplies_natively`), else a little less
/// than that of fp32; for fp64 it is half that of fp32.
cost_model default_costs(core::dtype parameter, bool native_products = true);

/// Returns the assumed rates of a GPU that was not measured, for this dtype of parameters: half of the flops per second
/// and three quarters of the bytes per second in NVIDIA's data sheet of the A100 (80 GB, PCIe).
cost_model card_costs(core::dtype parameter);

/// Returns the bytes of memory that an instruction touches; 0 for transfers to and from a disk.
uint64_t touched_bytes(const rank_plan& p, const instruction& x);

/// True if instructions are priced by the rates of a device with memory of its own.
inline bool is_priced_by_card(const rank_plan& p, const cost_model& costs) {
  return p.options().tiers.apart && costs.device_bytes_per_s > 0;
}

/// Returns the seconds of the instruction alone, from the moment when it may start (a collective: when all members have
/// started it).
double predicted_seconds(const rank_plan& p, const instruction& x, const cost_model& costs);

/// The times of an instruction, in seconds since the step began. A collective is posted at `start_s` and moves bytes
/// from `moving_s`, when the last member has posted it. For a swap or write `moving_s` is when its transfer begins. For
/// other instructions `moving_s` equals `start_s`.
struct timed {
  double start_s = 0, moving_s = 0, end_s = 0;
};

/// The predicted step of one rank on the virtual clock.
struct rank_timeline {
  std::vector<timed> instructions;  ///< [instruction id]: predicted start and end of the instruction
  double idle_s[num_lanes] = {};    ///< [lane]: seconds of the step in which the lane does not work
  double compute_s = 0;             ///< seconds in which the compute lane works
  double communication_s = 0;       ///< seconds in which some collective moves bytes
  double exposed_s = 0;  ///< seconds of communication_s in which neither the compute nor the shard lane works
};

/// The predicted step of all ranks on the virtual clock.
struct timeline {
  std::vector<std::shared_ptr<const rank_plan>> plans;  ///< [rank]: plan of the rank; or one plan for each class
  std::vector<uint32_t> stands_for;                     ///< [plan]: number of ranks that the plan represents
  std::vector<rank_timeline> ranks;                     ///< [plan]: timeline of the plan's rank
  double step_s = 0;                                    ///< seconds of the slowest rank's step
};

/// Function that returns the seconds which an instruction takes alone, from the moment when it may start. A collective
/// takes the largest of the times that the function returns for its members.
using instruction_price = std::function<double(const rank_plan& p, const instruction& x)>;

/// Simulates a step that is neither skipped nor clipped. Each lane runs its instructions in order; an instruction
/// starts after its dependencies; a rank moves one collective at a time, once all members have posted it. `latency_s`
/// passes from the end of an instruction to the start of a dependent one on another lane or rank. The plans must have
/// passed check(). Deterministic. For many ranks, one plan of each class may be given, with the number of ranks it
/// represents; `stands_for` empty: each plan represents one rank.
timeline play(rank_plans ranks, const instruction_price& price, double latency_s,
              std::vector<uint32_t> stands_for = {});

/// Simulates the step with the prices of a cost model. Instructions that act only in skipped or clipped steps take no
/// time.
timeline predict(rank_plans ranks, const cost_model& costs, std::vector<uint32_t> stands_for = {});

}  // namespace troupe::plan
