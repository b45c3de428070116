// The losses of a run's micro-batches on their way from the device to the vote, and what is made of one that is not
// finite. Owns no tensor: where a number broke first is said by who has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/step_context.hpp"
#include "core/error.hpp"
#include "device/stream.hpp"

namespace troupe::actors {

/// The most steps in a row that are skipped because the loss is not finite. Skipping heals a gradient that overflowed,
/// not broken weights; a dynamic loss scale gives up sooner.
inline constexpr uint32_t bad_steps_max = 50;

class micro_losses {  ///< of one stage; used by its thread
 public:
  /// `broken`: says where a number that is not finite appeared first.
  explicit micro_losses(std::function<std::string()> broken) : broken_(std::move(broken)) {}

  void begin(std::shared_ptr<step_context> context);

  /// From the device straight into the vote's memory, so that the host does not wait for the number. `mean`: of the
  /// micro-batch, one element. Errors as look().
  core::result<void> write(uint32_t micro, const at::Tensor& mean, device::device_id where);

  /// Checks those that have arrived since the last call: all, once the run's work is over. Errors (numeric): one is not
  /// finite and steps are not skipped for that, or were too often in a row.
  core::result<void> look();

 private:
  core::result<void> judge(double loss);
  [[nodiscard]] bool trains() const;
  [[nodiscard]] double& at(uint32_t micro) const;

  std::function<std::string()> broken_;
  std::shared_ptr<step_context> context_;
  struct written_loss {
    uint32_t micro = 0;
    device::event at{};
  };
  std::vector<written_loss> written_;  ///< of this run, in order
  size_t seen_ = 0;                    ///< of these
  bool bad_step_ = false;              ///< a loss of this training step is not finite
  uint32_t bad_steps_ = 0;             ///< such steps in a row
};

}  // namespace troupe::actors
