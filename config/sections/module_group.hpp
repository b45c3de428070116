// A group of modules that a compression technique treats alike.
#pragma once

#include <string>
#include <vector>

namespace troupe::config {

struct module_group {  ///< a group of modules: an entry of `different_groups`
  std::string name;
  std::vector<std::string> modules;  ///< patterns (RE2) that are searched in the names of modules; "*": all modules
  std::string where;                 ///< file and line of the group
};

}  // namespace troupe::config
