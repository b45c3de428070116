// The schedules that have a name. Owns the one table of them; what each does stands in order.hpp and a file of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "plan/schedule/order.hpp"

namespace troupe::plan {

/// One schedule, for any size of a pipeline.
struct named_schedule {
  std::string_view name, other_name;  ///< the second as PyTorch or Megatron spell it, where that differs
  std::string_view summary;           ///< a line for lists of schedules
  std::vector<action> (*order)(const pipeline_shape& s, uint32_t rank) = nullptr;
  stage_placement placement = stage_placement::round_robin;
  uint32_t chunks = 0;  ///< stages a rank must have; 0: any number
  bool splits_backward = false;
};

/// All of them, in the order in which pages and errors list them.
std::span<const named_schedule> named_schedules();

/// The schedule of that name. Case, `_` and `-` make no difference, so PyTorch's spelling finds it too. Errors
/// (bad_input): no such schedule; lists those that there are.
core::result<const named_schedule*> find_schedule(std::string_view name);

/// What every rank does. Proved by tests, not here. Errors (bad_input): a count of 0, another number of chunks than the
/// schedule has, a group below the ranks; (limit): more than max_stage_micro_batches.
core::result<pipeline_table> make_table(const named_schedule& schedule, const pipeline_shape& s);

}  // namespace troupe::plan
