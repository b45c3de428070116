// A unit of a host's model after its forward: the graph that autograd keeps for one backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// A buffer as a forward left it, which autograd may have saved: later micro-batches change it before this one's
/// backward.
struct kept_buffer {
  at::Tensor buffer, values;
  int64_t version = 0;
};

struct unit_run {                      ///< what a forward leaves
  std::vector<at::Tensor> inputs;      ///< those that require gradients get them
  std::vector<at::Tensor> results;     ///< in the order in which they are handed on
  std::vector<weight> parameters;      ///< those that are trained
  std::vector<kept_buffer> buffers{};  ///< that it changed
  bool all_used = false;               ///< a parameter without gradient is an error
  bool is_summand = false;             ///< results are products with a number: backward reads none of their elements
};

std::unique_ptr<segment_run> run_of(unit_run run);

}  // namespace troupe::models
