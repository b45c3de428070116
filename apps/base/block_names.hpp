// Formats the names under which tables list a module or parameter once for all transformer blocks that contain it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/number.hpp"

namespace troupe::apps {

/// Returns a name such as "transformer.h.*.attn.c_attn.weight": replaces each number between points by `*`.
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

/// Returns one name, such as "transformer.h.{1,10-12}.attn.c_attn", for names that differ only in their block numbers,
/// which ascend.
inline std::string for_blocks(const std::vector<std::string>& names) {
  const std::string shown = for_all_blocks(names.front());
  const size_t star = shown.find('*');
  if (star == std::string::npos) return shown;
  const auto number_at = [star](std::string_view name) {
    name.remove_prefix(star);
    return core::take_number<uint64_t>(name);
  };
  std::string numbers;
  for (size_t i = 0; i < names.size();) {
    const auto first = number_at(names[i]);
    if (!numbers.empty()) numbers += ',';
    if (!first) {  // digits beyond 64 bits are shown as they are
      const std::string rest = names[i++].substr(star);
      numbers += rest.substr(0, rest.find('.'));
      continue;
    }
    uint64_t last = *first;
    while (++i < names.size() && last != UINT64_MAX && number_at(names[i]) == last + 1) ++last;
    numbers += fmt::to_string(*first);
    if (last > *first) numbers += fmt::format("-{}", last);
  }
  return shown.substr(0, star) + "{" + numbers + "}" + shown.substr(star + 1);
}

}  // namespace troupe::apps
