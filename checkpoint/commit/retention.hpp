// Removes older checkpoints after new ones are committed. Keeps the one that `latest` names, those that are being read,
// and anything that is not a checkpoint of Troupe. Checkpoints with a tag are kept and not counted.
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

/// Which checkpoints to keep; by default all.
struct retention_policy {
  uint32_t keep_last = 0;   ///< keep this many of the last committed ones, whatever their steps; 0: all
  uint64_t keep_every = 0;  ///< keep steps that are multiples of this, too; 0: none
};

/// A checkpoint that is named by its step. A run that returned to an older checkpoint commits lower steps after higher
/// ones, so the step does not tell the age. The commit time is in the manifest, where copying a folder does not change
/// it.
struct committed_step {
  uint64_t step = 0;
  uint64_t committed_unix_ns = 0;  ///< 0: not known (older manifests); sorts by step, before all others
};

/// Returns the steps to remove, oldest first.
std::vector<uint64_t> steps_to_remove(std::span<const committed_step> steps, std::optional<uint64_t> latest,
                                      const retention_policy& policy);

struct retention_report {            ///< names of folders
  std::vector<std::string> removed;  ///< oldest first
  /// Folders that should be removed but are being read, hold a file that is not of the checkpoint or cannot be read;
  /// with the reason.
  std::vector<std::string> spared;
};

/// Applies the policy to a folder of checkpoints. Removes nothing if `latest` is missing or damaged.
core::result<retention_report> apply_retention(file_system& files, const std::filesystem::path& root,
                                               const retention_policy& policy);

}  // namespace troupe::checkpoint
