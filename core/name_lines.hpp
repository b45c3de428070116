// A file of names for a checkpoint's tensors, as a person wrote it, line by line and not yet understood:
// config/ reads such a file, checkpoint/source/name_rules.hpp knows what its lines mean.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe::core {

/// Of one file, and layers of one range.
inline constexpr size_t max_name_lines = 10'000;

struct name_line {        ///< `left: right`
  bool is_layer = false;  ///< under `layers`: a number or a range; else under `names`: a pattern
  std::string left, right;
  int line = 0;  ///< in the file, from 1
};

/// A file of names, line by line.
struct name_lines {
  std::string where;  ///< the file, for messages
  std::vector<name_line> lines;
};

}  // namespace troupe::core
