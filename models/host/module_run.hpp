// A unit of a host's model after its forward: the graph that autograd keeps for one backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "models/segment/segment.hpp"
#include "models/segment/weight.hpp"

namespace troupe::models {

/// A buffer's values after a forward, which autograd may have saved: later micro-batches change the buffer before this
/// one's backward.
struct kept_buffer {
  at::Tensor buffer, values;
  int64_t version = 0;
};

struct unit_run {                      ///< tensors that a forward leaves for backward
  std::vector<at::Tensor> inputs;      ///< inputs of the unit; those that require gradients get them
  std::vector<at::Tensor> results;     ///< results of the unit in the order in which they are passed on
  std::vector<weight> parameters;      ///< parameters of the unit that are trained
  std::vector<kept_buffer> buffers{};  ///< buffers of the unit that the forward changed
  bool all_used = false;               ///< true: a parameter without gradient is an error
  bool is_summand = false;             ///< true: the results are a summand, scaled by a number; backward reads none of
                                       ///< their elements
};

std::unique_ptr<segment_run> run_of(unit_run run);

}  // namespace troupe::models
