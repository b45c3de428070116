// Defines a position in the files and texts from which a configuration is read.
#pragma once

#include <cstdint>

namespace troupe::config {

/// Position of a text in the input. `source` is the index of its file or `--set` text among all that are read for one
/// configuration; lines and columns start at 1.
struct place {
  uint32_t source = 0;
  int line = 0, column = 0;
};

}  // namespace troupe::config
