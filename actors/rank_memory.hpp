// The bytes of one rank: one pool per owner, sized by the plan, alive as long as anybody may read them. Owns addresses;
// who may touch which when is the plan's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "plan/layout.hpp"
#include "plan/step_plan.hpp"
#include "storage/huge_memory.hpp"

namespace troupe::actors {

class rank_memory {
 public:
  /// Room for every plan in `plans`, which share layouts; the first one is the training plan.
  static core::result<std::shared_ptr<rank_memory>> allocate(
      const std::vector<std::shared_ptr<const plan::step_plan>>& plans);

  /// Parameters in their own layout: full at stages 0 to 2, this rank's slices at stage 3.
  [[nodiscard]] std::byte* parameters() const { return parameters_.data(); }
  [[nodiscard]] std::byte* gathered() const { return gathered_.data(); }
  [[nodiscard]] std::byte* gradients() const { return gradients_.data(); }
  [[nodiscard]] std::byte* accumulated() const { return accumulated_.data(); }

  /// Element `first` of `parameter`, which this rank must hold.
  [[nodiscard]] std::byte* parameter(uint32_t parameter, uint64_t first) const;
  /// Whole update directions, in the slots of the plan; fp32, fp64 in reference mode.
  [[nodiscard]] std::byte* directions() const { return directions_.data(); }
  /// Copies on their way into a checkpoint, in the slots of the plan; null before `take_staging`.
  [[nodiscard]] std::byte* staging() const { return staging_.data(); }
  /// Before the first run that saves; later calls do nothing.
  core::result<void> take_staging();
  /// Master weight of a piece's first element; fp32, fp64 in reference mode.
  [[nodiscard]] std::byte* master(const plan::owned_piece& piece) const;
  /// First (0) or second (1) moment, likewise; null where the optimizer of this parameter keeps none.
  [[nodiscard]] std::byte* moment(const plan::owned_piece& piece, uint32_t which) const;
  /// The reduced gradient of element `first` of `parameter`, as it lies after the step's last reduction.
  [[nodiscard]] const std::byte* reduced_gradient(uint32_t parameter, uint64_t first) const;

  [[nodiscard]] const plan::step_plan& plan() const { return *plan_; }
  /// Bytes that are really mapped, by owner, in the plan's terms.
  [[nodiscard]] plan::memory_table resident() const;

 private:
  std::shared_ptr<const plan::step_plan> plan_;
  storage::huge_memory parameters_, gathered_, master_, moments_, gradients_, accumulated_, directions_, staging_;
  uint64_t gathered_bytes_ = 0, staging_bytes_ = 0;
};

}  // namespace troupe::actors
