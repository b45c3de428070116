// Translates a plan's collective instructions to requests to the fabric: operation, types and pieces. Leaves addresses,
// scales and the effect of guards (outcomes of the vote) to the run.
#pragma once

#include <vector>

#include "fabric/communicator.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::job {

/// [communicator][sequence number of the collective in it][piece]: a contiguous range of elements that the collective
/// of a plan moves.
using piece_lists = std::vector<std::vector<std::vector<fabric::piece>>>;
piece_lists pieces_of(const plan::rank_plan& p);

/// Returns the request of an instruction of the fabric lane, without identity, pieces, addresses and scale.
fabric::request collective_form(const plan::rank_plan& p, const plan::instruction& x);

}  // namespace troupe::job
