// Degrees of `parallel` that a file leaves to the run: which axes are `auto`, and every way to share the ranks out
// among them. Owns the order of these ways and the refusals of what leaves no choice; whether a way is a job that can
// run is said by the same rules as of a file that has its numbers (load.cpp), what it costs by job/degrees.hpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/rules/settings.hpp"

namespace troupe::config {

/// An axis whose degree may be `auto`.
struct degree_key {
  std::string_view key;
  uint32_t parallel_section::*degree;
  [[nodiscard]] std::string_view name() const { return key.substr(key.find('.') + 1); }
};

/// In the order in which ways are compared: of two, the one with less at the first key that differs comes first. So
/// data ranks come before all others, and pipelines last.
std::span<const degree_key> degree_keys();

/// "pipeline 2 x data 2": degrees above 1; "1 rank".
std::string degrees_text(const parallel_section& parallel);

/// Degrees that are open; `ways` is empty where none is.
struct open_degrees {
  std::vector<const degree_key*> keys;      ///< those that are `auto`, and data where it is not given beside one
  std::vector<std::vector<uint32_t>> ways;  ///< [way][key]: in the order of degree_keys
};

/// Of a job whose values are stored but not resolved. Reports: `auto` without ranks, ranks that the other degrees do
/// not divide or that leave nothing to share out, data ranks that would change the size of a step's batch; then the
/// degrees count as refused.
open_degrees find_open(settings& given, const job_config& config, reporter& report);

/// What `given` says, with the numbers of a way in place of `auto`.
settings with_way(settings given, const open_degrees& open, size_t way);

}  // namespace troupe::config
