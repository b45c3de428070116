// Derives from a plan's collective instructions the requests to the fabric: operation, types and pieces. Owns this
// reading of a plan; leaves addresses, scales and the effect of guards to the run.
#pragma once

#include <vector>

#include "fabric/communicator.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::job {

/// The pieces that each collective of a plan moves; indices: communicator, sequence number in it, piece.
using piece_lists = std::vector<std::vector<std::vector<fabric::piece>>>;
piece_lists pieces_of(const plan::rank_plan& p);

/// Returns the request of an instruction of the fabric lane, without identity, pieces, addresses and scale.
fabric::request collective_form(const plan::rank_plan& p, const plan::instruction& x);

}  // namespace troupe::job
