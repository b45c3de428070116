// Marks a checkpoint as being read, so that the retention of a running job does not remove it. The mark is a lock on
// the manifest, which the kernel releases when the process ends. On file systems without locks there is no mark.
#pragma once

#include <filesystem>
#include <memory>

namespace troupe::checkpoint {

/// Marks the checkpoint as being read until the last copy of the result is destroyed. Any number of readers may hold a
/// mark. Returns null if the mark cannot be set.
std::shared_ptr<const void> mark_as_read(const std::filesystem::path& folder);

struct unread_claim {
  bool is_read = false;              ///< true: a reader has marked the checkpoint
  std::shared_ptr<const void> held;  ///< lock against new readers of the checkpoint; null if locking failed
};

/// Asks whether a reader has marked the checkpoint, and locks it against new readers. Called before a removal.
unread_claim claim_unread(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
