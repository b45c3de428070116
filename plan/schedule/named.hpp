// Owns the one table of the schedules that have a name. The rule of each schedule is declared in order.hpp; 1F1B and
// the zero-bubble schedules share interleaved.cpp, the others have a file each.
#pragma once

#include <span>
#include <string_view>

#include "core/error.hpp"
#include "plan/schedule/order.hpp"

namespace troupe::plan {

/// The definition of a named schedule, which applies to pipelines of any size.
struct named_schedule {
  /// `other_name`: the spelling of PyTorch or Megatron, if it differs.
  std::string_view name, other_name;
  std::string_view summary;  ///< description of the schedule in one line, for lists of schedules
  std::vector<action> (*order)(const pipeline_shape& s, uint32_t rank) = nullptr;
  stage_placement placement = stage_placement::round_robin;
  uint32_t chunks = 0;  ///< number of stages that each rank must have; 0: any number
};

/// Returns all named schedules, in the order in which pages and errors list them.
std::span<const named_schedule> named_schedules();

/// Returns the schedule with this name. Case, `_` and `-` make no difference, so PyTorch's spelling is found, too.
/// Errors (bad_input): no such schedule; the error lists all names.
core::result<const named_schedule*> find_schedule(std::string_view name);

/// Returns the pipeline table of this schedule for a pipeline of this size. Tests check the tables with find_fault();
/// this function does not.
/// Errors (bad_input): a count of 0, another number of chunks than the schedule has, a group below the number of ranks;
/// (limit): more than max_stage_micro_batches.
core::result<pipeline_table> make_table(const named_schedule& schedule, const pipeline_shape& s);

}  // namespace troupe::plan
