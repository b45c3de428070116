// Bytes by owner, rank and tier, as text; and what the operating system says of the process.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::telemetry {

/// Resident bytes of one rank in one tier.
struct memory_row {
  uint32_t rank = 0;
  std::string tier = "host";
  std::vector<std::pair<std::string, uint64_t>> owners;  ///< the same owners in the same order in every row
  std::string stages = {};                               ///< of a pipeline, that the rank computes; else empty
  [[nodiscard]] uint64_t total() const {
    uint64_t n = 0;
    for (const auto& [owner, bytes] : owners) n += bytes;
    return n;
  }
};

/// What `memory_breakdown` logs: a line of headings, a line per rank, the process; `when` says at which moment.
std::string memory_breakdown(const std::string& when, const std::vector<memory_row>& rows, uint64_t process_bytes);

/// Resident bytes of this process, from /proc; 0 where that is not known.
uint64_t process_resident_bytes();
/// The most there ever were.
uint64_t process_peak_bytes();

}  // namespace troupe::telemetry
