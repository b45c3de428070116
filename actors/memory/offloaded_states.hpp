// Moves states of ranks out of memory between steps, to files, and back. Owns the files; the session ensures that
// nothing runs meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/memory/offload_request.hpp"
#include "actors/memory/state_store.hpp"
#include "storage/swap/swap_space.hpp"

namespace troupe::actors {

/// Selects whether the files store a digest of each page, which is checked when the page is read back.
enum class page_digests : uint8_t { none, kept };

class offloaded_states {
 public:
  /// Moves the states that `request` selects to files, or only counts them if its device is cpu. Errors: bad_input for
  /// an unknown category or device; those of storage::swap_space. After an error all states are still in memory.
  static core::result<std::unique_ptr<offloaded_states>> offload(rank_memories ranks, const offload_request& request,
                                                                 page_digests digests);
  /// Moves all states back, with the same bits. After an error (io) all states still exist, and the call may be
  /// repeated.
  core::result<void> reload(rank_memories ranks);

  [[nodiscard]] const offload_report& report() const { return report_; }
  /// Corrects `resident`, the bytes that a rank has in memory by kind: sets the bytes of states that were moved to
  /// files to 0. If the states were moved to host memory, returns their bytes instead; else returns 0.
  uint64_t adjust(plan::memory_table& resident) const;

 private:
  std::vector<plan::pool> owners_;
  plan::tier device_ = plan::tier::cpu;
  std::shared_ptr<storage::swap_space> space_;
  // [rank]: file with the rank's offloaded states; null if it has none.
  std::vector<std::shared_ptr<storage::swap_file>> files_;
  offload_report report_;
};

}  // namespace troupe::actors
