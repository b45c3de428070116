// A manifest in its folder: written last, read first.
#pragma once

#include <filesystem>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Writes and syncs manifest.json, which must not exist; gives its seal. The folder itself is not synced.
core::result<digest128> write_manifest(file_system& files, const std::filesystem::path& folder, const manifest& m);

struct checkpoint_folder {  ///< a checkpoint whose manifest was read and checked
  std::filesystem::path folder;
  manifest content;
  digest128 seal;  ///< of the manifest: two saves never share it
};

/// Reads and checks manifest.json; errors carry its path. Data files are not touched.
core::result<checkpoint_folder> read_manifest(file_system& files, const std::filesystem::path& folder);

/// read_manifest(), and every data file is there, as long as it should be and of this save. No piece is read.
core::result<checkpoint_folder> open_folder(file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
