// Removes older checkpoints after new ones are committed. Keeps the one that `latest` names, those that are being read,
// and anything that is not a checkpoint of Troupe. Checkpoints with a tag are kept and not counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

/// Selects the checkpoints that retention keeps; the default keeps all.
struct retention_policy {
  uint32_t keep_last = 0;   ///< number of last committed checkpoints to keep, whatever their steps; 0: all
  uint64_t keep_every = 0;  ///< also keeps checkpoints whose step is a multiple of this number; 0: none
};

/// A checkpoint that is named by its step. A run that returned to an older checkpoint commits lower steps after higher
/// ones, so the step does not tell the age. The commit time is in the manifest, where copying a folder does not change
/// it.
struct committed_step {
  uint64_t step = 0;
  uint64_t committed_unix_ns = 0;  ///< time of the commit; 0: unknown (older manifests), and older than all others
};

/// Returns the steps that `policy` removes, in the order of their commits; keeps the step `latest`.
std::vector<uint64_t> steps_to_remove(std::span<const committed_step> steps, std::optional<uint64_t> latest,
                                      const retention_policy& policy);

struct retention_report {            ///< result of apply_retention(): names of checkpoints' folders
  std::vector<std::string> removed;  ///< removed checkpoints, in the order of their commits
  /// Checkpoints that the policy removes but that were kept, each as `name: reason`: being read, unreadable, or with a
  /// file that does not belong to the checkpoint.
  std::vector<std::string> spared;
};

/// Applies the policy to a folder of checkpoints. Removes nothing if `latest` is missing or damaged.
core::result<retention_report> apply_retention(storage::file_system& files, const std::filesystem::path& root,
                                               const retention_policy& policy);

}  // namespace troupe::checkpoint
