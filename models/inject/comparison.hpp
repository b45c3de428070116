// Compares the results of two ways of computing a module: the output, and the gradients of its inputs and weights. Owns
// the measure of a difference; callers compute the results and word the messages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

/// Largest accepted difference of a replacement's output or gradient, relative to the largest value of that output or
/// gradient.
inline constexpr double largest_difference = 1e-5;

/// Tensors with their names for messages.
using named_tensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Returns the output `y`, named "its output", and its gradient for each tensor of `of`, named "the gradient of NAME".
/// Backward starts with `direction` as the gradient of `y` or, if that is undefined, with usual_direction(), whose
/// elements all differ. A gradient is undefined if `y` does not depend on the tensor. If `y` has no autograd history,
/// returns only the output.
named_tensors results_of(const at::Tensor& y, const named_tensors& of, const at::Tensor& direction = {});

/// Returns the gradient with which backward starts for an output of `elements` elements. Its elements all differ.
at::Tensor usual_direction(int64_t elements, const at::TensorOptions& options);

/// Compares two lists that results_of() returned for the same tensors. Returns the name of the first result that
/// differs by more than largest_difference, and its relative difference; nullopt if none does. A gradient's difference
/// is relative to its own largest element, or to a tenth of the largest element of all gradients if that is more,
/// because the gradient of a key's bias consists of rounding errors only.
std::optional<std::pair<std::string, double>> first_difference(const named_tensors& got, const named_tensors& wanted);

}  // namespace troupe::models
