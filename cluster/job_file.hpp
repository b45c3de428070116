// The job's file as an agent gives it to its machine's processes: text in memory, under a path that says nothing to
// people. Owns how they are told the name that the user knows; the text is agent.hpp's.
#pragma once

#include <cstdlib>
#include <string>

namespace troupe::cluster {

/// In the environment: PATH:NAME.
inline constexpr const char* file_name_variable = "TROUPE_FILE";

/// Programs started from now on know it.
inline void name_job_file(const std::string& path, const std::string& name) {
  ::setenv(file_name_variable, (path + ":" + name).c_str(), 1);
}

/// The user's name for what is read from `path`; empty where that is the name.
inline std::string name_of_job_file(const std::string& path) {
  const char* const said = std::getenv(file_name_variable);
  const std::string text = said == nullptr ? "" : said, head = path + ":";
  return text.starts_with(head) ? text.substr(head.size()) : std::string();
}

}  // namespace troupe::cluster
