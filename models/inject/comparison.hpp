// Compares what two ways of computing a module give: the output, and the gradients of its inputs and weights. Owns the
// measure; who computes, and in which words a difference is told, is the callers'.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

/// Largest difference of a value or a gradient that a replacement may have, relative to the largest value: of the
/// output, or of a gradient.
inline constexpr double largest_difference = 1e-5;

/// Tensors with the names that messages give them.
using named_tensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Returns the output `y` as "its output", and "the gradient of NAME" for each tensor of `of`, for a direction that
/// differs for each element of `y`. A gradient is undefined if `y` does not depend on the tensor; without any history
/// there are none.
named_tensors results_of(const at::Tensor& y, const named_tensors& of);

/// Returns the name of the first of two equal lists of results that differs by more than largest_difference, and by how
/// much; nullopt if none does. A gradient is compared with its own largest element, or with a tenth of that of all
/// gradients where this is more: the gradient of a key's bias is 0 but for rounding.
std::optional<std::pair<std::string, double>> first_difference(const named_tensors& got, const named_tensors& wanted);

}  // namespace troupe::models
