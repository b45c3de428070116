// Writes and reads the manifest of a checkpoint folder, the last file that is written and the first one that is read.
#pragma once

#include <filesystem>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

/// Writes and syncs manifest.json, which must not exist; returns its seal. Does not sync the folder.
core::result<storage::digest128> write_manifest(storage::file_system& files, const std::filesystem::path& folder,
                                                const manifest& m);

struct checkpoint_folder {  ///< a checkpoint whose manifest was read and checked
  std::filesystem::path folder;
  manifest content;
  storage::digest128 seal;  ///< seal of the manifest, the digest in its first line; two saves never have equal seals
};

/// Reads and checks manifest.json; errors contain its path. Data files are not opened.
core::result<checkpoint_folder> read_manifest(storage::file_system& files, const std::filesystem::path& folder);

/// Calls read_manifest(), then checks that every data file exists, has the length in the manifest and belongs to the
/// same save. Reads no tensor data.
core::result<checkpoint_folder> open_folder(storage::file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
