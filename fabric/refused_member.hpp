// A communicator for a program that asks a group for a member that it does not have: every call fails with the reason.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Why a group of `size` members that errors call `ranks` cannot be made: it has no members, or other names than
/// members.
std::optional<core::error> wrong_size(uint32_t size, const std::vector<uint32_t>& ranks);

/// Why `rank` cannot join a group of `size` members: it is none of them, or has joined before.
std::optional<core::error> wrong_rank(uint32_t rank, uint32_t size, bool has_joined);

/// A communicator without a group: every post and advance fails with `why`.
std::unique_ptr<communicator> refused_member(uint32_t rank, uint32_t size, core::error why);

}  // namespace troupe::fabric
