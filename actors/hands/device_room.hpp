// How a run divides a device's own memory: pools as the plan says, the rest for Torch, which takes activations and what
// operations need in between from it. Owns the sum, and the sentence where that rest is spent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/memory_places.hpp"

namespace troupe::actors {

class device_room {  ///< of one device, all ranks on it together
 public:
  device_room() = default;
  /// `allowed_bytes`: what the run may use, 0 where nobody knows. `file`: the job's, for commands to try.
  device_room(uint64_t allowed_bytes, std::string file) : allowed_bytes_(allowed_bytes), file_(std::move(file)) {}

  /// Adds a rank's pools.
  void add(const plan::memory_table& m, const plan::tier_options& tiers);

  [[nodiscard]] uint64_t pool_bytes() const;
  /// Torch's share: what the pools leave.
  [[nodiscard]] uint64_t left_bytes() const;
  /// Torch has found no memory and said so in its words.
  [[nodiscard]] core::error spent(std::string_view said) const;

 private:
  uint64_t allowed_bytes_ = 0;
  std::string file_ = "FILE";
  std::vector<plan::owner_bytes> pools_;
};

}  // namespace troupe::actors
