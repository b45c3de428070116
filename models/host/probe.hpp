// Whether a unit that is cut over the tensor axis computes what it computes whole: its summands on all coordinates,
// added, forward and backward, against one probe batch. Owns this comparison and the costs of one coordinate.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "models/host/module_model.hpp"
#include "models/host/random_turn.hpp"

namespace troupe::models {

struct summand_costs {  ///< of coordinate 0, one micro-batch
  double forward_flops = 0;
  uint64_t saved_bytes = 0;
};

/// Runs `unit`, whose parameters are whole, on `x`: whole, and on each of `degree` coordinates in turn, in fp32 where
/// its parameters are narrower. Random numbers are drawn from `key` each time. Refused (bad_input): an output or a
/// gradient whose sum over coordinates differs from the whole one; a unit that takes or hands on several tensors, of
/// which none could be summed. `in_columns`: a coordinate gives its own columns of a vocabulary, side by side the
/// whole.
core::result<summand_costs> probe(const module_unit& unit, const named_values& x, injection& cut, uint32_t degree,
                                  const random_key& key, bool in_columns = false);

}  // namespace troupe::models
