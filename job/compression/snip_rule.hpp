// Reads from a configuration how snip_momentum prunes one weight: the shape of the blocks of elements that are removed
// together, and the schedule. kernels/compress/snip_momentum.hpp implements the rule.
#pragma once

#include <cstdint>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "kernels/compress/snip_momentum.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::job {

/// Largest number of elements in all weights of a run that snip_momentum prunes: a checkpoint's manifest stores their
/// scores as text, eight digits each, and has at most 256 MiB.
inline constexpr uint64_t max_snip_elements = 30'000'000;

struct snip_rule {  ///< how snip_momentum prunes one weight; the schedule counts applied updates
  kernels::pruned_matrix matrix;
  kernels::prune_schedule schedule;
};

/// Returns the rule for one weight. `ratio`: the fraction of the weight's elements that finally remains. Refused: an
/// invalid block or one that does not divide the weight, an end before the begin.
inline core::result<snip_rule> snip_rule_of(const config::pruning_section& section, double ratio,
                                            const kernels::masked_matrix& weight) {
  TROUPE_ASSIGN(const auto block, kernels::prune_block_from(section.block_pattern));
  snip_rule out{{weight.rows, weight.columns, block}, {}};
  out.schedule = {ratio, section.schedule_offset, section.schedule_end.value_or(section.schedule_offset),
                  section.schedule_stride};
  TROUPE_TRY(kernels::check(out.matrix));
  TROUPE_TRY(kernels::check(out.schedule));
  return out;
}

}  // namespace troupe::job
