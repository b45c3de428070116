// Reads a checkpoint of any format to its last byte. Memory: one block, whatever the tensors. Owns the list of what is
// wrong; what a folder must hold to be read at all is its reader's business.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/files/progress.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// The end of every sentence on bytes that a digest says to be others.
inline constexpr std::string_view digest_differs = "do not have their digest";

/// Damages that are listed; more are counted.
inline constexpr size_t max_listed_damages = 1000;

struct damage {        ///< one thing that is wrong
  std::string file;    ///< its name in the folder
  std::string tensor;  ///< as messages show it; empty where the whole file is refused
  uint64_t offset_bytes = 0;
  std::string text;  ///< the sentence
};

struct verify_report {
  uint64_t tensors = 0, pieces = 0;
  uint64_t bytes = 0;           ///< that were read
  uint64_t compared_bytes = 0;  ///< of these, those that a digest or a zip archive's CRC-32 says something of
  uint64_t damages = 0;         ///< all of them; 0: the checkpoint is whole, as far as its format can tell
  std::vector<damage> listed;
  /// By host the files that lie on its disk alone; nothing of them is read.
  std::map<std::string, std::vector<std::string>> elsewhere{};
};

/// Compares every digest, and padding with zeros, where the source has digests; every CRC-32 of files that are zip
/// archives (a writer may leave it out); any other file is read. Goes on behind a damage. An error where it was
/// stopped.
core::result<verify_report> verify_source(file_system& files, const tensor_source& s,
                                          const progress_function& progress = {});

/// verify_source() of a checkpoint of ours. An error where the manifest itself is refused.
core::result<verify_report> verify_checkpoint(file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
