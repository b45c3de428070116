// Which checkpoints go when new ones come. Owns the rule and its safety: never the one that `latest` names, never
// anything that is no checkpoint of ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/native_files.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct retention_policy {   ///< by default everything is kept
  uint32_t keep_last = 0;   ///< the newest so many; 0: all
  uint64_t keep_every = 0;  ///< besides, steps that are multiples of this; 0: none
};

/// Steps to remove, ascending.
std::vector<uint64_t> steps_to_remove(std::span<const uint64_t> steps, std::optional<uint64_t> latest,
                                      const retention_policy& policy);

struct retention_report {            ///< names of folders
  std::vector<std::string> removed;  ///< by age
  std::vector<std::string>
      spared;  ///< would go, but hold something that is not ours or cannot be read; with the reason
};

/// Applies the policy to a folder of checkpoints. Nothing is removed while `latest` is missing or damaged.
core::result<retention_report> apply_retention(file_system& files, const std::filesystem::path& root,
                                               const retention_policy& policy);

}  // namespace troupe::checkpoint
