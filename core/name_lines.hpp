// A user's file of names for the tensors of a checkpoint, as uninterpreted lines. config/ reads the file;
// formats/names/name_rules.hpp interprets the lines.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::core {

/// Largest number of lines of a file of names, and largest number of layers in a range such as `0-31` in a line.
inline constexpr size_t max_name_lines = 10'000;

struct name_line {  ///< one line `left: right` of a user's file that renames tensors
  /// True: listed under `layers`, and `left` is a number or a range; false: under `names`, and `left` is a pattern.
  bool is_layer = false;
  std::string left, right;
  int line = 0;  ///< number of the line in the file, from 1
};

/// The lines of a user's file of names, parsed but not yet interpreted.
struct name_lines {
  std::string where;  ///< name of the file of names, as a prefix of messages
  std::vector<name_line> lines;
};

}  // namespace troupe::core
