// Tied parameters whose gradients are added once a step: their uses, what ranks of a pipeline exchange for them, and
// where received gradients lie in a rank's slot. Pure functions of the layout that all ranks share.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Fills the layout's ties and exchanges; needs places of units. Refuses a table whose copies are not those that
/// `gradient_options::tied` asks for.
core::result<void> make_ties(job_layout& l);

/// Pairs of pipeline coordinates that exchange anything, each once, ascending.
std::vector<std::pair<uint32_t, uint32_t>> tied_pairs(const std::vector<tie_exchange>& exchanges);

/// The side of pipeline coordinate `at` in an exchange, 0 or 1; none if it takes no part.
uint32_t side_of(const tie_exchange& e, uint32_t at);

/// The elements of a use's gradient that a rank holds, at most: whole ones at stage 0, else a slice. The same on all
/// ranks.
uint64_t tied_room(const job_layout& l, uint32_t tie);

/// Where the gradient of `use` begins in the slot of a rank of pipeline coordinate `at` that does not hold it. In
/// elements.
uint64_t received_place(const job_layout& l, uint32_t use, uint32_t at);

/// Elements of that slot; 0 where all uses are held there.
uint64_t received_elements(const job_layout& l, uint32_t tie, uint32_t at);

}  // namespace troupe::plan
