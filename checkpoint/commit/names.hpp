// Working names of saves and removals in progress, and the removal of folders. Used by commit.cpp and leftovers.cpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/files/digest.hpp"
#include "checkpoint/files/file_system.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view writing_mark = ".writing-";    ///< infix in the name of an uncommitted folder
inline constexpr std::string_view replaced_mark = ".replaced-";  ///< infix in the name of a replaced checkpoint
inline constexpr std::string_view removing_mark = ".removing-";  ///< infix in the name of a folder being removed

/// Returns a working name: `step-00000120.writing-<32 digits>`.
inline std::string beside(const std::string& name, std::string_view mark, digest128 id) {
  return std::string(name).append(mark).append(to_hex(id));
}

/// True if `entry` is `name`, followed by `mark` and the 32 hexadecimal digits of an id.
inline bool is_beside(std::string_view entry, std::string_view name, std::string_view mark) {
  if (!entry.starts_with(name)) return false;
  entry.remove_prefix(name.size());
  if (!entry.starts_with(mark)) return false;
  entry.remove_prefix(mark.size());
  return digest_from_hex(entry).has_value();
}

/// Returns the part of `entry` in front of `mark` and an id; nothing if `entry` does not end in `mark` and an id.
inline std::optional<std::string_view> stands_beside(std::string_view entry, std::string_view mark) {
  constexpr size_t id_digits = 32;
  if (entry.size() <= mark.size() + id_digits) return std::nullopt;
  const auto id = entry.substr(entry.size() - id_digits);
  entry.remove_suffix(id_digits);
  if (!entry.ends_with(mark) || !digest_from_hex(id)) return std::nullopt;
  entry.remove_suffix(mark.size());
  return entry;
}

/// Returns the reason why a folder is not exactly a checkpoint of Troupe: its manifest cannot be read, or it holds
/// something that the manifest does not list. Returns nothing if the folder is exactly a checkpoint.
core::result<std::optional<std::string>> strange_in(file_system& files, const std::filesystem::path& folder);

/// Creates `path` and every missing folder above it, and syncs each one's parent. Several threads and processes may
/// call it at the same time.
core::result<void> make_folders(file_system& files, const std::filesystem::path& path);

/// Removes every file of a folder, then the folder. Returns an error before anything is removed if the folder holds
/// anything other than files or is a link to a folder.
core::result<void> remove_files_and_folder(file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
