#include "config/sections/step_counts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/sections/job_config.hpp"

namespace troupe::config {
namespace {

constexpr const char* ramp_key = "data.rampup_batch_size";
constexpr const char* managed_key = "managed_gradient_accumulation";

/// Number of samples of a micro-batch on all data ranks.
uint64_t global_rows(const job_config& c) { return c.train_micro_batch_size_per_gpu * c.parallel.data; }

std::optional<count_problem> ramp_problem(const job_config& c) {
  const auto& ramp = c.data.rampup_batch_size;
  const uint64_t first = ramp[0], added = ramp[1], samples = ramp[2], part = global_rows(c);
  if (first >= c.train_batch_size)
    return count_problem{
        ramp_key, fmt::format("wanted a first batch below train_batch_size, {}, got {}", c.train_batch_size, first)};
  for (const auto& [what, rows] : {std::pair("first batch", first), {"increment", added}})
    if (rows % part != 0)
      return count_problem{ramp_key,
                           fmt::format("wanted a multiple of train_micro_batch_size_per_gpu x parallel.data, {}, as "
                                       "the {}, got {}",
                                       part, what, rows)};
  const uint64_t grows = c.train_batch_size - first;
  if (grows % added != 0)
    return count_problem{ramp_key, fmt::format("wanted an increment that divides the growth of the batch from {} to "
                                               "{}, got {}",
                                               first, c.train_batch_size, added)};
  if (uint64_t product = 0; __builtin_mul_overflow(samples, grows / added + 1, &product))
    return count_problem{ramp_key, fmt::format("wanted fewer samples or fewer increments, got {} samples and {} "
                                               "increments",
                                               samples, grows / added)};
  if (c.elasticity.enabled)
    return count_problem{ramp_key,
                         "cannot be combined with elasticity.enabled, whose micro-batches follow from the "
                         "degree; remove one of the two"};
  return std::nullopt;
}

}  // namespace

bool has_other_counts(const job_config& c) {
  return !c.data.rampup_batch_size.empty() || !c.managed_gradient_accumulation;
}

std::vector<uint32_t> other_step_counts(const job_config& c) {
  std::vector<uint32_t> out;
  const uint64_t most = c.gradient_accumulation_steps;
  if (const auto& ramp = c.data.rampup_batch_size; !ramp.empty())
    for (uint64_t rows = ramp[0]; rows < c.train_batch_size; rows += ramp[1])
      out.push_back(static_cast<uint32_t>(rows / global_rows(c)));
  if (!c.managed_gradient_accumulation)
    for (uint64_t count = 1; count < most; count *= 2) out.push_back(static_cast<uint32_t>(count));
  std::ranges::sort(out);
  const auto repeated = std::ranges::unique(out);
  out.erase(repeated.begin(), repeated.end());
  return out;
}

std::optional<count_problem> find_count_problem(const job_config& c) {
  if (!has_other_counts(c)) return std::nullopt;
  const char* const own = c.data.rampup_batch_size.empty() ? managed_key : ramp_key;
  if (!c.open_degrees.empty())
    return count_problem{own, "cannot be combined with degrees that the run chooses; give the degrees of parallel"};
  if (!c.data.rampup_batch_size.empty())
    if (auto found = ramp_problem(c)) return found;
  if (c.compile.enabled)
    return count_problem{own,
                         "cannot be combined with compile.deepcompile, which chooses the plan of one number of "
                         "micro-batches; set it to false"};
  if (c.zero_optimization.zenflow.enabled)
    return count_problem{own,
                         "cannot be combined with zero_optimization.zenflow, which adds up gradients of several "
                         "steps; remove one of the two"};
  if (!c.pipeline.schedule_file.empty() || c.pipeline.schedule == "search")
    return count_problem{own,
                         "cannot be combined with a pipeline.schedule for one number of micro-batches; name one "
                         "of Troupe's schedules"};
  const bool sums_micro_first = c.order == gradient_order::per_step;
  if (c.order != gradient_order::automatic && sums_micro_first != (c.zero_optimization.stage <= 1))
    return count_problem{own,
                         fmt::format("wanted gradient_order: automatic, because steps of one micro-batch have "
                                     "another order at stage {}, got {}",
                                     c.zero_optimization.stage, sums_micro_first ? "per_step" : "per_micro_batch")};
  return std::nullopt;
}

}  // namespace troupe::config
