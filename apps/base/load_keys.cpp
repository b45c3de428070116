#include "apps/base/load_keys.hpp"

#include <string_view>

namespace troupe::apps {

std::vector<std::string> load_keys_by_hand(const config::loaded& c) {
  constexpr std::string_view section = "checkpoint.load.", by_hand = "--set ";
  std::vector<std::string> out;
  for (const auto& v : c.values)
    if (v.key.starts_with(section) && v.origin.starts_with(by_hand)) out.push_back(v.key.substr(section.size()));
  return out;
}

}  // namespace troupe::apps
