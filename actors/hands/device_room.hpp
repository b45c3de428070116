// Divides the memory of a device between the pools that plans require and Torch, which allocates activations and
// temporary tensors from the remainder. Owns this division, and the error message if Torch's part is exhausted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/memory_places.hpp"

namespace troupe::actors {

class device_room {  ///< sums up the pools of all ranks on one device, and computes what remains for Torch
 public:
  device_room() = default;
  /// `allowed_bytes`: bytes of the device's memory that the run may use; 0: not known. `file`: path of the job's
  /// configuration file, for the command that the error text suggests.
  device_room(uint64_t allowed_bytes, std::string file) : allowed_bytes_(allowed_bytes), file_(std::move(file)) {}

  /// Adds the bytes of one rank's pools on the device.
  void add(const plan::memory_table& m, const plan::tier_options& tiers);

  [[nodiscard]] uint64_t allowed_bytes() const { return allowed_bytes_; }
  [[nodiscard]] uint64_t pool_bytes() const;
  /// Returns the bytes that Torch may allocate: `allowed_bytes` less the pools, or the largest number if
  /// `allowed_bytes` is not known.
  [[nodiscard]] uint64_t left_bytes() const;
  /// Returns the error that reports exhausted device memory; `said`: Torch's own message.
  [[nodiscard]] core::error spent(std::string_view said) const;

 private:
  uint64_t allowed_bytes_ = 0;
  std::string file_ = "FILE";
  std::vector<plan::owner_bytes> pools_;
};

}  // namespace troupe::actors
