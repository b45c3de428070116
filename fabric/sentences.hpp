// What errors of collectives say: names of operations, and the first difference between two members' requests.
// Pure functions, the same for every backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// "all_gather 'gather block 3' (communicator 0, step 4, sequence 17)": how errors name an operation.
std::string describe(const identity& id, operation op);

/// The first field in which two members differ, as "<field>: wanted .., got ..". Addresses are no difference.
std::optional<std::string> difference(const request& wanted, const request& got);

/// `who`, "rank 4", posted something else than its next sequence.
core::error out_of_turn(const std::string& who, const request& r, uint64_t due);
/// `who` posted further than `most` operations beyond the oldest unfinished one.
core::error too_far_ahead(const std::string& who, const request& r, uint64_t most, uint64_t oldest);
/// `who` posted what no member may, because of `why`.
core::error unsound(const std::string& who, const request& r, const core::error& why);
/// Two members mean different operations by one sequence.
core::error mismatch(const std::string& who, const request& got, const std::string& other, const request& wanted,
                     const std::string& differs);
/// `who` advances an operation that it has not posted.
core::error not_posted(const std::string& who, uint64_t sequence, uint64_t next);

}  // namespace troupe::fabric
