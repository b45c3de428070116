// Owns the bindings of a rank's parameters: the memory that each parameter's tensor refers to now, and the memory of
// its gradient. All pipeline stages of a rank share one object, because several stages may use one parameter: a tied
// module of the host program, or a bucket that sums the gradients of both uses. rank_memory owns the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/memory/rank_memory.hpp"
#include "actors/step_context.hpp"
#include "models/segment/parameter_binding.hpp"
#include "models/segment/segment.hpp"

namespace troupe::actors {

/// Stores the current addresses of a rank's parameters and gradients. Not thread-safe: all pipeline stages of a rank
/// run on one thread (stage_thread.hpp).
class bound_parameters {
 public:
  /// If the plan gathers no parameters, binds all parameters that the rank holds to their memory. `own`: parameters of
  /// the host program's own model, passed to parameter_binding; empty: the model is one of Troupe's.
  bound_parameters(std::shared_ptr<rank_memory> memory, std::vector<at::Tensor> own);

  /// Prepares for a run of the plan in `context`; each pipeline stage of the rank calls this once per run.
  void begin(const step_context& context);
  /// Binds the parameters of unit `x.subject` to the memory that instruction `x` names. Gathered parameters are bound
  /// here, at their use, and not at the gather: the unit may be gathered into another slot for a later use while the
  /// slot of an earlier use is still occupied.
  void bind_for(const plan::instruction& x);
  void release(const plan::instruction& x);
  /// Returns where backward must add or write the gradient of parameter `q` that micro-batch `micro` contributes;
  /// records in `run` that this gradient has been written.
  models::gradient_target target(uint32_t q, uint32_t micro, step_context& run);

  /// Returns the memory to which `parameter` is bound now.
  [[nodiscard]] const std::byte* bytes(uint32_t parameter) const {
    return static_cast<const std::byte*>(bound_at_[parameter]);
  }
  /// Returns the address of the parameter's uncompressed weights, if it is bound to compressed ones.
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
  std::vector<void*> uncompressed_at_;  // address of the uncompressed weights at the last binding to compressed ones
  // Program (the plan as lanes execute it) of the current run; bucket_offset_ and persistent_buffer_ are computed from
  // its plan.
  std::shared_ptr<const program> program_;
  std::vector<uint64_t> bucket_offset_;      // offset of a parameter in its gradient bucket in elements, by parameter
  uint32_t persistent_buffer_ = plan::none;  // buffer of the parameters that are gathered once per step
};

}  // namespace troupe::actors
