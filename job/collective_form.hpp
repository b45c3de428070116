// What a plan's collective instructions ask of the fabric: operation, types and pieces. Owns this reading of a plan;
// addresses, scales and whether a guard lets anything move are the run's.
#pragma once

#include <vector>

#include "fabric/communicator.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::job {

/// What each collective of a plan moves. [communicator][sequence]
using piece_lists = std::vector<std::vector<std::vector<fabric::piece>>>;
piece_lists pieces_of(const plan::rank_plan& p);

/// The request of an instruction of the fabric lane, without identity, pieces, addresses and scale.
fabric::request collective_form(const plan::rank_plan& p, const plan::instruction& x);

}  // namespace troupe::job
