// Checks that a unit that is cut over the tensor axis computes the same as the whole unit: adds its summands on all
// coordinates, forward and backward, for one probe batch. Owns this comparison and the costs of one coordinate.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "models/host/module_model.hpp"
#include "models/host/random_turn.hpp"

namespace troupe::models {

struct summand_costs {  ///< costs of coordinate 0 for one micro-batch
  double forward_flops = 0;
  uint64_t saved_bytes = 0;
};

/// Runs `unit`, whose parameters are whole, on `x`: whole, and on each of `degree` coordinates in turn, in fp32 if its
/// parameters are narrower. Random numbers are drawn from `key` each time. Errors (bad_input): an output or a gradient
/// whose sum over coordinates differs from the whole one; a unit that takes or passes on several tensors, because none
/// of them could be summed. `in_columns`: a coordinate returns its own columns of a vocabulary, which together are the
/// whole output.
core::result<summand_costs> probe(const module_unit& unit, const named_values& x, injection& cut, uint32_t degree,
                                  const random_key& key, bool in_columns = false);

}  // namespace troupe::models
