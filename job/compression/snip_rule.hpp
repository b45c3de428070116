// How snip_momentum prunes one weight: its blocks and its schedule, out of a configuration. Owns the choice; the rule
// is kernels/compress/snip_momentum.hpp's.
#pragma once

#include <cstdint>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "kernels/compress/snip_momentum.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::job {

/// Of all weights of a run: a checkpoint's manifest holds their scores as text, eight digits each, and is at most
/// 256 MiB.
inline constexpr uint64_t max_snip_elements = 30'000'000;

struct snip_rule {  ///< steps are updates that have been applied
  kernels::pruned_matrix matrix;
  kernels::prune_schedule schedule;
};

/// `ratio`: the share that stays in the end. Refused: a block that is none or does not divide the weight, an end before
/// the begin.
core::result<snip_rule> snip_rule_of(const config::pruning_section& section, double ratio,
                                     const kernels::masked_matrix& weight);

}  // namespace troupe::job
