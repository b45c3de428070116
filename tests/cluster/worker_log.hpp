// What the worker's log says of a job's terms, and a job that may have any number of ranks.
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

/// All of a file; empty where there is none.
inline std::string text_of(const std::filesystem::path& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}

/// Data ranks of the terms, one after the other.
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
