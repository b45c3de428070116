// States of all ranks that the host has moved out of memory between steps. Owns their files and their original places;
// the session ensures that nothing runs meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/memory/offload_request.hpp"
#include "actors/memory/state_store.hpp"
#include "storage/swap/swap_space.hpp"

namespace troupe::actors {

/// Selects whether files keep a digest of each page, which is checked when the page is read back.
enum class page_digests : uint8_t { none, kept };

class offloaded_states {
 public:
  /// Moves the requested states. Errors: bad_input for an unknown category or device; those of storage::swap_space;
  /// after an error all states are where they were.
  static core::result<std::unique_ptr<offloaded_states>> offload(rank_memories ranks, const offload_request& request,
                                                                 page_digests digests);
  /// Moves all states back, bit by bit. Errors (io): nothing is lost, and the call may be repeated.
  core::result<void> reload(rank_memories ranks);

  [[nodiscard]] const offload_report& report() const { return report_; }
  /// Sets the bytes of offloaded states that are in files to 0 in `resident`, the table of a rank. Returns the bytes of
  /// offloaded states that are in host memory.
  uint64_t adjust(plan::memory_table& resident) const;

 private:
  std::vector<plan::pool> owners_;
  plan::tier device_ = plan::tier::cpu;
  std::shared_ptr<storage::swap_space> space_;
  // Swap files by rank; null for a rank without offloaded states.
  std::vector<std::shared_ptr<storage::swap_file>> files_;
  offload_report report_;
};

}  // namespace troupe::actors
