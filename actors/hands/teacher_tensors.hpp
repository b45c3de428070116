// Stores tensors of a distillation teacher for one micro-batch, from the teacher's forward to the model's backward.
// Owns which units are compared and how long tensors are stored; models/layers/ does the arithmetic.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "models/segment/segment.hpp"
#include "models/table/teacher.hpp"

namespace troupe::actors {

class teacher_tensors {
 public:
  explicit teacher_tensors(size_t units) : hidden_(units), maps_(units), asked_(units) {}

  /// Stores what the previous pipeline stage has sent: `lost`, the sum of the losses of all comparisons so far, and
  /// `hidden`, the teacher's latest hidden state.
  void go_on(double lost, at::Tensor hidden) {
    lost_ = lost;
    last_ = std::move(hidden);
  }
  /// Stores `hidden`, the input of the teacher's unit `unit`, for the block of the model that is trained alone on that
  /// input; does nothing if no block is.
  void begins(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden);
  /// Moves out the teacher's tensor that unit `unit` of the model has as its input if blocks are trained alone.
  /// Undefined if there is none, and in a second call.
  [[nodiscard]] at::Tensor take_asked(uint32_t unit) { return std::exchange(asked_[unit], {}); }

  /// Handles `hidden`, the output of unit `unit` in a training step: if the unit is one of the teacher's, which are the
  /// first `teacher_units` of the table, stores it; otherwise compares it with the teacher's output. `scale`: factor of
  /// the loss. `share`: weight of this rank's mean in the mean over all ranks of its sequence-parallel group.
  void ended(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden, double scale,
             double share = 1);
  /// Moves out the gradient from the comparison of the output of unit `unit` with the teacher's, which the caller adds
  /// to the gradient of that output. Undefined if there is none, and in a second call.
  [[nodiscard]] at::Tensor take_gradient(uint32_t unit) { return std::exchange(hidden_[unit], {}); }

  /// Stores `map`, the attention map of the teacher's unit `unit`, if a unit of the model is compared with it.
  void keep_map(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& map);
  /// Selects whether the comparison of attention maps adds its loss to lost(): a recompute must not add it again.
  enum class counting : uint8_t { loss, no_loss };
  /// Returns the comparison of attention maps for unit `unit` of the model; empty if no map of the teacher is stored
  /// for that unit.
  [[nodiscard]] models::map_target map_of(const models::teaching& by, uint32_t unit, double scale, counting what);
  void leave_map(uint32_t unit) { maps_[unit].reset(); }

  /// Returns the teacher's latest hidden state, which the model's head or the next stage reads; null: there is none.
  [[nodiscard]] const at::Tensor* last() const { return last_.defined() ? &last_ : nullptr; }
  /// Returns the sum of the losses of all comparisons with the teacher so far, without the comparison of the model's
  /// head.
  [[nodiscard]] double lost() const { return lost_; }
  /// Releases the teacher's latest hidden state, once the head has run backward or the state was passed to the next
  /// stage.
  void leave_last() { last_.reset(); }

 private:
  // [unit of the model]: teacher's hidden state to compare the unit's output with; after the comparison, its gradient.
  std::vector<at::Tensor> hidden_;
  std::vector<at::Tensor> maps_;   // [unit of the model]: teacher's attention map to compare with
  std::vector<at::Tensor> asked_;  // [unit of the model]: its input if blocks are trained alone
  at::Tensor last_;
  double lost_ = 0;
};

}  // namespace troupe::actors
