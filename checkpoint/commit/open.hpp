// Finds the newest committed checkpoint of a folder, or an older one where that is damaged. Owns how readers understand
// the file `latest`, not what a checkpoint holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/native/manifest_file.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct latest_name {  ///< what the file `latest` says
  std::string folder;
  std::optional<digest128> seal;  ///< of the manifest; missing where a person wrote the name alone
};

/// Nothing where there is no such file; an error where it is damaged.
core::result<std::optional<latest_name>> read_latest(file_system& files, const std::filesystem::path& root);

enum class good_enough : uint8_t {  ///< what a checkpoint must pass to be taken instead of a damaged one
  opens,                            ///< open_folder(): manifest, sizes and headers
  verifies                          ///< besides, every digest: all of it is read
};

struct open_options {  ///< how strictly a checkpoint is opened
  /// Where `latest`, or what it names, is damaged or missing: the good checkpoint that was committed last before it
  /// and is of no higher step. What `latest` names must pass the same check then.
  bool fallback_to_previous = false;
  good_enough fallback_check = good_enough::verifies;
  /// Called with a sentence for each checkpoint that was skipped, with the reason, and for the one that is taken.
  std::function<void(const std::string&)> say = {};
};

/// `path` is a checkpoint, which must be good itself, or a folder of checkpoints, whose `latest` then says which.
/// Opened as open_folder() does. With fallback_to_previous an error only where none is good, or `path` is neither.
core::result<checkpoint_folder> open_checkpoint(file_system& files, const std::filesystem::path& path,
                                                const open_options& options = {});

}  // namespace troupe::checkpoint
