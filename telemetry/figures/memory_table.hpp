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
  /// Text that names the pipeline stages which the rank computes; empty without a pipeline.
  std::string stages = {};
  [[nodiscard]] uint64_t total() const {
    uint64_t n = 0;
    for (const auto& [owner, bytes] : owners) n += bytes;
    return n;
  }
};

/// Returns the text that the configuration key `memory_breakdown` adds to the log: a line of headings, a line per row,
/// a line for the process. `when` is a text for the log that names the moment of measurement.
std::string memory_breakdown(const std::string& when, const std::vector<memory_row>& rows, uint64_t process_bytes);

/// Returns the resident bytes of this process, from /proc; 0 if unknown.
uint64_t process_resident_bytes();
/// Returns the peak of the resident bytes of this process, from getrusage().
uint64_t process_peak_bytes();

}  // namespace troupe::telemetry
