// A parameter as the functions of a segment use it, and the object that writes its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "models/segment/segment.hpp"

namespace troupe::models {

class weight_work;

/// Where a segment's functions find the gradient sink: set while the segment's backward runs; all functions of the
/// segment share one slot.
struct sink_slot {
  gradient_sink* sink = nullptr;
  /// Set only during the input part of a split backward: stores the writes of gradients for the weight part.
  weight_work* later = nullptr;
};

/// One parameter: its index in the table, its tensor, whose memory is bound and released, and its name. The string to
/// which `name` refers must outlive the object.
struct weight {
  uint32_t id = 0;
  at::Tensor tensor;
  std::string_view name;
  bool trainable = true;

  /// Returns the tensor, after checking that its bytes are bound; throws c10::Error otherwise.
  [[nodiscard]] const at::Tensor& bound() const;
};

/// Writes one contribution to a parameter's gradient: fill `out()`, then call `commit()`; or call `write_rows`. For a
/// parameter that is not trained the sink is not called and nothing is kept.
///
/// The contribution is formed in the parameter's dtype (sums inside in fp32 or wider, rounded once). If the target (the
/// memory that the sink provides for this gradient) has that dtype and is to be overwritten, `out()` is the target
/// itself; otherwise `out()` is a temporary that `commit` converts and adds: accumulating in the target gives the same
/// bits as adding two targets afterwards. Elements that the target's mask drops are 0 in a contribution, before it is
/// added.
class gradient_writer {
 public:
  gradient_writer(const sink_slot& slot, const weight& parameter);
  [[nodiscard]] at::Tensor& out();
  void commit();
  /// Writes a contribution that exists already as a tensor, in the parameter's shape and dtype.
  void write(const at::Tensor& whole);

  /// Writes a contribution that is zero except for some rows: `rows` (n, C) in the parameter's dtype belong at `ids`
  /// (n), which are all different. If the target accumulates, other rows are not touched.
  void write_rows(const at::Tensor& ids, const at::Tensor& rows);

 private:
  /// Sets the elements of `whole` that the target's pruning mask drops to 0, before the contribution is added to the
  /// target.
  void mask(const at::Tensor& whole) const;
  void show(const at::Tensor& whole) const;
  void put(const at::Tensor& whole);

  // Sink whose formed() is called with each contribution; null: gradient_target::is_watched is false, so formed() is
  // not called.
  gradient_sink* watching_ = nullptr;
  uint32_t id_;
  bool kept_, accumulate_ = false;
  at::ScalarType type_;            // dtype of the parameter
  std::span<const uint8_t> mask_;  // pruning mask of the weight; empty: the weight is not pruned
  at::Tensor destination_, out_;
};

}  // namespace troupe::models
