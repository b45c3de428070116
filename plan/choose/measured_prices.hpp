// Owns the costs of instructions that a run has measured; passes are chosen by these costs. Decides which
// instructions of two plans count as equal, and the cost of an instruction that occurred in no measured plan. The
// measuring is done in telemetry/.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "plan/choose/cost.hpp"

namespace troupe::plan {

/// Measured seconds of an instruction, summed over the instructions that count as equal because all fields of this
/// struct up to `pieces` are equal.
struct price_sum {
  plan::kind kind{};
  plan::use use = use::forward;
  swapped what = swapped::nothing;
  bool near = false;
  repetition repeats = repetition::none;
  uint32_t subject = none, segment = none;
  uint32_t piece = 0, pieces = 1;  ///< number of the piece, and number of all pieces, of a product and its exchange
  double seconds = 0;              ///< measured seconds, summed over `count` repetitions
  double modelled_s = 0, flops = 0;
  uint64_t bytes = 0, count = 0;
};

/// Mean prices over ranks and micro-batches. An instruction that was never measured costs its modelled time, multiplied
/// by the ratio of measured to modelled time of its kind, else of its lane. The recompute of a unit costs as its
/// measured forward; a forward in another number of pieces is scaled by the ratio of its own segment.
class measured_prices {
 public:
  explicit measured_prices(const cost_model& costs) : costs_(costs) {}

  /// Adds a measurement: instruction `x` of plan `p`, which has run, took `seconds` without its waits.
  void add(const rank_plan& p, const instruction& x, double seconds);
  /// Adds the measured times of another rank.
  void add(const price_sum& x);
  /// Returns all sums that were added, in an order that is equal on every rank.
  [[nodiscard]] std::vector<price_sum> sums() const;
  /// Returns the seconds of an instruction, of any plan of the same model with the same micro-batches. If the
  /// instruction does more or less work than the measured one, because its unit keeps other activations for backward,
  /// its price is scaled as the model predicts.
  [[nodiscard]] double seconds(const rank_plan& p, const instruction& x) const;
  [[nodiscard]] bool is_empty() const { return known_.empty(); }

 private:
  /// Identifies an instruction across plans: its fields `kind`, `use`, `what`, `subject`, `segment`, `near`,
  /// `repeats` and `piece` (plan/instruction.hpp), and the number of pieces into which its product is divided.
  using key = std::tuple<plan::kind, plan::use, swapped, uint32_t, uint32_t, bool, repetition, uint32_t, uint32_t>;
  struct mean {
    double seconds = 0, modelled_s = 0, flops = 0;
    uint64_t bytes = 0, count = 0;
  };
  [[nodiscard]] static key key_of(const rank_plan& p, const instruction& x);
  [[nodiscard]] double recomputed(const rank_plan& p, const instruction& x) const;

  cost_model costs_;
  std::map<key, mean> known_;
  // [unit, segment]: measured seconds of forward, summed over all pieces of its product; `count` counts first pieces
  // only.
  std::map<std::pair<uint32_t, uint32_t>, mean> forward_of_;
  std::map<plan::kind, mean> of_kind_;
  std::map<plan::lane, mean> of_lane_;
};

}  // namespace troupe::plan
