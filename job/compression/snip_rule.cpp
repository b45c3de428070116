#include "job/compression/snip_rule.hpp"

namespace troupe::job {

core::result<snip_rule> snip_rule_of(const config::pruning_section& section, double ratio,
                                     const kernels::masked_matrix& weight) {
  const auto block = kernels::prune_block_from(section.block_pattern);
  if (!block) return core::fail(block.error());
  snip_rule out{{weight.rows, weight.columns, *block}, {}};
  out.schedule = {ratio, section.schedule_offset, section.schedule_end.value_or(section.schedule_offset),
                  section.schedule_stride};
  if (auto ok = kernels::check(out.matrix); !ok) return core::fail(ok.error());
  if (auto ok = kernels::check(out.schedule); !ok) return core::fail(ok.error());
  return out;
}

}  // namespace troupe::job
