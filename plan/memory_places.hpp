// Which memory a rank's bytes lie in: the device's or the host's. Owns that rule for owners of a memory_table;
// actors/memory/pools.hpp allocates by the same rule.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/rank_plan.hpp"
#include "plan/tiers.hpp"

namespace troupe::plan {

/// One owner of resident bytes, named for people.
struct owner_bytes {
  std::string_view owner;
  uint64_t bytes = 0;
  tier lies = tier::device;  ///< device, or cpu for memory of the host
  /// Of activations a plan predicts the most that a step has at a time; all else is allocated as planned.
  enum class amount : uint8_t { planned, predicted } is = amount::planned;
  /// "activations (predicted)"
  [[nodiscard]] std::string label() const;
};

/// Every field of the table, in its order, but for bytes in files.
std::vector<owner_bytes> owners_of(const memory_table& m, const tier_options& tiers);

/// Bytes of a rank by where they are. Files count what lies in them, not the windows onto them.
using tier_bytes = std::array<uint64_t, num_tiers>;
tier_bytes bytes_by_tier(const memory_table& m, const tier_options& tiers);

/// Bytes that a budget of host memory covers: `memory_table::states()`, and where the device has memory of its own
/// those of them that lie on the host.
uint64_t budgeted_bytes(const memory_table& m, const tier_options& tiers);

/// Bytes of a device's own memory, predicted activations included; 0 where the device has none of its own.
uint64_t device_bytes(const memory_table& m, const tier_options& tiers);

}  // namespace troupe::plan
