// Counts what ATen allocates, by the rank whose lane asked. Installed by a session at its start and taken away at its
// end; threads that never called `attribute_allocations` pass through uncounted.
#pragma once

#include <cstdint>

namespace troupe::actors {

/// Owners the ledger can tell apart; further ranks share the last one.
inline constexpr uint32_t ledger_owners_max = 256;
inline constexpr uint32_t ledger_owner(uint32_t rank) {
  return rank < ledger_owners_max ? rank : ledger_owners_max - 1;
}

/// From now on what this thread allocates through ATen belongs to `owner`.
void attribute_allocations(uint32_t owner);

/// Counts while it lives. Nested scopes count once.
class allocation_ledger {
 public:
  allocation_ledger();
  ~allocation_ledger();
  allocation_ledger(const allocation_ledger&) = delete;
  allocation_ledger& operator=(const allocation_ledger&) = delete;

  [[nodiscard]] uint64_t current_bytes(uint32_t owner) const;
  [[nodiscard]] uint64_t peak_bytes(uint32_t owner) const;
};

}  // namespace troupe::actors
