// States of all ranks that are out of memory between steps because the host asked for it. Owns their files and the
// places that they came from; the session ensures that nothing runs meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/memory/offload_request.hpp"
#include "actors/memory/state_store.hpp"
#include "storage/swap/swap_space.hpp"

namespace troupe::actors {

/// Whether files keep a digest of each page, against which it is checked when it comes back.
enum class page_digests : uint8_t { none, kept };

class offloaded_states {
 public:
  /// Errors: bad_input for a category that is none, a device that is none; those of storage::swap_space; then all is
  /// where it was.
  static core::result<std::unique_ptr<offloaded_states>> offload(rank_memories ranks, const offload_request& request,
                                                                 page_digests digests);
  /// Puts everything back, bit by bit. Errors (io): nothing is lost, the call may be repeated.
  core::result<void> reload(rank_memories ranks);

  [[nodiscard]] const offload_report& report() const { return report_; }
  /// Takes states in files out of `resident` of a rank; returns the bytes of states on the cpu.
  uint64_t adjust(plan::memory_table& resident) const;

 private:
  std::vector<plan::pool> owners_;
  plan::tier device_ = plan::tier::cpu;
  std::shared_ptr<storage::swap_space> space_;
  std::vector<std::shared_ptr<storage::swap_file>> files_;  // [rank]; null for a rank without such states
  offload_report report_;
};

}  // namespace troupe::actors
