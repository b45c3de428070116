// Prints bytes by owner, rank and tier as text; reads the resident bytes of the process from the operating system.
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
  std::vector<std::pair<std::string, uint64_t>> owners;  ///< name and bytes of each owner; the same owners in every row
  /// Pipeline stages that the rank computes; empty without a pipeline
  std::string stages = {};
  [[nodiscard]] uint64_t total() const {
    uint64_t n = 0;
    for (const auto& [owner, bytes] : owners) n += bytes;
    return n;
  }
};

/// Returns the text that `memory_breakdown` logs: a line of headings, a line per rank, the process. `when` names the
/// moment.
std::string memory_breakdown(const std::string& when, const std::vector<memory_row>& rows, uint64_t process_bytes);

/// Returns the resident bytes of this process, from /proc; 0 if unknown.
uint64_t process_resident_bytes();
/// Returns the peak of the resident bytes of this process, from getrusage().
uint64_t process_peak_bytes();

}  // namespace troupe::telemetry
