// Translates an error number of the system to its text and to the error kind of the failed call.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.hpp"

namespace troupe::core {

/// Returns the text of an error number: "No such file or directory".
inline std::string system_message(int number) { return std::generic_category().message(number); }

/// Returns the kind of a failed write: no_space for a full disk, an exhausted quota or a file beyond the size limit;
/// else io.
inline error_kind kind_of_write_error(int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return full ? error_kind::no_space : error_kind::io;
}

/// Returns the kind of a failed call on a path: bad_input if the name or its permissions are the cause, else the result
/// of kind_of_write_error.
inline error_kind kind_of_path_error(int number) {
  constexpr std::array at_fault{ENOENT, EACCES, ENOTDIR, ELOOP, EPERM, EROFS, EEXIST, EISDIR, ENAMETOOLONG};
  return std::ranges::find(at_fault, number) != at_fault.end() ? error_kind::bad_input : kind_of_write_error(number);
}

/// Returns the error `cannot ACTION 'PATH': No such file or directory`, with the kind that kind_of_path_error returns.
inline error path_error(const std::string& action, const std::filesystem::path& path, int number) {
  return {kind_of_path_error(number), "cannot " + action + " '" + path.string() + "': " + system_message(number)};
}

}  // namespace troupe::core
