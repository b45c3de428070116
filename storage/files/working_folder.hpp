// The working name of a folder that is being written, and the creation of folders. Leaves the files of such a folder
// and its final name to the caller.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "storage/files/digest.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::storage {

inline constexpr std::string_view writing_mark = ".writing-";  ///< infix in the name of an uncommitted folder

/// Returns a random identifier of one save, from the operating system.
digest128 random_save_id();

/// Returns the working name of a folder or file: `name`, `mark` and the digits of `id`, such as
/// `step-00000120.writing-<32 digits>`.
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

/// Creates `path` and every missing folder above it, and syncs each one's parent. Several threads and processes may
/// call it at the same time.
core::result<void> make_folders(file_system& files, const std::filesystem::path& path);

}  // namespace troupe::storage
