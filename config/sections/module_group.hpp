// A group of modules that a compression technique treats alike.
#pragma once

#include <string>
#include <vector>

namespace troupe::config {

struct module_group {  ///< a group of modules: an entry of `different_groups`
  std::string name;
  std::vector<std::string> modules;  ///< RE2 patterns that are searched in modules' names; "*": all
  std::string where;                 ///< file and line of the group
};

}  // namespace troupe::config
