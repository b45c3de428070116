// Memory that the kernel may not page out. Never a condition for anything: what cannot be locked is used as it is.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace troupe::storage {

/// Asks the kernel to keep `memory` resident (mlock(2)) until it is unmapped. Nothing where it does; else a sentence
/// for the log, which says how to raise the limit where it is RLIMIT_MEMLOCK that stood in the way.
std::optional<std::string> lock_memory(std::span<std::byte> memory);

}  // namespace troupe::storage
