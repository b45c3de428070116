// Owns the communicator that a group returns if a caller joins as a member that the group does not have, or joins
// twice: every post and advance fails with the reason.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Returns why a group of `size` members cannot be made: `size` is 0, or `ranks` (the rank numbers that errors print
/// for the members; may be empty) does not have `size` elements. Returns nothing if the group can be made.
std::optional<core::error> wrong_size(uint32_t size, const std::vector<uint32_t>& ranks);

/// Returns why `rank` cannot join a group of `size` members: the rank is out of range, or has joined before. Returns
/// nothing if it can.
std::optional<core::error> wrong_rank(uint32_t rank, uint32_t size, bool has_joined);

/// Returns a communicator without a group: every post and advance fails with `why`.
std::unique_ptr<communicator> refused_member(uint32_t rank, uint32_t size, core::error why);

}  // namespace troupe::fabric
