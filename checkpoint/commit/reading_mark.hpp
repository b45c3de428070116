// Marks a checkpoint as being read, so that the retention of a running job does not remove it. The mark is a lock on
// the manifest, which the kernel releases when the process ends; on file systems without locks there is no mark.
#pragma once

#include <filesystem>
#include <memory>

namespace troupe::checkpoint {

/// Held until the last copy goes; any number of readers have one. Null where there is none to be had.
std::shared_ptr<const void> mark_as_read(const std::filesystem::path& folder);

struct unread_claim {
  bool is_read = false;              ///< a reader has marked it
  std::shared_ptr<const void> held;  ///< no reader gets one meanwhile; may be null
};

/// Asked by code that is about to remove the checkpoint.
unread_claim claim_unread(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
