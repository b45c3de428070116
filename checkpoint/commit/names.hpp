// Working names of saves and removals in progress, and the removal of folders. For commit.cpp and leftovers.cpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/files/digest.hpp"
#include "checkpoint/files/file_system.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

inline constexpr std::string_view writing_mark = ".writing-";    ///< not committed yet
inline constexpr std::string_view replaced_mark = ".replaced-";  ///< complete, replaced by another of the same name
inline constexpr std::string_view removing_mark = ".removing-";  ///< being removed

/// `step-00000120.writing-<32 digits>`.
inline std::string beside(const std::string& name, std::string_view mark, digest128 id) {
  return std::string(name).append(mark).append(to_hex(id));
}

/// Whether `entry` is `name`, the mark and an id.
inline bool is_beside(std::string_view entry, std::string_view name, std::string_view mark) {
  if (!entry.starts_with(name)) return false;
  entry.remove_prefix(name.size());
  if (!entry.starts_with(mark)) return false;
  entry.remove_prefix(mark.size());
  return digest_from_hex(entry).has_value();
}

/// The name beside which `entry` stands with the mark and an id.
inline std::optional<std::string_view> stands_beside(std::string_view entry, std::string_view mark) {
  constexpr size_t id_digits = 32;
  if (entry.size() <= mark.size() + id_digits) return std::nullopt;
  const auto id = entry.substr(entry.size() - id_digits);
  entry.remove_suffix(id_digits);
  if (!entry.ends_with(mark) || !digest_from_hex(id)) return std::nullopt;
  entry.remove_suffix(mark.size());
  return entry;
}

/// What shows that a folder is not one of our checkpoints and nothing else; nothing where it is.
core::result<std::optional<std::string>> strange_in(file_system& files, const std::filesystem::path& folder);

/// Makes `path` and every folder above it that is missing, each synced into the one above. Several threads and
/// processes may do so at once.
core::result<void> make_folders(file_system& files, const std::filesystem::path& path);

/// Removes every file of a folder, then the folder. Refused before anything is removed where it holds anything else, or
/// is itself a link to a folder.
core::result<void> remove_files_and_folder(file_system& files, const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
