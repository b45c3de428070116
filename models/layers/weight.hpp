// A parameter as the functions of a segment see it, and the writer of its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "models/layers/segment.hpp"

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
/// and adds: accumulating in the target gives the same bits as adding two targets afterwards.
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
  bool kept_, accumulate_ = false;
  at::ScalarType type_;  // the parameter's
  at::Tensor destination_, out_;
};

}  // namespace troupe::models
