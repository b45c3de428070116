// Owns which ranks of a simulated job one set of actors can act for: ranks that do the same at the same time, because
// they and all whom they meet are alike.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job_layout.hpp"

namespace troupe::sim {

/// Returns for each rank the rank that acts for it: the first one of its class. Ranks of a class have the same colour,
/// and one after the other their communicators have the same colour and equally many members of each class. So ranks of
/// a class cannot be told apart by what happens to them or to those whom they meet, directly or through others. In each
/// communicator of a rank that acts, the ranks that act for its other members are members, too; a class is divided
/// further where they would not be. `colours`: [rank], equal for ranks whose plans and faults are alike.
/// `colours_of_communicators`: [communicator], equal where a collective takes the same time. Members of communicators
/// are ascending, as plan::communicators_of() lists them.
std::vector<uint32_t> fold_ranks(const std::vector<uint32_t>& colours,
                                 const std::vector<plan::communicator>& communicators,
                                 const std::vector<uint32_t>& colours_of_communicators);

/// Returns the number of ranks that act for themselves.
uint32_t num_acting(const std::vector<uint32_t>& acted_by);

}  // namespace troupe::sim
