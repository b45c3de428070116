// The tensors that a segment passes to the next one, or their gradients in backward: nearly always one hidden state; a
// host's units may pass several.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace troupe::models {

/// Tensors in an order that the sending and the receiving segment agree on. A gradient that is not needed is undefined.
class values {
 public:
  values() = default;
  /// Makes values of one tensor; empty values if `one` is undefined.
  values(at::Tensor one) {  // NOLINT(google-explicit-constructor): nearly all segments pass on one tensor
    if (one.defined()) all_.push_back(std::move(one));
  }
  explicit values(std::vector<at::Tensor> all) : all_(std::move(all)) {}

  /// Returns the only tensor, undefined if there is none. Throws c10::Error if there are several.
  operator at::Tensor() const {  // NOLINT(google-explicit-constructor)
    TORCH_CHECK(all_.size() <= 1, "wanted one tensor, got ", all_.size());
    return first();
  }
  /// Returns the first tensor, undefined if there is none.
  [[nodiscard]] at::Tensor first() const { return all_.empty() ? at::Tensor() : all_.front(); }

  /// Returns the last tensor, undefined if there is none.
  [[nodiscard]] at::Tensor last() const { return all_.empty() ? at::Tensor() : all_.back(); }
  /// Returns all tensors except the last.
  [[nodiscard]] values without_last() const {
    return values(std::vector<at::Tensor>(all_.begin(), all_.empty() ? all_.end() : all_.end() - 1));
  }
  /// Returns a copy of these values in which `t` replaces the last tensor.
  [[nodiscard]] values with_last(at::Tensor t) const {
    std::vector<at::Tensor> out = without_last().all_;
    out.push_back(std::move(t));
    return values(std::move(out));
  }

  [[nodiscard]] size_t size() const { return all_.size(); }
  [[nodiscard]] const at::Tensor& operator[](size_t i) const { return all_[i]; }
  [[nodiscard]] auto begin() const { return all_.begin(); }
  [[nodiscard]] auto end() const { return all_.end(); }

 private:
  std::vector<at::Tensor> all_;
};

}  // namespace troupe::models
