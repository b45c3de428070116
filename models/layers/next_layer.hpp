// The parameters of a segment's functions, taken from the table of layers one after the other.
#pragma once

#include <cstddef>
#include <vector>

#include "models/layers/functions.hpp"

namespace troupe::models {

/// The weight of the segment's next layer of `kind`, which must have one.
weight next_weight(segment_scope& scope, core::layer_kind kind);

/// The segment's next linear layer, norm and attention.
projection next_linear(segment_scope& scope);
/// The next `count` of them, whose rows are multiplied so.
std::vector<projection> next_linears(segment_scope& scope, size_t count, panel_sums panels);
/// The segment's last linear layer, which puts out what is added to the residual path: where ranks of a tensor group
/// have summands of that, one of them adds the bias.
projection next_output(segment_scope& scope);
row_norm next_norm(segment_scope& scope, double epsilon);

/// The segment's next norm, and the next `count` linear layers, which are behind it.
normed_outputs next_normed(segment_scope& scope, const at::Tensor& x, double epsilon, size_t count = 1,
                           panel_sums panels = panel_sums::none);

}  // namespace troupe::models
