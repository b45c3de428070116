// The parameters of a segment's functions, taken from the table of layers one after another.
#pragma once

#include <cstddef>
#include <vector>

#include "models/layers/functions.hpp"

namespace troupe::models {

/// Returns the weight of the segment's next layer of `kind`, which must have one.
weight next_weight(segment_scope& scope, core::layer_kind kind);

/// Returns the next linear layer of the segment, in the order of its table.
projection next_linear(segment_scope& scope);
/// Returns the segment's next `count` linear layers, with `panels` as the way in which their rows are multiplied.
std::vector<projection> next_linears(segment_scope& scope, size_t count, panel_sums panels);
/// Returns the segment's last linear layer, whose output is added to the residual path: if ranks of a tensor group
/// compute summands of that output, one of them adds the bias.
projection next_output(segment_scope& scope);
row_norm next_norm(segment_scope& scope, double epsilon);

/// Computes the segment's next norm, and the next `count` linear layers, which follow it.
normed_outputs next_normed(segment_scope& scope, const at::Tensor& x, double epsilon, size_t count = 1,
                           panel_sums panels = panel_sums::none);

}  // namespace troupe::models
