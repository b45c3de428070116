#include "job/compression/snip_rule.hpp"

namespace troupe::job {

core::result<snip_rule> snip_rule_of(const config::pruning_section& section, double ratio,
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
