// Somebody reads a checkpoint: retention of a run that writes beside it leaves it alone meanwhile. Owns the mark, a
// lock on the manifest that the kernel takes back when its holder ends; where a file system has no locks there is no
// mark.
#pragma once

#include <filesystem>
#include <memory>

namespace troupe::checkpoint {

/// Held until the last copy goes; any number of readers have one. Null where there is none to be had.
std::shared_ptr<const void> mark_as_read(const std::filesystem::path& folder);

struct unread_claim {
  bool is_read = false;              ///< somebody has a mark
  std::shared_ptr<const void> held;  ///< no reader gets one meanwhile; may be null
};

/// For whoever removes the checkpoint.
unread_claim claim_unread(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
