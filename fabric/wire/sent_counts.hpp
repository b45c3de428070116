// Counts the contributions to sums that each member of a machine has sent. The counts are in memory that all processes
// of the machine map; a count has one writer and only grows. An operation in place needs them: a received sum may
// overwrite a contribution only after that contribution has been sent.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::fabric {

/// View of the members' counts of sent contributions in shared memory. Callable from any thread of any process.
class sent_counts {
 public:
  static uint64_t bytes_of(uint32_t members) { return members * sizeof(line); }

  /// Creates a view of `memory`: bytes_of(members) bytes, aligned to 64, filled with zeros before their first use.
  sent_counts(std::span<std::byte> memory, uint32_t members) : lines_(reinterpret_cast<line*>(memory.data())) {
    assert(memory.size() >= bytes_of(members) && reinterpret_cast<uintptr_t>(lines_) % 64 == 0);
    (void)members;
  }

  void set(uint32_t member, uint64_t sent) { lines_[member].sent.store(sent); }
  [[nodiscard]] uint64_t of(uint32_t member) const { return lines_[member].sent.load(); }

  /// Marks `member` as waiting until counts of other members grow. `member` must read the counts again after this call.
  /// A member whose count has grown wakes all marked members (take_waiting).
  void wait(uint32_t member) { lines_[member].waits.store(1); }
  /// Returns true if `member` has marked itself as waiting, and clears the mark.
  bool take_waiting(uint32_t member) {
    return lines_[member].waits.load() != 0 && lines_[member].waits.exchange(0) != 0;
  }

 private:
  struct alignas(64) line {
    std::atomic<uint64_t> sent, waits;
  };
  line* lines_;
};

}  // namespace troupe::fabric
