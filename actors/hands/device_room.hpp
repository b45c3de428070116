// Divides a device's own memory in a run: pools as the plan requires, the rest for Torch, which allocates activations
// and temporary tensors from it. Owns the sum, and the error text if that rest is exhausted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/memory_places.hpp"

namespace troupe::actors {

class device_room {  ///< memory of one device, for all ranks on it together
 public:
  device_room() = default;
  /// `allowed_bytes`: bytes that the run may use; 0: not known. `file`: the job's file, for commands in the error text.
  device_room(uint64_t allowed_bytes, std::string file) : allowed_bytes_(allowed_bytes), file_(std::move(file)) {}

  /// Adds the pools of a rank.
  void add(const plan::memory_table& m, const plan::tier_options& tiers);

  [[nodiscard]] uint64_t pool_bytes() const;
  /// Returns Torch's share: the bytes that the pools leave.
  [[nodiscard]] uint64_t left_bytes() const;
  /// Returns the error for Torch's report `said` that memory is exhausted.
  [[nodiscard]] core::error spent(std::string_view said) const;

 private:
  uint64_t allowed_bytes_ = 0;
  std::string file_ = "FILE";
  std::vector<plan::owner_bytes> pools_;
};

}  // namespace troupe::actors
