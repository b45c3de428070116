// The parameters of a rank as its stages compute with them: the memory that each is bound to now, and the target of its
// gradient. The stages of a rank share this object, because several of them may use one parameter: a host's tied
// module, or a bucket that sums both uses. rank_memory owns the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/memory/rank_memory.hpp"
#include "actors/step_context.hpp"
#include "models/segment/parameter_binding.hpp"
#include "models/segment/segment.hpp"

namespace troupe::actors {

/// The current addresses of the parameters and gradients of a rank's units. Not thread-safe: all stages of a rank run
/// on one thread (stage_thread.hpp).
class bound_parameters {
 public:
  /// Binds all parameters that the rank holds, once, if nothing is gathered. `own`: the parameters
  /// of a host's own model, for parameter_binding.
  bound_parameters(std::shared_ptr<rank_memory> memory, std::vector<at::Tensor> own);

  /// Prepares for a run; every stage calls this once per run.
  void begin(const step_context& context);
  /// Binds the parameters for a segment of unit `x.subject`. The parameters of a gather are bound at their use, because
  /// a unit may be prefetched again while an earlier use is resident.
  void bind_for(const plan::instruction& x);
  void release(const plan::instruction& x);
  /// Returns the target of the contribution of micro-batch `micro` to the gradient of parameter `q`; records in `run`
  /// that it was written.
  models::gradient_target target(uint32_t q, uint32_t micro, step_context& run);

  /// Returns the memory to which `parameter` is bound now.
  [[nodiscard]] const std::byte* bytes(uint32_t parameter) const {
    return static_cast<const std::byte*>(bound_at_[parameter]);
  }
  /// Returns the memory of the uncompressed parameter, if the parameter is bound to a compressed copy.
  [[nodiscard]] const std::byte* uncompressed_bytes(uint32_t parameter) const {
    return static_cast<const std::byte*>(uncompressed_at_[parameter]);
  }
  [[nodiscard]] const models::parameter_binding& tensors() const { return binding_; }

 private:
  [[nodiscard]] const plan::rank_plan& p() const { return *program_->plan; }
  void bind_gathered(const plan::instruction& x);
  void bind(uint32_t q, void* at);
  void bind_set(uint32_t set, uint32_t buffer);
  void look_up();

  std::shared_ptr<rank_memory> memory_;
  models::parameter_binding binding_;
  std::vector<void*> bound_at_;         // address that the model's tensor was last bound to, by parameter
  std::vector<void*> uncompressed_at_;  // uncompressed address of the last use that was bound to a copy, by parameter
  // Program of the run; bucket_offset_ and persistent_buffer_ belong to its plan.
  std::shared_ptr<const program> program_;
  std::vector<uint64_t> bucket_offset_;      // offset of a parameter in its gradient bucket in elements, by parameter
  uint32_t persistent_buffer_ = plan::none;  // slot of the parameters that are gathered for the whole step
};

}  // namespace troupe::actors
