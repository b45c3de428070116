// Stores the teacher's tensors of a micro-batch between the teacher's forward and the model's own backward. Owns which
// units are compared and how long tensors are kept; models/layers/ does the arithmetic.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "models/segment/segment.hpp"
#include "models/table/teacher.hpp"

namespace troupe::actors {

class lessons {
 public:
  explicit lessons(size_t units) : hidden_(units), maps_(units), asked_(units) {}

  /// Stores the data that the previous stage of a pipeline has sent: the losses of lessons so far, and the teacher's
  /// hidden state.
  void go_on(double lost, at::Tensor hidden) {
    lost_ = lost;
    last_ = std::move(hidden);
  }
  /// Stores `hidden`, the input of the teacher's unit `unit`, for a block of the model that learns alone from it.
  void begins(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden);
  /// Moves out the input that the teacher's unit had, for a block that learns alone; undefined: none. The second call
  /// returns none.
  [[nodiscard]] at::Tensor take_asked(uint32_t unit) { return std::exchange(asked_[unit], {}); }

  /// Compares the output `hidden` of unit `unit` of the table, whose first `teacher_units` units are the teacher's, in
  /// a step that trains; stores it if the teacher computed it. `scale` is the factor of the loss; `share` is the weight
  /// of the mean over this rank's part in the mean over all ranks of a sequence group.
  void ended(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden, double scale,
             double share = 1);
  /// Moves out the gradient that a unit's lesson adds to its output's gradient; undefined: none. The second call
  /// returns none.
  [[nodiscard]] at::Tensor take_gradient(uint32_t unit) { return std::exchange(hidden_[unit], {}); }

  /// Stores the attention map of a unit of the teacher.
  void keep_map(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& map);
  /// Selects whether map_of counts the loss: a recompute must not count it again.
  enum class counting : uint8_t { loss, no_loss };
  /// Returns the lesson of the unit's attention map; empty without a map of the teacher.
  [[nodiscard]] models::map_lesson map_of(const models::teaching& by, uint32_t unit, double scale, counting what);
  void leave_map(uint32_t unit) { maps_[unit].reset(); }

  /// Returns the teacher's latest hidden state, which the model's head or the next stage reads; null: there is none.
  [[nodiscard]] const at::Tensor* last() const { return last_.defined() ? &last_ : nullptr; }
  /// Returns the sum of the losses of all lessons so far, except the head's.
  [[nodiscard]] double lost() const { return lost_; }
  /// Releases the teacher's latest hidden state, once the head has run backward or the state was passed to the next
  /// stage.
  void leave_last() { last_.reset(); }

 private:
  // The teacher's hidden states to compare with, then the gradients of the comparison, by unit.
  std::vector<at::Tensor> hidden_;
  std::vector<at::Tensor> maps_;   // the teacher's attention maps to compare with, by unit
  std::vector<at::Tensor> asked_;  // inputs of the teacher's units, by unit, if units learn alone
  at::Tensor last_;
  double lost_ = 0;
};

}  // namespace troupe::actors
