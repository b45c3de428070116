// Owns the rule that decides which memory holds a rank's bytes, the device's or the host's, for each owner in a
// memory_table. actors/memory/pools.hpp allocates by the same rule.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/rank_plan.hpp"
#include "plan/tiers.hpp"

namespace troupe::plan {

/// The resident bytes of one owner in a memory_table, with the owner's printed name.
struct owner_bytes {
  std::string_view owner;
  uint64_t bytes = 0;
  tier lies = tier::device;  ///< memory that contains the bytes: tier::device, or tier::cpu for host memory
  /// How the bytes are known. planned: they are allocated as planned. predicted: an estimate of a step's peak, for
  /// activations.
  enum class amount : uint8_t { planned, predicted } is = amount::planned;
  /// Returns the owner's name, followed by " (predicted)" if the bytes are predicted.
  [[nodiscard]] std::string label() const;
};

/// Returns the fields of the memory table in its order, except for bytes in files.
std::vector<owner_bytes> owners_of(const memory_table& m, const tier_options& tiers);

/// Bytes of a rank by tier. The nvme entry counts the bytes in files; the windows onto files are host memory.
using tier_bytes = std::array<uint64_t, num_tiers>;
tier_bytes bytes_by_tier(const memory_table& m, const tier_options& tiers);

/// Bytes that a budget of host memory covers: `memory_table::states()`, or only the part of them in host memory if the
/// device has memory of its own.
uint64_t budgeted_bytes(const memory_table& m, const tier_options& tiers);

/// Bytes of a device's own memory, predicted activations included; 0 if the device has no memory of its own.
uint64_t device_bytes(const memory_table& m, const tier_options& tiers);

}  // namespace troupe::plan
