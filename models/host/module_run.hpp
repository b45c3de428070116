// A unit of a host's model after its forward: holds the graph that autograd keeps for one backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// A buffer and the values that it had after a micro-batch's forward, because autograd may have saved the buffer, and
/// forwards of later micro-batches change it before this micro-batch's backward.
struct kept_buffer {
  at::Tensor buffer, values;
  int64_t version = 0;
};

struct unit_run {                      ///< state that a unit's forward keeps for its backward
  std::vector<at::Tensor> inputs;      ///< inputs of the unit; backward returns gradients for inputs that require one
  std::vector<at::Tensor> results;     ///< results of the unit in the order in which they are passed on
  std::vector<weight> parameters;      ///< parameters of the unit that are trained
  std::vector<kept_buffer> buffers{};  ///< buffers of the unit that the forward changed
  bool all_used = false;               ///< true: a parameter without gradient is an error
  /// True: the results are one tensor-parallel rank's summand of the output, the product of a tensor and a number, so
  /// backward reads none of their elements.
  bool is_summand = false;
};

std::unique_ptr<segment_run> run_of(unit_run run);

}  // namespace troupe::models
