// Owns how the processes of a machine learn the name under which the user knows the job's file: an agent passes them
// the text in memory, whose path is meaningless to a user. Leaves the text to agent.hpp.
#pragma once

#include <cstdlib>
#include <string>

namespace troupe::cluster {

/// Environment variable with the job's configuration file as PATH:NAME. PATH: where programs open the file; NAME: the
/// path that the user gave, for messages.
inline constexpr const char* file_name_variable = "TROUPE_FILE";

/// Tells programs that are started from now on, by the environment, that the user knows the file at `path` as `name`.
inline void name_job_file(const std::string& path, const std::string& name) {
  ::setenv(file_name_variable, (path + ":" + name).c_str(), 1);
}

/// Returns the path by which the user knows the file at `path`; empty if the user knows it by `path` itself.
inline std::string name_of_job_file(const std::string& path) {
  const char* const said = std::getenv(file_name_variable);
  const std::string text = said == nullptr ? "" : said, head = path + ":";
  return text.starts_with(head) ? text.substr(head.size()) : std::string();
}

}  // namespace troupe::cluster
