// What a micro-batch has of its teacher between that one's forward and the model's own backward. Owns which units are
// compared and for how long what is kept; the arithmetic is models/layers/'.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "models/layers/segment.hpp"
#include "models/table/teacher.hpp"

namespace troupe::actors {

class lessons {
 public:
  explicit lessons(size_t units) : hidden_(units), maps_(units) {}

  /// Unit `unit` of the table, of which the first `teacher_units` are the teacher's, has put out `hidden` in a step
  /// that trains. `scale` is what the loss is multiplied with.
  void ended(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden, double scale);
  /// The gradient that the lesson of a unit's output adds to that output's; undefined: none. Once.
  [[nodiscard]] at::Tensor take_gradient(uint32_t unit) { return std::exchange(hidden_[unit], {}); }

  /// A unit of the teacher has left its attention map.
  void keep_map(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& map);
  /// What the attention of a unit learns; without a map: nothing. A recompute does not count its loss again.
  enum class counting : uint8_t { loss, no_loss };
  [[nodiscard]] models::map_lesson map_of(const models::teaching& by, uint32_t unit, double scale, counting what);
  void leave_map(uint32_t unit) { maps_[unit].reset(); }

  /// The teacher's last hidden state, which the model's head takes; null: there is none.
  [[nodiscard]] const at::Tensor* last() const { return last_.defined() ? &last_ : nullptr; }
  /// To all lessons but the head's, so far.
  [[nodiscard]] double lost() const { return lost_; }
  /// The head has gone back.
  void leave_last() { last_.reset(); }

 private:
  std::vector<at::Tensor> hidden_;  // [unit]: the teacher's hidden state to compare with, then the gradient of that
  std::vector<at::Tensor> maps_;    // [unit]: the teacher's attention map to compare with
  at::Tensor last_;
  double lost_ = 0;
};

}  // namespace troupe::actors
