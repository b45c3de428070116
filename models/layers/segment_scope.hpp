// The inputs of a segment's forward: parameters, batch, dropout keys, and the slot that backward fills.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "models/layers/parameter_binding.hpp"
#include "models/layers/segment.hpp"
#include "models/layers/weight.hpp"

namespace troupe::models {

/// Lives for one forward; the functions themselves keep what backward needs.
class segment_scope {
 public:
  segment_scope(const core::model_table& table, const parameter_binding& parameters, const micro_batch& batch,
                uint32_t unit, uint32_t segment, uint32_t coordinate = 0);

  /// The segment's next layer of `kind`, in the order of the table; those without parameters may be passed over.
  const core::layer_info& next(core::layer_kind kind);
  [[nodiscard]] weight parameter(uint32_t id) const;

  [[nodiscard]] const micro_batch& batch() const { return batch_; }
  [[nodiscard]] const std::shared_ptr<sink_slot>& slot() const { return slot_; }
  [[nodiscard]] uint32_t unit() const { return unit_; }
  /// Where ranks of a tensor group compute summands of the segment's output: whether this one's has what is not cut in
  /// it, the residual path and the biases of the last layer. True everywhere else.
  [[nodiscard]] bool leads() const { return leads_; }

 private:
  const core::model_table& table_;
  const parameter_binding& parameters_;
  const micro_batch& batch_;
  std::span<const core::layer_info> layers_;  // those to come
  uint32_t unit_;
  bool leads_;
  std::shared_ptr<sink_slot> slot_ = std::make_shared<sink_slot>();
};

/// Runs `forward` on `input`, detached, and keeps the graph for one backward; keeps no graph when not training. Of what
/// it gives the first has a gradient, others are handed on beside it.
std::unique_ptr<segment_run> run_segment(segment_scope& scope, const at::Tensor& input,
                                         const std::function<values(const at::Tensor&)>& forward);

}  // namespace troupe::models
