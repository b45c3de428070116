// Owns tied parameters whose gradients are added once a step: their uses, the exchanges between ranks of a pipeline,
// and the offsets of received gradients in a rank's slot. Pure functions of the layout that all ranks share.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "plan/job_layout.hpp"

namespace troupe::plan {

/// Computes the layout's ties and exchanges; requires the stages of units. Returns an error for a table whose copies do
/// not match `gradient_options::tied`.
core::result<void> make_ties(job_layout& l);

/// Returns the pairs of pipeline coordinates that exchange gradients of tied parameters, each pair once, ascending.
std::vector<std::pair<uint32_t, uint32_t>> tied_pairs(const std::vector<tie_exchange>& exchanges);

/// Returns the side of pipeline coordinate `at` in an exchange, 0 or 1; none if the coordinate takes no part.
uint32_t side_of(const tie_exchange& e, uint32_t at);

/// Maximum elements of a use's gradient that a rank holds: all of them at stage 0, else a slice. Equal on all ranks.
uint64_t tied_room(const job_layout& l, uint32_t tie);

/// Returns the offset, in elements, of the gradient of `use` in the slot of a rank of pipeline coordinate `at`, which
/// does not hold the use.
uint64_t received_place(const job_layout& l, uint32_t use, uint32_t at);

/// Elements of the slot for received gradients of tie `tie` on pipeline coordinate `at`; 0 if that coordinate holds all
/// uses.
uint64_t received_elements(const job_layout& l, uint32_t tie, uint32_t at);

}  // namespace troupe::plan
