// Reads the log that workers write about a job's terms, and defines the rule of a job that may have any number of
// ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "core/error.hpp"

namespace troupe::tests {

inline core::result<uint32_t> any_number(uint32_t ranks) {
  if (ranks == 0) return core::fail(core::error_kind::peer_lost, "no rank is left");
  return ranks;
}

/// Returns the content of a file; empty if the file does not exist.
inline std::string text_of(const std::filesystem::path& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

/// Returns the data-parallel degrees of the terms in a log, in order, separated by spaces.
inline std::string degrees(const std::string& terms) {
  std::istringstream in(terms);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(": ");
    out += (out.empty() ? "" : " ") + line.substr(at + 2, line.find(" at ") - at - 2);
  }
  return out;
}

}  // namespace troupe::tests
