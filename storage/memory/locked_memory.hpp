// Locks memory so that the kernel does not page it out. Callers use memory that cannot be locked unlocked.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace troupe::storage {

/// Locks `memory` (mlock(2)) until it is unmapped. Returns nullopt on success, else a sentence for the log, which
/// describes how to raise the limit if RLIMIT_MEMLOCK is the cause.
std::optional<std::string> lock_memory(std::span<std::byte> memory);

}  // namespace troupe::storage
