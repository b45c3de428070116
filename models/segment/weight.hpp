// A parameter as the functions of a segment see it, and the writer of its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "models/segment/segment.hpp"

namespace troupe::models {

class weight_work;

/// Filled while a segment's backward runs; every function of the segment holds the same one.
struct sink_slot {
  gradient_sink* sink = nullptr;
  weight_work* later = nullptr;  ///< while only the input part runs: what writes gradients waits there
};

/// One parameter: its identity and the tensor whose bytes are bound and released. `name` must outlive it.
struct weight {
  uint32_t id = 0;
  at::Tensor tensor;
  std::string_view name;
  bool trainable = true;

  /// The tensor, after checking that its bytes are bound; throws c10::Error otherwise.
  [[nodiscard]] const at::Tensor& bound() const;
};

/// One contribution to a parameter's gradient: fill `out()`, then `commit()`; or `write_rows`. For a parameter that is
/// not trained the sink is not called and nothing is kept.
///
/// The contribution is formed in the parameter's dtype (sums inside in fp32 or wider, rounded once). Where the target
/// has that dtype and is to be overwritten, `out()` is the target itself; otherwise a temporary that `commit` converts
/// and adds: accumulating in the target gives the same bits as adding two targets afterwards. What the target's mask
/// drops is 0 in a contribution, before it is added.
class gradient_writer {
 public:
  gradient_writer(const sink_slot& slot, const weight& parameter);
  [[nodiscard]] at::Tensor& out();
  void commit();
  /// A contribution that is there already, in the parameter's shape and dtype.
  void write(const at::Tensor& whole);

  /// A contribution that is zero except for some rows: `rows` (n, C) in the parameter's dtype belong at `ids` (n),
  /// which are all different. If the target accumulates, other rows are not touched.
  void write_rows(const at::Tensor& ids, const at::Tensor& rows);

 private:
  /// Before it is added or stays where it was formed.
  void mask(const at::Tensor& whole) const;
  void show(const at::Tensor& whole) const;
  void put(const at::Tensor& whole);

  gradient_sink* watching_ = nullptr;  // sees contributions; null: nobody does
  uint32_t id_;
  bool kept_, accumulate_ = false;
  at::ScalarType type_;            // the parameter's
  std::span<const uint8_t> mask_;  // of a pruned weight; empty: none
  at::Tensor destination_, out_;
};

}  // namespace troupe::models
