// Finds the newest committed checkpoint of a folder, or an older one if that is damaged. Owns how readers interpret the
// file `latest`; leaves the contents of checkpoints to other files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/native/manifest_file.hpp"
#include "core/error.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

struct latest_name {  ///< contents of the file `latest`
  std::string folder;
  std::optional<storage::digest128>
      seal;  ///< digest of the checkpoint's manifest; missing if a person wrote only the name
};

/// Reads the file `latest`; nothing if there is none, an error if it is damaged.
core::result<std::optional<latest_name>> read_latest(storage::file_system& files, const std::filesystem::path& root);

/// The check that a checkpoint must pass to replace a damaged one.
enum class good_enough : uint8_t {
  opens,    ///< open_folder() succeeds, which checks the manifest, and the sizes and headers of data files
  verifies  ///< open_folder() succeeds and every digest matches, for which all bytes are read
};

struct open_options {  ///< how strictly a checkpoint is opened
  /// If `latest`, or the checkpoint that it names, is damaged or missing, opens the good checkpoint that was committed
  /// last before it and whose step is not higher. The checkpoint that `latest` names must then pass `fallback_check`,
  /// too.
  bool fallback_to_previous = false;
  good_enough fallback_check = good_enough::verifies;
  /// Called with a sentence for each checkpoint that is skipped, with the reason, and for the one that is opened
  /// instead.
  std::function<void(const std::string&)> say = {};
};

/// Opens the checkpoint at `path`, or, if `path` is a folder of checkpoints, the one that its `latest` names; both as
/// open_folder() does. With fallback_to_previous, opening a folder of checkpoints fails only if no checkpoint in it is
/// good; a damaged checkpoint at `path` itself is an error even then.
core::result<checkpoint_folder> open_checkpoint(storage::file_system& files, const std::filesystem::path& path,
                                                const open_options& options = {});

}  // namespace troupe::checkpoint
