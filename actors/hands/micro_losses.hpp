// Copies the losses of a run's micro-batches from the device to the memory of the vote, the collective by which all
// ranks exchange losses, and handles losses that are not finite. Owns no tensor: a function of the caller finds the
// first tensor that has a number which is not finite.
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

/// Most steps in a row that may be skipped because the loss is not finite. Skipping repairs a gradient that overflowed,
/// not broken weights; a dynamic loss scale fails earlier.
inline constexpr uint32_t bad_steps_max = 50;

class micro_losses {  ///< copies and checks the losses of one pipeline stage; used by the stage's thread
 public:
  /// `broken`: function that returns where the first number that is not finite was found, for an error message.
  explicit micro_losses(std::function<std::string()> broken) : broken_(std::move(broken)) {}

  void begin(std::shared_ptr<step_context> context);

  /// Enqueues the copy of a micro-batch's loss from the device into the memory of the vote, so that the host need not
  /// wait for it. `mean`: tensor with one element, the mean loss. Errors: those of look().
  core::result<void> write(uint32_t micro, const at::Tensor& mean, device::device_id where);

  /// Checks the losses whose copies have arrived since the last call; all losses, once the work of the run is finished.
  /// Errors (numeric): a loss is not finite, and the job does not skip such steps or has skipped too many in a row.
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
  std::vector<written_loss> written_;  ///< losses that were written in this run, in the order of the writes
  size_t seen_ = 0;                    ///< number of losses in `written_` that were checked
  bool bad_step_ = false;              ///< true: a loss of this training step is not finite
  uint32_t bad_steps_ = 0;             ///< number of training steps in a row with a loss that is not finite
};

}  // namespace troupe::actors
