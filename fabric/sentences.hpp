// Writes the errors of collectives: names of operations, and the first difference between two members' requests. Pure
// functions, shared by all backends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Returns the name of an operation in errors: "all_gather 'gather block 3' (communicator 0, step 4, sequence 17)".
std::string describe(const identity& id, operation op);

/// Returns the first field in which two requests differ, as "<field>: wanted .., got ..". Addresses are not compared.
std::optional<std::string> difference(const request& wanted, const request& got);

/// Returns the error for `who` ("rank 4") posting a sequence other than `due`, its next one.
core::error out_of_turn(const std::string& who, const request& r, uint64_t due);
/// Returns the error for `who` posting `most` or more operations beyond the oldest unfinished one.
core::error too_far_ahead(const std::string& who, const request& r, uint64_t most, uint64_t oldest);
/// Returns the error that member `who` has posted an invalid request; `why` is the reason.
core::error unsound(const std::string& who, const request& r, const core::error& why);
/// Returns the error that two members have posted different operations under one sequence number.
core::error mismatch(const std::string& who, const request& got, const std::string& other, const request& wanted,
                     const std::string& differs);
/// Returns the error that member `who` has advanced an operation that it has not posted.
core::error not_posted(const std::string& who, uint64_t sequence, uint64_t next);

}  // namespace troupe::fabric
