#include "config/sections/compile_config.hpp"

#include <algorithm>
#include <string_view>

#include "config/sections/unit_passes.hpp"

namespace troupe::config {

bool is_in_every_plan(const std::string& pass) {
  constexpr std::string_view names[] = {"z1", "z3", "autosp", "autotp"};
  return std::ranges::find(names, pass) != std::end(names);
}

bool changes_units(const std::string& pass) { return pass == "fuse_activation"; }
bool places_states(const std::string& pass) { return pass == "offload_optimizer"; }

std::vector<compile_entry> compile_section::entries() const {
  if (!enabled) return {};
  std::vector<compile_entry> out = schedule;
  if (out.empty()) out = {{0, passes, where}};
  for (auto& entry : out) std::erase_if(entry.passes, is_in_every_plan);
  return out;
}

}  // namespace troupe::config
