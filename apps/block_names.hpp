// Names of modules and parameters as tables show them once for all blocks.
#pragma once

#include <algorithm>
#include <string>

namespace troupe::apps {

/// "transformer.h.*.attn.c_attn.weight": numbers between points are those of blocks.
inline std::string for_all_blocks(const std::string& name) {
  std::string out;
  for (size_t i = 0; i < name.size();) {
    const size_t end = std::min(name.find('.', i), name.size());
    const bool number = name.find_first_not_of("0123456789", i) >= end;
    out += number ? "*" : name.substr(i, end - i);
    if (end < name.size()) out += '.';
    i = end + 1;
  }
  return out;
}

}  // namespace troupe::apps
