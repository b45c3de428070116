// Owns the communicator of a program that asks a group for a member that the group does not have: every call fails with
// the reason.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Returns why a group of `size` members that errors call `ranks` cannot be made: it has no members, or the number of
/// names is not `size`. Returns nothing if it can.
std::optional<core::error> wrong_size(uint32_t size, const std::vector<uint32_t>& ranks);

/// Returns why `rank` cannot join a group of `size` members: the rank is out of range, or has joined before. Returns
/// nothing if it can.
std::optional<core::error> wrong_rank(uint32_t rank, uint32_t size, bool has_joined);

/// Returns a communicator without a group: every post and advance fails with `why`.
std::unique_ptr<communicator> refused_member(uint32_t rank, uint32_t size, core::error why);

}  // namespace troupe::fabric
