// Modules that a technique of compression treats alike.
#pragma once

#include <string>
#include <vector>

namespace troupe::config {

struct module_group {  ///< one of `different_groups`
  std::string name;
  std::vector<std::string> modules;  ///< RE2 patterns that are searched in modules' names; "*": all
  std::string where;                 ///< file and line
};

}  // namespace troupe::config
