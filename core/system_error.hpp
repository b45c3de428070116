// What an error number of the system means: its words, and the kind of error that it makes of a call.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.hpp"

namespace troupe::core {

/// The number as words: "No such file or directory".
inline std::string system_message(int number) { return std::generic_category().message(number); }

/// Of a call that writes: no_space for a full disk, an exhausted quota or a file beyond the size limit; else io.
inline error_kind kind_of_write_error(int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return full ? error_kind::no_space : error_kind::io;
}

/// Of a call on a path: bad_input where the name or its rights are at fault, else as of a call that writes.
inline error_kind kind_of_path_error(int number) {
  constexpr std::array at_fault{ENOENT, EACCES, ENOTDIR, ELOOP, EPERM, EROFS, EEXIST, EISDIR, ENAMETOOLONG};
  return std::ranges::find(at_fault, number) != at_fault.end() ? error_kind::bad_input : kind_of_write_error(number);
}

/// `cannot DEED 'PATH': No such file or directory`, of that kind.
inline error path_error(const std::string& deed, const std::filesystem::path& path, int number) {
  return {kind_of_path_error(number), "cannot " + deed + " '" + path.string() + "': " + system_message(number)};
}

}  // namespace troupe::core
