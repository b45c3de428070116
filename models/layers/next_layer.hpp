// Functions that take the layers of a segment from the model's table, one after another, with their parameters.
#pragma once

#include <cstddef>
#include <vector>

#include "models/layers/functions.hpp"

namespace troupe::models {

/// Returns the weight of the segment's next layer, which must be of `kind` and have a weight.
weight next_weight(segment_scope& scope, core::layer_kind kind);

/// Returns the segment's next layer, which must be linear.
projection next_linear(segment_scope& scope);
/// Returns the segment's next `count` linear layers; `panels` says how sums over several panels of rows are formed in
/// their products.
std::vector<projection> next_linears(segment_scope& scope, size_t count, panel_sums panels);
/// Returns the segment's last linear layer, whose output is added to the residual path. If tensor-parallel ranks
/// compute summands of that output, only one of them adds the bias.
projection next_output(segment_scope& scope);
row_norm next_norm(segment_scope& scope, const norm_numbers& numbers);

/// Computes the segment's next norm, and the `count` linear layers that follow it.
normed_outputs next_normed(segment_scope& scope, const at::Tensor& x, const norm_numbers& numbers, size_t count = 1,
                           panel_sums panels = panel_sums::none);

}  // namespace troupe::models
