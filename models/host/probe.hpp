// Checks that a unit whose layers are split over tensor-parallel ranks computes the same as the whole unit: adds the
// results of all ranks, forward and backward, for one batch. Owns this comparison and the measurement of one rank's
// costs.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "models/host/module_model.hpp"
#include "models/host/random_turn.hpp"

namespace troupe::models {

struct summand_costs {  ///< costs of one tensor-parallel rank, coordinate 0, for one micro-batch
  double forward_flops = 0;
  uint64_t saved_bytes = 0;
};

/// Runs `unit`, whose parameters are whole, on `x`: as a whole, and as each of `degree` tensor-parallel ranks in turn,
/// in fp32 if its parameters are narrower. Random numbers are drawn from `key` each time. Returns the costs of one
/// rank. Errors (bad_input): an output or a gradient whose sum over the ranks differs from the whole unit's; a unit
/// that takes or passes on several tensors, because none of them could be summed. `in_columns`: each rank returns its
/// own columns of the scores over the vocabulary, which are concatenated instead of summed.
core::result<summand_costs> probe(const module_unit& unit, const named_values& x, injection& cut, uint32_t degree,
                                  const random_key& key, bool in_columns = false);

/// Runs `unit` on `x`, forward and backward, as it is and with the layers that `policy` replaces by Troupe's, in fp32
/// if its parameters are narrower. Errors (bad_input): an output or a gradient that differs by more than 1e-5 of the
/// largest value, a unit that fails with Troupe's layers, and one that passes on several tensors.
core::result<void> probe_own(const module_unit& unit, const named_values& x, const layer_policy& policy,
                             const random_key& key);

}  // namespace troupe::models
