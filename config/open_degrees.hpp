// Finds the degrees of `parallel` that a file leaves to the run: the axes that are `auto`, and every way to divide the
// ranks over them. Owns the order of these divisions (*ways*) and the refusals of files that leave no choice. load.cpp
// checks each way by the rules for a file with these numbers; job/degrees.hpp computes its cost.
#pragma once

#include <string>
#include <vector>

#include "config/rules/settings.hpp"

namespace troupe::config {

/// An axis of parallelism whose degree may be `auto`: its key and its field.
struct degree_key {
  std::string_view key;
  uint32_t parallel_section::*degree;
  [[nodiscard]] std::string_view name() const { return key.substr(key.find('.') + 1); }
};

/// Returns the degrees above 1 as text, such as "pipeline 2 x data 2"; "1 rank" if there are none.
std::string degrees_text(const parallel_section& parallel);

/// The open degrees of a job, and all divisions of its ranks over them; `ways` is empty if no degree is open.
struct open_degrees {
  /// Axes whose degree is `auto`; also the data axis, if it is not given while another axis is `auto`.
  std::vector<const degree_key*> keys;
  std::vector<std::vector<uint32_t>> ways;  ///< [division][index in `keys`]: degree; most preferred division first
};

/// Finds the open degrees of a job whose values are stored but not resolved. Reports as errors: `auto` without a
/// number of ranks; a number of ranks that the other degrees do not divide, or that leaves no choice; data ranks that
/// would change the size of a step's batch. After an error the degrees count as refused.
open_degrees find_open(settings& given, const job_config& config, reporter& report);

/// Returns `given` with the degrees of division `way` in place of `auto`.
settings with_way(settings given, const open_degrees& open, size_t way);

}  // namespace troupe::config
