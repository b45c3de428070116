#include "config/sections/run_config.hpp"

#include <fmt/format.h>

#include <string_view>

namespace troupe::config {

std::string checkpoint_section::tag_of(uint64_t step) const {
  constexpr std::string_view place = "{step}";
  std::string out;
  for (std::string_view rest = tag; !rest.empty();) {
    const bool here = rest.starts_with(place);
    out += here ? fmt::to_string(step) : std::string(1, rest.front());
    rest.remove_prefix(here ? place.size() : 1);
  }
  return out;
}

}  // namespace troupe::config
