// Removes older checkpoints after new ones are committed. Never removed: the one that `latest` names, those that are
// being read, anything that is not one of our checkpoints. Checkpoints with a tag are kept and not counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct retention_policy {   ///< by default everything is kept
  uint32_t keep_last = 0;   ///< so many that were committed last, whatever their steps; 0: all
  uint64_t keep_every = 0;  ///< besides, steps that are multiples of this; 0: none
};

/// A checkpoint with a step's name. A run that went back to an older one commits lower steps after higher ones, so a
/// step says nothing about age; the time lies in the manifest, where copying a folder leaves it as it is.
struct committed_step {
  uint64_t step = 0;
  uint64_t committed_unix_ns = 0;  ///< 0: not known, as in older manifests; then by step, before all others
};

/// Steps to remove, by age.
std::vector<uint64_t> steps_to_remove(std::span<const committed_step> steps, std::optional<uint64_t> latest,
                                      const retention_policy& policy);

struct retention_report {            ///< names of folders
  std::vector<std::string> removed;  ///< by age
  std::vector<std::string>
      spared;  ///< would go, but are being read, hold something that is not ours or cannot be read; with the reason
};

/// Applies the policy to a folder of checkpoints. Nothing is removed while `latest` is missing or damaged.
core::result<retention_report> apply_retention(file_system& files, const std::filesystem::path& root,
                                               const retention_policy& policy);

}  // namespace troupe::checkpoint
