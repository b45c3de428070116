// Working names of replaced checkpoints and of removals in progress, and the removal of folders. Used by commit.cpp and
// leftovers.cpp. Leaves the working name of a save to storage/files/working_folder.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "storage/files/digest.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view replaced_mark = ".replaced-";  ///< infix in the name of a replaced checkpoint
inline constexpr std::string_view removing_mark = ".removing-";  ///< infix in the name of a folder being removed

/// Returns the part of `entry` in front of `mark` and an id; nothing if `entry` does not end in `mark` and an id.
inline std::optional<std::string_view> stands_beside(std::string_view entry, std::string_view mark) {
  constexpr size_t id_digits = 32;
  if (entry.size() <= mark.size() + id_digits) return std::nullopt;
  const auto id = entry.substr(entry.size() - id_digits);
  entry.remove_suffix(id_digits);
  if (!entry.ends_with(mark) || !storage::digest_from_hex(id)) return std::nullopt;
  entry.remove_suffix(mark.size());
  return entry;
}

/// Returns the reason why a folder is not exactly a checkpoint of Troupe: its manifest cannot be read, or it holds
/// something that the manifest does not list. Returns nothing if the folder is exactly a checkpoint.
core::result<std::optional<std::string>> strange_in(storage::file_system& files, const std::filesystem::path& folder);

/// Removes every file of a folder, then the folder. Returns an error before anything is removed if the folder holds
/// anything other than files or is a link to a folder.
core::result<void> remove_files_and_folder(storage::file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
