// The parameters of a rank as its stages compute with them: where each is bound now, and where its gradient goes.
// Stages of a rank share them, since a parameter may be used by several of these: a host's tied module, or a bucket
// that adds up both uses. The bytes are rank_memory's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/memory/rank_memory.hpp"
#include "actors/step_context.hpp"
#include "models/segment/parameter_binding.hpp"
#include "models/segment/segment.hpp"

namespace troupe::actors {

/// Not thread-safe: the stages of a rank run on one thread (stage_thread.hpp).
class bound_parameters {
 public:
  /// Where nothing is gathered, all that the rank holds are bound once and for all. `own`: as in parameter_binding.
  bound_parameters(std::shared_ptr<rank_memory> memory, std::vector<at::Tensor> own);

  /// A run begins; every stage says so.
  void begin(const step_context& context);
  /// Before a segment of unit `x.subject`. A gather carries a slot and is bound at use: a unit may be prefetched again
  /// while an earlier use is resident.
  void bind_for(const plan::instruction& x);
  void release(const plan::instruction& x);
  /// Where a contribution of micro-batch `micro` to the gradient of parameter `q` goes; the run remembers that it did.
  models::gradient_target target(uint32_t q, uint32_t micro, step_context& run);

  /// Where `parameter` is bound.
  [[nodiscard]] const std::byte* bytes(uint32_t parameter) const {
    return static_cast<const std::byte*>(bound_at_[parameter]);
  }
  /// The parameter itself, where it is bound to what compression made of it.
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
  std::vector<void*> bound_at_;              // [parameter]
  std::vector<void*> uncompressed_at_;       // [parameter]: of the last use that was bound to a copy
  std::shared_ptr<const program> program_;   // of the run; the next two belong to its plan
  std::vector<uint64_t> bucket_offset_;      // [parameter]: in its bucket, in elements
  uint32_t persistent_buffer_ = plan::none;  // slot of the parameters that stay gathered
};

}  // namespace troupe::actors
