// What a micro-batch has of its teacher between that one's forward and the model's own backward. Owns which units are
// compared and for how long what is kept; the arithmetic is models/layers/'.
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

  /// A stage of a pipeline begins, which has got this of the one before: what was lost, and the teacher's hidden state.
  void go_on(double lost, at::Tensor hidden) {
    lost_ = lost;
    last_ = std::move(hidden);
  }
  /// Unit `unit` of the table, which is the teacher's, begins with `hidden`.
  void begins(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden);
  /// What the teacher took, of which a block that learns alone makes the same; undefined: none. Once.
  [[nodiscard]] at::Tensor take_asked(uint32_t unit) { return std::exchange(asked_[unit], {}); }

  /// Unit `unit` of the table, of which the first `teacher_units` are the teacher's, has put out `hidden` in a step
  /// that trains. `scale` is what the loss is multiplied with; `share`, that of the mean over what is here in what all
  /// ranks of a sequence group make the mean of.
  void ended(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& hidden, double scale,
             double share = 1);
  /// The gradient that the lesson of a unit's output adds to that output's; undefined: none. Once.
  [[nodiscard]] at::Tensor take_gradient(uint32_t unit) { return std::exchange(hidden_[unit], {}); }

  /// A unit of the teacher has left its attention map.
  void keep_map(const models::teaching& by, uint32_t teacher_units, uint32_t unit, const at::Tensor& map);
  /// What the attention of a unit learns; without a map: nothing. A recompute does not count its loss again.
  enum class counting : uint8_t { loss, no_loss };
  [[nodiscard]] models::map_lesson map_of(const models::teaching& by, uint32_t unit, double scale, counting what);
  void leave_map(uint32_t unit) { maps_[unit].reset(); }

  /// The teacher's latest hidden state, which the model's head takes, or the next stage; null: there is none.
  [[nodiscard]] const at::Tensor* last() const { return last_.defined() ? &last_ : nullptr; }
  /// To all lessons but the head's, so far.
  [[nodiscard]] double lost() const { return lost_; }
  /// The head has gone back, or the state has crossed.
  void leave_last() { last_.reset(); }

 private:
  std::vector<at::Tensor> hidden_;  // [unit]: the teacher's hidden state to compare with, then the gradient of that
  std::vector<at::Tensor> maps_;    // [unit]: the teacher's attention map to compare with
  std::vector<at::Tensor> asked_;   // [unit]: what the teacher took where the unit learns alone
  at::Tensor last_;
  double lost_ = 0;
};

}  // namespace troupe::actors
